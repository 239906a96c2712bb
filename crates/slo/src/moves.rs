//! Records moves of tenants to other targets in the map `slo`, and changes their promises with them.
//! Whoever carries out a move calls these functions in order; `nacre slo advise --apply` does.
//!
//! 1. [`Slos::begin_move`] stores how to take the move back, before anything is moved.
//! 2. [`Slos::finish_moves`] makes the promises of the moved tenants again for their new targets.
//!    If the promises cannot be kept there, it changes nothing, and the caller takes the move back.
//! 3. [`Slos::begin_return`] restores the promises as they were before the move, so that nobody else
//!    gets their room meanwhile. [`Slos::forget_move`] ends the record.
//!
//! Each is one commit.

use nacre_object::{Error, Result, TargetName, TenantName};
use nacre_qos::{Admission, ArrivalCurve, Candidate, QueueFlow, Verdict};
use nacre_registry::Change;

use crate::links::Queues;
use crate::records::{
    PLACEMENT_PREFIX, Placement, Promise, PromisedFlow, SloState, TENANT_PREFIX, encode,
};
use crate::slos::{Slos, promises_of, restored};

/// A tenant all of whose requests go to one target now.
#[derive(Debug, Clone, PartialEq)]
pub struct MovedTenant {
    /// The tenant.
    pub tenant: TenantName,
    /// The target.
    pub target: TargetName,
    /// The most work that it brings to the target.
    pub curve: ArrivalCurve,
}

impl Slos {
    /// Stores that a move of a tenant begins, and how to take it back.
    ///
    /// # Errors
    /// `Conflict` if the tenant was moved before, or is being moved; `Unavailable`.
    pub async fn begin_move(&self, tenant: &TenantName, placement: &Placement) -> Result<()> {
        self.update(|state| match state.placements.get(tenant) {
            Some(present) => Err(moved_before(tenant, present)),
            None => Ok(vec![set(tenant, placement)]),
        })
        .await
    }

    /// Stores that moves have ended, and makes the promises of the moved tenants for their new
    /// targets. Tenants without a promise only get their record.
    ///
    /// # Errors
    /// `Exhausted` if not all promises can be kept then; `Conflict` if the promise of a moved
    /// tenant has changed since its move began; `Unavailable`.
    pub async fn finish_moves(&self, moved: &[MovedTenant]) -> Result<()> {
        self.update(|state| finish(state, moved)).await
    }

    /// Restores the promise of a moved tenant as it was before the move, and stores that the tenant
    /// is being moved back. Returns the record of the move.
    ///
    /// # Errors
    /// `NotFound` if the tenant was not moved; `Exhausted` if not all promises can be kept then;
    /// `Conflict` if the tenant has another promise by now; `Unavailable`.
    pub async fn begin_return(&self, tenant: &TenantName) -> Result<Placement> {
        let mut found = None;
        self.update(|state| {
            let (placement, changes) = give_back(state, tenant)?;
            found = Some(placement);
            Ok(changes)
        })
        .await?;
        found.ok_or_else(|| {
            Error::unavailable("no record was read").hint("report this bug of nacre")
        })
    }

    /// Forgets the move of a tenant.
    ///
    /// # Errors
    /// `Unavailable`.
    pub async fn forget_move(&self, tenant: &TenantName) -> Result<()> {
        self.update(|_| Ok(vec![Change::remove(key(tenant))])).await
    }
}

fn key(tenant: &TenantName) -> String {
    format!("{PLACEMENT_PREFIX}{tenant}")
}

fn set(tenant: &TenantName, placement: &Placement) -> Change {
    Change::set(key(tenant), encode(placement))
}

fn moved_before(tenant: &TenantName, present: &Placement) -> Error {
    let undo = format!("nacre slo advise --undo {tenant}");
    let (what, hint) = match present.is_complete {
        true => (
            format!("the tenant was moved to {} before", present.target),
            format!("nothing has changed; to move it elsewhere, take that move back first: {undo}"),
        ),
        false => (
            format!("a move of the tenant to {} has not ended", present.target),
            format!(
                "nothing has changed; wait for the command that moves it, or if none does any more: {undo}"
            ),
        ),
    };
    Error::conflict(what).on(tenant).hint(hint)
}

