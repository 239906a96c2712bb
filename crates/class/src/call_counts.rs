//! Counts the calls of a Brados class as they arrive. From the counts the tuner later chooses a
//! layout.
//!
//! Each method has a histogram of the sizes of its requests. The counters also sample the first
//! requests of a method, and later one in [`SAMPLED_ONE_IN`]. For each column of a sampled request
//! they record sums and bounds, never the values themselves. Each arriving request, alone or in a
//! batch, records how many calls are in flight.
//!
//! **Invariant:** counting takes a few relaxed additions, no lock and no clock. The memory of the
//! counters depends only on the class's source. A call finds its class's counters together with the
//! class, so counting adds only the look-up of the method.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use nacre_brados::ir::Program;
use nacre_brados::{Kind, Value};
use nacre_calls::decode_request;
use nacre_object::ClassCall;
use nacre_telemetry::{Counter, Sizes};

use crate::calls_seen::{CallsSeen, ColumnSeen, MARK_WORDS, MethodSeen};
use nacre_calls::{BATCH_SUFFIX, Batch};

/// One request in this many is sampled. Sampling takes about a microsecond, a request about twenty.
const SAMPLED_ONE_IN: u64 = 64;
/// How many of a method's first requests are all sampled, so that even a rarely used class has
/// samples.
const SAMPLED_FIRST: u64 = 256;

/// The counts of a class since it was first made live here.
#[derive(Debug)]
pub(crate) struct CallCounts {
    /// The methods, by name.
    methods: Vec<MethodCounts>,
    under_way: AtomicU64,
    /// The sum over all requests of the calls in flight when the request arrived, its own included.
    met: Counter,
}

#[derive(Debug)]
struct MethodCounts {
    name: String,
    asked: AtomicU64,
    sizes: Sizes,
    columns: Vec<ColumnCounts>,
}

/// The counts of one column over the sampled requests.
#[derive(Debug)]
struct ColumnCounts {
    seen: Counter,
    nils: Counter,
    lowest: AtomicI64,
    highest: AtomicI64,
    risen: Counter,
    bytes: Counter,
    marks: [AtomicU64; MARK_WORDS],
}

/// Counts a call as in flight until it is dropped.
#[derive(Debug)]
pub struct UnderWay(Arc<CallCounts>);

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, Ordering::Relaxed);
    }
}

impl CallCounts {
    pub fn of(program: &Program) -> Self {
        let input = |id| {
            let collection = program.collection(id);
            let columns = collection.columns.iter().map(|_| ColumnCounts::new()).collect();
            let name = collection.name.clone();
            MethodCounts { name, asked: AtomicU64::new(0), sizes: Sizes::default(), columns }
        };
        let mut methods: Vec<_> = program.of_kind(Kind::Input).map(input).collect();
        methods.sort_by(|a, b| a.name.cmp(&b.name));
        Self { methods, under_way: AtomicU64::new(0), met: Counter::default() }
    }

    /// Whether the other class has the same methods. If so, its counts can be continued.
    pub fn counts_the_same(&self, other: &Self) -> bool {
        let inputs = |counts: &Self| -> Vec<(String, usize)> {
            counts.methods.iter().map(|one| (one.name.clone(), one.columns.len())).collect()
        };
        inputs(self) == inputs(other)
    }

    /// Counts a call. A malformed request is not counted, because it will be refused.
    pub fn begin(counts: &Arc<Self>, call: &ClassCall) -> Option<UnderWay> {
        let requests = counts.count(call)?;
        let others = counts.under_way.fetch_add(1, Ordering::Relaxed);
        counts.met.add((others + 1) * requests);
        Some(UnderWay(Arc::clone(counts)))
    }

