//! `nacre demo --slo`: tenants are promised tail latencies, and nacre keeps the promises while
//! another tenant bursts.
//!
//! 1. The cluster measures the cost of requests on its targets.
//! 2. Two tenants get a promise. A third tenant is refused, with the reason.
//! 3. A fourth tenant without a promise writes as fast as it can: first while promises are not
//!    enforced, then while they are.
//! 4. The demo compares the latencies of the two tenants with their promises.
//!
//! The rates and latencies are computed from the measured profile. So the demo is equally demanding
//! on slow and fast machines.

mod burst;
mod report;
mod steady;

use std::sync::Arc;
use std::time::Duration;

use nacre::{Cluster, ClusterFile};
use nacre_clock::{Clock, SystemClock};
use nacre_node::{SloTargets, Supervisor};
use nacre_object::{Error, ObjectId, PoolName, Result, TargetName, TenantName};
use nacre_qos::IoKind;
use nacre_slo::{Ask, Outcome, Promise, Rate, Spread, StoredProfile, Traffic};

use self::burst::Burst;
use self::report::{Phase, SloReport, TenantInPhase};
use self::steady::{Served, Steady};
use crate::commands::slo::measure;
use crate::out::{Out, note};

/// Storage targets.
pub(super) const TARGETS: usize = 3;
/// What the profile takes.
const PROFILE_TIME: Duration = Duration::from_secs(24);
/// How long each phase takes.
const PHASE_SECONDS: u64 = 12;
/// After promises are switched, the requests that were sent before are not counted.
const SETTLE: Duration = Duration::from_secs(2);
/// The size of the requests of the tenants with a promise.
const BYTES: u64 = 4096;
/// How many of their requests come at once.
const BURST: u32 = 8;
/// Objects of each tenant on each target.
const OBJECTS: usize = 4;

/// A tenant of the demo.
struct Wish {
    name: &'static str,
    /// The part of every target that it asks for.
    share: f64,
    /// Its latency, in times that its burst takes at most on a target without other promises.
    alone: f64,
}

/// The first two are admitted. The third wants more than is left.
const WISHES: [Wish; 3] = [
    Wish { name: "gold", share: 0.10, alone: 1.3 },
    Wish { name: "silver", share: 0.15, alone: 1.7 },
    Wish { name: "greedy", share: 0.80, alone: 2.0 },
];
/// The tenant without a promise.
const BULK: &str = "bulk";

/// Plays the demo on a cluster that runs.
pub(super) async fn play(supervisor: &Supervisor, out: Out) -> Result<()> {
    let file = supervisor.cluster();
    let cluster = Cluster::connect(file.folder()).await?;
    cluster.create_default_pools().await?;
    for tenant in WISHES.iter().map(|wish| wish.name).chain([BULK]) {
        let pool = PoolName::new(tenant)?;
        cluster.create_pool(&pool).await?;
        cluster.slos().set_pool(&pool, Some(&TenantName::new(tenant)?)).await?;
    }
    let profiles = measure(file, &cluster, PROFILE_TIME).await?;
    tell_profiles(&profiles);
    let mut promised = vec![];
    let mut refusal = None;
    for wish in &WISHES {
        match admit(&cluster, wish, &profiles).await? {
            (Outcome::Admitted(promise), rate) => promised.push((wish.name, promise, rate)),
            (Outcome::Refused(refused), _) => {
                note(&refused.to_string());
                refusal = Some(refused.to_string());
            }
        }
    }
    let refusal = refusal.ok_or_else(|| {
        Error::corrupt("the cluster refused no tenant, although one asked for too much")
    })?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
    let mut steady = vec![];
    for (name, promise, rate) in promised {
        let objects = objects(file, &cluster, name).await?;
        steady.push(Steady::new(file, name, promise, rate, objects, Arc::clone(&clock)).await?);
    }
    let bulk = objects(file, &cluster, BULK).await?;
    let bulk: Vec<_> = bulk.into_iter().flatten().collect();
    let mut phases = vec![];
    for is_enforced in [false, true] {
        cluster.slos().enforce(is_enforced).await?;
        phases.push(phase(is_enforced, &steady, file, &bulk).await?);
    }
    let report = SloReport { refusal, phases };
    out.show(&report, || report.text())?;
    match report.holds() {
        true => Ok(()),
        false => Err(Error::corrupt("a latency was longer than promised")
            .hint("run the demo again while the machine has nothing else to do")),
    }
}

