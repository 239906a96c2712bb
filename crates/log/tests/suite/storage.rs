//! Runs the cases of `storage_cases.txt` on all implementations of the storage interface.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use nacre_class::{ClassProgram, ClassRuntime};
use nacre_clock::{Clock, SystemClock};
use nacre_conformance::FaultyStore;
use nacre_object::{
    CallReply, ClassCall, ClassName, MapEntry, MethodName, ObjectId, Op, OpResult, Request, Store,
};
use nacre_program::Budget;

use super::cases::{self, Case, Input, Step};
use crate::bed::{Bed, seeds};
use crate::support::planted::{self, PROGRAM};

const NATIVE: &str = nacre_log::NATIVE_CLASS;
const LUAU: &str = nacre_log::PROGRAM_CLASS;
const RELATIONS: &str = nacre_log::BRADOS_CLASS;
/// The program where nothing that nacre adds to `objclass` is there.
const STOCK: &str = "log_on_stock";
/// A prefix for the program's first line, so that line numbers stay the same.
const WITHOUT_EXTENSIONS: &str = "local objclass = (function() local stock = {} \
    for name, value in pairs(objclass) do stock[name] = value end \
    stock.map_get, stock.map_set, stock.map_last, stock.exists = nil, nil, nil, nil \
    stock.ENODATA = nil return stock end)() ";

/// A store that has every implementation of the interface.
struct Storage {
    store: FaultyStore,
    objects: AtomicUsize,
    /// What the store lies on, which goes with it.
    _bed: Bed,
}

impl Storage {
    async fn new() -> Self {
        Self::with_program(PROGRAM).await
    }

    /// With another program of the interface.
    async fn with_program(program: &str) -> Self {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
        let classes = ClassRuntime::new(Budget::default(), clock.clone());
        classes.register_native(nacre_log::log_class()).unwrap();
        let stock = format!("{WITHOUT_EXTENSIONS}{program}");
        for (name, source) in
            [(LUAU, program), (STOCK, &stock), (RELATIONS, crate::support::RELATIONS)]
        {
            let name = ClassName::new(name).unwrap();
            classes.install(&ClassProgram::new(name, 1, source)).unwrap();
        }
        let bed = Bed::new(Arc::new(classes), clock).await;
        Self { store: bed.store("objects"), objects: AtomicUsize::new(0), _bed: bed }
    }

    /// An object that is not there yet.
    fn subject(&self) -> Subject<'_> {
        let number = self.objects.fetch_add(1, Ordering::Relaxed);
        let object = format!("data/stripe{number}").parse().unwrap();
        Subject { store: &self.store, object }
    }
}

/// One object.
struct Subject<'a> {
    store: &'a FaultyStore,
    object: ObjectId,
}

