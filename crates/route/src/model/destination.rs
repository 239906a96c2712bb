//! Where a rule sends an IO.

use std::fmt;

use nacre_object::{Error, ObjectId, PoolName, ProgramName, Result, SnapshotName, TargetName};

use super::LayerName;
use super::text;
use crate::limits::{
    MAX_SCATTER_TARGETS, MAX_SNAPSHOT_NAME_BYTES, MAX_SNAPSHOT_NAMES, MAX_VERSIONS,
};

/// How many of several copies an IO goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Take {
    /// One.
    One,
    /// All.
    All,
    /// More than half.
    Quorum,
}

/// Which of the copies an IO goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Choice {
    /// A random one for each IO.
    Random,
    /// The targets with the least load.
    LeastLoaded,
    /// The targets nearest to the switch.
    Nearest,
}

/// A choice among several copies (*scatter routing*, sRoute paper, section 2).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Scatter {
    /// How many copies.
    pub take: Take,
    /// Which of them, unless the IO goes to all.
    pub choice: Choice,
    /// The targets that keep a copy.
    pub among: Vec<TargetName>,
}

impl Scatter {
    /// To how many copies an IO goes.
    pub fn count(&self) -> usize {
        match self.take {
            Take::One => 1,
            Take::All => self.among.len(),
            Take::Quorum => self.among.len() / 2 + 1,
        }
    }
}

/// Where the fragments of erasure-coded objects lie.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Erasure {
    /// How many fragments of an object suffice to compute its bytes.
    pub needed: usize,
    /// The targets. Each keeps one fragment of an object.
    pub among: Vec<TargetName>,
}

/// What the switch sends to the controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Ask {
    /// The header. The switch keeps the IO until the controller answers with a destination.
    Header,
    /// The IO with its data.
    Whole,
}

/// Where an IO goes next.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Destination {
    /// To its object, where the object lies if no rule matches.
    Home,
    /// To another object.
    Object(ObjectId),
    /// To the object of the same name in another pool.
    Pool(PoolName),
    /// To the object of the same name at this target.
    Target(TargetName),
    /// To where it was going, but past this layer.
    Bypass(LayerName),
    /// To its object. Before a change, the home keeps the present state of the object as a version;
    /// it keeps this many of them.
    Versions(u32),
    /// To its object. Before the object's first change since the last of these names was put, the home
    /// keeps the object's state under that name.
    Snapshots(Vec<SnapshotName>),
    /// To this layer, which sends it back to a switch afterwards.
    Waypoint(LayerName),
    /// To some of several copies.
    Scatter(Scatter),
    /// To its object. When the object has not changed for a while, the home divides its bytes into
    /// erasure-coded fragments, and keeps the bytes no longer.
    Erasure(Erasure),
    /// To the controller.
    Controller(Ask),
    /// To a destination that this program chooses from its declared list (a *delegate* in the
    /// sRoute paper).
    Program(ProgramName),
}

impl Destination {
    /// Parses the words after `->`. Returns the destination and the remaining words, which are the
    /// options.
    ///
    /// # Errors
    /// `Invalid` if the words do not begin with a destination.
    pub fn parse<'a>(words: &'a [&'a str]) -> Result<(Self, &'a [&'a str])> {
        let [kind, rest @ ..] = words else {
            return Err(Error::invalid("a rule has no destination").hint(HINT));
        };
        if *kind == "home" {
            return Ok((Self::Home, rest));
        }
        let take = match *kind {
            "one" => Some(Take::One),
            "all" => Some(Take::All),
            "quorum" => Some(Take::Quorum),
            _ => None,
        };
        let [what, left @ ..] = rest else {
            return Err(Error::invalid(format!("{kind:?} alone is no destination")).hint(HINT));
        };
        if let Some(take) = take {
            return parse_scatter(take, what, left);
        }
        if *kind == "erasure" {
            return parse_erasure(what, left);
        }
        let destination = match *kind {
            "object" => Self::Object(text::unescape(what)?.parse()?),
            "pool" => Self::Pool(what.parse()?),
            "target" => Self::Target(what.parse()?),
            "bypass" => Self::Bypass(what.parse()?),
            "versions" => Self::Versions(parse_versions(what)?),
            "snapshots" => Self::Snapshots(parse_snapshots(what)?),
            "waypoint" => Self::Waypoint(what.parse()?),
            "controller" if *what == "header" => Self::Controller(Ask::Header),
            "controller" if *what == "whole" => Self::Controller(Ask::Whole),
            "program" => Self::Program(what.parse()?),
            _ => {
                let message = format!("{:?} is no destination", format!("{kind} {what}"));
                return Err(Error::invalid(message).hint(HINT));
            }
        };
        Ok((destination, left))
    }

    /// Whether the home keeps fragments in place of the bytes.
    pub fn is_erasure(&self) -> bool {
        matches!(self, Self::Erasure(_))
    }

    /// The program that chooses the destination, if there is one.
    pub fn program(&self) -> Option<&ProgramName> {
        match self {
            Self::Program(name) => Some(name),
            _ => None,
        }
    }

    /// The program of the waypoint to which it leads, if it leads to one.
    pub fn waypoint_program(&self) -> Option<ProgramName> {
        match self {
            // Both kinds of names follow the same rules.
            Self::Waypoint(layer) => ProgramName::new(layer.as_str()).ok(),
            _ => None,
        }
    }

    /// The destinations at which an IO with this destination may end. A program may choose any
    /// destination that it declares; an unknown program declares none.
    pub fn possible<'a>(
        &'a self,
        declared: impl FnOnce(&ProgramName) -> Option<&'a [Self]>,
    ) -> &'a [Self] {
        match self {
            Self::Program(name) => declared(name).unwrap_or_default(),
            one => std::slice::from_ref(one),
        }
    }

    /// Parses a line that is a destination.
    ///
    /// # Errors
    /// `Invalid` if the line is no destination, or has further words.
    pub fn from_line(line: &str) -> Result<Self> {
        let words = text::words(line);
        match Self::parse(&words)? {
            (destination, []) => Ok(destination),
            _ => Err(Error::invalid(format!("{line:?} is no destination")).hint(HINT)),
        }
    }
}

