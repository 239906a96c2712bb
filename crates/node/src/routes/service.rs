//! The service `route`. The switches of other nodes send it IO on routed bytes, and `nacre route`
//! requests reports about this node's own switch.
//!
//! | method | input | answer |
//! | --- | --- | --- |
//! | `write`, `drop` | a [`Question`] (object, term and sender), then the input of that method of the class `routed` | the output of the method |
//! | `read` | a [`Question`] with a span | the bytes |
//! | `forward` | a [`Question`] whose payload is an `ObjectRequest` of the protocol | an `ObjectReply`: the request of a client of another gateway to Ceph |
//! | `found` | a [`FoundAsk`] in JSON | a [`FoundPage`] in JSON: the bytes that this node keeps for the objects of one target |
//! | `copy-write`, `copy-drop`, `copy-read`, `copies` | see [`CopyStore`] | the copies that this node keeps for reads |
//! | `status` | – | a [`RouteStatus`] in JSON |
//! | `progress` | – | a [`RouteProgress`] in JSON: the epoch of the map whose rules the node applies |
//! | `statistics` | the objects to count from now on, a list of strings in JSON | for each target of the node, [`Statistics`](super::statistics::Statistics) in JSON |
//! | `targets` | – | the names of all targets that rules may name, in JSON |
//! | `controller` | – | a [`ControllerReport`](super::ControllerReport) in JSON |
//! | `ask-controller` | a [`ControllerQuestion`](super::applications::ControllerQuestion) in JSON | the epoch of the map that has rules about the IO |
//! | `caches` | – | a [`CacheReport`](crate::cache::CacheReport) in JSON |
//! | `trace` | an IO, in the syntax of `nacre route trace` | [`RouteWay`]s in JSON |
//!
//! The *term* numbers the versions of a switch's rules. It rises with each update and after a
//! restart. Once a switch has sent `found` under a term, the node refuses that switch's requests of
//! earlier terms. So a delayed request cannot change anything.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use bytes::{Buf, BufMut, Bytes, BytesMut};
use nacre_object::{Error, IoHeader, ObjectId, Op, ProgramName, Request, Result};
use nacre_route::{Declared, Destination, Io, ObjectMatch, Rule, RuleTable, Span};
use nacre_wire::{Caller, Service};
use serde::{Deserialize, Serialize};
use tokio::sync::RwLock;

use super::NodeSwitch;
use super::applications::{Reports, WaitingIos};
use super::copies::CopyStore;
use super::gateways;
use super::in_force::{InForce, RouteProgress};
use super::kept_bytes::{FoundAsk, FoundPage};
use super::report::{AppliedProgram, AppliedRule, RouteStatus};
use super::routed_locations::RoutedLocation;
use super::switch_core::Core;
use crate::cache::NodeCache;

/// The name of the service.
pub const ROUTE_SERVICE: &str = "route";
/// A switch's question about bytes that it has sent to this node.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Question {
    pub home_target: String,
    pub term: u64,
    pub object: String,
    source: String,
    tenant: String,
    trace_id: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub span: Option<(u64, u64)>,
    #[serde(skip)]
    pub payload: Bytes,
}

impl Question {
    pub fn new(
        switch: &NodeSwitch,
        header: &IoHeader,
        place: &RoutedLocation,
        span: Option<Span>,
        payload: Bytes,
    ) -> Self {
        Self {
            home_target: switch.locations().own().to_string(),
            term: switch.term(),
            object: place.object.to_string(),
            source: header.source.to_string(),
            tenant: header.tenant.to_string(),
            trace_id: header.trace_id,
            span: span.map(|span| (span.start(), span.end())),
            payload,
        }
    }

    /// A request of a client that another gateway routes. The payload is the request.
    pub fn forwarded(switch: &NodeSwitch, header: &IoHeader, payload: Bytes) -> Self {
        Self {
            home_target: switch.locations().own().to_string(),
            term: 0,
            object: header.object.to_string(),
            source: header.source.to_string(),
            tenant: header.tenant.to_string(),
            trace_id: header.trace_id,
            span: None,
            payload,
        }
    }

    pub fn encode(&self) -> Result<Bytes> {
        let head = serde_json::to_vec(self).map_err(|cause| Error::invalid(cause.to_string()))?;
        let mut out = BytesMut::with_capacity(4 + head.len() + self.payload.len());
        out.put_u32(head.len() as u32);
        out.put_slice(&head);
        out.put_slice(&self.payload);
        Ok(out.freeze())
    }

    pub fn decode(mut input: Bytes) -> Result<Self> {
        let senseless = || Error::invalid("the request of a switch is malformed");
        let length = input.try_get_u32().map_err(|_| senseless())? as usize;
        if length > input.len() {
            return Err(senseless());
        }
        let head = input.split_to(length);
        let question: Self = serde_json::from_slice(&head).map_err(|_| senseless())?;
        Ok(Self { payload: input, ..question })
    }

    /// A request on the object that keeps the bytes. Its source, tenant and trace are those of the
    /// client's request.
    pub fn request(&self, object: ObjectId, ops: Vec<Op>) -> Result<Request> {
        let mut request = Request::new(object, ops)?;
        self.identify(&mut request)?;
        Ok(request)
    }

    /// Gives a request the source, tenant and trace of the client's request.
    pub fn identify(&self, request: &mut Request) -> Result<()> {
        request.header.source = self.source.parse()?;
        request.header.tenant = self.tenant.parse()?;
        request.header.trace_id = self.trace_id;
        Ok(())
    }
}

