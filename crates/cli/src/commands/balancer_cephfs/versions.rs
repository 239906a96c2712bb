//! `Index`: lists the policies that were pushed to a file system, and the order in which they were
//! active.
//!
//! The index is stored as JSON in the object `nacre.balancer.index` of the metadata pool. A change
//! is written only if the object still has the version that was read, so two administrators cannot
//! overwrite each other's entries.
//!
//! Each policy has an object of its own, see [`object_name`]. An MDS compares only the names of
//! policies, and never notices that an object was overwritten. So **no two sources ever have the
//! same name**.

use bytes::Bytes;
use nacre_object::{Error, Result};
use nacre_program::Digest;
use nacre_rados::{Expected, PoolObjects};
use serde::{Deserialize, Serialize};

/// The object that holds the index.
const INDEX: &str = "nacre.balancer.index";
/// The greatest size of the index, in bytes. A hundred versions with their reasons take about a
/// tenth of it.
const MAX_INDEX_BYTES: usize = 1 << 20;
/// Versions that are kept. The objects of older ones are removed.
const MAX_VERSIONS: usize = 100;
/// The greatest length of the chain of active objects. Older entries are dropped.
const MAX_CHAIN: usize = 100;
/// Characters of the digest in the name of an object.
const DIGEST_CHARACTERS: usize = 8;

/// The pushed policies.
#[derive(Debug, Default, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Index {
    /// Every version that is kept, the oldest first.
    pub versions: Vec<Version>,
    /// The objects that were active, in order; the last one is active now. The empty name stands
    /// for Ceph's own balancer. `push` and `rollback` remove a policy from this list when they make
    /// the former policy active again.
    chain: Vec<String>,
}

/// A pushed version of a policy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Version {
    /// The policy.
    pub name: String,
    /// Its version, from 1.
    pub version: u64,
    /// The object that holds its source.
    pub object: String,
    /// When it was pushed: microseconds since 1970.
    pub pushed_at_micros: u64,
    /// Why it was taken back, if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taken_back: Option<String>,
}

/// The name of the object of a version: `greedy_spill.v3.1f00cafe`.
pub fn object_name(name: &str, version: u64, digest: Digest) -> String {
    let digest: String = digest.to_string().chars().take(DIGEST_CHARACTERS).collect();
    format!("{name}.v{version}.{digest}")
}

impl Index {
    /// Reads the index. The second result is the version of its object, which the next write must
    /// name.
    ///
    /// # Errors
    /// `Corrupt` if the object holds no valid index.
    pub async fn read(pool: &PoolObjects) -> Result<(Self, Expected)> {
        let Some((content, version)) = pool.read(INDEX, MAX_INDEX_BYTES).await? else {
            return Ok((Self::default(), Expected::Absent));
        };
        let index = serde_json::from_slice(&content).map_err(|error| {
            Error::corrupt(format!("the list of pushed policies is damaged: {error}"))
                .on(INDEX)
                .hint("remove this object from the metadata pool with `rados rm`, and push the policy again")
        })?;
        Ok((index, Expected::Version(version)))
    }

    /// Stores it.
    ///
    /// # Errors
    /// `Conflict` if it was changed since it was read.
    pub async fn store(&self, pool: &PoolObjects, expected: Expected) -> Result<()> {
        let content = serde_json::to_vec(self).map_err(|error| {
            Error::corrupt(format!("the list of pushed policies cannot be written: {error}"))
                .on(INDEX)
        })?;
        pool.write(INDEX, expected, Bytes::from(content)).await
    }

    /// The version that the next push of a policy gets.
    pub fn next_version(&self, name: &str) -> u64 {
        let versions = self.versions.iter().filter(|version| version.name == name);
        versions.map(|version| version.version).max().unwrap_or(0) + 1
    }

    /// The version that an object holds.
    pub fn find(&self, object: &str) -> Option<&Version> {
        self.versions.iter().find(|version| version.object == object)
    }

