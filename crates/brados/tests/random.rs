//! Runs random programs with random requests. In any layout and during migrations, the generated
//! classes must give the same replies, tables and messages as the reference interpreter. Stored
//! aggregates must equal those that are computed anew.
//!
//! `NACRE_SEEDS=n` tries n times as many programs; `NACRE_SEED=s` tries only the program of seed
//! `s`.

mod support;

use std::collections::BTreeMap;

use nacre_brados::ir::Body;
use nacre_brados::layout::{Choices, IndexLocation, TableLocation};
use nacre_brados::{Compiled, Kind, Layout, MergeOp, Value, compile, shown_reply, with_layout};
use nacre_calls::decode_reply;
use nacre_clock::Random;
use nacre_conformance::SeedCases;

use support::generator::Generated;
use support::reference::Reference;
use support::{Subject, shown};

const CASES: SeedCases =
    SeedCases { file: "tests/random_seeds.txt", text: include_str!("random_seeds.txt") };
const PROGRAMS: u64 = 200;
const REQUESTS: usize = 30;

/// What the programs of a run contained.
type Seen = BTreeMap<&'static str, usize>;

fn note(seen: &mut Seen, compiled: &nacre_brados::Compiled) {
    let mut count = |what, number: usize| *seen.entry(what).or_default() += number;
    count("programs", 1);
    count("kept aggregates", compiled.plan.views.len());
    let ends = compiled.plan.views.iter().filter(|view| view.edge.is_some());
    count("ends of tables", ends.count());
    let recursive = compiled.analysis.strata.iter().filter(|stratum| stratum.is_recursive);
    count("recursions", recursive.count());
    for rule in &compiled.analysis.program.rules {
        match &rule.body {
            Body::Group(_) => {
                let head = compiled.analysis.program.collection(rule.head);
                count("groups", 1);
                count("groups in a scratch", usize::from(head.kind == Kind::Scratch));
            }
            Body::Extreme(_) => count("argmax", 1),
            Body::Literal(_) => count("literals", 1),
            Body::Select(select) => {
                count("joins", usize::from(select.sources.len() > 1));
                count("notin", select.absences.len());
            }
        }
        match rule.op {
            MergeOp::Now => {}
            MergeOp::Insert => count("<+", 1),
            MergeOp::Delete => count("<-", 1),
            MergeOp::Replace => count("<+-", 1),
            MergeOp::Send => count("<~", 1),
        }
    }
}

/// The messages that wait, as scripts write them.
fn messages(subject: &Subject) -> Vec<String> {
    let waiting = subject.call("channel_messages", &[]).expect("they can be asked for");
    let rows = waiting.into_iter().flat_map(|(_, rows)| rows);
    rows.map(|row| match row.as_slice() {
        [_, Value::Bytes(body)] => shown_reply(&decode_reply(body).expect("a message is a reply")),
        other => panic!("a message is {other:?}"),
    })
    .collect()
}

/// The seed for layouts. With a separate seed, layouts do not change the programs and requests of a
/// seed.
const LAYOUT_SEED: u64 = 0x6c61_796f_7574;
/// Two widths of slots in bytes. The first is too small for some rows, the second is large enough
/// for most.
const SLOT_BYTES: [u32; 2] = [6, 24];

/// A layout that is legal for a program, other than in the map if there is one.
fn layout(compiled: &Compiled, random: &mut Random, seen: &mut Seen) -> Layout {
    let choices = Choices::of(compiled, &SLOT_BYTES);
    let layout = random.pick(&choices.layouts[1..]).cloned().unwrap_or_default();
    for (_, place) in layout.tables() {
        let what = match place {
            TableLocation::Map => "map",
            TableLocation::Slots { .. } => "slots",
            TableLocation::Appended(IndexLocation::Map) => "appended, index in the map",
            TableLocation::Appended(IndexLocation::Stream { .. }) => {
                "appended, index in the stream"
            }
        };
        *seen.entry(what).or_default() += 1;
    }
    layout
}

/// In how many layouts an object may be, one after another.
const MAX_LAYOUTS: usize = 5;

/// An object that goes from layout to layout.
struct Wanderer {
    subject: Subject,
    /// Where it was, the last one first.
    layouts: Vec<Layout>,
}

impl Wanderer {
    fn new(source: &str, is_stock: bool) -> Self {
        let subject = if is_stock { Subject::on_stock(source) } else { Subject::new(source) };
        Self { subject, layouts: vec![Layout::default()] }
    }

