//! The server's state, and how it answers one message.

use std::collections::HashMap;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use nacre_clock::{Random, SystemClock};
use nacre_object::limits::MAX_NOTIFY_BYTES;
use nacre_object::{
    Capabilities, Capability, Demand, Error, FaultSite, Guard, LocalOnly, NodeName, Result, Store,
    Watch,
};
use nacre_telemetry::{Spans, Trace, traced};
use tokio::sync::watch;

use super::call_limits::CallLimits;
use super::connection::reached;
use super::meter::{Kind, Meter};
use super::refusals::Refusals;
use super::session_slots::SessionSlots;
use super::under_way::{Outcome, Watched, Work};
use super::{Caller, Service, tracing};
use crate::LinkShaper;
use crate::limits::{
    HANDSHAKE_TIMEOUT, MAX_BATCH_BYTES, MAX_MESSAGE_BYTES, PROTOCOL_VERSION, STALL_TIMEOUT,
};
use crate::message;
use crate::outbox::Body as _;
use nacre_protocol::proto::client_message::Body as Asked;
use nacre_protocol::proto::server_message::Body as Answer;
use nacre_protocol::{decode, encode, proto as pb};

/// Where a server is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    /// The server accepts every message.
    Open,
    /// The server finishes begun requests and begins no others.
    Draining,
    /// The server drops requests that are not finished.
    Cut,
}

/// A node as its sessions see it.
pub(crate) struct Node {
    pub(crate) name: NodeName,
    pub(crate) incarnation: u64,
    pub(crate) store: Option<Arc<dyn Store>>,
    pub(crate) watch: Option<Arc<dyn Watch>>,
    pub(crate) services: HashMap<String, Arc<dyn Service>>,
    /// Decides which peers are admitted.
    pub(crate) guard: Arc<dyn Guard>,
    pub(crate) stall_timeout: Duration,
    pub(crate) meter: Meter,
    /// The spans of traced messages.
    pub(crate) spans: Arc<Spans>,
    pub(crate) handshake_timeout: Duration,
    /// The node's network link, if tenants are to share it as they were promised.
    pub(crate) link: Option<Arc<LinkShaper>>,
    /// Limits on sessions.
    pub(crate) sessions: SessionSlots,
    /// Limits on calls without a session.
    pub(crate) calls: CallLimits,
    /// The peers that were refused.
    pub(crate) refusals: Arc<Refusals>,
    /// Only ever moves on.
    pub(crate) phase: watch::Sender<Phase>,
    session_numbers: AtomicU64,
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut services: Vec<_> = self.services.keys().collect();
        services.sort();
        f.debug_struct("Node")
            .field("name", &self.name)
            .field("incarnation", &self.incarnation)
            .field("store", &self.store)
            .field("services", &services)
            .finish_non_exhaustive()
    }
}

impl Node {
    pub(crate) fn new(name: NodeName, incarnation: u64) -> Self {
        let clock = Arc::new(SystemClock::default());
        Self {
            name,
            incarnation,
            store: None,
            watch: None,
            services: HashMap::new(),
            guard: Arc::new(LocalOnly),
            stall_timeout: STALL_TIMEOUT,
            meter: Meter::new(clock.clone()),
            spans: Spans::new(clock, Random::from_system()),
            handshake_timeout: HANDSHAKE_TIMEOUT,
            link: None,
            sessions: SessionSlots::default(),
            calls: CallLimits::default(),
            refusals: Arc::default(),
            phase: watch::Sender::new(Phase::Open),
            session_numbers: AtomicU64::new(1),
        }
    }

