//! The name of a log, parsed at the border.

use std::borrow::Borrow;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;

use nacre_object::{Error, MapName, Result};
use nacre_registry::LOG_MAP_PREFIX;

use crate::limits::MAX_LOG_NAME_BYTES;

/// A log: 1 to 64 letters, digits, `.`, `_` or `-`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct LogName(MapName);

impl LogName {
    /// Checks `text` and makes a log name of it.
    ///
    /// # Errors
    /// `Invalid` if `text` is empty, too long or contains a forbidden character.
    pub fn new(text: impl AsRef<str>) -> Result<Self> {
        let text = text.as_ref();
        if text.is_empty() || text.len() > MAX_LOG_NAME_BYTES {
            return Err(not_a_name(text));
        }
        let map = MapName::new(format!("{LOG_MAP_PREFIX}{text}")).map_err(|_| not_a_name(text))?;
        Ok(Self(map))
    }

    /// The log whose view is in `map`; `None` if the map is not a log's.
    pub fn of_map(map: &MapName) -> Option<Self> {
        Self::new(map.as_str().strip_prefix(LOG_MAP_PREFIX)?).ok()
    }

    /// The map that holds the log's view.
    pub fn map(&self) -> &MapName {
        &self.0
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0.as_str()[LOG_MAP_PREFIX.len()..]
    }
}

fn not_a_name(text: &str) -> Error {
    Error::invalid(format!("{text:?} is not a log name"))
        .hint(format!("use 1 to {MAX_LOG_NAME_BYTES} letters, digits, '.', '_' or '-'"))
}

/// Lets a map with log names as keys be searched by a string.
impl Borrow<str> for LogName {
    fn borrow(&self) -> &str {
        self.as_str()
    }
}

impl Hash for LogName {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}

impl fmt::Display for LogName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for LogName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LogName({self})")
    }
}

impl FromStr for LogName {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::new(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_name_and_the_name_of_its_map_follow_from_each_other() {
        let name = LogName::new("orders-2").unwrap();
        assert_eq!((name.as_str(), name.map().as_str()), ("orders-2", "log.orders-2"));
        assert_eq!(LogName::of_map(name.map()), Some(name));
        assert_eq!(LogName::of_map(&MapName::new("programs").unwrap()), None);
        for wrong in ["", "a/b", "a b", &"x".repeat(65)] {
            assert!(LogName::new(wrong).is_err(), "{wrong:?}");
        }
    }
}
