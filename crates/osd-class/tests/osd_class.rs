//! Tests calls of the class on an OSD in memory: requests, answers, and what stays unchanged.

mod support;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use nacre_class::NoFaultSink;
use nacre_clock::{Clock, ManualClock, SystemClock};
use nacre_fuzz::fuzz_slow;
use nacre_object::limits::{MAX_MAP_VALUE_BYTES, MAX_OPS, MAX_REPLY_BYTES, MAX_REQUEST_KEYS};
use nacre_object::{ErrorKind, MapEntry, Op, OpResult};
use nacre_osd_class::{Mode, OsdClass};
use nacre_protocol::proto::{self as pb, Unsuited};
use nacre_protocol::{OSD_INTERFACE, decode};
use prost::Message;
use support::memory_osd::MemoryOsd;
use support::{Outcome, Send, call, input, program, request};

const COUNTER: &str = "function add(input, output)
    local before = 0
    pcall(function() before = tonumber(objclass.map_get_val('n'):str()) end)
    local value = bufferlist.new()
    value:append(tostring(before + 1))
    objclass.map_set_val('n', value)
    output:append(objclass.map_get_val('n'):str())
end
objclass.register(add)
function peek(input, output) output:append(objclass.map_get_val('n'):str()) end
objclass.register(peek)";

struct Osd {
    class: OsdClass,
    object: MemoryOsd,
    /// What the last call asked of the OSD.
    looks: Vec<&'static str>,
    /// How many entries of the map at a time.
    pages: Vec<usize>,
}

impl Osd {
    fn new() -> Self {
        Self::by(Arc::new(SystemClock::default()))
    }

    fn by(clock: Arc<dyn Clock>) -> Self {
        let class = OsdClass::new(clock, Arc::new(NoFaultSink)).unwrap();
        Self { class, object: MemoryOsd::default(), looks: vec![], pages: vec![] }
    }

    fn call(&mut self, mode: Mode, input: Vec<u8>) -> Outcome {
        let mut call = self.object.begin();
        let asked = pb::OsdRequest::decode(&input[..]).ok();
        let ops = asked.and_then(|asked| decode::ops(asked.ops).ok()).unwrap_or_default();
        let output = self.class.call(mode, input.into(), &mut call).unwrap();
        (self.object, self.looks, self.pages) = (call.after, call.looks, call.pages);
        Outcome::of(&ops, &output)
    }

    fn submit(&mut self, ops: Vec<Op>) -> Outcome {
        self.call(Mode::Submit, input(request("o", ops), &[]))
    }
}

