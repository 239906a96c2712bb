//! Transactions of one shard that are applied to the tables together.

use std::collections::HashMap;
use std::ops::Bound::{Excluded, Included};
use std::sync::Arc;

use nacre_object::Result;

use crate::entry::codec::{Put, Take};
use crate::entry::key::{self, Key};
use crate::entry::value::{NamedIn, Value};
use crate::journal::record::RecordId;
use crate::journal::released_payloads::ReleasedPayload;
use crate::journal::segment_table::SegmentTable;
use crate::tables::{TableBatch, TableSnapshot, Tables};
use crate::transaction::change_set::ChangeSet;

/// How far a shard has applied the journal. The tables hold it as a deferred entry, which is
/// written only when the memtable is sealed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Progress {
    /// Sequence of the last record applied.
    pub sequence: u64,
    /// The first node number that the shard has not used. 0 is never used.
    pub next_node: u64,
}

impl Progress {
    /// # Errors
    /// `Corrupt` if the entry is damaged.
    pub fn load(tables: &TableSnapshot, shard: u16) -> Result<Self> {
        match tables.get(&key::applied(shard))? {
            None => Ok(Self { sequence: 0, next_node: 1 }),
            Some(value) => {
                let bytes = value.into_inline()?;
                let mut from = Take(&bytes);
                Ok(Self { sequence: from.u64()?, next_node: from.u64()? })
            }
        }
    }

    /// As it is kept in the tables.
    pub fn encode(self) -> Value {
        let mut out = Vec::with_capacity(16);
        out.put_u64(self.sequence);
        out.put_u64(self.next_node);
        Value::Inline(out.into())
    }
}

/// Bytes of each segment that a shard's entries refer to.
pub(crate) type LiveBytes = HashMap<u32, i64>;

/// The changes of transactions that are not in the tables yet, taken together.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    /// In their order.
    changes: Vec<Arc<ChangeSet>>,
    /// Entries of all of them.
    entries: usize,
    /// References to payloads, and whether each exists after the batch.
    references: HashMap<Key, bool>,
    live: LiveBytes,
    /// The segment of each piece that the batch adds.
    added: Vec<u32>,
    /// Payloads that their owners released, each with its segment. Compaction uses them to skip
    /// look-ups of these owners.
    released: Vec<(u32, ReleasedPayload)>,
    progress: Option<Progress>,
}

impl Batch {
    /// Adds a transaction's changes to those before it.
    pub fn absorb(&mut self, id: RecordId, changes: Arc<ChangeSet>) {
        self.progress = Some(Progress { sequence: id.sequence, next_node: id.next_node });
        for release in &changes.releases {
            let address = release.address;
            if release.named_in == NamedIn::Reference {
                let reference = key::reference(address.segment, address.offset, &release.owner);
                self.references.insert(reference, false);
            } else if release.take == address.length {
                let payload = ReleasedPayload::new(address.offset, &release.owner);
                self.released.push((address.segment, payload));
            }
            *self.live.entry(address.segment).or_default() -= i64::from(release.take);
        }
        for (owner, value) in &changes.entries {
            for piece in value.iter().flat_map(Value::pieces) {
                let address = piece.source.address().expect("absorbed changes have been placed");
                if piece.named_in == NamedIn::Reference {
                    let reference = key::reference(address.segment, address.offset, owner);
                    self.references.insert(reference, true);
                }
                *self.live.entry(address.segment).or_default() += i64::from(piece.take);
                self.added.push(address.segment);
            }
        }
        self.entries += changes.entries.len();
        self.changes.push(changes);
    }

    /// The entries after all changes, in the order of keys.
    fn left(&self) -> Vec<(&Key, &Option<Value>)> {
        let latest_first = self.changes.iter().rev();
        let mut entries: Vec<_> = latest_first.flat_map(|changes| &changes.entries).collect();
        // The sort is stable, so the first entry of each key is its latest.
        entries.sort_by_key(|(key, _)| *key);
        entries.dedup_by(|earlier, latest| earlier.0 == latest.0);
        entries
    }

    /// Whether a node became garbage.
    pub fn leaves_garbage(&self) -> bool {
        let (first, past) = ([key::GARBAGE].as_slice(), [key::GARBAGE + 1].as_slice());
        let garbage = |changes: &ChangeSet| {
            let mut marks = changes.entries.range::<[u8], _>((Included(first), Excluded(past)));
            marks.any(|(_, mark)| mark.is_some())
        };
        self.changes.iter().any(|changes| garbage(changes))
    }

    /// Entries that would be written.
    pub fn len(&self) -> usize {
        self.entries + self.references.len()
    }

    /// Writes the batches of all shards to the tables in one step, then counts their references to
    /// segments. Batch `n` belongs to shard `n`.
    ///
    /// The caller must have taken a pin of the segments before the transactions ran, and must hold
    /// it until this function returns.
    pub fn apply_all(
        batches: Vec<Self>,
        tables: &Tables,
        segments: &SegmentTable,
        live: &mut [LiveBytes],
    ) {
        let entries = batches.iter().map(Self::len).sum();
        let mut all = tables.batch(entries);
        let (mut counts, mut released) = (Vec::new(), Vec::new());
        for ((shard, mut batch), live) in (0..).zip(batches).zip(live) {
            released.append(&mut batch.released);
            counts.extend(batch.put_into(&mut all, shard, live));
        }
        all.commit();
        segments.note_released(released.into_iter());
        for (live, added) in counts.into_iter().filter(|(live, _)| !live.is_empty()) {
            segments.count(&live, added.into_iter());
        }
    }

    /// Adds this batch's entries to `all`. Returns what to count after the write: for each segment,
    /// the change in the number of its bytes that entries refer to; and the segments with new
    /// references.
    fn put_into(
        self,
        all: &mut TableBatch<'_>,
        shard: u16,
        shard_live: &mut LiveBytes,
    ) -> Option<(LiveBytes, Vec<u32>)> {
        let progress = self.progress?;
        for (key, value) in self.left() {
            match value {
                Some(value) => all.put(key.clone(), value),
                None => all.delete(key.clone()),
            }
        }
        for (reference, exists) in self.references {
            if exists {
                all.put(reference, &Value::Inline(bytes::Bytes::new()));
            } else {
                all.delete(reference);
            }
        }
        for (segment, delta) in &self.live {
            let total = shard_live.entry(*segment).or_default();
            *total += delta;
            let count = (*total != 0).then(|| Value::Inline(total.to_le_bytes().to_vec().into()));
            if count.is_none() {
                shard_live.remove(segment);
            }
            all.defer(key::live(*segment, shard).into(), count);
        }
        all.defer(key::applied(shard).into(), Some(progress.encode()));
        Some((self.live, self.added))
    }
}
