//! The stored progress of layout changes. The map `layouts` has one JSON entry for each class,
//! under the class's name.
//!
//! The entry `@keeper` belongs to no class. It names the process that does the work (`lease.rs`).

use bytes::Bytes;
use nacre_object::{ClassName, Error, MapName, Result};
use nacre_registry::{Activation, Change, LAYOUTS_MAP, MapState};
use serde::{Deserialize, Serialize};

use super::change::LayoutChange;

/// The record of a class's layout: the change in progress, and the last one.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClassLayout {
    /// The change under way, if there is one.
    pub change: Option<LayoutChange>,
    /// The change that came to its end last.
    pub last: Option<LayoutChange>,
    /// The version in whose layout the last change left all objects. `None` if that change could
    /// not move some objects; the class must then still read the former layouts.
    pub settled: Option<u64>,
}

pub(super) fn layouts_map() -> MapName {
    MapName::new(LAYOUTS_MAP).expect("a well-formed literal")
}

impl ClassLayout {
    pub(super) fn find(state: &MapState, class: &ClassName) -> Result<Self> {
        let parse = |value: &Bytes| Self::parse(class.as_str(), value);
        state.entries.get(class.as_str()).map_or_else(|| Ok(Self::default()), parse)
    }

    /// The records of all classes that have one.
    pub(super) fn all(state: &MapState) -> Result<Vec<(ClassName, Self)>> {
        let classes = state.entries.iter().filter(|(key, _)| !key.starts_with('@'));
        classes.map(|(key, value)| Ok((key.parse()?, Self::parse(key, value)?))).collect()
    }

    fn parse(class: &str, value: &[u8]) -> Result<Self> {
        serde_json::from_slice(value).map_err(|cause| {
            Error::corrupt(format!("the entry {class} of the map layouts is malformed: {cause}"))
                .hint("run the release of nacre that stored the entry")
        })
    }

    /// Whether all objects are in the layout of the active version: the last change found all
    /// objects in that layout, and no other version was active since.
    pub(super) fn is_settled(&self, active: Activation) -> bool {
        self.settled == Some(active.version)
            && self.last.as_ref().is_some_and(|last| last.is_settled_since(active))
    }

    /// The entry's change to this.
    pub(super) fn to_change(&self, class: &ClassName) -> Change {
        let value = serde_json::to_vec(self).expect("a record has nothing JSON lacks");
        Change::set(class.as_str(), value)
    }
}

#[cfg(test)]
mod tests {
    use super::super::change::{Phase, Walk};
    use super::*;

    #[test]
    fn a_stored_record_can_still_be_read() {
        let stored = r#"{"change":{"layout":"kv: slots(64)","former":"map",
            "base":1,"bridge":2,"target":3,"phase":{"walk":{"version":3,"activation":4,"passes":1,"failing_passes":0,
            "pool":"data","after":"o","moved_in_pass":2,"failed_in_pass":0,"moved":9,"rows":90}}},
            "settled":null}"#;
        let record = ClassLayout::parse("kv", stored.as_bytes()).unwrap();
        let change = record.change.unwrap();
        let walk = Walk {
            version: 3,
            activation: 4,
            passes: 1,
            failing_passes: 0,
            pool: Some("data".into()),
            after: Some("o".into()),
            moved_in_pass: 2,
            failed_in_pass: 0,
            moved: 9,
            rows: 90,
        };
        assert_eq!((change.target, change.phase), (3, Phase::Walk(walk)));
        assert_eq!(ClassLayout::parse("kv", b"{}").unwrap(), ClassLayout::default());
        assert!(ClassLayout::parse("kv", b"{").is_err());
    }
}
