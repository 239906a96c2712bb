//! The record of one program, and the rules by which the record changes. This module does no IO.
//!
//! A record is the JSON value of the program's entry in the map `programs`, under the key
//! `kind/name`: `{"next": 4, "versions": {"3": {"digest": …, "bytes": …, "created_at_micros": …}},
//! "active": 3, "before": [1], "activation": 17}`. The entry stays even if all versions are
//! removed, so that no version number is ever used twice.
//!
//! `before` lists the versions to which rollbacks return, oldest first. **Invariant:** `active` and
//! `before` name existing versions, and every rollback changes the active version.

use std::collections::BTreeMap;

use bytes::Bytes;
use nacre_object::{Error, Result};
use nacre_program::Digest;
use serde::{Deserialize, Serialize};

use super::ProgramId;
use crate::limits::{KEPT_SUPERSEDED, MAX_ROLLBACKS, MAX_VERSIONS};

/// One version of a program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct VersionRecord {
    #[serde(with = "digest_text")]
    pub(crate) digest: Digest,
    pub(crate) bytes: u64,
    pub(crate) created_at_micros: u64,
}

/// One program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ProgramRecord {
    /// The version the next put becomes.
    pub(crate) next: u64,
    pub(crate) versions: BTreeMap<u64, VersionRecord>,
    pub(crate) active: Option<u64>,
    /// The versions that were active before, oldest first. Rollbacks go back to them.
    pub(crate) before: Vec<u64>,
    /// The epoch of the map `programs` in which `active` last changed. It increases with every
    /// activation, even after the program was removed and put again.
    pub(crate) activation: u64,
}

/// The version of a program that should be live.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Active {
    pub(crate) version: u64,
    pub(crate) digest: Digest,
}

impl Default for ProgramRecord {
    fn default() -> Self {
        Self { next: 1, versions: BTreeMap::new(), active: None, before: Vec::new(), activation: 0 }
    }
}

impl ProgramRecord {
    /// Parses the entry of a program as it was in an epoch of the map `programs`. An activation
    /// number is an epoch of this map, so it cannot exceed that epoch. A wrong, greater number is
    /// lowered to the epoch; otherwise later activations would seem older.
    pub(crate) fn parse(program: &str, value: &[u8], epoch: u64) -> Result<Self> {
        let mut record: Self = serde_json::from_slice(value).map_err(|cause| {
            Error::corrupt(format!("the record of program {program} is damaged: {cause}"))
                .hint("correct its entry in the map `programs` with `nacre map set --system`")
        })?;
        record.activation = record.activation.min(epoch);
        Ok(record)
    }

    pub(crate) fn to_value(&self) -> Bytes {
        Bytes::from(serde_json::to_vec(self).expect("a record has nothing JSON lacks"))
    }

    /// The version that should be live.
    pub(crate) fn active(&self) -> Option<Active> {
        let version = self.active?;
        let digest = self.versions.get(&version)?.digest;
        Some(Active { version, digest })
    }

    /// Whether the record has no versions, only the number of the next one.
    pub(crate) fn is_removed(&self) -> bool {
        self.versions.is_empty()
    }

    /// A version, or `NotFound`.
    pub(crate) fn version(&self, program: &ProgramId, version: u64) -> Result<&VersionRecord> {
        self.versions.get(&version).ok_or_else(|| {
            let known: Vec<_> = self.versions.keys().map(u64::to_string).collect();
            let hint = match known.as_slice() {
                [] => "put a version first".to_owned(),
                known => format!("name an existing version: {}", known.join(", ")),
            };
            Error::not_found(format!("{program} has no version {version}")).hint(hint)
        })
    }

    /// Adds a version, unless it equals the latest one. Returns its number. If there are too many
    /// versions, removes the oldest version that is neither active nor reachable by rollbacks.
    pub(crate) fn put(&mut self, version: VersionRecord) -> u64 {
        if let Some((&latest, known)) = self.versions.last_key_value()
            && known.digest == version.digest
        {
            return latest;
        }
        let number = self.next;
        self.next += 1;
        self.versions.insert(number, version);
        let in_use = |version: &u64| self.active == Some(*version) || self.before.contains(version);
        if self.versions.len() > MAX_VERSIONS
            && let Some(oldest) = self.versions.keys().copied().find(|version| !in_use(version))
        {
            self.versions.remove(&oldest);
        }
        number
    }

