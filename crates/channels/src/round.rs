//! One round of a courier over an object: reads its messages and delivers those that can be
//! delivered.
//!
//! Messages to one receiver are delivered in the order of their numbers; those to different
//! receivers concurrently. After each page of messages, a transaction on the sender removes the
//! delivered ones, and turns those that cannot be delivered into dead letters. If this transaction
//! fails, the messages are delivered again. An object recognises a message that it has received
//! before, but watchers may be notified twice. Dead letters that are sent again have a queue of
//! their own, which is delivered first.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use nacre_object::{Error, ErrorKind, ObjectId, Op, OpResult, Request, Result};

use crate::class::own_call;
use crate::courier::CourierContext;
use crate::delivery::{Delivery, may_succeed_later};
use crate::format::{
    GivenUp, Link, Outbox, Queue, Received, Removal, Settlement, message_number, stored,
};
use crate::inbox::tidy;
use crate::limits::{MAX_CHAIN, PAGE_MESSAGES, PARALLEL_RECEIVERS, Pace};
use crate::marks::Marks;
use crate::message::{Errand, WaitingMessage};
use crate::page::Page;
use crate::schedule::{Holds, Receiver};
use crate::stats::Counters;

/// How long one delivery may take: past it, it counts as not answered.
const DELIVERY_TIMEOUT: Duration = Duration::from_secs(10);

/// A round over one object.
pub(crate) struct Round<'a> {
    pub context: &'a CourierContext,
    pub object: &'a ObjectId,
    pub marks: &'a Mutex<Marks>,
    pub counters: &'a Counters,
    pub pace: &'a Pace,
    pub now: Duration,
    pub holds: Holds,
}

/// Messages to one receiver, in order.
struct Consignment {
    receiver: Receiver,
    errands: Vec<Numbered>,
}

/// What is to be done by a message.
struct Numbered {
    number: u64,
    /// Messages in the chain before it.
    depth: u32,
    errand: Errand,
}

/// The result of delivering a consignment.
struct Delivered {
    receiver: Receiver,
    done: Vec<u64>,
    /// The first message that failed and must wait, and its error.
    failed: Option<(u64, Error)>,
    waiting: usize,
    /// Whether the receiver may remember too many senders.
    is_crowded: bool,
}

