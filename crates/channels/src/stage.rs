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
use crate::format::{Accept, Resend};

/// An engine behind the stage: before a request that may send is carried out its object is marked, and
/// afterwards it is looked at.
///
/// A delivered call is carried out for whom the message says: only who may do anything can deliver, and
/// what he delivers is somebody's. Likewise dead letters that are sent again: the object is marked for whom
/// they were sent, and whoever asks for it vouches for that.
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

    /// Carries out a request that may send for somebody.
    async fn send(&self, source: &EntityName, request: Request) -> Result<Reply> {
        let mut sending = self.courier.sending(&request.header.object, source).await?;
        let outcome = self.engine.submit(request).await;
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
        request.ops.iter().any(|op| matches!(op, Op::Call(call) if self.classes.sends(call)))
    }
}

/// What of messages a request does.
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

#[async_trait]
impl Store for SendingStore {
    async fn submit(&self, mut request: Request) -> Result<Reply> {
        match Channelled::of(&request) {
            Some(Channelled::Delivers { source }) => {
                request.header.source = EntityName::new(source)?;
            }
            Some(Channelled::Resends(resend)) => return self.resend(resend, request).await,
            None => {}
        }
        match self.may_send(&request) {
            true => {
                let source = request.header.source.clone();
                self.send(&source, request).await
            }
            false => self.engine.submit(request).await,
        }
    }

    async fn list(&self, request: ListRequest) -> Result<ListPage> {
        self.engine.list(request).await
    }

    fn capabilities(&self) -> Capabilities {
        self.engine.capabilities()
    }
}
