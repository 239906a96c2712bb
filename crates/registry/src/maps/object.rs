//! A map's object, as the methods of its class see it.

use bytes::Bytes;
use nacre_object::limits::MAX_MAP_RANGE_ENTRIES;
use nacre_object::{Error, MapEntry, ObjectView, Result};
use prost::Message;

use super::Change;
use super::decision::NextEpoch;
use super::format::{ChangeMessage, FORMAT, Head, Record, Trigger, Watermark};
use crate::limits::{
    MAX_ENTRIES, MAX_HISTORY_BYTES, MAX_HISTORY_EPOCHS, MAX_MAP_BYTES, MAX_PENDING_TRIGGERS,
};
use crate::numbered::{numbered_after, numbered_key};
use crate::system::decode_stored;

const ENTRY: &[u8] = b"e/";
const RECORD: &[u8] = b"h/";
const TRIGGER: &[u8] = b"o/";
const WATERMARK: &[u8] = b"t/";
const PROGRAM_SOURCE: &[u8] = b"p/source";

/// The object with its head. Changes of the head are written by [`MapObject::save`].
pub(crate) struct MapObject<'a> {
    view: &'a mut dyn ObjectView,
    exists: bool,
    pub(super) head: Head,
}

fn named_key(prefix: &[u8], name: &str) -> Vec<u8> {
    [prefix, name.as_bytes()].concat()
}

impl<'a> MapObject<'a> {
    /// Reads the head; an absent object is a map at epoch 0.
    pub(super) fn open(view: &'a mut dyn ObjectView) -> Result<Self> {
        let exists = view.exists()?;
        let head = if exists { view.map_header()? } else { Bytes::new() };
        let head = if head.is_empty() {
            Head { format: FORMAT, first_kept: 1, ..Head::default() }
        } else {
            decode_stored("the map's head", head)?
        };
        if head.format != FORMAT {
            let text = format!(
                "the map has format {}, and this version of nacre reads only {FORMAT}",
                head.format
            );
            return Err(Error::unsupported(text).hint("use a newer nacre"));
        }
        if !is_possible(&head) {
            return Err(Error::corrupt("the map's head is damaged: its counts are impossible")
                .hint(
                    "find all damage with `nacre scrub`; `nacre salvage` copies what can be read",
                ));
        }
        Ok(Self { view, exists, head })
    }

    /// Writes the head.
    pub(super) fn save(self) -> Result<()> {
        self.view.set_map_header(Bytes::from(self.head.encode_to_vec()))
    }

    fn get(&mut self, key: &[u8]) -> Result<Option<Bytes>> {
        if self.exists { self.view.map_get(key) } else { Ok(None) }
    }

    fn set(&mut self, key: &[u8], value: impl Into<Bytes>) -> Result<()> {
        self.exists = true;
        self.view.map_set(key, value.into())
    }

    /// A value by its key.
    pub(crate) fn entry(&mut self, key: &str) -> Result<Option<Bytes>> {
        self.get(&named_key(ENTRY, key))
    }

    /// Every entry, in key order.
    pub(super) fn entries(&mut self) -> Result<Vec<ChangeMessage>> {
        let mut entries = Vec::new();
        let mut after = Vec::new();
        while self.exists {
            let range = self.view.map_range(&after, ENTRY, MAX_MAP_RANGE_ENTRIES)?;
            after = range.entries.last().map(|entry| entry.key.to_vec()).unwrap_or_default();
            for MapEntry { key, value } in range.entries {
                let key = String::from_utf8(key[ENTRY.len()..].to_vec())
                    .map_err(|_| Error::corrupt("a key of the map is not UTF-8"))?;
                entries.push(ChangeMessage { key, value: Some(value) });
            }
            if !range.more {
                break;
            }
        }
        Ok(entries)
    }

    /// Applies a change to the entries. `Exhausted` if a bound of the whole map would be exceeded.
    pub(super) fn change(&mut self, change: &Change) -> Result<()> {
        let key = named_key(ENTRY, change.key());
        if let Some(old) = self.get(&key)? {
            let bytes = (change.key().len() + old.len()) as u64;
            self.head.entries = self.head.entries.saturating_sub(1);
            self.head.entry_bytes = self.head.entry_bytes.saturating_sub(bytes);
            self.view.map_remove(&key)?;
        }
        let Some(value) = change.value() else { return Ok(()) };
        self.set(&key, value.clone())?;
        self.head.entries += 1;
        self.head.entry_bytes += change.payload_bytes() as u64;
        if self.head.entries > MAX_ENTRIES || self.head.entry_bytes > MAX_MAP_BYTES {
            let text = format!(
                "the map is full: it can hold {MAX_ENTRIES} entries and {MAX_MAP_BYTES} bytes"
            );
            return Err(Error::exhausted(text).hint("remove entries first, or use another map"));
        }
        Ok(())
    }

