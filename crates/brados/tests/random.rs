//! Random programs and random requests: generated classes reply, store and send what the reference
//! interpreter does, and aggregates that are kept up to date equal those that are computed.
//!
//! `NACRE_SEEDS=n` tries n times as many programs, `NACRE_SEED=s` one again.

mod support;

use std::collections::BTreeMap;

use nacre_brados::ir::Body;
use nacre_brados::{MergeOp, Value, compile, decode_reply, shown_reply};
use nacre_clock::Random;
use nacre_conformance::SeedCases;

use support::generator::Generated;
use support::reference::Reference;
use support::{Subject, shown};

const CASES: SeedCases =
    SeedCases { file: "tests/random_seeds.txt", text: include_str!("random_seeds.txt") };
const PROGRAMS: u64 = 300;
const REQUESTS: usize = 30;

/// What the programs of a run contained.
type Seen = BTreeMap<&'static str, usize>;

fn note(seen: &mut Seen, compiled: &nacre_brados::Compiled) {
    let mut count = |what, number: usize| *seen.entry(what).or_default() += number;
    count("programs", 1);
    count("kept aggregates", compiled.plan.views.len());
    let recursive = compiled.analysis.strata.iter().filter(|stratum| stratum.is_recursive);
    count("recursions", recursive.count());
    for rule in &compiled.analysis.program.rules {
        match &rule.body {
            Body::Group(_) => count("groups", 1),
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

/// Runs one seed's program; `false` if it does not compile.
fn run(seed: u64, seen: &mut Seen) -> bool {
    let mut random = Random::seeded(seed);
    let program = Generated::new(&mut random);
    let Ok(compiled) = compile(&program.source) else { return false };
    note(seen, &compiled);
    let subjects = [Subject::new(&program.source), Subject::on_stock(&program.source)];
    let mut reference = Reference::new(&compiled.analysis);
    let mut trace = String::new();
    for _ in 0..REQUESTS {
        let (method, row) = program.request(&mut random);
        let values: Vec<_> = row.iter().map(Value::to_string).collect();
        trace.push_str(&format!("    {method} {}\n", values.join(", ")));
        let expected = reference.request(&method, &row);
        *seen.entry("failures").or_default() += usize::from(expected.is_err());
        for subject in &subjects {
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
                "{}\n{trace}  expected {wanted}\n  but      {} {:?}",
                program.source,
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
    for subject in &subjects {
        assert_eq!(messages(subject), sent, "{}\n{trace}", program.source);
    }
    true
}

#[test]
fn random_programs_mean_what_the_reference_says() {
    let mut seen = Seen::new();
    let mut compiled = 0;
    let tried = CASES.each(PROGRAMS, |seed| compiled += usize::from(run(seed, &mut seen)));
    println!("{tried} programs, of which {compiled} compile: {seen:?}");
    if tried >= PROGRAMS as usize {
        assert!(compiled * 3 > tried, "of {tried} programs only {compiled} compile");
        for what in [
            "kept aggregates",
            "recursions",
            "groups",
            "argmax",
            "literals",
            "joins",
            "notin",
            "<+",
            "<-",
            "<+-",
            "<~",
            "failures",
        ] {
            assert!(seen.get(what).is_some_and(|count| *count > 5), "{what}: too few in {seen:?}");
        }
    }
}
