//! Stores records: one map of the registry for each state machine, changed by compare-and-swap.

use std::fmt;
use std::marker::PhantomData;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::{self, StreamExt, TryStreamExt};
use nacre_object::{Error, ErrorKind, Result};
use nacre_registry::{Change, Maps};

use crate::record::{MapRecord, Record};

/// How many times a proposal is repeated if another key of the same map was changed meanwhile.
const MAX_PROPOSAL_ATTEMPTS: usize = 10;
/// How many records are read at the same time to list the state machines.
const READS_AT_ONCE: usize = 32;

/// Keeps the records of one kind.
#[async_trait]
pub trait RecordStore<R: Record>: Send + Sync + fmt::Debug {
    /// The stored record; `None` if there is no such state machine.
    ///
    /// # Errors
    /// `Unavailable`, `Corrupt`.
    async fn current(&self, name: &R::Name) -> Result<Option<R>> {
        Ok(self.last(name).await?.filter(|record| !record.is_removed()))
    }

    /// The stored record, even if the state machine was removed. `None` if there never was a
    /// machine of that name.
    ///
    /// # Errors
    /// `Unavailable` if the store does not answer; `Corrupt` if the record is damaged.
    async fn last(&self, name: &R::Name) -> Result<Option<R>>;

    /// Stores `record` if its epoch is that of the stored record plus one.
    ///
    /// # Errors
    /// `Stale` or `Invalid`, see [`check_proposal`]. After `Unavailable` the caller does not know
    /// whether the record was stored.
    async fn propose(&self, record: &R) -> Result<()>;

    /// The name of every machine.
    ///
    /// # Errors
    /// `Unavailable`.
    async fn names(&self) -> Result<Vec<R::Name>>;
}

/// The stored record of a state machine.
///
/// # Errors
/// `NotFound` if there is no machine of that name; `Unavailable` if the store does not answer;
/// `Corrupt` if the record is damaged.
pub async fn stored<R: Record>(records: &dyn RecordStore<R>, name: &R::Name) -> Result<R> {
    records.current(name).await?.ok_or_else(|| R::not_found(name))
}

/// Checks whether `proposed` may follow the record with epoch `stored_epoch`. That epoch is 0 if no
/// record is stored.
///
/// # Errors
/// `Stale` if the proposed epoch is not later than the stored one, `Invalid` if it skips an epoch.
pub fn check_proposal<R: Record>(stored_epoch: u64, proposed: &R) -> Result<()> {
    let (epoch, word) = (proposed.epoch(), R::WORDS.record);
    if epoch <= stored_epoch {
        let text =
            format!("{word} {epoch} was proposed, but {word} {stored_epoch} is already stored");
        return Err(Error::stale(text).on(proposed.name()));
    }
    if epoch != stored_epoch + 1 {
        let text =
            format!("{word} {epoch} was proposed, but the next one must be {}", stored_epoch + 1);
        return Err(Error::invalid(text).on(proposed.name()));
    }
    Ok(())
}

/// Records in the registry's maps, see [`MapRecord::map`] and [`MapRecord::KEY`].
pub struct MapRecords<R> {
    maps: Maps,
    kind: PhantomData<fn() -> R>,
}

impl<R: MapRecord> MapRecords<R> {
    /// Records in these maps.
    pub fn new(maps: Maps) -> Self {
        Self { maps, kind: PhantomData }
    }

    /// Returns `name`, or `None` if the state machine of that name was removed. A machine with a
    /// damaged record counts as present, so that opening it reports the damage.
    async fn is_there(&self, name: R::Name) -> Result<Option<R::Name>> {
        match self.current(&name).await {
            Ok(record) => Ok(record.map(|_| name)),
            Err(error) if error.kind() == ErrorKind::Corrupt => Ok(Some(name)),
            Err(error) => Err(error),
        }
    }

    /// The stored record, and the epoch of its map. The epoch counts every change of the map.
    async fn read(&self, name: &R::Name) -> Result<(u64, Option<R>)> {
        let (map_epoch, stored) = self.maps.entry(R::map(name), R::KEY).await?;
        let record = match stored {
            Some(encoded) => Some(decode(name, &encoded).map_err(|error| error.on(name))?),
            None => None,
        };
        Ok((map_epoch, record))
    }
}

/// Decodes the record in the map of the state machine `name`. Refuses a record that belongs to
/// another machine. Otherwise a user who may change only this map could make a node take over that
/// other machine.
fn decode<R: MapRecord>(name: &R::Name, encoded: &[u8]) -> Result<R> {
    let record = R::decode(encoded)?;
    if record.name() != name {
        let text = format!(
            "the stored {} is damaged: it belongs to {} {}",
            R::WORDS.record,
            R::WORDS.thing,
            record.name()
        );
        return Err(Error::corrupt(text));
    }
    Ok(record)
}

#[async_trait]
impl<R: MapRecord> RecordStore<R> for MapRecords<R> {
    async fn last(&self, name: &R::Name) -> Result<Option<R>> {
        Ok(self.read(name).await?.1)
    }

    async fn propose(&self, record: &R) -> Result<()> {
        let map = R::map(record.name());
        for _ in 0..MAX_PROPOSAL_ATTEMPTS {
            let (map_epoch, stored) = self.read(record.name()).await?;
            check_proposal(stored.map_or(0, |stored| stored.epoch()), record)?;
            let change = Change::set(R::KEY, Bytes::from(record.encode()));
            match self.maps.commit(map, map_epoch, vec![change]).await {
                Ok(_) => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Conflict => {}
                Err(error) => return Err(error),
            }
        }
        let text = format!("the {}'s map is changed too often", R::WORDS.thing);
        Err(Error::unavailable(text).on(record.name()))
    }

    async fn names(&self) -> Result<Vec<R::Name>> {
        let maps = self.maps.list().await?;
        // This is collected before the first await, so that the future can move between threads.
        let reads: Vec<_> =
            maps.iter().filter_map(R::of_map).map(|name| self.is_there(name)).collect();
        let found: Vec<_> = stream::iter(reads).buffered(READS_AT_ONCE).try_collect().await?;
        Ok(found.into_iter().flatten().collect())
    }
}

impl<R> Clone for MapRecords<R> {
    fn clone(&self) -> Self {
        Self { maps: self.maps.clone(), kind: PhantomData }
    }
}

impl<R> fmt::Debug for MapRecords<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MapRecords").field("maps", &self.maps).finish()
    }
}
