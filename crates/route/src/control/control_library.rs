//! The functions `insert`, `delete` and `tell` of control programs.
//!
//! The changes of a run are collected. A run that fails changes nothing.

use std::cell::RefCell;
use std::rc::Rc;

use mlua::LuaString;
use nacre_object::{ApplicationName, Error, Result};
use nacre_script::{Host, Library, raise};

use super::SwitchRule;
use crate::limits::{MAX_CONTROL_RULES, MAX_TOLD, MAX_TOLD_CHARACTERS};
use crate::model::{Header, Rule, SwitchName};

/// What a run has changed so far.
#[derive(Debug)]
struct Changes {
    rules: Vec<(SwitchName, Rule)>,
    told: Vec<String>,
}

/// The functions that control programs can call. Each thread has one VM with its own changes, which
/// are `None` while no program runs.
pub(super) struct ControlLibrary(Rc<RefCell<Option<Changes>>>);

/// The name under which the rules of a run are parsed; the map stores rules without a name.
fn application() -> Result<ApplicationName> {
    ApplicationName::new("control")
}

impl ControlLibrary {
    /// Allows the program to change these rules from now on.
    ///
    /// # Errors
    /// `Invalid` if a rule is malformed.
    pub fn begin(&self, rules: &[SwitchRule]) -> Result<()> {
        let application = application()?;
        let parse =
            |one: &SwitchRule| Ok((one.switch.parse()?, Rule::from_line(&application, &one.rule)?));
        let rules = rules.iter().map(parse).collect::<Result<_>>()?;
        *self.0.borrow_mut() = Some(Changes { rules, told: vec![] });
        Ok(())
    }

    /// Returns the rules and what the program told, and allows no more changes.
    pub fn finish(&self) -> (Vec<SwitchRule>, Vec<String>) {
        let Some(Changes { rules, told }) = self.0.borrow_mut().take() else {
            return (vec![], vec![]);
        };
        let rules = rules.iter().map(|(switch, rule)| SwitchRule {
            switch: switch.to_string(),
            rule: rule.to_string(),
        });
        (rules.collect(), told)
    }
}

impl Library for ControlLibrary {
    fn install(host: &Host<'_>) -> mlua::Result<Self> {
        let changes = Rc::<RefCell<Option<Changes>>>::default();
        let own = Rc::clone(&changes);
        let insert = host.function(move |_, (switch, rule): (LuaString, LuaString)| {
            let (switch, rule) = (text(&switch)?, text(&rule)?);
            change(&own, |changes| changes.insert(&switch, &rule)).map_err(raise)
        })?;
        host.globals.raw_set("insert", insert)?;
        let own = Rc::clone(&changes);
        let delete = host.function(move |_, (switch, header): (LuaString, LuaString)| {
            let (switch, header) = (text(&switch)?, text(&header)?);
            change(&own, |changes| changes.delete(&switch, &header)).map_err(raise)
        })?;
        host.globals.raw_set("delete", delete)?;
        let own = Rc::clone(&changes);
        let tell = host.function(move |_, said: LuaString| {
            let said = said.to_string_lossy();
            change(&own, |changes| changes.tell(&said)).map_err(raise)
        })?;
        host.globals.raw_set("tell", tell)?;
        Ok(Self(changes))
    }
}

fn text(string: &LuaString) -> mlua::Result<String> {
    Ok(string.to_str().map_err(|_| raise(Error::invalid("a string is not UTF-8")))?.to_owned())
}

fn change<R>(
    changes: &RefCell<Option<Changes>>,
    make: impl FnOnce(&mut Changes) -> Result<R>,
) -> Result<R> {
    match changes.borrow_mut().as_mut() {
        Some(changes) => make(changes),
        None => Err(Error::invalid("a program can change rules only while it runs")
            .hint("call insert, delete and tell in the function `control`")),
    }
}

impl Changes {
    fn insert(&mut self, switch: &str, rule: &str) -> Result<()> {
        let (switch, rule) = (switch.parse()?, Rule::from_line(&application()?, rule)?);
        let is_same =
            |(at, own): &&mut (SwitchName, Rule)| *at == switch && own.header == rule.header;
        if let Some((_, own)) = self.rules.iter_mut().find(is_same) {
            *own = rule;
            return Ok(());
        }
        if self.rules.len() >= MAX_CONTROL_RULES {
            let text = format!("an application has {MAX_CONTROL_RULES} rules at most");
            return Err(Error::exhausted(text).hint("insert one rule for a prefix: POOL/PREFIX*"));
        }
        self.rules.push((switch, rule));
        Ok(())
    }

    fn delete(&mut self, switch: &str, header: &str) -> Result<bool> {
        let (switch, header) = (switch.parse::<SwitchName>()?, Header::from_line(header)?);
        let before = self.rules.len();
        self.rules.retain(|(at, rule)| *at != switch || rule.header != header);
        Ok(self.rules.len() < before)
    }

    fn tell(&mut self, text: &str) -> Result<()> {
        if self.told.len() >= MAX_TOLD {
            return Err(Error::exhausted(format!("a run tells {MAX_TOLD} events at most"))
                .hint("tell what has changed since the last run"));
        }
        self.told.push(text.chars().take(MAX_TOLD_CHARACTERS).collect());
        Ok(())
    }
}
