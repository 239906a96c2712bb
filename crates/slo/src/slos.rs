//! `Slos`: admits tenants and ends promises, each with one commit of the map `slo`.
//!
//! A decision is made from the state that its commit replaces. If another commit came first, the
//! decision is repeated. So two administrators cannot both give away capacity that is enough for
//! only one tenant.

use std::collections::BTreeMap;

use nacre_object::{Error, NodeName, PoolName, ProgramName, Result, TargetName, TenantName};
use nacre_qos::limits::{MAX_WEIGHT, MIN_WEIGHT};
use nacre_qos::{Admission, Admitted, Candidate, Link, QueueFlow, Refusal, Verdict};
use nacre_registry::{Change, Maps, SLO_MAP};

use crate::beside::{Slowdowns, decide_beside};
use crate::direct::DirectTraffic;
use crate::limits::{LINK_BYTES_PER_SECOND, MAX_QUEUE_WAIT};
use crate::links::Queues;
use crate::records::{
    ENFORCE_KEY, LINK_PREFIX, ORDER_KEY, POOL_PREFIX, Promise, PromisedFlow, SloState,
    StoredProfile, TARGET_PREFIX, TENANT_PREFIX, WEIGHT_PREFIX, background_tenant, encode,
};
use crate::traffic::{Spread, Traffic};

/// A request for a promise.
#[derive(Debug)]
pub struct Ask<'a> {
    /// The tenant.
    pub tenant: TenantName,
    /// The latency to promise, in seconds.
    pub slo_seconds: f64,
    /// For a stochastic promise: the fraction of requests that may take longer
    /// ([`Candidate::violation`]).
    pub violation: Option<f64>,
    /// The percentile of the measured latencies that status reports compare with the promised
    /// latency.
    pub percentile: f64,
    /// The traffic that the promise covers.
    pub traffic: Traffic<'a>,
    /// The link of the tenant's client, if its speed is stated.
    pub client_link: Option<Link>,
    /// Whether the new promise replaces the tenant's present promise, if it has one.
    pub replaces: bool,
}

/// The answer to a request for a promise.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// The tenant has this promise now.
    Admitted(Promise),
    /// Some promise would be missed. Nothing has changed.
    Refused(Box<Refusal>),
}

/// The promises of a cluster.
#[derive(Debug, Clone)]
pub struct Slos {
    maps: Maps,
    slowdowns: Slowdowns,
}

impl Slos {
    /// The promises that these maps store.
    pub fn new(maps: Maps) -> Self {
        Self { maps, slowdowns: Slowdowns::new() }
    }

    /// The same promises, admitted beside direct traffic, by target.
    #[must_use]
    pub fn beside(mut self, direct: &BTreeMap<TargetName, DirectTraffic>) -> Self {
        let slowdown =
            |(target, direct): (&TargetName, &DirectTraffic)| (target.clone(), direct.slowdown());
        self.slowdowns = direct.iter().map(slowdown).collect();
        self
    }

    /// The present contents of the map `slo`.
    ///
    /// # Errors
    /// `Unavailable`; `Corrupt`.
    pub async fn state(&self) -> Result<SloState> {
        crate::follower::read(&self.maps).await
    }

    /// Gives a tenant the promise that it asks for, if all promises can then be kept.
    ///
    /// # Errors
    /// `Invalid` if `ask` is malformed; `Exists` if the tenant already has a promise; `NotFound` if
    /// no target has a profile; `Stale` if earlier promises were made for other targets;
    /// `Unavailable`.
    pub async fn admit(&self, ask: &Ask<'_>) -> Result<Outcome> {
        let mut outcome = None;
        let update = |state: &SloState| {
            let mut others = state.clone();
            if ask.replaces {
                others.promises.remove(&ask.tenant);
            }
            let (decided, changes) = decide_beside(&others, ask, &self.slowdowns)?;
            outcome = Some(decided);
            Ok(changes)
        };
        self.update(update).await?;
        outcome.ok_or_else(|| {
            Error::unavailable("admission made no decision").hint("report this bug of nacre")
        })
    }

