//! `Slos`: admits tenants and ends promises. Each decision is one commit of the map `slo`.
//!
//! The decision is made from the state that the commit replaces, and is repeated if another commit
//! came first. So two administrators can never both be told yes if there is room for only one
//! tenant.

use nacre_object::{Error, PoolName, ProgramName, Result, TargetName, TenantName};
use nacre_qos::limits::{MAX_WEIGHT, MIN_WEIGHT};
use nacre_qos::{Admission, Admitted, Candidate, Queue, QueueFlow, Refusal, Verdict};
use nacre_registry::{Change, Maps, SLO_MAP};

use crate::limits::MAX_QUEUE_WAIT;
use crate::records::{
    ENFORCE_KEY, ORDER_KEY, POOL_PREFIX, Promise, PromisedFlow, SloState, StoredProfile,
    TARGET_PREFIX, TENANT_PREFIX, WEIGHT_PREFIX, background_tenant, encode,
};
use crate::traffic::{Traffic, placement_epoch};

/// What a tenant asks to be promised.
#[derive(Debug)]
pub struct Ask<'a> {
    /// The tenant.
    pub tenant: TenantName,
    /// The latency, in seconds.
    pub slo_seconds: f64,
    /// The part of its requests that may take longer, for a stochastic promise
    /// ([`Candidate::violation`]).
    pub violation: Option<f64>,
    /// The percentile of the measured latencies that is compared with the promised latency.
    pub percentile: f64,
    /// For which traffic.
    pub traffic: Traffic<'a>,
    /// Whether the new promise replaces one that the tenant has.
    pub replaces: bool,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// It is promised.
    Admitted(Promise),
    /// Some promise would be missed. Nothing has changed.
    Refused(Box<Refusal>),
}

/// The promises of a cluster.
#[derive(Debug, Clone)]
pub struct Slos {
    maps: Maps,
}

impl Slos {
    /// Those kept in these maps.
    pub fn new(maps: Maps) -> Self {
        Self { maps }
    }

    /// What the map says.
    ///
    /// # Errors
    /// `Unavailable`; `Corrupt`.
    pub async fn state(&self) -> Result<SloState> {
        crate::follower::read(&self.maps).await
    }

    /// Admits a tenant with the promise that it asks for, if all promises can then be kept.
    ///
    /// # Errors
    /// `Invalid` if the question is malformed; `Exists` if the tenant has a promise; `NotFound`
    /// without profiles; `Stale` if earlier promises were made for other targets; `Unavailable`.
    pub async fn admit(&self, ask: &Ask<'_>) -> Result<Outcome> {
        let mut outcome = None;
        let update = |state: &SloState| {
            let mut others = state.clone();
            if ask.replaces {
                others.promises.remove(&ask.tenant);
            }
            let (decided, changes) = decide(&others, ask)?;
            outcome = Some(decided);
            Ok(changes)
        };
        self.update(update).await?;
        outcome.ok_or_else(|| Error::unavailable("nothing was decided"))
    }

    /// Tells what [`Slos::admit`] would decide, without a commit. The present promise of the
    /// tenant, if any, is ignored.
    ///
    /// # Errors
    /// As [`Slos::admit`].
    pub async fn what_if(&self, ask: &Ask<'_>) -> Result<Outcome> {
        let mut state = self.state().await?;
        state.promises.remove(&ask.tenant);
        decide(&state, ask).map(|(outcome, _)| outcome)
    }

    /// Ends a promise. What others were promised stays.
    ///
    /// # Errors
    /// `NotFound` if the tenant has none; `Unavailable`.
    pub async fn evict(&self, tenant: &TenantName) -> Result<()> {
        self.update(|state| match state.promises.contains_key(tenant) {
            true => Ok(vec![Change::remove(format!("{TENANT_PREFIX}{tenant}"))]),
            false => Err(Error::not_found("the tenant has no promise").on(tenant)),
        })
        .await
    }

    /// Says whether nodes order requests, or only measure them.
    ///
    /// # Errors
    /// `Unavailable`.
    pub async fn enforce(&self, is_enforced: bool) -> Result<()> {
        self.update(|_| Ok(vec![Change::set(ENFORCE_KEY, encode(&is_enforced))])).await
    }

