//! `Order`: the tenants that have requests, sorted in the built-in order of service ([`super`]
//! defines it).
//!
//! There is one list for tenants within their limits. While the first of them waits because the
//! device is full, no request of lower priority is sent: it would delay that tenant. Other tenants
//! are in one list for reads and one for writes, because the device may be full of one kind only.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use super::{RequestId, TenantId, Time};
use crate::IoKind;

/// A request of a tenant without a promise counts as at least this much work, for example if its
/// work is unknown.
pub(super) const LEAST_SHARED_SECONDS: f64 = 1e-6;

/// The work that a tenant or group got, divided by its weight. It is never NaN.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Pass(pub(super) f64);

impl Eq for Pass {}

impl PartialOrd for Pass {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Pass {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}

/// Decides between tenants of equal priority: the lowest tie is served first. If tenants take
/// turns, the first part is the tenant's turn instead of a time.
pub(super) type Tie = (Time, RequestId);

/// Where a tenant that has requests stands in the order of service.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Standing {
    /// Within its limits. Among equal priorities the lowest tie is served first.
    Within { priority: u32, tie: Tie },
    /// Outside its limits until this time; `None` if its buckets never cover its next request.
    Outside { until: Option<Time> },
    /// Without a promise.
    Weighted { pass: Pass, weight: f64 },
}

/// A tenant in the order.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Entry {
    pub(super) tenant: TenantId,
    /// Whether its next request reads or writes.
    pub(super) kind: IoKind,
    /// A number that grows each time a tenant is served or begins to wait. Among equal tenants the
    /// lowest turn is served first.
    pub(super) turn: u64,
    pub(super) standing: Standing,
}

/// The tenants that have requests.
#[derive(Debug, Default)]
pub(super) struct Order {
    within: BTreeSet<(u32, Tie, TenantId)>,
    /// The other tenants, by the kind of their next request ([`IoKind::index`]).
    kinds: [LeftOver; 2],
    /// Tenants outside their limits, sorted by the time at which they come within their limits.
    coming_within: BTreeSet<(Time, TenantId)>,
    /// By [`GroupName`].
    groups: [Group; 2],
}

/// The two groups of tenants that share the capacity left over by tenants within their limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum GroupName {
    /// Tenants outside their limits.
    Outside,
    /// Tenants without a promise.
    Weighted,
}

impl Standing {
    /// The group of a tenant with this standing, and its weight in the group.
    fn group_share(self) -> Option<(GroupName, f64)> {
        match self {
            Self::Within { .. } => None,
            Self::Outside { .. } => Some((GroupName::Outside, 1.0)),
            Self::Weighted { weight, .. } => Some((GroupName::Weighted, weight)),
        }
    }
}

#[derive(Debug, Default)]
struct LeftOver {
    outside: BTreeSet<(u64, TenantId)>,
    weighted: BTreeSet<(Pass, u64, TenantId)>,
}

/// A group of tenants. The two groups share the remaining capacity by the sums of their weights.
#[derive(Debug, Default)]
struct Group {
    tenants: usize,
    weight: f64,
    /// For each served request, 1 divided by the weight of the group at that time, summed up. The
    /// group with the lower sum is served next.
    pass: Pass,
}

impl Group {
    fn enter(&mut self, weight: f64, other: Pass) {
        if self.tenants == 0 {
            // A group gets no extra work for its idle time.
            self.pass = self.pass.max(other);
            self.weight = 0.0;
        }
        self.tenants += 1;
        self.weight += weight;
    }

    fn leave(&mut self, weight: f64) {
        self.tenants -= 1;
        self.weight -= weight;
    }

    fn serve(&mut self) {
        self.pass.0 += 1.0 / self.weight;
    }
}

impl Order {
    /// Replaces a tenant's entry in the order. The group of the tenant changes only if the tenant
    /// moves to the other group or gets another weight.
    pub(super) fn replace(&mut self, old: Option<&Entry>, new: Option<&Entry>) {
        if let Some(old) = old {
            self.unlist(old);
        }
        if let Some(new) = new {
            self.list(new);
        }
        let share = |entry: Option<&Entry>| entry.and_then(|entry| entry.standing.group_share());
        let (old, new) = (share(old), share(new));
        if old == new {
            return;
        }
        if let Some((group, weight)) = new {
            let other = self.groups[1 - group as usize].pass;
            self.groups[group as usize].enter(weight, other);
        }
        if let Some((group, weight)) = old {
            self.groups[group as usize].leave(weight);
        }
    }

