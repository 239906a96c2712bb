//! One grant: how it is written, stored and compared.
//!
//! | written | what it allows |
//! | --- | --- |
//! | `admin` | everything, also changing entities and the system pool |
//! | `RIGHTS pool=POOL [class=CLASS [method=METHOD]] [prefix=PREFIX]` | access to the objects of a pool whose names begin with PREFIX |
//! | `RIGHTS map=MAP` | access to a map |
//! | `RIGHTS program=KIND/NAME` | `r`: reading a program's source and versions; `w`: also putting and activating it |
//! | `RIGHTS log=LOG` | access to a log of the pool `log`: `a` for a producer, `r` for a reader |
//! | `x service=SERVICE [method=METHOD]` | calls of a node's service |
//! | `r events` | reading the cluster log |
//!
//! RIGHTS are letters:
//! - `r`: read, list and watch
//! - `w`: change, make and remove objects and programs
//! - `x`: call methods; a method may do to its object whatever its class does
//! - `a`: append to logs; `w` includes it
//! - `d`: delete whole logs and maps; `w` does not include it
//!
//! MAP, KIND/NAME and LOG may end in `*`. PREFIX comes last and reaches to the end of the line,
//! spaces included. A grant with a class covers only calls of that class. The class `lua` runs
//! scripts of the caller, so it needs `rwx`.

use std::fmt;
use std::str::FromStr;

use nacre_object::{ClassName, Error, MethodName, PoolName, Result};

/// A right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Right {
    /// Read, list, watch.
    Read,
    /// Change and make; remove objects and programs.
    Write,
    /// Call methods.
    Execute,
    /// Append to a log.
    Append,
    /// Delete a whole log or map.
    Delete,
}

impl Right {
    const ALL: [Right; 5] = [Self::Read, Self::Write, Self::Execute, Self::Append, Self::Delete];

    /// The letter by which a grant names it.
    pub(super) const fn letter(self) -> char {
        match self {
            Self::Read => 'r',
            Self::Write => 'w',
            Self::Execute => 'x',
            Self::Append => 'a',
            Self::Delete => 'd',
        }
    }

    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Execute => "execute",
            Self::Append => "append to",
            Self::Delete => "delete",
        }
    }
}

/// A set of rights. Written `rwxad`, or some of these letters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rights(u8);

impl Rights {
    /// Whether these rights include this one.
    pub fn has(self, right: Right) -> bool {
        self.0 & (1 << right as u8) != 0
    }

    /// Whether these rights include no others than the given ones.
    fn is_within(self, rights: &[Right]) -> bool {
        Right::ALL.into_iter().all(|right| !self.has(right) || rights.contains(&right))
    }

    fn with(self, right: Right) -> Self {
        Self(self.0 | (1 << right as u8))
    }
}

impl fmt::Display for Rights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let letters = Right::ALL.into_iter().filter(|right| self.has(*right)).map(Right::letter);
        f.write_str(&letters.collect::<String>())
    }
}

impl FromStr for Rights {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let mut rights = Self::default();
        for letter in text.chars() {
            let right = Right::ALL.into_iter().find(|right| right.letter() == letter);
            rights = rights.with(right.ok_or_else(|| not_a_grant(text, RIGHTS))?);
        }
        if rights == Self::default() {
            return Err(not_a_grant(text, RIGHTS));
        }
        Ok(rights)
    }
}

/// A name, or all names with a prefix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern(String);

impl Pattern {
    /// Whether the pattern covers this name.
    pub fn matches(&self, name: &str) -> bool {
        match self.0.strip_suffix('*') {
            Some(start) => name.starts_with(start),
            None => name == self.0,
        }
    }

    /// Whether the pattern covers every name.
    pub fn is_any(&self) -> bool {
        self.0 == "*"
    }

    fn new(text: &str) -> Result<Self> {
        let name = text.strip_suffix('*').unwrap_or(text);
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '/');
        if text.is_empty() || !name.chars().all(allowed) {
            return Err(not_a_grant(text, "write a name, or the start of names and '*'"));
        }
        Ok(Self(text.to_owned()))
    }
}

/// The things that a grant covers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    /// Objects of a pool.
    Objects {
        /// The pool; never the system pool.
        pool: PoolName,
        /// Which class may be called; `None`: any but `lua`.
        class: Option<ClassName>,
        /// The method; `None` means all methods.
        method: Option<MethodName>,
        /// How the objects' names start.
        prefix: String,
    },
    /// Maps, other than those by which nacre keeps its own things.
    Map(Pattern),
    /// Programs, by `kind/name`.
    Program(Pattern),
    /// Logs.
    Log(Pattern),
    /// A service of nodes.
    Service {
        /// Its name.
        service: String,
        /// The method; `None` means all methods.
        method: Option<String>,
    },
    /// The cluster log.
    Events,
}

/// A grant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Grant {
    /// Everything.
    Admin,
    /// Some rights on something.
    Some(Rights, Scope),
}

/// The error text for a grant that does not begin with rights.
const RIGHTS: &str = "rights are r, w, x, a and d";

fn not_a_grant(text: &str, why: &str) -> Error {
    Error::invalid(format!("{text:?} is not a grant: {why}"))
        .hint("for example 'rw pool=data', 'a log=NAME', 'r map=NAME' or 'admin'; see `nacre entity --help`")
}

/// The words `key=value` of a grant, each taken once.
struct Words<'a> {
    grant: &'a str,
    words: Vec<(&'a str, &'a str)>,
}

