//! Tests of the syntax of rules, and of which rule decides about an IO.

mod common;

use common::{first_rule, io, rule, rules};
use nacre_object::ErrorKind;
use nacre_route::limits::{MAX_PATTERN_RULES, MAX_RULES};
use nacre_route::{
    ApplicationName, Destination, Header, ObjectMatch, Placement, Routes, RuleId, RuleTable, Span,
};

fn table(text: &[&str]) -> RuleTable {
    let mut table = RuleTable::default();
    for one in text {
        table.insert(vec![rule(one)]).unwrap();
    }
    table
}

fn header(text: &str) -> Header {
    Header::parse(&text.split(' ').collect::<Vec<_>>()).unwrap()
}

#[test]
fn a_rule_matches_by_source_operation_object_and_range() {
    let table = table(&[
        "entity:alice r data/x -> target t0",
        "tenant:gold w data/log.* -> target t1",
        "layer:cache * data/x -> home",
        "* cd * -> target t2",
        "* r data/a*z 4KiB..8KiB -> target t3",
    ]);
    let expected = [
        ("entity:alice r data/x", Some(0)),
        ("entity:bob r data/x", None),
        ("tenant:gold w data/log.7", Some(1)),
        ("tenant:gold w data/lo", None),
        ("entity:bob layer:cache w data/x", Some(2)),
        ("d data/other", Some(3)),
        ("r data/abcz 5000..5001", Some(4)),
        ("r data/abcz 0..4096", None),
    ];
    for (text, id) in expected {
        assert_eq!(first_rule(&table, text), id.map(RuleId), "{text}");
    }
}

#[test]
fn the_rule_that_was_installed_first_decides() {
    let table = table(&["* r data/* -> target t0", "* r data/x -> target t1"]);
    assert_eq!(first_rule(&table, "r data/x"), Some(RuleId(0)));
}

#[test]
fn among_rules_of_one_insertion_the_longest_prefix_is_first() {
    let mut table = RuleTable::default();
    let given = ["* r * -> target t0", "* r data/* -> target t1", "* r data/x -> target t2"];
    table.insert(rules(&given)).unwrap();
    let found = |text| table.get(first_rule(&table, text).unwrap()).unwrap().to_string();
    assert_eq!(found("r data/x"), "* r data/x -> target t2");
    assert_eq!(found("r data/xy"), "* r data/* -> target t1");
    assert_eq!(found("r other/x"), "* r * -> target t0");
}

#[test]
fn an_io_without_a_rule_goes_to_its_original_destination() {
    assert_eq!(first_rule(&RuleTable::default(), "r data/x"), None);
}

#[test]
fn delete_removes_all_rules_of_that_header_and_no_other() {
    let mut table = table(&[
        "* r data/x -> target t0",
        "* r data/x -> target t1",
        "* r data/x 0..4 -> target t2",
    ]);
    assert_eq!(table.delete(&header("* r data/x")).len(), 2);
    assert_eq!(table.len(), 1);
    assert_eq!(first_rule(&table, "r data/x 0..1"), Some(RuleId(2)));
    assert_eq!(first_rule(&table, "r data/x 4..5"), None);
    assert!(table.delete(&header("* r data/x")).is_empty());
}

#[test]
fn reads_follow_writes_by_rules_that_come_before_all_others() {
    let mut table = table(&["* r data/x -> home"]);
    let mut place = |text: &str, object: &str| {
        let placed = Placement {
            span: Span::parse(text).unwrap(),
            destination: Destination::Object(object.parse().unwrap()),
            application: ApplicationName::new("tail").unwrap(),
        };
        table.place(&"data/x".parse().unwrap(), placed).unwrap();
        let made = table.rules().filter(|(id, _)| id.is_made());
        let mut made: Vec<_> = made
            .map(|(_, r)| (r.header.span.start(), r.header.span.end(), r.destination.to_string()))
            .collect();
        made.sort();
        made.iter().map(|(start, end, to)| format!("{start}..{end} {to}")).collect::<Vec<_>>()
    };
    assert_eq!(place("0..8", "s/x"), ["0..8 object s/x"]);
    assert_eq!(place("8..16", "s/x"), ["0..16 object s/x"], "neighbours are one rule");
    let cut = ["0..4 object s/x", "4..6 object s/y", "6..16 object s/x"];
    assert_eq!(place("4..6", "s/y"), cut);
    assert_eq!(place("2..20", "s/x"), ["0..20 object s/x"], "the newest bytes decide");
    let segments = table.route(&io("r data/x 10..30")).unwrap();
    let ids: Vec<_> = segments.iter().map(|segment| segment.rule.unwrap().is_made()).collect();
    assert_eq!(ids, [true, false]);
}

