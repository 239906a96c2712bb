//! `ResourceName`: the path of a resource, parsed at the border.

use std::borrow::Borrow;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;

use nacre_object::{Error, MapName, Result};
use nacre_registry::RESOURCE_MAP_PREFIX;

use crate::limits::MAX_PATH_BYTES;

/// The path of a resource, as `/seq/orders`: segments of letters, digits, `_` and `-`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ResourceName {
    path: String,
    /// The map with the resource's record and state. Its name is the path with dots instead of
    /// slashes.
    map: MapName,
}

impl ResourceName {
    /// Checks and takes a path.
    ///
    /// # Errors
    /// `Invalid` if the text is no path.
    pub fn new(path: impl AsRef<str>) -> Result<Self> {
        let path = path.as_ref();
        let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        let is_segment = |text: &str| !text.is_empty() && text.chars().all(is_allowed);
        let segments = path.strip_prefix('/').ok_or_else(|| not_a_path(path))?;
        if path.len() > MAX_PATH_BYTES || !segments.split('/').all(is_segment) {
            return Err(not_a_path(path));
        }
        let map = MapName::new(format!("{RESOURCE_MAP_PREFIX}{}", segments.replace('/', ".")))
            .map_err(|_| not_a_path(path))?;
        Ok(Self { path: path.to_owned(), map })
    }

    /// The resource whose map this is, or `None` if it is no resource's map.
    pub fn of_map(map: &MapName) -> Option<Self> {
        let segments = map.as_str().strip_prefix(RESOURCE_MAP_PREFIX)?;
        Self::new(format!("/{}", segments.replace('.', "/"))).ok()
    }

    /// The map of its record and state.
    pub fn map(&self) -> &MapName {
        &self.map
    }

    /// The path.
    pub fn as_str(&self) -> &str {
        &self.path
    }
}

fn not_a_path(text: &str) -> Error {
    Error::invalid(format!("{text:?} is not the path of a resource")).hint(format!(
        "use a path as /seq/orders: segments of letters, digits, '_' or '-', at most {MAX_PATH_BYTES} bytes"
    ))
}

/// Lets a map with resource names as keys be searched by a string.
impl Borrow<str> for ResourceName {
    fn borrow(&self) -> &str {
        self.as_str()
    }
}

/// Equals the hash of the path's text, as [`Borrow`] requires.
impl Hash for ResourceName {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}

impl fmt::Display for ResourceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Debug for ResourceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl FromStr for ResourceName {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::new(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_and_the_name_of_its_map_convert_into_each_other() {
        for path in ["/orders", "/seq/orders", "/a/b/c-d_E9"] {
            let name = ResourceName::new(path).unwrap();
            assert_eq!(ResourceName::of_map(name.map()), Some(name.clone()));
            assert_eq!(name.to_string(), path);
        }
        assert_eq!(ResourceName::new("/seq/orders").unwrap().map().as_str(), "resource.seq.orders");
        assert_eq!(ResourceName::of_map(&"log.orders".parse().unwrap()), None);
    }

    #[test]
    fn an_invalid_path_is_refused() {
        let long = format!("/{}", "a".repeat(MAX_PATH_BYTES));
        for text in ["", "/", "orders", "/seq/", "//orders", "/a.b", "/a b", "/ü", &long] {
            assert!(ResourceName::new(text).is_err(), "{text:?}");
        }
    }
}
