//! What is recorded of the layouts of running classes: the map `layouts`, one JSON entry a class, by name.
//!
//! Two entries are of no class: `@profile`, what transactions take on the engine, and `@keeper`, who does
//! the work (`lease.rs`).

use bytes::Bytes;
use nacre_object::{ClassName, Error, MapName, Result};
use nacre_registry::{Activation, Change, LAYOUTS_MAP, MapState};
use nacre_tuner::Profile;
use nacre_tuner::rechoose::{Event, Rechooser, Standing, Terms};
use serde::{Deserialize, Serialize};

use super::change::LayoutChange;

const PROFILE: &str = "@profile";

/// The layout of a running class: what was decided about it, and what is being done.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClassLayout {
    /// Whether it may be changed without asking.
    pub auto: bool,
    /// On which terms it is chosen anew.
    pub terms: Terms,
    /// What was decided.
    pub standing: Standing,
    /// The change under way, if there is one.
    pub change: Option<LayoutChange>,
    /// The change that came to its end last.
    pub last: Option<LayoutChange>,
    /// The version all of whose objects were found in its present layout by the last change; none if some could not
    /// be moved there, so that the former ones must stay readable.
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

    /// All classes of which there is something.
    pub(super) fn all(state: &MapState) -> Result<Vec<(ClassName, Self)>> {
        let classes = state.entries.iter().filter(|(key, _)| !key.starts_with('@'));
        classes.map(|(key, value)| Ok((key.parse()?, Self::parse(key, value)?))).collect()
    }

    fn parse(class: &str, value: &[u8]) -> Result<Self> {
        serde_json::from_slice(value).map_err(|cause| {
            Error::corrupt(format!("the record of the layout of {class}: {cause}"))
        })
    }

    /// Whether all objects are in the layout of the version that is active: they were found there, and no other
    /// version was active since.
    pub(super) fn is_settled(&self, active: Activation) -> bool {
        self.settled == Some(active.version)
            && self.last.as_ref().is_some_and(|last| last.is_settled_since(active))
    }

    /// Somebody has another layout for it: what was decided is over, and nothing is for a while.
    pub(super) fn rest(&mut self, now_micros: u64) {
        let mut chooser = Rechooser::new(self.terms, self.standing.clone());
        chooser.handle(now_micros, Event::Moved);
        self.standing = chooser.standing().clone();
    }

    /// The entry's change to this.
    pub(super) fn to_change(&self, class: &ClassName) -> Change {
        let value = serde_json::to_vec(self).expect("a record has nothing JSON lacks");
        Change::set(class.as_str(), value)
    }
}

/// The engine's profile, if one is kept.
pub(super) fn profile_in(state: &MapState) -> Result<Option<Profile>> {
    let Some(value) = state.entries.get(PROFILE) else { return Ok(None) };
    let text = std::str::from_utf8(value).map_err(|_| Error::corrupt("the profile is no text"))?;
    Profile::from_json(text).map(Some)
}

pub(super) fn keep_profile(profile: &Profile) -> Result<Change> {
    Ok(Change::set(PROFILE, profile.to_json()?))
}

#[cfg(test)]
mod tests {
    use super::super::change::{Phase, Walk};
    use super::*;

    /// What a record looks like in the map. If this fails, stored ones can no longer be read.
    #[test]
    fn a_stored_sample_still_reads() {
        let stored = r#"{"auto":true,"terms":{"requests":5},"standing":{"basis":null,"proposal":null,
            "rest_until_micros":7,"rested_seconds":60},"change":{"layout":"kv: slots(64)","former":"map",
            "why":"asked","base":1,"bridge":2,"target":3,"phase":{"walk":{"version":3,"activation":4,"passes":1,"failing_passes":0,
            "pool":"data","after":"o","moved_in_pass":2,"failed_in_pass":0,"moved":9,"rows":90}}},
            "settled":null}"#;
        let record = ClassLayout::parse("kv", stored.as_bytes()).unwrap();
        assert_eq!((record.auto, record.terms.requests), (true, 5));
        assert_eq!(record.terms.seconds, Terms::default().seconds);
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
