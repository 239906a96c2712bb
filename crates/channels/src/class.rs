//! The native class `channels`: the transactions that deliver messages from one object to another.
//! Couriers call its methods.
//!
//! - A *courier* is the part of a process that delivers the messages of objects.
//! - A *note* is what a receiver stores of the last message from a sender.
//! - The *incarnation* of a sender tells it from an earlier object of the same name.
//! - A *chain* is a message, the messages that its delivery causes, and so on. The *depth* of a
//!   message is the number of messages before it in its chain.
//! - A *ledger* is an object with *marks*. A mark says that an object may have messages.
//!
//! | method | object | input | what it does |
//! |---|---|---|---|
//! | `claim` | sender | – | returns the object's incarnation ([`Outbox`]); begins one if there is none |
//! | `resend` | sender | [`Resend`] | makes dead letters wait for delivery again |
//! | `settle` | sender | [`Settlement`] | removes messages that are done; turns messages that were given up into dead letters |
//! | `remove` | sender | [`Removal`] | removes the object, if the message that asks for this is the only one that still waits |
//! | `begin` | receiver | – | records which messages the receiver itself had sent before the call |
//! | `accept` | receiver | [`Accept`] | notes that the message was received, and stores the depth of the messages that the called method sent. Fails with `Exists` if this message or a later one of the sender is noted already. Fails with `Stale` if there is no note of the sender, and the receiver has removed notes since the courier last read the receiver's state. Returns the [`Inbox`] if the sender is new |
//! | `refuse` | receiver | [`Accept`] | notes that the message was refused, and returns the note. If this message or a later one is noted already, returns that note. Does nothing on an object that does not exist |
//! | `forget` | receiver | [`Forget`] | removes notes of senders |
//! | `unmark` | ledger | [`Unmark`] | removes a mark, unless another mark has replaced it |
//!
//! One transaction receives a message: `[begin, call of the method, accept]`. A call that names an
//! earlier incarnation of the sender changes nothing.

use bytes::Bytes;
use nacre_object::{
    CallContext, CallReply, ClassCall, ClassName, Error, MethodName, ObjectView, Op, Result,
};
use nacre_object::{MethodAccess, NativeClass};
use prost::Message;

use crate::format::{
    Accept, CHAINS, Chains, DEAD, DeadLetter, FOR_APPLICATION, Forget, GivenUp, INBOX, Inbox, Note,
    OUTBOX, Outbox, Queue, Received, Removal, Resend, ResentMessage, Settlement, Unmark,
    message_key, message_number, sender_key, stored,
};
use crate::limits::{MAX_DEAD_LETTERS, MAX_REASON_CHARACTERS, MAX_SENDERS};
use crate::message::WaitingMessage;

/// The class's name.
pub(crate) const CLASS: &str = "channels";

/// The class `channels`. Install it in every process that runs methods of senders, of receivers, or
/// of objects in the system pool.
///
/// # Panics
/// Never, because the names in it are well formed.
pub fn channels_class() -> NativeClass {
    let name = ClassName::new(CLASS).expect("a well-formed literal");
    NativeClass::new(name)
        .method("claim", MethodAccess::ReadWrite, claim)
        .method("settle", MethodAccess::ReadWrite, settle)
        .method("resend", MethodAccess::ReadWrite, resend)
        .method("remove", MethodAccess::ReadWrite, remove)
        .method("begin", MethodAccess::ReadWrite, begin)
        .method("accept", MethodAccess::ReadWrite, accept)
        .method("refuse", MethodAccess::ReadWrite, refuse)
        .method("forget", MethodAccess::ReadWrite, forget)
        .method("unmark", MethodAccess::ReadWrite, unmark)
}

/// A call of one of this class's methods.
pub(crate) fn own_call(method: &str, input: &impl Message) -> Result<Op> {
    Ok(Op::Call(ClassCall {
        class: ClassName::new(CLASS)?,
        method: MethodName::new(method)?,
        version: None,
        input: input.encode_to_vec().into(),
    }))
}

fn input_of<Question: Message + Default>(input: Bytes) -> Result<Question> {
    Question::decode(input)
        .map_err(|cause| Error::invalid(format!("the input cannot be decoded: {cause}")))
}

fn done() -> Result<CallReply> {
    Ok(CallReply::default())
}

fn outbox(view: &mut dyn ObjectView) -> Result<Option<Outbox>> {
    view.map_get(OUTBOX)?.map(|bytes| stored("an object's incarnation", bytes)).transpose()
}

fn claim(_: Bytes, view: &mut dyn ObjectView, _: &CallContext) -> Result<CallReply> {
    let outbox = match outbox(view)? {
        Some(outbox) => outbox,
        None => {
            let outbox = Outbox { incarnation: view.version()?, resent: 0 };
            view.map_set(OUTBOX, outbox.encode_to_vec().into())?;
            outbox
        }
    };
    Ok(CallReply { status: 0, output: outbox.encode_to_vec().into() })
}