/// The example in section 3.4 of the sRoute paper: the rules that its program (delegate) leaves
/// after a write of the first 512 KiB.
#[test]
fn the_rules_of_the_sroute_example_split_a_read_of_the_first_mebibyte() {
    let mut table = table(&["* w data/x -> object spill/y", "* r data/x -> home"]);
    table.delete(&header("* r data/x"));
    table.insert(vec![rule("* r data/x 0..512KiB -> object spill/y")]).unwrap();
    table.insert(vec![rule("* r data/x -> home")]).unwrap();
    let segments = table.route(&io("r data/x 0..1MiB")).unwrap();
    let spans: Vec<_> = segments.iter().map(|segment| segment.span.unwrap().to_string()).collect();
    assert_eq!(spans, ["0..512KiB", "512KiB..1MiB"]);
}

#[test]
fn an_io_without_bytes_matches_only_rules_about_whole_objects() {
    let table = table(&["* r data/x 0..4 -> target t0", "* r data/x -> target t1"]);
    let mut attribute = io("r data/x");
    attribute.span = None;
    assert_eq!(table.route(&attribute).unwrap()[0].rule, Some(RuleId(1)));
}

#[test]
fn a_full_table_refuses_rules_and_stays_as_it_was() {
    let mut table = RuleTable::default();
    let same = vec![rule("* r data/x -> home"); MAX_RULES];
    table.insert(same).unwrap();
    let error = table.insert(vec![rule("* r data/y -> home")]).unwrap_err();
    assert_eq!((error.kind(), table.len()), (ErrorKind::Exhausted, MAX_RULES));
    let mut table = RuleTable::default();
    let patterns = vec![rule("* r data/*x -> home"); MAX_PATTERN_RULES + 1];
    assert_eq!(table.insert(patterns).unwrap_err().kind(), ErrorKind::Exhausted);
    assert!(table.is_empty());
}

#[test]
fn a_pattern_matches_with_anything_between_its_pieces() {
    let matches =
        |pattern: &str, text: &str| ObjectMatch::parse(pattern).unwrap().matches_text(text);
    assert!(matches("data/a*b", "data/ab") && matches("data/a*b", "data/axxb"));
    assert!(!matches("data/a*b", "data/abx") && !matches("data/a*a", "data/a"));
    assert!(matches("*/x*y*z", "p/xyyzz") && !matches("*/x*y*z", "p/xzyx"));
    assert!(matches("data/a\\*b", "data/a*b") && !matches("data/a\\*b", "data/axb"));
    assert_eq!(ObjectMatch::parse("a**").unwrap(), ObjectMatch::parse("a*").unwrap());
    assert_eq!(ObjectMatch::parse("a**b").unwrap(), ObjectMatch::parse("a*b").unwrap());
}

