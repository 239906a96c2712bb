//! Measures how much work requests are on each target, for `nacre slo profile`.
//!
//! All targets are measured at the same time, because they serve requests at the same time and may
//! share a machine. Each target has as many outstanding requests during the measurement as the
//! layer allows later. The requests take the same path as the requests of tenants.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use nacre_clock::Clock;
use nacre_object::{Error, ObjectId, Op, Request, Result, Store, TargetName};
use nacre_qos::scheduler::{Commits, DeviceLimits};
use nacre_qos::{IoKind, Profile, ProfileRow};
use tokio::task::JoinSet;

use crate::limits::{
    LONGEST_MEASUREMENT, MAX_OUTSTANDING, MAX_OUTSTANDING_IN_GROUPS, PROFILE_SAMPLES,
};
use crate::records::StoredProfile;

/// What to measure.
#[derive(Debug, Clone)]
pub struct ProfilePlan {
    /// Sizes of requests, in ascending order.
    pub sizes: Vec<u64>,
    /// How long each size is measured, for reads and for writes.
    pub of_each: Duration,
    /// Identifies the engine and the release.
    pub fingerprint: String,
    /// How the engine makes writes durable.
    pub commits: Commits,
}

impl ProfilePlan {
    /// A plan for sizes from 512 bytes to 1 MiB that takes about `total`.
    pub fn within(total: Duration, fingerprint: String, commits: Commits) -> Self {
        let sizes = [512, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20];
        let of_each = total / (sizes.len() * IoKind::ALL.len()) as u32;
        Self { sizes: sizes.into(), of_each, fingerprint, commits }
    }

    /// How many requests may be outstanding at a target, during the measurement and later.
    pub fn outstanding(&self) -> DeviceLimits {
        match self.commits {
            Commits::Singly => MAX_OUTSTANDING,
            Commits::InGroups => MAX_OUTSTANDING_IN_GROUPS,
        }
    }

    /// How many objects of each target a measurement needs.
    pub fn objects(&self) -> usize {
        let DeviceLimits { reads, writes } = self.outstanding();
        reads.requests.max(writes.requests)
    }
}

/// Measures targets. `objects` names [enough](ProfilePlan::objects) objects on each target, which
/// are written and read. The caller [removes](remove_objects) them afterwards. `progress` is called
/// before each size and kind of request.
///
/// # Errors
/// Those of the store; `Exhausted` if a target did not answer any request of some kind in time.
pub async fn profile_targets(
    store: &Arc<dyn Store>,
    objects: &BTreeMap<TargetName, Vec<ObjectId>>,
    plan: &ProfilePlan,
    clock: &Arc<dyn Clock>,
    progress: impl Fn(&str),
) -> Result<Vec<(TargetName, StoredProfile)>> {
    let mut rows: BTreeMap<&TargetName, Vec<ProfileRow>> = BTreeMap::new();
    let mut uncertainty: BTreeMap<&TargetName, f64> = BTreeMap::new();
    for bytes in &plan.sizes {
        let mut bandwidths: BTreeMap<&TargetName, [f64; 2]> = BTreeMap::new();
        // Writes come first, so that there is data to read.
        for kind in [IoKind::Write, IoKind::Read] {
            progress(&format!("{}s of {bytes} bytes", kind.as_str()));
            let size = Size { kind, bytes: *bytes, depth: depth(plan.outstanding(), kind, *bytes) };
            let samples = measure_all(store, objects, size, plan.of_each).await?;
            for (target, samples) in objects.keys().zip(samples) {
                if samples.iter().all(|sample| *sample == 0.0) {
                    let text = format!(
                        "{target} completed no {} of {bytes} bytes in the measurement",
                        kind.as_str()
                    );
                    return Err(
                        Error::exhausted(text).hint("check whether its disk is full or broken")
                    );
                }
                let (bandwidth, half_width) = StoredProfile::usable_bandwidth(&samples);
                bandwidths.entry(target).or_default()[kind.index()] = bandwidth;
                let widest = uncertainty.entry(target).or_default();
                *widest = widest.max(half_width);
            }
        }
        for (target, bandwidth) in bandwidths {
            rows.entry(target).or_default().push(ProfileRow {
                bytes: *bytes,
                read_bytes_per_second: bandwidth[IoKind::Read.index()],
                write_bytes_per_second: bandwidth[IoKind::Write.index()],
            });
        }
    }
    let stored = |(target, rows): (&TargetName, Vec<ProfileRow>)| {
        let stored = StoredProfile {
            profile: Profile::new(rows)?,
            outstanding: plan.outstanding(),
            commits: plan.commits,
            fingerprint: plan.fingerprint.clone(),
            uncertainty: uncertainty.get(target).copied().unwrap_or_default(),
            measured_at_micros: clock.now_micros(),
        };
        Ok((target.clone(), stored))
    };
    rows.into_iter().map(stored).collect()
}

