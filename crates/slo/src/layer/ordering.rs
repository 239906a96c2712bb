//! `Ordering`: asks the order program that the map `slo` names whose request is next. If the map
//! names none, the built-in order decides.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use nacre_object::TenantName;
use nacre_qos::scheduler::{Next, Scheduler, ServiceOrder, TenantId, Waiting};

use crate::order::{Candidate, Order, Orders};
use crate::records::SloState;

/// Decides whose request one target serves next.
#[derive(Debug)]
pub(super) struct Ordering {
    orders: Arc<dyn Orders>,
    names: BTreeMap<TenantId, TenantName>,
    /// How many decisions programs have made.
    decided: u64,
}

/// Calls a program for one decision.
struct Decision<'a> {
    order: &'a dyn Order,
    state: &'a SloState,
    names: &'a BTreeMap<TenantId, TenantName>,
    decided: &'a mut u64,
}

impl Ordering {
    /// Creates an ordering that can use these order programs.
    pub fn new(orders: Arc<dyn Orders>) -> Self {
        Self { orders, names: BTreeMap::new(), decided: 0 }
    }

    /// Sets the name by which programs know a tenant.
    pub fn name(&mut self, tenant: TenantId, name: &TenantName) {
        self.names.insert(tenant, name.clone());
    }

    /// How many decisions programs have made.
    pub fn decided(&self) -> u64 {
        self.decided
    }

    /// Decides what to do next. Without a program, the built-in order decides alone.
    pub fn next(&mut self, scheduler: &mut Scheduler, state: &SloState, now: Duration) -> Next {
        let Some(name) = &state.order else { return scheduler.next(now) };
        let Some(order) = self.orders.named(name) else { return scheduler.next(now) };
        let (names, decided) = (&self.names, &mut self.decided);
        scheduler.next_by(&mut Decision { order: &*order, state, names, decided }, now)
    }
}

impl ServiceOrder for Decision<'_> {
    fn choose(&mut self, waiting: &[Waiting]) -> Option<usize> {
        let candidate = |waiting| {
            let waiting: &Waiting = waiting;
            let tenant = self.names.get(&waiting.tenant)?;
            let promise = waiting.priority.and_then(|_| self.state.promises.get(tenant));
            let slo_seconds = promise.map(|promise| promise.slo_seconds);
            Some(Candidate { tenant, slo_seconds, waiting })
        };
        let candidates: Option<Vec<_>> = waiting.iter().map(candidate).collect();
        let chosen = self.order.choose(&candidates?);
        *self.decided += u64::from(chosen.is_some());
        chosen
    }
}
