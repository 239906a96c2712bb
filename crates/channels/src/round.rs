//! One look at an object's messages: those that can be delivered are.
//!
//! Messages to one receiver go in the order of their numbers, those to different receivers side by side.
//! What is done, or given up, is settled by a transaction on the sender a page. Whatever is lost in between
//! is delivered again: the receiver knows what it has received, watchers may hear twice.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use nacre_object::{
    ClassCall, ClassName, Demand, EntityName, Error, ErrorKind, MapRange, MethodName, ObjectId, Op,
    OpResult, Request, Result,
};
use prost::Message;

use crate::class::CLASS;
use crate::courier::Surroundings;
use crate::format::{
    Accept, GivenUp, OUTBOX, Outbox, Received, Removal, Settlement, WAITING, message_number,
    sender_key, stored,
};
use crate::limits::{PAGE_MESSAGES, PARALLEL_RECEIVERS, Pace};
use crate::marks::Marks;
use crate::message::{Errand, WaitingMessage};
use crate::schedule::{Holds, Receiver};
use crate::stats::Counters;

/// How long one delivery may take: past it, it counts as not answered.
const DELIVERY_TIMEOUT: Duration = Duration::from_secs(10);

/// A round over one object.
pub(crate) struct Round<'a> {
    pub surroundings: &'a Surroundings,
    pub object: &'a ObjectId,
    pub marks: &'a Mutex<Marks>,
    pub counters: &'a Counters,
    pub pace: &'a Pace,
    pub now: Duration,
    pub holds: Holds,
}

/// Some messages of the object.
struct Page {
    outbox: Option<Outbox>,
    range: MapRange,
}

/// Messages to one receiver, in order.
struct Consignment {
    receiver: Receiver,
    errands: Vec<(u64, Errand)>,
}

/// What became of them.
struct Delivered {
    receiver: Receiver,
    done: Vec<u64>,
    dead: Vec<GivenUp>,
    /// The first that has to wait, why, and how many wait with it.
    failed: Option<(u64, Error)>,
    waiting: usize,
}

/// Whether the same may succeed later. A program that used up its budget would do so again; one that says
/// that its object is full may not.
fn may_succeed_later(error: &Error) -> bool {
    match error.kind() {
        ErrorKind::Unavailable | ErrorKind::Stale => true,
        ErrorKind::Exhausted => error.fault().is_none() || error.has_own_status(),
        _ => false,
    }
}

fn own_call(method: &str, input: &impl Message) -> Result<Op> {
    Ok(Op::Call(ClassCall {
        class: ClassName::new(CLASS)?,
        method: MethodName::new(method)?,
        version: None,
        input: input.encode_to_vec().into(),
    }))
}