fn tell_profiles(profiles: &[(TargetName, StoredProfile)]) {
    for (target, stored) in profiles {
        note(&format!(
            "{target} can be promised {:.0} writes of 4 KiB a second; what was sent before may take {:.1} ms",
            1.0 / stored.profile.work_seconds(IoKind::Write, BYTES),
            stored.blocking_seconds() * 1e3
        ));
    }
}

/// Requests a promise for a tenant. Also returns its rate in requests a second.
async fn admit(
    cluster: &Cluster,
    wish: &Wish,
    profiles: &[(TargetName, StoredProfile)],
) -> Result<(Outcome, f64)> {
    let work = |(_, stored): &(_, StoredProfile)| stored.profile.work_seconds(IoKind::Write, BYTES);
    let slowest = profiles.iter().map(work).fold(0.0, f64::max);
    let blocking = profiles.iter().map(|(_, stored)| stored.blocking_seconds()).fold(0.0, f64::max);
    let alone_seconds = blocking + f64::from(BURST) * slowest;
    let per_second = (wish.share / slowest * profiles.len() as f64).floor().max(1.0);
    let rate = Rate { kind: IoKind::Write, bytes: BYTES, per_second, burst: BURST };
    let ask = Ask {
        tenant: TenantName::new(wish.name)?,
        slo_seconds: (wish.alone * alone_seconds * 1e3).ceil() / 1e3,
        violation: None,
        percentile: 99.0,
        traffic: Traffic::Rate(rate, Spread::Even),
        client_link: None,
        replaces: false,
    };
    let outcome = cluster.slos().admit(&ask).await?;
    if let Outcome::Admitted(promise) = &outcome {
        tell_promise(&ask.tenant, promise);
    }
    Ok((outcome, per_second))
}

fn tell_promise(tenant: &TenantName, promise: &Promise) {
    note(&format!(
        "admitted {}; the bound is {:.1} ms",
        promise.describe(tenant),
        promise.bound_seconds * 1e3
    ));
}

/// Some objects of a tenant on each target.
async fn objects(file: &ClusterFile, cluster: &Cluster, pool: &str) -> Result<Vec<Vec<ObjectId>>> {
    let targets = SloTargets::new(file, cluster)?;
    Ok(targets.objects(&PoolName::new(pool)?, pool, OBJECTS).await?.into_values().collect())
}

/// Lets all tenants work for a while, and shows the latencies of the promised tenants each second.
async fn phase(
    is_enforced: bool,
    steady: &[Steady],
    file: &ClusterFile,
    bulk: &[ObjectId],
) -> Result<Phase> {
    let word = if is_enforced { "on" } else { "off" };
    note(&format!("enforcement {word}; {BULK} writes as fast as it can"));
    let burst = Burst::start(file, bulk)?;
    tokio::time::sleep(SETTLE).await;
    let started: Vec<_> = steady.iter().map(Steady::start).collect();
    let bulk_before = burst.bytes();
    for second in 1..=PHASE_SECONDS {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let told = started.iter().zip(steady).map(|(work, tenant)| tenant.tell(work));
        note(&format!("{second:>3} s, {word}: {}", told.collect::<Vec<_>>().join("; ")));
    }
    let bulk_bytes = burst.bytes() - bulk_before;
    let mut tenants = vec![];
    for (work, tenant) in started.into_iter().zip(steady) {
        let served: Vec<Served> = work.finish().await?;
        tenants.push(TenantInPhase::of(tenant, &served));
    }
    burst.stop()?;
    let bulk_bytes_per_second = bulk_bytes as f64 / PHASE_SECONDS as f64;
    Ok(Phase { is_enforced, tenants, bulk_bytes_per_second })
}
