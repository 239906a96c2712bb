//! A client's copy of a stored record. A node refuses a client whose copy is old; the client then
//! reads the record again.

use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use nacre_object::{Error, Result};

use crate::record::{Record, Words};
use crate::records::{RecordStore, stored};

/// A client's copy of one record, with the facts that it learnt from the authority.
#[derive(Debug)]
pub struct RecordCache<R: Record, F> {
    name: R::Name,
    records: Arc<dyn RecordStore<R>>,
    known: RwLock<CachedRecord<R, F>>,
    /// Held while the stored record is read, so that many refused tasks read it only once.
    reading: tokio::sync::Mutex<()>,
}

/// A record, and facts learnt from the authority that it names.
#[derive(Debug, Clone)]
pub struct CachedRecord<R, F> {
    /// The record.
    pub record: Arc<R>,
    /// The facts. They are dropped when another authority takes over.
    pub facts: F,
}

impl<R: Record, F: Clone + Default> RecordCache<R, F> {
    /// Reads the record for the first time.
    ///
    /// # Errors
    /// `NotFound` if there is no such state machine; `Unavailable` if the store does not answer;
    /// `Corrupt` if the record is damaged.
    pub async fn open(name: R::Name, records: Arc<dyn RecordStore<R>>) -> Result<Self> {
        let record = Arc::new(stored(&*records, &name).await?);
        let known = RwLock::new(CachedRecord { record, facts: F::default() });
        Ok(Self { name, records, known, reading: tokio::sync::Mutex::default() })
    }

    /// The cached record and its facts, under a read lock.
    pub fn read(&self) -> RwLockReadGuard<'_, CachedRecord<R, F>> {
        self.known.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the facts. `learn` also gets the record that the facts belong to.
    pub fn learn<T>(&self, learn: impl FnOnce(&Arc<R>, &mut F) -> T) -> T {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        let CachedRecord { record, facts } = &mut *known;
        learn(record, facts)
    }

    /// The record at hand.
    pub fn get(&self) -> Arc<R> {
        self.read().record.clone()
    }

    /// The stored record, read now.
    ///
    /// # Errors
    /// `NotFound` if the machine was removed; `Unavailable`, `Corrupt`.
    pub async fn read_now(&self) -> Result<Arc<R>> {
        let _alone = self.reading.lock().await;
        self.refresh().await
    }

    /// Returns the cached record if its epoch is later than `epoch`. Otherwise reads and returns
    /// the stored record, whatever its epoch is.
    ///
    /// # Errors
    /// As for [`RecordCache::read_now`].
    pub async fn later_than(&self, epoch: u64) -> Result<Arc<R>> {
        let _alone = self.reading.lock().await;
        let record = self.get();
        if record.epoch() > epoch { Ok(record) } else { self.refresh().await }
    }

    /// Returns the cached record if its epoch is at least `epoch`. Otherwise reads and returns the
    /// stored record.
    ///
    /// # Errors
    /// `Unavailable` if the stored record is older than `epoch`; otherwise as for
    /// [`RecordCache::read_now`].
    pub async fn at_least(&self, epoch: u64) -> Result<Arc<R>> {
        let current = self.get();
        if current.epoch() >= epoch {
            return Ok(current);
        }
        let record = self.later_than(epoch - 1).await?;
        if record.epoch() < epoch {
            let text = format!("{} {epoch} is not stored", R::WORDS.record);
            return Err(Error::unavailable(text).on(&self.name));
        }
        Ok(record)
    }

    async fn refresh(&self) -> Result<Arc<R>> {
        let record = Arc::new(stored(&*self.records, &self.name).await?);
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        if record.born() != known.record.born() {
            let Words { thing, .. } = R::WORDS;
            return Err(Error::not_found(format!("the {thing} {} was removed", self.name))
                .hint(format!("another {thing} of that name exists now: open it again")));
        }
        if record.epoch() > known.record.epoch() {
            if record.authority() != known.record.authority() {
                known.facts = F::default();
            }
            known.record = record;
        }
        Ok(known.record.clone())
    }
}
