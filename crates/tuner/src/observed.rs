//! A workload from what a running class was asked.
//!
//! Counted are methods, the bytes of their requests, and, of some requests, what their columns hold
//! ([`nacre_class::CallsSeen`]). From that a workload is put together that asks alike:
//!
//! | observed | becomes |
//! |---|---|
//! | a method's requests of a size | a line of the mix, with as much weight |
//! | a number that hardly changes, unless a table has its column for a key | the greatest |
//! | numbers that rise or hardly repeat, of the method that adds most rows | `next` |
//! | numbers among those, of another method | `used` |
//! | other numbers | `below` the greatest |
//! | texts | as long as they were, and as many different ones |
//!
//! Columns that are no keys mean the same in all methods that have one of the name: what seals an epoch and
//! what is asked in one agree on it, or all would be refused.
//!
//! What cannot be observed is assumed, and told with the workload.

use std::collections::BTreeMap;

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
/// So are as many as this share of all looked into: an epoch that changes now and then.
const HARDLY_CHANGING: f64 = 0.05;
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
    pub rows: Rows,
}

/// How many rows there are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Rows {
    /// Nobody has looked.
    #[default]
    Unknown,
    /// About so many.
    About(u64),
    /// So many were counted, and there are more.
    MoreThan(u64),
}

impl Rows {
    fn counted(self) -> Option<u64> {
        match self {
            Self::Unknown => None,
            Self::About(rows) | Self::MoreThan(rows) => Some(rows),
        }
    }
}

impl Objects {
    /// How many rows all have together, if that is known.
    pub(crate) fn all_rows(&self) -> Option<u64> {
        match (self.count, self.rows) {
            (Some(0), _) => Some(0),
            (Some(count), Rows::About(rows)) => Some(count.saturating_mul(rows)),
            _ => None,
        }
    }

    /// How many there are, and how many rows one has: as many as are known, or else assumed.
    pub(crate) fn assumed(&self) -> (u64, u64) {
        let rows = self.rows.counted().unwrap_or(ASSUMED_ROWS);
        (self.count.unwrap_or(ASSUMED_OBJECTS), rows)
    }
}

/// A workload that asks as was observed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Derived {
    /// The workload.
    pub workload: Workload,
    /// What was not observed.
    pub assumed: Vec<String>,
}

/// A method that was asked, now or before.
struct Asked<'a> {
    name: &'a str,
    seen: &'a MethodSeen,
    columns: Vec<Asking<'a>>,
    writes: bool,
    /// Whether it puts rows into a table that has room for many.
    grows: bool,
}

/// A column of a request.
struct Asking<'a> {
    name: &'a str,
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
    if asked.iter().all(|method| method.seen.requests == 0) {
        return Err(Error::not_found("nothing is known of what the class is asked")
            .hint("its calls are counted from when it is first live on a node"));
    }
    let (counting, settings) = (counting_method(&asked), settings(&asked));
    let columns = |method: &Asked<'_>| -> Vec<Column> {
        let role = match counting {
            Some(counting) if counting == method.name => Role::Counts,
            Some(_) => Role::Uses,
            None => Role::Alone,
        };
        let columns = method.columns.iter().zip(&method.seen.columns);
        let column_of = |(asking, column)| column_of(method, asking, column, &settings, role);
        columns.map(column_of).collect()
    };
    let before = |method: &Asked<'_>| -> Vec<Column> {
        let columns = method.columns.iter().zip(columns(method));
        columns.map(|(asking, column)| settled(asking, column, &settings)).collect()
    };
    let all = seen.requests() as f64;
    let now = asked.iter().filter(|method| method.seen.requests > 0);
    let mix = now.flat_map(|method| lines(method, &columns(method), all)).collect();
    let (count, rows) = objects.assumed();
    let workload = Workload {
        objects: clamp(count, MAX_OBJECTS),
        concurrency: clamp(seen.concurrency().round() as u64, MAX_CONCURRENCY),
        fill: fill(&asked, before, rows.clamp(1, MAX_ROWS)),
        mix,
    };
    Ok(Derived { workload, assumed: assumed(&asked, objects) })
}

