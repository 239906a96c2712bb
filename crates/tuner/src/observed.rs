//! A workload from what a running class was asked.
//!
//! Counted are methods, the bytes of their requests, and, of some requests, what their columns hold
//! ([`nacre_class::CallsSeen`]). From that a workload is put together that asks alike:
//!
//! | observed | becomes |
//! |---|---|
//! | a method's requests of a size | a line of the mix, with as much weight |
//! | a number of which there are few, unless a table has its column for a key | the greatest |
//! | numbers that rise or hardly repeat, of the method that adds most rows | `next` |
//! | numbers among those, of another method | `used` |
//! | other numbers | `below` the greatest |
//! | texts | as long as they were, and as many different ones |
//!
//! What cannot be observed is assumed, and told with the workload.

use nacre_brados::ir::{CollectionId, Program};
use nacre_brados::{Base, Compiled, Kind, Value};
use nacre_class::{CallsSeen, ColumnSeen, MethodSeen};
use nacre_object::{Error, Result};

use crate::workload::{
    Column, Line, MAX_CONCURRENCY, MAX_DRAWN_BYTES, MAX_DRAWN_TEXTS, MAX_OBJECTS, Pattern, Workload,
};

/// Sizes of a method that are less than this share of its requests are left out.
const LEAST_SHARE: f64 = 0.02;
/// Numbers that rise as often as this, of all looked into, count up. Those of a few objects that take
/// turns rise less often than those of one; numbers in no order rise a few times and never again.
const RISING: f64 = 0.3;
/// Numbers that differ as often as this hardly repeat.
const FRESH: f64 = 0.6;
/// As many different numbers are few: they say which way, or which epoch, not which row.
const FEW: f64 = 8.0;
/// Rows of an object, where nobody has looked.
const ASSUMED_ROWS: u64 = 128;
/// Objects, where nobody has looked.
const ASSUMED_OBJECTS: u64 = 32;
/// Rows that an object is filled with: more make no other transactions.
const MAX_ROWS: u64 = 4096;
/// Weights of the mix add up to about this.
const WEIGHTS: f64 = 10_000.0;
/// What a request has for a column besides a text's own bytes, and for a number or a truth value.
const TEXT_BYTES: f64 = 5.0;
const NUMBER_BYTES: f64 = 9.0;
const WORD_BYTES: f64 = 1.0;

/// What is known of a class's objects.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Objects {
    /// How many there are.
    pub count: Option<u64>,
    /// How many rows one has, on average.
    pub rows: Option<u64>,
}

/// A workload that asks as was observed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Derived {
    /// The workload.
    pub workload: Workload,
    /// What was not observed.
    pub assumed: Vec<String>,
}

/// A method that was asked.
struct Asked<'a> {
    name: &'a str,
    seen: &'a MethodSeen,
    columns: Vec<Asking>,
    writes: bool,
    /// Whether it puts rows into a table that has room for many.
    grows: bool,
}

/// A column of a request.
struct Asking {
    base: Base,
    /// Whether it says which row, going by its name.
    is_key: bool,
}

/// The workload of a class that was asked this.
///
/// # Errors
/// `NotFound` if it was asked nothing.
pub fn workload_of(compiled: &Compiled, seen: &CallsSeen, objects: Objects) -> Result<Derived> {
    let asked: Vec<Asked<'_>> = asked(compiled, seen);
    if asked.is_empty() {
        return Err(Error::not_found("nothing is known of what the class is asked")
            .hint("its calls are counted from when it is first live on a node"));
    }
    let counting = counting_method(&asked);
    let columns = |method: &Asked<'_>| -> Vec<Column> {
        let role = match counting {
            Some(counting) if counting == method.name => Role::Counts,
            Some(_) => Role::Uses,
            None => Role::Alone,
        };
        let columns = method.columns.iter().zip(&method.seen.columns);
        columns.map(|(asking, column)| column_of(asking, column, role)).collect()
    };
    let all = seen.requests() as f64;
    let mix = asked.iter().flat_map(|method| lines(method, &columns(method), all)).collect();
    let rows = objects.rows.unwrap_or(ASSUMED_ROWS);
    let workload = Workload {
        objects: clamp(objects.count.unwrap_or(ASSUMED_OBJECTS), MAX_OBJECTS),
        concurrency: clamp(seen.concurrency().round() as u64, MAX_CONCURRENCY),
        fill: fill(&asked, columns, rows.clamp(1, MAX_ROWS)),
        mix,
    };
    Ok(Derived { workload, assumed: assumed(&asked, objects) })
}