    /// The commit that began an epoch, if that is still kept.
    pub(super) fn record(&mut self, epoch: u64) -> Result<Option<Record>> {
        let stored = self.get(&numbered_key(RECORD, epoch))?;
        stored.map(|bytes| decode_stored("a record of the map's history", bytes)).transpose()
    }

    /// Whether the map has had a commit and is not deleted.
    pub(super) fn is_there(&self) -> bool {
        self.head.epoch > 0 && self.head.deletion_id.is_empty()
    }

    /// Begins an epoch in which the map is deleted. Only the record of other maps' triggers
    /// remains.
    pub(super) fn delete(&mut self, deletion_id: Bytes) -> Result<()> {
        let mut watermarks = Vec::new();
        let mut after = Vec::new();
        loop {
            let range = self.view.map_range(&after, WATERMARK, MAX_MAP_RANGE_ENTRIES)?;
            after = range.entries.last().map(|entry| entry.key.to_vec()).unwrap_or_default();
            watermarks.extend(range.entries);
            if !range.more {
                break;
            }
        }
        self.view.map_clear()?;
        watermarks.into_iter().try_for_each(|kept| self.view.map_set(&kept.key, kept.value))?;
        let epoch = self.head.epoch + 1;
        let (history_bytes, entries, entry_bytes) = (0, 0, 0);
        let counts = Head { epoch, history_bytes, entries, entry_bytes, ..self.head.clone() };
        self.head = Head { first_kept: epoch + 1, deletion_id, ..counts };
        Ok(())
    }

    /// What the history says about `epoch`. `record` is the record of that epoch, if it is kept.
    pub(super) fn next_epoch<'r>(&self, epoch: u64, record: Option<&'r Record>) -> NextEpoch<'r> {
        match record {
            Some(record) => NextEpoch::Begun(&record.commit_id),
            None if epoch > self.head.epoch => NextEpoch::Open,
            None => NextEpoch::Forgotten,
        }
    }

    /// Begins the record's epoch. Forgets the oldest epochs while the history exceeds its bounds.
    pub(super) fn push(&mut self, record: &Record) -> Result<()> {
        let bytes = record.encode_to_vec();
        self.head.epoch = record.epoch;
        self.head.deletion_id = Bytes::new();
        self.head.history_bytes += bytes.len() as u64;
        self.set(&numbered_key(RECORD, record.epoch), bytes)?;
        while history_overflows(&self.head) {
            let oldest = numbered_key(RECORD, self.head.first_kept);
            let bytes = self.get(&oldest)?.map_or(0, |bytes| bytes.len() as u64);
            self.view.map_remove(&oldest)?;
            self.head.history_bytes = self.head.history_bytes.saturating_sub(bytes);
            self.head.first_kept += 1;
        }
        Ok(())
    }

    /// Records after an epoch, oldest first, as many as fit a page.
    pub(super) fn records_after(&mut self, epoch: u64, limit: usize) -> Result<Vec<Record>> {
        let after = epoch.max(self.head.first_kept.saturating_sub(1));
        if !self.exists {
            return Ok(Vec::new());
        }
        numbered_after(self.view, RECORD, after, limit, "a record of the map's history")
    }

    /// Triggers after a number, oldest first, as many as fit a page.
    pub(super) fn triggers_after(&mut self, number: u64, limit: usize) -> Result<Vec<Trigger>> {
        if !self.exists {
            return Ok(Vec::new());
        }
        numbered_after(self.view, TRIGGER, number, limit, "a trigger of the map")
    }

    /// Records a trigger: a commit to another map, to be carried out after this commit. Fails with
    /// `Exhausted` if too many triggers wait.
    pub(super) fn push_trigger(
        &mut self,
        map: String,
        changes: Vec<Change>,
        chain: Vec<String>,
    ) -> Result<()> {
        if self.head.pending_triggers >= MAX_PENDING_TRIGGERS {
            return Err(Error::exhausted(format!(
                "{MAX_PENDING_TRIGGERS} commits that this map triggered still wait, the most that can"
            ))
            .hint("see why the other maps refuse them, or wait until they are carried out"));
        }
        self.head.last_trigger += 1;
        self.head.pending_triggers += 1;
        let sequence = self.head.last_trigger;
        let changes = changes.into_iter().map(ChangeMessage::from).collect();
        let trigger = Trigger { sequence, map, changes, chain };
        self.set(&numbered_key(TRIGGER, sequence), trigger.encode_to_vec())
    }

    /// Forgets triggers up to a number; returns how many there were.
    pub(super) fn drop_triggers(&mut self, through: u64) -> Result<u64> {
        let before = self.head.pending_triggers;
        let dropped = self.head.last_trigger.saturating_sub(self.head.pending_triggers);
        for sequence in dropped + 1..=through.min(self.head.last_trigger) {
            self.view.map_remove(&numbered_key(TRIGGER, sequence))?;
            self.head.pending_triggers -= 1;
        }
        Ok(before - self.head.pending_triggers)
    }

    /// The newest trigger of another map that was committed here.
    pub(super) fn watermark(&mut self, map: &str) -> Result<Option<Watermark>> {
        let stored = self.get(&named_key(WATERMARK, map))?;
        stored.map(|bytes| decode_stored("a trigger's watermark", bytes)).transpose()
    }

    /// Remembers that a trigger of another map was committed here.
    pub(super) fn set_watermark(&mut self, map: &str, watermark: &Watermark) -> Result<()> {
        self.set(&named_key(WATERMARK, map), watermark.encode_to_vec())
    }

    /// The source of the bound program.
    pub(super) fn program_source(&mut self) -> Result<Bytes> {
        self.get(PROGRAM_SOURCE)?.ok_or_else(|| Error::corrupt("the map's program has no source"))
    }

    /// Keeps the source of the bound program, or drops it.
    pub(super) fn set_program_source(&mut self, source: Option<String>) -> Result<()> {
        match source {
            Some(source) => self.set(PROGRAM_SOURCE, source),
            None if self.exists => self.view.map_remove(PROGRAM_SOURCE),
            None => Ok(()),
        }
    }
}