/// What is in a workload though nobody has observed it.
fn assumed(asked: &[Asked<'_>], objects: Objects) -> Vec<String> {
    let mut assumed = vec![];
    if objects.rows.counted().is_none() {
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

fn asked<'a>(compiled: &'a Compiled, seen: &'a CallsSeen) -> Vec<Asked<'a>> {
    let program = &compiled.analysis.program;
    let plan = |name: &str| {
        let is_it = |input: CollectionId| program.collection(input).name == name;
        compiled.plan.methods.iter().find(|method| is_it(method.input))
    };
    let methods = seen.methods.iter();
    methods
        .filter(|(_, seen)| seen.requests > 0 || seen.looked_into() > 0)
        .filter_map(|(name, seen)| {
            let plan = plan(name)?;
            let (writes, grows) = (plan.writes(program), plan.grows(program));
            let columns = &program.collection(plan.input).columns;
            let asking = |column: &'a nacre_brados::ir::Column| Asking {
                name: &column.name,
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
    let often = |method: &&Asked<'_>| (method.seen.requests, method.seen.looked_into());
    let most = asked.iter().filter(counts_up).max_by_key(often)?;
    Some(most.name)
}

/// What all methods have in numbers that are no keys, by the names of their columns.
fn settings<'a>(asked: &[Asked<'a>]) -> BTreeMap<&'a str, ColumnSeen> {
    let mut settings = BTreeMap::<&str, ColumnSeen>::new();
    for method in asked {
        for (asking, seen) in method.columns.iter().zip(&method.seen.columns) {
            if asking.base == Base::Int && !asking.is_key {
                settings.entry(asking.name).or_default().add(seen);
            }
        }
    }
    settings
}

fn counts_up(column: &ColumnSeen) -> bool {
    let Some((lowest, highest)) = column.range else { return false };
    let numbers = numbers(column);
    let most = highest.saturating_sub(lowest).saturating_add(1) as f64;
    let is_fresh = column.distinct().min(most) >= FRESH * numbers;
    lowest < highest && numbers > 1.0 && (rises(column) || is_fresh)
}

fn rises(column: &ColumnSeen) -> bool {
    column.risen as f64 >= RISING * numbers(column)
}

/// How many of its values were looked into.
fn numbers(column: &ColumnSeen) -> f64 {
    column.seen.saturating_sub(column.nils) as f64
}

fn highest(column: &ColumnSeen) -> i64 {
    column.range.map_or(0, |(_, highest)| highest)
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

fn column_of(
    method: &Asked<'_>,
    asking: &Asking<'_>,
    own: &ColumnSeen,
    settings: &BTreeMap<&str, ColumnSeen>,
    role: Role,
) -> Column {
    if own.nils == own.seen {
        return Column::Is(Value::Nil);
    }
    let seen = settings.get(asking.name).filter(|_| !asking.is_key).unwrap_or(own);
    let highest = highest(seen);
    let few = if asking.is_key { 1.0 } else { FEW.max(HARDLY_CHANGING * numbers(seen)) };
    match (asking.base, role) {
        (Base::String | Base::Bytes, _) => text_of(own),
        (Base::Bool, _) => Column::Is(Value::Bool(self::highest(own) == 1)),
        (Base::Int, Role::Counts) if counts_up(own) => Column::Next,
        (Base::Int, _) if seen.distinct() <= few || highest < 1 => Column::Is(Value::Int(highest)),
        // It is what the method sets, each time further: any less would be of no use, any more too far.
        (Base::Int, Role::Uses) if method.writes && !asking.is_key && rises(own) => {
            Column::Is(Value::Int(highest))
        }
        (Base::Int, Role::Uses) => Column::Used,
        (Base::Int, _) => Column::Below(highest as u64 + 1),
    }
}

/// The column of a request by which objects were filled: no rows are there yet that a number could be among,
/// and one that is no key names none.
fn settled(asking: &Asking<'_>, column: Column, settings: &BTreeMap<&str, ColumnSeen>) -> Column {
    match settings.get(asking.name) {
        Some(seen) if column == Column::Used && !asking.is_key => {
            Column::Is(Value::Int(highest(seen)))
        }
        _ => column,
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
/// as it is asked. That may have been long ago.
fn fill(asked: &[Asked<'_>], columns: impl Fn(&Asked<'_>) -> Vec<Column>, rows: u64) -> Vec<Line> {
    let request = |method: &Asked<'_>| {
        let mut columns = columns(method);
        if method.seen.requests > 0 {
            columns = sized(&columns, method.seen.bytes as f64 / method.seen.requests as f64);
        }
        Pattern { method: method.name.to_owned(), columns }
    };
    let uses = |request: &Pattern| request.columns.contains(&Column::Used);
    let growing: Vec<_> = asked.iter().filter(|method| method.grows).collect();
    let others = asked.iter().filter(|method| method.writes && !method.grows).map(request);
    let once = others.filter(|one| !uses(one)).map(|request| Line { count: 1, request });
    let is_growing = growing.iter().any(|method| method.seen.requests > 0);
    let often = |method: &Asked<'_>| match is_growing {
        true => method.seen.requests,
        false => method.seen.looked_into(),
    };
    let growing = growing.into_iter().filter(|method| often(method) > 0);
    // What refers to rows comes after what makes them.
    let (after, first): (Vec<&Asked<'_>>, Vec<&Asked<'_>>) =
        growing.partition(|method| uses(&request(method)));
    let makers = if first.is_empty() { after } else { first };
    let all: u64 = makers.iter().map(|method| often(method)).sum();
    let grown = makers.into_iter().map(|method| {
        let count = (rows as f64 * often(method) as f64 / all as f64).round().max(1.0);
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
        let objects = Objects { count: Some(4), rows: Rows::About(200) };
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

    /// A log that was reconfigured so often, and then written and read.
    fn reconfigured(epochs: i64) -> Vec<(&'static str, Vec<Value>)> {
        let mut random = Random::seeded(2);
        let mut requests = vec![];
        for position in 0..1000 {
            let epoch = Value::Int(position * epochs / 1000 + 1);
            if position % (1000 / epochs) == 0 {
                requests.push(("seal", vec![epoch.clone()]));
            }
            let used = Value::Int(random.below(position as u64 + 1) as i64);
            requests.push(("read", vec![epoch.clone(), used]));
            requests.push(("write", vec![epoch, Value::Int(position), Value::text("x")]));
        }
        requests
    }

    /// What a class would answer to a workload on one object.
    fn statuses(source: &str, workload: &Workload, mix: usize) -> Vec<String> {
        let clock: std::sync::Arc<dyn Clock> = std::sync::Arc::new(SystemClock::default());
        let runtime = ClassRuntime::new(Budget::default(), clock);
        let class: ClassName = "asked".parse().unwrap();
        runtime.install(&ClassProgram::new(class.clone(), 1, source)).unwrap();
        let source = nacre_object::EntityName::local();
        let context = nacre_object::CallContext { source, now_micros: 1 };
        let (mut object, mut next) = (crate::sketch::Sketch::default(), 0);
        let mut random = Random::seeded(3);
        let mut ask = |request: &Pattern| {
            let input = encode_request(&request.draw(&mut next, &mut random)).into();
            let (class, method) = (class.clone(), request.method.parse().unwrap());
            let call = ClassCall { class, method, version: None, input };
            let reply = nacre_object::ClassHost::call(&runtime, &call, &mut object, &context);
            nacre_brados::shown_reply(&nacre_brados::decode_reply(&reply.unwrap().output).unwrap())
        };
        for Line { count, request } in &workload.fill {
            (0..*count).for_each(|_| drop(ask(request)));
        }
        let mut picks = Random::seeded(4);
        (0..mix).map(|_| ask(workload.pick(&mut picks))).collect()
    }

    #[test]
    fn what_a_log_is_asked_is_carried_out_however_often_its_epoch_changed() {
        for epochs in [1, 9, 20] {
            let seen = counted(LOG, reconfigured(epochs));
            let objects = Objects { count: Some(4), rows: Rows::About(200) };
            let workload = workload_of(&compile(LOG).unwrap(), &seen, objects).unwrap().workload;
            let fill = format!("fill 1 seal {epochs}\nfill 200 write {epochs}, next, bytes(1)\n");
            assert!(workload.to_string().contains(&fill), "{workload}");
            let answers = statuses(LOG, &workload, 200);
            let refused = answers.iter().filter(|answer| answer.contains("ret(-")).count();
            assert!(refused < 10, "{refused} of 200 refused: {workload}");
        }
    }

    #[test]
    fn what_was_asked_long_ago_has_filled_objects_all_the_same() {
        let mut seen = counted(LOG, log_requests(3, 100));
        for (name, method) in &mut seen.methods {
            if name != "read" {
                (method.requests, method.bytes) = (0, 0);
                method.sizes.fill(0);
            }
        }
        let objects = Objects { count: Some(4), rows: Rows::About(200) };
        let workload = workload_of(&compile(LOG).unwrap(), &seen, objects).unwrap().workload;
        let text = "objects 4\nconcurrency 1\nfill 1 seal 3\nfill 200 write 3, next, bytes(100)\n\
                    mix 10000 read 3, used\n";
        let text =
            text.replace("concurrency 1\n", &format!("concurrency {}\n", workload.concurrency));
        assert_eq!(workload.to_string(), text);
        assert!(statuses(LOG, &workload, 100).iter().all(|answer| answer.contains("entry(")));
    }

    #[test]
    fn a_number_that_is_no_key_is_no_reason_to_leave_out_what_writes_it() {
        let source = "state do
  table :log, [:at:int] => [:data:bytes]
  table :term, [] => [:term:int]
  interface input, :write, [:at:int, :data:bytes]
  interface input, :advance, [:term:int]
end
bloom do
  log <+- write
  term <+- advance
end
";
        for (order, term) in [(7, "used"), (1, "249")] {
            let requests = (0..250).flat_map(|at| {
                let write = vec![Value::Int(at), Value::text("x")];
                [("write", write), ("advance", vec![Value::Int(at * order % 250)])]
            });
            let seen = counted(source, requests);
            let objects = Objects { count: Some(1), rows: Rows::About(10) };
            let workload = workload_of(&compile(source).unwrap(), &seen, objects).unwrap().workload;
            let text = format!(
                "fill 1 advance 249\nfill 10 write next, bytes(1)\nmix 5000 advance {term}\n"
            );
            assert!(workload.to_string().contains(&text), "{workload}");
        }
    }

    #[test]
    fn texts_of_which_nobody_knows_how_many_there_are_hardly_repeat() {
        let put = |at: u64| ("put", vec![Value::text(&format!("{at}")), Value::text("v")]);
        let seen = counted(KV, (0..64 * 20_000).map(put));
        let workload = workload_of(&compile(KV).unwrap(), &seen, Objects::default()).unwrap();
        let Column::Text { count, .. } = workload.workload.fill[0].request.columns[0] else {
            panic!("{}", workload.workload)
        };
        assert_eq!(count, MAX_DRAWN_TEXTS);
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