fn output(outcome: Outcome) -> Bytes {
    match outcome.reply().results.pop() {
        Some(OpResult::Called(reply)) => reply.output,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_programs_source_is_requested_once() {
    let mut osd = Osd::new();
    let counter = program("counter", 3, COUNTER);
    let add = |send| input(request("o", vec![call("counter", "add", "")]), &[(&counter, send)]);
    match osd.call(Mode::Submit, add(Send::Digest)) {
        Outcome::NeedsSources(digests) => assert_eq!(digests, [&counter.digest().as_bytes()[..]]),
        other => panic!("{other:?}"),
    }
    assert!(!osd.object.exists);
    assert_eq!(output(osd.call(Mode::Submit, add(Send::Source))), "1");
    assert_eq!(output(osd.call(Mode::Submit, add(Send::Digest))), "2");
}

/// Each look is an operation of the OSD, which costs about a tenth of a call.
#[test]
fn a_call_reads_only_what_its_method_reads() {
    const SETTER: &str = "function set(input) objclass.map_set_val('k', input) end
    objclass.register(set)";
    let mut osd = Osd::new();
    let (setter, log) = (
        program("setter", 1, SETTER),
        program("log", 1, include_str!("../../../programs/class/log.lua")),
    );
    let numbers =
        |numbers: &[u64]| numbers.iter().flat_map(|n| n.to_le_bytes()).collect::<Vec<u8>>();
    let seal = call("log", "seal", numbers(&[1]));
    osd.call(Mode::Submit, input(request("o", vec![seal]), &[(&log, Send::Source)])).reply();
    for (program, op, looks) in [
        (&setter, call("setter", "set", "v"), &[][..]),
        // The header, and whether the position was written.
        (&log, call("log", "write", numbers(&[1, 7, 0])), &["entry", "entry"]),
        (&log, call("log", "read", numbers(&[1, 7])), &["entry", "entry"]),
    ] {
        osd.call(Mode::Submit, input(request("o", vec![op]), &[(program, Send::Source)])).reply();
        assert_eq!(osd.looks, looks, "{}", program.name());
    }
}

#[test]
fn a_source_that_does_not_match_its_announced_digest_is_refused() {
    let mut osd = Osd::new();
    let counter = program("counter", 1, COUNTER);
    let mut forged =
        input(request("o", vec![call("counter", "add", "")]), &[(&counter, Send::Source)]);
    let at = forged.windows(3).position(|bytes| bytes == b"add").unwrap();
    let last = forged.windows(4).rposition(|bytes| bytes == b"peek").unwrap();
    assert!(at < last);
    forged[last] = b'P';
    assert_eq!(osd.call(Mode::Submit, forged).error().kind(), ErrorKind::Invalid);
}

#[test]
fn two_programs_of_one_name_and_version_are_not_mixed_up() {
    let mut osd = Osd::new();
    let source = |text: &str| {
        format!("function say(input, output) output:append('{text}') end objclass.register(say)")
    };
    let (one, two) = (program("c", 1, &source("one")), program("c", 1, &source("two")));
    for (program, text) in [(&one, "one"), (&two, "two"), (&one, "one")] {
        let request = request("o", vec![call("c", "say", "")]);
        let said = output(osd.call(Mode::Submit, input(request, &[(program, Send::Source)])));
        assert_eq!(said, text);
    }
}

#[test]
fn a_failed_request_is_answered_and_changes_nothing() {
    let mut osd = Osd::new();
    let ops = vec![
        Op::WriteFull { data: Bytes::from_static(b"never") },
        call("lua", "eval_json", r#"{"script": "error('no')", "handler": ""}"#),
    ];
    let error = osd.submit(ops).error();
    assert_eq!((error.kind(), error.operation()), (ErrorKind::Fault, Some("call")));
    assert!(!osd.object.exists);
}

#[test]
fn inspect_reads_and_refuses_to_write() {
    let mut osd = Osd::new();
    osd.submit(vec![Op::WriteFull { data: Bytes::from_static(b"data") }]).reply();
    let read = vec![Op::Read { offset: 1, length: 2 }];
    let reply = osd.call(Mode::Inspect, input(request("o", read), &[])).reply();
    assert_eq!(reply.results, [OpResult::Data(Bytes::from_static(b"at"))]);
    let write = input(request("o", vec![Op::Truncate { size: 0 }]), &[]);
    assert!(matches!(osd.call(Mode::Inspect, write), Outcome::Unsuited(Unsuited::Writes)));
    assert_eq!(osd.object.data, b"data");
}

#[test]
fn a_request_that_no_object_class_can_run_is_left_to_the_client() {
    let mut osd = Osd::new();
    let set = Op::SetAttribute { name: "a".into(), value: Bytes::from_static(b"v") };
    osd.submit(vec![set]).reply();
    let outcome = osd.submit(vec![Op::RemoveAttribute { name: "a".into() }]);
    assert!(matches!(outcome, Outcome::Unsuited(Unsuited::RemovesAttribute)));
    assert!(osd.object.attributes.contains_key("a"));
}

#[test]
fn the_class_does_not_answer_a_change_with_too_long_an_answer() {
    let mut osd = Osd::new();
    osd.submit(vec![Op::WriteFull { data: Bytes::from_static(b"as it was") }]).reply();
    let with_bound = |max_reply_bytes, ops| {
        let bytes = input(request("o", ops), &[]);
        let message = pb::OsdRequest::decode(&bytes[..]).unwrap();
        pb::OsdRequest { max_reply_bytes, ..message }.encode_to_vec()
    };
    let read = Op::Read { offset: 0, length: 9 };
    let change = vec![read.clone(), Op::Truncate { size: 0 }];
    let outcome = osd.call(Mode::Submit, with_bound(12, change.clone()));
    assert!(matches!(outcome, Outcome::Unsuited(Unsuited::LongReply)), "{outcome:?}");
    assert_eq!(osd.object.data, b"as it was");
    // An OSD keeps the answer of each call that might have changed something, however long the
    // answer is.
    let outcome = osd.call(Mode::Submit, with_bound(12, vec![read.clone()]));
    assert!(matches!(outcome, Outcome::Unsuited(Unsuited::LongReply)), "{outcome:?}");
    osd.call(Mode::Inspect, with_bound(12, vec![read])).reply();
    osd.call(Mode::Submit, with_bound(64, change)).reply();
    assert_eq!(osd.object.data, b"");
}

#[test]
fn an_error_that_goes_into_the_osds_log_is_short() {
    let mut osd = Osd::new();
    let script = r#"{"script": "error(string.rep('é', 5000))", "handler": ""}"#;
    let fail = || input(request("o", vec![call("lua", "eval_json", script)]), &[]);
    let kept = osd.call(Mode::Submit, fail()).error();
    assert_eq!(kept.kind(), ErrorKind::Fault, "{kept}");
    assert!((256..=512).contains(&kept.message().len()), "{kept}");
    assert!(osd.call(Mode::Inspect, fail()).error().message().len() > kept.message().len());
}

#[test]
fn a_page_is_at_most_twice_as_long_as_the_previous_page() {
    let mut osd = Osd::new();
    for at in 0..1000_u32 {
        osd.object.omap.insert(Bytes::from(format!("{at:04}")), Bytes::from_static(b"small"));
    }
    osd.object.exists = true;
    let range = Op::MapRange { after: Bytes::new(), prefix: Bytes::new(), limit: 1000 };
    osd.call(Mode::Inspect, input(request("o", vec![range]), &[])).reply();
    assert!(osd.pages.len() > 4, "{:?}", osd.pages);
    let grows_slowly = |pair: &[usize]| pair[1] <= 2 * pair[0];
    assert!(osd.pages.windows(2).all(grows_slowly), "{:?}", osd.pages);
}

/// A clock that advances by this much with each reading.
#[derive(Debug)]
struct Ticking(ManualClock, Duration);

impl Clock for Ticking {
    fn now_micros(&self) -> u64 {
        self.0.now_micros()
    }

    fn monotonic(&self) -> Duration {
        self.0.advance(self.1);
        self.0.monotonic()
    }
}

#[test]
fn the_calls_of_a_request_share_an_allowance() {
    let clock = Arc::new(Ticking(ManualClock::at(1), Duration::from_millis(5)));
    let mut osd = Osd::by(clock);
    let counter = program("counter", 1, COUNTER);
    let adds = vec![call("counter", "add", ""); MAX_OPS];
    let error = osd.call(Mode::Submit, input(request("o", adds), &[(&counter, Send::Source)]));
    let error = error.error();
    assert_eq!(error.kind(), ErrorKind::Exhausted, "{error}");
    assert!(error.message().contains("the calls of the request"), "{error}");
    assert!(!osd.object.exists);
    let add = vec![call("counter", "add", "")];
    osd.call(Mode::Submit, input(request("o", add), &[(&counter, Send::Digest)])).reply();
}

/// A client must not be able to fill the memory of an OSD.
#[test]
fn a_key_requested_many_times_is_read_until_the_reply_is_full() {
    let mut osd = Osd::new();
    let value = Bytes::from(vec![b'v'; MAX_MAP_VALUE_BYTES]);
    let set = Op::MapSet { entries: vec![MapEntry { key: Bytes::from_static(b"k"), value }] };
    osd.submit(vec![set]).reply();
    let keys = vec![Bytes::from_static(b"k"); MAX_REQUEST_KEYS];
    let get = input(request("o", vec![Op::MapGet { keys }]), &[]);
    let error = osd.call(Mode::Inspect, get).error();
    assert_eq!(error.kind(), ErrorKind::Exhausted, "{error}");
    let held = MAX_REPLY_BYTES / MAX_MAP_VALUE_BYTES;
    assert!(osd.looks.len() <= held + 2, "{} looks", osd.looks.len());
}

#[test]
fn a_client_of_another_release_is_refused_with_that_reason() {
    let mut osd = Osd::new();
    let bytes = input(request("o", vec![Op::Create { exclusive: true }]), &[]);
    let message = pb::OsdRequest::decode(&bytes[..]).unwrap();
    let other = pb::OsdRequest { interface: OSD_INTERFACE + 1, ..message };
    let outcome = osd.call(Mode::Submit, other.encode_to_vec());
    assert!(matches!(outcome, Outcome::Unsuited(Unsuited::OtherInterface)), "{outcome:?}");
    assert!(!osd.object.exists);
}

#[test]
fn a_malformed_request_is_invalid() {
    let mut osd = Osd::new();
    let good = input(request("o", vec![Op::Stat]), &[]);
    let empty = pb::OsdRequest { interface: OSD_INTERFACE, ..Default::default() };
    for bytes in
        [empty.encode_to_vec(), vec![0xff; 40], good[..good.len() - 1].to_vec(), vec![8; 3]]
    {
        let kind = osd.call(Mode::Submit, bytes.clone()).error().kind();
        assert!(matches!(kind, ErrorKind::Invalid | ErrorKind::Unsupported), "{bytes:?}: {kind}");
    }
}

/// How many inputs a short run tries. Some inputs run a program.
const SHORT_RUN: u64 = 5_000;

#[test]
fn fuzz_inputs_of_the_osd_class() {
    let mut osd = Osd::new();
    osd.submit(vec![Op::WriteFull { data: Bytes::from_static(b"data") }]).reply();
    let counter = program("counter", 1, COUNTER);
    let samples = [
        input(request("o", vec![Op::Append { data: Bytes::from_static(b"x") }, Op::Stat]), &[]),
        input(request("o", vec![call("counter", "add", "")]), &[(&counter, Send::Source)]),
        input(request("o", vec![call("lua", "eval_json", r#"{"script":"","handler":""}"#)]), &[]),
    ];
    fuzz_slow(env!("CARGO_MANIFEST_DIR"), "inputs", SHORT_RUN, &samples, |bytes| {
        let before = osd.object.clone();
        match osd.call(Mode::Submit, bytes.to_vec()) {
            Outcome::Done { .. } => true,
            _ => {
                assert_eq!(osd.object, before);
                false
            }
        }
    });
}

#[test]
fn the_last_of_many_keys_is_found() {
    let mut osd = Osd::new();
    for at in 0..3000_u32 {
        let key = Bytes::from(format!("entry.{:020}", at * 977));
        osd.object.omap.insert(key, Bytes::new());
    }
    osd.object.exists = true;
    osd.object.omap.insert(Bytes::from_static(b"f"), Bytes::new());
    let script = "function h(i, o) o:append(objclass.map_last('entry.')) end objclass.register(h)";
    let last = program("c", 1, script);
    let asked = input(request("o", vec![call("c", "h", "")]), &[(&last, Send::Source)]);
    assert_eq!(output(osd.call(Mode::Inspect, asked)), format!("entry.{:020}", 2999 * 977));
}
