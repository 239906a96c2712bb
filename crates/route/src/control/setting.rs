//! `Setting`: a value that an operator gives a control application in place of a default.

use std::collections::BTreeMap;
use std::fmt;

use nacre_object::{Error, Result};
use serde::{Deserialize, Serialize};

use crate::limits::MAX_SETTING_BYTES;

/// The settings of a control application, by name.
pub type Settings = BTreeMap<String, Setting>;

/// One value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Setting {
    /// True or false.
    Switch(bool),
    /// A finite number.
    Number(f64),
    /// A string.
    Text(String),
}

impl Setting {
    /// Reads a value of the same type as this one.
    ///
    /// # Errors
    /// `Invalid` if the text is of another type; `Exhausted` if it is too long.
    pub fn parse_alike(&self, text: &str) -> Result<Self> {
        let wrong = |expected: &str| {
            Error::invalid(format!("{text:?} is not a value of this setting"))
                .hint(format!("give {expected}, such as {self}"))
        };
        match self {
            Self::Switch(_) => text.parse().map(Self::Switch).map_err(|_| wrong("true or false")),
            Self::Number(_) => {
                let number = text.parse().ok().filter(|number: &f64| number.is_finite());
                number.map(Self::Number).ok_or_else(|| wrong("a number"))
            }
            Self::Text(_) if text.len() > MAX_SETTING_BYTES => {
                Err(Error::exhausted("the value of this setting is too long")
                    .hint(format!("give {MAX_SETTING_BYTES} bytes at most")))
            }
            Self::Text(_) => Ok(Self::Text(text.to_owned())),
        }
    }

    fn is_alike(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Switch(value) => value.fmt(f),
            Self::Number(value) => value.fmt(f),
            Self::Text(value) => f.pad(value),
        }
    }
}

/// The defaults of a program with the values that an operator has given.
///
/// # Errors
/// `Invalid` if a value has an unknown name or another type than its default.
pub(super) fn with_defaults(defaults: &Settings, given: &Settings) -> Result<Settings> {
    let mut settings = defaults.clone();
    for (name, value) in given {
        let default = defaults.get(name).ok_or_else(|| unknown(name, defaults))?;
        if !value.is_alike(default) {
            return Err(Error::invalid(format!("the setting {name} cannot be {value}"))
                .hint(format!("give a value such as {default}")));
        }
        settings.insert(name.clone(), value.clone());
    }
    Ok(settings)
}

/// The error for a setting that a program does not have.
pub(super) fn unknown(name: &str, defaults: &Settings) -> Error {
    let names: Vec<_> = defaults.keys().map(String::as_str).collect();
    let hint = match names.is_empty() {
        true => "the program has no settings".to_owned(),
        false => format!("the program has these settings: {}", names.join(", ")),
    };
    Error::invalid(format!("the program has no setting {name}")).hint(hint)
}
