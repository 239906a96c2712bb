//! `Admission`: the admitted tenants with their token buckets, and the decision about a new tenant.

use nacre_object::{Error, Result, TenantName};

use super::candidate::priorities_of;
use super::check::Check;
use super::program::{Promises, Stochastic, solve};
use super::{Candidate, Queue};
use crate::RateBurst;
use crate::limits::MAX_TENANTS;

/// Whether a candidate was admitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// All promises can be kept, the candidate's included.
    Admitted,
    /// Some tenant would miss its promise. Nothing has changed.
    Refused,
}

/// An admitted tenant with its promise.
#[derive(Debug, Clone, PartialEq)]
pub struct Admitted {
    /// What the tenant asked for.
    pub candidate: Candidate,
    /// The token bucket of each of its flows.
    pub buckets: Vec<RateBurst>,
}

/// The tenants that were admitted to some queues.
///
/// **Invariant:** the calculus confirms the promise of every tenant.
#[derive(Debug, Clone, PartialEq)]
pub struct Admission {
    pub(super) queues: Vec<Queue>,
    placement_epoch: u64,
    /// In the order of their admission.
    pub(super) tenants: Vec<Admitted>,
}

impl Admission {
    /// Creates an admission for these queues, without tenants. It accepts only candidates whose
    /// curves were computed for the object placement of this epoch.
    ///
    /// # Errors
    /// `Invalid` if a blocking time is not a finite number from 0.
    pub fn new(queues: Vec<Queue>, placement_epoch: u64) -> Result<Self> {
        queues.iter().try_for_each(Queue::check)?;
        Ok(Self { queues, placement_epoch, tenants: vec![] })
    }

    /// Restores stored tenants with their buckets. It does not check the promises, although targets
    /// may have become slower since admission. The next admission checks them.
    ///
    /// # Errors
    /// As [`Admission::admit`]; also `Invalid` if a tenant does not have one bucket for each flow.
    pub fn restored(
        queues: Vec<Queue>,
        placement_epoch: u64,
        tenants: Vec<Admitted>,
    ) -> Result<Self> {
        let mut restored = Self::new(queues, placement_epoch)?;
        for admitted in tenants {
            let Admitted { candidate, buckets } = &admitted;
            restored.check(candidate)?;
            if buckets.len() != candidate.flows.len() {
                return Err(Error::invalid(
                    "the stored promise does not have one token bucket for each flow",
                )
                .on(&candidate.tenant)
                .hint("evict the tenant and admit it again"));
            }
            restored.tenants.push(admitted);
        }
        Ok(restored)
    }

    /// Admits all tenants anew, in this order, after the placement of objects has changed. Also
    /// returns the tenants that no longer fit.
    ///
    /// # Errors
    /// As [`Admission::admit`].
    pub fn readmit(
        &self,
        placement_epoch: u64,
        candidates: Vec<Candidate>,
    ) -> Result<(Self, Vec<TenantName>)> {
        let mut anew = Self { placement_epoch, tenants: vec![], queues: self.queues.clone() };
        let mut refused = vec![];
        for candidate in candidates {
            let tenant = candidate.tenant.clone();
            if anew.admit(candidate)? == Verdict::Refused {
                refused.push(tenant);
            }
        }
        Ok((anew, refused))
    }

    /// The queues.
    pub fn queues(&self) -> &[Queue] {
        &self.queues
    }

    /// The tenants, in the order of their admission.
    pub fn tenants(&self) -> &[Admitted] {
        &self.tenants
    }

    /// The epoch of the object placement for which all curves were computed.
    pub fn placement_epoch(&self) -> u64 {
        self.placement_epoch
    }

    /// Admits the candidate if all promises, its own included, can then be kept.
    ///
    /// # Errors
    /// `Invalid` if the candidate is malformed; `Exists` if the tenant already has a promise;
    /// `Stale` if its curves were computed for another placement; `Exhausted` if there are too many
    /// tenants.
    pub fn admit(&mut self, candidate: Candidate) -> Result<Verdict> {
        self.check(&candidate)?;
        let group = self.group(&candidate);
        let Some(buckets) = self.fitting(&candidate, &group) else { return Ok(Verdict::Refused) };
        for (at, buckets) in group.iter().zip(&buckets) {
            self.tenants[*at].buckets.clone_from(buckets);
        }
        let own = buckets.into_iter().next_back().unwrap_or_default();
        self.tenants.push(Admitted { candidate, buckets: own });
        Ok(Verdict::Admitted)
    }

    /// Whether the candidate would be admitted.
    ///
    /// # Errors
    /// As [`Admission::admit`].
    pub fn fits(&self, candidate: &Candidate) -> Result<bool> {
        self.check(candidate)?;
        Ok(self.fitting(candidate, &self.group(candidate)).is_some())
    }

