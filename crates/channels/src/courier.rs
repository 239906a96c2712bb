//! The courier of a process: it delivers the messages that the process's objects send. Before a
//! request may send, the courier stores a *mark* of the object, so that other processes can find
//! the object after a crash. After the request it delivers the messages. It also looks for objects
//! with messages that no other process delivers.

use std::collections::HashSet;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use nacre_clock::{Clock, Random};
use nacre_object::{
    EntityName, Error, Locate, NodeName, ObjectId, Result, Store, TargetName, Watch,
};
use nacre_registry::{Event, Events, LiveEntities, Severity};
use tokio::sync::Notify;
use tokio::task::AbortHandle;

use crate::format::{GivenUp, OutboxMark, Resend};
use crate::ledger::Ledger;
use crate::limits::{MAX_REMEMBERED_MARKS, PARALLEL_OBJECTS, Pace};
use crate::marks::Marks;
use crate::round::Round;
use crate::schedule::{Holds, Schedule};
use crate::stats::{Counters, DeliveryStats};
use crate::sweep::Sweeper;

/// Everything that a courier needs.
pub struct CourierContext {
    /// Every object there is.
    pub store: Arc<dyn Store>,
    /// Their watchers.
    pub watch: Arc<dyn Watch>,
    /// Where objects are.
    pub locate: Arc<dyn Locate>,
    /// The cluster log, for messages that cannot be delivered.
    pub events: Events,
    /// Who may do what.
    pub entities: Arc<LiveEntities>,
    /// The node it runs on.
    pub node: NodeName,
    /// The targets whose objects this process serves.
    pub served: HashSet<TargetName>,
    /// Whether no other process serves them.
    pub is_alone: bool,
}

impl fmt::Debug for CourierContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CourierContext").field("node", &self.node).finish_non_exhaustive()
    }
}

impl CourierContext {
    pub(crate) fn ledger(&self) -> Ledger {
        Ledger::new(Arc::clone(&self.store), Arc::clone(&self.locate))
    }

    /// Whether only this process serves the object's target. Then no other process can run a
    /// request that makes the object send.
    pub(crate) fn is_alone_with(&self, object: &ObjectId) -> bool {
        self.is_alone && self.served.contains(&self.locate.locate(object))
    }

    /// Reports to the cluster log that messages were given up. The caller does not wait for it.
    pub(crate) fn report(&self, object: &ObjectId, dead: &[GivenUp]) {
        let Some(first) = dead.first() else { return };
        let text = format!("{} messages of {object} were given up: {}", dead.len(), first.reason);
        let event = Event::new(Severity::Error, text)
            .node(self.node.clone())
            .field("object", object.to_string())
            .field("first", first.number.to_string());
        self.append(event);
    }

    fn append(&self, event: Event) {
        let events = self.events.clone();
        tokio::spawn(async move { events.append(event).await.ok() });
    }
}

/// The courier. Cheap to clone.
#[derive(Clone)]
pub struct Courier(Arc<Inner>);

pub(crate) struct Inner {
    pub clock: Arc<dyn Clock>,
    pub pace: Pace,
    /// A random name that tells this process's marks from those of others.
    pub process: String,
    pub marks: Mutex<Marks>,
    schedule: Mutex<Schedule>,
    wake: Notify,
    counters: Counters,
    nonces: Mutex<Random>,
    running: Mutex<Option<Running>>,
}

struct Running {
    context: Arc<CourierContext>,
    tasks: [AbortHandle; 2],
}

impl Drop for Running {
    fn drop(&mut self) {
        self.tasks.iter().for_each(AbortHandle::abort);
    }
}

