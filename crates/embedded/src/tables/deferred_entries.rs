//! Deferred entries: counters in the tables that nearly every batch changes and few readers need.
//! Examples are how far a shard has applied the journal, and how many bytes of a segment are live.
//!
//! If each batch wrote its counters at once, a batch of replaced payloads would write as many
//! counters as other entries. So memory holds the latest values, and the tables get them only when
//! the memtable is sealed or a reader needs them. A crash loses them together with the unsealed
//! entries that they describe.

use std::collections::HashMap;

use super::StoredEntry;
use crate::entry::key::Key;
use crate::entry::value::Value;

/// The deferred entries that are not in the tables yet.
#[derive(Debug, Default)]
pub(super) struct DeferredEntries(HashMap<Key, Option<Value>>);

impl DeferredEntries {
    pub fn note(&mut self, key: Key, value: Option<Value>) {
        self.0.insert(key, value);
    }

    /// Takes over later values.
    pub fn absorb(&mut self, later: Self) {
        self.0.extend(later.0);
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Removes all entries and yields them as they are stored.
    pub fn drain(&mut self) -> impl Iterator<Item = StoredEntry> {
        let mut scratch = Vec::new();
        self.0.drain().map(move |(key, value)| {
            let stored = value.map(|value| value.encode(&key, &mut scratch));
            (key, stored)
        })
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use tempfile::TempDir;

    use super::*;
    use crate::tables::Tables;

    #[test]
    fn a_seal_or_a_snapshot_writes_the_latest_value_of_a_deferred_entry() {
        let folder = TempDir::new().unwrap();
        let tables = Tables::open(folder.path(), 1 << 20, 1 << 20).unwrap();
        let value = |text: &str| Value::Inline(Bytes::copy_from_slice(text.as_bytes()));
        let defer = |key: &str, value: Option<Value>| {
            let mut batch = tables.batch(0);
            batch.defer(key.into(), value);
            batch.commit();
        };
        let text = |value: Option<Value>| value.map(|value| value.into_inline().unwrap());
        defer("a", Some(value("1")));
        defer("a", Some(value("2")));
        defer("b", Some(value("3")));
        let (without, with) = (tables.snapshot(), tables.snapshot_with_deferred());
        assert_eq!(text(without.get(b"a").unwrap()), None);
        assert_eq!(text(with.get(b"a").unwrap()).unwrap(), "2");
        defer("a", Some(value("4")));
        defer("b", None);
        tables.seal();
        assert_eq!(text(tables.snapshot().get(b"a").unwrap()).unwrap(), "4");
        assert_eq!(text(tables.snapshot().get(b"b").unwrap()), None);
        tables.write_sealed().unwrap();
        defer("a", Some(value("5")));
        drop((tables, without, with));
        let again = Tables::open(folder.path(), 1 << 20, 1 << 20).unwrap();
        assert_eq!(text(again.snapshot_with_deferred().get(b"a").unwrap()).unwrap(), "4");
    }
}