/// What is in a workload though nobody has observed it.
fn assumed(asked: &[Asked<'_>], objects: Objects) -> Vec<String> {
    let mut assumed = vec![];
    if objects.rows.is_none() {
        assumed.push(format!("each object has {ASSUMED_ROWS} rows"));
    }
    if objects.count.is_none() {
        assumed.push(format!("there are {ASSUMED_OBJECTS} objects"));
    }
    assumed
        .push("objects are asked alike, and were filled by the requests that add rows".to_owned());
    let has_text = |method: &Asked<'_>| method.seen.columns.iter().any(|column| column.bytes > 0);
    if asked.iter().any(has_text) {
        assumed.push(
            "what texts say makes no difference, only how long and how many they are".to_owned(),
        );
    }
    assumed
}

fn clamp(number: u64, most: usize) -> usize {
    (number as usize).clamp(1, most)
}

fn asked<'a>(compiled: &Compiled, seen: &'a CallsSeen) -> Vec<Asked<'a>> {
    let program = &compiled.analysis.program;
    let plan = |name: &str| {
        let is_it = |input: CollectionId| program.collection(input).name == name;
        compiled.plan.methods.iter().find(|method| is_it(method.input))
    };
    let asked = seen.methods.iter().filter(|(_, seen)| seen.requests > 0);
    asked
        .filter_map(|(name, seen)| {
            let plan = plan(name)?;
            let (writes, grows) = (plan.writes(program), plan.grows(program));
            let columns = &program.collection(plan.input).columns;
            let asking = |column: &nacre_brados::ir::Column| Asking {
                base: column.ty.base,
                is_key: is_key(program, &column.name),
            };
            let columns = columns.iter().map(asking).collect();
            Some(Asked { name, seen, columns, writes, grows })
        })
        .collect()
}

/// Whether a table with room for many rows has a key column of this name.
fn is_key(program: &Program, name: &str) -> bool {
    program.of_kind(Kind::Table).any(|id| {
        let table = program.collection(id);
        let mut key = table.columns.iter().take(table.key_width);
        !table.is_singleton() && key.any(|column| column.name == name)
    })
}

/// The method whose numbers count up: the one that adds rows most often, if its numbers do.
fn counting_method<'a>(asked: &[Asked<'a>]) -> Option<&'a str> {
    let counts_up = |method: &&Asked<'_>| method.grows && method.seen.columns.iter().any(counts_up);
    let most = asked.iter().filter(counts_up).max_by_key(|method| method.seen.requests)?;
    Some(most.name)
}

fn counts_up(column: &ColumnSeen) -> bool {
    let Some((lowest, highest)) = column.range else { return false };
    let numbers = column.seen.saturating_sub(column.nils) as f64;
    let rises = column.risen as f64 >= RISING * numbers;
    let is_fresh = column.distinct() >= FRESH * numbers;
    lowest < highest && numbers > 1.0 && (rises || is_fresh)
}

/// What a method's numbers have to do with those that count up.
#[derive(Clone, Copy)]
enum Role {
    /// They are those.
    Counts,
    /// They may be some of those.
    Uses,
    /// None do.
    Alone,
}

