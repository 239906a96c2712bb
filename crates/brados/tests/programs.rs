//! Tests the standard library: runs every `programs/class/*.test` on its program, with the
//! `objclass` of nacre and with that of stock Ceph. Also checks that the table in
//! `programs/README.md` agrees with the programs.

mod support;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use nacre_brados::plan::{Access, MethodPlan, Relation, Step};
use nacre_brados::{Case, Compiled, Script, Value, compile, format};
use nacre_calls::OutputRows;

use support::{Subject, in_layouts, shown};

const PROGRAMS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../programs");

/// Layouts of each program that are tried.
const MAX_LAYOUTS: usize = 4;
/// What comes of requests that are refused.
const FAILURES: [&str; 3] = ["conflict", "invalid", "fault"];

fn files(extension: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(format!("{PROGRAMS}/class")).unwrap();
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|own| own == extension));
    paths.sort();
    paths
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn compiled(path: &Path) -> Compiled {
    let source = read(path);
    compile(&source)
        .unwrap_or_else(|errors| panic!("{}", errors.render(&path.to_string_lossy(), &source)))
}

fn script(path: &Path) -> Script {
    Script::parse(&read(path)).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Runs a case, up to the first request with an unexpected outcome.
fn run(subject: &Subject, case: &Case, path: &Path) -> Option<String> {
    case.steps.iter().find_map(|step| {
        let outcome = subject.step(step);
        let (expected, got) = (step.expected.to_string(), shown(&outcome));
        let error = outcome.err().map(|error| error.to_string()).unwrap_or_default();
        let place = format!("{}:{}", path.display(), step.line);
        (expected != got)
            .then(|| format!("{place}: {}\n  {}\n  got {got} {error}", case.name, step.text))
    })
}

#[test]
fn the_librarys_programs_pass_their_scripts() {
    let mut failures = vec![];
    let mut cases = 0;
    for path in files("test") {
        let source = read(&path.with_extension("brados"));
        for case in &script(&path).cases {
            cases += 1;
            for source in in_layouts(&source, MAX_LAYOUTS) {
                for subject in [Subject::new(&source), Subject::on_stock(&source)] {
                    let failure = run(&subject, case, &path);
                    failures.extend(failure.map(|failure| format!("{failure}\n{source}")));
                }
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(cases > 0, "no case was found");
}

#[test]
fn scripts_call_every_method_and_include_refused_requests() {
    for path in files("test") {
        let compiled = compiled(&path.with_extension("brados"));
        let script = script(&path);
        let steps = || script.cases.iter().flat_map(|case| &case.steps);
        let asked: BTreeSet<_> = steps().map(|step| step.method.as_str()).collect();
        for method in &compiled.plan.methods {
            let method = method_name(&compiled, method);
            assert!(asked.contains(method), "{} asks no `{method}`", path.display());
        }
        let refuses = steps().any(|step| FAILURES.contains(&step.expected.to_string().as_str()));
        assert!(refuses, "{} sees no request fail", path.display());
    }
}

#[test]
fn only_methods_listed_in_the_readme_read_whole_tables() {
    let readme = read(Path::new(&format!("{PROGRAMS}/README.md")));
    let rows: Vec<_> = readme.lines().filter_map(row).collect();
    assert!(!rows.is_empty(), "the table of programs was not found");
    for (program, scans) in rows {
        let path = PathBuf::from(format!("{PROGRAMS}/class/{program}.brados"));
        assert!(path.with_extension("test").exists(), "{program} has no script");
        let compiled = compiled(&path);
        let scanning = compiled.plan.methods.iter().filter(|method| reads_a_whole_table(method));
        let names: Vec<_> = scanning.map(|method| method_name(&compiled, method)).collect();
        assert_eq!(names, scans, "methods of {program} that read a whole table");
    }
}

/// Parses a line of the README's table of classes. Returns the program, and the methods that read
/// whole tables, which are in the last column.
fn row(line: &str) -> Option<(&str, Vec<&str>)> {
    let (program, rest) = line.strip_prefix("| [`")?.split_once('`')?;
    let rest = rest.strip_prefix("](class/")?;
    let scans = rest.trim_end().trim_end_matches('|').rsplit_once('|')?.1.trim();
    let scans = scans.split_once(": ").map_or(scans, |(methods, _)| methods);
    let words = scans.split(", ").filter(|word| *word != "–");
    Some((program, words.map(|word| word.trim_matches('`')).collect()))
}

fn method_name<'a>(compiled: &'a Compiled, method: &MethodPlan) -> &'a str {
    &compiled.analysis.program.collection(method.input).name
}

fn reads_a_whole_table(method: &MethodPlan) -> bool {
    method.rules().any(|plan| {
        plan.steps.iter().any(|step| match step {
            Step::Bind { source, access } => is_scan(plan.sources[*source], access),
            Step::Absent { relation, access, .. } => is_scan(*relation, access),
            Step::Filter(_) => false,
        })
    })
}

fn is_scan(relation: Relation, access: &Access) -> bool {
    matches!((relation, access), (Relation::Stored(_) | Relation::View(_), Access::Scan))
}

#[test]
fn the_librarys_programs_only_warn_of_whole_table_reads() {
    for path in files("test") {
        let path = path.with_extension("brados");
        let source = read(&path);
        for warning in compiled(&path).warnings {
            let text = warning.summary();
            let is_listing = text.contains("reads every row") || text.contains("pairs every row");
            assert!(is_listing, "{}", warning.render(&path.to_string_lossy(), &source));
        }
    }
}

#[test]
fn programs_are_formatted() {
    for path in files("brados") {
        let source = read(&path);
        let formatted = format(&source).unwrap();
        let differing = source.lines().zip(formatted.lines()).find(|(own, tidy)| own != tidy);
        assert!(source == formatted, "{}: {differing:?}", path.display());
    }
}

/// The reply of a program's method to a row of numbers, as scripts write it.
fn reply(subject: &Subject, method: &str, numbers: &[i64]) -> Vec<OutputRows> {
    let row: Vec<_> = numbers.iter().map(|number| Value::Int(*number)).collect();
    subject.call(method, &row).unwrap_or_else(|error| panic!("{method} {numbers:?}: {error}"))
}

/// The numbers in the first column of an output.
fn numbers(reply: &[OutputRows], output: &str) -> Vec<i64> {
    let rows = reply.iter().filter(|(name, _)| name == output).flat_map(|(_, rows)| rows);
    let number = |row: &Vec<Value>| match row[0] {
        Value::Int(number) => number,
        ref other => panic!("{other} is no number"),
    };
    rows.map(number).collect()
}

#[test]
fn a_long_log_is_listed_and_trimmed_block_by_block() {
    const ENTRIES: i64 = 700;
    let log = Subject::new(&read(Path::new(&format!("{PROGRAMS}/class/timelog.brados"))));
    let text = || Value::text("x");
    for at in 1..=ENTRIES {
        log.call("add", &[Value::Int(at), text(), text(), text()]).unwrap();
    }
    let listed = || {
        let (mut ids, mut after) = (vec![], Some(0));
        while let Some(from) = after {
            let page = reply(&log, "list", &[0, ENTRIES + 1, from]);
            ids.extend(numbers(&page, "entry"));
            after = numbers(&page, "more").first().copied();
        }
        ids
    };
    assert_eq!(listed(), (1..=ENTRIES).collect::<Vec<_>>());
    let mut requests = 0;
    while reply(&log, "trim", &[600])[0].1[0][0] == Value::text("ok") {
        requests += 1;
    }
    assert_eq!(listed(), (600..=ENTRIES).collect::<Vec<_>>());
    assert_eq!(requests, 3, "a block a request");
}

#[test]
fn a_long_queue_is_read_and_removed_in_parts() {
    const ENTRIES: i64 = 700;
    let queue = Subject::new(&read(Path::new(&format!("{PROGRAMS}/class/queue.brados"))));
    reply(&queue, "init", &[ENTRIES]);
    for at in 0..ENTRIES {
        queue.call("enqueue", &[Value::text("p"), Value::Int(at), Value::text("x")]).unwrap();
    }
    let (mut found, mut from) = (vec![], 0);
    while from < ENTRIES {
        let page = reply(&queue, "list", &[from, 256]);
        found.extend(numbers(&page, "entry"));
        from = numbers(&page, "next")[0];
    }
    assert_eq!(found, (0..ENTRIES).collect::<Vec<_>>());
    let heads = [(); 4].map(|()| numbers(&reply(&queue, "remove", &[ENTRIES]), "next")[0]);
    assert_eq!(heads, [256, 512, 700, 700]);
    assert!(queue.keys().iter().all(|key| !key.starts_with(b"stored.")), "an entry is left");
}

#[test]
fn a_write_after_a_failed_assertion_is_not_done() {
    let object = Subject::new(&read(Path::new(&format!("{PROGRAMS}/class/lock.brados"))));
    let [lock, owner, cookie, mode] = ["l", "a", "1", "exclusive"].map(Value::text);
    let [now, duration] = [Value::Int(100), Value::Int(10)];
    let asserted = [lock.clone(), owner.clone(), cookie.clone(), mode.clone(), now.clone()];
    let error = object.write_after("assert", &asserted, b"x").unwrap_err();
    assert_eq!(error.kind().as_str(), "conflict");
    assert_eq!(object.size(), 0);
    object.call("lock", &[lock, owner, cookie, mode, Value::text(""), duration, now]).unwrap();
    object.write_after("assert", &asserted, b"x").unwrap();
    assert_eq!(object.size(), 1);
}
