//! What an order of service chooses from, and where it comes from.

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
    /// The place of the chosen one among the candidates; `None` leaves this decision to the native order.
    fn choose(&self, candidates: &[Candidate<'_>]) -> Option<usize>;
}

/// Finds orders by the names of their programs.
pub trait Orders: fmt::Debug + Send + Sync {
    /// The order of this name as it is now; `None` if no version is live.
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