fn column_of(asking: &Asking, seen: &ColumnSeen, role: Role) -> Column {
    if seen.nils == seen.seen {
        return Column::Is(Value::Nil);
    }
    let highest = seen.range.map_or(0, |(_, highest)| highest);
    let is_one_of_few = seen.distinct() <= if asking.is_key { 1.0 } else { FEW };
    match (asking.base, role) {
        (Base::String | Base::Bytes, _) => text_of(seen),
        (Base::Bool, _) => Column::Is(Value::Bool(highest == 1)),
        (Base::Int, Role::Counts) if counts_up(seen) => Column::Next,
        (Base::Int, _) if is_one_of_few || highest < 1 => Column::Is(Value::Int(highest)),
        (Base::Int, Role::Uses) => Column::Used,
        (Base::Int, _) => Column::Below(highest as u64 + 1),
    }
}

fn text_of(seen: &ColumnSeen) -> Column {
    let texts = (seen.seen - seen.nils).max(1) as f64;
    let bytes = ((seen.bytes as f64 / texts).round() as usize).clamp(1, MAX_DRAWN_BYTES as usize);
    let distinct = seen.distinct();
    match distinct {
        ..=1.0 => Column::Bytes(bytes),
        _ if distinct >= FRESH * texts => Column::Text { bytes, count: MAX_DRAWN_TEXTS },
        _ => Column::Text { bytes, count: distinct as u64 },
    }
}

/// The lines of a method: one for each size that its requests have.
fn lines(method: &Asked<'_>, columns: &[Column], all: f64) -> Vec<Line> {
    let requests = method.seen.requests as f64;
    let sizes: Vec<(f64, f64)> = sizes(method.seen);
    let line = |(bytes, count): (f64, f64)| {
        let weight = (count / all * WEIGHTS).round().max(1.0) as u64;
        let columns = sized(columns, bytes);
        Line { count: weight, request: Pattern { method: method.name.to_owned(), columns } }
    };
    match is_sized(columns) {
        true => sizes.into_iter().map(line).collect(),
        false => vec![line((0.0, requests))],
    }
}

fn is_sized(columns: &[Column]) -> bool {
    columns.iter().any(|column| text_bytes(column).is_some())
}

fn text_bytes(column: &Column) -> Option<usize> {
    match column {
        Column::Bytes(bytes) | Column::Text { bytes, .. } => Some(*bytes),
        _ => None,
    }
}

/// The sizes of a method's requests, each with how many had it: of a bucket what makes the sum come out
/// right, within its bounds.
fn sizes(seen: &MethodSeen) -> Vec<(f64, f64)> {
    let requests = seen.requests as f64;
    let buckets: Vec<(f64, f64)> = (0_i32..)
        .zip(&seen.sizes)
        .map(|(at, count)| (f64::from(at).exp2(), *count as f64))
        .filter(|(_, count)| *count >= LEAST_SHARE * requests && *count > 0.0)
        .collect();
    let middle = |bound: f64| 0.75 * bound;
    let sum: f64 = buckets.iter().map(|(bound, count)| middle(*bound) * count).sum();
    let scale = if sum > 0.0 { seen.bytes as f64 / sum } else { 1.0 };
    let size =
        |(bound, count): (f64, f64)| ((middle(bound) * scale).clamp(bound / 2.0, bound), count);
    buckets.into_iter().map(size).collect()
}

/// The columns of a request of so many bytes: the longest text has what the others leave.
fn sized(columns: &[Column], bytes: f64) -> Vec<Column> {
    let mut columns = columns.to_vec();
    let longest = (0..columns.len()).max_by_key(|at| text_bytes(&columns[*at]));
    let Some(longest) = longest.filter(|at| text_bytes(&columns[*at]).is_some()) else {
        return columns;
    };
    let others =
        columns.iter().enumerate().map(|(at, column)| match (text_bytes(column), column) {
            (Some(_), _) if at == longest => TEXT_BYTES,
            (Some(bytes), _) => TEXT_BYTES + bytes as f64,
            (None, Column::Is(Value::Nil | Value::Bool(_))) => WORD_BYTES,
            _ => NUMBER_BYTES,
        });
    let left = (bytes - others.sum::<f64>()).round().max(1.0) as usize;
    let left = left.min(MAX_DRAWN_BYTES as usize);
    match &mut columns[longest] {
        Column::Bytes(bytes) | Column::Text { bytes, .. } => *bytes = left,
        _ => {}
    }
    columns
}

