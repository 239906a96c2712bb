//! The home's part of direct reads: its rules, where bytes are, and permits.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use nacre_object::{Error, IoHeader, ObjectId, Op, Result, Store};
use nacre_route::limits::{DIRECT_LEASE, MAX_DIRECT_RULES, MAX_PERMIT_SPANS, MAX_PERMITS};
use nacre_route::{
    DirectRules, FastHashMap, Permit, PermitAsk, Placement, Rule, RuleTable, Span, WhereAsk,
};
use tokio::time::sleep;

use crate::routes::NodeSwitch;
use crate::routes::background::background;
use crate::routes::concern::Matches;
use crate::routes::pieces::settle_doubts_elsewhere;
use crate::routes::routed_locations::RoutedLocation;
use crate::routes::service::ROUTE_SERVICE;

/// How long the node that keeps the bytes may take to confirm a permit.
const PERMIT_TIME: Duration = Duration::from_secs(2);
/// After this time the lease of a permit has certainly ended at the node that keeps the bytes, even if
/// its clock is a little slower than that of the home.
const SURELY_ENDED: Duration = Duration::from_secs(12);

const _: () = assert!(SURELY_ENDED.as_millis() >= DIRECT_LEASE.as_millis() * 11 / 10);

/// What the home knows about direct reads of its objects.
#[derive(Debug, Default)]
pub(in crate::routes) struct Permitted {
    /// The objects that a rule with `direct-reads` is about.
    objects: Matches,
    given_for: FastHashMap<ObjectId, Given>,
    /// Permits given since the node started.
    pub given: u64,
}

/// The permit that was given last for an object. Clients get the same token as long as it lasts, so
/// that they do not end each other's permits.
#[derive(Debug)]
struct Given {
    kept_in: ObjectId,
    token: u64,
    /// When the permit has certainly ended.
    until: Duration,
}

fn allows_direct_reads(rule: &Rule) -> bool {
    rule.options.has_direct_reads
}

impl Permitted {
    /// The switch has these rules from now on. Permits under former rules go on until they end.
    pub fn note_rules(&mut self, table: &RuleTable) {
        let rules = table.rules().map(|(_, rule)| rule).filter(|rule| allows_direct_reads(rule));
        self.objects = Matches::of(rules.map(|rule| &rule.header.object));
    }

    /// Whether a client may have a permit for some bytes of an object.
    fn may_be_read(&self, object: &ObjectId, now: Duration) -> bool {
        now < self.ends(object)
    }

    /// When the permits for an object have certainly ended.
    fn ends(&self, object: &ObjectId) -> Duration {
        self.given_for.get(object).map_or(Duration::ZERO, |given| given.until)
    }

    fn note(
        &mut self,
        object: &ObjectId,
        (kept_in, token): (&ObjectId, u64),
        now: Duration,
    ) -> Result<()> {
        if self.given_for.len() >= MAX_PERMITS && !self.given_for.contains_key(object) {
            self.given_for.retain(|_, given| now < given.until);
            if self.given_for.len() >= MAX_PERMITS {
                return Err(Error::exhausted(format!("the home has given {MAX_PERMITS} permits"))
                    .hint("read through the home"));
            }
        }
        let until = now + SURELY_ENDED;
        let given = Given { kept_in: kept_in.clone(), token, until };
        self.given_for.insert(object.clone(), given);
        self.given += 1;
        Ok(())
    }
}

/// Bytes that a node keeps for an object.
struct Kept {
    place: RoutedLocation,
    spans: Vec<Span>,
}

fn not_elsewhere(object: &ObjectId) -> Error {
    Error::not_found("no node keeps these bytes for direct reads").on(object)
}

impl NodeSwitch {
    /// The rules that allow direct reads.
    pub(in crate::routes) fn direct_rules(&self) -> DirectRules {
        let core = self.core();
        let all = core.table().rules().map(|(_, rule)| rule);
        let allowing = all.filter(|rule| allows_direct_reads(rule));
        let mut rules = DirectRules::default();
        allowing.take(MAX_DIRECT_RULES).for_each(|rule| rules.add(rule));
        rules
    }

