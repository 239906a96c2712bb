//! Which rules nodes and gateways to Ceph execute.

use nacre_object::Result;
use nacre_route::{Destination, Rule, WaypointKind};

use super::state::EVERY_SWITCH;
use super::supported::{check_declared, check_supported, check_supported_on_ceph, check_waypoint};

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
        "* rw data/a* -> waypoint scramble",
        "tenant:backup r data/a* 0..4KiB -> waypoint limit",
        "layer:scramble w data/a* -> target storage.1 follow",
        "layer:scramble rw data/a* -> waypoint other",
        "layer:scramble rw data/a* -> home",
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
        "layer:log w data/a -> target storage.1 follow direct-reads",
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
        "* * data/a -> waypoint log",
        "* rw data/a -> waypoint cache",
        "* rw * -> waypoint log",
        "layer:log w data/a -> target storage.1",
        "layer:log r data/a -> one storage.1",
        "layer:log r data/a -> bypass cache",
        "layer:log * data/a -> versions 8",
        "layer:log rw data/a -> controller header",
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
fn a_rule_must_fit_what_its_waypoint_does() {
    let kind = |encodes, holds| WaypointKind { encodes, holds };
    let kinds =
        [("code", kind(true, false)), ("code2", kind(true, false)), ("limit", kind(false, true))];
    let kinds = kinds.map(|(name, kind)| (name.parse().unwrap(), kind)).into();
    let check = |line: &str| {
        let rule = Rule::from_line(&"tests".parse().unwrap(), line).unwrap();
        check_waypoint(&rule, &kinds)
    };
    for line in [
        "* rw data/a* -> waypoint code",
        "layer:limit rw data/a* -> waypoint code",
        "tenant:gold r data/a* 0..4KiB -> waypoint limit",
        "* w data/a* -> waypoint unknown",
    ] {
        check(line).unwrap_or_else(|error| panic!("{line}: {error}"));
    }
    for line in [
        "* r data/a* -> waypoint code",
        "* rw data/a* 0..4KiB -> waypoint code",
        "tenant:gold rw data/a* -> waypoint code",
        "layer:code rw data/a* -> waypoint code2",
        "layer:code rw data/a* -> waypoint limit",
    ] {
        let error = check(line).expect_err(line);
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

#[test]
fn gateways_to_ceph_refuse_rules_that_need_storage_nodes() {
    for (line, reason) in [
        ("* rw data/a -> all osd.0,osd.1", "apply no writes to copies"),
        ("* rw data/a -> quorum osd.0,osd.1", "apply no writes to copies"),
        ("* w data/a -> target osd.1 follow direct-reads", "through a gateway"),
        ("* w data/a -> target osd.1 follow at-rest", "do not look for bytes"),
        ("* * data/a -> versions 8", "no snapshot before each change"),
        ("* rw data/a -> waypoint limit", "run no waypoints"),
        ("layer:limit rw data/a -> home", "run no waypoints"),
    ] {
        let rule = Rule::from_line(&"tests".parse().unwrap(), line).unwrap();
        check_supported(&rule).unwrap();
        let error = check_supported_on_ceph(&rule, EVERY_SWITCH).unwrap_err();
        assert!(error.to_string().contains(reason), "{error}");
    }
}

#[test]
fn gateways_to_ceph_accept_rules_for_reads_of_copies_and_reads_past_the_cache() {
    for line in [
        "* r data/a* -> one osd.0,osd.1 least-loaded",
        "tenant:backup r data/* -> bypass cache",
        "* w data/a -> target osd.1 follow",
    ] {
        let rule = Rule::from_line(&"tests".parse().unwrap(), line).unwrap();
        check_supported(&rule).unwrap();
        check_supported_on_ceph(&rule, EVERY_SWITCH).unwrap();
    }
}

#[test]
fn gateways_to_ceph_keep_snapshots_only_by_a_rule_for_all_osds() {
    let line = "* * data/a* -> snapshots monday,tuesday";
    let rule = Rule::from_line(&"tests".parse().unwrap(), line).unwrap();
    check_supported_on_ceph(&rule, EVERY_SWITCH).unwrap();
    let error = check_supported_on_ceph(&rule, "osd.1").unwrap_err();
    assert_eq!(error.kind(), nacre_object::ErrorKind::Unsupported);
    assert!(error.hint_text().unwrap().contains("on every"), "{error}");
}
