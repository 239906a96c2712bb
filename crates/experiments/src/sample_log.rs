//! A log that a strategy stores. The experiment appends entries to it, and reads them at random
//! positions.
//!
//! Positions count up from 0. In a striped log, position `p` is entry `p / STRIPES` of object
//! `p % STRIPES`. In other logs each position has its own object.
//!
//! If the log's interface checks epochs, the experiment seals each object with the first epoch. It
//! seals striped objects before the measurement. It seals an object for a single entry in the
//! transaction that creates the object, because no other client can use the object earlier.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use futures::stream::{self, StreamExt, TryStreamExt};
use nacre_brados::Value;
use nacre_calls::{decode_reply, encode_request};
use nacre_object::{
    ClassCall, ClassName, Error, MapEntry, ObjectId, Op, OpResult, Result, limits::MAX_OBJECT_BYTES,
};

use crate::site::SiteHandle;
use crate::strategy::{Addressing, Interface, Strategy, Way};

/// Objects that share the entries of a striped log: as many as a log of nacre has on Ceph.
pub(crate) const STRIPES: u64 = 8;
const EPOCH: Value = Value::Int(1);
/// The status of what was done.
const DONE: Value = Value::Int(0);
/// How many requests are in flight while a log is filled or removed.
const AT_ONCE: usize = 32;
/// Objects removed by one call of the engine's.
const REMOVED_AT_ONCE: usize = 256;
/// The key of an entry that has an object to itself.
const ONLY_KEY: &[u8] = b"entry";

/// A log. Clones are handles of the same one.
#[derive(Clone)]
pub(crate) struct SampleLog(Arc<Inner>);

struct Inner {
    site: SiteHandle,
    strategy: Strategy,
    class: ClassName,
    /// The part of the objects' names that no other log has.
    label: String,
    entry: Bytes,
    /// The position that comes next.
    next: AtomicU64,
}

/// Where an entry is.
struct EntryLocation {
    object: ObjectId,
    /// Its number within the object.
    number: u64,
}

impl SampleLog {
    /// An empty log for entries of so many bytes.
    pub async fn create(
        site: SiteHandle,
        strategy: Strategy,
        bytes: usize,
        label: String,
    ) -> Result<Self> {
        let class: ClassName = format!("experiment_{}", label.replace('-', "_")).parse()?;
        if let Some(source) = strategy.source(bytes)? {
            site.bench.install(&class, &source)?;
        }
        let (entry, next) = (Bytes::from(vec![b'x'; bytes]), AtomicU64::new(0));
        let log = Self(Arc::new(Inner { site, strategy, class, label, entry, next }));
        log.seal().await?;
        Ok(log)
    }

    async fn seal(&self) -> Result<()> {
        let Inner { site, strategy, .. } = &*self.0;
        if !matches!(strategy.way, Way::Relations(_)) || strategy.addressing == Addressing::Each {
            return Ok(());
        }
        for stripe in 0..STRIPES {
            let object = self.place(stripe)?.object;
            let results = site.submit(&object, vec![self.seal_op()?]).await?;
            results.iter().try_for_each(is_done)?;
        }
        Ok(())
    }

    /// Appends entries until there are so many.
    pub async fn fill(&self, entries: u64) -> Result<()> {
        let appends = (0..entries).map(|_| self.append());
        stream::iter(appends).buffer_unordered(AT_ONCE).try_collect().await
    }

    /// Appends one.
    pub async fn append(&self) -> Result<()> {
        let Inner { site, strategy, entry, next, .. } = &*self.0;
        let place = self.place(next.fetch_add(1, Ordering::Relaxed))?;
        if strategy.way == Way::Bare(Interface::Append) {
            return site.append(&place.object, entry.clone()).await;
        }
        let results = site.submit(&place.object, self.append_ops(&place)?).await?;
        match strategy.way {
            Way::Relations(_) => results.iter().try_for_each(is_done),
            Way::Bare(_) | Way::WriteOnly => Ok(()),
        }
    }

    /// Reads a random entry and checks it. `draw` is the random number that selects the entry.
    pub async fn read(&self, draw: u64) -> Result<()> {
        let entries = self.0.next.load(Ordering::Relaxed);
        let place = self.place(draw % entries.max(1))?;
        let results = self.0.site.submit(&place.object, vec![self.read_op(&place)?]).await?;
        match results.into_iter().next().and_then(entry_of) {
            Some(entry) if entry == self.0.entry => Ok(()),
            other => {
                let bytes = other.map(|entry| entry.len());
                Err(Error::corrupt(format!("a read returned {bytes:?} bytes instead of the entry")))
            }
        }
    }

