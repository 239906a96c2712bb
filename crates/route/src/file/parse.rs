//! Parses a rule file.

use std::str::FromStr;

use nacre_object::{Error, Result};

use super::{Grant, Insertion, Location, Routes, Topology};
use crate::limits::{MAX_FILE_BYTES, MAX_LINE_BYTES, MAX_SWITCHES};
use crate::model::{
    Destination, Header, ObjectMatch, Rule, SourceMatch, Span, SwitchName, declare, text,
};

/// The first line of every file, with the version of the format.
pub const FIRST_LINE: &str = "nacre routes 1";

impl FromStr for Routes {
    type Err = Error;

    /// Parses a rule file.
    ///
    /// # Errors
    /// `Invalid`, with the number and the mistake of the wrong line.
    fn from_str(file: &str) -> Result<Self> {
        Self::on(Topology::default(), file)
    }
}

impl Routes {
    /// Parses a rule file for a network (`topology`) that the file may extend.
    ///
    /// # Errors
    /// `Invalid`, with the number of the wrong line and what is wrong with it.
    pub fn on(topology: Topology, file: &str) -> Result<Self> {
        if file.len() > MAX_FILE_BYTES {
            return Err(Error::invalid(format!(
                "the rule file has more than {MAX_FILE_BYTES} bytes"
            ))
            .hint("replace many rules by one for a prefix or a longer range"));
        }
        let mut routes = Self { topology, ..Self::default() };
        let mut is_begun = false;
        for (at, line) in file.lines().enumerate() {
            let read = read_line(&mut routes, &mut is_begun, line);
            read.map_err(|error| on_line(&error, at + 1))?;
        }
        match is_begun {
            true => Ok(routes),
            false => Err(Error::invalid("the rule file is empty").hint(FIRST_LINE_HINT)),
        }
    }
}

const FIRST_LINE_HINT: &str = "begin it with the line: nacre routes 1";

fn on_line(error: &Error, number: usize) -> Error {
    let told = Error::new(error.kind(), format!("line {number}: {}", error.message()));
    match error.hint_text() {
        Some(hint) => told.hint(hint),
        None => told,
    }
}

fn read_line(routes: &mut Routes, is_begun: &mut bool, line: &str) -> Result<()> {
    if line.len() > MAX_LINE_BYTES {
        return Err(Error::invalid(format!("the line has more than {MAX_LINE_BYTES} bytes"))
            .hint("write one statement or rule in each line"));
    }
    let words = text::words(line);
    if words.is_empty() {
        return Ok(());
    }
    if !*is_begun {
        *is_begun = words == FIRST_LINE.split(' ').collect::<Vec<_>>();
        return match is_begun {
            true => Ok(()),
            false => Err(Error::invalid(format!(
                "the file begins with {:?}, and this release reads only files of version 1",
                shortened(&words)
            ))
            .hint(FIRST_LINE_HINT)),
        };
    }
    if line.starts_with(char::is_whitespace) {
        return read_rule(routes, &words);
    }
    read_statement(routes, &words)
}

fn read_rule(routes: &mut Routes, words: &[&str]) -> Result<()> {
    let Some(insertion) = routes.insertions.last_mut() else {
        return Err(Error::invalid("the rule belongs to no application").hint(
            "put a line \"application NAME on SWITCH\" before it; only rules begin with a space",
        ));
    };
    insertion.rules.push(Rule::parse(&insertion.application, words)?);
    Ok(())
}

