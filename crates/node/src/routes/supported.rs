//! Says which rules nodes can execute. All others are refused when they are put.

use nacre_object::{Error, PoolName, Result};
use nacre_registry::limits::MAX_VALUE_BYTES;
use nacre_route::{
    Ask, Destination, Follow, Header, LayerName, NAMED_OBJECTS, ObjectMatch, Operation, Operations,
    Options, ROUTED_POOL, Rule, Scatter, SourceMatch, Span, Take,
};

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

/// Checks that gateways to Ceph execute a rule that nodes execute.
///
/// # Errors
/// `Unsupported`.
pub fn check_supported_on_ceph(rule: &Rule) -> Result<()> {
    let (reason, hint) = match &rule.destination {
        _ if rule.options.has_direct_reads => {
            ("clients reach all bytes through a gateway", "leave out direct-reads")
        }
        _ if rule.options.is_at_rest => (
            "they do not look for bytes to move",
            "leave out at-rest; bytes move when they are written",
        ),
        Destination::Scatter(scatter) if scatter.take != Take::One => (
            "they apply no writes to copies",
            "RADOS keeps copies of objects by itself; leave the rule out",
        ),
        Destination::Scatter(_) => (
            "they make no copies of objects",
            "RADOS keeps copies of objects by itself; leave the rule out",
        ),
        Destination::Bypass(_) => ("they cache nothing", "leave the rule out"),
        Destination::Versions(_) | Destination::Snapshots(_) => {
            ("they make no snapshots", "leave the rule out")
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
    if matches!(rule.header.source, SourceMatch::Layer(_)) {
        return Some((
            "no layer of a node sends IO back, so the rule would match nothing",
            "name an entity or a tenant, or write *",
        ));
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
        let Header { source, operations, span, .. } = &rule.header;
        let is_for_all =
            (source, *operations, *span) == (&SourceMatch::Any, Operations::ALL, Span::WHOLE);
        return (!is_for_all || rule.options != Options::default()).then_some((
            "a snapshot is of whole objects, whoever changes them",
            "write the rule as: * * POOL/PREFIX* -> snapshots NAME,NAME",
        ));
    }
    if let Destination::Controller(ask) = rule.destination {
        return unsupported_controller(rule, ask);
    }
    if matches!(rule.destination, Destination::Waypoint(_)) {
        return Some((
            "no node sends IO to such a destination",
            "use home, target TARGET, pool nacre.routed, object nacre.routed/named/NAME, program NAME, \
             one TARGET,TARGET, all TARGET,TARGET, bypass cache, versions N, snapshots NAME or controller header",
        ));
    }
    if Operations::of([Operation::Write]) != Some(rule.header.operations) {
        return Some((
            "only writes are sent elsewhere; reads follow them, creates and deletes stay at home",
            "write w in place of the operations; for reads of copies, write r … -> one TARGET,TARGET",
        ));
    }
    match &rule.destination {
        Destination::Target(_) | Destination::Program(_) => {}
        Destination::Pool(pool) if pool.as_str() == ROUTED_POOL => {}
        Destination::Object(object)
            if object.pool.as_str() == ROUTED_POOL
                && object.name.as_str().starts_with(NAMED_OBJECTS) =>
        {
            if !matches!(rule.header.object, ObjectMatch::Exact(_)) {
                return Some((
                    "bytes of several objects would meet in one",
                    "name one object, or send the bytes to a target or the pool nacre.routed",
                ));
            }
        }
        _ => {
            return Some((
                "routed bytes must lie in the pool nacre.routed, where clients cannot write",
                "use target TARGET, pool nacre.routed, or object nacre.routed/named/NAME",
            ));
        }
    }
    let Options { follow, has_direct_reads, is_at_rest, .. } = rule.options;
    let is_program = matches!(rule.destination, Destination::Program(_));
    if is_at_rest && (is_program || rule.header.source != SourceMatch::Any) {
        return Some((
            "bytes at rest have no source, and no write about which a program could decide",
            "write * as the source, and a target or pool as the destination, or leave out at-rest",
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

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(line: &str) -> Result<()> {
        check_supported(&Rule::from_line(&"tests".parse().unwrap(), line).unwrap())
    }

    #[test]
    fn nodes_accept_rules_that_send_reads_to_the_newest_bytes() {
        for line in [
            "* w data/a -> target storage.1 follow",
            "entity:alice w data/a* 0..4KiB -> pool nacre.routed follow",
            "tenant:gold w data/a*b -> target storage.1 follow",
            "* w data/a -> object nacre.routed/named/a follow",
            "* w data/a* -> pool nacre.routed follow direct-reads",
            "* w data/a* -> target storage.1 follow direct-reads at-rest",
            "* * data/b -> home",
            "* w data/a* -> program spread follow",
            "* r data/a* -> one storage.0,storage.1 least-loaded",
            "tenant:gold r data/a 0..4KiB -> one storage.1",
            "* rw data/a* -> all storage.0,storage.1 least-loaded",
            "* * data/a* -> quorum storage.0,storage.1,storage.2",
            "* w data/a 0..4KiB -> all storage.1",
            "tenant:backup r data/* -> bypass cache",
            "* rw data/a* -> controller header",
            "* * data/a* -> versions 8",
            "* * data/a* -> snapshots monday,tuesday",
        ] {
            checked(line).unwrap_or_else(|error| panic!("{line}: {error}"));
        }
    }

    #[test]
    fn an_unsupported_rule_is_refused_with_a_hint_at_an_alternative() {
        for line in [
            "* w data/a -> target storage.1",
            "* r data/a -> target storage.1",
            "* rw data/a -> target storage.1 follow",
            "* w data/a -> target storage.1 follow-everywhere",
            "* w data/a -> target storage.1 follow no-cache",
            "tenant:gold w data/a -> target storage.1 follow at-rest",
            "* w data/a* -> program spread follow at-rest",
            "* w data/a -> target storage.1 follow prepare-first-io",
            "* w data/a -> pool spill follow",
            "* w data/a -> object spill/a follow",
            "* w data/a* -> object nacre.routed/named/a follow",
            "* w * -> target storage.1 follow",
            "* w nacre.system/map/x -> target storage.1 follow",
            "* w nacre.rou* -> home",
            "layer:cache w data/a -> home",
            "* r data/a -> bypass slo",
            "* w data/a -> bypass cache",
            "* rw data/a -> bypass cache",
            "* r data/a -> bypass cache no-cache",
            "* w data/a -> waypoint log follow",
            "* rw data/a -> all storage.0,storage.1 follow",
            "* w data/a -> quorum storage.0,storage.1 no-cache",
            "* rw nacre.routed/* -> all storage.0,storage.1",
            "* rcd data/a -> all storage.0,storage.1",
            "* w data/a -> one storage.0,storage.1",
            "* rw data/a -> one storage.0,storage.1",
            "* r data/a -> all storage.0,storage.1",
            "* r data/a -> quorum storage.0,storage.1",
            "* r data/a -> one storage.0,storage.1 follow",
            "* r nacre.system/* -> one storage.0,storage.1",
            "* w data/a -> controller whole",
            "* w data/a -> controller header follow",
            "* w data/a -> versions 8 follow",
            "* r data/a -> versions 8",
            "* w data/a -> snapshots monday",
            "tenant:gold * data/a -> snapshots monday",
            "* * data/a 0..4KiB -> snapshots monday",
            "* * data/a -> snapshots monday no-cache",
            "* w data/a -> program spread",
            "* rw data/a -> program spread follow",
        ] {
            let error = checked(line).expect_err(line);
            assert_eq!(error.kind(), nacre_object::ErrorKind::Unsupported, "{line}");
            assert!(error.hint_text().is_some(), "{line}");
        }
    }

    #[test]
    fn a_program_that_may_send_many_objects_into_one_needs_a_rule_about_one_object() {
        let declared = ["home", "target storage.1", "object nacre.routed/named/a"];
        let declared = declared.map(|to| Destination::from_line(to).unwrap());
        let check = |line| {
            let rule = Rule::from_line(&"tests".parse().unwrap(), line).unwrap();
            check_declared(&rule, &declared)
        };
        check("* w data/a -> program p follow").unwrap();
        let error = check("* w data/a* -> program p follow").unwrap_err();
        assert!(error.to_string().contains("would meet in one"), "{error}");
    }
}
