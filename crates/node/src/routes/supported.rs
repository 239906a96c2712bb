//! Says which rules nodes can execute. All others are refused when they are put.

use std::collections::BTreeMap;

use nacre_object::{Error, PoolName, ProgramName, Result};
use nacre_registry::limits::MAX_VALUE_BYTES;
use nacre_route::{
    Ask, Destination, Follow, Header, LayerName, NAMED_OBJECTS, ObjectMatch, Operation, Operations,
    Options, ROUTED_POOL, Rule, Scatter, SourceMatch, Span, Take, WaypointKind,
};

use super::state::EVERY_SWITCH;
use crate::cache::CACHE_LAYER;

/// Checks that nodes execute a rule.
///
/// # Errors
/// `Unsupported`, with what can be written instead.
pub fn check_supported(rule: &Rule) -> Result<()> {
    unsupported(rule).map_or(Ok(()), |(reason, hint)| {
        Err(Error::unsupported(format!("nodes cannot execute the rule \"{rule}\": {reason}"))
            .during("route")
            .hint(hint))
    })
}

/// Checks that gateways to Ceph execute a rule of a switch that nodes execute. The switch is an OSD or
/// [`EVERY_SWITCH`].
///
/// # Errors
/// `Unsupported`.
pub fn check_supported_on_ceph(rule: &Rule, switch: &str) -> Result<()> {
    let (reason, hint) = match &rule.destination {
        _ if rule.options.has_direct_reads => {
            ("clients reach all bytes through a gateway", "leave out direct-reads")
        }
        _ if rule.options.is_at_rest => (
            "they do not look for bytes to move",
            "leave out at-rest; bytes move when they are written",
        ),
        Destination::Scatter(scatter) if scatter.take != Take::One => {
            ("they apply no writes to copies", "for reads of copies, write r … -> one OSD,OSD")
        }
        Destination::Versions(_) => (
            "they make no snapshot before each change",
            "for states at some moments, write * * POOL/PREFIX* -> snapshots NAME",
        ),
        Destination::Snapshots(_) if switch != EVERY_SWITCH => (
            "an object may get another primary OSD, and its kept states would be lost",
            "give the rule to all OSDs: application NAME on every",
        ),
        Destination::Erasure(_) => ("they make no fragments", "leave the rule out"),
        Destination::Waypoint(_) => ("they run no waypoints", "leave the rule out"),
        _ if matches!(rule.header.source, SourceMatch::Layer(_)) => {
            ("they run no waypoints, so no IO comes out of one", "leave the rule out")
        }
        _ => return Ok(()),
    };
    let text = format!("gateways to Ceph cannot execute the rule \"{rule}\": {reason}");
    Err(Error::unsupported(text).during("route").hint(hint))
}

/// Checks that nodes can execute a rule that names a program, with each of the destinations that
/// the program declares.
///
/// # Errors
/// As [`check_supported`].
pub fn check_declared(rule: &Rule, declared: &[Destination]) -> Result<()> {
    for to in declared.iter().filter(|to| **to != Destination::Home) {
        let routed = Rule { destination: to.clone(), ..rule.clone() };
        if let Some((reason, hint)) = unsupported(&routed) {
            let text = format!(
                "the program of the rule \"{rule}\" declares the destination {to}: {reason}"
            );
            return Err(Error::unsupported(text).during("route").hint(hint));
        }
    }
    Ok(())
}