    /// Now and then the program gets another layout, or a step of the migration is done.
    fn wander(&mut self, compiled: &Compiled, source: &str, random: &mut Random, seen: &mut Seen) {
        if random.one_in(6) {
            if self.layouts.len() == MAX_LAYOUTS {
                while self.subject.migrate() {}
                self.layouts.truncate(1);
            }
            let next = layout(compiled, random, seen);
            self.layouts.retain(|layout| *layout != next);
            self.layouts.insert(0, next);
            let (present, former) = self.layouts.split_first().expect("there is one");
            let source = with_layout(source, present, former);
            match random.one_in(3) {
                true => self.subject.becomes(&source),
                false => self.subject.becomes_slow(&source),
            }
            *seen.entry("changes of layout").or_default() += 1;
        } else if random.one_in(2) && self.layouts.len() > 1 {
            *seen.entry("steps of migrations").or_default() += 1;
            let is_moving = self.subject.migrate();
            *seen.entry("migrations under way").or_default() += usize::from(is_moving);
        }
    }
}

/// Runs one seed's program; `false` if it does not compile.
fn run(seed: u64, seen: &mut Seen) -> bool {
    let mut random = Random::seeded(seed);
    let program = Generated::new(&mut random);
    let Ok(compiled) = compile(&program.source) else { return false };
    note(seen, &compiled);
    let mut other = Random::seeded(seed ^ LAYOUT_SEED);
    let elsewhere = with_layout(&program.source, &layout(&compiled, &mut other, seen), &[]);
    let subjects = match other.one_in(2) {
        true => [Subject::new(&program.source), Subject::on_stock(&elsewhere)],
        false => [Subject::on_stock(&program.source), Subject::new(&elsewhere)],
    };
    let mut wanderer = Wanderer::new(&program.source, other.one_in(2));
    let mut reference = Reference::new(&compiled.analysis);
    let mut trace = String::new();
    for _ in 0..REQUESTS {
        let (method, row) = program.request(&mut random);
        let values: Vec<_> = row.iter().map(Value::to_string).collect();
        trace.push_str(&format!("    {method} {}\n", values.join(", ")));
        let expected = reference.request(&method, &row);
        *seen.entry("failures").or_default() += usize::from(expected.is_err());
        wanderer.wander(&compiled, &program.source, &mut other, seen);
        for subject in subjects.iter().chain([&wanderer.subject]) {
            let outcome = subject.call(&method, &row);
            let agrees = match (&expected, &outcome) {
                (Ok(expected), Ok(got)) => expected == got,
                (Err(_), Err(error)) => {
                    matches!(shown(&outcome).as_str(), "conflict" | "fault") || panic!("{error}")
                }
                _ => false,
            };
            let wanted = expected.as_ref().map_or("a failure".to_owned(), |rows| shown_reply(rows));
            assert!(
                agrees,
                "{}\n{elsewhere}\n{:?}\n{trace}  expected {wanted}\n  but      {} {:?}",
                program.source,
                wanderer.layouts,
                shown(&outcome),
                outcome.as_ref().err()
            );
        }
    }
    let sent: Vec<_> = reference
        .sent
        .iter()
        .map(|(name, row)| shown_reply(&[(name.clone(), vec![row.clone()])]))
        .collect();
    for subject in subjects.iter().chain([&wanderer.subject]) {
        assert_eq!(messages(subject), sent, "{}\n{trace}", program.source);
    }
    true
}

#[test]
fn random_programs_give_the_results_of_the_reference_interpreter() {
    let mut seen = Seen::new();
    let mut compiled = 0;
    let tried = CASES.each(PROGRAMS, |seed| compiled += usize::from(run(seed, &mut seen)));
    println!("{tried} programs, of which {compiled} compile: {seen:?}");
    if tried >= PROGRAMS as usize {
        assert!(compiled * 3 > tried, "of {tried} programs only {compiled} compile");
        for what in [
            "kept aggregates",
            "ends of tables",
            "recursions",
            "groups",
            "groups in a scratch",
            "argmax",
            "literals",
            "joins",
            "notin",
            "<+",
            "<-",
            "<+-",
            "<~",
            "failures",
            "slots",
            "appended, index in the map",
            "appended, index in the stream",
            "changes of layout",
            "steps of migrations",
            "migrations under way",
        ] {
            assert!(seen.get(what).is_some_and(|count| *count > 5), "{what}: too few in {seen:?}");
        }
    }
}