    /// Ends the tenant's promise. Returns whether it had one.
    pub fn evict(&mut self, tenant: &TenantName) -> bool {
        let before = self.tenants.len();
        self.tenants.retain(|admitted| admitted.candidate.tenant != *tenant);
        self.tenants.len() < before
    }

    /// The latency bound of each tenant, in the order of admission; `None` if there is no bound. No
    /// request of a tenant with a deterministic promise exceeds the bound. With a stochastic
    /// promise, at most the promised fraction of requests does.
    pub fn latencies(&self) -> Vec<Option<f64>> {
        self.checked(|check| check.latencies())
    }

    /// For each tenant, in the order of admission: an upper bound on the probability that a request
    /// takes longer than promised.
    pub fn probabilities(&self) -> Vec<f64> {
        self.checked(|check| check.probabilities())
    }

    fn checked<T>(&self, check: impl FnOnce(&Check<'_>) -> T) -> T {
        let tenants: Vec<_> = self.tenants.iter().map(|admitted| &admitted.candidate).collect();
        let buckets: Vec<_> =
            self.tenants.iter().map(|admitted| admitted.buckets.clone()).collect();
        check(&Check::new(&self.queues, &tenants, &buckets))
    }

    /// The priority of each tenant, in the order of admission. Priority 0 is served first.
    pub fn priorities(&self) -> Vec<usize> {
        let tenants: Vec<_> = self.tenants.iter().map(|admitted| &admitted.candidate).collect();
        priorities_of(&tenants)
    }

    pub(super) fn check(&self, candidate: &Candidate) -> Result<()> {
        candidate.check(self.queues.len())?;
        let tenant = &candidate.tenant;
        if candidate.placement_epoch != self.placement_epoch {
            return Err(Error::stale(format!(
                "the curves were computed for the placement of epoch {}, and the placement now has epoch {}",
                candidate.placement_epoch, self.placement_epoch
            ))
            .on(tenant)
            .hint("compute the curves again"));
        }
        if self.tenants.iter().any(|admitted| admitted.candidate.tenant == *tenant) {
            return Err(Error::exists("the tenant already has a promise")
                .on(tenant)
                .hint("evict it first, or replace its promise: nacre slo admit --replace"));
        }
        if self.tenants.len() == MAX_TENANTS {
            return Err(Error::exhausted(format!(
                "{MAX_TENANTS} tenants have a promise already, the most there can be"
            ))
            .on(tenant)
            .hint("evict a tenant first"));
        }
        Ok(())
    }

    /// The indices of the admitted tenants whose latency the candidate can change: they share a
    /// queue with the candidate, directly or through other tenants.
    pub(super) fn group(&self, candidate: &Candidate) -> Vec<usize> {
        let mut is_shared = vec![false; self.queues.len()];
        let mut is_in = vec![false; self.tenants.len()];
        let mut pending: Vec<_> = candidate.flows.iter().map(|flow| flow.queue).collect();
        let mut by_queue: Vec<Vec<usize>> = vec![vec![]; self.queues.len()];
        for (at, admitted) in self.tenants.iter().enumerate() {
            for flow in &admitted.candidate.flows {
                by_queue[flow.queue].push(at);
            }
        }
        while let Some(queue) = pending.pop() {
            if std::mem::replace(&mut is_shared[queue], true) {
                continue;
            }
            for at in &by_queue[queue] {
                if !std::mem::replace(&mut is_in[*at], true) {
                    let flows = &self.tenants[*at].candidate.flows;
                    pending.extend(flows.iter().map(|flow| flow.queue));
                }
            }
        }
        (0..self.tenants.len()).filter(|at| is_in[*at]).collect()
    }

    /// The candidates of the tenants in `group`, followed by `candidate`.
    pub(super) fn members<'a>(
        &'a self,
        candidate: &'a Candidate,
        group: &[usize],
    ) -> Vec<&'a Candidate> {
        let present = group.iter().map(|at| &self.tenants[*at].candidate);
        present.chain([candidate]).collect()
    }

    /// Token buckets for the tenants in `group` and the candidate that keep all promises; `None` if
    /// there are none.
    pub(super) fn fitting(
        &self,
        candidate: &Candidate,
        group: &[usize],
    ) -> Option<Vec<Vec<RateBurst>>> {
        let members = self.members(candidate, group);
        Stochastic::tried(&members).iter().find_map(|stochastic| {
            let buckets = solve(&self.queues, &members, Promises::Kept, *stochastic)?;
            Check::new(&self.queues, &members, &buckets).are_kept().then_some(buckets)
        })
    }
}
