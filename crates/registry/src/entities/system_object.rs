//! Tells from the name of an object of the system pool what the object is for.

use nacre_object::{ObjectId, PoolName};

use crate::events::EVENTS_OBJECT;
use crate::maps::MAP_OBJECT_PREFIX;
use crate::programs::SOURCE_OBJECT_PREFIX;

/// An object of the system pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SystemObject<'a> {
    /// It keeps the map of this name.
    Map(&'a str),
    /// It keeps the source of programs that has this digest.
    Source(&'a str),
    /// It keeps the cluster log.
    Events,
    /// Any other object, which only nodes and administrators use.
    Other,
}

impl<'a> SystemObject<'a> {
    /// Returns what an object is for, or `None` if it is in another pool.
    pub fn of(object: &'a ObjectId) -> Option<Self> {
        if object.pool != PoolName::system() {
            return None;
        }
        let name = object.name.as_str();
        Some(if let Some(map) = name.strip_prefix(MAP_OBJECT_PREFIX) {
            Self::Map(map)
        } else if let Some(digest) = name.strip_prefix(SOURCE_OBJECT_PREFIX) {
            Self::Source(digest)
        } else if name == EVENTS_OBJECT {
            Self::Events
        } else {
            Self::Other
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_system_object_says_its_kind() {
        for (text, expected) in [
            ("nacre.system/map/m", Some(SystemObject::Map("m"))),
            ("nacre.system/map/log.orders", Some(SystemObject::Map("log.orders"))),
            ("nacre.system/program/12ab", Some(SystemObject::Source("12ab"))),
            ("nacre.system/events", Some(SystemObject::Events)),
            ("nacre.system/events2", Some(SystemObject::Other)),
            ("data/map/m", None),
        ] {
            assert_eq!(SystemObject::of(&text.parse().unwrap()), expected, "{text}");
        }
    }
}