const HINT: &str = "write home, object POOL/NAME, pool POOL, target TARGET, bypass LAYER, versions N, snapshots NAME,NAME, waypoint LAYER, \
    one|all|quorum TARGET,TARGET [random|least-loaded|nearest], erasure NEEDED TARGET,TARGET, controller header|whole, or program NAME";

fn parse_versions(text: &str) -> Result<u32> {
    let count = text.parse().ok().filter(|count| (1..=MAX_VERSIONS).contains(count));
    count.ok_or_else(|| {
        Error::invalid(format!("{text:?} is no number of versions"))
            .hint(format!("write a number from 1 to {MAX_VERSIONS}"))
    })
}

fn parse_snapshots(text: &str) -> Result<Vec<SnapshotName>> {
    let names: Vec<SnapshotName> = text.split(',').map(str::parse).collect::<Result<_>>()?;
    if names.len() > MAX_SNAPSHOT_NAMES {
        return Err(Error::invalid(format!("a rule keeps {} snapshots", names.len()))
            .hint(format!("name {MAX_SNAPSHOT_NAMES} at most")));
    }
    if let Some(long) = names.iter().find(|name| name.as_str().len() > MAX_SNAPSHOT_NAME_BYTES) {
        return Err(Error::invalid(format!("the snapshot name {long} is too long"))
            .hint(format!("use {MAX_SNAPSHOT_NAME_BYTES} characters at most")));
    }
    match names.iter().enumerate().find(|(at, name)| names[..*at].contains(name)) {
        None => Ok(names),
        Some((_, twice)) => Err(Error::invalid(format!("a rule names the snapshot {twice} twice"))
            .hint("name each snapshot once, the newest last")),
    }
}

fn parse_targets(targets: &str) -> Result<Vec<TargetName>> {
    let among: Vec<TargetName> = targets.split(',').map(str::parse).collect::<Result<_>>()?;
    if among.len() > MAX_SCATTER_TARGETS {
        return Err(Error::invalid(format!("a rule scatters among {} targets", among.len()))
            .hint(format!("name {MAX_SCATTER_TARGETS} at most")));
    }
    match among.iter().enumerate().find(|(at, name)| among[..*at].contains(name)) {
        None => Ok(among),
        Some((_, twice)) => Err(Error::invalid(format!("a rule names the target {twice} twice"))
            .hint("name each target once")),
    }
}

fn parse_erasure<'a>(needed: &str, left: &'a [&'a str]) -> Result<(Destination, &'a [&'a str])> {
    let [targets, left @ ..] = left else {
        return Err(Error::invalid("erasure names no targets").hint(HINT));
    };
    let among = parse_targets(targets)?;
    let Some(needed) = needed.parse().ok().filter(|needed| (1..among.len()).contains(needed))
    else {
        let text = format!("{needed:?} of {} fragments cannot be enough", among.len());
        return Err(Error::invalid(text)
            .hint("write how many fragments suffice, fewer than there are targets: erasure 2 TARGET,TARGET,TARGET"));
    };
    Ok((Destination::Erasure(Erasure { needed, among }), left))
}

fn parse_scatter<'a>(
    take: Take,
    targets: &str,
    left: &'a [&'a str],
) -> Result<(Destination, &'a [&'a str])> {
    let among = parse_targets(targets)?;
    let choice = match left.first().copied() {
        Some("random") => Some(Choice::Random),
        Some("least-loaded") => Some(Choice::LeastLoaded),
        Some("nearest") => Some(Choice::Nearest),
        _ => None,
    };
    let left = if choice.is_some() { &left[1..] } else { left };
    let scatter = Scatter { take, choice: choice.unwrap_or(Choice::Random), among };
    Ok((Destination::Scatter(scatter), left))
}

impl fmt::Display for Scatter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.take {
            Take::One => "one ",
            Take::All => "all ",
            Take::Quorum => "quorum ",
        })?;
        let names: Vec<_> = self.among.iter().map(TargetName::as_str).collect();
        f.write_str(&names.join(","))?;
        f.write_str(match self.choice {
            Choice::Random => " random",
            Choice::LeastLoaded => " least-loaded",
            Choice::Nearest => " nearest",
        })
    }
}

impl fmt::Display for Erasure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.among.iter().map(TargetName::as_str).collect();
        write!(f, "erasure {} {}", self.needed, names.join(","))
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Home => f.write_str("home"),
            Self::Object(object) => write!(f, "object {}", text::escape(&object.to_string())),
            Self::Pool(pool) => write!(f, "pool {pool}"),
            Self::Target(target) => write!(f, "target {target}"),
            Self::Bypass(layer) => write!(f, "bypass {layer}"),
            Self::Versions(count) => write!(f, "versions {count}"),
            Self::Snapshots(names) => {
                let names: Vec<_> = names.iter().map(SnapshotName::as_str).collect();
                write!(f, "snapshots {}", names.join(","))
            }
            Self::Waypoint(layer) => write!(f, "waypoint {layer}"),
            Self::Scatter(scatter) => scatter.fmt(f),
            Self::Erasure(erasure) => erasure.fmt(f),
            Self::Controller(Ask::Header) => f.write_str("controller header"),
            Self::Controller(Ask::Whole) => f.write_str("controller whole"),
            Self::Program(name) => write!(f, "program {name}"),
        }
    }
}