/// The error for a rule that nodes cannot execute. Its hint names an alternative.
fn unsupported(rule: &Rule) -> Option<(&'static str, &'static str)> {
    if let SourceMatch::Layer(layer) = &rule.header.source
        && let Some(refused) = unsupported_from_layer(rule, layer)
    {
        return Some(refused);
    }
    if touches_own(&rule.header.object) {
        return Some((
            "it also matches objects of nacre's own pools",
            "write rules about objects of one pool of clients: POOL/NAME or POOL/PREFIX*",
        ));
    }
    if rule.destination == Destination::Home {
        let plain = Options { follow: rule.options.follow, ..Options::default() };
        return (rule.options != plain || rule.options.follow != Follow::No)
            .then_some(("home takes no options", "leave the options out"));
    }
    if let Destination::Scatter(scatter) = &rule.destination {
        return unsupported_scatter(rule, scatter);
    }
    if let Destination::Bypass(layer) = &rule.destination {
        return unsupported_bypass(rule, layer);
    }
    if let Destination::Versions(_) = rule.destination {
        if Operations::of([Operation::Read]) == Some(rule.header.operations) {
            return Some(("a read changes nothing", "write * in place of the operations"));
        }
        return (rule.options != Options::default())
            .then_some(("versions take no options", "leave the options out"));
    }
    if matches!(rule.destination, Destination::Snapshots(_)) {
        return unsupported_snapshots(rule);
    }
    if matches!(rule.destination, Destination::Erasure(_)) {
        return (!is_about_whole_objects(rule)).then_some((
            "objects are erasure-coded as a whole, whoever uses them",
            "write the rule as: * * POOL/PREFIX* -> erasure NEEDED TARGET,TARGET,TARGET",
        ));
    }
    if let Destination::Controller(ask) = rule.destination {
        return unsupported_controller(rule, ask);
    }
    if let Destination::Waypoint(layer) = &rule.destination {
        return unsupported_waypoint(rule, layer);
    }
    unsupported_elsewhere(rule).or_else(|| unsupported_options(rule))
}

/// Says why nodes cannot execute a rule that keeps snapshots, with a hint; `None` if they can.
fn unsupported_snapshots(rule: &Rule) -> Option<(&'static str, &'static str)> {
    (!is_about_whole_objects(rule)).then_some((
        "a snapshot is of whole objects, whoever changes them",
        "write the rule as: * * POOL/PREFIX* -> snapshots NAME,NAME",
    ))
}

/// Whether a rule is about all IO on its objects, without options.
fn is_about_whole_objects(rule: &Rule) -> bool {
    let Header { source, operations, span, .. } = &rule.header;
    (source, *operations, *span) == (&SourceMatch::Any, Operations::ALL, Span::WHOLE)
        && rule.options == Options::default()
}

/// Says why nodes cannot send the bytes of a rule to its destination, with a hint; `None` if they can.
fn unsupported_elsewhere(rule: &Rule) -> Option<(&'static str, &'static str)> {
    if Operations::of([Operation::Write]) != Some(rule.header.operations) {
        return Some((
            "only writes are sent elsewhere; reads follow them, creates and deletes stay at home",
            "write w in place of the operations; for reads of copies, write r … -> one TARGET,TARGET",
        ));
    }
    match &rule.destination {
        Destination::Target(_) | Destination::Program(_) => None,
        Destination::Pool(pool) if pool.as_str() == ROUTED_POOL => None,
        Destination::Object(object)
            if object.pool.as_str() == ROUTED_POOL
                && object.name.as_str().starts_with(NAMED_OBJECTS) =>
        {
            (!matches!(rule.header.object, ObjectMatch::Exact(_))).then_some((
                "bytes of several objects would meet in one",
                "name one object, or send the bytes to a target or the pool nacre.routed",
            ))
        }
        _ => Some((
            "routed bytes must lie in the pool nacre.routed, where clients cannot write",
            "use target TARGET, pool nacre.routed, or object nacre.routed/named/NAME",
        )),
    }
}

/// Says why nodes cannot execute the options of a rule that sends writes elsewhere, with a hint; `None`
/// if they can.
fn unsupported_options(rule: &Rule) -> Option<(&'static str, &'static str)> {
    let Options { follow, has_direct_reads, is_at_rest, .. } = rule.options;
    let is_program = matches!(rule.destination, Destination::Program(_));
    if is_at_rest && (is_program || rule.header.source != SourceMatch::Any) {
        return Some((
            "bytes at rest have no source, and no write about which a program could decide",
            "write * as the source, and a target or pool as the destination, or leave out at-rest",
        ));
    }
    if has_direct_reads && matches!(rule.header.source, SourceMatch::Layer(_)) {
        return Some((
            "a direct read passes no waypoint",
            "leave out direct-reads, or name another source than a layer",
        ));
    }
    let follows = Options { follow, has_direct_reads, is_at_rest, ..Options::default() };
    match rule.options.follow {
        Follow::No => Some((
            "reads would miss what it sends elsewhere",
            "add follow, so that reads go where the newest bytes are",
        )),
        Follow::Everywhere => Some((
            "every object has one switch, which need not agree with others",
            "write follow in place of follow-everywhere",
        )),
        Follow::Here if rule.options != follows => Some((
            "no node executes its options yet",
            "leave out all options but follow, direct-reads and at-rest",
        )),
        Follow::Here => None,
    }
}

