//! Delivers one message as a call of another object, exactly once.
//!
//! One transaction on the receiver makes the call and stores a *note* that the receiver got the
//! message. If the called method sends messages in turn, these form a *chain* with the delivered
//! one. The same transaction stores how many messages come before them in the chain.
//!
//! The receiver's note of a sender says which message of the sender it received last. If there is
//! no note, the receiver may have removed it ([`crate::inbox`]), and cannot tell a repeated message
//! from a new one. So the receiver has a *generation*, a number that rises each time it removes
//! notes. A courier sends each message with the generation that it has read from the receiver. If
//! the receiver has no note of the sender, it refuses a message with an old generation. The courier
//! then reads the new generation, checks that the message still waits at the sender, and sends it
//! again.
//!
//! If the receiver refuses a message, it first stores a note of the refusal. Only then does the
//! courier turn the message into a dead letter. Otherwise another courier could still deliver it. A
//! message is also refused if the entity that sent it has lost the right to the call. Even then an
//! earlier attempt may have succeeded, with its reply lost. So the courier reads in the note
//! whether the receiver received or refused the message.
//!
//! **Invariant:** the receiver removes a note only after the sender has removed the message from
//! its queue. A courier that read the queue before the sender removed the message has an old
//! generation, so the receiver refuses the message. A courier that reads the queue later does not
//! find the message.

use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use nacre_object::{
    ClassCall, Demand, EntityName, Error, ErrorKind, ObjectId, Op, OpResult, Reply, Request, Result,
};

use crate::class::own_call;
use crate::courier::CourierContext;
use crate::format::{Accept, INBOX, Inbox, OUTBOX, Outbox, Queue, Received, sender_key, stored};
use crate::marks::Marks;

/// How many times a receiver may remove notes of senders during one delivery. After that, the
/// courier delivers the message in a later round.
const MOST_GENERATIONS: usize = 4;

/// A call on its way.
pub(crate) struct Delivery<'a> {
    pub context: &'a CourierContext,
    pub marks: &'a Mutex<Marks>,
    pub sender: &'a ObjectId,
    pub queue: Queue,
    pub message: Received,
    pub receiver: &'a ObjectId,
    pub call: ClassCall,
    pub source: EntityName,
    /// Messages in the chain before this one.
    pub depth: u32,
}

/// What a receiver knows.
struct Knowledge {
    received: Option<Received>,
    generation: u64,
}

/// Whether a call that failed with this error may succeed later. `Exhausted` has two causes: a full
/// object may have space again, but a program that exceeded its budget would exceed it again.
pub(crate) fn may_succeed_later(error: &Error) -> bool {
    match error.kind() {
        ErrorKind::Unavailable | ErrorKind::Stale => true,
        ErrorKind::Exhausted => error.fault().is_none() || error.has_own_status(),
        _ => false,
    }
}