    /// Gives clients a permit to read the bytes at an offset, and those near them, from the node that
    /// keeps them. The caller has checked that the client may read the object.
    ///
    /// # Errors
    /// `NotFound` if the bytes are at home, or no rule allows direct reads of them; `Unavailable` if
    /// the node that keeps them does not answer, or bytes of the object are in doubt; `Exhausted`.
    pub(in crate::routes) async fn permit(
        &self,
        object: &ObjectId,
        ask: &WhereAsk,
    ) -> Result<Permit> {
        let kept = self.kept_near(object, ask.offset)?;
        let stat = background(object.clone(), Op::Stat)?;
        let version = self.base().submit(stat).await?.version;
        let spans: Vec<_> = kept.spans.iter().map(|span| (span.start(), span.end())).collect();
        let order = PermitAsk {
            home_target: self.locations().own().to_string(),
            term: self.term(),
            object: object.to_string(),
            kept_in: kept.place.object.to_string(),
            spans: spans.clone(),
            token: self.token_for(object, &kept.place),
        };
        let permit = Permit {
            node: kept.place.node.to_string(),
            kept_in: order.kept_in.clone(),
            spans,
            version,
            token: order.token,
        };
        let input =
            serde_json::to_vec(&order).map_err(|cause| Error::invalid(cause.to_string()))?;
        let (transport, node) = (self.transport()?, &kept.place.node);
        transport.ask(node, ROUTE_SERVICE, "permit", Bytes::from(input), PERMIT_TIME).await?;
        // The bytes may have moved meanwhile. A permit whose token nobody knows does no harm.
        let now = self.now();
        let mut core = self.core();
        let core = &mut *core;
        let placed: Vec<_> =
            kept.spans.iter().flat_map(|span| core.switch.table().placed(object, *span)).collect();
        let is_there = |placement: &Placement| {
            let place = self.locations().place(object, &placement.destination);
            place.is_ok_and(|place| place.as_ref() == Some(&kept.place))
        };
        let length = |spans: &mut dyn Iterator<Item = Span>| -> u64 {
            spans.map(|span| span.length()).sum()
        };
        let whole = length(&mut kept.spans.iter().copied());
        let still = length(&mut placed.iter().map(|placement| placement.span));
        let is_in_doubt = core.doubts.iter().any(|doubt| doubt.object == *object);
        if is_in_doubt || whole != still || !placed.iter().all(is_there) {
            return Err(Error::unavailable("the bytes are being moved").on(object));
        }
        core.permitted.note(object, (&kept.place.object, permit.token), now)?;
        Ok(permit)
    }

    /// The token of the permit that clients have for the bytes at a place, or a new one.
    fn token_for(&self, object: &ObjectId, place: &RoutedLocation) -> u64 {
        let now = self.now();
        let core = self.core();
        let given = core.permitted.given_for.get(object);
        let given = given.filter(|given| now < given.until && given.kept_in == place.object);
        match given.map(|given| given.token) {
            Some(token) => token,
            None => {
                drop(core);
                self.random()
            }
        }
    }

    /// The bytes at an offset, and those near them that the same node keeps.
    fn kept_near(&self, object: &ObjectId, offset: u64) -> Result<Kept> {
        // A direct read passes no waypoint.
        let passes_waypoint = !self.waypoints_of(object).is_empty();
        let core = self.core();
        if passes_waypoint || !core.permitted.objects.contains(object) {
            return Err(not_elsewhere(object));
        }
        if core.doubts.iter().any(|doubt| doubt.object == *object) {
            return Err(Error::unavailable("bytes of the object are in doubt").on(object));
        }
        let placed = core.table().placed(object, Span::WHOLE);
        let has_offset = |one: &Placement| one.span.start() <= offset && offset < one.span.end();
        let here = placed.iter().position(has_offset).ok_or_else(|| not_elsewhere(object))?;
        let place = self.locations().place(object, &placed[here].destination)?;
        let place = place.ok_or_else(|| not_elsewhere(object))?;
        // An object has few destinations, but may have many spans.
        let mut places = BTreeMap::new();
        let mut is_there = |placement: &&Placement| {
            *places.entry(placement.destination.to_string()).or_insert_with(|| {
                let to = self.locations().place(object, &placement.destination);
                to.is_ok_and(|to| to.as_ref() == Some(&place))
            })
        };
        let near = placed.iter().skip(here.saturating_sub(MAX_PERMIT_SPANS / 2));
        let spans = near.take(MAX_PERMIT_SPANS).filter(|one| is_there(one));
        let spans = spans.map(|placement| placement.span).collect();
        Ok(Kept { place, spans })
    }
}

/// Lets a read of bytes at `place` wait while a client may still read older or unconfirmed bytes of
/// them directly from another node: until that node has dropped them, or its permits have ended.
pub(in crate::routes) async fn settle_or_wait(
    switch: &NodeSwitch,
    header: &IoHeader,
    span: Span,
    place: &RoutedLocation,
) {
    let object = &header.object;
    let is_doubted = {
        let (core, now) = (switch.core(), switch.now());
        let mut doubts = core.doubts.iter();
        let is_meant = doubts.any(|doubt| {
            doubt.object == *object && doubt.span.overlaps(span) && doubt.place != *place
        });
        is_meant && core.permitted.may_be_read(object, now)
    };
    if !is_doubted || settle_doubts_elsewhere(switch, header, span, place).await.is_ok() {
        return;
    }
    // While there are doubts about an object, nobody gets a permit for it.
    let until = switch.core().permitted.ends(object);
    sleep(until.saturating_sub(switch.now())).await;
}
