//! A queue with its scheduler and its device.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use nacre_object::Result;

use super::{SimulatedQueue, Step};
use crate::IoKind;
use crate::scheduler::{
    NewRequest, Next, RequestId, Scheduler, TenantId, TenantSettings, Time, Work,
};

/// A request on one of its legs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Traveller {
    pub(super) tenant: usize,
    pub(super) request: usize,
    pub(super) leg: usize,
    /// Which step of the leg it takes.
    pub(super) step: usize,
}

/// A scheduler, and a device that serves in the order in which it is sent requests.
#[derive(Debug)]
pub(super) struct Queue {
    scheduler: Scheduler,
    /// By the place of the tenant in the scenario.
    tenants: BTreeMap<usize, TenantId>,
    travellers: BTreeMap<RequestId, (Traveller, Duration)>,
    device: VecDeque<RequestId>,
    is_serving: bool,
}

impl Queue {
    pub(super) fn new(queue: &SimulatedQueue) -> Result<Self> {
        Ok(Self {
            scheduler: Scheduler::new(queue.limits, queue.ties)?,
            tenants: BTreeMap::new(),
            travellers: BTreeMap::new(),
            device: VecDeque::new(),
            is_serving: false,
        })
    }

    pub(super) fn add_tenant(&mut self, tenant: usize, settings: &TenantSettings) -> Result<()> {
        let id = self.scheduler.add_tenant(settings.clone(), Duration::ZERO)?;
        self.tenants.insert(tenant, id);
        Ok(())
    }

    /// Takes a request in. Returns whether there was room.
    pub(super) fn arrive(
        &mut self,
        traveller: Traveller,
        step: Step,
        kind: IoKind,
        bytes: u32,
        now: Time,
    ) -> Result<bool> {
        let Some(tenant) = self.tenants.get(&traveller.tenant).copied() else { return Ok(false) };
        let work = Work::seconds(step.work.as_secs_f64())?;
        let request = NewRequest { tenant, kind, bytes, work, deadline: None };
        let Ok(id) = self.scheduler.enqueue(request, now) else { return Ok(false) };
        self.travellers.insert(id, (traveller, step.work));
        Ok(true)
    }

    /// The next request that the device begins to serve, if it is not serving one: when that will be done.
    pub(super) fn begin(&mut self, now: Time) -> Option<Time> {
        while let Next::Send(sent) = self.scheduler.next(now) {
            self.device.push_back(sent.request);
        }
        if self.is_serving {
            return None;
        }
        let (_, work) = self.travellers.get(self.device.front()?)?;
        self.is_serving = true;
        Some(now + *work)
    }

    /// Takes note that the device has done what it was serving.
    pub(super) fn finish(&mut self, now: Time) -> Option<Traveller> {
        self.is_serving = false;
        let id = self.device.pop_front()?;
        self.scheduler.complete(id, None, now);
        self.travellers.remove(&id).map(|(traveller, _)| traveller)
    }
}
