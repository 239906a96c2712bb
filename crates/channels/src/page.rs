//! Reads messages of an object, some at a time.

use bytes::Bytes;
use nacre_object::{Error, ErrorKind, MapRange, ObjectId, Op, OpResult, Request, Result};

use crate::courier::CourierContext;
use crate::format::{CHAINS, Chains, OUTBOX, Outbox, Queue, stored};

/// A page of the waiting messages of an object, with the object's incarnation and its chains of
/// messages. If the object does not exist, the page is empty.
#[derive(Default)]
pub(crate) struct Page {
    pub outbox: Option<Outbox>,
    pub chains: Chains,
    pub range: MapRange,
}

impl Page {
    /// Up to `limit` messages behind a key.
    pub async fn read(
        context: &CourierContext,
        object: &ObjectId,
        queue: Queue,
        after: Bytes,
        limit: u32,
    ) -> Result<Self> {
        let ops = vec![
            Op::MapGet { keys: vec![OUTBOX.into(), CHAINS.into()] },
            Op::MapRange { after, prefix: queue.prefix().into(), limit },
        ];
        let request = Request::new(object.clone(), ops)?;
        let reply = match context.store.submit(request).await {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Self::default()),
            other => other?,
        };
        let Ok([OpResult::Values(values), OpResult::Range(range)]) =
            <[OpResult; 2]>::try_from(reply.results)
        else {
            return Err(Error::corrupt(
                "the reply to a read of the object's messages is malformed",
            )
            .on(object)
            .hint("run one release of nacre on clients and nodes"));
        };
        let Ok([outbox, chains]) = <[Option<Bytes>; 2]>::try_from(values) else {
            return Err(Error::corrupt("the reply to a read of two keys does not have two values")
                .on(object)
                .hint("run one release of nacre on clients and nodes"));
        };
        let outbox = outbox.map(|bytes| stored("an object's incarnation", bytes)).transpose()?;
        let chains = stored("an object's chains", chains.unwrap_or_default())?;
        Ok(Self { outbox, chains, range })
    }

    /// The first message of a queue.
    pub async fn first(context: &CourierContext, object: &ObjectId, queue: Queue) -> Result<Self> {
        Self::read(context, object, queue, Bytes::new(), 1).await
    }
}

/// Whether nothing waits in an object.
pub(crate) async fn is_empty(context: &CourierContext, object: &ObjectId) -> Result<bool> {
    let sent = Page::first(context, object, Queue::Sent).await?;
    if !sent.range.entries.is_empty() {
        return Ok(false);
    }
    if sent.outbox.is_none_or(|outbox| outbox.resent == 0) {
        return Ok(true);
    }
    let resent = Page::first(context, object, Queue::Resent).await?;
    Ok(resent.range.entries.is_empty())
}