/// Whether this is the object's present incarnation.
fn is_present(view: &mut dyn ObjectView, incarnation: u64) -> Result<bool> {
    Ok(view.exists()? && outbox(view)?.is_some_and(|outbox| outbox.incarnation == incarnation))
}

fn settle(input: Bytes, view: &mut dyn ObjectView, context: &CallContext) -> Result<CallReply> {
    let settlement: Settlement = input_of(input)?;
    if !is_present(view, settlement.incarnation)? {
        return done();
    }
    let queue = if settlement.of_resent { Queue::Resent } else { Queue::Sent };
    for number in settlement.delivered {
        view.map_remove(&queue.key(number))?;
    }
    for given_up in settlement.dead {
        bury(queue, given_up, view, context.now_micros)?;
    }
    done()
}

fn bury(queue: Queue, given_up: GivenUp, view: &mut dyn ObjectView, at_micros: u64) -> Result<()> {
    let GivenUp { number, reason } = given_up;
    let waiting = queue.key(number);
    let Some(value) = view.map_get(&waiting)? else { return Ok(()) };
    let (number, message) = queue.message(number, value)?;
    let reason = reason.chars().take(MAX_REASON_CHARACTERS).collect();
    let letter = DeadLetter { message, reason, at_micros };
    view.map_remove(&waiting)?;
    view.map_set(&message_key(DEAD, number), letter.encode_to_vec().into())?;
    loop {
        let letters = view.map_range(&[], DEAD, MAX_DEAD_LETTERS)?;
        match letters.entries.first() {
            Some(oldest) if letters.more => view.map_remove(&oldest.key)?,
            _ => return Ok(()),
        }
    }
}

fn resend(input: Bytes, view: &mut dyn ObjectView, _: &CallContext) -> Result<CallReply> {
    let Resend { numbers, source } = input_of(input)?;
    let known = if view.exists()? { outbox(view)? } else { None };
    let mut outbox = known.unwrap_or_default();
    for number in numbers {
        let key = message_key(DEAD, number);
        let letter = if view.exists()? { view.map_get(&key)? } else { None };
        let letter = letter.ok_or_else(|| {
            Error::not_found(format!("no message {number} was given up"))
                .hint("see the messages that were given up with `nacre class outbox`; this one may have been sent again")
        })?;
        let DeadLetter { message, .. } = stored("a dead letter", letter)?;
        let sent_for = WaitingMessage::decode(number, &message)?.source;
        if sent_for != source {
            return Err(Error::conflict(format!(
                "message {number} was sent on behalf of {sent_for:?}, not of {source:?}"
            )));
        }
        outbox.resent += 1;
        let resent = ResentMessage { number, message };
        view.map_set(&Queue::Resent.key(outbox.resent), resent.encode_to_vec().into())?;
        view.map_remove(&key)?;
    }
    if view.map_range(&[], Queue::Resent.prefix(), MAX_DEAD_LETTERS)?.more {
        let most = format!("{MAX_DEAD_LETTERS} messages already wait to be delivered again");
        return Err(Error::exhausted(most).hint("wait until some are delivered"));
    }
    view.map_set(OUTBOX, outbox.encode_to_vec().into())?;
    done()
}

fn remove(input: Bytes, view: &mut dyn ObjectView, _: &CallContext) -> Result<CallReply> {
    let Removal { message } = input_of(input)?;
    if !is_present(view, message.incarnation)? {
        return done();
    }
    let waiting = view.map_range(&[], Queue::Sent.prefix(), 2)?.entries;
    let is_due = match &waiting[..] {
        [only] => only.key == Queue::Sent.key(message.number),
        _ => false,
    };
    if is_due
        && view.map_range(&[], Queue::Resent.prefix(), 1)?.entries.is_empty()
        && view.map_range(&[], FOR_APPLICATION, 1)?.entries.is_empty()
    {
        view.remove()?;
    }
    done()
}

fn begin(_: Bytes, view: &mut dyn ObjectView, _: &CallContext) -> Result<CallReply> {
    if !view.exists()? {
        return done();
    }
    let mut chains = chains(view)?;
    if let Some(last) = last_waiting(view, chains.known_to)? {
        chains.known_to = last;
        view.map_set(CHAINS, chains.encode_to_vec().into())?;
    }
    done()
}

fn chains(view: &mut dyn ObjectView) -> Result<Chains> {
    stored("an object's chains", view.map_get(CHAINS)?.unwrap_or_default())
}

/// The number of the first message that waits behind this one.
fn next_waiting(view: &mut dyn ObjectView, number: u64) -> Result<Option<u64>> {
    let prefix = Queue::Sent.prefix();
    let range = view.map_range(&Queue::Sent.key(number), prefix, 1)?;
    range.entries.first().map(|entry| message_number(&entry.key)).transpose()
}

