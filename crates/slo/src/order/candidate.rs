//! The tenants among which an order program chooses, and the traits by which a target's queue calls
//! order programs.

use std::fmt;
use std::sync::Arc;

use nacre_object::{ProgramName, TenantName};
use nacre_qos::scheduler::Waiting;

/// A tenant that has requests, as an order program sees it.
#[derive(Debug, Clone, Copy)]
pub struct Candidate<'a> {
    /// The tenant.
    pub tenant: &'a TenantName,
    /// The promised latency, if the tenant has a promise.
    pub slo_seconds: Option<f64>,
    /// Its next request, and its state in the scheduler.
    pub waiting: &'a Waiting,
}

/// Chooses whose request is served next.
pub trait Order: fmt::Debug + Send + Sync {
    /// Returns the index of the chosen candidate. `None` leaves this decision to the built-in
    /// order.
    fn choose(&self, candidates: &[Candidate<'_>]) -> Option<usize>;
}

/// Finds an order by the name of its program.
pub trait Orders: fmt::Debug + Send + Sync {
    /// The order that this program defines; `None` if no version of the program is live.
    fn named(&self, name: &ProgramName) -> Option<Arc<dyn Order>>;
}

/// For a process that runs no programs: the built-in order makes all decisions.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoOrders;

impl Orders for NoOrders {
    fn named(&self, _: &ProgramName) -> Option<Arc<dyn Order>> {
        None
    }
}
