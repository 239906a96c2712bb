//! Which journal records of each shard are already in the tables of a damaged store, as far as the
//! tables still say so.

use nacre_object::{ErrorKind, Result};

use crate::core::hash_of;
use crate::entry::head::Head;
use crate::entry::key::{self, Kind};
use crate::journal::record::RecordId;
use crate::manifest::Manifest;
use crate::options::MAX_SHARDS;
use crate::tables::{TableSnapshot, Tables};
use crate::transaction::batch::Progress;

/// Objects looked at to find out how many shards there are.
const MAX_OBJECTS_LOOKED_AT: usize = 10_000;

/// The progress of the shards that are known.
#[derive(Debug)]
pub(super) struct Progresses {
    /// How many shards there are, if the manifest says so.
    count: Option<usize>,
    /// For each shard: how far the tables are, and the last record that was seen.
    shards: Vec<(Option<u64>, Progress)>,
}

impl Progresses {
    /// What the tables and the manifest say.
    pub fn load(tables: &TableSnapshot, manifest: Option<&Manifest>) -> Result<Self> {
        let mut shards = Vec::new();
        for shard in 0..MAX_SHARDS as u16 {
            let is_stored = tables.get(&key::applied(shard))?.is_some();
            let mut progress = match Progress::load(tables, shard) {
                Err(error) if error.kind() == ErrorKind::Corrupt => Progress::default(),
                progress => progress?,
            };
            // A manifest is written only after the tables have these records.
            let floor = manifest.and_then(|manifest| manifest.sequences.get(usize::from(shard)));
            progress.sequence = progress.sequence.max(floor.copied().unwrap_or_default());
            let is_known = is_stored || floor.is_some();
            shards.push((is_known.then_some(progress.sequence), progress));
        }
        Ok(Self { count: manifest.map(|manifest| manifest.sequences.len()), shards })
    }

    /// Notes a journal record that was read. If the tables lack the record, returns how many
    /// earlier records of its shard are missing. Returns `None` if the tables have the record, or
    /// if it is unknown which records they have.
    pub fn note(&mut self, id: RecordId) -> Option<u64> {
        let (stored, seen) = self.shards.get_mut(usize::from(id.shard))?;
        let missing = id.sequence.checked_sub(seen.sequence + 1);
        seen.sequence = seen.sequence.max(id.sequence);
        seen.next_node = seen.next_node.max(id.next_node);
        (*stored)?;
        missing
    }

    /// Writes the progress of each shard to the tables; returns their last sequences.
    pub fn store(&self, tables: &Tables) -> Result<Vec<u64>> {
        let count = match self.count {
            Some(count) => count,
            None => self.guessed_count(&tables.snapshot()),
        };
        let mut batch = tables.batch(count);
        let mut sequences = Vec::new();
        for (shard, (_, progress)) in (0..).zip(&self.shards[..count]) {
            batch.defer(key::applied(shard).into(), Some(progress.encode()));
            sequences.push(progress.sequence);
        }
        batch.commit();
        Ok(sequences)
    }

    /// Guesses how many shards the store had. An object's shard is the hash of its name modulo the
    /// number of shards. The shard is also part of the numbers of the object's nodes. The guess is
    /// the smallest number of shards for which the hashes and the node numbers of many objects
    /// agree.
    fn guessed_count(&self, tables: &TableSnapshot) -> usize {
        let last = self.shards.iter().rposition(|(_, progress)| progress.sequence > 0);
        let at_least = last.map_or(1, |last| last + 1);
        let heads = tables.prefix(&key::ALL_HEADS[0]).flatten();
        let placed = heads.filter_map(|(key, value)| {
            let Kind::Head(object) = Kind::of(&key)? else { return None };
            let content = Head::decode(&value.into_inline().ok()?).ok()?.content;
            let node = content.stream.or(content.map).or(content.attributes)?;
            Some((hash_of(&object), u64::from(node.shard())))
        });
        let placed: Vec<_> = placed.take(MAX_OBJECTS_LOOKED_AT).collect();
        let fits =
            |count: &usize| placed.iter().all(|(hash, shard)| hash % *count as u64 == *shard);
        (at_least..=MAX_SHARDS).find(fits).unwrap_or(at_least)
    }
}