/// Returns the number of the last waiting message after message `number`. Reads only a few
/// messages: it doubles its step while it finds later messages, then halves the step, as in a
/// binary search.
fn last_waiting(view: &mut dyn ObjectView, number: u64) -> Result<Option<u64>> {
    let Some(mut last) = next_waiting(view, number)? else { return Ok(None) };
    let mut step = 1;
    let mut is_growing = true;
    while step > 0 {
        match next_waiting(view, last.saturating_add(step - 1))? {
            Some(later) => last = later,
            None => is_growing = false,
        }
        step = if is_growing { step * 2 } else { step / 2 };
    }
    Ok(Some(last))
}

/// Stores the depth of the messages that the called method has just sent. `depth` is the depth of
/// the message that called the method.
fn lengthen_chains(view: &mut dyn ObjectView, depth: u32, called: String) -> Result<()> {
    let mut chains = chains(view)?;
    let Some(last) = last_waiting(view, chains.known_to)? else { return Ok(()) };
    let first_waiting = next_waiting(view, 0)?.unwrap_or(last);
    chains.add(last, depth.saturating_add(1), called, first_waiting);
    view.map_set(CHAINS, chains.encode_to_vec().into())
}

fn accept(input: Bytes, view: &mut dyn ObjectView, _: &CallContext) -> Result<CallReply> {
    let Accept { sender, message, generation, depth, called, .. } = input_of(input)?;
    // A method that changed nothing may have left no object.
    view.create(false)?;
    lengthen_chains(view, depth, called)?;
    let key = sender_key(&sender);
    let mut reply = CallReply::default();
    match note(view, &key)? {
        Some(known) if known >= message => {
            let became = if known.is_refused { "refused" } else { "received" };
            let text = format!("message {} or a later one was {became} before", message.number);
            return Err(Error::exists(text));
        }
        Some(_) => {}
        None => reply.output = remember_another(view, generation)?.encode_to_vec().into(),
    }
    view.map_set(&key, message.encode_to_vec().into())?;
    Ok(reply)
}

fn refuse(input: Bytes, view: &mut dyn ObjectView, _: &CallContext) -> Result<CallReply> {
    let Accept { sender, message, generation, .. } = input_of(input)?;
    if !view.exists()? {
        return done();
    }
    let key = sender_key(&sender);
    let note = match note(view, &key)? {
        Some(known) if known >= message => known,
        known => {
            if known.is_none() {
                remember_another(view, generation)?;
            }
            let refused = Received { is_refused: true, ..message };
            view.map_set(&key, refused.encode_to_vec().into())?;
            refused
        }
    };
    Ok(CallReply { status: 0, output: note.encode_to_vec().into() })
}

/// The receiver's note of a sender.
fn note(view: &mut dyn ObjectView, key: &[u8]) -> Result<Option<Received>> {
    view.map_get(key)?.map(|known| stored("what was received", known)).transpose()
}

fn inbox(view: &mut dyn ObjectView) -> Result<Inbox> {
    stored("an inbox", view.map_get(INBOX)?.unwrap_or_default())
}

fn remember_another(view: &mut dyn ObjectView, generation: u64) -> Result<Inbox> {
    let mut inbox = inbox(view)?;
    if inbox.generation != generation {
        return Err(Error::stale(
            "the receiver has forgotten senders since the courier read this message",
        ));
    }
    if inbox.senders >= MAX_SENDERS {
        return Err(Error::exhausted(format!(
            "the receiver already remembers {MAX_SENDERS} senders with waiting messages, the most it can"
        ))
        .hint("let fewer objects send to this one, or divide it into several objects"));
    }
    inbox.senders += 1;
    view.map_set(INBOX, inbox.encode_to_vec().into())?;
    Ok(inbox)
}

fn forget(input: Bytes, view: &mut dyn ObjectView, _: &CallContext) -> Result<CallReply> {
    let Forget { notes } = input_of(input)?;
    if !view.exists()? {
        return done();
    }
    let before = inbox(view)?;
    let mut inbox = before;
    for Note { sender, received } in notes {
        let key = sender_key(&sender);
        if view.map_get(&key)?.is_some_and(|known| known == received.encode_to_vec()) {
            view.map_remove(&key)?;
            inbox.senders = inbox.senders.saturating_sub(1);
        }
    }
    if inbox != before {
        inbox.generation += 1;
        view.map_set(INBOX, inbox.encode_to_vec().into())?;
    }
    done()
}

fn unmark(input: Bytes, view: &mut dyn ObjectView, _: &CallContext) -> Result<CallReply> {
    let Unmark { key, mark } = input_of(input)?;
    if view.exists()? && view.map_get(&key)?.is_some_and(|known| known == mark.encode_to_vec()) {
        view.map_remove(&key)?;
    }
    done()
}
