//! `NodeTraits`: the labels and the capacity that an operator gave a node, for policies to use.
//!
//! `nacre node set` stores them in the balancer's map, one entry for each node, so they survive a
//! restart of the node. Each node's balancer reads the node's own traits and sends them with its
//! heartbeats.

use std::collections::BTreeMap;

use bytes::Bytes;
use nacre_object::{Error, NodeName, Result};
use nacre_registry::{BALANCER_MAP, Change, MapState, Maps};
use serde::{Deserialize, Serialize};

use crate::RankLoad;

/// Labels of one node. They are part of each heartbeat and of each recorded tick.
pub const MAX_LABELS: usize = 32;
/// Bytes of a label's name or value.
pub const MAX_LABEL_BYTES: usize = 64;
/// The highest capacity, in comparison with a node of capacity 1. Loads are divided by it.
pub const MAX_CAPACITY: f64 = 1e6;
/// The lowest.
pub const MIN_CAPACITY: f64 = 1e-6;

/// The prefix of the key of a node's traits. The node's name follows.
const KEY_PREFIX: &str = "node.";

/// The labels and the capacity that an operator gave a node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NodeTraits {
    /// Labels, as `sequencers = "yes"`.
    pub labels: BTreeMap<String, String>,
    /// How much load the node can serve, compared with a node of capacity 1.
    pub capacity: f64,
}

impl Default for NodeTraits {
    fn default() -> Self {
        Self { labels: BTreeMap::new(), capacity: 1.0 }
    }
}

impl NodeTraits {
    /// The traits of a node in a state of the balancer's map.
    ///
    /// # Errors
    /// `Corrupt`.
    pub fn of(state: &MapState, node: &NodeName) -> Result<Self> {
        state.entries.get(&key_of(node)).map_or_else(
            || Ok(Self::default()),
            |stored| {
                let senseless = |cause: String| {
                    Error::corrupt(format!("the stored traits of node {node} are damaged: {cause}"))
                };
                let traits: Self =
                    serde_json::from_slice(stored).map_err(|cause| senseless(cause.to_string()))?;
                traits.check().map_err(|cause| senseless(cause.to_string()))?;
                Ok(traits)
            },
        )
    }

    /// Changes the stored traits of a node, and returns the stored result.
    ///
    /// # Errors
    /// `Invalid` for traits out of bounds; `Unavailable` if the map cannot be reached; `Corrupt` if
    /// the stored traits are damaged.
    pub async fn update(maps: &Maps, node: &NodeName, change: impl Fn(&mut Self)) -> Result<Self> {
        let mut changed = Self::default();
        let update = |state: &MapState| {
            let known = Self::of(state, node)?;
            changed = known.clone();
            change(&mut changed);
            changed.check()?;
            let differs = changed != known;
            Ok(differs.then(|| Change::set(key_of(node), changed.encode())).into_iter().collect())
        };
        maps.update(&BALANCER_MAP.parse()?, update).await?;
        Ok(changed)
    }

    /// Writes the traits into the load that a heartbeat carries.
    pub fn tell(&self, load: &mut RankLoad) {
        load.labels.clone_from(&self.labels);
        load.capacity = self.capacity;
    }

    fn encode(&self) -> Bytes {
        serde_json::to_vec(self).expect("traits have nothing that JSON lacks").into()
    }

    fn check(&self) -> Result<()> {
        let count = self.labels.len();
        if count > MAX_LABELS {
            return Err(Error::exhausted(format!(
                "the node would have {count} labels; at most {MAX_LABELS} are allowed"
            ))
            .hint("remove labels with `nacre node set NODE --unlabel NAME`"));
        }
        self.labels.iter().try_for_each(|(name, value)| check_label(name, value))?;
        match (MIN_CAPACITY..=MAX_CAPACITY).contains(&self.capacity) {
            true => Ok(()),
            false => {
                Err(Error::invalid(format!("a capacity of {} is out of bounds", self.capacity))
                    .hint(format!("give a capacity from {MIN_CAPACITY} to {MAX_CAPACITY}")))
            }
        }
    }
}

fn check_label(name: &str, value: &str) -> Result<()> {
    let is_name = |letter: char| letter.is_ascii_alphanumeric() || "_-.".contains(letter);
    let is_long = name.len() > MAX_LABEL_BYTES || value.len() > MAX_LABEL_BYTES;
    let is_odd =
        name.is_empty() || !name.chars().all(is_name) || value.chars().any(char::is_control);
    match is_long || is_odd {
        false => Ok(()),
        true => Err(Error::invalid(format!("a label {name:?} = {value:?} is not valid")).hint(format!(
            "use letters, digits, `_`, `-` and `.` in the name, and at most {MAX_LABEL_BYTES} bytes in the name and in the value"
        ))),
    }
}

fn key_of(node: &NodeName) -> String {
    format!("{KEY_PREFIX}{node}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Format 1: changing it breaks clusters that exist.
    const SAMPLE: &str = r#"{"labels":{"sequencers":"yes"},"capacity":2.0}"#;

    fn node() -> NodeName {
        NodeName::new("meta.1").unwrap()
    }

    fn state(stored: &str) -> MapState {
        let entries = [("node.meta.1".to_owned(), Bytes::copy_from_slice(stored.as_bytes()))];
        MapState { name: BALANCER_MAP.parse().unwrap(), epoch: 1, entries: entries.into() }
    }

    #[test]
    fn stored_values_have_the_form_of_format_1() {
        let labels = [("sequencers".to_owned(), "yes".to_owned())].into();
        let traits = NodeTraits { labels, capacity: 2.0 };
        assert_eq!(traits.encode(), SAMPLE);
        assert_eq!(NodeTraits::of(&state(SAMPLE), &node()).unwrap(), traits);
    }

    #[test]
    fn a_node_without_stored_traits_has_no_labels_and_the_capacity_1() {
        let other = NodeName::new("meta.2").unwrap();
        assert_eq!(NodeTraits::of(&state(SAMPLE), &other).unwrap(), NodeTraits::default());
    }

    #[test]
    fn traits_out_of_bounds_are_refused() {
        let many = (0..=MAX_LABELS).map(|at| (format!("l{at}"), String::new())).collect();
        let of = |name: &str, value: &str| [(name.to_owned(), value.to_owned())].into();
        for labels in [many, of("", "x"), of("a b", "x"), of("a", "x\n"), of("a", &"x".repeat(65))]
        {
            assert!(NodeTraits { labels, capacity: 1.0 }.check().is_err());
        }
        for capacity in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e7] {
            assert!(NodeTraits { capacity, ..NodeTraits::default() }.check().is_err());
        }
    }

    #[test]
    fn invalid_stored_traits_are_corrupt() {
        for stored in ["", "{}", r#"{"labels":{},"capacity":0}"#] {
            let error = NodeTraits::of(&state(stored), &node()).unwrap_err();
            assert_eq!(error.kind(), nacre_object::ErrorKind::Corrupt, "{stored}");
        }
    }
}
