//! A model of a map of the registry: its entries, and its epoch, which counts commits.

use std::collections::BTreeMap;

use super::Model;

/// A call on a map.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MapCall {
    /// Set a key if the map is at this epoch.
    Commit {
        /// The epoch.
        expected: u64,
        /// The key.
        key: String,
        /// Its value.
        value: String,
    },
    /// Set a key whatever the epoch is.
    Apply {
        /// The key.
        key: String,
        /// Its value.
        value: String,
    },
    /// The whole.
    Get,
}

/// The answer of a map.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MapAnswer {
    /// The commit began this epoch.
    Began(u64),
    /// The map was at another epoch.
    Conflict,
    /// The whole.
    Whole(u64, BTreeMap<String, String>),
}

/// A map.
#[derive(Debug)]
pub struct MapModel;

impl Model for MapModel {
    type State = (u64, BTreeMap<String, String>);
    type Call = MapCall;
    type Answer = MapAnswer;

    fn step(
        (epoch, entries): &Self::State,
        call: &MapCall,
        answer: Option<&MapAnswer>,
    ) -> Option<Self::State> {
        let with = |key: &String, value: &String| {
            let mut entries = entries.clone();
            entries.insert(key.clone(), value.clone());
            (MapAnswer::Began(epoch + 1), (epoch + 1, entries))
        };
        let (expected, next) = match call {
            MapCall::Commit { expected, key, value } if expected == epoch => with(key, value),
            MapCall::Commit { .. } => (MapAnswer::Conflict, (*epoch, entries.clone())),
            MapCall::Apply { key, value } => with(key, value),
            MapCall::Get => (MapAnswer::Whole(*epoch, entries.clone()), (*epoch, entries.clone())),
        };
        answer.is_none_or(|answer| *answer == expected).then_some(next)
    }
}
