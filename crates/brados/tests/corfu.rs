//! Runs the test cases of the CORFU storage interface (`storage_cases.txt` of `crates/log`) on the
//! Brados program `log`. `crates/log` runs the same cases on the native class and on the Lua
//! program. This test leaves out cases that damage an object or send another encoding. It sends the
//! requests of a batch one at a time.

mod support;

use nacre_brados::{Value, check};
use nacre_calls::OutputRows;
use support::{Subject, in_layouts};

const PROGRAM: &str = include_str!("../../../programs/class/log.brados");
const CASES: &str = include_str!("../../log/tests/suite/storage_cases.txt");

/// Layouts that are tried.
const MAX_LAYOUTS: usize = 8;
/// Steps that read or change the stored form of an object. The Brados class stores objects in
/// another form, so this test skips these steps.
const NATIVE_STEPS: [&str; 6] = ["create", "header", "flip-header", "entry", "key", "fill-map"];
/// Steps about encodings, and about the number of stored entries. This test skips them.
const SKIPPED_STEPS: [&str; 3] = ["raw", "entries", "read_batch"];

fn status_name(status: i64) -> String {
    let name = match status {
        0 => "ok",
        -2 => "ENOENT",
        -22 => "EINVAL",
        -29 => "ESPIPE",
        -30 => "EROFS",
        -34 => "ERANGE",
        -61 => "ENODATA",
        other => return other.to_string(),
    };
    name.to_owned()
}

fn only<'a>(outputs: &'a [OutputRows], name: &str) -> Option<&'a Value> {
    let rows = outputs.iter().find(|(own, _)| own == name).map(|(_, rows)| rows)?;
    assert_eq!(rows.len(), 1);
    rows[0].first()
}

/// The outcome of an operation, in the words of the cases.
fn outcome(subject: &Subject, method: &str, row: &[Value]) -> String {
    let outputs = subject.call(method, row).unwrap_or_else(|error| panic!("{method}: {error}"));
    if let Some(Value::Bytes(data)) = only(&outputs, "entry") {
        return format!("\"{}\"", String::from_utf8_lossy(data));
    }
    match (method, only(&outputs, "ret"), only(&outputs, "max")) {
        ("seal" | "max_position", Some(Value::Int(0)), Some(max)) => max.to_string(),
        ("seal" | "max_position", Some(Value::Int(0)), None) => "none".to_owned(),
        ("trim_to", Some(Value::Int(0)), _) if only(&outputs, "left").is_some() => {
            "left".to_owned()
        }
        ("trim_to", Some(Value::Int(0)), _) => "done".to_owned(),
        (_, Some(Value::Int(status)), _) => status_name(*status),
        other => panic!("{method} replied {other:?}"),
    }
}

fn number(text: &str) -> Option<Value> {
    let number: i64 = text.parse().ok()?;
    (number <= nacre_brados::limits::MAX_INTEGER).then_some(Value::Int(number))
}

fn data(text: &str) -> Value {
    Value::text(text.trim_matches('"'))
}

/// The requests for a step of a case, one for each entry if the step is a batch. `None` if the step
/// has a number that Brados cannot represent.
fn requests<'a>(method: &'a str, words: &[&str]) -> Option<Vec<(&'a str, Vec<Value>)>> {
    let numbers = || words.iter().map(|word| number(word)).collect::<Option<Vec<_>>>();
    Some(match method {
        "write" => vec![(method, vec![number(words[0])?, number(words[1])?, data(words[2])])],
        "max_position" => vec![(method, vec![Value::Nil])],
        "write_batch" => {
            let epoch = number(words[0])?;
            let entries = words[1..].chunks(2).map(|entry| {
                Some(("write", vec![epoch.clone(), number(entry[0])?, data(entry[1])]))
            });
            entries.collect::<Option<_>>()?
        }
        "fill_batch" => {
            let numbers = numbers()?;
            let fill = |pos: &Value| ("fill", vec![numbers[0].clone(), pos.clone()]);
            numbers[1..].iter().map(fill).collect()
        }
        _ => vec![(method, numbers()?)],
    })
}

/// The words of a step; texts in quotes have no blanks.
fn step(line: &str) -> Option<(&str, Vec<&str>, &str)> {
    let (request, expected) = line.split_once(" -> ")?;
    let mut words = request.split_whitespace();
    Some((words.next()?, words.collect(), expected.trim()))
}

fn run(case: &str, subject: &Subject) -> usize {
    let steps: Vec<_> = case.lines().skip(1).filter_map(step).collect();
    if steps.iter().any(|(method, ..)| NATIVE_STEPS.contains(method)) {
        return 0;
    }
    let mut done = 0;
    for (method, words, expected) in steps {
        if SKIPPED_STEPS.contains(&method) {
            continue;
        }
        let Some(requests) = requests(method, &words) else { continue };
        let outcomes: Vec<_> =
            requests.iter().map(|(method, row)| outcome(subject, method, row)).collect();
        let wanted: Vec<_> = expected.split_whitespace().collect();
        // A batch that is refused as a whole has one outcome for all its requests.
        let agrees = outcomes.iter().enumerate().all(|(at, got)| {
            let wanted = wanted.get(at).unwrap_or(&wanted[0]);
            // The class may find out only at the next request that nothing is left.
            got == wanted || (got == "left" && *wanted == "done")
        });
        assert!(
            agrees,
            "{}\n  {method} {words:?} -> {expected}\n  but {outcomes:?}",
            case.lines().next().unwrap()
        );
        done += 1;
    }
    done
}

#[test]
fn the_brados_log_passes_the_test_cases_of_the_native_log() {
    for warning in check(PROGRAM) {
        println!("{}", warning.render("log.brados", PROGRAM));
    }
    let done: usize = CASES
        .split("\n== ")
        .skip(1)
        .flat_map(|case| {
            in_layouts(PROGRAM, MAX_LAYOUTS).into_iter().map(move |source| (case, source))
        })
        .map(|(case, source)| {
            run(case, &Subject::new(&source)) + run(case, &Subject::on_stock(&source))
        })
        .sum();
    assert!(done > 1500, "only {done} steps were run");
}
