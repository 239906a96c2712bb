//! Tests the diagnostics of programs with the cases in `tests/diagnostics/*.txt`.
//!
//! A case is a program, a line of dashes, and the expected diagnostics (none for a correct
//! program). A case without `state` has only rules; they use the collections of `prelude.brados`,
//! and lines are counted from the first rule. `UPDATE_EXPECT=1` writes the present diagnostics into
//! the cases; read them before you commit them.

mod support;

use std::fs;
use std::path::Path;

use nacre_brados::{Diagnostic, LineIndex, check};
use support::cases;

const PRELUDE: &str = include_str!("diagnostics/prelude.brados");

/// The program of a case, and the number of lines that the prelude adds to it.
fn program_of(text: &str) -> (String, u32) {
    if text.lines().any(|line| line.trim_start().starts_with("state"))
        || text.starts_with("# whole")
    {
        return (text.to_owned(), 0);
    }
    let before = format!("{PRELUDE}bloom do\n");
    let lines = before.lines().count() as u32;
    (format!("{before}{text}end\n"), lines)
}

fn said(program: &str, lines_before: u32) -> String {
    let index = LineIndex::new(program);
    let line = |offset: u32| match index.line(offset).checked_sub(lines_before) {
        Some(line) if line > 0 => line.to_string(),
        _ => "prelude".to_owned(),
    };
    let one = |diagnostic: &Diagnostic| {
        let column = index.place(program, diagnostic.span.start).column;
        let severity = diagnostic.severity.as_str();
        let mut text = format!(
            "{}:{column} {severity}: {}\n",
            line(diagnostic.span.start),
            diagnostic.message
        );
        for note in &diagnostic.notes {
            text.push_str(&format!("  note {}: {}\n", line(note.span.start), note.message));
        }
        if let Some(help) = &diagnostic.help {
            text.push_str(&format!("  help: {help}\n"));
        }
        text
    };
    check(program).iter().map(one).collect()
}

/// The content of a data file if all present diagnostics were expected.
fn as_it_is(text: &str) -> (String, usize) {
    let head = text.split("\n== ").next().unwrap_or_default();
    let mut out = head.trim_end().to_owned() + "\n";
    let all = cases(text);
    for (name, program, _) in &all {
        let (whole, lines_before) = program_of(program);
        out.push_str(&format!("\n== {name}\n{program}---\n{}", said(&whole, lines_before)));
    }
    (out, all.len())
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a person has the expected text written anew")]
fn programs_are_diagnosed_as_the_cases_say() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/diagnostics");
    let mut count = 0;
    let mut failures = vec![];
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "txt") {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        let (now, cases) = as_it_is(&text);
        count += cases;
        if std::env::var_os("UPDATE_EXPECT").is_some() {
            fs::write(&path, now).unwrap();
        } else if now != text {
            let line = now.lines().zip(text.lines()).position(|(now, then)| now != then);
            let line = line.unwrap_or_else(|| now.lines().count().min(text.lines().count()));
            let at = |text: &str| text.lines().nth(line).unwrap_or("(nothing)").to_owned();
            failures.push(format!(
                "{}:{}\n  expected {}\n  but      {}",
                path.display(),
                line + 1,
                at(&text),
                at(&now)
            ));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(count > 300, "only {count} cases were found");
}

#[test]
fn a_program_past_a_bound_is_refused_with_help() {
    let state = "state do\n  interface input, :ask, [:n:int]\n  interface output, :ret, [:n]\n";
    let scratches: String = (0..96).map(|n| format!("  scratch :s{n}, [:n:int]\n")).collect();
    let rules = "  ret <= ask\n".repeat(513);
    for (program, told) in [
        (format!("{state}{scratches}end\n"), "the program has too many collections"),
        (format!("{state}end\nbloom do\n{rules}end\n"), "513 rules are too many"),
        ("#".repeat(64 * 1024 + 1), "bytes; at most 65536 fit"),
    ] {
        let said = said(&program, 0);
        assert!(said.contains(told) && said.contains("help: "), "{told}: {said}");
    }
}