    /// Counts the requests of a call. Returns their number.
    fn count(&self, call: &ClassCall) -> Option<u64> {
        let name = call.method.as_str();
        if let Some(method) = self.method(name) {
            method.count(&call.input);
            return Some(1);
        }
        let method = self.method(name.strip_suffix(BATCH_SUFFIX)?)?;
        let batch = Batch::decode(call.input.clone()).ok()?;
        let count = |counted, request: &[u8]| {
            method.count(request);
            counted + 1
        };
        Some(batch.requests().fold(0, count))
    }

    fn method(&self, name: &str) -> Option<&MethodCounts> {
        let at = self.methods.binary_search_by(|method| method.name.as_str().cmp(name)).ok()?;
        Some(&self.methods[at])
    }

    pub fn seen(&self) -> CallsSeen {
        let methods = self.methods.iter().map(|one| (one.name.clone(), one.seen())).collect();
        let arrivals = self.met.get();
        CallsSeen { methods, met: arrivals }
    }
}

impl MethodCounts {
    fn count(&self, request: &[u8]) {
        self.sizes.record(request.len() as u64);
        let before = self.asked.fetch_add(1, Ordering::Relaxed);
        if before < SAMPLED_FIRST || before.is_multiple_of(SAMPLED_ONE_IN) {
            self.look_into(request);
        }
    }

    fn look_into(&self, request: &[u8]) {
        let Ok(row) = decode_request(request) else { return };
        if row.len() == self.columns.len() {
            self.columns.iter().zip(&row).for_each(|(column, value)| column.count(value));
        }
    }

    fn seen(&self) -> MethodSeen {
        let sizes = self.sizes.snapshot();
        MethodSeen {
            requests: sizes.count(),
            bytes: sizes.sum as u64,
            sizes: sizes.buckets.into_iter().map(|(_, count)| count).collect(),
            columns: self.columns.iter().map(ColumnCounts::seen).collect(),
        }
    }
}

impl ColumnCounts {
    fn new() -> Self {
        Self {
            seen: Counter::default(),
            nils: Counter::default(),
            lowest: AtomicI64::new(i64::MAX),
            highest: AtomicI64::new(i64::MIN),
            risen: Counter::default(),
            bytes: Counter::default(),
            marks: [const { AtomicU64::new(0) }; MARK_WORDS],
        }
    }

    fn count(&self, value: &Value) {
        self.seen.add(1);
        match value {
            Value::Nil => return self.nils.add(1),
            Value::Bool(value) => self.count_number(i64::from(*value)),
            Value::Int(number) => self.count_number(*number),
            Value::Bytes(bytes) => self.bytes.add(bytes.len() as u64),
        }
        self.mark(value);
    }

    fn count_number(&self, number: i64) {
        self.lowest.fetch_min(number, Ordering::Relaxed);
        if self.highest.fetch_max(number, Ordering::Relaxed) < number {
            self.risen.add(1);
        }
    }

    /// Hashes the value and sets the bit that the hash selects. From the number of set bits,
    /// [`ColumnSeen::distinct`] later estimates how many different values there were.
    fn mark(&self, value: &Value) {
        let mut hasher = DefaultHasher::new();
        value.hash(&mut hasher);
        let place = hasher.finish() as usize % (MARK_WORDS * u64::BITS as usize);
        let (word, bit) = (place / u64::BITS as usize, place % u64::BITS as usize);
        self.marks[word].fetch_or(1 << bit, Ordering::Relaxed);
    }

