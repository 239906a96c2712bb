//! Saves changes that the journal of a damaged store has and its tables lack.
//!
//! Records newer than the tables are applied in order. If table files were lost, older records
//! replace the lost entries. An older record may be outdated, because the record of a later change
//! may be lost too. So it never replaces an entry that the tables still have.

use std::path::PathBuf;
use std::sync::Arc;

use nacre_object::Result;

use super::Salvaged;
use super::progress::Progresses;
use crate::disk::RealDisk;
use crate::entry::key;
use crate::entry::value::{NamedIn, Value};
use crate::journal::inventory::visit_groups;
use crate::journal::record::Record;
use crate::journal::segment::{BLOCK_BYTES, GroupHeader, Salt, Segment, file_name};
use crate::journal::segment_table::SegmentTable;
use crate::options::MAX_SHARDS;
use crate::scrub::Damage;
use crate::tables::Tables;
use crate::transaction::batch::{Batch, LiveBytes};
use crate::transaction::change_set::Overlay;

/// Entries of records that are applied together.
const BATCH_ENTRIES: usize = 4096;

/// Finds the salt of the segments' groups, from the first group that can be read.
pub(super) fn salt_of(segments: &[Segment]) -> Option<Salt> {
    segments.iter().find_map(|segment| {
        let mut header = [0; GroupHeader::BYTES];
        segment.file.read_at(u64::from(BLOCK_BYTES), &mut header).ok()?;
        let salt = Salt(u64::from_le_bytes(*header.last_chunk()?));
        GroupHeader::decode(&header, segment.id, salt).map(|_| salt)
    })
}

/// Applies records to new tables.
pub(super) struct Records<'a> {
    tables: &'a Tables,
    segments: SegmentTable,
    progresses: &'a mut Progresses,
    /// By shard.
    batches: Vec<Batch>,
    /// Entries from records that the tables had already applied. They are collected only if table
    /// files were lost.
    older: Option<Overlay>,
}

impl<'a> Records<'a> {
    /// Prepares to save records into `tables`. `are_whole` is whether all table files could be
    /// read; `journal` is the new folder of segments.
    pub fn new(
        tables: &'a Tables,
        journal: PathBuf,
        are_whole: bool,
        progresses: &'a mut Progresses,
    ) -> Self {
        Self {
            tables,
            segments: SegmentTable::new(Arc::new(RealDisk), journal),
            progresses,
            batches: (0..MAX_SHARDS).map(|_| Batch::default()).collect(),
            older: (!are_whole).then(Overlay::new),
        }
    }

    /// Saves the changes that the tables lack. Returns the number of the last group of the journal.
    ///
    /// # Errors
    /// Any error of the disk on which the new tables lie. An unreadable segment is no error; it is
    /// reported as damage.
    pub fn save(
        &mut self,
        segments: &[Segment],
        salt: Salt,
        salvaged: &mut Salvaged,
    ) -> Result<u64> {
        let mut last_group = 0;
        for segment in segments {
            let mut failed = Ok(());
            let visited = visit_groups(segment, salt, u64::MAX, &mut |header, records| {
                last_group = last_group.max(header.number);
                for record in records.into_iter().flatten() {
                    if failed.is_ok() {
                        failed = self.take(record, salvaged);
                    }
                }
            });
            failed?;
            if let Err(error) = visited {
                salvaged.damages.push(Damage::of_store(file_name(segment.id), error.message()));
            }
        }
        self.apply()?;
        self.fill_in(salvaged)?;
        Ok(last_group)
    }

    fn take(&mut self, record: Record, salvaged: &mut Salvaged) -> Result<()> {
        let Some(missing) = self.progresses.note(record.id) else {
            if let Some(older) = &mut self.older {
                older.extend(record.changes.entries);
            }
            return Ok(());
        };
        if missing > 0 {
            let place = format!("journal, shard {}", record.id.shard);
            let before = record.id.sequence;
            let problem = format!("{missing} transactions before number {before} are lost");
            salvaged.damages.push(Damage::of_store(place, problem));
        }
        salvaged.records += 1;
        // An older record must not replace an entry of a newer one.
        if let Some(older) = &mut self.older {
            record.changes.entries.keys().for_each(|key| drop(older.remove(key)));
        }
        self.batches[usize::from(record.id.shard)].absorb(record.id, Arc::new(record.changes));
        if self.batches.iter().map(Batch::len).sum::<usize>() >= BATCH_ENTRIES {
            self.apply()?;
        }
        Ok(())
    }

    fn apply(&mut self) -> Result<()> {
        let batches = self.batches.iter_mut().map(std::mem::take).collect();
        // Live bytes are counted again at the end.
        let mut live: Vec<_> = self.batches.iter().map(|_| LiveBytes::new()).collect();
        Batch::apply_all(batches, self.tables, &self.segments, &mut live);
        self.tables.write_if_full()
    }

    /// Puts the entries of older records that the tables lack.
    fn fill_in(&mut self, salvaged: &mut Salvaged) -> Result<()> {
        let snapshot = self.tables.snapshot();
        for (key, value) in self.older.take().unwrap_or_default() {
            let Some(value) = value.filter(|_| matches!(snapshot.get(&key), Ok(None))) else {
                continue;
            };
            let mut batch = self.tables.batch(1);
            for piece in value.pieces().iter().filter(|piece| piece.named_in == NamedIn::Reference)
            {
                let Some(address) = piece.source.address() else { continue };
                let reference = key::reference(address.segment, address.offset, &key);
                batch.put(reference, &Value::Inline(bytes::Bytes::new()));
            }
            batch.put(key, &value);
            batch.commit();
            salvaged.entries += 1;
            self.tables.write_if_full()?;
        }
        Ok(())
    }
}
