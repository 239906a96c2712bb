//! Removes a receiver's notes of senders whose messages are *settled*, that is, removed from the
//! sender's queue.
//!
//! A receiver stores a note of the last message from each sender. It needs the note until that
//! message and all earlier ones are settled, because until then a courier may deliver them again.
//! The receiver does not see when messages are settled. So when it has too many notes, the courier
//! reads the queue of each sender, and removes the notes that are no longer needed.
//!
//! **Invariant:** once a message is settled, it never waits in the queue again. Message numbers
//! only rise, and an object that is made again has another incarnation. So an unneeded note stays
//! unneeded until it changes, and `forget` does not remove a note that has changed since the
//! courier read it.

use bytes::Bytes;
use futures::StreamExt;
use nacre_object::{Error, ErrorKind, MapEntry, MapRange, ObjectId, Op, OpResult, Request, Result};

use crate::class::own_call;
use crate::courier::CourierContext;
use crate::format::{Forget, NOTES, Note, Queue, Received, message_number, note_sender, stored};
use crate::limits::{PAGE_NOTES, PARALLEL_RECEIVERS};
use crate::page::Page;

/// Has a receiver forget the senders it need not remember.
pub(crate) async fn tidy(context: &CourierContext, receiver: &ObjectId) -> Result<()> {
    let mut after = Bytes::new();
    loop {
        let range = Op::MapRange { after, prefix: NOTES.into(), limit: PAGE_NOTES };
        let request = Request::new(receiver.clone(), vec![range])?;
        let mut reply = match context.store.submit(request).await {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            other => other?,
        };
        let Some(OpResult::Range(MapRange { entries, more })) = reply.results.pop() else {
            return Err(Error::corrupt("the reply to a read of an inbox is malformed"));
        };
        let Some(last) = entries.last() else { return Ok(()) };
        after = last.key.clone();
        forget(context, receiver, entries).await?;
        if !more {
            return Ok(());
        }
    }
}

/// Makes the receiver forget the settled senders among these.
async fn forget(
    context: &CourierContext,
    receiver: &ObjectId,
    entries: Vec<MapEntry>,
) -> Result<()> {
    let looks = entries.into_iter().map(|entry| settled_note(context, entry));
    let settled: Vec<_> = futures::stream::iter(looks).buffered(PARALLEL_RECEIVERS).collect().await;
    let notes: Vec<_> = settled.into_iter().flatten().collect();
    if notes.is_empty() {
        return Ok(());
    }
    let request = Request::new(receiver.clone(), vec![own_call("forget", &Forget { notes })?])?;
    context.store.submit(request).await.map(drop)
}

/// Returns the receiver's note of a sender if the receiver does not need it any more. Returns
/// `None` if that is unknown because the sender does not answer.
async fn settled_note(context: &CourierContext, entry: MapEntry) -> Option<Note> {
    let sender = note_sender(&entry.key)?.to_owned();
    let received = stored("what was received", entry.value).ok()?;
    let (object, queue) = Queue::of_sender(&sender)?;
    let is_settled = is_settled(context, &object, queue, received).await.ok()?;
    is_settled.then_some(Note { sender, received })
}

/// Whether this message and all earlier ones of the sender are settled: the sender has removed them
/// from its queue, or does not exist any more.
async fn is_settled(
    context: &CourierContext,
    sender: &ObjectId,
    queue: Queue,
    received: Received,
) -> Result<bool> {
    let Page { outbox, range: first, .. } = Page::first(context, sender, queue).await?;
    // An object without an incarnation will get a later one.
    let Some(outbox) = outbox else { return Ok(true) };
    if outbox.incarnation != received.incarnation {
        return Ok(outbox.incarnation > received.incarnation);
    }
    match first.entries.first() {
        Some(first) => Ok(message_number(&first.key)? > received.number),
        None => Ok(true),
    }
}
