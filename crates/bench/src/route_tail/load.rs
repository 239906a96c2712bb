//! `Load`: plays a trace in an open loop, and compares each read with the acknowledged writes.
//!
//! Requests begin when they are due, however many others wait. A latency counts from the time at
//! which the request was due, so a request that had to wait for its turn is not measured as fast
//! (no coordinated omission). The requests on one object are sent one after the other, so a read
//! must return the last acknowledged write. If a write failed, the next read shows whether the
//! write took effect.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::future::try_join_all;
use nacre::Object;
use nacre_clock::{Clock, SystemClock};
use nacre_load::{until_answered, value_of_block};
use nacre_object::{Error, ObjectId, Result, TargetName};
use tokio::sync::Mutex;
use tokio::task::JoinSet;

use super::trace::{BLOCKS, OBJECTS, Trace, TraceRequest};
use crate::target_bed::TargetBed;

const BLOCK_BYTES: usize = 4096;
/// If a request fails for longer than this, the bench ends with an error.
const PATIENCE: Duration = Duration::from_secs(60);

/// A request that was answered.
#[derive(Debug, Clone, Copy)]
pub(super) struct Served {
    pub due: Duration,
    pub volume: usize,
    pub latency: Duration,
}

/// An object, and for each of its blocks the values that it may hold: the last acknowledged write,
/// and the failed writes after it.
struct Checked {
    object: Object,
    blocks: Mutex<Vec<Vec<u64>>>,
}

/// Volumes with all that was written to them.
pub(super) struct Load {
    volumes: Vec<Vec<Checked>>,
    clock: SystemClock,
    writes: AtomicU64,
    verified: AtomicU64,
}

impl Load {
    /// Makes a volume on each of these targets, and writes every block once. Each volume has a
    /// client of its own, so volumes do not wait for one another before their requests reach a
    /// node.
    pub(super) async fn prepare(
        bed: &TargetBed,
        pool: &str,
        targets: &[TargetName],
    ) -> Result<Arc<Self>> {
        let mut volumes = vec![];
        for target in targets {
            volumes.push(volume(bed, pool, target).await?);
        }
        let (writes, verified) = (AtomicU64::new(0), AtomicU64::new(0));
        let load = Self { volumes, clock: SystemClock::default(), writes, verified };
        for volume in &load.volumes {
            try_join_all(volume.iter().map(|object| load.fill(object))).await?;
        }
        Ok(Arc::new(load))
    }

    /// How many reads were compared with what was acknowledged.
    pub(super) fn verified(&self) -> u64 {
        self.verified.load(Ordering::Relaxed)
    }

    /// Plays a trace, and returns when all requests are answered.
    ///
    /// # Errors
    /// `Corrupt` if a read does not return the last acknowledged write.
    pub(super) async fn play(self: &Arc<Self>, trace: &Trace) -> Result<Vec<Served>> {
        let began = self.clock.monotonic();
        let mut requests: JoinSet<Result<Served>> = JoinSet::new();
        let mut served = Vec::with_capacity(trace.requests.len());
        for &request in &trace.requests {
            let now = self.clock.monotonic().saturating_sub(began);
            let early = request.due.saturating_sub(now);
            if !early.is_zero() {
                tokio::time::sleep(early).await;
            }
            let load = Arc::clone(self);
            requests.spawn(async move {
                load.serve(request).await?;
                let TraceRequest { due, volume, .. } = request;
                let latency = load.clock.monotonic().saturating_sub(began).saturating_sub(due);
                Ok(Served { due, volume, latency })
            });
            while let Some(ended) = requests.try_join_next() {
                served.push(ended.map_err(|cause| Error::unavailable(cause.to_string()))??);
            }
        }
        while let Some(ended) = requests.join_next().await {
            served.push(ended.map_err(|cause| Error::unavailable(cause.to_string()))??);
        }
        Ok(served)
    }

    /// Reads every block, and compares it.
    ///
    /// # Errors
    /// As [`Load::play`].
    pub(super) async fn read_all(&self) -> Result<()> {
        for object in self.volumes.iter().flatten() {
            for block in 0..BLOCKS {
                self.read(object, block).await?;
            }
        }
        Ok(())
    }

    async fn fill(&self, object: &Checked) -> Result<()> {
        for block in 0..BLOCKS {
            self.write(object, block).await?;
        }
        Ok(())
    }

    async fn serve(&self, request: TraceRequest) -> Result<()> {
        let object = &self.volumes[request.volume][request.object];
        match request.is_write {
            true => self.write(object, request.block).await,
            false => self.read(object, request.block).await,
        }
    }

    async fn write(&self, checked: &Checked, block: u64) -> Result<()> {
        let mut blocks = checked.blocks.lock().await;
        let value = 1 + self.writes.fetch_add(1, Ordering::Relaxed);
        let data = Bytes::from(value.to_le_bytes().repeat(BLOCK_BYTES / size_of::<u64>()));
        let possible = &mut blocks[block as usize];
        // From now on a read may return this value, even before the write is acknowledged.
        possible.push(value);
        let offset = block * BLOCK_BYTES as u64;
        let write = || checked.object.write(offset, data.clone());
        until_answered(&self.clock, PATIENCE, write).await?;
        *possible = vec![value];
        Ok(())
    }

    async fn read(&self, checked: &Checked, block: u64) -> Result<()> {
        let mut blocks = checked.blocks.lock().await;
        let offset = block * BLOCK_BYTES as u64;
        let read = || checked.object.read(offset, BLOCK_BYTES as u64);
        let data = until_answered(&self.clock, PATIENCE, read).await?;
        let found = value_of_block(&data).filter(|_| data.len() == BLOCK_BYTES);
        let possible = &mut blocks[block as usize];
        match found.filter(|found| possible.contains(found)) {
            Some(found) => *possible = vec![found],
            None => {
                let text = format!(
                    "block {block} holds {found:?} instead of the last acknowledged value, one of {possible:?}"
                );
                return Err(Error::corrupt(text).on(checked.object.id()));
            }
        }
        self.verified.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

/// Objects that belong to a target.
async fn volume(bed: &TargetBed, pool: &str, target: &TargetName) -> Result<Vec<Checked>> {
    let client = bed.cluster.client().await?;
    let mut objects = vec![];
    for number in 0_u64.. {
        let id: ObjectId = format!("{pool}/{target}.{number}").parse()?;
        if bed.locate(&id).await? != *target {
            continue;
        }
        let blocks = Mutex::new(vec![vec![]; BLOCKS as usize]);
        objects.push(Checked { object: client.object(&id).await?, blocks });
        if objects.len() == OBJECTS {
            break;
        }
    }
    Ok(objects)
}
