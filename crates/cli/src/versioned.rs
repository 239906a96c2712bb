//! A program or class with an optional version, in the form that every command takes: NAME@VERSION.

use std::fmt::Display;
use std::str::FromStr;

use nacre_object::{Error, Result};

/// A name, and the version that is meant if one is said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Versioned<Name> {
    pub name: Name,
    pub version: Option<u64>,
}

impl<Name: FromStr<Err = Error>> FromStr for Versioned<Name> {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let Some((name, version)) = text.rsplit_once('@') else {
            return Ok(Self { name: text.parse()?, version: None });
        };
        let version = version.parse().map_err(|_| {
            Error::invalid(format!("{version:?} is not a version")).hint("write NAME@VERSION")
        })?;
        Ok(Self { name: name.parse()?, version: Some(version) })
    }
}

impl<Name: Display> Versioned<Name> {
    /// Returns the name and the version. `former` is a version in the syntax of earlier releases,
    /// outside of NAME@VERSION.
    ///
    /// # Errors
    /// `Invalid` if both forms give a version.
    pub fn or(self, former: Option<u64>) -> Result<(Name, Option<u64>)> {
        match (self.version, former) {
            (Some(_), Some(_)) => Err(Error::invalid("the version is given twice")
                .hint(format!("write {}@VERSION, and no other version", self.name))),
            (version, former) => Ok((self.name, version.or(former))),
        }
    }

    /// Returns the name and the version; a version is required.
    ///
    /// # Errors
    /// `Invalid` if no version is given, or if both forms give one.
    pub fn required(self, former: Option<u64>) -> Result<(Name, u64)> {
        let (name, version) = self.or(former)?;
        let missing = || {
            Error::invalid(format!("no version is given for {name}"))
                .hint(format!("write {name}@VERSION"))
        };
        let version = version.ok_or_else(missing)?;
        Ok((name, version))
    }
}

#[cfg(test)]
mod tests {
    use nacre_object::ClassName;

    use super::*;

    #[test]
    fn a_version_is_given_once_after_the_name() {
        let parse = |text: &str| text.parse::<Versioned<ClassName>>();
        let name = ClassName::new("counter").unwrap();
        let counter = parse("counter").unwrap();
        assert_eq!(counter.clone().or(Some(2)).unwrap(), (name.clone(), Some(2)));
        let missing = counter.required(None).unwrap_err();
        assert_eq!(missing.hint_text(), Some("write counter@VERSION"));
        assert_eq!(parse("counter@3").unwrap().required(None).unwrap(), (name, 3));
        assert!(parse("counter@3").unwrap().or(Some(3)).is_err());
        assert!(parse("counter@x").is_err() && parse("counter@").is_err());
    }
}