    /// Removes it with all its objects.
    pub async fn remove(self) -> Result<()> {
        let Inner { site, strategy, class, next, .. } = &*self.0;
        let positions = next.load(Ordering::Relaxed);
        let count = match strategy.addressing {
            Addressing::Each => positions,
            Addressing::Striped => STRIPES,
        };
        let objects: Vec<_> =
            (0..count).map(|position| Ok(self.place(position)?.object)).collect::<Result<_>>()?;
        for objects in objects.chunks(REMOVED_AT_ONCE) {
            site.bench.remove(objects).await?;
        }
        site.bench.uninstall(class);
        Ok(())
    }

    fn place(&self, position: u64) -> Result<EntryLocation> {
        let (object, number) = match self.0.strategy.addressing {
            Addressing::Each => (position, position),
            Addressing::Striped => (position % STRIPES, position / STRIPES),
        };
        Ok(EntryLocation {
            object: self.0.site.bench.object(&self.0.label, object as usize)?,
            number,
        })
    }

    fn append_ops(&self, place: &EntryLocation) -> Result<Vec<Op>> {
        let Inner { strategy, class, entry, .. } = &*self.0;
        let data = entry.clone();
        Ok(match strategy.way {
            Way::Bare(Interface::KeyValue) => {
                vec![Op::MapSet { entries: vec![MapEntry { key: self.key(place), value: data }] }]
            }
            Way::Bare(Interface::Explicit) => {
                vec![Op::Write { offset: self.offset(place)?, data }]
            }
            Way::Bare(Interface::Append) => vec![Op::Append { data }],
            Way::WriteOnly => vec![call(class, "append", data)?],
            Way::Relations(_) => {
                let row = [EPOCH, Value::Int(place.number as i64), Value::Bytes(data.into())];
                let write = call(class, "write", encode_request(&row).into())?;
                match strategy.addressing {
                    Addressing::Each => vec![self.seal_op()?, write],
                    Addressing::Striped => vec![write],
                }
            }
        })
    }

    fn read_op(&self, place: &EntryLocation) -> Result<Op> {
        let length = self.0.entry.len() as u64;
        match self.0.strategy.way {
            Way::Bare(Interface::KeyValue) => Ok(Op::MapGet { keys: vec![self.key(place)] }),
            // All entries have the same size, so the offset of an entry follows from its number
            // alone.
            Way::Bare(_) | Way::WriteOnly => Ok(Op::Read { offset: self.offset(place)?, length }),
            Way::Relations(_) => {
                let row = [EPOCH, Value::Int(place.number as i64)];
                call(&self.0.class, "read", encode_request(&row).into())
            }
        }
    }

    fn seal_op(&self) -> Result<Op> {
        call(&self.0.class, "seal", encode_request(&[EPOCH]).into())
    }

    fn key(&self, place: &EntryLocation) -> Bytes {
        match self.0.strategy.addressing {
            Addressing::Each => Bytes::from_static(ONLY_KEY),
            Addressing::Striped => Bytes::from(format!("{:016x}", place.number)),
        }
    }

    fn offset(&self, place: &EntryLocation) -> Result<u64> {
        let number = match self.0.strategy.addressing {
            Addressing::Each => 0,
            Addressing::Striped => place.number,
        };
        let offset = number * self.0.entry.len() as u64;
        if offset + self.0.entry.len() as u64 > MAX_OBJECT_BYTES {
            return Err(
                Error::exhausted("the log's objects are full").hint("measure for a shorter time")
            );
        }
        Ok(offset)
    }
}

fn call(class: &ClassName, method: &str, input: Bytes) -> Result<Op> {
    let method = method.parse()?;
    Ok(Op::Call(ClassCall { class: class.clone(), method, version: None, input }))
}

/// Whether a request to the log's interface was carried out.
fn is_done(result: &OpResult) -> Result<()> {
    let OpResult::Called(reply) = result else {
        return Err(Error::corrupt(format!("the store answered a call with {result:?}")));
    };
    let outputs = decode_reply(&reply.output).map_err(|error| Error::corrupt(error.to_string()))?;
    let status = outputs.iter().find(|(name, _)| name == "ret");
    match status.map(|(_, rows)| &rows[..]) {
        Some([row]) if row[..] == [DONE] => Ok(()),
        other => Err(Error::corrupt(format!("the log's class answered an append with {other:?}"))),
    }
}

/// The entry in the answer to a read, whatever the strategy.
fn entry_of(result: OpResult) -> Option<Bytes> {
    match result {
        OpResult::Data(data) => Some(data),
        OpResult::Values(values) => values.into_iter().next()?,
        OpResult::Called(reply) => {
            let outputs = decode_reply(&reply.output).ok()?;
            let (_, rows) = outputs.into_iter().find(|(name, _)| name == "entry")?;
            match rows.into_iter().next()?.into_iter().next()? {
                Value::Bytes(data) => Some(data.into()),
                _ => None,
            }
        }
        _ => None,
    }
}
