//! Runs a simulation: processes its events in the order of time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use nacre_object::{Error, Result};

use super::queue::{Queue, Traveller};
use super::{Scenario, Step};
use crate::scheduler::Time;

/// An event of the simulation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// The device of a queue has served the requests on a lane.
    Done { queue: usize, lane: usize },
    /// A request arrives at the queue of its present step.
    Arrival(Traveller),
}

struct Run<'a> {
    scenario: &'a Scenario,
    queues: Vec<Queue>,
    /// Events by time. The number orders events of the same time by their creation.
    events: BinaryHeap<Reverse<(Time, u64, Event)>>,
    made: u64,
    /// Queues that had an event at the present time.
    touched: Vec<usize>,
    /// For each tenant and request: the time at which the last of its paths was done.
    done_at: Vec<Vec<Duration>>,
}

/// Simulates a scenario. Returns the latency of each request, by tenant.
///
/// # Errors
/// `Invalid` if a request passes a queue that does not exist, or a queue where its tenant has no
/// settings; `Exhausted` if a tenant's queue is full.
pub fn simulate(scenario: &Scenario) -> Result<Vec<Vec<Duration>>> {
    let mut queues = scenario.queues.iter().map(Queue::new).collect::<Result<Vec<_>>>()?;
    for (tenant, own) in scenario.tenants.iter().enumerate() {
        for (queue, settings) in &own.settings {
            let queue = queues.get_mut(*queue).ok_or_else(|| no_queue(*queue))?;
            queue.add_tenant(tenant, settings)?;
        }
    }
    let done_at =
        scenario.tenants.iter().map(|own| vec![Duration::ZERO; own.requests.len()]).collect();
    let mut run =
        Run { scenario, queues, events: BinaryHeap::new(), made: 0, touched: vec![], done_at };
    run.begin();
    while let Some(Reverse((now, _, event))) = run.events.pop() {
        run.happen(event, now)?;
        run.choose(now);
    }
    let latencies = |(own, done_at): (&super::SimulatedTenant, Vec<Duration>)| {
        own.requests.iter().zip(done_at).map(|(request, done)| done - request.at).collect()
    };
    Ok(scenario.tenants.iter().zip(run.done_at).map(latencies).collect())
}

fn no_queue(queue: usize) -> Error {
    Error::invalid(format!("the scenario has no queue {queue}"))
}

impl Run<'_> {
    fn begin(&mut self) {
        for (tenant, own) in self.scenario.tenants.iter().enumerate() {
            for (request, asked) in own.requests.iter().enumerate() {
                self.done_at[tenant][request] = asked.at;
                for leg in 0..asked.legs.len() {
                    let traveller = Traveller { tenant, request, leg, step: 0 };
                    self.plan(asked.at, Event::Arrival(traveller));
                }
            }
        }
    }

    fn plan(&mut self, at: Time, event: Event) {
        self.events.push(Reverse((at, self.made, event)));
        self.made += 1;
    }

    fn happen(&mut self, event: Event, now: Time) -> Result<()> {
        let queue = match event {
            Event::Arrival(traveller) => match self.step(traveller) {
                Some(step) => {
                    self.arrive(traveller, step, now)?;
                    step.queue
                }
                // This path of the request is done.
                None => {
                    let done_at = &mut self.done_at[traveller.tenant][traveller.request];
                    *done_at = now.max(*done_at);
                    return Ok(());
                }
            },
            Event::Done { queue, lane } => {
                for traveller in self.queues[queue].finish(lane, now) {
                    let next = Traveller { step: traveller.step + 1, ..traveller };
                    self.plan(now, Event::Arrival(next));
                }
                queue
            }
        };
        self.touched.push(queue);
        Ok(())
    }

    /// Starts devices once all events of the present time have happened.
    fn choose(&mut self, now: Time) {
        let is_last = self.events.peek().is_none_or(|Reverse((at, _, _))| *at > now);
        if !is_last {
            return;
        }
        for queue in std::mem::take(&mut self.touched) {
            for (lane, done) in self.queues[queue].begin(now) {
                self.plan(done, Event::Done { queue, lane });
            }
        }
    }

    fn step(&self, Traveller { tenant, request, leg, step }: Traveller) -> Option<Step> {
        self.scenario.tenants[tenant].requests[request].legs[leg].get(step).copied()
    }

    fn arrive(&mut self, traveller: Traveller, step: Step, now: Time) -> Result<()> {
        let request = &self.scenario.tenants[traveller.tenant].requests[traveller.request];
        let queue = self.queues.get_mut(step.queue).ok_or_else(|| no_queue(step.queue))?;
        match queue.arrive(traveller, step, request.kind, request.bytes, now)? {
            true => Ok(()),
            false => Err(Error::exhausted(
                "the simulated queue is full: it has no room for another request",
            )
            .on(format!("queue {}", step.queue))),
        }
    }
}