    /// Adds a version, which becomes active after the object `active`. Returns the objects that can
    /// be removed.
    pub fn push(&mut self, version: Version, active: &str) -> Vec<String> {
        self.cut_to(active);
        if self.chain.last().map(String::as_str) != Some(active) {
            // Somebody else set it.
            self.chain.push(active.to_owned());
        }
        self.chain.push(version.object.clone());
        self.chain.drain(..self.chain.len().saturating_sub(MAX_CHAIN));
        self.versions.push(version);
        let surplus = self.versions.len().saturating_sub(MAX_VERSIONS);
        let old = self.versions.drain(..surplus).map(|version| version.object);
        let removable: Vec<_> = old.filter(|object| object != active).collect();
        self.chain.retain(|object| !removable.contains(object));
        removable
    }

    /// The object that was active before `active`, which is removed from the chain.
    pub fn step_back(&mut self, active: &str) -> Option<String> {
        self.cut_to(active);
        if self.chain.last().map(String::as_str) == Some(active) {
            self.chain.pop();
        }
        self.chain.last().cloned()
    }

    /// Notes why a version was taken back.
    pub fn note_failure(&mut self, object: &str, reason: &str) {
        if let Some(version) = self.versions.iter_mut().find(|it| it.object == object) {
            version.taken_back = Some(reason.to_owned());
        }
    }

    /// Removes the entries after `active`. They never became active, or another administrator has
    /// switched back.
    fn cut_to(&mut self, active: &str) {
        if let Some(at) = self.chain.iter().rposition(|object| object == active) {
            self.chain.truncate(at + 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(index: &Index, name: &str) -> Version {
        let version = index.next_version(name);
        let object = object_name(name, version, Digest::of(name.as_bytes()));
        Version { name: name.into(), version, object, pushed_at_micros: 0, taken_back: None }
    }

    fn push(index: &mut Index, name: &str, active: &str) -> String {
        let version = version(index, name);
        let object = version.object.clone();
        assert!(index.push(version, active).is_empty());
        object
    }

    #[test]
    fn versions_count_up_for_each_policy() {
        let mut index = Index::default();
        let first = push(&mut index, "a", "");
        let second = push(&mut index, "a", &first);
        push(&mut index, "b", &second);
        let versions: Vec<_> = index.versions.iter().map(|version| version.version).collect();
        assert_eq!(versions, [1, 2, 1]);
        assert!(first.starts_with("a.v1.") && first.len() == "a.v1.".len() + DIGEST_CHARACTERS);
    }

    #[test]
    fn rollbacks_lead_step_by_step_to_cephs_own_balancer() {
        let mut index = Index::default();
        let first = push(&mut index, "a", "");
        let second = push(&mut index, "a", &first);
        assert_eq!(index.step_back(&second), Some(first.clone()));
        assert_eq!(index.step_back(&first), Some(String::new()));
        assert_eq!(index.step_back(""), None);
    }

    #[test]
    fn a_rollback_restores_a_policy_that_another_tool_had_set() {
        let mut index = Index::default();
        push(&mut index, "a", "");
        let pushed = push(&mut index, "b", "manual.lua");
        assert_eq!(index.step_back(&pushed).as_deref(), Some("manual.lua"));
    }

    #[test]
    fn a_rollback_skips_a_pushed_policy_that_was_never_active() {
        let mut index = Index::default();
        let first = push(&mut index, "a", "");
        push(&mut index, "lost", &first);
        let third = push(&mut index, "a", &first);
        assert_eq!(index.step_back(&third), Some(first));
    }

    #[test]
    fn old_versions_are_removed_except_the_active_one() {
        let mut index = Index::default();
        let mut active = push(&mut index, "a", "");
        for _ in 1..MAX_VERSIONS {
            active = push(&mut index, "a", &active);
        }
        let oldest = index.versions[0].object.clone();
        let next = version(&index, "a");
        assert_eq!(index.push(next, &active), std::slice::from_ref(&oldest));
        assert_eq!(index.versions.len(), MAX_VERSIONS);
        assert!(!index.chain.contains(&oldest));
    }
}
