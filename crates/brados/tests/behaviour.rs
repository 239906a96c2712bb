//! What programs do, request by request and in every layout: `tests/behaviour/*.txt`.
//!
//! A case is a program, a line of dashes, and a script of requests on one object.

mod support;

use std::fs;

use nacre_brados::Script;

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
fn programs_do_what_the_cases_say() {
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
