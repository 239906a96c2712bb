//! The native class `channels`: the transactions by which messages go from one object to another.
//!
//! | method | object | input | what it does |
//! |---|---|---|---|
//! | `claim` | sender | – | answers its incarnation ([`Outbox`]), which begins if there is none |
//! | `settle` | sender | [`Settlement`] | takes away messages that are done, keeps those given up as dead letters |
//! | `remove` | sender | [`Removal`] | removes the object, if that message still waits and nothing else does |
//! | `accept` | receiver | [`Accept`] | notes a message; `Exists` if it, or a later one, was noted before |
//! | `unmark` | ledger | [`Unmark`] | takes away a mark, if it is still that one |
//!
//! A message is received by one transaction, `[call of the method, accept]`: both happen or neither.
//! What concerns another incarnation of the sender than the present one changes nothing.

use bytes::Bytes;
use nacre_class::{MethodAccess, NativeClass};
use nacre_object::{CallContext, CallReply, ClassName, Error, ObjectView, Result};
use prost::Message;

use crate::format::{
    Accept, DEAD, DeadLetter, FOR_APPLICATION, GivenUp, INBOX, Inbox, OUTBOX, Outbox, Received,
    Removal, Settlement, Unmark, WAITING, message_key, sender_key, stored,
};
use crate::limits::{MAX_DEAD_LETTERS, MAX_REASON_CHARACTERS, MAX_SENDERS};

/// The class's name.
pub(crate) const CLASS: &str = "channels";

/// The class. Whatever runs methods of senders, receivers and the system pool has to know it.
///
/// # Panics
/// Never: its names are well formed.
pub fn channels_class() -> NativeClass {
    let name = ClassName::new(CLASS).expect("a well-formed literal");
    NativeClass::new(name)
        .method("claim", MethodAccess::ReadWrite, claim)
        .method("settle", MethodAccess::ReadWrite, settle)
        .method("remove", MethodAccess::ReadWrite, remove)
        .method("accept", MethodAccess::ReadWrite, accept)
        .method("unmark", MethodAccess::ReadWrite, unmark)
}

fn input_of<Question: Message + Default>(input: Bytes) -> Result<Question> {
    Question::decode(input)
        .map_err(|cause| Error::invalid(format!("the input is no message of this method: {cause}")))
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
            let outbox = Outbox { incarnation: view.version()? };
            view.map_set(OUTBOX, outbox.encode_to_vec().into())?;
            outbox
        }
    };
    Ok(CallReply { status: 0, output: outbox.encode_to_vec().into() })
}

/// Whether this is the incarnation that sends.
fn is_present(view: &mut dyn ObjectView, incarnation: u64) -> Result<bool> {
    Ok(view.exists()? && outbox(view)?.is_some_and(|outbox| outbox.incarnation == incarnation))
}

fn settle(input: Bytes, view: &mut dyn ObjectView, context: &CallContext) -> Result<CallReply> {
    let settlement: Settlement = input_of(input)?;
    if !is_present(view, settlement.incarnation)? {
        return done();
    }
    for number in settlement.delivered {
        view.map_remove(&message_key(WAITING, number))?;
    }
    for given_up in settlement.dead {
        bury(given_up, view, context.now_micros)?;
    }
    done()
}

fn bury(given_up: GivenUp, view: &mut dyn ObjectView, at_micros: u64) -> Result<()> {
    let GivenUp { number, reason } = given_up;
    let waiting = message_key(WAITING, number);
    let Some(message) = view.map_get(&waiting)? else { return Ok(()) };
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

fn remove(input: Bytes, view: &mut dyn ObjectView, _: &CallContext) -> Result<CallReply> {
    let Removal { message } = input_of(input)?;
    if !is_present(view, message.incarnation)? {
        return done();
    }
    let waiting = view.map_range(&[], WAITING, 2)?.entries;
    let is_due = match &waiting[..] {
        [only] => only.key == message_key(WAITING, message.number),
        _ => false,
    };
    if is_due && view.map_range(&[], FOR_APPLICATION, 1)?.entries.is_empty() {
        view.remove()?;
    }
    done()
}

fn accept(input: Bytes, view: &mut dyn ObjectView, _: &CallContext) -> Result<CallReply> {
    let Accept { sender, message, .. } = input_of(input)?;
    // A method that changed nothing may have left no object.
    view.create(false)?;
    let key = sender_key(&sender);
    let known = view.map_get(&key)?.map(|known| stored::<Received>("what was received", known));
    match known.transpose()? {
        Some(known) if known >= message => {
            return Err(Error::exists(format!("message {} was received", message.number)));
        }
        Some(_) => {}
        None => remember_another(view)?,
    }
    view.map_set(&key, message.encode_to_vec().into())?;
    done()
}

fn remember_another(view: &mut dyn ObjectView) -> Result<()> {
    let known = view.map_get(INBOX)?;
    let mut inbox: Inbox = stored("an inbox", known.unwrap_or_default())?;
    if inbox.senders >= MAX_SENDERS {
        return Err(Error::exhausted(format!("{MAX_SENDERS} objects have sent to this one"))
            .hint("send through fewer objects, or to more"));
    }
    inbox.senders += 1;
    view.map_set(INBOX, inbox.encode_to_vec().into())
}

fn unmark(input: Bytes, view: &mut dyn ObjectView, _: &CallContext) -> Result<CallReply> {
    let Unmark { key, mark } = input_of(input)?;
    if view.exists()? && view.map_get(&key)?.is_some_and(|known| known == mark.encode_to_vec()) {
        view.map_remove(&key)?;
    }
    done()
}