/// Whether a sequence of commits can lead to the counts in this head. Damaged counts are refused,
/// because sums of them could overflow and loops over them could be endless.
fn is_possible(head: &Head) -> bool {
    /// No count ever gets there.
    const END: u64 = i64::MAX as u64;
    let counts =
        [head.epoch, head.history_bytes, head.entries, head.entry_bytes, head.last_trigger];
    counts.iter().all(|count| *count < END)
        && head.pending_triggers <= MAX_PENDING_TRIGGERS.min(head.last_trigger)
        && head.first_kept <= head.epoch + 1
        && head.epoch + 1 - head.first_kept <= MAX_HISTORY_EPOCHS
}

/// Whether the oldest epoch must be dropped. The newest one never is.
fn history_overflows(head: &Head) -> bool {
    let epochs = (head.epoch + 1).saturating_sub(head.first_kept);
    epochs > 1 && (epochs > MAX_HISTORY_EPOCHS || head.history_bytes > MAX_HISTORY_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_with_impossible_counts_is_refused() {
        let fresh = Head { format: FORMAT, first_kept: 1, ..Head::default() };
        let used =
            Head { epoch: 9, first_kept: 3, last_trigger: 5, pending_triggers: 5, ..fresh.clone() };
        assert!(is_possible(&fresh) && is_possible(&used));
        for head in [
            Head { entries: u64::MAX, ..used.clone() },
            Head { entry_bytes: u64::MAX, ..used.clone() },
            Head { history_bytes: u64::MAX, ..used.clone() },
            Head { epoch: u64::MAX, first_kept: u64::MAX, ..used.clone() },
            Head { last_trigger: u64::MAX, ..used.clone() },
            Head { pending_triggers: 6, ..used.clone() },
            Head { first_kept: 11, ..used.clone() },
            Head { epoch: MAX_HISTORY_EPOCHS + 3, ..used },
        ] {
            assert!(!is_possible(&head), "{head:?}");
        }
    }

    #[test]
    fn history_is_bounded_in_epochs_and_bytes_but_keeps_the_newest() {
        let head = |epoch, first_kept, history_bytes| Head {
            epoch,
            first_kept,
            history_bytes,
            ..Head::default()
        };
        assert!(!history_overflows(&head(MAX_HISTORY_EPOCHS, 1, 10)));
        assert!(history_overflows(&head(MAX_HISTORY_EPOCHS + 1, 1, 10)));
        assert!(history_overflows(&head(2, 1, MAX_HISTORY_BYTES + 1)));
        assert!(!history_overflows(&head(2, 2, MAX_HISTORY_BYTES + 1)));
    }
}