impl<'a> Words<'a> {
    fn split(grant: &'a str, text: &'a str) -> Result<Self> {
        let (mut text, mut words) = (text.trim_start(), Vec::new());
        while !text.is_empty() {
            if let Some(prefix) = text.strip_prefix("prefix=") {
                words.push(("prefix", prefix));
                break;
            }
            let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
            words.push(word.split_once('=').unwrap_or((word, "")));
            text = rest.trim_start();
        }
        Ok(Self { grant, words })
    }

    fn take(&mut self, key: &str) -> Option<&'a str> {
        let found = self.words.iter().position(|(word, _)| *word == key)?;
        Some(self.words.remove(found).1)
    }

    fn finish(self) -> Result<()> {
        match self.words.first() {
            None => Ok(()),
            Some((word, _)) => {
                Err(not_a_grant(self.grant, &format!("the word {word:?} is not known")))
            }
        }
    }
}

impl Scope {
    fn parse(words: &mut Words<'_>) -> Result<Self> {
        if let Some(pool) = words.take("pool") {
            let pool = PoolName::new(pool)?;
            if pool == PoolName::system() {
                return Err(not_a_grant(words.grant, "the system pool is reached with 'admin'")
                    .hint(
                        "grant maps and programs by name: 'r map=NAME', 'rw program=KIND/NAME'",
                    ));
            }
            let class = words.take("class").map(ClassName::new).transpose()?;
            let method = words.take("method").map(MethodName::new).transpose()?;
            if method.is_some() && class.is_none() {
                return Err(not_a_grant(words.grant, "a method is one of a class"));
            }
            let prefix = words.take("prefix").unwrap_or_default().to_owned();
            return Ok(Self::Objects { pool, class, method, prefix });
        }
        if let Some(map) = words.take("map") {
            return Pattern::new(map).map(Self::Map);
        }
        if let Some(program) = words.take("program") {
            return Pattern::new(program).map(Self::Program);
        }
        if let Some(log) = words.take("log") {
            return Pattern::new(log).map(Self::Log);
        }
        if let Some(service) = words.take("service") {
            let method = words.take("method").map(str::to_owned);
            return Ok(Self::Service { service: service.to_owned(), method });
        }
        if words.take("events").is_some() {
            return Ok(Self::Events);
        }
        Err(not_a_grant(words.grant, "it does not say on what"))
    }

    /// Whether these rights have a meaning for this scope.
    fn takes(&self, rights: Rights) -> bool {
        match self {
            Self::Objects { class: Some(class), .. } if class.as_str() != "lua" => {
                rights.is_within(&[Right::Execute])
            }
            Self::Objects { .. } => rights.is_within(&[Right::Read, Right::Write, Right::Execute]),
            Self::Service { .. } => rights.is_within(&[Right::Execute]),
            Self::Map(_) => rights.is_within(&[Right::Read, Right::Write, Right::Delete]),
            Self::Program(_) => rights.is_within(&[Right::Read, Right::Write]),
            Self::Log(_) => {
                rights.is_within(&[Right::Read, Right::Write, Right::Append, Right::Delete])
            }
            Self::Events => rights.is_within(&[Right::Read]),
        }
    }
}

impl FromStr for Grant {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        if text == "admin" {
            return Ok(Self::Admin);
        }
        let (rights, rest) = text.split_once(' ').unwrap_or((text, ""));
        let rights: Rights = rights.parse()?;
        let mut words = Words::split(text, rest)?;
        let scope = Scope::parse(&mut words)?;
        words.finish()?;
        if !scope.takes(rights) {
            return Err(not_a_grant(
                text,
                &format!("the rights {rights:?} have no meaning for it"),
            ));
        }
        Ok(Self::Some(rights, scope))
    }
}

impl fmt::Display for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Admin => f.write_str("admin"),
            Self::Some(rights, scope) => write!(f, "{rights} {scope}"),
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Objects { pool, class, method, prefix } => {
                write!(f, "pool={pool}")?;
                if let Some(class) = class {
                    write!(f, " class={class}")?;
                }
                if let Some(method) = method {
                    write!(f, " method={method}")?;
                }
                if prefix.is_empty() { Ok(()) } else { write!(f, " prefix={prefix}") }
            }
            Self::Map(Pattern(map)) => write!(f, "map={map}"),
            Self::Program(Pattern(program)) => write!(f, "program={program}"),
            Self::Log(Pattern(log)) => write!(f, "log={log}"),
            Self::Service { service, method: None } => write!(f, "service={service}"),
            Self::Service { service, method: Some(method) } => {
                write!(f, "service={service} method={method}")
            }
            Self::Events => f.write_str("events"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grant_can_be_printed_and_parsed() {
        for text in [
            "admin",
            "r pool=data",
            "rwx pool=data prefix=my logs/ and=more",
            "x pool=data class=counter",
            "x pool=data class=counter method=add prefix=visits",
            "rwx pool=data class=lua",
            "rw map=*",
            "r program=class/*",
            "rw log=orders",
            "a log=orders",
            "rwad log=*",
            "rwd map=conf",
            "x service=node method=status",
            "r events",
        ] {
            assert_eq!(text.parse::<Grant>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn a_meaningless_grant_is_refused() {
        for text in [
            "",
            "root",
            "r",
            "rw",
            "q pool=data",
            "r pool=",
            "r pool=nacre.system",
            "r what=ever",
            "r pool=data pool=log",
            "r pool=data extra",
            "x pool=data method=add",
            "r map=a b",
            "rw pool=data class=counter",
            "x map=m",
            "a map=m",
            "x log=l",
            "a pool=data",
            "rd pool=data",
            "d program=class/a",
            "w events",
            "r service=node",
            "r map=",
            "r map=*x",
            "admin pool=data",
        ] {
            assert!(text.parse::<Grant>().is_err(), "{text:?}");
        }
    }
}
