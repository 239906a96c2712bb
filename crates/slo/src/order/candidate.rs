//! The candidates from which an order of service chooses, and the source of such orders.

use std::fmt;
use std::sync::Arc;

use nacre_object::{ProgramName, TenantName};
use nacre_qos::scheduler::Waiting;

/// A tenant that has requests, as a program sees it.
#[derive(Debug, Clone, Copy)]
pub struct Candidate<'a> {
    /// The tenant.
    pub tenant: &'a TenantName,
    /// The latency that it was promised.
    pub slo_seconds: Option<f64>,
    /// Its next request, and where the tenant stands.
    pub waiting: &'a Waiting,
}

/// Chooses whose request goes next.
pub trait Order: fmt::Debug + Send + Sync {
    /// Returns the index of the chosen candidate. `None` leaves this decision to the native order.
    fn choose(&self, candidates: &[Candidate<'_>]) -> Option<usize>;
}

/// Finds orders by the names of their programs.
pub trait Orders: fmt::Debug + Send + Sync {
    /// The order with this name at present; `None` if no version is live.
    fn named(&self, name: &ProgramName) -> Option<Arc<dyn Order>>;
}

/// For a process that runs no programs: the native order decides everything.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoOrders;

impl Orders for NoOrders {
    fn named(&self, _: &ProgramName) -> Option<Arc<dyn Order>> {
        None
    }
}