    pub(crate) fn next_session(&self) -> u64 {
        self.session_numbers.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn welcome(&self) -> pb::Welcome {
        pb::Welcome {
            protocol_version: PROTOCOL_VERSION,
            node_name: self.name.to_string(),
            incarnation: self.incarnation,
            capabilities: self.capabilities().bits(),
            message_bytes_max: MAX_BATCH_BYTES as u64,
            takes_parts: true,
            link_bytes_per_second: self.link.as_ref().map_or(0, |link| *link.speed().borrow()),
        }
    }

    fn capabilities(&self) -> Capabilities {
        let all = self.store.as_ref().map_or(Capabilities::NONE, |store| store.capabilities());
        if self.watch.is_some() { all } else { all.without(Capability::WatchChanges) }
    }

    /// Begins the work that a message asks for, within the trace that the message belongs to.
    pub(crate) fn begin(
        self: &Arc<Self>,
        caller: &Arc<Caller>,
        trace: Option<Trace>,
        asked: Asked,
    ) -> Work {
        let Some(trace) = trace else { return self.work(caller, 0, asked) };
        let span = tracing::begin(&trace, caller, &asked);
        let Work { future, only_reads } = self.work(caller, trace.id().0, asked);
        let future = Box::pin(async move {
            let outcome = traced(Some(&span), future).await;
            // Remembered before the client can ask for it.
            drop(span);
            outcome
        });
        Work { future, only_reads }
    }

    /// Begins the work that a message requests. (The session itself handles messages about the
    /// session.) A watch is such work, too: its outcome is a stream of events.
    ///
    /// Each kind of message has its own future, because a single future for all kinds would be as
    /// large as the largest of them.
    fn work(self: &Arc<Self>, caller: &Arc<Caller>, trace_id: u64, asked: Asked) -> Work {
        let mut only_reads = Kind::of(&asked).only_reads();
        let (node, caller) = (self.clone(), caller.clone());
        let future = match asked {
            Asked::Request(request) => {
                contained(async move { told(node.submit(&caller, trace_id, request).await) })
            }
            Asked::Ask(ask) => match self.service(ask) {
                Ok((service, ask)) => {
                    only_reads = service.only_waits(&ask.method);
                    let phase = only_reads.then(|| self.phase.subscribe());
                    contained(async move {
                        told(unless_stopping(phase, serve(&*service, &caller, ask)).await)
                    })
                }
                Err(error) => Box::pin(std::future::ready(told(Err(error)))),
            },
            Asked::List(list) => contained(async move { told(node.list(&caller, list).await) }),
            Asked::Notify(notify) => {
                contained(async move { told(node.notify(&caller, notify).await) })
            }
            Asked::Watch(watch) => {
                contained(async move { watched(node.watch(&caller, watch).await) })
            }
            Asked::Hello(_) | Asked::Unwatch(_) | Asked::Part(_) => {
                let error = Error::invalid("this message is only valid in a session")
                    .hint("open a session with `Session`");
                Box::pin(std::future::ready(told(Err(error))))
            }
        };
        Work { future, only_reads }
    }

    async fn submit(
        &self,
        caller: &Caller,
        trace_id: u64,
        request: pb::ObjectRequest,
    ) -> Result<Answer> {
        let mut request = decode::request(request)?;
        request.header.source = caller.entity().clone();
        request.header.tenant = caller.tenant();
        request.header.trace_id = trace_id;
        caller.standing.allow(Demand::Request(&request))?;
        let reply = self.store()?.submit(request).await?;
        Ok(Answer::Reply(encode::reply(reply)))
    }

    /// The service that is asked.
    fn service(&self, ask: pb::Ask) -> Result<(Arc<dyn Service>, pb::Ask)> {
        let ask = decode::ask(ask)?;
        let service = self.services.get(&ask.service).ok_or_else(|| {
            Error::unsupported(format!("node {} has no service {:?}", self.name, ask.service))
                .hint("ask a node with the right role; `nacre status` shows the roles")
        })?;
        Ok((Arc::clone(service), ask))
    }

    async fn list(&self, caller: &Caller, list: pb::ListRequest) -> Result<Answer> {
        let list = decode::list_request(list)?;
        caller.standing.allow(Demand::List(&list))?;
        let page = self.store()?.list(list).await?;
        Ok(Answer::Page(encode::list_page(page)))
    }

    async fn notify(&self, caller: &Caller, notify: pb::Notify) -> Result<Answer> {
        let object = decode::object(&notify.pool, &notify.object)?;
        if notify.payload.len() > MAX_NOTIFY_BYTES {
            let text = format!("a notification of {} bytes is too long", notify.payload.len());
            let hint = format!("at most {MAX_NOTIFY_BYTES} bytes fit");
            return Err(Error::invalid(text).on(&object).hint(hint));
        }
        caller.standing.allow(Demand::Notify(&object))?;
        self.watches()?.notify(&object, notify.payload).await?;
        Ok(Answer::Done(pb::Done {}))
    }

    async fn watch(&self, caller: &Caller, watch: pb::Watch) -> Result<Watched> {
        let object = decode::object(&watch.pool, &watch.object)?;
        caller.standing.allow(Demand::Watch(&object))?;
        let events = self.watches()?.watch(&object).await?;
        Ok(Watched { object, events })
    }

    fn store(&self) -> Result<&Arc<dyn Store>> {
        let nothing = || {
            Error::unsupported(format!("node {} keeps no objects", self.name))
                .hint("ask a storage node; `nacre status` shows them")
        };
        self.store.as_ref().ok_or_else(nothing)
    }

    fn watches(&self) -> Result<&Arc<dyn Watch>> {
        let nothing = || {
            Error::unsupported(format!("node {} keeps no objects that can be watched", self.name))
                .hint("ask a storage node; `nacre status` shows them")
        };
        self.watch.as_ref().ok_or_else(nothing)
    }
}

async fn serve(service: &dyn Service, caller: &Caller, ask: pb::Ask) -> Result<Answer> {
    let pb::Ask { service: name, method, input } = ask;
    caller.standing.allow(Demand::Ask { service: &name, method: &method, input: &input })?;
    let output = service.ask(caller, &method, input).await?;
    Ok(Answer::Answer(pb::Answer { output }))
}

/// Waits for a call. If the call is a long poll and the node stops, ends the call, because the
/// event that it waits for may never come. `phase` is `None` if the call is not a long poll.
async fn unless_stopping(
    phase: Option<watch::Receiver<Phase>>,
    answer: impl Future<Output = Result<Answer>>,
) -> Result<Answer> {
    let Some(mut phase) = phase else { return answer.await };
    tokio::select! {
        biased;
        answer = answer => answer,
        () = reached(&mut phase, Phase::Draining) => Err(message::stopping()),
    }
}

/// Runs work so that a panic fails only its own message. The panic is written to the process's log,
/// and the session goes on.
fn contained(work: impl Future<Output = Outcome> + Send + 'static) -> BoxFuture<'static, Outcome> {
    // A panic may leave the work of the store or service half done. Both must cope with a request
    // that ends at any point.
    Box::pin(AssertUnwindSafe(work).catch_unwind().map(|outcome| {
        outcome.unwrap_or_else(|_| {
            let failure = Error::fault_at(
                FaultSite::default(),
                "the node failed while it handled this message",
            );
            told(Err(failure.hint(
                "the request may have been carried out: check that; the node's log says more",
            )))
        })
    }))
}

fn watched(watch: Result<Watched>) -> Outcome {
    match watch {
        Ok(watch) => Outcome { answer: Answer::Done(pb::Done {}), watch: Some(watch) },
        Err(error) => told(Err(error)),
    }
}

fn told(answer: Result<Answer>) -> Outcome {
    let answer = answer.and_then(bounded).unwrap_or_else(|error| encode::failure(&error));
    Outcome { answer, watch: None }
}

/// The answer, if it fits into a message.
fn bounded(answer: Answer) -> Result<Answer> {
    let bytes = answer.length();
    if bytes <= MAX_MESSAGE_BYTES {
        return Ok(answer);
    }
    Err(Error::exhausted(format!("an answer of {bytes} bytes is too long"))
        .hint(format!("at most {MAX_MESSAGE_BYTES} bytes fit; ask for less, or page")))
}