    fn seen(&self) -> ColumnSeen {
        let (lowest, highest) =
            (self.lowest.load(Ordering::Relaxed), self.highest.load(Ordering::Relaxed));
        ColumnSeen {
            seen: self.seen.get(),
            nils: self.nils.get(),
            range: (lowest <= highest).then_some((lowest, highest)),
            risen: self.risen.get(),
            bytes: self.bytes.get(),
            marks: self.marks.iter().map(|word| word.load(Ordering::Relaxed)).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use nacre_brados::compile;
    use nacre_calls::encode_request;

    use super::*;
    use nacre_calls::encode_batch;

    const PROGRAM: &str = "state do
  table :kv, [:key:string] => [:at:int]
  interface input, :put, [:key:string, :at:int]
  interface input, :drop, [:key:string]
end
bloom do
  kv <+- put
  kv <- (drop * kv).rights(:key => :key)
end
";

    fn counts() -> Arc<CallCounts> {
        Arc::new(CallCounts::of(&compile(PROGRAM).unwrap().analysis.program))
    }

    fn put(key: &str, at: i64) -> Vec<u8> {
        encode_request(&[Value::text(key), Value::Int(at)])
    }

    fn call(method: &str, input: impl Into<Bytes>) -> ClassCall {
        let class = "kv".parse().unwrap();
        ClassCall { class, method: method.parse().unwrap(), version: None, input: input.into() }
    }

    #[test]
    fn requests_are_counted_by_method_and_size_alone_and_in_batches() {
        let counts = counts();
        let one = put("a", 1);
        for _ in 0..3 {
            CallCounts::begin(&counts, &call("put", one.clone())).unwrap();
        }
        CallCounts::begin(&counts, &call("put.batch", encode_batch(9, &[one.clone(), one])));
        CallCounts::begin(&counts, &call("drop", encode_request(&[Value::text(&"x".repeat(100))])));
        for (method, input) in [("get", vec![]), ("get.batch", vec![]), ("put.batch", vec![1])] {
            assert!(CallCounts::begin(&counts, &call(method, input)).is_none(), "{method}");
        }
        let seen = counts.seen();
        assert_eq!(seen.requests(), 6);
        let (put, drop) = (&seen.methods["put"], &seen.methods["drop"]);
        // A string of one byte takes six bytes, a number nine.
        assert_eq!((put.requests, put.bytes, put.sizes[4]), (5, 75, 5));
        assert_eq!((drop.requests, drop.bytes, drop.sizes[7]), (1, 105, 1));
    }

    #[test]
    fn columns_are_counted_for_the_first_requests_and_then_for_samples() {
        let counts = counts();
        let all = SAMPLED_FIRST + 10 * SAMPLED_ONE_IN;
        for at in 0..all {
            CallCounts::begin(&counts, &call("put", put("key", at as i64)));
        }
        // A row that does not have the method's columns is not sampled.
        CallCounts::begin(&counts, &call("drop", vec![b's', 1]));
        CallCounts::begin(&counts, &call("drop", put("key", 1)));
        let seen = counts.seen();
        let [key, at] = &seen.methods["put"].columns[..] else { panic!("{seen:?}") };
        let looked = SAMPLED_FIRST + 10;
        assert_eq!((key.seen, key.bytes, key.range), (looked, 3 * looked, None));
        assert_eq!((at.seen, at.risen), (looked, looked));
        assert_eq!(at.range, Some((0, (all - SAMPLED_ONE_IN) as i64)));
        assert_eq!(key.distinct(), 1.0);
        let share = at.distinct() / looked as f64;
        assert!((0.85..1.15).contains(&share), "{share}");
        assert_eq!(seen.methods["drop"].columns[0].seen, 0);
    }

    #[test]
    fn an_arriving_request_counts_the_requests_in_flight() {
        let counts = counts();
        let under_way: Vec<_> =
            (0..4).map(|_| CallCounts::begin(&counts, &call("put", put("a", 1)))).collect();
        assert_eq!(counts.seen().concurrency(), 2.5, "1, 2, 3 and 4");
        drop(under_way);
        CallCounts::begin(&counts, &call("put", put("a", 1)));
        assert_eq!(counts.seen().concurrency(), 2.2);
    }

    #[test]
    fn each_request_of_a_batch_counts_the_same_calls_in_flight() {
        let counts = counts();
        let batch = || call("put.batch", encode_batch(9, &vec![put("a", 1); 16]));
        let under_way: Vec<_> = (0..3).map(|_| CallCounts::begin(&counts, &batch())).collect();
        assert_eq!(counts.seen().concurrency(), 2.0, "1, 2 and 3");
        drop(under_way);
    }
}
