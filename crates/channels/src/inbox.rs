//! Makes a receiver forget senders whose messages are settled.
//!
//! A receiver notes the last message of each sender. The note is needed as long as that message, or
//! an earlier one, may be delivered again, that is, until the sender has settled the message. The
//! receiver cannot see whether it has. So when a receiver remembers too many senders, the courier
//! looks at each of them. It makes the receiver forget those that have settled their messages.
//!
//! **Invariant:** once no message that a note is about waits at its sender, none ever will. Message
//! numbers only rise, and an object that is made again is another incarnation. So the courier's
//! finding stays true for a note that has not changed since, and `forget` removes no other notes.

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
            return Err(Error::corrupt("a look at an inbox was not answered as one"));
        };
        let Some(last) = entries.last() else { return Ok(()) };
        after = last.key.clone();
        forget(context, receiver, entries).await?;
        if !more {
            return Ok(());
        }
    }
}

/// Has it forget those of these that are settled.
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

/// A note that is not needed any more. One of a sender that cannot be asked stays.
async fn settled_note(context: &CourierContext, entry: MapEntry) -> Option<Note> {
    let sender = note_sender(&entry.key)?.to_owned();
    let received = stored("what was received", entry.value).ok()?;
    let (object, queue) = Queue::of_sender(&sender)?;
    let is_settled = is_settled(context, &object, queue, received).await.ok()?;
    is_settled.then_some(Note { sender, received })
}

/// Whether neither this message nor an earlier one waits at its sender, or ever will. If the sender
/// does not exist any more, it sends nothing.
async fn is_settled(
    context: &CourierContext,
    sender: &ObjectId,
    queue: Queue,
    received: Received,
) -> Result<bool> {
    let Page { outbox, range: first, .. } = Page::first(context, sender, queue).await?;
    // What has no incarnation yet will have a later one.
    let Some(outbox) = outbox else { return Ok(true) };
    if outbox.incarnation != received.incarnation {
        return Ok(outbox.incarnation > received.incarnation);
    }
    match first.entries.first() {
        Some(first) => Ok(message_number(&first.key)? > received.number),
        None => Ok(true),
    }
}