fn read_statement(routes: &mut Routes, words: &[&str]) -> Result<()> {
    let topology = &mut routes.topology;
    let is_new = match words {
        ["pool", name] => topology.pools.insert(name.parse()?),
        ["pool", name, "of", tenant] => {
            topology.tenants.insert(name.parse()?, tenant.parse()?);
            topology.pools.insert(name.parse()?)
        }
        ["target", name] => topology.targets.insert(name.parse()?),
        ["link", target] => topology.links.insert(target.parse()?),
        ["promise", tenant, "at", targets] => {
            let targets = targets.split(',').map(str::parse).collect::<Result<_>>()?;
            topology.promises.insert(tenant.parse()?, targets).is_none()
        }
        ["layer", name] => topology.layers.insert(name.parse()?, None).is_none(),
        ["layer", name, "write-through", to @ ..] => {
            topology.write_through.insert(name.parse()?);
            return read_statement(routes, &[&["layer", *name], to].concat());
        }
        ["layer", name, "to", switch] => {
            let switch = known_switch(routes, switch)?;
            routes.topology.layers.insert(name.parse()?, Some(switch)).is_none()
        }
        ["program", name, "to", destination @ ..] => {
            let declared = topology.programs.entry(name.parse()?).or_default();
            match Destination::parse(destination)? {
                (destination, []) => declare(declared, destination)?,
                _ => {
                    return Err(Error::invalid("a declared destination cannot have options")
                        .hint("put the options into the rule that names the program"));
                }
            }
            true
        }
        ["switch", name, "at", location @ ..] => {
            let name: SwitchName = name.parse()?;
            let is_new = !topology.has_switch(&name);
            topology.switches.push((name, parse_location(location)?));
            if topology.switches.len() > MAX_SWITCHES {
                return Err(Error::invalid(format!(
                    "the file defines more than {MAX_SWITCHES} switches"
                ))
                .hint("let one switch serve all sources: switch NAME at source *"));
            }
            is_new
        }
        ["reserved", prefix] => {
            routes.reserved.push(ObjectMatch::parse(prefix)?);
            true
        }
        ["grant", header @ ..] => {
            routes.grants.push(parse_grant(header)?);
            true
        }
        ["application", application, "on", switch] => {
            let (switch, application) = (known_switch(routes, switch)?, application.parse()?);
            routes.insertions.push(Insertion { application, switch, rules: vec![] });
            true
        }
        _ => {
            let hint = if words.contains(&"->") { RULE_HINT } else { HINT };
            let text = format!("{:?} is no valid line", shortened(words));
            return Err(Error::invalid(text).hint(hint));
        }
    };
    match is_new {
        true => Ok(()),
        false => Err(Error::invalid(format!("{} {} is defined already", words[0], words[1]))
            .hint("leave this line out")),
    }
}

/// The words of a line, or its beginning if it is long.
fn shortened(words: &[&str]) -> String {
    /// The most characters.
    const LENGTH: usize = 80;
    let line = words.join(" ");
    match line.char_indices().nth(LENGTH) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line,
    }
}

const RULE_HINT: &str = "begin a rule with a space, and put it under the line of its application";

const HINT: &str = "write one of: pool NAME [of TENANT], target NAME, promise TENANT at TARGET,TARGET, link TARGET, layer NAME [write-through] [to SWITCH], switch NAME at PLACE, \
    program NAME to DESTINATION, \
    reserved PREFIX*, grant SOURCE OPERATIONS OBJECT, application NAME on SWITCH; \
    or a rule, which begins with a space";

fn known_switch(routes: &Routes, name: &str) -> Result<SwitchName> {
    /// The most names in a hint.
    const MAX_NAMED: usize = 16;
    let (name, switches): (SwitchName, _) = (name.parse()?, &routes.topology.switches);
    if routes.topology.has_switch(&name) {
        return Ok(name);
    }
    let known: Vec<_> = switches.iter().take(MAX_NAMED).map(|(known, _)| known.as_str()).collect();
    let more = if switches.len() > MAX_NAMED { ", …" } else { "" };
    let hint = match known.is_empty() {
        true => format!("put a line \"switch {name} at source *\" before it"),
        false => format!("name one of {}{more}", known.join(", ")),
    };
    Err(Error::invalid(format!("there is no switch {name}")).hint(hint))
}

fn parse_location(words: &[&str]) -> Result<Location> {
    match words {
        ["source", source] => match SourceMatch::parse(source)? {
            SourceMatch::Layer(_) => Err(Error::invalid("no IO begins at a layer")
                .hint("write \"switch NAME at layer\", and \"layer NAME to SWITCH\"")),
            source => Ok(Location::Source(source)),
        },
        ["target", name] => Ok(Location::Target(name.parse()?)),
        ["pool", name] => Ok(Location::Pool(name.parse()?)),
        ["layer"] => Ok(Location::Layer),
        _ => Err(Error::invalid(format!("{:?} is no location of a switch", words.join(" ")))
            .hint("write source SOURCE, target NAME, pool NAME or layer")),
    }
}

fn parse_grant(words: &[&str]) -> Result<Grant> {
    let Header { source, operations, object, span, .. } = Header::parse(words)?;
    if span != Span::WHOLE {
        return Err(Error::invalid("a grant is for whole objects").hint("leave the range out"));
    }
    if matches!(source, SourceMatch::Layer(_)) {
        return Err(Error::invalid("a layer has no rights of its own")
            .hint("name an entity or a tenant, or write *"));
    }
    Ok(Grant { source, operations, object })
}