impl Round<'_> {
    /// Delivers all messages that can be delivered. Returns which receivers have failed and must
    /// get no messages for a while, and how many messages still wait.
    pub async fn run(mut self) -> (Holds, usize) {
        let mut waiting = 0;
        let outcome = self.deliver_all(&mut waiting).await;
        if outcome.is_ok() {
            self.holds.forget_due(self.now);
        }
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
        let page = self.page(Queue::Sent, Bytes::new()).await?;
        let has_resent = page.outbox.is_some_and(|outbox| outbox.resent > 0);
        if page.range.entries.is_empty() && !has_resent {
            return Ok(());
        }
        let incarnation = match page.outbox {
            Some(outbox) => outbox.incarnation,
            None => self.claim().await?.incarnation,
        };
        if has_resent {
            let first = self.page(Queue::Resent, Bytes::new()).await?;
            self.deliver_queue(Queue::Resent, incarnation, first, waiting).await?;
        }
        self.deliver_queue(Queue::Sent, incarnation, page, waiting).await
    }

    async fn deliver_queue(
        &mut self,
        queue: Queue,
        incarnation: u64,
        mut page: Page,
        waiting: &mut usize,
    ) -> Result<()> {
        loop {
            let Some(last) = page.range.entries.last() else { return Ok(()) };
            let (after, more) = (last.key.clone(), page.range.more);
            self.deliver_page(queue, incarnation, page, waiting).await?;
            if !more {
                return Ok(());
            }
            page = self.page(queue, after).await?;
        }
    }

    async fn page(&self, queue: Queue, after: Bytes) -> Result<Page> {
        Page::read(self.context, self.object, queue, after, PAGE_MESSAGES).await
    }

    async fn deliver_page(
        &mut self,
        queue: Queue,
        incarnation: u64,
        page: Page,
        waiting: &mut usize,
    ) -> Result<()> {
        let of_resent = queue == Queue::Resent;
        let mut settlement = Settlement { incarnation, of_resent, ..Settlement::default() };
        let mut removal = None;
        let mut consignments: BTreeMap<Receiver, Vec<Numbered>> = BTreeMap::new();
        for entry in page.range.entries {
            let number = message_number(&entry.key)?;
            // A dead letter that is sent again begins a chain.
            let link = page.chains.link_of(number).filter(|_| queue == Queue::Sent);
            let errand = queue
                .message(number, entry.value)
                .and_then(|(number, message)| WaitingMessage::decode(number, &message))
                .and_then(|message| message.errand(&self.object.pool))
                .and_then(|errand| self.check_chain(link, errand));
            match errand {
                Ok(Errand::Remove) if queue == Queue::Sent => removal = Some(number),
                Ok(errand) => {
                    let depth = link.map_or(0, |link| link.depth);
                    let consignment = consignments.entry(receiver_of(&errand)).or_default();
                    consignment.push(Numbered { number, depth, errand });
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
        let all = free.into_iter().map(|one| this.deliver(queue, incarnation, one));
        let all: Vec<_> = futures::stream::iter(all).buffered(PARALLEL_RECEIVERS).collect().await;
        let crowded: BTreeSet<_> = all
            .iter()
            .filter(|delivered| delivered.is_crowded)
            .map(|delivered| delivered.receiver.clone())
            .collect();
        for delivered in all {
            *waiting += self.take_in(delivered, &mut settlement);
        }
        self.settle(settlement).await?;
        for receiver in crowded {
            self.tidy(&receiver).await;
        }
        match removal {
            Some(number) if *waiting == 0 => self.remove(incarnation, number).await,
            Some(_) => {
                *waiting += 1;
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Refuses a call that would make a chain of messages too long.
    fn check_chain(&self, link: Option<&Link>, errand: Errand) -> Result<Errand> {
        match (link, &errand) {
            (Some(link), Errand::Call { receiver, call, .. }) if link.depth >= MAX_CHAIN => {
                let Link { called, depth, .. } = link;
                let text = format!(
                    "the chain of messages is too long: {called} of {} sends to {}.{} of {receiver}, after \
                     {depth} messages",
                    self.object, call.class, call.method
                );
                Err(Error::exhausted(text).hint(
                    "objects that send to each other in a circle need a condition that ends it; mend the class, \
                     then deliver the message again with `nacre class resend`",
                ))
            }
            _ => Ok(errand),
        }
    }

    /// Removes the receiver's notes of senders that have no waiting messages. After a failure the
    /// courier tries again when the receiver has `forget_every` more senders.
    async fn tidy(&self, receiver: &Receiver) {
        let Receiver::Object(receiver) = receiver else { return };
        if tidy(self.context, receiver).await.is_err() {
            self.counters.failures.add(1);
        }
    }

    /// Notes what became of messages to a receiver; returns how many wait.
    fn take_in(&mut self, delivered: Delivered, settlement: &mut Settlement) -> usize {
        let Delivered { receiver, done, failed, mut waiting, .. } = delivered;
        settlement.delivered.extend(done);
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

    async fn deliver(&self, queue: Queue, incarnation: u64, consignment: Consignment) -> Delivered {
        let Consignment { receiver, errands } = consignment;
        let waiting = errands.len();
        let (done, failed) = (vec![], None);
        let mut delivered = Delivered { receiver, done, failed, waiting, is_crowded: false };
        for Numbered { number, depth, errand } in errands {
            let message = Received { incarnation, number, is_refused: false };
            let delivering = self.carry_out(queue, message, depth, errand);
            let outcome = match tokio::time::timeout(DELIVERY_TIMEOUT, delivering).await {
                Ok(outcome) => outcome,
                Err(_) => {
                    Err(Error::unavailable("the delivery of a message got no answer in time"))
                }
            };
            match outcome {
                Ok(senders) => {
                    delivered.is_crowded |=
                        senders > 0 && senders.is_multiple_of(self.pace.forget_every);
                    delivered.done.push(number);
                }
                Err(error) if may_succeed_later(&error) => {
                    // The receiver may be full because it remembers too many senders.
                    delivered.is_crowded |= error.kind() == ErrorKind::Exhausted;
                    delivered.failed = Some((number, error));
                    return delivered;
                }
                Err(error) => {
                    if let Err(error) = self.give_up(queue, message, error).await {
                        delivered.failed = Some((number, error));
                        return delivered;
                    }
                }
            }
            delivered.waiting -= 1;
        }
        delivered
    }

    /// Turns a message that its receiver has refused for good into a dead letter. This must happen
    /// before a later message goes to the same receiver: the note of the later message would make
    /// the refused message count as received.
    async fn give_up(&self, queue: Queue, message: Received, reason: Error) -> Result<()> {
        let Received { incarnation, number, .. } = message;
        let dead = vec![GivenUp { number, reason: reason.to_string() }];
        let of_resent = queue == Queue::Resent;
        self.settle(Settlement { incarnation, dead, of_resent, ..Settlement::default() }).await
    }

    /// Returns how many senders the receiver remembers if this is a new one, else 0.
    async fn carry_out(
        &self,
        queue: Queue,
        message: Received,
        depth: u32,
        errand: Errand,
    ) -> Result<u64> {
        let Self { context, object: sender, marks, counters, .. } = self;
        match errand {
            Errand::Notify(payload) => {
                context.watch.notify(sender, payload).await?;
                counters.notifications.add(1);
                Ok(0)
            }
            Errand::Call { receiver, call, source } => {
                let receiver = &receiver;
                let delivery = Delivery {
                    context,
                    marks,
                    sender,
                    queue,
                    message,
                    receiver,
                    call,
                    source,
                    depth,
                };
                let senders = delivery.run().await?;
                counters.calls.add(1);
                Ok(senders)
            }
            // A removal is handled apart, after all other messages, and never becomes a dead
            // letter.
            Errand::Remove => Err(Error::invalid("a dead letter cannot remove its object")),
        }
    }

    async fn claim(&self) -> Result<Outbox> {
        let result = self.call_own(own_call("claim", &Outbox::default())?).await?;
        match result {
            Some(OpResult::Called(reply)) => stored("an object's incarnation", reply.output),
            _ => Err(Error::corrupt("the reply to `channels.claim` has no output")),
        }
    }

    async fn settle(&self, settlement: Settlement) -> Result<()> {
        if settlement.delivered.is_empty() && settlement.dead.is_empty() {
            return Ok(());
        }
        self.call_own(own_call("settle", &settlement)?).await?;
        self.counters.dead.add(settlement.dead.len() as u64);
        self.context.report(self.object, &settlement.dead);
        Ok(())
    }

    async fn remove(&self, incarnation: u64, number: u64) -> Result<()> {
        let message = Received { incarnation, number, is_refused: false };
        let removal = Removal { message };
        self.call_own(own_call("remove", &removal)?).await?;
        self.counters.removals.add(1);
        Ok(())
    }

    /// Calls a method of the sending object. `None` if the object does not exist any more.
    async fn call_own(&self, op: Op) -> Result<Option<OpResult>> {
        let request = Request::new(self.object.clone(), vec![op])?;
        match self.context.store.submit(request).await {
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