    fn list(&mut self, entry: &Entry) {
        let Entry { tenant, kind, turn, standing } = *entry;
        let of_kind = &mut self.kinds[kind.index()];
        match standing {
            Standing::Within { priority, tie } => {
                self.within.insert((priority, tie, tenant));
            }
            Standing::Outside { until } => {
                of_kind.outside.insert((turn, tenant));
                self.coming_within.extend(until.map(|until| (until, tenant)));
            }
            Standing::Weighted { pass, .. } => {
                of_kind.weighted.insert((pass, turn, tenant));
            }
        }
    }

    fn unlist(&mut self, entry: &Entry) {
        let Entry { tenant, kind, turn, standing } = *entry;
        let of_kind = &mut self.kinds[kind.index()];
        match standing {
            Standing::Within { priority, tie } => {
                self.within.remove(&(priority, tie, tenant));
            }
            Standing::Outside { until } => {
                of_kind.outside.remove(&(turn, tenant));
                if let Some(until) = until {
                    self.coming_within.remove(&(until, tenant));
                }
            }
            Standing::Weighted { pass, .. } => {
                of_kind.weighted.remove(&(pass, turn, tenant));
            }
        }
    }

    /// A tenant that has come within its limits by now.
    pub(super) fn come_within(&self, now: Time) -> Option<TenantId> {
        let (until, tenant) = self.coming_within.first()?;
        (*until <= now).then_some(*tenant)
    }

    /// The first of the tenants within their limits, and its priority.
    pub(super) fn first_within(&self) -> Option<(u32, TenantId)> {
        self.within.first().map(|(priority, _, tenant)| (*priority, *tenant))
    }

    /// The next tenant to serve when no tenant within its limits waits. It is the first whose next
    /// request is of one of these kinds.
    pub(super) fn first_left_over(&self, kinds: &[IoKind]) -> Option<TenantId> {
        let outside = kinds.iter().filter_map(|kind| self.kinds[kind.index()].outside.first());
        let weighted = kinds.iter().filter_map(|kind| self.kinds[kind.index()].weighted.first());
        let outside = outside.min().map(|(_, tenant)| *tenant);
        let weighted = weighted.min().map(|(_, _, tenant)| *tenant);
        match (outside, weighted) {
            (Some(_), Some(weighted)) if self.groups[1].pass < self.groups[0].pass => {
                Some(weighted)
            }
            (outside, weighted) => outside.or(weighted),
        }
    }

    /// At most `most` tenants in the built-in order. First come tenants within their limits. Then
    /// come, in turn, tenants outside their limits and tenants without a promise. The next request
    /// of each must be of one of `kinds`.
    pub(super) fn foremost(&self, most: usize, kinds: &[IoKind]) -> Vec<TenantId> {
        let within = self.within.iter().take(most).map(|(.., tenant)| *tenant);
        let mut foremost: Vec<_> = within.collect();
        let of_kinds = || kinds.iter().map(|kind| &self.kinds[kind.index()]);
        let mut outside: Vec<_> =
            of_kinds().flat_map(|kind| kind.outside.iter().take(most)).collect();
        let mut weighted: Vec<_> =
            of_kinds().flat_map(|kind| kind.weighted.iter().take(most)).collect();
        outside.sort_unstable();
        weighted.sort_unstable();
        let mut outside = outside.into_iter().map(|(_, tenant)| *tenant);
        let mut weighted = weighted.into_iter().map(|(.., tenant)| *tenant);
        while foremost.len() < most {
            let before = foremost.len();
            foremost.extend(outside.next());
            foremost.extend(weighted.next());
            if foremost.len() == before {
                break;
            }
        }
        foremost.truncate(most);
        foremost
    }

    /// The share that the tenant's group has had; 0 for a tenant within its limits.
    pub(super) fn group_pass(&self, standing: Standing) -> f64 {
        standing.group_share().map_or(0.0, |(group, _)| self.groups[group as usize].pass.0)
    }

    /// Records that a tenant with this entry is served. The tenant stays in the order.
    pub(super) fn serve(&mut self, entry: &Entry) {
        if let Some((group, _)) = entry.standing.group_share() {
            self.groups[group as usize].serve();
        }
    }
}