    /// Returns the superseded versions that can be removed, oldest first. They are older than the
    /// active version and not reachable by rollbacks. The newest [`KEPT_SUPERSEDED`] of these
    /// versions are kept. A version newer than the active one is kept, because it may be activated
    /// soon. If no version is active, no version counts as superseded.
    pub(crate) fn superseded(&self) -> Vec<u64> {
        let Some(active) = self.active else { return vec![] };
        let older = self.versions.range(..active).map(|(version, _)| *version);
        let mut unused: Vec<_> = older.filter(|version| !self.before.contains(version)).collect();
        unused.truncate(unused.len().saturating_sub(KEPT_SUPERSEDED));
        unused
    }

    /// Drops those; returns which.
    pub(crate) fn drop_superseded(&mut self) -> Vec<u64> {
        let superseded = self.superseded();
        self.versions.retain(|version, _| !superseded.contains(version));
        superseded
    }

    /// Makes a version active, in this epoch. Returns whether that changed anything.
    pub(crate) fn activate(
        &mut self,
        program: &ProgramId,
        version: u64,
        epoch: u64,
    ) -> Result<bool> {
        self.version(program, version)?;
        if self.active == Some(version) {
            return Ok(false);
        }
        self.before.extend(self.active.replace(version));
        self.drop_empty_steps();
        if self.before.len() > MAX_ROLLBACKS {
            self.before.remove(0);
        }
        self.activation = epoch;
        Ok(true)
    }

    /// Makes the previously active version active again, in this epoch, and returns its number.
    /// Rolling back again goes one more step back in time, not forward again.
    pub(crate) fn roll_back(&mut self, program: &ProgramId, epoch: u64) -> Result<u64> {
        let version = self.before.pop().ok_or_else(|| {
            Error::invalid(format!("no version of {program} was active before"))
                .hint("activate a version by its number")
        })?;
        self.active = Some(version);
        self.activation = epoch;
        Ok(version)
    }

    /// Drops a version, or all versions. Deactivates the active version if it is dropped, in this
    /// epoch.
    pub(crate) fn remove(&mut self, version: Option<u64>, epoch: u64) {
        let stays = |other: u64| version.is_some_and(|version| version != other);
        self.versions.retain(|other, _| stays(*other));
        self.before.retain(|other| stays(*other));
        if self.active.is_some_and(|active| !stays(active)) {
            self.active = None;
            self.activation = epoch;
        }
        self.drop_empty_steps();
    }

    /// Drops rollback steps that change nothing. For example, if B is removed from the steps A, B,
    /// A, a rollback would go from A to A.
    fn drop_empty_steps(&mut self) {
        self.before.dedup();
        if self.before.last() == self.active.as_ref() {
            self.before.pop();
        }
    }
}

/// A digest in JSON: its hexadecimal digits.
mod digest_text {
    use nacre_program::Digest;
    use serde::{Deserialize, Deserializer, Serializer, de};

