//! Tests of the analysis: examples, and a comparison with trying every IO.

mod brute;
mod common;

use brute::{Facts, brute, facts};
use common::pick;
use nacre_clock::Random;
use nacre_conformance::SeedCases;
use nacre_route::{FindingKind, Io, Network, Routes, check, trace};

const CASES: SeedCases =
    SeedCases { file: "check_seeds.txt", text: include_str!("check_seeds.txt") };

const NETWORK: &str = "nacre routes 1
pool p
pool q
target t0
target t1
target t2
switch edge at source *
switch near at target t0
switch front at pool q
layer cache
layer steady write-through
layer pack to front
";

fn routes(text: &str) -> Routes {
    format!("{NETWORK}{text}").parse().unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn findings(text: &str) -> Vec<String> {
    let routes = routes(text);
    check(&routes).unwrap().findings.iter().map(ToString::to_string).collect()
}

fn finds(text: &str, expected: &str) {
    let found = findings(text);
    assert!(found.iter().any(|finding| finding.starts_with(expected)), "{text}: {found:?}");
}

fn finds_no(text: &str, unexpected: &str) {
    let found = findings(text);
    assert!(found.iter().all(|finding| !finding.starts_with(unexpected)), "{text}: {found:?}");
}

#[test]
fn a_loop_is_reported_with_an_io_and_its_path() {
    let text = "application a on edge\n  * r p/x 4..8 -> target t0\napplication a on near\n  * r p/x -> object q/y\napplication a on front\n  * r p/x -> target t0\n";
    let found = findings(text);
    let lost = found.iter().find(|finding| finding.starts_with("a loop")).unwrap();
    assert!(
        lost.contains("r p/x 4..8") && lost.contains("edge [* r p/x 4..8 -> target t0]"),
        "{lost}"
    );
    let round = "  * * p/x -> waypoint cache\n  * * p/x -> waypoint steady\n";
    finds(&format!("application a on edge\n{round}"), "a loop");
    let ends = "  layer:steady * p/x -> home\n";
    finds_no(&format!("application a on edge\n{ends}{round}"), "a loop");
    // IO that a layer has returned is not sent there again.
    finds_no("application a on edge\n  * * p/x -> waypoint cache\n", "a loop");
}

#[test]
fn a_destination_that_is_not_known_is_a_black_hole() {
    let rule = |to: &str| format!("application a on edge\n  * r p/x -> {to}\n");
    finds(&rule("target t9"), "a black hole: there is no target t9");
    finds(&rule("object z/x"), "a black hole: there is no pool z");
    finds(&rule("bypass nothing"), "a black hole: there is no layer nothing");
    finds(&rule("one t0,t9"), "a black hole: there is no target t9");
    finds_no(&rule("target t1"), "a black hole");
}

#[test]
fn a_rule_that_others_cover_together_is_shadowed() {
    let halves = "application a on edge\n  * r p/x 0..8 -> home\n  * r p/x 8.. -> home\n  * r p/x 4..12 -> target t1\n";
    finds(halves, "a shadowed rule: no IO at edge meets \"* r p/x 4..12 -> target t1\"");
    let half = "application a on edge\n  * r p/x 0..8 -> home\n  * r p/x 4..12 -> target t1\n";
    finds_no(half, "a shadowed rule");
}

#[test]
fn a_read_that_misses_a_routed_write_is_found_unless_it_follows() {
    finds(
        "application a on edge\n  * w p/x -> object q/x\n",
        "a read that can miss a routed write",
    );
    let missed = "a read that can miss";
    finds_no("application a on edge\n  * w p/x -> object q/x follow\n", missed);
    finds_no("application a on edge\n  * rw p/x -> object q/x\n", missed);
    finds("application a on edge\n  * w p/x -> bypass cache\n", missed);
    finds_no("application a on edge\n  * rw p/x -> bypass cache\n", missed);
    finds("application a on edge\n  * r p/x -> bypass cache\n", missed);
    finds_no("application a on edge\n  * r p/x -> bypass steady\n", missed);
    finds("application a on edge\n  * w p/x -> bypass steady\n", missed);
    let copies = |write: &str, read: &str| {
        format!(
            "application a on edge\n  * w p/x -> {write} t0,t1,t2\n  * r p/x -> {read} t0,t1,t2\n"
        )
    };
    finds_no(&copies("all", "one"), missed);
    finds_no(&copies("quorum", "quorum"), missed);
    finds(&copies("quorum", "one"), missed);
    finds(&copies("one", "one"), missed);
}

#[test]
fn two_applications_that_contradict_each_other_are_found() {
    let text = "application a on edge\n  * r p/x* -> target t1\napplication b on edge\n  * r p/*z 8..16 -> target t2\n";
    let found = findings(text);
    let one = found.iter().find(|finding| finding.starts_with("two applications")).unwrap();
    assert!(one.contains("8..16") && one.contains("p/x"), "{one}");
    finds_no(&text.replace("p/*z", "p/y*z"), "two applications");
    finds_no(&text.replace("t2", "t1"), "two applications");
}

#[test]
fn a_tenant_with_a_promise_is_routed_only_to_targets_at_which_it_was_admitted() {
    let left = "a promise that does not hold";
    let rule = |rule: &str| format!("promise gold at t0,t1\napplication a on edge\n  {rule}\n");
    let found = findings(&rule("* w p/x -> target t2 follow"));
    let lost = found.iter().find(|finding| finding.starts_with(left)).unwrap();
    assert!(lost.contains("gold was not admitted at t2") && lost.contains("tenant:gold"), "{lost}");
    finds(&rule("tenant:gold w p/x -> target t2 follow"), left);
    finds(&rule("* r p/x -> one t0,t2"), left);
    finds_no(&rule("* w p/x -> target t1 follow"), left);
    finds_no(&rule("tenant:silver w p/x -> target t2 follow"), left);
    finds_no(&rule("tenant:gold w p/x -> home\n  * w p/x -> target t2 follow"), left);
    // Routed bytes in another pool may be at any target.
    let anywhere = "reserved q/*\n";
    finds(&format!("{anywhere}{}", rule("* w p/x -> pool q follow")), left);
    // A promise counts no IO between targets, so with links it holds at home only.
    let linked = "link t0\n";
    let uncounted = "a link that a promise does not count: IO of gold to t1";
    finds(&format!("{linked}{}", rule("* w p/x -> target t1 follow")), uncounted);
    finds_no(&format!("{linked}{}", rule("tenant:gold w p/x -> home")), "a link");
    // All requests on a pool belong to the tenant that the pool was assigned to.
    let network = NETWORK.replace("pool p\n", "pool p of silver\n");
    let text = format!("{network}{}", rule("* w p/x -> target t2 follow"));
    let routes: Routes = text.parse().unwrap();
    assert_eq!(check(&routes).unwrap().findings, []);
    let shown = routes.to_string();
    assert!(
        shown.contains("pool p of silver") && shown.contains("promise gold at t0,t1"),
        "{shown}"
    );
}

#[test]
fn a_route_gives_no_access_that_its_source_lacks() {
    let rule = "application a on edge\n  entity:alice r p/x -> object q/secret\n";
    let granted = |more: &str| format!("grant entity:alice r p/*\n{more}{rule}");
    finds(&granted(""), "a grant that is circumvented");
    finds_no(&granted("grant entity:alice r q/secret\n"), "a grant");
    finds_no(&granted("reserved q/*\n"), "a grant");
}

#[test]
fn a_trace_shows_the_rule_and_the_destination_of_each_byte() {
    let routes = routes(
        "application a on edge\n  * r p/x 4..8 -> target t0\napplication a on near\n  * r p/x 6.. -> object q/y\n",
    );
    let network = Network::new(&routes).unwrap();
    let ways = trace(&network, &Io::parse("r p/x 0..8").unwrap()).unwrap();
    let told: Vec<_> = ways.iter().map(ToString::to_string).collect();
    let expected = [
        "0..4: edge [no rule] -> p/x",
        "4..6: edge [* r p/x 4..8 -> target t0] -> near [no rule] -> p/x at t0",
        "6..8: edge [* r p/x 4..8 -> target t0] -> near [* r p/x 6.. -> object q/y] -> front [no rule] -> q/y",
    ];
    assert_eq!(told, expected);
}

fn random_rule(random: &mut Random) -> String {
    let source = pick(random, &["*", "*", "*", "entity:alice", "tenant:gold", "layer:cache"]);
    let operations = pick(random, &["*", "r", "w", "rw"]);
    let object = pick(random, &["*", "p/*", "p/a*", "p/ab", "p/b", "q/a", "p/*b", "*/a*b"]);
    let span = pick(random, &["", "", " 0..2", " 1..4", " 3.."]);
    let to = pick(
        random,
        &[
            "home",
            "home",
            "object q/a",
            "object p/b",
            "target t0",
            "target t1",
            "target t9",
            "pool q",
            "bypass cache",
            "versions 2",
            "waypoint cache",
            "waypoint pack",
            "waypoint steady",
            "waypoint steady",
            "all t0,t1",
            "one t0,t1",
            "controller header",
        ],
    );
    let option = match operations {
        "w" => pick(random, &["", "", " follow", " follow-everywhere"]),
        _ => pick(random, &["", "", "", " no-cache", " write-through"]),
    };
    format!("  {source} {operations} {object}{span} -> {to}{option}\n")
}

fn random_routes(random: &mut Random) -> String {
    let mut text = String::new();
    if random.one_in(2) {
        text += pick(random, &["grant * * p/*\n", "grant entity:alice * *\ngrant * r p/a*\n"]);
        text += pick(random, &["", "reserved q/*\n"]);
    }
    for _ in 0..1 + random.below(4) {
        let application = pick(random, &["tail", "caches"]);
        let switch = pick(random, &["edge", "edge", "near", "front"]);
        text += &format!("application {application} on {switch}\n");
        for _ in 0..1 + random.below(3) {
            text += &random_rule(random);
        }
    }
    text
}

#[test]
fn the_analysis_finds_what_an_enumeration_of_every_io_finds() {
    let mut seen = Facts::default();
    let count = CASES.each(60, |seed| {
        let text = random_routes(&mut Random::seeded(seed));
        let routes = routes(&text);
        let checked = check(&routes).unwrap();
        let found = facts(&checked.findings);
        let expected = brute(&routes);
        assert_eq!(found, expected, "{text}");
        seen.add(found);
        for finding in &checked.findings {
            let has_example = finding.io.is_some() && finding.way.is_some();
            assert!(
                has_example || matches!(finding.kind, FindingKind::Shadowed { .. }),
                "{finding}"
            );
        }
    });
    println!("{count} seeds: {seen:?}");
    assert!(count < 60 || seen.is_rich(), "{seen:?}");
}

#[test]
fn reads_of_copies_that_the_switch_keeps_current_miss_no_write() {
    let text = "application a on edge\n  * r p/x -> one t0,t1\n";
    finds(text, "a read that can miss");
    let mut current = routes(text);
    current.topology.has_current_copies = true;
    assert_eq!(check(&current).unwrap().findings, []);
    for take in ["all", "quorum"] {
        let text = format!("application a on edge\n  * w p/x 0..4096 -> {take} t0,t1\n");
        finds(&text, "a read that can miss");
        let mut current = routes(&text);
        current.topology.has_current_copies = true;
        assert_eq!(check(&current).unwrap().findings, [], "such a write counts as one at the home");
    }
    let text = "application a on edge\n  * r p/x -> one t0,t1\n  * w p/x -> object q/y\n";
    let mut away = routes(text);
    away.topology.has_current_copies = true;
    let found = check(&away).unwrap().findings;
    let is_missed = |finding: &nacre_route::Finding| finding.kind == FindingKind::MissedWrite;
    assert!(found.iter().any(is_missed), "the home itself misses such a write: {found:?}");
}