    /// Returns what [`Slos::admit`] would answer, and changes nothing. A present promise of the
    /// tenant is ignored.
    ///
    /// # Errors
    /// As [`Slos::admit`].
    pub async fn what_if(&self, ask: &Ask<'_>) -> Result<Outcome> {
        let mut state = self.state().await?;
        state.promises.remove(&ask.tenant);
        decide_beside(&state, ask, &self.slowdowns).map(|(outcome, _)| outcome)
    }

    /// Ends the promise of a tenant. The promises of others stay as they are.
    ///
    /// # Errors
    /// `NotFound` if the tenant has none; `Unavailable`.
    pub async fn evict(&self, tenant: &TenantName) -> Result<()> {
        self.update(|state| match state.promises.contains_key(tenant) {
            true => Ok(vec![Change::remove(format!("{TENANT_PREFIX}{tenant}"))]),
            false => Err(Error::not_found("the tenant has no promise")
                .on(tenant)
                .hint("list the promises: nacre slo ls")),
        })
        .await
    }

    /// Sets whether nodes order requests, or only measure them.
    ///
    /// # Errors
    /// `Unavailable`.
    pub async fn enforce(&self, is_enforced: bool) -> Result<()> {
        self.update(|_| Ok(vec![Change::set(ENFORCE_KEY, encode(&is_enforced))])).await
    }

    /// Sets the program that orders requests; `None` for the built-in order.
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

    /// Assigns all requests on the objects of a pool to one tenant. With `None`, each request
    /// belongs to its sender again.
    ///
    /// # Errors
    /// `Invalid` for one of nacre's own tenants or pools; `Unavailable`.
    pub async fn set_pool(&self, pool: &PoolName, tenant: Option<&TenantName>) -> Result<()> {
        tenant.map_or(Ok(()), check_tenant)?;
        if pool.is_own() && tenant.is_some() {
            return Err(Error::invalid(format!("the pool {pool} is nacre's own"))
                .hint("name a pool of clients: nacre pool ls"));
        }
        let key = format!("{POOL_PREFIX}{pool}");
        let change = match tenant {
            Some(tenant) => Change::set(key, encode(&tenant.as_str())),
            None => Change::remove(key),
        };
        self.update(|_| Ok(vec![change.clone()])).await
    }

    /// Sets the weight of a tenant among the tenants without a promise; `None` restores the
    /// default. nacre's background work counts as such a tenant.
    ///
    /// # Errors
    /// `Invalid` if the weight is out of range, or for another of nacre's own tenants;
    /// `Unavailable`.
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
                return Err(Error::invalid(format!("the weight {weight} is out of range"))
                    .hint(format!("give a weight from {MIN_WEIGHT} to {MAX_WEIGHT}")));
            }
        };
        self.update(|_| Ok(vec![change.clone()])).await
    }

    /// Stores the profiles of targets. Targets that are missing in `profiles` lose their profile.
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

    /// Stores the speed of the network links of some nodes; `None` removes the speed. Promises that
    /// were made with other links must be made again.
    ///
    /// # Errors
    /// `Invalid` for a speed out of bounds; `Unavailable`.
    pub async fn set_links(&self, nodes: &[NodeName], link: Option<Link>) -> Result<()> {
        if let Some(link) = link {
            check_link(link)?;
        }
        let change = |node: &NodeName| {
            let key = format!("{LINK_PREFIX}{node}");
            match link {
                Some(link) => Change::set(key, encode(&link.bytes_per_second())),
                None => Change::remove(key),
            }
        };
        self.update(|_| Ok(nodes.iter().map(change).collect())).await
    }

    pub(crate) async fn update(
        &self,
        mut decide: impl FnMut(&SloState) -> Result<Vec<Change>>,
    ) -> Result<()> {
        let update = |map: &_| decide(&SloState::of(map)?);
        self.maps.update(&SLO_MAP.parse()?, update).await.map(drop)
    }
}