    pub(super) fn serialize<S: Serializer>(digest: &Digest, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(digest)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Digest, D::Error> {
        String::deserialize(from)?.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nacre_clock::Random;

    fn program() -> ProgramId {
        "class/p".parse().unwrap()
    }

    fn version(source: &str) -> VersionRecord {
        VersionRecord { digest: Digest::of(source), bytes: 1, created_at_micros: 0 }
    }

    fn record(sources: &[&str]) -> ProgramRecord {
        let mut record = ProgramRecord::default();
        sources.iter().for_each(|source| {
            record.put(version(source));
        });
        record
    }

    /// A sample of a stored record. If this test fails, stored programs can no longer be read.
    #[test]
    fn a_stored_sample_can_still_be_read() {
        let digest = Digest::of("a");
        let stored = format!(
            "{{\"next\":2,\"versions\":{{\"1\":{{\"digest\":\"{digest}\",\"bytes\":1,\
             \"created_at_micros\":0}}}},\"active\":1,\"before\":[],\"activation\":7}}"
        );
        let mut expected = record(&["a"]);
        expected.activate(&program(), 1, 7).unwrap();
        assert_eq!(ProgramRecord::parse("class/p", stored.as_bytes(), 9).unwrap(), expected);
        assert_eq!(expected.to_value(), stored);
    }

    #[test]
    fn an_activation_is_never_newer_than_the_epoch_it_was_read_in() {
        let mut forged = record(&["a", "b"]);
        forged.activate(&program(), 1, u64::MAX).unwrap();
        let mut read = ProgramRecord::parse("class/p", &forged.to_value(), 8).unwrap();
        assert_eq!((read.active, read.activation), (Some(1), 8));
        read.activate(&program(), 2, 9).unwrap();
        assert_eq!(ProgramRecord::parse("class/p", &read.to_value(), 9).unwrap().activation, 9);
    }

    #[test]
    fn versions_count_from_1_and_putting_the_latest_source_again_adds_none() {
        let mut record = record(&[]);
        let numbers = ["a", "a", "b", "a"].map(|source| record.put(version(source)));
        assert_eq!(numbers, [1, 1, 2, 3]);
        record.remove(None, 9);
        assert_eq!(record.put(version("c")), 4, "numbers are not used twice");
    }

    #[test]
    fn rollbacks_go_back_step_by_step_and_end() {
        let mut record = record(&["a", "b", "c"]);
        for (epoch, version) in [(10, 1), (11, 2), (12, 3), (13, 2)] {
            assert!(record.activate(&program(), version, epoch).unwrap());
        }
        assert!(!record.activate(&program(), 2, 14).unwrap(), "it is active already");
        assert_eq!(record.activation, 13);
        let back: Vec<_> =
            (20..23).map(|epoch| record.roll_back(&program(), epoch).unwrap()).collect();
        assert_eq!((back, record.activation), (vec![3, 2, 1], 22));
        assert!(record.roll_back(&program(), 23).is_err());
        assert_eq!(record.active, Some(1));
    }

    #[test]
    fn rollback_skips_a_version_that_was_removed() {
        let mut record = record(&["a", "b"]);
        for version in [1, 2, 1] {
            record.activate(&program(), version, 5).unwrap();
        }
        record.remove(Some(2), 6);
        assert_eq!((record.active, record.activation), (Some(1), 5));
        assert!(record.roll_back(&program(), 7).is_err());
    }

    #[test]
    fn superseded_versions_are_garbage_except_the_newest_and_those_rollbacks_reach() {
        let sources: Vec<_> = (1..=20).map(|n| n.to_string()).collect();
        let mut record = record(&sources.iter().map(String::as_str).collect::<Vec<_>>());
        assert!(record.superseded().is_empty(), "nothing is active");
        for version in [2, 15] {
            record.activate(&program(), version, version).unwrap();
        }
        // Version 15 is active. Versions 1 and 3 to 14 are superseded, a rollback reaches version
        // 2, and versions 16 to 20 are newer. The eight newest superseded versions are kept.
        assert_eq!(record.superseded(), [1, 3, 4, 5, 6]);
        record.roll_back(&program(), 30).unwrap();
        assert!(record.superseded().is_empty());
    }

    #[test]
    fn an_unknown_version_is_refused_with_a_list_of_the_existing_ones() {
        let error = record(&["a", "b"]).activate(&program(), 3, 1).unwrap_err();
        assert_eq!(error.kind(), nacre_object::ErrorKind::NotFound);
        assert_eq!(error.hint_text(), Some("name an existing version: 1, 2"));
    }

    #[test]
    fn the_active_and_former_versions_exist_after_any_changes() {
        for seed in 0..60 {
            let mut random = Random::seeded(seed);
            let mut record = ProgramRecord::default();
            for epoch in 1..400 {
                let any = 1 + random.below(record.next);
                match random.below(6) {
                    0..=2 => {
                        record.put(version(&random.below(5).to_string()));
                    }
                    3 => {
                        let _ = record.activate(&program(), any, epoch);
                    }
                    4 => {
                        let _ = record.roll_back(&program(), epoch);
                    }
                    _ if random.one_in(20) => record.remove(None, epoch),
                    _ => record.remove(Some(any), epoch),
                }
                let there = |version: &u64| record.versions.contains_key(version);
                assert!(record.active.iter().chain(&record.before).all(there), "seed {seed}");
                assert!(record.versions.len() <= MAX_VERSIONS, "seed {seed}");
                assert!(record.before.len() <= MAX_ROLLBACKS, "seed {seed}");
                let steps = record.before.iter().chain(&record.active).collect::<Vec<_>>();
                assert!(steps.windows(2).all(|step| step[0] != step[1]), "seed {seed}");
                let gone = record.superseded();
                let needed = record.active.iter().chain(&record.before);
                assert!(needed.chain(record.versions.keys().last()).all(|v| !gone.contains(v)));
                let back = ProgramRecord::parse("class/p", &record.to_value(), epoch).unwrap();
                assert_eq!(back, record);
            }
        }
    }
}
