//! `Clients`: the three clients of the thesis on a running cluster.

use std::collections::BTreeMap;
use std::iter::repeat;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use nacre::Object;
use nacre_clock::{Clock, Random, SystemClock};
use nacre_experiments::thesis::{CLIENTS, ClientLatencies, SLO_SECONDS, TraceKind, random_writes};
use nacre_load::{Answered, open_loop};
use nacre_object::{Error, ObjectId, PoolName, Result, TargetName, TenantName};
use nacre_qos::trace::Trace;
use nacre_qos::{Estimator, RateBurst};
use nacre_registry::{Change, SLO_MAP};
use nacre_slo::{Ask, Outcome, Traffic};

use crate::load;
use crate::slow_targets::{self, SlowTargets};

/// The size of a write. With 4 KiB, three targets would need more processor time than two
/// processors have.
pub(super) const WRITE_BYTES: u32 = 16 << 10;
/// The percentile that status reports compare with a promise.
const PERCENTILE: f64 = 99.9;
/// How many objects a client has on each target.
const OBJECTS: usize = 16;
/// A failed request counts with at least this latency, after which its sender would have given up.
const FAILED_SECONDS: f64 = 30.0;
/// If a promise is too short to be made, the bench multiplies all SLOs by this factor.
const SCALE_STEP: f64 = 1.1;
/// The shortest SLO that can be promised to a client alone is multiplied by this factor. So the
/// targets' capacity decides who is admitted, and not the wait for requests in service.
const SCALE_HEADROOM: f64 = 2.0;
/// The bench tries only smaller scales. With a larger one, the longest SLO would be longer than any
/// latency that can be promised.
const MOST_SCALE: f64 = 18.0;
/// How long the measurement of a target's capacity takes, after its warm-up.
const CAPACITY_SPAN: Duration = Duration::from_secs(3);
/// How many writers a target needs to reach its capacity: as many as promises let it have.
const WRITERS: usize = 64;

/// What came of requests.
#[derive(Debug, Default)]
pub(super) struct Played {
    /// A failed request counts as late.
    pub latencies: ClientLatencies,
    /// How many requests failed.
    pub failed: usize,
    /// The longest time by which a request was sent late.
    pub lag: Duration,
    /// How many writes each target has answered while requests were sent.
    pub served: BTreeMap<TargetName, u64>,
}

impl Played {
    fn add(&mut self, client: usize, one: &Answered) {
        let (is_failed, seconds) = (one.failure.is_some(), one.latency.as_secs_f64());
        let seconds = if is_failed { seconds.max(FAILED_SECONDS) } else { seconds };
        self.failed += usize::from(is_failed);
        self.lag = self.lag.max(one.lag);
        self.latencies.push(client, one.due.as_secs_f64(), seconds);
    }
}

/// The clients, and the cluster that they use.
pub(super) struct Clients {
    pub slow: SlowTargets,
    objects: [Objects; CLIENTS],
    /// The target of each object.
    places: BTreeMap<ObjectId, TargetName>,
}

/// The objects of a client, which has sessions of its own.
#[derive(Default)]
struct Objects {
    by_name: BTreeMap<String, Object>,
    /// The names of objects on all targets. Neighbours are on different targets.
    balanced: Vec<Arc<str>>,
    /// The names of those on the first target.
    unbalanced: Vec<Arc<str>>,
}

impl Objects {
    fn names(&self, kind: TraceKind) -> &Vec<Arc<str>> {
        match kind {
            TraceKind::Balanced => &self.balanced,
            TraceKind::Unbalanced => &self.unbalanced,
        }
    }

    fn get(&self, name: &str) -> Result<Object> {
        let object = self.by_name.get(name).cloned();
        object.ok_or_else(|| Error::not_found("the client has no such object").on(name))
    }
}

/// The pool and the tenant of a client.
fn name(client: usize) -> String {
    format!("client{}", client + 1)
}

