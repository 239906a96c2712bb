//! `Load`: sends reads and writes at a fixed rate, and compares each read with the acknowledged
//! writes.
//!
//! A latency counts from the time at which the request was due, so a delayed request is not
//! measured as fast (no coordinated omission). The requests on one object are sent one after the
//! other, so a read must return the last acknowledged write. If a write failed, the next read shows
//! whether the write took effect.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use nacre_clock::Clock;
use nacre_load::{until_answered, value_of_block};
use nacre_object::{Error, Result};
use tokio::task::JoinSet;

use super::stock_client::StockClient;

/// The bytes of a write.
const BLOCK_BYTES: usize = 4096;
/// Blocks of an object. A read is of all of them.
const BLOCKS: u64 = 8;
/// If a request fails for longer than this, the demo ends with an error.
const PATIENCE: Duration = Duration::from_secs(60);

/// A request that was answered. Times are since the load began.
#[derive(Debug, Clone, Copy)]
pub(super) struct Served {
    pub due: Duration,
    pub latency: Duration,
}

/// For each block of an object, the values that it may hold: the last acknowledged write, and the
/// failed writes after it.
struct Object {
    name: String,
    blocks: tokio::sync::Mutex<Vec<Vec<u64>>>,
}

/// Objects with what was written to them.
pub(super) struct Load {
    client: StockClient,
    objects: Vec<Arc<Object>>,
    clock: Arc<dyn Clock>,
    writes: Mutex<u64>,
    /// Reads that returned the last acknowledged write.
    verified: Mutex<u64>,
}

impl Load {
    /// Writes every block of these objects once.
    pub async fn prepare(
        client: StockClient,
        names: &[String],
        clock: Arc<dyn Clock>,
    ) -> Result<Arc<Self>> {
        let object = |name: &String| {
            let blocks = tokio::sync::Mutex::new(vec![vec![]; BLOCKS as usize]);
            Arc::new(Object { name: name.clone(), blocks })
        };
        let objects = names.iter().map(object).collect();
        let (writes, verified) = (Mutex::new(0), Mutex::new(0));
        let load = Arc::new(Self { client, objects, clock, writes, verified });
        for object in &load.objects {
            for block in 0..BLOCKS {
                load.write(object, block).await?;
            }
        }
        Ok(load)
    }

    /// Reads that were compared with what was acknowledged.
    pub fn verified(&self) -> u64 {
        *self.verified.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Acknowledged writes.
    pub fn writes(&self) -> u64 {
        *self.writes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends `per_second` requests a second for a time, half of them reads. Returns when all
    /// requests have an answer.
    pub async fn run(self: &Arc<Self>, per_second: u32, time: Duration) -> Result<Vec<Served>> {
        self.run_until(per_second, time, || true).await
    }

    /// The same, and goes on after that time until `may_end` holds.
    pub async fn run_until(
        self: &Arc<Self>,
        per_second: u32,
        time: Duration,
        may_end: impl Fn() -> bool,
    ) -> Result<Vec<Served>> {
        let began = self.clock.monotonic();
        let period = Duration::from_secs(1) / per_second;
        let mut requests: JoinSet<Result<Served>> = JoinSet::new();
        let mut served = vec![];
        let mut take = |ended: std::result::Result<Result<Served>, tokio::task::JoinError>| {
            let one = ended.map_err(|cause| Error::unavailable(cause.to_string()))??;
            served.push(one);
            Ok::<_, Error>(())
        };
        let mut number = 0;
        loop {
            let due = period * number;
            if due >= time && may_end() {
                break;
            }
            let now = self.clock.monotonic().saturating_sub(began);
            tokio::time::sleep(due.saturating_sub(now)).await;
            let (load, number_of_it) = (Arc::clone(self), u64::from(number));
            requests.spawn(async move {
                load.request(number_of_it).await?;
                let latency = load.clock.monotonic().saturating_sub(began).saturating_sub(due);
                Ok(Served { due, latency })
            });
            number += 1;
            while let Some(ended) = requests.try_join_next() {
                take(ended)?;
            }
        }
        while let Some(ended) = requests.join_next().await {
            take(ended)?;
        }
        Ok(served)
    }

    async fn request(&self, number: u64) -> Result<()> {
        let count = self.objects.len() as u64;
        let object = &self.objects[(number / 2 % count) as usize];
        match number % 2 {
            0 => self.write(object, number / 2 / count % BLOCKS).await,
            _ => self.read(object).await,
        }
    }

    /// Reads every object, and compares every block.
    pub async fn read_all(&self) -> Result<()> {
        for object in &self.objects {
            self.read(object).await?;
        }
        Ok(())
    }

    async fn write(&self, object: &Object, block: u64) -> Result<()> {
        let mut blocks = object.blocks.lock().await;
        let value = {
            let mut writes = self.writes.lock().unwrap_or_else(PoisonError::into_inner);
            *writes += 1;
            *writes
        };
        let possible = &mut blocks[block as usize];
        let data = Bytes::from(value.to_le_bytes().repeat(BLOCK_BYTES / 8));
        let offset = block * BLOCK_BYTES as u64;
        // From now on a read may return this value, even before the write is acknowledged.
        possible.push(value);
        let write = || self.client.write(&object.name, offset, data.clone());
        until_answered(&*self.clock, PATIENCE, write).await?;
        *possible = vec![value];
        Ok(())
    }

    async fn read(&self, object: &Object) -> Result<()> {
        let mut blocks = object.blocks.lock().await;
        let length = BLOCKS * BLOCK_BYTES as u64;
        let read = || self.client.read(&object.name, 0, length);
        let data = until_answered(&*self.clock, PATIENCE, read).await?;
        for (block, possible) in blocks.iter_mut().enumerate() {
            let from = block * BLOCK_BYTES;
            let found = data.get(from..from + BLOCK_BYTES).and_then(value_of_block);
            match found.filter(|found| possible.contains(found)) {
                Some(found) => *possible = vec![found],
                None => {
                    return Err(Error::corrupt(format!(
                        "block {block} of {} holds {found:?} instead of the last acknowledged value, one of {possible:?}",
                        object.name
                    ))
                    .hint("this is a bug of nacre: report it with the output above and the command line"));
                }
            }
        }
        *self.verified.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        Ok(())
    }
}