    /// Says which program orders requests; `None`: the native order does.
    ///
    /// # Errors
    /// `Unavailable`.
    pub async fn set_order(&self, program: Option<&ProgramName>) -> Result<()> {
        let change = match program {
            Some(program) => Change::set(ORDER_KEY, encode(&program.as_str())),
            None => Change::remove(ORDER_KEY),
        };
        self.update(|_| Ok(vec![change.clone()])).await
    }

    /// Assigns all requests on a pool's objects to a tenant. With `None`, each request belongs to
    /// its sender.
    ///
    /// # Errors
    /// `Invalid` for nacre's own tenant; `Unavailable`.
    pub async fn set_pool(&self, pool: &PoolName, tenant: Option<&TenantName>) -> Result<()> {
        tenant.map_or(Ok(()), check_tenant)?;
        let key = format!("{POOL_PREFIX}{pool}");
        let change = match tenant {
            Some(tenant) => Change::set(key, encode(&tenant.as_str())),
            None => Change::remove(key),
        };
        self.update(|_| Ok(vec![change.clone()])).await
    }

    /// Sets the weight of a tenant without a promise among other such tenants; `None` restores the
    /// default. nacre's background work is such a tenant.
    ///
    /// # Errors
    /// `Invalid` for a weight out of bounds, or for one of nacre's own tenants other than its
    /// background work; `Unavailable`.
    pub async fn set_weight(&self, tenant: &TenantName, weight: Option<f64>) -> Result<()> {
        if *tenant != background_tenant() {
            check_tenant(tenant)?;
        }
        let key = format!("{WEIGHT_PREFIX}{tenant}");
        let change = match weight {
            None => Change::remove(key),
            Some(weight) if (MIN_WEIGHT..=MAX_WEIGHT).contains(&weight) => {
                Change::set(key, encode(&weight))
            }
            Some(weight) => {
                return Err(Error::invalid(format!("the weight {weight}"))
                    .hint(format!("a weight is from {MIN_WEIGHT} to {MAX_WEIGHT}")));
            }
        };
        self.update(|_| Ok(vec![change.clone()])).await
    }

    /// Stores the profiles of some targets. All other targets lose their profile.
    ///
    /// # Errors
    /// `Unavailable`.
    pub async fn set_profiles(&self, profiles: &[(TargetName, StoredProfile)]) -> Result<()> {
        self.update(|state| {
            let is_gone = |target: &&TargetName| profiles.iter().all(|(kept, _)| kept != *target);
            let gone = state.profiles.keys().filter(is_gone);
            let removed = gone.map(|target| Change::remove(format!("{TARGET_PREFIX}{target}")));
            let set = profiles.iter().map(|(target, stored)| {
                Change::set(format!("{TARGET_PREFIX}{target}"), encode(stored))
            });
            Ok(removed.chain(set).collect())
        })
        .await
    }

    async fn update(&self, mut decide: impl FnMut(&SloState) -> Result<Vec<Change>>) -> Result<()> {
        let update = |map: &_| decide(&SloState::of(map)?);
        self.maps.update(&SLO_MAP.parse()?, update).await.map(drop)
    }
}

/// Checks that a tenant is none of nacre's own.
fn check_tenant(tenant: &TenantName) -> Result<()> {
    match tenant.as_str().starts_with("nacre.") {
        true => Err(Error::invalid("tenants with this prefix are nacre's own")
            .on(tenant)
            .hint("choose another name")),
        false => Ok(()),
    }
}