/// Refuses nacre's own tenants.
fn check_tenant(tenant: &TenantName) -> Result<()> {
    match tenant.as_str().starts_with("nacre.") {
        true => Err(Error::invalid("tenants whose names begin with nacre. are nacre's own")
            .on(tenant)
            .hint("choose another name")),
        false => Ok(()),
    }
}

/// Checks that the speed of a link is possible.
fn check_link(link: Link) -> Result<()> {
    match LINK_BYTES_PER_SECOND.contains(&link.bytes_per_second()) {
        true => Ok(()),
        false => Err(Error::invalid(format!(
            "no link carries {} bytes a second",
            link.bytes_per_second()
        ))
        .hint("state a speed from 1,000 to 1e12 bytes a second")),
    }
}

/// Decides about a request for a promise. Also returns the changes of the map `slo`.
pub(crate) fn decide(state: &SloState, ask: &Ask<'_>) -> Result<(Outcome, Vec<Change>)> {
    check_tenant(&ask.tenant)?;
    ask.client_link.map_or(Ok(()), check_link)?;
    if ask.slo_seconds > MAX_QUEUE_WAIT.as_secs_f64() {
        let most = MAX_QUEUE_WAIT.as_secs();
        return Err(Error::invalid(format!("a promise of {} s is too long", ask.slo_seconds))
            .hint(format!("promise at most {most} s: no request waits longer")));
    }
    if !(ask.percentile > 0.0 && ask.percentile <= 100.0) {
        return Err(Error::invalid(format!("the percentile {} is out of range", ask.percentile))
            .hint("give one above 0 and at most 100, such as 99 or 99.9"));
    }
    let queues = Queues::new(state, ask.client_link.map(|link| (&ask.tenant, link)));
    let mut admission = restored(state, &queues)?;
    let mut flows = ask.traffic.flows(state, &ask.tenant)?;
    let traffic = match (&ask.traffic, state.only_target(&ask.tenant)) {
        // All its requests pass the links before that target.
        (Traffic::Rate(rate, _), Some(_)) => &Traffic::Rate(*rate, Spread::Anywhere),
        (traffic, _) => traffic,
    };
    flows.extend(queues.link_flows(&ask.tenant, traffic, &flows)?);
    if ask.violation.is_some() && flows.iter().any(|flow| queues.is_link(flow.queue)) {
        return Err(Error::unsupported("a stochastic promise for requests that pass links")
            .on(&ask.tenant)
            .hint("behind a shared link tenants are not independent: leave out --violation"));
    }
    let epoch = admission.placement_epoch();
    let candidate = Candidate {
        placement_epoch: epoch,
        violation: ask.violation,
        legs: queues.legs(&ask.tenant, &flows),
        ..Candidate::on_devices(ask.tenant.clone(), ask.slo_seconds, flows)
    };
    if admission.admit(candidate.clone())? == Verdict::Refused {
        let refusal = admission.refusal(&candidate, &[])?;
        let refusal = refusal.ok_or_else(|| {
            Error::unavailable("admission refused the tenant without a reason")
                .hint("report this bug of nacre")
        })?;
        return Ok((Outcome::Refused(Box::new(refusal)), vec![]));
    }
    let promises = promises_of(state, &admission, Some(ask));
    let changed =
        promises.iter().filter(|(tenant, promise)| state.promises.get(tenant) != Some(promise));
    let changes = changed
        .map(|(tenant, promise)| Change::set(format!("{TENANT_PREFIX}{tenant}"), encode(promise)));
    let changes = changes.collect();
    let own = promises.into_iter().find(|(tenant, _)| *tenant == ask.tenant);
    let own = own.ok_or_else(|| {
        Error::unavailable("the admitted tenant has no promise").hint("report this bug of nacre")
    })?;
    Ok((Outcome::Admitted(own.1), changes))
}