/// Answers for one node.
#[derive(Debug)]
pub(super) struct RouteService {
    pub switch: Arc<NodeSwitch>,
    pub caches: Option<Arc<NodeCache>>,
    pub in_force: Arc<InForce>,
    pub reports: Arc<Reports>,
    pub waiting: Arc<WaitingIos>,
    pub copies: CopyStore,
    /// For each switch, by the name of its target: the lowest term under which it may still send
    /// requests. The node holds a read lock on the term while it serves a request.
    pub terms: Mutex<HashMap<String, Arc<RwLock<u64>>>>,
}

impl RouteService {
    fn term_of(&self, home_target: &str) -> Arc<RwLock<u64>> {
        let mut terms = self.terms.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(terms.entry(home_target.to_owned()).or_default())
    }

    async fn serve(&self, method: &str, input: Bytes) -> Result<Bytes> {
        let question = Question::decode(input)?;
        let term = self.term_of(&question.home_target);
        let term = term.read().await;
        if question.term < *term {
            return Err(Error::stale("the switch that sent this request has restarted since")
                .on(&question.object));
        }
        self.switch.serve_kept(method, &question).await
    }

    async fn found(&self, ask: &FoundAsk) -> Result<FoundPage> {
        {
            let term = self.term_of(&ask.home_target);
            let mut term = term.write().await;
            *term = ask.term.max(*term);
        }
        self.switch.kept_for(&ask.home_target, ask.after.as_ref()).await
    }

    fn status(&self) -> RouteStatus {
        let RouteProgress { rules_epoch, problem, .. } = self.in_force.progress();
        let core = self.switch.core();
        let table = core.table();
        let applied = |(id, rule): (_, &Rule)| AppliedRule {
            application: rule.application.to_string(),
            rule: rule.to_string(),
            count: core.tally.count(id),
        };
        let installed = table.rules().filter(|(id, _)| !id.is_made());
        let rules = installed.map(applied).collect();
        let mut objects = std::collections::HashSet::new();
        let (mut routed_spans, mut routed_bytes) = (0, 0);
        for (object, rule) in table.all_placed() {
            objects.insert(object);
            routed_spans += 1;
            routed_bytes += rule.header.span.length();
        }
        let (in_flight, held) = core.switch.load();
        RouteStatus {
            target: self.switch.locations().own().to_string(),
            term: self.switch.term(),
            epoch: rules_epoch,
            problem,
            rules,
            programs: core
                .switch
                .programs()
                .iter()
                .map(|(name, declared)| self.applied_program(&core, name, declared))
                .collect(),
            routed_objects: objects.len(),
            routed_spans,
            routed_bytes,
            in_flight,
            held,
            in_doubt: core.doubts.len(),
            requests: self.switch.requests(),
            copies: core.copies.summary().into(),
        }
    }

    fn applied_program(
        &self,
        core: &Core,
        name: &ProgramName,
        declared: &Declared,
    ) -> AppliedProgram {
        let counts = self.switch.programs().counts(name);
        let is_its =
            |(_, rule): &(_, &Rule)| rule.destination == Destination::Program(name.clone());
        let rules = core.table().rules().filter(is_its);
        let inserted = rules.filter_map(|(id, _)| core.switch.inserted(id)).map(RuleTable::len);
        AppliedProgram {
            name: name.to_string(),
            version: declared.version,
            decided: counts.decided,
            failed: counts.failed,
            inserted_rules: inserted.sum(),
        }
    }
}

#[async_trait]
impl Service for RouteService {
    async fn ask(&self, _: &Caller, method: &str, input: Bytes) -> Result<Bytes> {
        match method {
            "write" | "drop" | "read" => self.serve(method, input).await,
            "copy-write" | "copy-drop" | "copy-read" => self.copies.serve(method, input).await,
            "forward" => gateways::answer(&self.switch, input).await,
            "copies" => json(&self.copies.list(&input).await?),
            "found" => {
                let ask = serde_json::from_slice(&input)
                    .map_err(|cause| Error::invalid(format!("the input is malformed: {cause}")))?;
                json(&self.found(&ask).await?)
            }
            "status" => json(&self.status()),
            "statistics" => {
                let objects: Vec<String> = serde_json::from_slice(&input)
                    .map_err(|cause| Error::invalid(format!("the input is malformed: {cause}")))?;
                let objects = objects.iter().map(|text| ObjectMatch::parse(text));
                json(&self.switch.statistics(&objects.collect::<Result<Vec<_>>>()?).await?)
            }
            "controller" => json(&self.reports.report()),
            "ask-controller" => {
                let question = serde_json::from_slice(&input)
                    .map_err(|cause| Error::invalid(format!("the input is malformed: {cause}")))?;
                json(&self.waiting.ask(question).await?)
            }
            "caches" => match &self.caches {
                Some(caches) => json(&caches.report()),
                None => Err(Error::unsupported("gateways to Ceph cache no reads")),
            },
            "targets" => {
                let targets = self.switch.locations().targets().await?;
                json(&targets.iter().map(ToString::to_string).collect::<Vec<_>>())
            }
            "progress" => json(&self.in_force.progress()),
            "trace" => {
                let text = std::str::from_utf8(&input)
                    .map_err(|_| Error::invalid("the input is not a UTF-8 string"))?;
                json(&self.switch.trace(Io::parse(text)?).await?)
            }
            _ => Err(Error::unsupported(format!("the service route has no method {method:?}"))
                .hint("run one release of nacre on clients and nodes")),
        }
    }

    fn only_waits(&self, method: &str) -> bool {
        // The controller runs the program even if this call is dropped.
        method == "ask-controller"
    }
}

fn json(value: &impl Serialize) -> Result<Bytes> {
    let text = serde_json::to_vec(value).map_err(|cause| Error::corrupt(cause.to_string()))?;
    Ok(Bytes::from(text))
}
