//! The stage before an engine through which objects send.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use nacre_class::ClassRuntime;
use nacre_object::{
    Capabilities, EntityName, ErrorKind, ListPage, ListRequest, Op, Reply, Request, Result, Store,
};
use prost::Message;

use crate::class::CLASS;
use crate::courier::{Courier, Outcome};
use crate::format::Accept;

/// An engine behind the stage: before a request that may send is carried out its object is marked, and
/// afterwards it is looked at.
///
/// A delivered call is carried out for whom the message says: only who may do anything can deliver, and
/// what he delivers is somebody's.
pub struct SendingStore {
    engine: Arc<dyn Store>,
    classes: Arc<ClassRuntime>,
    courier: Courier,
}

impl fmt::Debug for SendingStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SendingStore").field(&self.engine).finish()
    }
}

impl SendingStore {
    /// `engine`, whose methods `classes` runs.
    pub fn new(engine: Arc<dyn Store>, classes: Arc<ClassRuntime>, courier: Courier) -> Self {
        Self { engine, classes, courier }
    }

    fn may_send(&self, request: &Request) -> bool {
        request.ops.iter().any(|op| matches!(op, Op::Call(call) if self.classes.sends(call)))
    }
}

/// Whose message a request delivers, if it does.
fn sent_by(request: &Request) -> Option<Result<EntityName>> {
    request.ops.iter().find_map(|op| match op {
        Op::Call(call) if call.class.as_str() == CLASS && call.method.as_str() == "accept" => {
            let accept = Accept::decode(call.input.clone()).ok()?;
            Some(EntityName::new(accept.source))
        }
        _ => None,
    })
}

#[async_trait]
impl Store for SendingStore {
    async fn submit(&self, mut request: Request) -> Result<Reply> {
        if let Some(source) = sent_by(&request) {
            request.header.source = source?;
        }
        if !self.may_send(&request) {
            return self.engine.submit(request).await;
        }
        let (object, source) = (&request.header.object, &request.header.source);
        let mut sending = self.courier.sending(object, source).await?;
        let outcome = self.engine.submit(request).await;
        sending.outcome = match &outcome {
            Ok(_) => Outcome::Done,
            Err(error) if error.kind() == ErrorKind::Unavailable => Outcome::Unknown,
            Err(_) => Outcome::Refused,
        };
        outcome
    }

    async fn list(&self, request: ListRequest) -> Result<ListPage> {
        self.engine.list(request).await
    }

    fn capabilities(&self) -> Capabilities {
        self.engine.capabilities()
    }
}