const FILE: &str = r#"nacre routes 1
pool data
pool spill
target t0
target t1
switch clients at source *
switch edge at target t0
switch back at layer
layer cache write-through
layer pack to back
reserved spill/*
grant entity:alice rw data/*
grant * r data/public.*
application tail on clients
  entity:alice w data/vm1 -> object spill/vm1 follow
  * r data/vm1 0..512KiB -> object spill/vm1
  * r data/a\ name\ with\ \*\ and\ \# 4097.. -> home
  * r data/vm* -> one t0,t1 least-loaded
  * * * -> bypass cache write-through no-cache
  * * data/d* -> versions 32
application caches on edge
  tenant:gold r data/* -> waypoint cache reply-direct prepare-first-io
  * w data/*.tmp -> controller header
  layer:pack rwcd data/x -> quorum t0,t1 nearest
"#;

#[test]
fn a_file_is_printed_as_it_was_read() {
    let routes: Routes = FILE.parse().unwrap();
    let printed = routes.to_string();
    assert_eq!(printed.parse::<Routes>().unwrap(), routes);
    assert_eq!(printed, FILE.replace("rwcd", "*"));
    assert_eq!(routes.tables().unwrap().values().map(RuleTable::len).sum::<usize>(), 9);
}

#[test]
fn a_wrong_line_is_refused_with_its_number_and_a_hint() {
    let begun = "nacre routes 1\nswitch s at source *\napplication a on s\n";
    let cases = [
        ("", "empty"),
        ("nacre routes 2", "line 1: the file begins with \"nacre routes 2\", and this release"),
        ("nacre routes 1\n  * r data/x -> home", "line 2: the rule belongs to no application"),
        ("nacre routes 1\napplication a on s", "line 2: there is no switch s"),
        ("nacre routes 1\npool p\npool p", "line 3: pool p is defined already"),
        ("nacre routes 1\n* r p/x -> home", "line 2: \"* r p/x -> home\" is no valid line"),
        ("nacre routes 1\nbucket b", "line 2: \"bucket b\" is no valid line"),
        ("nacre routes 1\nswitch s at source layer:x", "line 2: no IO begins at a layer"),
        ("nacre routes 1\nswitch s at home", "line 2: \"home\" is no location of a switch"),
        ("nacre routes 1\ngrant * r data/x 0..4", "line 2: a grant is for whole objects"),
        ("* r data/x home", "no \"->\""),
        ("* r -> home", "3 or 4 words, not 2"),
        ("* x data/x -> home", "\"x\" names no operations"),
        ("user:a r data/x -> home", "\"user:a\" is no source"),
        ("* r data -> home", "\"data\" does not name an object"),
        ("* r data/x 4..4 -> home", "it is empty"),
        ("* r data/x 4 -> home", "it has no '..'"),
        ("* r data/x 0..4QiB -> home", "a bound is no number of bytes"),
        ("* r data/x 0..99999999999GiB -> home", "a bound is no number of bytes"),
        ("* r data/x ->", "no destination"),
        ("* r data/x -> away", "\"away\" alone is no destination"),
        ("* w data/x -> versions 0", "\"0\" is no number of versions"),
        ("* w data/x -> versions 33", "\"33\" is no number of versions"),
        ("* r data/x -> object spill/*", "stands for several objects"),
        ("* r data/x -> one t0,t0", "names the target t0 twice"),
        ("* r data/x -> home fast", "\"fast\" is no option"),
        ("* w data/x -> home follow reply-direct", "reads cannot follow"),
        ("* w data/x -> controller whole reply-direct", "the controller answers the switch"),
        ("* r data/\\x -> home", "a backslash before a character"),
        ("* r data/\\u{zz} -> home", "a backslash before a character"),
    ];
    for (text, expected) in cases {
        let text = match text {
            text if text.starts_with("nacre") || text.is_empty() => text.to_owned(),
            rule => format!("{begun}  {rule}"),
        };
        let error = text.parse::<Routes>().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{text}");
        assert!(error.to_string().contains(expected), "{text}: {error}");
    }
}

#[test]
fn an_io_is_printed_as_it_was_read() {
    for text in ["entity:a tenant:t layer:l w data/x 0..4KiB", "entity:a tenant:t d data/a\\ b"] {
        assert_eq!(io(text).to_string(), text);
    }
    assert_eq!(io("r data/x").span, Some(Span::WHOLE));
    for wrong in ["", "r", "read data/x", "x data/x", "r data/x 0..4 more", "r data/*"] {
        assert!(nacre_route::Io::parse(wrong).is_err(), "{wrong}");
    }
}