/// What objects have seen before: once whatever writes, but adds no rows; then what adds some, as often
/// as it is asked.
fn fill(asked: &[Asked<'_>], columns: impl Fn(&Asked<'_>) -> Vec<Column>, rows: u64) -> Vec<Line> {
    let request = |method: &Asked<'_>| {
        let mean = method.seen.bytes as f64 / method.seen.requests as f64;
        let columns = sized(&columns(method), mean);
        Pattern { method: method.name.to_owned(), columns }
    };
    let uses = |request: &Pattern| request.columns.contains(&Column::Used);
    let growing: Vec<_> = asked.iter().filter(|method| method.grows).collect();
    let others = asked.iter().filter(|method| method.writes && !method.grows).map(request);
    let once = others.filter(|one| !uses(one)).map(|request| Line { count: 1, request });
    // What refers to rows comes after what makes them.
    let (after, first): (Vec<&Asked<'_>>, Vec<&Asked<'_>>) =
        growing.into_iter().partition(|method| uses(&request(method)));
    let makers = if first.is_empty() { after } else { first };
    let all: u64 = makers.iter().map(|method| method.seen.requests).sum();
    let grown = makers.into_iter().map(|method| {
        let count = (rows as f64 * method.seen.requests as f64 / all as f64).round().max(1.0);
        Line { count: count as u64, request: request(method) }
    });
    once.chain(grown).collect()
}

#[cfg(test)]
mod tests {
    use nacre_brados::compile;
    use nacre_brados::encode_request;
    use nacre_class::{ClassProgram, ClassRuntime};
    use nacre_clock::{Clock, Random, SystemClock};
    use nacre_object::{ClassCall, ClassName};
    use nacre_script::Budget;

    use super::*;

    const LOG: &str = include_str!("../../../programs/class/log.brados");
    const KV: &str = include_str!("../../../programs/class/kv.brados");

