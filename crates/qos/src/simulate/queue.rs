//! A queue with its scheduler and its device.

use std::collections::BTreeMap;
use std::time::Duration;

use nacre_object::Result;

use super::device::{AtDevice, Device};
use super::{SimulatedQueue, Step};
use crate::IoKind;
use crate::scheduler::{
    NewRequest, Next, RequestId, Scheduler, TenantId, TenantSettings, Time, Work,
};

/// One of the parallel paths of a request, and how far the request has come on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Traveller {
    pub(super) tenant: usize,
    pub(super) request: usize,
    pub(super) leg: usize,
    /// The index of its present step on the path.
    pub(super) step: usize,
}

/// A scheduler, and the device behind it.
#[derive(Debug)]
pub(super) struct Queue {
    scheduler: Scheduler,
    /// By the index of the tenant in the scenario.
    tenants: BTreeMap<usize, TenantId>,
    travellers: BTreeMap<RequestId, (Traveller, AtDevice)>,
    device: Device,
}

impl Queue {
    pub(super) fn new(queue: &SimulatedQueue) -> Result<Self> {
        Ok(Self {
            scheduler: Scheduler::new(queue.limits, queue.ties)?,
            tenants: BTreeMap::new(),
            travellers: BTreeMap::new(),
            device: Device::new(queue.device, queue.limits),
        })
    }

    pub(super) fn add_tenant(&mut self, tenant: usize, settings: &TenantSettings) -> Result<()> {
        let id = self.scheduler.add_tenant(settings.clone(), Duration::ZERO)?;
        self.tenants.insert(tenant, id);
        Ok(())
    }

    /// Puts a request into its tenant's queue. Returns whether the queue had room.
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
        self.travellers.insert(id, (traveller, AtDevice { id, kind, bytes, work: step.work }));
        Ok(true)
    }

    /// Sends the requests that may go, and starts the idle lanes (queues) of the device. Returns
    /// the started lanes, each with the time at which it will be done.
    pub(super) fn begin(&mut self, now: Time) -> Vec<(usize, Time)> {
        let mut begun = vec![];
        if self.device.begins_at_once() {
            begun = self.device.begin(now);
        }
        while let Next::Send(sent) = self.scheduler.next(now) {
            if let Some((_, request)) = self.travellers.get(&sent.request) {
                self.device.send(*request);
            }
        }
        begun.extend(self.device.begin(now));
        begun
    }

    /// Records that the device has served the requests on a lane.
    pub(super) fn finish(&mut self, lane: usize, now: Time) -> Vec<Traveller> {
        let done = self.device.finish(lane);
        for id in &done {
            self.scheduler.complete(*id, None, now);
        }
        let travellers = done.iter().filter_map(|id| self.travellers.remove(id));
        travellers.map(|(traveller, _)| traveller).collect()
    }
}