impl fmt::Debug for Courier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Courier").field("process", &self.0.process).finish_non_exhaustive()
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Courier {
    /// A courier that is not started. Until it is, no object can send.
    pub fn new(clock: Arc<dyn Clock>, mut random: Random, pace: Pace) -> Self {
        let process = format!("{:016x}", random.next_u64());
        Self(Arc::new(Inner {
            clock,
            pace,
            process,
            marks: Mutex::default(),
            schedule: Mutex::default(),
            wake: Notify::new(),
            counters: Counters::default(),
            nonces: Mutex::new(random),
            running: Mutex::new(None),
        }))
    }

    /// Starts delivery. Needs a tokio runtime.
    pub fn start(&self, context: CourierContext) {
        let context = Arc::new(context);
        let delivering = deliver(Arc::clone(&self.0), Arc::clone(&context));
        let sweeper = Sweeper { courier: self.clone(), context: Arc::clone(&context) };
        let tasks = [tokio::spawn(delivering), tokio::spawn(sweeper.run())];
        let tasks = tasks.map(|task| task.abort_handle());
        *locked(&self.0.running) = Some(Running { context, tasks });
    }

    /// Stops delivery at once. Another courier delivers the rest.
    pub fn stop(&self) {
        *locked(&self.0.running) = None;
    }

    /// What it has done.
    pub fn stats(&self) -> DeliveryStats {
        self.0.counters.read(locked(&self.0.schedule).waiting())
    }

    pub(crate) fn inner(&self) -> &Inner {
        &self.0
    }

    /// Has an object's messages looked at.
    pub fn look_at(&self, object: &ObjectId) {
        locked(&self.0.schedule).note(object);
        self.0.wake.notify_one();
    }

    /// Stores a mark of the object before a request may send messages, unless this process trusts
    /// an earlier mark. The mark lets other processes find the messages after a crash.
    ///
    /// # Errors
    /// `Unavailable` if the mark cannot be stored; the request must not run then. `Exhausted` if
    /// this process already has [`MAX_REMEMBERED_MARKS`] marks in use.
    pub(crate) async fn sending(&self, object: &ObjectId, source: &EntityName) -> Result<Sending> {
        let now = self.0.clock.monotonic();
        if !locked(&self.0.marks).begin(object, source, now) {
            let making = self.make_mark(object, now)?;
            self.store_mark(object, source, making.mark).await?;
            let trusted_until = now + self.0.pace.trusted_for;
            locked(&self.0.marks).begin_new(object, source, making.mark, trusted_until);
        }
        let (courier, object, source) = (self.clone(), object.clone(), source.clone());
        Ok(Sending { courier, object, source, outcome: Outcome::Unknown })
    }

    fn context(&self) -> Option<Arc<CourierContext>> {
        locked(&self.0.running).as_ref().map(|of| Arc::clone(&of.context))
    }

    /// Reports in the cluster log that dead letters are delivered again.
    pub(crate) fn report_resent(&self, object: &ObjectId, resend: &Resend, by: &EntityName) {
        let Some(context) = self.context() else { return };
        let count = resend.numbers.len();
        let text = format!("{by} has {count} dead letters of {object} delivered again");
        let event = Event::new(Severity::Info, text)
            .node(context.node.clone())
            .field("object", object.to_string())
            .field("source", resend.source.clone());
        context.append(event);
    }

    fn make_mark<'a>(&'a self, object: &'a ObjectId, now: Duration) -> Result<Making<'a>> {
        let nonce = locked(&self.0.nonces).next_u64();
        let mark = OutboxMark { at_micros: self.0.clock.now_micros(), nonce };
        let mut marks = locked(&self.0.marks);
        if !marks.make_room(now) {
            let text = format!(
                "{MAX_REMEMBERED_MARKS} objects of this process already send messages, the most that can at once"
            );
            return Err(
                Error::exhausted(text).hint("try again when some of their requests are answered")
            );
        }
        marks.begin_making(object, mark);
        Ok(Making { marks: &self.0.marks, object, mark })
    }

    async fn store_mark(
        &self,
        object: &ObjectId,
        source: &EntityName,
        mark: OutboxMark,
    ) -> Result<()> {
        let context = self.context().ok_or_else(|| {
            Error::unavailable("this process does not deliver messages now")
                .on(object)
                .hint("try again in some seconds; `nacre status` shows which nodes run")
        })?;
        let ledger = context.ledger();
        let key = Ledger::key(object, source, &self.0.process, mark);
        ledger.mark(&ledger.of(object), key, mark).await.map_err(|error| {
            Error::unavailable(format!("the object cannot be marked as sending messages: {error}"))
        })
    }
}

/// Protects a mark from the process's own sweep of unneeded marks while the write of the mark is in
/// progress. Otherwise the sweep could find the mark before the reply to the write arrives, and
/// remove it.
struct Making<'a> {
    marks: &'a Mutex<Marks>,
    object: &'a ObjectId,
    mark: OutboxMark,
}

impl Drop for Making<'_> {
    fn drop(&mut self) {
        locked(self.marks).end_making(self.object, &self.mark);
    }
}

/// The outcome of a request that may have sent messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It was carried out.
    Done,
    /// Nothing of it happened.
    Refused,
    /// It may have been carried out, or may yet be.
    Unknown,
}

/// A request that may send, while it runs. However it ends, its object is looked at afterwards.
pub(crate) struct Sending {
    courier: Courier,
    object: ObjectId,
    source: EntityName,
    pub outcome: Outcome,
}

impl Drop for Sending {
    fn drop(&mut self) {
        let inner = self.courier.inner();
        let (idle_after, doubted_for) = match self.outcome {
            Outcome::Done => (inner.pace.idle_after, Duration::ZERO),
            Outcome::Refused => (Duration::ZERO, Duration::ZERO),
            Outcome::Unknown => (inner.pace.uncertain_for, inner.pace.uncertain_for),
        };
        let now = inner.clock.monotonic();
        let mut marks = locked(&inner.marks);
        marks.doubt(&self.object, &self.source, now + doubted_for);
        marks.end(&self.object, &self.source, now + idle_after);
        drop(marks);
        if self.outcome != Outcome::Refused {
            self.courier.look_at(&self.object);
        }
    }
}

/// Delivers what is noted, for ever.
async fn deliver(inner: Arc<Inner>, context: Arc<CourierContext>) {
    let mut rounds = FuturesUnordered::new();
    loop {
        while rounds.len() < PARALLEL_OBJECTS {
            let now = inner.clock.monotonic();
            let Some((object, holds)) = locked(&inner.schedule).next(now) else { break };
            rounds.push(round(&inner, &context, object, holds, now));
        }
        // If all places for rounds are taken, wait until one ends.
        let due = locked(&inner.schedule).next_due().filter(|_| rounds.len() < PARALLEL_OBJECTS);
        let rest = due.map(|due| due.saturating_sub(inner.clock.monotonic()));
        tokio::select! {
            Some((object, holds, waiting)) = rounds.next(), if !rounds.is_empty() => {
                locked(&inner.schedule).done(&object, holds, waiting);
            }
            () = inner.wake.notified() => {}
            () = tokio::time::sleep(rest.unwrap_or_default()), if rest.is_some() => {}
        }
    }
}

async fn round(
    inner: &Inner,
    context: &CourierContext,
    object: ObjectId,
    holds: Holds,
    now: Duration,
) -> (ObjectId, Holds, usize) {
    let (marks, counters, pace) = (&inner.marks, &inner.counters, &inner.pace);
    let round = Round { context, object: &object, marks, counters, pace, now, holds };
    let (holds, waiting) = round.run().await;
    (object, holds, waiting)
}
