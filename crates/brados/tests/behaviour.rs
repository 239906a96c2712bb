//! Runs the cases in `tests/behaviour/*.txt`, which say what programs do, request by request. Each
//! case runs in every layout.
//!
//! A case is a program, a line of dashes, and a script of requests on one object.

mod support;

use std::fs;

use nacre_brados::{Script, Value};

use support::{Subject, cases, in_layouts, shown};

/// Layouts of each program that are tried.
const MAX_LAYOUTS: usize = 24;

fn run(name: &str, program: &str, script: &str) -> Result<(), String> {
    let script =
        Script::parse(&format!("== {name}\n{script}")).map_err(|error| error.to_string())?;
    for source in in_layouts(program, MAX_LAYOUTS) {
        for subject in [Subject::new(&source), Subject::on_stock(&source)] {
            run_on(&subject, &script).map_err(|error| format!("{error}\n{source}"))?;
        }
    }
    Ok(())
}

fn run_on(subject: &Subject, script: &Script) -> Result<(), String> {
    for step in script.cases.iter().flat_map(|case| &case.steps) {
        let outcome = subject.step(step);
        let (expected, got) = (step.expected.to_string(), shown(&outcome));
        if expected != got {
            let error = outcome.err().map(|error| error.to_string()).unwrap_or_default();
            return Err(format!("{}\n    got {got} {error}", step.text));
        }
    }
    Ok(())
}

#[test]
fn programs_behave_as_their_cases_say() {
    let mut failures = vec![];
    let mut count = 0;
    for entry in fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/behaviour")).unwrap() {
        let path = entry.unwrap().path();
        let text = fs::read_to_string(&path).unwrap();
        for (name, program, script) in cases(&text) {
            count += 1;
            if let Err(failure) = run(&name, &program, &script) {
                failures.push(format!("{}: {name}\n  {failure}", path.display()));
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(count > 15, "only {count} cases were found");
}

/// A program whose rules can give two different rows the same key. Three kinds of collection can
/// have such a conflict: a scratch with a key (`best`), a scratch of a single row (`few`), and a
/// table whose new rows are merged at the end of the request (`best_of`).
const CONFLICTS: &str = "state do
  table :link, [:from:int, :to:string, :nxt:int]
  table :best_of, [:from:int] => [:nxt:int]
  scratch :best, [:from, :to] => [:nxt]
  scratch :few, [] => [:n]
  interface input, :add, [:from:int, :to:string, :nxt:int]
  interface input, :ask, [:unused:int]
  interface input, :twice, [:n:int]
  interface input, :keep, [:from:int, :nxt:int]
  interface output, :ret, [:from:int, :to:string, :nxt:int]
  interface output, :n, [:n:int]
end
bloom do
  link <+ add
  best <= link
  ret <= (ask * best).rights
  few <= twice{|t| [t.n]}
  few <= twice{|t| [t.n + 1]}
  n <= (twice * few).rights
  best_of <+ keep
end
";

#[test]
fn a_conflict_is_reported_with_the_key_and_both_rows() {
    for source in in_layouts(CONFLICTS, 6) {
        let subject = Subject::new(&source);
        let text = Value::text;
        for nxt in [3, 4] {
            subject.call("add", &[Value::Int(1), text("grün"), Value::Int(nxt)]).unwrap();
        }
        subject.call("keep", &[Value::Int(7), Value::Int(1)]).unwrap();
        for (method, row, told) in [
            ("ask", vec![Value::Int(0)], "two rows of best have the key (1, 'grün'): (3) and (4)"),
            ("twice", vec![Value::Int(5)], "two rows of few have the key (): (5) and (6)"),
            (
                "keep",
                vec![Value::Int(7), Value::Int(2)],
                "two rows of best_of have the key (7): (1) and (2)",
            ),
        ] {
            let error = subject.call(method, &row).unwrap_err();
            assert_eq!(error.kind(), nacre_object::ErrorKind::Conflict, "{error}");
            // In another layout the class may read the rows of a table in another order.
            let told = told.split([':', ' ']).filter(|word| *word != "and");
            assert!(told.into_iter().all(|word| error.message().contains(word)), "{error}");
        }
    }
}
