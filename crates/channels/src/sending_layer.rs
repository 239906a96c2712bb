//! The layer through which objects send.

use std::fmt;
use std::sync::Arc;

use futures::future::{self, BoxFuture, FutureExt};
use nacre_object::{
    ClassCall, EntityName, ErrorKind, Layer, Op, Reply, Request, Result, Stack, Store,
};
use prost::Message;

use crate::class::CLASS;
use crate::courier::{Courier, Outcome};
use crate::format::{Accept, Resend};

/// Whether a call may send, as the class runtime of the process knows.
pub type Sends = dyn Fn(&ClassCall) -> bool + Send + Sync;

/// The layer around requests that may send messages. Before such a request runs, the layer stores a
/// mark for its object, so that other processes can find the object. Afterwards it has the courier
/// deliver the object's messages.
///
/// A request that delivers a message, or sends a dead letter again, runs on behalf of the entity
/// that the message names. Only an entity with all rights can make such requests, so the layer
/// trusts that name.
pub struct SendingLayer {
    next: Stack,
    sends: Arc<Sends>,
    courier: Courier,
}

impl fmt::Debug for SendingLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SendingLayer").field("next", &self.next).finish_non_exhaustive()
    }
}

impl SendingLayer {
    /// The layer before `next`; `sends` tells whether a call may send.
    pub fn new(next: Stack, sends: Arc<Sends>, courier: Courier) -> Self {
        Self { next, sends, courier }
    }

    /// Runs a request that may send on behalf of an entity.
    async fn send(&self, source: &EntityName, request: Request) -> Result<Reply> {
        let mut sending = self.courier.sending(&request.header.object, source).await?;
        let outcome = self.next.submit(request).await;
        sending.outcome = match &outcome {
            Ok(_) => Outcome::Done,
            Err(error) if error.kind() == ErrorKind::Unavailable => Outcome::Unknown,
            Err(_) => Outcome::Refused,
        };
        outcome
    }

    async fn resend(&self, resend: Resend, request: Request) -> Result<Reply> {
        let (object, by) = (request.header.object.clone(), request.header.source.clone());
        let reply = self.send(&EntityName::new(&resend.source)?, request).await?;
        self.courier.report_resent(&object, &resend, &by);
        Ok(reply)
    }

    fn may_send(&self, request: &Request) -> bool {
        request.ops.iter().any(|op| matches!(op, Op::Call(call) if (self.sends)(call)))
    }
}

/// What a request of the class `channels` does.
enum Channelled {
    /// It delivers one.
    Delivers { source: String },
    /// It has dead letters delivered again.
    Resends(Resend),
}

impl Channelled {
    fn of(request: &Request) -> Option<Self> {
        request.ops.iter().find_map(|op| match op {
            Op::Call(call) if call.class.as_str() == CLASS => match call.method.as_str() {
                "accept" => {
                    let Accept { source, .. } = Accept::decode(call.input.clone()).ok()?;
                    Some(Self::Delivers { source })
                }
                "resend" => Some(Self::Resends(Resend::decode(call.input.clone()).ok()?)),
                _ => None,
            },
            _ => None,
        })
    }
}

impl Layer for SendingLayer {
    fn next(&self) -> &Stack {
        &self.next
    }

    fn submit(&self, mut request: Request) -> BoxFuture<'_, Result<Reply>> {
        match Channelled::of(&request) {
            Some(Channelled::Delivers { source }) => match EntityName::new(source) {
                Ok(source) => request.header.source = source,
                Err(error) => return future::err(error).boxed(),
            },
            Some(Channelled::Resends(resend)) => return self.resend(resend, request).boxed(),
            None => {}
        }
        if !self.may_send(&request) {
            return self.next.submit(request);
        }
        let source = request.header.source.clone();
        async move { self.send(&source, request).await }.boxed()
    }
}