/// The outcome of a question in this state, and the changes of the map.
fn decide(state: &SloState, ask: &Ask<'_>) -> Result<(Outcome, Vec<Change>)> {
    check_tenant(&ask.tenant)?;
    if ask.slo_seconds > MAX_QUEUE_WAIT.as_secs_f64() {
        let most = MAX_QUEUE_WAIT.as_secs();
        return Err(Error::invalid(format!("a promise of {} s", ask.slo_seconds))
            .hint(format!("requests wait for {most} s at most: promise less than that")));
    }
    if !(ask.percentile > 0.0 && ask.percentile <= 100.0) {
        return Err(Error::invalid(format!("the percentile {}", ask.percentile))
            .hint("say one above 0 and up to 100, such as 99 or 99.9"));
    }
    let mut admission = admission_of(state)?;
    let flows = ask.traffic.flows(state)?;
    let epoch = admission.placement_epoch();
    let candidate = Candidate {
        placement_epoch: epoch,
        violation: ask.violation,
        ..Candidate::on_devices(ask.tenant.clone(), ask.slo_seconds, flows)
    };
    if admission.admit(candidate.clone())? == Verdict::Refused {
        let refusal = admission.refusal(&candidate, &[])?;
        let refusal = refusal.ok_or_else(|| Error::unavailable("the decision is not stable"))?;
        return Ok((Outcome::Refused(Box::new(refusal)), vec![]));
    }
    let promises = promises_of(state, &admission, ask);
    let changed =
        promises.iter().filter(|(tenant, promise)| state.promises.get(tenant) != Some(promise));
    let changes = changed
        .map(|(tenant, promise)| Change::set(format!("{TENANT_PREFIX}{tenant}"), encode(promise)));
    let changes = changes.collect();
    let own = promises.into_iter().find(|(tenant, _)| *tenant == ask.tenant);
    let own = own.ok_or_else(|| Error::unavailable("the newcomer is not among the admitted"))?;
    Ok((Outcome::Admitted(own.1), changes))
}

/// The admission that consists of the stored promises, on the targets that have a profile.
pub(crate) fn admission_of(state: &SloState) -> Result<Admission> {
    let targets: Vec<_> = state.profiles.keys().collect();
    let queues = state.profiles.iter().map(|(target, stored)| Queue {
        name: target.to_string(),
        blocking_seconds: stored.blocking_seconds(),
    });
    let epoch = placement_epoch(state.profiles.keys());
    let admitted = |(tenant, promise): (&TenantName, &Promise)| {
        let stale = |what: String| {
            Error::stale(what).on(tenant).hint(format!("admit it again: nacre slo evict {tenant}"))
        };
        if promise.placement_epoch != epoch {
            return Err(stale("its promise was made when there were other targets".to_owned()));
        }
        let flow = |flow: &PromisedFlow| {
            let queue = targets.iter().position(|target| target.as_str() == flow.target);
            let queue = queue.ok_or_else(|| stale(format!("{} has no profile", flow.target)))?;
            Ok(QueueFlow { queue, curve: flow.curve.clone() })
        };
        let flows = promise.flows.iter().map(flow).collect::<Result<_>>()?;
        let candidate = Candidate::on_devices(tenant.clone(), promise.slo_seconds, flows);
        let violation = promise.violation;
        let candidate = Candidate { placement_epoch: epoch, violation, ..candidate };
        Ok(Admitted { candidate, buckets: promise.flows.iter().map(|flow| flow.bucket).collect() })
    };
    let tenants = state.promises.iter().map(admitted).collect::<Result<_>>()?;
    Admission::restored(queues.collect(), epoch, tenants)
}

/// The promises to store after an admission.
fn promises_of(
    state: &SloState,
    admission: &Admission,
    ask: &Ask<'_>,
) -> Vec<(TenantName, Promise)> {
    let bounds = admission.latencies();
    let profile_epoch = state.profile_epoch();
    let all = admission.tenants().iter().zip(bounds).zip(admission.priorities());
    all.map(|((admitted, bound), priority)| {
        let candidate = &admitted.candidate;
        let known = state.promises.get(&candidate.tenant);
        let flows = candidate.flows.iter().zip(&admitted.buckets);
        let promise = Promise {
            slo_seconds: candidate.slo_seconds,
            violation: candidate.violation,
            percentile: known.map_or(ask.percentile, |known| known.percentile),
            // An admitted tenant has a bound.
            bound_seconds: bound.unwrap_or(candidate.slo_seconds),
            priority: priority as u32,
            placement_epoch: candidate.placement_epoch,
            profile_epoch: match known {
                Some(known) => known.profile_epoch,
                None => Some(profile_epoch),
            },
            flows: flows
                .map(|(flow, bucket)| PromisedFlow {
                    target: admission.queues()[flow.queue].name.clone(),
                    curve: flow.curve.clone(),
                    bucket: *bucket,
                })
                .collect(),
            traffic: known.map_or_else(|| ask.traffic.to_string(), |known| known.traffic.clone()),
        };
        (candidate.tenant.clone(), promise)
    })
    .collect()
}
