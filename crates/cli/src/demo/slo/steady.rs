//! `Steady`: a tenant that stays below the rate of its promise. It sends each request when the
//! request is due, even if earlier ones have no answer yet. A latency counts from the time at which
//! the request was due.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use nacre::{Cluster, ClusterFile, Object};
use nacre_clock::Clock;
use nacre_object::{Error, ObjectId, Result};
use nacre_slo::Promise;
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use super::{BURST, BYTES};

/// The part of its rate that a tenant uses.
const USED_RATE: f64 = 0.9;

/// A request that was answered. Times are since the work began.
#[derive(Debug, Clone, Copy)]
pub(super) struct Served {
    pub due: Duration,
    pub latency: Duration,
}

/// A tenant with a promise.
pub(super) struct Steady {
    pub name: &'static str,
    pub promise: Promise,
    /// Those of one target after those of another.
    objects: Arc<Vec<Object>>,
    per_second: f64,
    clock: Arc<dyn Clock>,
}

/// A tenant at work.
pub(super) struct Work {
    stop: watch::Sender<bool>,
    served: Arc<Mutex<Vec<Served>>>,
    task: JoinHandle<Result<()>>,
    clock: Arc<dyn Clock>,
    began: Duration,
}

impl Steady {
    /// A tenant with sessions of its own.
    pub async fn new(
        file: &ClusterFile,
        name: &'static str,
        promise: Promise,
        per_second: f64,
        objects: Vec<Vec<ObjectId>>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self> {
        let cluster = Cluster::connect(file.folder()).await?;
        let mut own = vec![];
        // Target after target, so that bursts spread.
        for row in 0..objects.iter().map(Vec::len).max().unwrap_or(0) {
            for id in objects.iter().filter_map(|of_target| of_target.get(row)) {
                own.push(cluster.object(id).await?);
            }
        }
        Ok(Self { name, promise, objects: Arc::new(own), per_second, clock })
    }

    /// Begins to send.
    pub fn start(&self) -> Work {
        let (stop, stopped) = watch::channel(false);
        let served = Arc::default();
        let began = self.clock.monotonic();
        let sender = Sender {
            objects: Arc::clone(&self.objects),
            served: Arc::clone(&served),
            clock: Arc::clone(&self.clock),
            began,
            period: Duration::from_secs_f64(f64::from(BURST) / (self.per_second * USED_RATE)),
        };
        let task = tokio::spawn(sender.run(stopped));
        Work { stop, served, task, clock: Arc::clone(&self.clock), began }
    }

    /// What it saw in the last second.
    pub fn tell(&self, work: &Work) -> String {
        let now = work.clock.monotonic().saturating_sub(work.began);
        let since = now.saturating_sub(Duration::from_secs(1));
        let served = work.served.lock().unwrap_or_else(PoisonError::into_inner);
        let recent = served.iter().filter(|served| served.due + served.latency >= since);
        let mut latencies: Vec<_> = recent.map(|served| served.latency).collect();
        latencies.sort_unstable();
        let [p50, p99, p999] =
            [0.5, 0.99, 0.999].map(|part| at(&latencies, part).as_secs_f64() * 1e3);
        let slo = self.promise.slo_seconds * 1e3;
        let name = self.name;
        format!("{name} p50 {p50:.1}, p99 {p99:.1}, p99.9 {p999:.1} of {slo:.0} ms")
    }
}

/// The latency that this part of all, in ascending order, does not exceed.
pub(super) fn at(latencies: &[Duration], part: f64) -> Duration {
    let place = (latencies.len() as f64 * part).ceil() as usize;
    latencies.get(place.saturating_sub(1)).copied().unwrap_or_default()
}

struct Sender {
    objects: Arc<Vec<Object>>,
    served: Arc<Mutex<Vec<Served>>>,
    clock: Arc<dyn Clock>,
    began: Duration,
    /// From one burst to the next.
    period: Duration,
}

impl Sender {
    async fn run(self, stopped: watch::Receiver<bool>) -> Result<()> {
        let mut requests: JoinSet<Result<()>> = JoinSet::new();
        let mut due = Duration::ZERO;
        let mut next = 0;
        while !*stopped.borrow() {
            for _ in 0..BURST {
                let object = self.objects[next % self.objects.len()].clone();
                next += 1;
                let (served, clock, began) =
                    (Arc::clone(&self.served), Arc::clone(&self.clock), self.began);
                requests.spawn(async move {
                    object.write_full(Bytes::from_static(&[0x5a; BYTES as usize])).await?;
                    let latency = clock.monotonic().saturating_sub(began).saturating_sub(due);
                    let one = Served { due, latency };
                    served.lock().unwrap_or_else(PoisonError::into_inner).push(one);
                    Ok(())
                });
            }
            while let Some(ended) = requests.try_join_next() {
                ended.map_err(|cause| Error::unavailable(cause.to_string()))??;
            }
            due += self.period;
            let now = self.clock.monotonic().saturating_sub(self.began);
            tokio::time::sleep(due.saturating_sub(now)).await;
        }
        while let Some(ended) = requests.join_next().await {
            ended.map_err(|cause| Error::unavailable(cause.to_string()))??;
        }
        Ok(())
    }
}

impl Work {
    /// Ends the work. Returns the served requests, including those that were still in flight.
    pub async fn finish(self) -> Result<Vec<Served>> {
        self.stop.send_replace(true);
        self.task.await.map_err(|cause| Error::unavailable(cause.to_string()))??;
        Ok(std::mem::take(&mut *self.served.lock().unwrap_or_else(PoisonError::into_inner)))
    }
}