/// Says why nodes cannot execute a rule that scatters IO among copies, with a hint; `None` if they
/// can. They can scatter reads, to one copy each, and apply writes to all current copies.
fn unsupported_scatter(rule: &Rule, scatter: &Scatter) -> Option<(&'static str, &'static str)> {
    let is_of_writes = rule.header.operations.contains(Operation::Write);
    match scatter.take {
        Take::One if Operations::of([Operation::Read]) != Some(rule.header.operations) => {
            return Some((
                "one copy serves a read; a write must reach the home and all current copies",
                "write r in place of the operations, or all or quorum in place of one",
            ));
        }
        Take::All | Take::Quorum if !is_of_writes => {
            return Some((
                "every current copy has the same bytes, so a read needs only one",
                "write one in place of all or quorum; to apply writes to the copies, add w to the operations",
            ));
        }
        Take::One | Take::All | Take::Quorum => {}
    }
    if rule.options.follow != Follow::No {
        return Some((
            "its writes go to the home too, so reads need not follow them",
            "leave follow out",
        ));
    }
    (rule.options != Options::default())
        .then_some(("IO that is scattered among copies takes no options", "leave the options out"))
}

/// Says why nodes cannot execute a rule that sends IO past a layer, with a hint; `None` if they can.
/// They can send reads past the cache.
fn unsupported_bypass(rule: &Rule, layer: &LayerName) -> Option<(&'static str, &'static str)> {
    if layer.as_str() != CACHE_LAYER {
        return Some((
            "all IO passes the other layers: they keep data safe and promises true",
            "leave the rule out; only the cache can be bypassed",
        ));
    }
    if Operations::of([Operation::Read]) != Some(rule.header.operations) {
        return Some((
            "the cache must see every change, and only reads can bypass it",
            "write r in place of the operations",
        ));
    }
    (rule.options != Options::default())
        .then_some(("reads that bypass the cache take no options", "leave the options out"))
}

/// Says why nodes cannot execute a rule that sends IO to the controller, with a hint; `None` if they
/// can. They send the header.
fn unsupported_controller(rule: &Rule, ask: Ask) -> Option<(&'static str, &'static str)> {
    if ask == Ask::Whole {
        return Some((
            "control programs see no data of clients",
            "write controller header in place of controller whole",
        ));
    }
    (rule.options != Options::default()).then_some((
        "the rules that the controller makes have options, but this one takes none",
        "leave the options out",
    ))
}

/// Says why nodes cannot execute a rule for IO from a layer, with a hint; `None` if they can.
fn unsupported_from_layer(rule: &Rule, layer: &LayerName) -> Option<(&'static str, &'static str)> {
    if layer.as_str() == CACHE_LAYER {
        return Some((
            "the cache sends no IO back, so the rule would match nothing",
            "name a waypoint, an entity or a tenant, or write *",
        ));
    }
    let is_later = matches!(
        rule.destination,
        Destination::Scatter(_)
            | Destination::Bypass(_)
            | Destination::Versions(_)
            | Destination::Controller(_)
    );
    is_later.then_some((
        "IO from a waypoint can only go home, elsewhere, or to another waypoint",
        "use home, target TARGET follow, pool nacre.routed follow, program NAME follow or waypoint NAME",
    ))
}

/// Says why nodes cannot execute a rule that sends IO to a waypoint, with a hint; `None` if they can,
/// provided that its program does what the rule needs ([`check_waypoint`]).
fn unsupported_waypoint(rule: &Rule, layer: &LayerName) -> Option<(&'static str, &'static str)> {
    if layer.as_str() == CACHE_LAYER {
        return Some((
            "all IO passes the cache anyway",
            "name a program: nacre program put waypoint/NAME FILE --activate",
        ));
    }
    let changes_more = |operation: Operation| {
        matches!(operation, Operation::Create | Operation::Delete)
            && rule.header.operations.contains(operation)
    };
    if Operation::ALL.into_iter().any(changes_more) {
        return Some((
            "only reads and writes pass waypoints; creates and deletes stay at home",
            "write rw in place of the operations",
        ));
    }
    (rule.options != Options::default()).then_some((
        "the way to a waypoint takes no options",
        "leave the options out, and give them to a rule for layer:NAME",
    ))
}