impl Delivery<'_> {
    /// Decides from the receiver's note whether the receiver refused or received this message. If
    /// the note is about a later message, this one is done: a sender's messages are delivered in
    /// order, and a refused message is removed before the next is sent.
    fn outcome_of(&self, note: Received, refusal: Error) -> Result<u64> {
        match note == (Received { is_refused: true, ..self.message }) {
            true => Err(refusal),
            false => Ok(0),
        }
    }

    /// Calls the method, unless the receiver has received the message before. If this sender is new
    /// to the receiver, returns how many senders the receiver now has notes of; otherwise 0.
    pub async fn run(&self) -> Result<u64> {
        let mut generation = 0;
        for _ in 0..MOST_GENERATIONS {
            let error = match self.attempt(generation).await {
                Ok(senders) => return Ok(senders),
                Err(error) if may_succeed_later(&error) && error.kind() != ErrorKind::Stale => {
                    return Err(error);
                }
                Err(error) => error,
            };
            match self.ask().await? {
                Knowledge { received: Some(received), .. } if received >= self.message => {
                    return self.outcome_of(received, error);
                }
                Knowledge { received: None, generation: present } if present != generation => {
                    generation = present;
                }
                _ if may_succeed_later(&error) => return Err(error),
                _ => return self.outcome_of(self.refuse(generation).await?, error),
            }
            if !self.still_waits().await? {
                return Ok(0);
            }
        }
        Err(Error::unavailable("the receiver forgot senders during each attempt").on(self.receiver))
    }

    /// Calls the method, if the sender's entity may do that now.
    async fn attempt(&self, generation: u64) -> Result<u64> {
        self.check_sender().await?;
        let call = Request::new(self.receiver.clone(), vec![Op::Call(self.call.clone())])?;
        self.context.entities.judge(&self.source, Demand::Request(&call)).await?;
        self.submit(generation).await
    }

    /// Checks that a request of this entity may have sent the message: there must be a mark, which
    /// only nodes can store, for the object and the entity. Without this check, a client that
    /// writes to the object directly could forge messages of other entities.
    async fn check_sender(&self) -> Result<()> {
        let Self { context, sender, source, .. } = self;
        let is_known = {
            let marks = self.marks.lock().unwrap_or_else(PoisonError::into_inner);
            marks.has(sender, source)
        };
        if is_known || context.ledger().sources(sender).await?.contains(source) {
            return Ok(());
        }
        Err(Error::denied(format!("no request of {source} sent this message")))
    }

    async fn submit(&self, generation: u64) -> Result<u64> {
        let accept = own_call("accept", &self.accept(generation))?;
        let begin = own_call("begin", &Inbox::default())?;
        let ops = vec![begin, Op::Call(self.call.clone()), accept];
        let mut request = Request::new(self.receiver.clone(), ops)?;
        request.header.source = self.source.clone();
        let reply = self.context.store.submit(request).await?;
        Ok(stored::<Inbox>("an inbox", last_output(reply)?)?.senders)
    }

    fn accept(&self, generation: u64) -> Accept {
        Accept {
            sender: self.queue.sender(self.sender),
            message: self.message,
            source: self.source.to_string(),
            generation,
            depth: self.depth,
            called: format!("{}.{}", self.call.class, self.call.method),
        }
    }

    /// Stores a note at the receiver that it refused the message. Returns the note that the
    /// receiver has afterwards. Does not create a receiver that does not exist.
    async fn refuse(&self, generation: u64) -> Result<Received> {
        let refuse = own_call("refuse", &self.accept(generation))?;
        let request = Request::new(self.receiver.clone(), vec![refuse])?;
        let outcome = self.context.store.submit(request).await;
        let refused = Received { is_refused: true, ..self.message };
        match outcome {
            Ok(reply) => match last_output(reply)? {
                nothing if nothing.is_empty() => Ok(refused),
                note => stored("what was received", note),
            },
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(refused),
            Err(error) if may_succeed_later(&error) => Err(error),
            // A receiver that cannot store a note cannot accept the message either.
            Err(_) => Ok(refused),
        }
    }

    async fn ask(&self) -> Result<Knowledge> {
        let note = sender_key(&self.queue.sender(self.sender));
        let values = read_keys(self.context, self.receiver, [note.into(), INBOX.into()]).await?;
        let [received, inbox] = values;
        let received = received.map(|note| stored::<Received>("what was received", note));
        let inbox: Inbox = stored("an inbox", inbox.unwrap_or_default())?;
        Ok(Knowledge { received: received.transpose()?, generation: inbox.generation })
    }

    async fn still_waits(&self) -> Result<bool> {
        let keys = [self.queue.key(self.message.number).into(), OUTBOX.into()];
        let [waiting, outbox] = read_keys(self.context, self.sender, keys).await?;
        let outbox: Outbox = stored("an object's incarnation", outbox.unwrap_or_default())?;
        Ok(waiting.is_some() && outbox.incarnation == self.message.incarnation)
    }
}

/// The output of the last call of a request.
fn last_output(mut reply: Reply) -> Result<Bytes> {
    match reply.results.pop() {
        Some(OpResult::Called(reply)) => Ok(reply.output),
        _ => Err(Error::corrupt("the reply to the delivery of a message is malformed")),
    }
}

/// Reads two keys of an object's map. Both are `None` if the object does not exist.
async fn read_keys(
    context: &CourierContext,
    object: &ObjectId,
    keys: [Bytes; 2],
) -> Result<[Option<Bytes>; 2]> {
    let request = Request::new(object.clone(), vec![Op::MapGet { keys: keys.into() }])?;
    let reply = match context.store.submit(request).await {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok([None, None]),
        other => other?,
    };
    match <[OpResult; 1]>::try_from(reply.results) {
        Ok([OpResult::Values(values)]) => values.try_into().map_err(|_| {
            Error::corrupt("the reply to a read of two keys does not have two values")
                .on(object)
                .hint("run one release of nacre on clients and nodes")
        }),
        _ => Err(Error::corrupt("the reply to a read of two keys is malformed")
            .on(object)
            .hint("run one release of nacre on clients and nodes")),
    }
}
