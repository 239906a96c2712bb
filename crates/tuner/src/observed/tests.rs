use nacre_brados::{Value, compile};
use nacre_calls::encode_request;
use nacre_class::{ClassProgram, ClassRuntime};
use nacre_clock::{Clock, Random, SystemClock};
use nacre_object::{ClassCall, ClassName};
use nacre_program::Budget;

use super::*;
use crate::workload::{Line, MAX_DRAWN_TEXTS, Pattern};

const LOG: &str = include_str!("../../../../programs/class/log.brados");
const KV: &str = include_str!("../../../../programs/class/kv.brados");

/// The counts of these requests of a program.
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
fn the_observed_workload_of_a_log_resembles_the_requests_of_its_clients() {
    let seen = counted(LOG, log_requests(3, 1000));
    let objects = Objects { count: Some(4), rows: Rows::About(200) };
    let derived = workload_of(&compile(LOG).unwrap(), &seen, objects).unwrap();
    let text = "objects 4\nconcurrency 1\nfill 1 seal 3\nfill 200 write 3, next, bytes(1000)\n\
                mix 7498 read 3, used\nmix 2 seal 3\nmix 2499 write 3, next, bytes(1000)\n";
    assert_eq!(derived.workload.to_string(), text);
}

#[test]
fn the_workload_reports_what_was_not_observed() {
    let seen = counted(LOG, log_requests(0, 100));
    let derived = workload_of(&compile(LOG).unwrap(), &seen, Objects::default()).unwrap();
    let assumed = derived.assumed.join("; ");
    assert!(assumed.contains("128 rows") && assumed.contains("32 objects"), "{assumed}");
    let nothing = workload_of(&compile(LOG).unwrap(), &CallsSeen::default(), Objects::default());
    assert_eq!(nothing.unwrap_err().kind(), nacre_object::ErrorKind::NotFound);
}

#[test]
fn a_repeating_number_names_rows_if_it_is_a_key_and_is_constant_otherwise() {
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

/// The statuses that a class returns for a workload on one object.
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
        nacre_brados::shown_reply(&nacre_calls::decode_reply(&reply.unwrap().output).unwrap())
    };
    for Line { count, request } in &workload.fill {
        (0..*count).for_each(|_| drop(ask(request)));
    }
    let mut picks = Random::seeded(4);
    (0..mix).map(|_| ask(workload.pick(&mut picks))).collect()
}

#[test]
fn the_observed_requests_of_a_log_succeed_however_often_its_epoch_changed() {
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
fn old_requests_still_count_as_filling_objects() {
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
    let text = text.replace("concurrency 1\n", &format!("concurrency {}\n", workload.concurrency));
    assert_eq!(workload.to_string(), text);
    assert!(statuses(LOG, &workload, 100).iter().all(|answer| answer.contains("entry(")));
}

#[test]
fn a_method_that_sets_a_number_that_is_no_key_is_in_the_workload() {
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
        let text =
            format!("fill 1 advance 249\nfill 10 write next, bytes(1)\nmix 5000 advance {term}\n");
        assert!(workload.to_string().contains(&text), "{workload}");
    }
}

#[test]
fn the_workload_hardly_repeats_strings_that_were_too_many_to_count() {
    let put = |at: u64| ("put", vec![Value::text(&format!("{at}")), Value::text("v")]);
    let seen = counted(KV, (0..64 * 20_000).map(put));
    let workload = workload_of(&compile(KV).unwrap(), &seen, Objects::default()).unwrap();
    let Column::Text { count, .. } = workload.workload.fill[0].request.columns[0] else {
        panic!("{}", workload.workload)
    };
    assert_eq!(count, MAX_DRAWN_TEXTS);
}

#[test]
fn different_sizes_become_lines_with_the_observed_number_of_strings() {
    let put = |at: usize| {
        let key = Value::text(&format!("key{:03}", at % 50));
        ("put", vec![key, Value::Bytes(vec![b'v'; if at.is_multiple_of(4) { 3000 } else { 20 }])])
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

/// A workload made from any counts can be written to a file and read again.
#[test]
fn a_derived_workload_can_be_printed_and_parsed() {
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
        assert_eq!(Workload::parse(&text).as_ref(), Ok(&derived.workload), "seed {seed}: {text}");
    }
}