/// How many requests of this size may be outstanding at a target.
fn depth(limits: DeviceLimits, kind: IoKind, bytes: u64) -> usize {
    let limits = limits.of(kind);
    limits.requests.min((limits.bytes / bytes.max(1)).max(1) as usize)
}

/// The requests that are measured at one time.
#[derive(Debug, Clone, Copy)]
struct Size {
    kind: IoKind,
    bytes: u64,
    /// Requests that are outstanding at each target.
    depth: usize,
}

/// Calls [`measure`]. If a target answered no request, measures again for twice as long, because a
/// busy disk may stall for a second.
async fn measure_all(
    store: &Arc<dyn Store>,
    objects: &BTreeMap<TargetName, Vec<ObjectId>>,
    size: Size,
    mut time: Duration,
) -> Result<Vec<Vec<f64>>> {
    loop {
        let samples = measure(store, objects, size, time).await?;
        let have_all_answered =
            samples.iter().all(|of_target| of_target.iter().any(|one| *one > 0.0));
        if have_all_answered || time > LONGEST_MEASUREMENT {
            return Ok(samples);
        }
        time *= 2;
    }
}

/// Measures the bytes a second of each target, in several samples.
async fn measure(
    store: &Arc<dyn Store>,
    objects: &BTreeMap<TargetName, Vec<ObjectId>>,
    Size { kind, bytes, depth }: Size,
    time: Duration,
) -> Result<Vec<Vec<f64>>> {
    let is_over = Arc::new(AtomicBool::new(false));
    let counts: Vec<_> = objects.keys().map(|_| Arc::new(AtomicU64::new(0))).collect();
    let mut workers: JoinSet<Result<()>> = JoinSet::new();
    for (objects, count) in objects.values().zip(&counts) {
        for object in objects.iter().take(depth) {
            let (store, object, count) = (Arc::clone(store), object.clone(), Arc::clone(count));
            let is_over = Arc::clone(&is_over);
            workers.spawn(async move {
                while !is_over.load(Ordering::Relaxed) {
                    store.submit(Request::new(object.clone(), vec![op(kind, bytes)])?).await?;
                    count.fetch_add(1, Ordering::Relaxed);
                }
                Ok(())
            });
        }
    }
    let mut samples = vec![vec![]; counts.len()];
    let sample = time / PROFILE_SAMPLES;
    for _ in 0..PROFILE_SAMPLES {
        let before: Vec<_> = counts.iter().map(|count| count.load(Ordering::Relaxed)).collect();
        tokio::select! {
            () = tokio::time::sleep(sample) => {}
            Some(ended) = workers.join_next() => ended.map_err(cut_off)??,
        }
        for ((count, before), samples) in counts.iter().zip(before).zip(&mut samples) {
            let done = count.load(Ordering::Relaxed) - before;
            samples.push((done * bytes) as f64 / sample.as_secs_f64());
        }
    }
    is_over.store(true, Ordering::Relaxed);
    while let Some(ended) = workers.join_next().await {
        ended.map_err(cut_off)??;
    }
    Ok(samples)
}

fn cut_off(cause: tokio::task::JoinError) -> Error {
    Error::unavailable(format!("the measurement was interrupted: {cause}")).hint("measure again")
}

fn op(kind: IoKind, bytes: u64) -> Op {
    match kind {
        IoKind::Read => Op::Read { offset: 0, length: bytes },
        IoKind::Write => Op::WriteFull { data: Bytes::from(vec![0xa5; bytes as usize]) },
    }
}

/// Removes the objects that the measurement has written.
///
/// # Errors
/// Those of the store.
pub async fn remove_objects(
    store: &Arc<dyn Store>,
    objects: &BTreeMap<TargetName, Vec<ObjectId>>,
) -> Result<()> {
    for object in objects.values().flatten() {
        let removed = store.submit(Request::new(object.clone(), vec![Op::Remove])?).await;
        match removed {
            Err(error) if error.kind() != nacre_object::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}