impl Subject<'_> {
    async fn submit(&self, op: Op) -> nacre_object::Result<OpResult> {
        let request = Request::new(self.object.clone(), vec![op]).unwrap();
        Ok(self.store.submit(request).await?.results.remove(0))
    }

    /// The output, or the status it failed with.
    async fn call(&self, class: &str, method: &str, input: Bytes) -> Result<Bytes, i32> {
        let call = ClassCall {
            class: ClassName::new(class).unwrap(),
            method: MethodName::new(method).unwrap(),
            version: None,
            input,
        };
        match self.submit(Op::Call(call)).await {
            Ok(OpResult::Called(reply)) => Ok(reply.output),
            Ok(other) => panic!("a call answered {other:?}"),
            // A status that the program returned has no line; a failure of the program itself has
            // one.
            Err(error) if error.fault().is_some_and(|site| site.line.is_some()) => {
                panic!("{class}.{method} failed: {error}")
            }
            Err(error) => Err(error.status()),
        }
    }

    async fn flip_header_bit(&self, bit: usize) {
        let OpResult::Data(header) = self.submit(Op::MapGetHeader).await.unwrap() else {
            panic!("no header")
        };
        let mut header = header.to_vec();
        header[bit / 8] ^= 1 << (bit % 8);
        self.submit(Op::MapSetHeader { value: header.into() }).await.unwrap();
    }

    async fn set_key(&self, key: Bytes, value: Bytes) {
        self.submit(Op::MapSet { entries: vec![MapEntry { key, value }] }).await.unwrap();
    }

    /// Does a step with `class`. Returns the outcome in the words of the cases.
    async fn outcome(&self, class: &str, step: &Step) -> String {
        let done = || "ok".to_owned();
        match &step.input {
            Input::Call { method, input } => {
                let result = self.call(class, method, input.clone()).await;
                step.outcome_of(method, result)
            }
            Input::Create => {
                self.submit(Op::Create { exclusive: false }).await.unwrap();
                done()
            }
            Input::SetHeader(value) => {
                self.submit(Op::MapSetHeader { value: value.clone() }).await.unwrap();
                done()
            }
            Input::FlipHeader(bit) => {
                self.flip_header_bit(*bit).await;
                done()
            }
            Input::SetKey(key, value) => {
                self.set_key(key.clone(), value.clone()).await;
                done()
            }
            Input::Entries => self.entries_under(b"").await.to_string(),
            Input::FillMap { from, to } => {
                for input in cases::fill_map_inputs(*from, *to) {
                    let _refused = self.call(class, "write_batch", input).await;
                }
                done()
            }
        }
    }
}

/// Runs every case, the classes taking turns from step to step.
async fn run_all(classes: &[&str]) {
    let mut failures = vec![];
    let storage = Storage::new().await;
    for Case { name, steps } in cases::all() {
        let subject = storage.subject();
        for (index, step) in steps.iter().enumerate() {
            let class = classes[index % classes.len()];
            let outcome = subject.outcome(class, step).await;
            if outcome != step.expected {
                failures
                    .push(format!("{name}\n  {}: {} but {class}: {outcome}", step.line, step.text));
                break;
            }
        }
    }
    assert!(failures.is_empty(), "{classes:?}\n{}", failures.join("\n"));
}

#[tokio::test(start_paused = true)]
async fn the_native_class_passes_the_tests_of_the_storage_interface() {
    run_all(&[NATIVE]).await;
}

#[tokio::test(start_paused = true)]
async fn the_lua_program_passes_the_tests_of_the_storage_interface() {
    run_all(&[LUAU]).await;
}

#[tokio::test(start_paused = true)]
async fn the_lua_program_runs_on_stock_cls_lua() {
    run_all(&[STOCK]).await;
}

impl Subject<'_> {
    /// As [`Subject::outcome`], of the class that is made of relations.
    async fn outcome_in_rows(&self, step: &Step) -> String {
        let Some(call) = cases::rows::call(step) else {
            return self.entries_under(b"log.").await.to_string();
        };
        let answer = self.call(RELATIONS, &call.method, cases::rows::input(&call)).await;
        match (answer, call.is_alone) {
            (Ok(output), false) => {
                let answers = nacre_calls::decode_answers(output, call.requests.len()).unwrap();
                cases::rows::outcomes(&call.method, answers)
            }
            (answer, _) => {
                let answer = answer.map(|output| CallReply { status: 0, output });
                cases::rows::outcome(&call.method, answer)
            }
        }
    }

    async fn entries_under(&self, prefix: &'static [u8]) -> usize {
        let prefix = Bytes::from_static(prefix);
        let all = Op::MapRange { after: Bytes::new(), prefix, limit: u32::MAX };
        match self.submit(all).await.unwrap() {
            OpResult::Range(range) => range.entries.len(),
            other => panic!("a range answered {other:?}"),
        }
    }
}

/// Whether the Brados class does what the other classes do. It may differ in three ways. Its
/// replies are longer, so a batch of reads with a limit ends earlier. An empty batch is not sent at
/// all. And it may report only at the next call that no entries are left.
fn agrees(step: &Step, outcome: &str, expected: &str) -> bool {
    let may_be_short = step.text.starts_with("read_batch") || outcome.is_empty();
    outcome == expected
        || (may_be_short && expected.starts_with(outcome))
        || (outcome, expected) == ("left", "done")
}

