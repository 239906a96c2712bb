//! The service `route`. The switches of other nodes send it IO on routed bytes, and `nacre route`
//! requests reports about this node's own switch.
//!
//! | method | input | answer |
//! | --- | --- | --- |
//! | `write`, `drop` | a [`Question`] (object, term and sender), then the input of that method of the class `routed` | the output of the method |
//! | `read` | a [`Question`] with a span | the bytes |
//! | `found` | a [`FoundAsk`] in JSON | a [`FoundPage`] in JSON: the bytes that this node keeps for the objects of one target |
//! | `copy-write`, `copy-drop`, `copy-read`, `copies` | see [`CopyStore`] | the copies that this node keeps for reads |
//! | `status` | – | a [`RouteStatus`] in JSON |
//! | `progress` | – | a [`RouteProgress`] in JSON: the epoch of the map whose rules the node applies |
//! | `statistics` | the objects to count from now on, a list of strings in JSON | [`Statistics`](super::statistics::Statistics) in JSON |
//! | `controller` | – | a [`ControllerReport`](super::ControllerReport) in JSON |
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
use nacre_object::{
    ClassCall, Error, IoHeader, ListRequest, ObjectId, ObjectName, Op, OpResult, ProgramName,
    Request, Result, Store,
};
use nacre_route::{
    Declared, Destination, Io, ObjectMatch, ROUTED_CLASS, RoutedSpans, Rule, RuleId, RuleTable,
    Segment, Span,
};
use nacre_wire::{Caller, Service};
use serde::{Deserialize, Serialize};
use tokio::sync::RwLock;

use super::NodeSwitch;
use super::applications::Reports;
use super::copies::{CopyStore, copy_ways};
use super::in_force::{InForce, RouteProgress};
use super::node_switch::Core;
use super::places::RoutedLocation;
use super::report::{AppliedProgram, AppliedRule, RouteStatus, RouteWay};
use crate::cache::NodeCache;

/// The name of the service.
pub const ROUTE_SERVICE: &str = "route";
/// The most spans in one page of a [`FoundPage`]. A span takes some hundred bytes at most.
const PAGE_SPANS: usize = 8192;
/// Objects that one page lists before it looks for their spans.
const PAGE_NAMES: usize = 512;

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
            home_target: switch.places().own().to_string(),
            term: switch.term(),
            object: place.object.to_string(),
            source: header.source.to_string(),
            tenant: header.tenant.to_string(),
            trace_id: header.trace_id,
            span: span.map(|span| (span.start(), span.end())),
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
        request.header.source = self.source.parse()?;
        request.header.tenant = self.tenant.parse()?;
        request.header.trace_id = self.trace_id;
        Ok(request)
    }
}

/// The question of a switch that has started: where are the bytes of its objects?
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct FoundAsk {
    pub home_target: String,
    pub term: u64,
    /// The last name of the page before.
    pub after: Option<String>,
}

/// The bytes that a node keeps for the objects of one target.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct FoundPage {
    pub objects: Vec<FoundObject>,
    /// Where the next page begins.
    pub next: Option<String>,
}

/// An object that keeps routed bytes.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct FoundObject {
    /// Its name.
    pub object: String,
    /// Whose bytes they are.
    pub home: String,
    pub application: String,
    /// First byte, end and counter of each span.
    pub spans: Vec<(u64, u64, u64)>,
}