/// Checks that a rule which sends IO to a waypoint fits what the waypoints do. `kinds` has those that
/// are known.
///
/// # Errors
/// `Unsupported`, with what can be written instead.
pub fn check_waypoint(rule: &Rule, kinds: &BTreeMap<ProgramName, WaypointKind>) -> Result<()> {
    let kind = |layer: &LayerName| {
        ProgramName::new(layer.as_str()).ok().and_then(|name| kinds.get(&name)).copied()
    };
    let Destination::Waypoint(layer) = &rule.destination else { return Ok(()) };
    let kind_of_rule = kind(layer).unwrap_or_default();
    let read_and_write = Operations::of([Operation::Read, Operation::Write]);
    let is_whole =
        read_and_write == Some(rule.header.operations) && rule.header.span == Span::WHOLE;
    let refused = match &rule.header.source {
        SourceMatch::Layer(_) if kind_of_rule.holds => Some((
            "this waypoint holds IO, so it must be the first that an IO passes",
            "let IO of clients pass it, and then the other waypoint",
        )),
        SourceMatch::Layer(from)
            if kind_of_rule.encodes && kind(from).is_some_and(|k| k.encodes) =>
        {
            Some((
                "both waypoints re-encode, and an object remembers only one of them",
                "write one program that does both",
            ))
        }
        SourceMatch::Entity(_) | SourceMatch::Tenant(_) if kind_of_rule.encodes => Some((
            "this waypoint re-encodes bytes, and other sources would read them as they are stored",
            "write * as the source",
        )),
        _ if kind_of_rule.encodes && !is_whole => Some((
            "this waypoint re-encodes bytes, so all reads and writes of the object must pass it",
            "write rw as the operations, and no range of bytes",
        )),
        _ => None,
    };
    refused.map_or(Ok(()), |(reason, hint)| {
        Err(Error::unsupported(format!("nodes cannot execute the rule \"{rule}\": {reason}"))
            .during("route")
            .hint(hint))
    })
}

/// Checks that a control program may insert a rule. If the program were stopped, its rules would go,
/// and encoded bytes would be read as they are stored.
///
/// # Errors
/// `Unsupported`.
pub(super) fn check_put_by_program(rule: &Rule) -> Result<()> {
    let concerns_waypoint = matches!(rule.destination, Destination::Waypoint(_))
        || matches!(rule.header.source, SourceMatch::Layer(_));
    match concerns_waypoint {
        false => Ok(()),
        true => Err(Error::unsupported(format!(
            "only operators put rules with waypoints, not control programs: \"{rule}\""
        ))
        .during("route")
        .hint("put the rule by hand: nacre route put FILE")),
    }
}

/// Checks that a rule is one that operators may put. Rules that send IO to the controller need a
/// control program that makes other rules about the IO.
///
/// # Errors
/// `Unsupported`.
pub fn check_put_by_hand(rule: &Rule) -> Result<()> {
    match rule.destination {
        Destination::Controller(_) => Err(Error::unsupported(format!(
            "only a control program can insert the rule \"{rule}\", because it must answer the IO"
        ))
        .during("route")
        .hint("start a program that inserts it: nacre route start APPLICATION")),
        _ => Ok(()),
    }
}

/// Whether a rule is about objects of the system pool or the pool of routed bytes.
fn touches_own(object: &ObjectMatch) -> bool {
    let (system, routed) = (PoolName::system(), ROUTED_POOL);
    let own = [format!("{system}/"), format!("{routed}/")];
    match object {
        ObjectMatch::Exact(id) => id.pool == system || id.pool.as_str() == routed,
        ObjectMatch::Prefix(prefix) => own.iter().any(|own| meets(prefix, own)),
        ObjectMatch::Pattern(pattern) => own.iter().any(|own| meets(pattern.literal_prefix(), own)),
    }
}

fn meets(prefix: &str, own: &str) -> bool {
    prefix.starts_with(own) || own.starts_with(prefix)
}

/// Bytes of one application's rules: they are one entry of the map.
pub(super) const MAX_APPLICATION_BYTES: usize = MAX_VALUE_BYTES;