impl Clients {
    /// Makes the clients' pools, and chooses their objects.
    ///
    /// # Errors
    /// `Unavailable`.
    pub async fn new(slow: SlowTargets) -> Result<Self> {
        let first = slow.profiles.first().map(|(target, _)| target.clone());
        let (mut objects, mut places) = (<[Objects; CLIENTS]>::default(), BTreeMap::new());
        for (client, own) in objects.iter_mut().enumerate() {
            let (pool, tenant) = (PoolName::new(name(client))?, TenantName::new(name(client))?);
            slow.client.create_pool(&pool).await?;
            slow.client.slos().set_pool(&pool, Some(&tenant)).await?;
            let session = slow.cluster.client().await?;
            let ids =
                slow_targets::objects(&slow.targets, pool.as_str(), "object", OBJECTS).await?;
            for id in ids {
                let name: Arc<str> = id.name.as_str().into();
                let target = slow.targets.locate(&id).await?;
                if Some(&target) == first.as_ref() {
                    own.unbalanced.push(Arc::clone(&name));
                }
                own.balanced.push(name);
                own.by_name.insert(id.name.to_string(), session.object(&id).await?);
                places.insert(id, target);
            }
        }
        Ok(Self { slow, objects, places })
    }

    /// Requests of a client at random times: on average so many a second, for so many seconds.
    pub fn trace(
        &self,
        client: usize,
        kind: TraceKind,
        load: (f64, f64),
        random: &mut Random,
    ) -> Trace {
        random_writes(random, load, WRITE_BYTES, self.objects[client].names(kind).clone())
    }

    /// How many writes a second can be promised of one target.
    pub fn promised_rate(&self) -> f64 {
        1.0 / self.slow.write_seconds(WRITE_BYTES.into())
    }

    /// How many writes a second one target really serves, while nothing is enforced.
    ///
    /// # Errors
    /// Those of the writes.
    pub async fn capacity(&self) -> Result<f64> {
        self.slow.client.slos().enforce(false).await?;
        let own = &self.objects[0];
        let names = own.names(TraceKind::Unbalanced);
        let outcome = load::run(WRITERS, CAPACITY_SPAN, |worker| {
            let object = own.get(&names[worker % names.len()]);
            move |_| write(object.clone())
        });
        Ok(outcome.await?.rate)
    }

    /// The factor between the promised latencies and those of the thesis. It is 1, or more if the
    /// targets are too slow to promise even one client alone its latency.
    ///
    /// # Errors
    /// `Exhausted` if no latency can be promised; as [`nacre_slo::Slos::what_if`].
    pub async fn scale(&self, traces: &[Trace; CLIENTS]) -> Result<f64> {
        self.evict_all().await?;
        let mut scale = 1.0 / SCALE_HEADROOM;
        while scale * SCALE_HEADROOM < MOST_SCALE {
            let mut can_promise = true;
            for (client, trace) in traces.iter().enumerate() {
                let outcome = self.ask(client, trace, scale, Estimator::PerTarget, false).await?;
                can_promise &= matches!(outcome, Outcome::Admitted(_));
            }
            if can_promise {
                return Ok(scale * SCALE_HEADROOM);
            }
            scale *= SCALE_STEP;
        }
        Err(Error::exhausted("the targets are too slow to promise these clients a latency")
            .hint("measure when the machine does nothing else"))
    }

    /// Ends all promises, and makes new ones to the clients in turn. Returns who was admitted.
    ///
    /// # Errors
    /// As [`nacre_slo::Slos::admit`].
    pub async fn admit(
        &self,
        traces: &[Trace; CLIENTS],
        scale: f64,
        estimator: Estimator,
    ) -> Result<[bool; CLIENTS]> {
        self.evict_all().await?;
        let mut admitted = [false; CLIENTS];
        for (client, trace) in traces.iter().enumerate() {
            let outcome = self.ask(client, trace, scale, estimator, true).await?;
            admitted[client] = matches!(outcome, Outcome::Admitted(_));
        }
        Ok(admitted)
    }

    /// Asks for a promise. If it is not to be made, asks only whether it could be.
    async fn ask(
        &self,
        client: usize,
        trace: &Trace,
        scale: f64,
        estimator: Estimator,
        is_made: bool,
    ) -> Result<Outcome> {
        let locate = |object: &ObjectId| self.places[object].clone();
        let traffic = Traffic::Trace {
            trace,
            pool: PoolName::new(name(client))?,
            block_bytes: WRITE_BYTES.into(),
            estimator,
            locate: &locate,
        };
        let ask = Ask {
            tenant: TenantName::new(name(client))?,
            slo_seconds: SLO_SECONDS[client] * scale,
            violation: None,
            percentile: PERCENTILE,
            traffic,
            client_link: None,
            replaces: false,
        };
        let slos = self.slow.client.slos();
        if is_made { slos.admit(&ask).await } else { slos.what_if(&ask).await }
    }