    /// What is counted of these requests of a program.
    fn counted(
        source: &str,
        requests: impl IntoIterator<Item = (&'static str, Vec<Value>)>,
    ) -> CallsSeen {
        let clock: std::sync::Arc<dyn Clock> = std::sync::Arc::new(SystemClock::default());
        let runtime = ClassRuntime::new(Budget::default(), clock);
        let class: ClassName = "observed".parse().unwrap();
        runtime.install(&ClassProgram::new(class.clone(), 1, source)).unwrap();
        for (method, row) in requests {
            let (class, method) = (class.clone(), method.parse().unwrap());
            let input = encode_request(&row).into();
            let call = ClassCall { class, method, version: None, input };
            let called = runtime.called(&call.class).unwrap();
            assert!(called.begin(&call).is_some(), "{call:?}");
        }
        runtime.calls_seen().remove(0).1
    }

    fn log_requests(reads: u64, bytes: usize) -> Vec<(&'static str, Vec<Value>)> {
        let mut random = Random::seeded(1);
        let mut requests = vec![("seal", vec![Value::Int(3)])];
        for position in 0..1000 {
            let row = vec![Value::Int(3), Value::Int(position), Value::Bytes(vec![b'a'; bytes])];
            requests.push(("write", row));
            for _ in 0..reads {
                let used = random.below(position as u64 + 1) as i64;
                requests.push(("read", vec![Value::Int(3), Value::Int(used)]));
            }
        }
        requests
    }

    #[test]
    fn a_log_is_asked_as_it_was() {
        let seen = counted(LOG, log_requests(3, 1000));
        let objects = Objects { count: Some(4), rows: Some(200) };
        let derived = workload_of(&compile(LOG).unwrap(), &seen, objects).unwrap();
        let text = "objects 4\nconcurrency 1\nfill 1 seal 3\nfill 200 write 3, next, bytes(1000)\n\
                    mix 7498 read 3, used\nmix 2 seal 3\nmix 2499 write 3, next, bytes(1000)\n";
        assert_eq!(derived.workload.to_string(), text);
    }

    #[test]
    fn what_was_not_observed_is_said() {
        let seen = counted(LOG, log_requests(0, 100));
        let derived = workload_of(&compile(LOG).unwrap(), &seen, Objects::default()).unwrap();
        let assumed = derived.assumed.join("; ");
        assert!(assumed.contains("128 rows") && assumed.contains("32 objects"), "{assumed}");
        let nothing =
            workload_of(&compile(LOG).unwrap(), &CallsSeen::default(), Objects::default());
        assert_eq!(nothing.unwrap_err().kind(), nacre_object::ErrorKind::NotFound);
    }

    #[test]
    fn few_numbers_are_rows_where_they_are_keys_and_one_else() {
        let read = |at: i64| ("read", vec![Value::Int(at % 3), Value::Int(at % 4)]);
        let seen = counted(LOG, (0..100).map(read));
        let derived = workload_of(&compile(LOG).unwrap(), &seen, Objects::default()).unwrap();
        assert_eq!(derived.workload.mix[0].to_string(), "10000 read 2, below(4)");
    }

    #[test]
    fn sizes_that_differ_are_lines_of_their_own_and_texts_as_many_as_they_were() {
        let put = |at: usize| {
            let key = Value::text(&format!("key{:03}", at % 50));
            (
                "put",
                vec![key, Value::Bytes(vec![b'v'; if at.is_multiple_of(4) { 3000 } else { 20 }])],
            )
        };
        let seen = counted(KV, (0..1000).map(put));
        let derived = workload_of(&compile(KV).unwrap(), &seen, Objects::default()).unwrap();
        let [small, large] = &derived.workload.mix[..] else { panic!("{}", derived.workload) };
        assert_eq!((small.count, large.count), (7500, 2500));
        let text = |line: &Line, at: usize| match line.request.columns[at] {
            Column::Text { bytes, count } => (bytes, count),
            Column::Bytes(bytes) => (bytes, 1),
            _ => panic!("{line}"),
        };
        let (key, count) = text(small, 0);
        assert!(key == 6 && (45..=55).contains(&count), "{small}");
        assert!((10..=40).contains(&text(small, 1).0), "{small}");
        assert!((2000..=4096).contains(&text(large, 1).0), "{large}");
    }

    /// Whatever was counted, the workload is one that a file could hold.
    #[test]
    fn derived_workloads_are_workloads() {
        for seed in 0..50 {
            let mut random = Random::seeded(seed);
            let requests = (0..200).map(|_| {
                let number = |random: &mut Random| {
                    let bits = random.below(40);
                    Value::Int(random.below(1 << bits) as i64 - 5)
                };
                let (epoch, position) = (number(&mut random), number(&mut random));
                match random.below(3) {
                    0 => ("read", vec![epoch, position]),
                    1 => ("trim", vec![epoch, position]),
                    _ => {
                        let bits = random.below(18);
                        let bytes = random.below(1 << bits) as usize;
                        ("write", vec![epoch, position, Value::Bytes(vec![0; bytes])])
                    }
                }
            });
            let seen = counted(LOG, requests.collect::<Vec<_>>());
            let derived = workload_of(&compile(LOG).unwrap(), &seen, Objects::default()).unwrap();
            let text = derived.workload.to_string();
            assert_eq!(
                Workload::parse(&text).as_ref(),
                Ok(&derived.workload),
                "seed {seed}: {text}"
            );
        }
    }
}