/// Answers for one node.
#[derive(Debug)]
pub(super) struct RouteService {
    pub switch: Arc<NodeSwitch>,
    pub caches: Arc<NodeCache>,
    pub in_force: Arc<InForce>,
    pub reports: Arc<Reports>,
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
        let object: ObjectId = question.object.parse()?;
        if object.pool != *self.switch.places().pool() {
            return Err(Error::denied(format!(
                "the object is not in the pool of routed bytes, {}",
                self.switch.places().pool()
            ))
            .on(&object));
        }
        let term = self.term_of(&question.home_target);
        let term = term.read().await;
        if question.term < *term {
            return Err(
                Error::stale("the switch that sent this request has restarted since").on(&object)
            );
        }
        let op = match (method, question.span) {
            ("read", Some((start, end))) => {
                Op::Read { offset: start, length: end.saturating_sub(start) }
            }
            ("read", None) => return Err(Error::invalid("the request reads no bytes").on(&object)),
            _ => Op::Call(ClassCall {
                class: ROUTED_CLASS.parse()?,
                method: method.parse()?,
                version: None,
                input: question.payload.clone(),
            }),
        };
        let reply = self.switch.base().submit(question.request(object, vec![op])?).await?;
        match reply.results.into_iter().next() {
            Some(OpResult::Data(data)) => Ok(data),
            Some(OpResult::Called(called)) => Ok(called.output),
            _ => Err(Error::corrupt("the reply to a read of routed bytes has no data")),
        }
    }

    async fn found(&self, ask: &FoundAsk) -> Result<FoundPage> {
        {
            let term = self.term_of(&ask.home_target);
            let mut term = term.write().await;
            *term = ask.term.max(*term);
        }
        let mut page = FoundPage::default();
        let mut after = ask.after.as_ref().map(ObjectName::new).transpose()?;
        let places = self.switch.places();
        let mut spans = 0;
        loop {
            let (pool, prefix) = (places.pool().clone(), String::new());
            let request = ListRequest { pool, after, prefix, limit: PAGE_NAMES };
            let listed = self.switch.base().list(request).await?;
            for name in &listed.names {
                let object = ObjectId::new(places.pool().clone(), name.clone());
                let Some(kept) = self.kept(&object, &ask.home_target).await? else { continue };
                spans += kept.spans.len();
                page.objects.push(kept);
                if spans >= PAGE_SPANS {
                    page.next = Some(name.to_string());
                    return Ok(page);
                }
            }
            after = listed.names.last().cloned();
            if !listed.more || after.is_none() {
                return Ok(page);
            }
        }
    }

    /// The bytes that an object keeps, if they belong to an object of this target.
    async fn kept(&self, object: &ObjectId, home_target: &str) -> Result<Option<FoundObject>> {
        let places = self.switch.places();
        if places.destination(object).is_none() {
            return Ok(None);
        }
        let call = ClassCall {
            class: ROUTED_CLASS.parse()?,
            method: "spans".parse()?,
            version: None,
            input: Bytes::new(),
        };
        let request = Request::new(object.clone(), vec![Op::Call(call)])?;
        let reply = match self.switch.base().submit(request).await {
            // It was dropped meanwhile.
            Err(error) if error.kind() == nacre_object::ErrorKind::NotFound => return Ok(None),
            reply => reply?,
        };
        let Some(OpResult::Called(called)) = reply.results.into_iter().next() else {
            return Err(Error::corrupt("the object does not report which routed bytes it holds")
                .on(object)
                .hint("run one release of nacre on all nodes"));
        };
        let RoutedSpans { home, application, spans } = RoutedSpans::decode(called.output)?;
        let spans = spans.iter().map(|(span, counter)| (span.start(), span.end(), *counter));
        let found = || FoundObject {
            object: object.to_string(),
            home: home.to_string(),
            application: application.to_string(),
            spans: spans.collect(),
        };
        Ok((places.holder(&home).as_str() == home_target).then(found))
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
            target: self.switch.places().own().to_string(),
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

    fn trace(&self, io: &Io) -> Result<Vec<RouteWay>> {
        let places = self.switch.places();
        if places.holder(&io.object) != places.own() {
            let text = format!("{} holds this object", places.holder(&io.object));
            return Err(Error::invalid(text).on(&io.object));
        }
        let core = self.switch.core();
        let table = core.table();
        let mut ways = vec![];
        for segment in table.route(io)? {
            let Some((id, rule)) = segment.rule.and_then(|id| Some((id, table.get(id)?))) else {
                ways.push(self.way(segment.span, None, None, None));
                continue;
            };
            let Destination::Program(program) = &rule.destination else {
                let place = places.place(&io.object, &rule.destination)?;
                let io = Io { span: segment.span, ..io.clone() };
                let copies = copy_ways(table, &core.copies, &io);
                let way = self.way(segment.span, Some((id, rule)), place, None);
                ways.push(RouteWay { copies, ..way });
                continue;
            };
            let io = Io { span: segment.span, ..io.clone() };
            for (span, destination, why) in self.decided(&core, id, rule, program, &io)? {
                let place = places.place(&io.object, &destination)?;
                ways.push(self.way(span, Some((id, rule)), place, Some(why)));
            }
        }
        Ok(ways)
    }

    /// Where a program, or a rule that it inserted, would send bytes now. The question changes
    /// nothing.
    fn decided(
        &self,
        core: &Core,
        id: RuleId,
        rule: &Rule,
        name: &ProgramName,
        io: &Io,
    ) -> Result<Vec<(Option<Span>, Destination, String)>> {
        let inserted = core.switch.inserted(id);
        let segments = match inserted {
            Some(table) => table.route(io)?,
            None => vec![Segment { span: io.span, rule: None }],
        };
        let mut ways = vec![];
        for Segment { span, rule: own } in segments {
            if let Some(own) = own.and_then(|own| inserted?.get(own)) {
                ways.push((span, own.destination.clone(), own.to_string()));
                continue;
            }
            let version = core.switch.programs().get(name).map(|declared| declared.version);
            let program = version.and_then(|v| self.switch.programs().version(name, v));
            let program = program.ok_or_else(|| {
                Error::unavailable(format!("the program route/{name} is not live on this node"))
                    .hint(format!("list its versions: nacre program status route/{name}"))
            })?;
            let decision = program.decide(&rule.header, &Io { span, ..io.clone() })?;
            ways.push((span, decision.destination, format!("{name}@{}", program.version())));
        }
        Ok(ways)
    }

    fn way(
        &self,
        span: Option<Span>,
        rule: Option<(RuleId, &Rule)>,
        place: Option<RoutedLocation>,
        program: Option<String>,
    ) -> RouteWay {
        RouteWay {
            span: span.map(|span| span.to_string()),
            rule: rule.map(|(_, rule)| rule.to_string()),
            application: rule.map(|(_, rule)| rule.application.to_string()),
            is_made: rule.is_some_and(|(id, _)| id.is_made()),
            program,
            destination: match &place {
                Some(place) => place.node.to_string(),
                None => format!("{} (home)", self.switch.places().own()),
            },
            object: place.map(|place| place.object.to_string()),
            copies: vec![],
        }
    }
}

#[async_trait]
impl Service for RouteService {
    async fn ask(&self, _: &Caller, method: &str, input: Bytes) -> Result<Bytes> {
        match method {
            "write" | "drop" | "read" => self.serve(method, input).await,
            "copy-write" | "copy-drop" | "copy-read" => self.copies.serve(method, input).await,
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
                json(&self.switch.statistics(objects.collect::<Result<_>>()?))
            }
            "controller" => json(&self.reports.report()),
            "caches" => json(&self.caches.report()),
            "progress" => json(&self.in_force.progress()),
            "trace" => {
                let text = std::str::from_utf8(&input)
                    .map_err(|_| Error::invalid("the input is not a UTF-8 string"))?;
                json(&self.trace(&Io::parse(text)?)?)
            }
            _ => Err(Error::unsupported(format!("the service route has no method {method:?}"))
                .hint("run one release of nacre on clients and nodes")),
        }
    }
}

fn json(value: &impl Serialize) -> Result<Bytes> {
    let text = serde_json::to_vec(value).map_err(|cause| Error::corrupt(cause.to_string()))?;
    Ok(Bytes::from(text))
}