impl Round<'_> {
    /// Delivers what can be; answers the receivers that are held, and how many messages wait for them.
    pub async fn run(mut self) -> (Holds, usize) {
        let mut waiting = 0;
        let outcome = self.deliver_all(&mut waiting).await;
        self.holds.forget_due(self.now);
        match outcome {
            Ok(()) if waiting == 0 => (Holds::default(), 0),
            Ok(()) => (self.holds, waiting),
            Err(_) => {
                self.counters.failures.add(1);
                self.holds.failed(&Receiver::Itself, self.pace, self.now);
                (self.holds, waiting.max(1))
            }
        }
    }

    async fn deliver_all(&mut self, waiting: &mut usize) -> Result<()> {
        let mut after = Bytes::new();
        loop {
            let Page { outbox, range } = look(self.surroundings, self.object, after).await?;
            let Some(last) = range.entries.last() else { return Ok(()) };
            after = last.key.clone();
            let outbox = match outbox {
                Some(outbox) => outbox,
                None => self.claim().await?,
            };
            let more = range.more;
            self.deliver_page(outbox.incarnation, range, waiting).await?;
            if !more {
                return Ok(());
            }
        }
    }

    async fn deliver_page(
        &mut self,
        incarnation: u64,
        range: MapRange,
        waiting: &mut usize,
    ) -> Result<()> {
        let mut settlement = Settlement { incarnation, ..Settlement::default() };
        let mut removal = None;
        let mut consignments: BTreeMap<Receiver, Vec<(u64, Errand)>> = BTreeMap::new();
        for entry in range.entries {
            let number = message_number(&entry.key)?;
            let errand = WaitingMessage::decode(number, &entry.value)
                .and_then(|message| message.errand(&self.object.pool));
            match errand {
                Ok(Errand::Remove) => removal = Some(number),
                Ok(errand) => {
                    consignments.entry(receiver_of(&errand)).or_default().push((number, errand));
                }
                Err(error) => {
                    settlement.dead.push(GivenUp { number, reason: error.to_string() });
                }
            }
        }
        let (held, free): (Vec<_>, Vec<_>) = consignments
            .into_iter()
            .map(|(receiver, errands)| Consignment { receiver, errands })
            .partition(|one| self.holds.holds(&one.receiver, self.now));
        *waiting += held.iter().map(|one| one.errands.len()).sum::<usize>();
        let this = &*self;
        let all = free.into_iter().map(|one| this.deliver(incarnation, one));
        let all: Vec<_> = futures::stream::iter(all).buffered(PARALLEL_RECEIVERS).collect().await;
        for delivered in all {
            *waiting += self.take_in(delivered, &mut settlement);
        }
        self.settle(settlement).await?;
        match removal {
            Some(number) if *waiting == 0 => self.remove(incarnation, number).await,
            Some(_) => {
                *waiting += 1;
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Notes what became of messages to a receiver; answers how many wait.
    fn take_in(&mut self, delivered: Delivered, settlement: &mut Settlement) -> usize {
        let Delivered { receiver, done, dead, failed, mut waiting } = delivered;
        settlement.delivered.extend(done);
        settlement.dead.extend(dead);
        match failed {
            None => self.holds.release(&receiver),
            Some((number, error)) => {
                self.counters.failures.add(1);
                if self.holds.failed(&receiver, self.pace, self.now) {
                    let reason = format!("given up: {error}");
                    settlement.dead.push(GivenUp { number, reason });
                    waiting -= 1;
                }
            }
        }
        waiting
    }

    async fn deliver(&self, incarnation: u64, consignment: Consignment) -> Delivered {
        let Consignment { receiver, errands } = consignment;
        let waiting = errands.len();
        let mut delivered =
            Delivered { receiver, done: vec![], dead: vec![], failed: None, waiting };
        for (number, errand) in errands {
            let message = Received { incarnation, number };
            let delivering = self.carry_out(message, errand);
            let outcome = match tokio::time::timeout(DELIVERY_TIMEOUT, delivering).await {
                Ok(outcome) => outcome,
                Err(_) => Err(Error::unavailable("a delivery was not answered")),
            };
            match outcome {
                Ok(()) => delivered.done.push(number),
                Err(error) if may_succeed_later(&error) => {
                    delivered.failed = Some((number, error));
                    return delivered;
                }
                Err(error) => {
                    delivered.dead.push(GivenUp { number, reason: error.to_string() });
                }
            }
            delivered.waiting -= 1;
        }
        delivered
    }

    async fn carry_out(&self, message: Received, errand: Errand) -> Result<()> {
        match errand {
            Errand::Notify(payload) => {
                self.surroundings.watch.notify(self.object, payload).await?;
                self.counters.notifications.add(1);
            }
            Errand::Call { receiver, call, source } => {
                self.check_sender(&source).await?;
                self.call(message, &receiver, call, source).await?;
                self.counters.calls.add(1);
            }
            // It is apart, after all others.
            Errand::Remove => {}
        }
        Ok(())
    }

    /// Whether a request of this entity can have sent the message. Who writes an object otherwise than by
    /// its class could put there what he likes.
    async fn check_sender(&self, source: &EntityName) -> Result<()> {
        let is_known = {
            let marks = self.marks.lock().unwrap_or_else(PoisonError::into_inner);
            marks.has(self.object, source)
        };
        if is_known || self.surroundings.ledger().sources(self.object).await?.contains(source) {
            return Ok(());
        }
        Err(Error::denied(format!("no request of {source} sent this message")))
    }

    /// Calls the method and notes the message, both or neither; one that was noted before is done.
    async fn call(
        &self,
        message: Received,
        receiver: &ObjectId,
        call: ClassCall,
        source: EntityName,
    ) -> Result<()> {
        let call = Request::new(receiver.clone(), vec![Op::Call(call)])?;
        self.surroundings.entities.judge(&source, Demand::Request(&call)).await?;
        let sender = self.object.to_string();
        let accept = Accept { sender, message, source: source.to_string() };
        let ops = call.ops.into_iter().chain([own_call("accept", &accept)?]).collect();
        let mut request = Request::new(receiver.clone(), ops)?;
        request.header.source = source;
        match self.surroundings.store.submit(request).await {
            Ok(_) => Ok(()),
            Err(error) if may_succeed_later(&error) => Err(error),
            Err(_) if self.was_received(message, receiver).await? => Ok(()),
            Err(error) => Err(error),
        }
    }

    async fn was_received(&self, message: Received, receiver: &ObjectId) -> Result<bool> {
        let keys = vec![sender_key(&self.object.to_string()).into()];
        let request = Request::new(receiver.clone(), vec![Op::MapGet { keys }])?;
        let reply = match self.surroundings.store.submit(request).await {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
            other => other?,
        };
        match reply.results.into_iter().next() {
            Some(OpResult::Values(values)) => match values.into_iter().next().flatten() {
                Some(known) => Ok(stored::<Received>("what was received", known)? >= message),
                None => Ok(false),
            },
            _ => Err(Error::corrupt("a key was not answered as one")),
        }
    }

    async fn claim(&self) -> Result<Outbox> {
        let result = self.call_own(own_call("claim", &Outbox::default())?).await?;
        match result {
            Some(OpResult::Called(reply)) => stored("an object's incarnation", reply.output),
            _ => Err(Error::corrupt("a claim was not answered as one")),
        }
    }

    async fn settle(&self, settlement: Settlement) -> Result<()> {
        if settlement.delivered.is_empty() && settlement.dead.is_empty() {
            return Ok(());
        }
        self.call_own(own_call("settle", &settlement)?).await?;
        self.counters.dead.add(settlement.dead.len() as u64);
        self.surroundings.report(self.object, &settlement.dead);
        Ok(())
    }

    async fn remove(&self, incarnation: u64, number: u64) -> Result<()> {
        let removal = Removal { message: Received { incarnation, number } };
        self.call_own(own_call("remove", &removal)?).await?;
        self.counters.removals.add(1);
        Ok(())
    }

    /// A call of the object itself; an object that is gone has nothing more to do.
    async fn call_own(&self, op: Op) -> Result<Option<OpResult>> {
        let request = Request::new(self.object.clone(), vec![op])?;
        match self.surroundings.store.submit(request).await {
            Ok(reply) => Ok(reply.results.into_iter().next()),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}

fn receiver_of(errand: &Errand) -> Receiver {
    match errand {
        Errand::Call { receiver, .. } => Receiver::Object(receiver.clone()),
        Errand::Notify(_) | Errand::Remove => Receiver::Watchers,
    }
}

/// Messages after a key.
async fn look(surroundings: &Surroundings, object: &ObjectId, after: Bytes) -> Result<Page> {
    let ops = vec![
        Op::MapGet { keys: vec![OUTBOX.into()] },
        Op::MapRange { after, prefix: WAITING.into(), limit: PAGE_MESSAGES },
    ];
    let request = Request::new(object.clone(), ops)?;
    let reply = match surroundings.store.submit(request).await {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return Ok(Page { outbox: None, range: MapRange::default() });
        }
        other => other?,
    };
    match <[OpResult; 2]>::try_from(reply.results) {
        Ok([OpResult::Values(values), OpResult::Range(range)]) => {
            let outbox = values.into_iter().next().flatten();
            let outbox =
                outbox.map(|bytes| stored("an object's incarnation", bytes)).transpose()?;
            Ok(Page { outbox, range })
        }
        _ => Err(Error::corrupt("a look at messages was not answered as one")),
    }
}

/// Whether nothing waits in an object.
pub(crate) async fn is_empty(surroundings: &Surroundings, object: &ObjectId) -> Result<bool> {
    let page = look(surroundings, object, Bytes::new()).await?;
    Ok(page.range.entries.is_empty())
}
