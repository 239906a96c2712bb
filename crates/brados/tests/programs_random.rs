//! Runs the requests of the standard library's test scripts in random order.
//!
//! In any order, each reply must have exactly one status, and must equal the reply of a naive
//! interpreter of the program's rules. A request may fail with a conflict only if the script
//! contains that conflict.
//!
//! `NACRE_SEEDS=n` tries n times as many orders; `NACRE_SEED=s` tries only the order of seed `s`.

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

use nacre_brados::{Compiled, Expected, Script, Step, Value, compile, shown_reply};
use nacre_calls::OutputRows;
use nacre_clock::Random;
use nacre_conformance::SeedCases;

use support::reference::Reference;
use support::{Subject, in_layouts, shown};

const PROGRAMS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../programs/class");
const CASES: SeedCases = SeedCases {
    file: "tests/programs_random_seeds.txt",
    text: include_str!("programs_random_seeds.txt"),
};
/// Layouts of which each order has one.
const MAX_LAYOUTS: usize = 64;
const ORDERS: u64 = 6;
const REQUESTS: usize = 60;

/// A program, with data from its test script.
struct Program {
    name: String,
    source: String,
    compiled: Compiled,
    /// For each method, the rows of its requests in the script.
    rows: BTreeMap<String, Vec<Vec<Value>>>,
    /// The methods that reply a status. The next field has the methods that may fail with a
    /// conflict.
    telling: BTreeSet<String>,
    conflicting: BTreeSet<String>,
}

impl Program {
    fn read(path: PathBuf) -> Self {
        let source = fs::read_to_string(path.with_extension("brados")).unwrap();
        let compiled = compile(&source).unwrap();
        let script = Script::parse(&fs::read_to_string(&path).unwrap()).unwrap();
        let steps: Vec<_> = script.cases.into_iter().flat_map(|case| case.steps).collect();
        let methods = |is: &dyn Fn(&Step) -> bool| {
            steps.iter().filter(|step| is(step)).map(|step| step.method.clone()).collect()
        };
        let telling = methods(&|step| status(&step.expected).is_some());
        let conflicting =
            methods(&|step| step.expected == Expected::Failure("conflict".to_owned()));
        let mut rows: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for step in steps {
            let program = &compiled.analysis.program;
            let is_method = |input| program.collection(input).name == step.method;
            let is_row = !matches!(&step.expected, Expected::Failure(kind) if kind == "invalid");
            if is_row && compiled.plan.methods.iter().any(|method| is_method(method.input)) {
                rows.entry(step.method).or_default().push(step.row);
            }
        }
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        Self { name, source, compiled, rows, telling, conflicting }
    }

    /// A random method, and a row for it. Each column is taken from some request of the script.
    fn request(&self, random: &mut Random) -> (&str, Vec<Value>) {
        let methods: Vec<_> = self.rows.iter().collect();
        let (method, rows) = random.pick(&methods).unwrap();
        let width = rows[0].len();
        let row = (0..width).map(|at| random.pick(rows).unwrap()[at].clone()).collect();
        (method, row)
    }

    fn run(&self, seed: u64) {
        let mut random = Random::seeded(seed);
        let sources = in_layouts(&self.source, MAX_LAYOUTS);
        let subject = Subject::new(random.pick(&sources).unwrap());
        let mut reference = Reference::new(&self.compiled.analysis);
        let mut trace = String::new();
        for _ in 0..REQUESTS {
            let (method, row) = self.request(&mut random);
            let outcome = subject.call(method, &row);
            let expected = reference.request(method, &row);
            let values: Vec<_> = row.iter().map(Value::to_string).collect();
            trace.push_str(&format!("{method} {} -> {}\n", values.join(", "), shown(&outcome)));
            let place = || format!("{} with seed {seed}:\n{trace}", self.name);
            match (&outcome, &expected) {
                (Ok(reply), Ok(expected)) => {
                    assert_eq!(shown_reply(reply), shown_reply(expected), "{}", place());
                    let tells = reply.iter().any(|(output, _)| output == "ret");
                    assert!(tells || !self.telling.contains(method), "no status: {}", place());
                }
                (Err(_), Err(_)) => {
                    let is_conflict = shown(&outcome) == "conflict";
                    assert!(!is_conflict || self.conflicting.contains(method), "{}", place());
                }
                _ => panic!("the rules say {:?}: {}", expected.is_ok(), place()),
            }
        }
    }
}

fn status(expected: &Expected) -> Option<&OutputRows> {
    match expected {
        Expected::Reply(outputs) => outputs.iter().find(|(name, _)| name == "ret"),
        Expected::Failure(_) => None,
    }
}

#[test]
fn requests_in_any_order_give_the_results_of_a_naive_interpreter() {
    let paths = fs::read_dir(PROGRAMS).unwrap().map(|entry| entry.unwrap().path());
    let scripts = paths.filter(|path| path.extension().is_some_and(|own| own == "test"));
    let programs: Vec<_> = scripts.map(Program::read).collect();
    assert!(!programs.is_empty(), "no script was found");
    CASES.each(ORDERS, |seed| programs.iter().for_each(|program| program.run(seed)));
}
