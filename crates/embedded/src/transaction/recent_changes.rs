//! A shard's recent changes, which may not be in the tables yet. Its transactions read them on top
//! of the tables.
//!
//! The changes are held in two generations. New changes join the newer one while the older one is
//! being written to the tables. Once the tables have the older one, it is dropped as a whole, and
//! the newer one takes its place. So no entry is removed one by one, and the memory is bounded by
//! what can be in flight.

use crate::transaction::change_set::{ChangeSet, Overlay};

/// Entries, and the last group of the journal that holds one.
#[derive(Debug, Default)]
struct Generation {
    entries: Overlay,
    group: u64,
}

/// The recent changes of a shard.
#[derive(Debug, Default)]
pub(crate) struct RecentChanges {
    newer: Generation,
    older: Generation,
}

impl RecentChanges {
    /// Adds what a record in `group` did.
    pub fn add(&mut self, changes: &ChangeSet, group: u64) {
        let entries = changes.entries.iter().map(|(key, value)| (key.clone(), value.clone()));
        self.newer.entries.extend(entries);
        self.newer.group = group;
    }

    /// Drops the generations that are in the tables, up to the group `applied`. A snapshot of the
    /// tables must be taken after this call, so that it has everything that was dropped.
    pub fn forget(&mut self, applied: u64) {
        if self.older.group <= applied {
            self.older = std::mem::take(&mut self.newer);
            if self.older.group <= applied {
                self.older = Generation::default();
            }
        }
    }

    /// The generations that have entries, the newer one first.
    pub fn overlays(&self) -> [Option<&Overlay>; 2] {
        [&self.newer, &self.older]
            .map(|generation| (!generation.entries.is_empty()).then_some(&generation.entries))
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::entry::key::Key;
    use crate::entry::value::Value;

    fn change(key: &str) -> ChangeSet {
        let entry = (Key::from(key), Some(Value::Inline(Bytes::new())));
        ChangeSet { entries: Overlay::from([entry]), releases: Vec::new() }
    }

    fn kept(recent: &RecentChanges) -> Vec<String> {
        let overlays = recent.overlays().into_iter().flatten();
        let keys = overlays.flat_map(|overlay| overlay.keys());
        keys.map(|key| String::from_utf8_lossy(key).into_owned()).collect()
    }

    #[test]
    fn recent_changes_are_dropped_by_generation_once_the_tables_have_them() {
        let mut recent = RecentChanges::default();
        recent.add(&change("a"), 1);
        recent.forget(0);
        recent.add(&change("b"), 2);
        recent.forget(0);
        assert_eq!(kept(&recent), ["b", "a"]);
        recent.forget(1);
        assert_eq!(kept(&recent), ["b"], "group 1 has arrived");
        recent.add(&change("c"), 3);
        recent.forget(1);
        assert_eq!(kept(&recent), ["c", "b"]);
        recent.forget(3);
        assert!(kept(&recent).is_empty());
    }
}