    async fn evict_all(&self) -> Result<()> {
        let slos = self.slow.client.slos();
        for tenant in slos.state().await?.promises.keys() {
            slos.evict(tenant).await?;
        }
        Ok(())
    }

    /// The work that the promises assume at each target, in seconds of work a second.
    ///
    /// # Errors
    /// `Unavailable`.
    pub async fn assumed_loads(&self) -> Result<BTreeMap<String, f64>> {
        let mut loads = BTreeMap::new();
        for promise in self.slow.client.slos().state().await?.promises.values() {
            for flow in &promise.flows {
                *loads.entry(flow.target.clone()).or_default() += flow.curve.least_rate();
            }
        }
        Ok(loads)
    }

    /// Replaces all token buckets by ones that never limit a client: their rate is all that a
    /// target can serve, and their burst lasts for `seconds`. Priorities stay.
    ///
    /// # Errors
    /// `Unavailable`.
    pub async fn lift_limits(&self, seconds: f64) -> Result<()> {
        let mut changes = vec![];
        for (tenant, mut promise) in self.slow.client.slos().state().await?.promises {
            for flow in &mut promise.flows {
                flow.bucket = RateBurst { rate: 1.0, burst_seconds: seconds };
            }
            let promise = serde_json::to_vec(&promise)
                .map_err(|cause| Error::invalid(format!("a promise is no JSON: {cause}")))?;
            changes.push(Change::set(format!("tenant/{tenant}"), Bytes::from(promise)));
        }
        self.slow.client.maps().apply(&SLO_MAP.parse()?, changes).await.map(drop)
    }

    /// Sends the requests of the clients' traces at their times, and waits for all answers. A
    /// client without a trace sends nothing.
    ///
    /// # Errors
    /// `Unavailable` if a node does not answer. A failed request is only counted.
    pub async fn play(&self, traces: [Option<&Trace>; CLIENTS], span: Duration) -> Result<Played> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
        let before = self.answered().await?;
        let began = clock.monotonic();
        let loops = traces.iter().zip(&self.objects).map(async |(trace, own)| {
            let records = trace.iter().flat_map(|trace| trace.records.iter().zip(repeat(trace)));
            let requests = records.map(|(record, trace)| {
                let name = trace.object(record, WRITE_BYTES.into()).unwrap_or_default();
                (record.at, write(own.get(&name)))
            });
            open_loop(&clock, began, requests).await
        });
        let counted = async {
            tokio::time::sleep(span).await;
            self.answered().await
        };
        let (loops, after) =
            futures::future::try_join(futures::future::try_join_all(loops), counted).await?;
        let mut played = Played::default();
        for (client, answered) in loops.iter().enumerate() {
            answered.iter().for_each(|one| played.add(client, one));
        }
        let served = after.into_iter().map(|(target, count)| {
            let earlier = before.get(&target).copied().unwrap_or_default();
            (target, count.saturating_sub(earlier))
        });
        played.served = served.collect();
        Ok(played)
    }

    /// How many requests of the clients each target has answered since its node started.
    async fn answered(&self) -> Result<BTreeMap<TargetName, u64>> {
        let mut answered = BTreeMap::new();
        for (_, targets) in self.slow.targets.reports().await? {
            for target in targets {
                let own = target.tenants.iter();
                let own = own.filter(|one| (0..CLIENTS).any(|client| one.tenant == name(client)));
                *answered.entry(TargetName::new(target.target)?).or_default() +=
                    own.map(|one| one.requests).sum::<u64>();
            }
        }
        Ok(answered)
    }
}

/// Replaces the bytes of an object, durably.
async fn write(object: Result<Object>) -> Result<()> {
    static DATA: [u8; WRITE_BYTES as usize] = [0x5a; WRITE_BYTES as usize];
    object?.write_full(Bytes::from_static(&DATA)).await
}
