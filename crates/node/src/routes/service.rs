//! The service `route`. The switches of other nodes send it IO on routed bytes, and `nacre route`
//! requests reports about this node's own switch.
//!
//! | method | input | answer |
//! | --- | --- | --- |
//! | `write`, `drop` | a [`Question`] (object, term and sender), then the input of that method of the class `routed` | the output of the method |
//! | `read` | a [`Question`] with a span | the bytes |
//! | `forward` | a [`Question`] whose payload is an `ObjectRequest` of the protocol | an `ObjectReply`: the request of a client of another gateway to Ceph |
//! | `direct-rules` | – | [`DirectRules`](nacre_route::DirectRules) in JSON: the rules that allow [direct reads](super::direct) |
//! | `where` | a [`WhereAsk`] in JSON, of a client | a [`Permit`] in JSON |
//! | `permit` | a [`PermitAsk`] in JSON, of the switch that is the home of the bytes | nothing |
//! | `direct-read` | a [`DirectRead`](nacre_route::DirectRead) | the bytes |
//! | `found` | a [`FoundAsk`] in JSON | a [`FoundPage`] in JSON: the bytes that this node keeps for the objects of one target |
//! | `copy-write`, `copy-drop`, `copy-read`, `copies` | see [`CopyStore`] | the copies that this node keeps for reads, and its fragments of [erasure-coded](super::erasure) objects |
//! | `fragments` | a [`FragmentListAsk`] in JSON | a `FragmentList` in JSON: the fragments that this node keeps for the objects of one target |
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
use nacre_route::{
    Declared, Destination, Io, ObjectMatch, Permit, PermitAsk, Rule, RuleTable, Span, WhereAsk,
};
use nacre_wire::{Caller, Service};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::sync::RwLock;

use super::NodeSwitch;
use super::applications::{Reports, WaitingIos};
use super::copies::CopyStore;
use super::direct::{DirectKeeper, check_reader};
use super::dropped::Dropped;
use super::erasure::FragmentListAsk;
use super::gateways;
use super::in_force::{InForce, RouteProgress};
use super::kept_bytes::{FoundAsk, FoundPage};
use super::report::{AppliedProgram, AppliedRule, RouteStatus};
use super::routed_locations::RoutedLocation;
use super::switch_core::Core;
use crate::cache::NodeCache;

/// The name of the service.
pub const ROUTE_SERVICE: &str = "route";
/// The methods that every client may call. The service checks that the client may read the object.
pub(crate) const METHODS_OF_READERS: [&str; 3] = ["direct-rules", "where", "direct-read"];

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

    /// A question of the switch of a target, for tests.
    #[cfg(test)]
    pub fn between(home_target: &str, object: &str, payload: Bytes) -> Self {
        let [home_target, object] = [home_target, object].map(str::to_owned);
        let [source, tenant] = ["a", "t"].map(str::to_owned);
        Self { home_target, term: 1, object, source, tenant, trace_id: 0, span: None, payload }
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
    pub direct: Arc<DirectKeeper>,
    pub dropped: Dropped,
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
        check_term(question.term, *term, &question.object)?;
        let _turn = self.dropped.begin(method, &question).await?;
        if method == "drop" {
            self.direct.revoke(&question.object)?;
        }
        self.switch.serve_kept(method, &question).await
    }

    async fn permit(&self, ask: PermitAsk) -> Result<()> {
        let term = self.term_of(&ask.home_target);
        let term = term.read().await;
        check_term(ask.term, *term, &ask.object)?;
        self.direct.give(ask)
    }

    async fn permit_of(&self, caller: &Caller, ask: &WhereAsk) -> Result<Permit> {
        let object = ask.object.parse()?;
        check_reader(caller, &object)?;
        self.switch.permit(&object, ask).await
    }

    async fn found(&self, ask: &FoundAsk) -> Result<FoundPage> {
        {
            let term = self.term_of(&ask.home_target);
            let mut term = term.write().await;
            *term = ask.term.max(*term);
            self.direct.revoke_all_of(&ask.home_target);
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
            waypoints: self.switch.programs().waypoints().report(table),
            routed_objects: objects.len(),
            routed_spans,
            routed_bytes,
            in_flight,
            held,
            in_doubt: core.doubts.len(),
            requests: self.switch.requests(),
            copies: core.copies.summary().into(),
            erasure: self.switch.erasures().status(),
            permits: core.permitted.given,
            direct_reads: self.direct.served(),
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
    async fn ask(&self, caller: &Caller, method: &str, input: Bytes) -> Result<Bytes> {
        match method {
            "direct-read" => self.direct.read(caller, input).await,
            "direct-rules" => json(&self.switch.direct_rules()),
            "where" => json(&self.permit_of(caller, &from_json(&input)?).await?),
            "permit" => {
                self.permit(from_json(&input)?).await?;
                Ok(Bytes::new())
            }
            "write" | "drop" | "read" => self.serve(method, input).await,
            "copy-write" | "copy-drop" | "copy-read" => self.copies.serve(method, input).await,
            "forward" => gateways::answer(&self.switch, input).await,
            "copies" => json(&self.copies.list(&input).await?),
            "fragments" => {
                json(&self.switch.fragments_here(from_json::<FragmentListAsk>(&input)?).await?)
            }
            "found" => json(&self.found(&from_json(&input)?).await?),
            "status" => json(&self.status()),
            "statistics" => {
                let objects: Vec<String> = from_json(&input)?;
                let objects = objects.iter().map(|text| ObjectMatch::parse(text));
                json(&self.switch.statistics(&objects.collect::<Result<Vec<_>>>()?).await?)
            }
            "controller" => json(&self.reports.report()),
            "ask-controller" => json(&self.waiting.ask(from_json(&input)?).await?),
            "caches" => match &self.caches {
                Some(caches) => json(&caches.report()),
                None => Err(Error::unsupported("the node caches no reads")),
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

/// Refuses a request that a switch sent before it restarted.
fn check_term(sent_under: u64, lowest: u64, object: &str) -> Result<()> {
    match sent_under < lowest {
        true => {
            Err(Error::stale("the switch that sent this request has restarted since").on(object))
        }
        false => Ok(()),
    }
}

fn from_json<T: DeserializeOwned>(input: &[u8]) -> Result<T> {
    serde_json::from_slice(input)
        .map_err(|cause| Error::invalid(format!("the input is malformed: {cause}")))
}

fn json(value: &impl Serialize) -> Result<Bytes> {
    let text = serde_json::to_vec(value).map_err(|cause| Error::corrupt(cause.to_string()))?;
    Ok(Bytes::from(text))
}
