//! Admits IO to waypoints. A waypoint that holds IO has a queue, and a task that releases IO from it
//! as long as IO waits.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use nacre_object::{Error, LayerName, Result};
use nacre_route::{Event, HoldingQueue, IoId, Limit, Price, RefusedIo, WaypointAsk};
use tokio::sync::{Notify, oneshot};
use tokio::time::timeout;

use super::Waypoints;
use crate::routes::NodeSwitch;

/// The IO that waits at one waypoint.
#[derive(Debug)]
pub(super) struct Held {
    queue: HoldingQueue,
    waiters: HashMap<IoId, oneshot::Sender<Result<()>>>,
    /// Wakes the task that releases IO; `None` if there is no such task.
    task: Option<Arc<Notify>>,
}

impl Held {
    pub fn len(&self) -> usize {
        self.queue.len()
    }

    /// Lets IO go on, and answers IO that has waited too long.
    fn release(&mut self, now: Duration, layer: &LayerName) {
        for io in self.queue.release(now) {
            self.answer(io, Ok(()));
        }
        for io in self.queue.expire(now) {
            let text = format!("the waypoint {layer} did not let this IO go on in time");
            let hint = "send IO more slowly, or raise the rate of the program";
            self.answer(io, Err(Error::unavailable(text).hint(hint)));
        }
    }

    fn answer(&mut self, io: IoId, answer: Result<()>) {
        if let Some(waiter) = self.waiters.remove(&io) {
            // The IO may have gone on by other rules.
            let _ = waiter.send(answer);
        }
    }
}

impl NodeSwitch {
    /// Asks a waypoint to admit an IO. Returns when it does, or refuses the IO.
    pub(in crate::routes) async fn ask_waypoint(
        self: &Arc<Self>,
        io: IoId,
        ask: WaypointAsk,
    ) -> Event {
        let answer = self.admitted(io, &ask).await.map_err(RefusedIo);
        Event::WaypointAnswered { io, object: ask.io.object, layer: ask.layer, answer }
    }

    async fn admitted(self: &Arc<Self>, io: IoId, ask: &WaypointAsk) -> Result<()> {
        let waypoints = self.programs().waypoints();
        let program = waypoints.until_live(&ask.layer).await?;
        let Some(limit) = program.limit() else { return Ok(()) };
        let refused = |error: &Error| {
            waypoints.note_refused(&ask.layer, program.version(), error);
        };
        let price = program.price(&ask.io, ask.bytes).inspect_err(refused)?;
        let released = self.queue(&ask.layer, limit, io, price).inspect_err(refused)?;
        // If rules change, the queue may end. Then the IO goes by the new rules.
        released.await.unwrap_or(Ok(())).inspect_err(refused)
    }

    /// Puts an IO into the queue of a waypoint.
    fn queue(
        self: &Arc<Self>,
        layer: &LayerName,
        limit: Limit,
        io: IoId,
        price: Price,
    ) -> Result<oneshot::Receiver<Result<()>>> {
        let now = self.now();
        let mut state = self.programs().waypoints().state();
        let held = state.queues.entry(layer.clone()).or_insert_with(|| Held {
            queue: HoldingQueue::new(now, limit),
            waiters: HashMap::new(),
            task: None,
        });
        held.queue.set_limit(now, limit);
        let full = |error: Error| {
            let text = format!("the queue of the waypoint {layer} is full: {}", error.message());
            Error::exhausted(text).hint(error.hint_text().unwrap_or("try again later").to_owned())
        };
        held.queue.arrive(now, io, price.cost, price.priority).map_err(full)?;
        let (waiter, released) = oneshot::channel();
        held.waiters.insert(io, waiter);
        held.release(now, layer);
        match &held.task {
            _ if held.queue.is_empty() => {}
            Some(task) => task.notify_one(),
            None => {
                let task = Arc::new(Notify::new());
                held.task = Some(Arc::clone(&task));
                tokio::spawn(Arc::clone(self).release_from(layer.clone(), task));
            }
        }
        Ok(released)
    }

    /// Releases IO until none waits, or until no rule names the waypoint.
    async fn release_from(self: Arc<Self>, layer: LayerName, own: Arc<Notify>) {
        let waypoints: &Waypoints = self.programs().waypoints();
        loop {
            let wait = {
                let now = self.now();
                let mut state = waypoints.state();
                let Some(held) = state.queues.get_mut(&layer) else { return };
                // The queue may have ended, and a new one may have a task of its own.
                if !held.task.as_ref().is_some_and(|task| Arc::ptr_eq(task, &own)) {
                    return;
                }
                held.release(now, &layer);
                match held.queue.next() {
                    Some(at) => at.saturating_sub(now),
                    None => {
                        held.task = None;
                        return;
                    }
                }
            };
            // A new IO may be released before those that wait.
            let _ = timeout(wait, own.notified()).await;
        }
    }
}