/// The changes at the end of some moves.
pub(crate) fn finish(state: &SloState, moved: &[MovedTenant]) -> Result<Vec<Change>> {
    let mut changes = vec![];
    let mut promised = vec![];
    for done in moved {
        let Some(placement) = state.placements.get(&done.tenant) else {
            return Err(Error::conflict("the record of the move is gone")
                .on(&done.tenant)
                .hint("somebody else has taken the move back: see `nacre slo advise`"));
        };
        changes.push(set(&done.tenant, &Placement { is_complete: true, ..placement.clone() }));
        let Some(promise) = state.promises.get(&done.tenant) else { continue };
        let target = done.target.to_string();
        let at_links = promise.flows.iter().filter(|flow| flow.is_at_link());
        let at_links = at_links.map(|flow| (flow.target.clone(), flow.curve.clone()));
        let flows = std::iter::once((target, done.curve.clone())).chain(at_links).collect();
        promised.push((done.tenant.clone(), promise.clone(), flows));
    }
    changes.extend(readmit(state, promised)?);
    Ok(changes)
}

/// The record of a tenant's move, and the changes with which its return begins.
pub(crate) fn give_back(state: &SloState, tenant: &TenantName) -> Result<(Placement, Vec<Change>)> {
    let Some(placement) = state.placements.get(tenant) else {
        return Err(Error::not_found("the tenant was not moved")
            .on(tenant)
            .hint("`nacre slo advise` shows the tenants that were moved"));
    };
    let mut changes = vec![set(tenant, &Placement { is_complete: false, ..placement.clone() })];
    if let (true, Some(present)) = (placement.is_complete, state.promises.get(tenant)) {
        let former = placement.former_promise.as_ref().filter(|former| is_same(former, present));
        let Some(former) = former else {
            return Err(Error::conflict("the tenant got another promise after the move")
                .on(tenant)
                .hint(format!(
                    "end it, and admit the tenant again afterwards: nacre slo evict {tenant}"
                )));
        };
        let flow = |flow: &PromisedFlow| (flow.target.clone(), flow.curve.clone());
        let flows = former.flows.iter().map(flow).collect();
        changes.extend(readmit(state, vec![(tenant.clone(), present.clone(), flows)])?);
    }
    Ok((placement.clone(), changes))
}

/// Whether both promise the same for the same traffic.
fn is_same(one: &Promise, other: &Promise) -> bool {
    let stated = |promise: &Promise| {
        (promise.slo_seconds, promise.violation, promise.percentile, promise.traffic.clone())
    };
    stated(one) == stated(other)
}

/// A promise, and the tenant's traffic at each queue by which it is to be made again.
type Readmitted = (TenantName, Promise, Vec<(String, ArrivalCurve)>);

/// Makes some promises again for other traffic. Returns the changes.
fn readmit(state: &SloState, promised: Vec<Readmitted>) -> Result<Vec<Change>> {
    let queues = Queues::new(state, None);
    let mut others = state.clone();
    others.promises.retain(|tenant, _| promised.iter().all(|(moved, ..)| moved != tenant));
    let mut admission = restored(&others, &queues)?;
    for (tenant, promise, flows) in promised {
        let flow = |(target, curve): (String, ArrivalCurve)| {
            let queue = queues.index(&target).ok_or_else(|| {
                Error::stale(format!("{target} has no profile"))
                    .on(&tenant)
                    .hint("measure what requests cost there: nacre slo profile")
            })?;
            Ok(QueueFlow { queue, curve })
        };
        let flows = flows.into_iter().map(flow).collect::<Result<Vec<_>>>()?;
        let candidate = Candidate {
            placement_epoch: admission.placement_epoch(),
            violation: promise.violation,
            legs: queues.legs(&tenant, &flows),
            ..Candidate::on_devices(tenant.clone(), promise.slo_seconds, flows)
        };
        admit(&mut admission, &candidate)?;
    }
    let changed = promises_of(state, &admission, None).into_iter();
    let changed = changed.filter(|(tenant, promise)| state.promises.get(tenant) != Some(promise));
    let changes = changed
        .map(|(tenant, promise)| Change::set(format!("{TENANT_PREFIX}{tenant}"), encode(&promise)));
    Ok(changes.collect())
}

fn admit(admission: &mut Admission, candidate: &Candidate) -> Result<()> {
    if admission.admit(candidate.clone())? == Verdict::Admitted {
        return Ok(());
    }
    let text = match admission.refusal(candidate, &[])? {
        Some(refusal) => refusal.to_string(),
        None => "not all promises could be kept".to_owned(),
    };
    Err(Error::exhausted(text)
        .on(&candidate.tenant)
        .hint("see `nacre slo ls`; end a promise, or promise less"))
}