#[tokio::test(start_paused = true)]
async fn the_brados_program_passes_the_tests_of_the_storage_interface() {
    let mut failures = vec![];
    let (storage, mut done) = (Storage::new().await, 0);
    for case in cases::all().into_iter().filter(cases::rows::can_say) {
        let subject = storage.subject();
        for step in &case.steps {
            let outcome = subject.outcome_in_rows(step).await;
            if !agrees(step, &outcome, &step.expected) {
                failures
                    .push(format!("{}\n  {}: {} but {outcome}", case.name, step.line, step.text));
                break;
            }
            done += 1;
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(done > 150, "only {done} steps were done");
}

#[tokio::test(start_paused = true)]
async fn the_brados_and_native_classes_agree_on_random_operations() {
    let storage = Storage::new().await;
    for seed in seeds(40) {
        let (native, relations) = (storage.subject(), storage.subject());
        for step in cases::random_steps(seed) {
            let is_fill_map = matches!(step.input, Input::FillMap { .. });
            let expected = native.outcome(NATIVE, &step).await;
            let outcome = relations.outcome_in_rows(&step).await;
            // Skip steps that report reclaimed entries: a seal of the native class reclaims entries
            // too.
            if !is_fill_map && !expected.starts_with("left") && !expected.starts_with("done") {
                let agrees = agrees(&step, &outcome, &expected);
                assert!(agrees, "seed {seed}: {}\n  {outcome}\n  but {expected}", step.text);
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn each_class_takes_over_the_others_objects_at_every_step() {
    run_all(&[NATIVE, LUAU]).await;
    run_all(&[LUAU, NATIVE]).await;
    run_all(&[NATIVE, STOCK, LUAU]).await;
}

/// After the same random operations, both classes have stored exactly the same object, byte for
/// byte.
#[tokio::test(start_paused = true)]
async fn the_lua_and_native_classes_answer_and_store_random_operations_alike() {
    let storage = Storage::new().await;
    for seed in seeds(40) {
        let steps = cases::random_steps(seed);
        let mut seen: Option<Vec<(String, Vec<MapEntry>, Bytes)>> = None;
        for class in [NATIVE, LUAU, STOCK] {
            let subject = storage.subject();
            let mut trace = vec![];
            for step in &steps {
                let outcome = subject.outcome(class, step).await;
                let (entries, header) = subject.stored().await;
                trace.push((format!("{}: {outcome}", step.text), entries, header));
            }
            match &seen {
                None => seen = Some(trace),
                Some(first) => {
                    for (a, b) in first.iter().zip(&trace) {
                        assert_eq!(a, b, "seed {seed}: {NATIVE} and {class}");
                    }
                }
            }
        }
    }
}

impl Subject<'_> {
    /// The whole stored state, empty while there is no object.
    async fn stored(&self) -> (Vec<MapEntry>, Bytes) {
        let all = Op::MapRange { after: Bytes::new(), prefix: Bytes::new(), limit: u32::MAX };
        match (self.submit(all).await, self.submit(Op::MapGetHeader).await) {
            (Ok(OpResult::Range(range)), Ok(OpResult::Data(header))) => (range.entries, header),
            _ => Default::default(),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_tests_of_the_storage_interface_find_bugs_planted_in_the_program() {
    for bug in planted::IN_FILL.iter().chain([&planted::IN_SEAL]) {
        let mut refused = vec![];
        let storage = Storage::with_program(&bug.planted()).await;
        for case in cases::all() {
            let subject = storage.subject();
            for step in &case.steps {
                if subject.outcome(LUAU, step).await != step.expected {
                    refused.push(step.line);
                }
            }
        }
        assert!(!refused.is_empty(), "nobody notices: {}", bug.what);
        println!("{}: lines {refused:?}", bug.what);
    }
}