/// Restores the admission from the stored promises and profiles.
pub(crate) fn admission_of(state: &SloState) -> Result<Admission> {
    restored(state, &Queues::new(state, None))
}

pub(crate) fn restored(state: &SloState, queues: &Queues<'_>) -> Result<Admission> {
    let epoch = state.placement_epoch();
    let admitted = |(tenant, promise): (&TenantName, &Promise)| {
        let stale = |what: String| {
            Error::stale(what).on(tenant).hint(format!("admit it again: nacre slo evict {tenant}"))
        };
        if promise.placement_epoch != epoch {
            let what = "the promise of the tenant was made for other targets or links";
            return Err(stale(what.to_owned()));
        }
        let flow = |flow: &PromisedFlow| {
            let queue = queues.index(&flow.target);
            let queue = queue.ok_or_else(|| stale(format!("{} has no profile", flow.target)))?;
            Ok(QueueFlow { queue, curve: flow.curve.clone() })
        };
        let flows = promise.flows.iter().map(flow).collect::<Result<Vec<_>>>()?;
        let legs = queues.legs(tenant, &flows);
        let candidate = Candidate::on_devices(tenant.clone(), promise.slo_seconds, flows);
        let violation = promise.violation;
        let candidate = Candidate { placement_epoch: epoch, violation, legs, ..candidate };
        Ok(Admitted { candidate, buckets: promise.flows.iter().map(|flow| flow.bucket).collect() })
    };
    let tenants = state.promises.iter().map(admitted).collect::<Result<_>>()?;
    Admission::restored(queues.queues(), epoch, tenants)
}

/// The promises to store after an admission. `newcomer` is the tenant without a promise in `state`,
/// if there is one.
pub(crate) fn promises_of(
    state: &SloState,
    admission: &Admission,
    newcomer: Option<&Ask<'_>>,
) -> Vec<(TenantName, Promise)> {
    let bounds = admission.latencies();
    let profile_epoch = state.profile_epoch();
    let all = admission.tenants().iter().zip(bounds).zip(admission.priorities());
    all.filter_map(|((admitted, bound), priority)| {
        let candidate = &admitted.candidate;
        let known = state.promises.get(&candidate.tenant);
        let stated = Stated::of(known, newcomer)?;
        let flows = candidate.flows.iter().zip(&admitted.buckets);
        let promise = Promise {
            slo_seconds: candidate.slo_seconds,
            violation: candidate.violation,
            percentile: stated.percentile,
            // An admitted tenant has a bound.
            bound_seconds: bound.unwrap_or(candidate.slo_seconds),
            priority: priority as u32,
            placement_epoch: candidate.placement_epoch,
            profile_epoch: match known {
                Some(known) => known.profile_epoch,
                None => Some(profile_epoch),
            },
            client_link_bytes_per_second: stated.client_link_bytes_per_second,
            flows: flows
                .map(|(flow, bucket)| PromisedFlow {
                    target: admission.queues()[flow.queue].name.clone(),
                    curve: flow.curve.clone(),
                    bucket: *bucket,
                })
                .collect(),
            traffic: stated.traffic,
        };
        Some((candidate.tenant.clone(), promise))
    })
    .collect()
}

/// What a tenant has stated, and no admission computes.
struct Stated {
    percentile: f64,
    client_link_bytes_per_second: Option<f64>,
    traffic: String,
}

impl Stated {
    fn of(known: Option<&Promise>, newcomer: Option<&Ask<'_>>) -> Option<Self> {
        match (known, newcomer) {
            (Some(known), _) => Some(Self {
                percentile: known.percentile,
                client_link_bytes_per_second: known.client_link_bytes_per_second,
                traffic: known.traffic.clone(),
            }),
            (None, Some(ask)) => Some(Self {
                percentile: ask.percentile,
                client_link_bytes_per_second: ask.client_link.map(|link| link.bytes_per_second()),
                traffic: ask.traffic.to_string(),
            }),
            (None, None) => None,
        }
    }
}
