//! Compares the table with the linear matcher: both find the same rules after random insertions and
//! deletions.

mod common;

use common::{linear, pick};
use nacre_clock::Random;
use nacre_conformance::SeedCases;
use nacre_object::{EntityName, TargetName, TenantName};
use nacre_route::{
    ApplicationName, Destination, Header, Io, LayerName, ObjectMatch, Operation, Operations,
    Options, Placement, Rule, RuleTable, Segment, SourceMatch, Span,
};

const CASES: SeedCases =
    SeedCases { file: "matcher_seeds.txt", text: include_str!("matcher_seeds.txt") };

const SOURCES: [&str; 6] = ["*", "*", "entity:a", "entity:b", "tenant:t", "layer:l"];
const OBJECTS: [&str; 14] = [
    "*", "p/*", "p/a*", "p/ab*", "p/abc*", "q*", "p/a", "p/ab", "p/abc", "q/é", "p/a*c", "*/a*",
    "p/*b*", "q/é*é",
];
const NAMES: [&str; 9] = ["p/a", "p/ab", "p/abc", "p/abcc", "p/x", "q/é", "q/éxé", "q/è", "r/ab"];

fn span(random: &mut Random) -> Span {
    match random.below(5) {
        0 => Span::WHOLE,
        1 => Span::new(random.below(64), Span::END).unwrap(),
        _ => {
            let start = random.below(64);
            let longest = 1 << (1 + random.below(6));
            Span::new(start, start + 1 + random.below(longest)).unwrap()
        }
    }
}

fn home(random: &mut Random) -> Option<TargetName> {
    random.one_in(3).then(|| TargetName::new(pick(random, &["osd.1", "osd.2"])).unwrap())
}

fn header(random: &mut Random) -> Header {
    let some = Operation::ALL.into_iter().filter(|_| random.one_in(2)).collect::<Vec<_>>();
    Header {
        source: SourceMatch::parse(pick(random, &SOURCES)).unwrap(),
        operations: Operations::of(some).unwrap_or(Operations::ALL),
        object: ObjectMatch::parse(pick(random, &OBJECTS)).unwrap(),
        span: span(random),
        home: home(random),
    }
}

fn rule(random: &mut Random) -> Rule {
    Rule {
        header: header(random),
        destination: Destination::Home,
        options: Options::default(),
        application: ApplicationName::new("test").unwrap(),
    }
}

fn io(random: &mut Random) -> Io {
    Io {
        source: EntityName::new(pick(random, &["a", "b", "c"])).unwrap(),
        tenant: TenantName::new(pick(random, &["t", "u"])).unwrap(),
        via: random.one_in(3).then(|| LayerName::new(pick(random, &["l", "m"])).unwrap()),
        operation: Operation::ALL[random.below(4) as usize],
        object: pick(random, &NAMES).parse().unwrap(),
        span: (!random.one_in(8)).then(|| span(random)),
        home: home(random),
    }
}

#[test]
fn the_table_and_the_linear_matcher_agree() {
    let (mut compared, mut split) = (0, 0);
    let count = CASES.each(120, |seed| {
        let mut random = Random::seeded(seed);
        let mut table = RuleTable::default();
        for _ in 0..120 {
            match random.below(5) {
                4 => {
                    let object = pick(&mut random, &NAMES).parse().unwrap();
                    let destination =
                        Destination::Pool(pick(&mut random, &["p", "q"]).parse().unwrap());
                    let application = ApplicationName::new("test").unwrap();
                    let span = span(&mut random);
                    let placed = Placement { span, destination: destination.clone(), application };
                    table.place(&object, placed).unwrap();
                    let read = Io {
                        operation: Operation::Read,
                        object,
                        span: Some(span),
                        ..io(&mut random)
                    };
                    let ways = table.route(&read).unwrap();
                    let is_there = |s: &Segment| {
                        table.get(s.rule.unwrap()).unwrap().destination == destination
                    };
                    assert!(ways.iter().all(is_there), "reads follow the write");
                }
                0 => {
                    let installed: Vec<_> = table.rules().map(|(_, r)| r.header.clone()).collect();
                    if let Some(header) = random.pick(&installed) {
                        let count = installed.iter().filter(|other| *other == header).count();
                        assert_eq!(table.delete(header).len(), count);
                    }
                }
                1 | 2 => {
                    let rules = (0..1 + random.below(3)).map(|_| rule(&mut random)).collect();
                    table.insert(rules).unwrap();
                }
                _ => {
                    let io = io(&mut random);
                    let found = table.route(&io).unwrap();
                    assert_eq!(found, linear(&table, &io), "{io}");
                    let placed = table.all_placed().map(|(_, rule)| rule.header.span.length());
                    assert_eq!(table.placed_bytes(), placed.fold(0, u64::saturating_add));
                    compared += 1;
                    split += u32::from(found.len() > 1);
                }
            }
        }
        let headers: Vec<_> = table.rules().map(|(_, rule)| rule.header.clone()).collect();
        headers.iter().for_each(|header| drop(table.delete(header)));
        assert!(table.is_empty());
        let io = io(&mut random);
        assert_eq!(table.route(&io).unwrap(), linear(&table, &io), "an emptied table");
    });
    println!("{count} seeds: {compared} IOs compared, {split} of them split");
    assert!(count < 100 || split > 100);
}

#[test]
fn rules_about_a_hundred_thousand_ranges_of_one_object_are_found_and_deleted() {
    let mut table = RuleTable::default();
    let of = |n: u64| {
        let header = format!("* r p/a {}..{}", n * 4096, (n + 1) * 4096);
        Header::parse(&header.split(' ').collect::<Vec<_>>()).unwrap()
    };
    let rules = (0..100_000).map(|n| Rule { header: of(n), ..rule(&mut Random::seeded(0)) });
    table.insert(rules.collect()).unwrap();
    let mut random = Random::seeded(7);
    for _ in 0..1000 {
        let n = random.below(100_000);
        let io = Io::parse(&format!("r p/a {}..{}", n * 4096 + 5, n * 4096 + 6)).unwrap();
        let rule = table.route(&io).unwrap()[0].rule;
        let found = rule.and_then(|rule| table.get(rule)).map(|rule| rule.header.clone());
        match table.delete(&of(n)).len() {
            0 => assert_eq!(found, None),
            _ => assert_eq!(found, Some(of(n))),
        }
    }
}
