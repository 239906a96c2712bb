//! The class inside the OSDs of a real cluster, called by a plain client of RADOS.

mod support;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use nacre_clock::{Clock, SystemClock};
use nacre_conformance::{HostileScript, ceph_plugin_folder, hostile_scripts};
use nacre_object::{ErrorKind, MapEntry, Op, OpResult};
use support::ceph::{Osds, outcome};
use support::{Outcome, Send, call, input, program, request};

const NOTES: &str = "function put(input, output)
    objclass.map_set_val('last', input)
    output:append('put ' .. objclass.map_get_val('last'):str())
end
objclass.register(put)
function fail(input, output)
    objclass.map_set_val('last', input)
    error('on purpose')
end
objclass.register(fail)
function version(input, output) output:append(tostring(objclass.current_version())) end
objclass.register(version, 'readonly')";

/// How long a program may run (`nacre_script`), with a reserve for a busy machine.
const PATIENCE: Duration = Duration::from_secs(5);

fn bytes(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

fn output(outcome: Outcome) -> String {
    match outcome.reply().results.pop() {
        Some(OpResult::Called(reply)) => String::from_utf8(reply.output.to_vec()).unwrap(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn transactions_run_inside_the_osd() {
    let osds = Osds::with_plugin();
    a_program_is_asked_for_and_reads_its_own_writes(&osds);
    a_failure_reaches_the_client_and_leaves_nothing(&osds);
    every_kind_of_op_does_what_it_does_elsewhere(&osds);
    versions_are_those_of_rados(&osds);
}

fn a_program_is_asked_for_and_reads_its_own_writes(osds: &Osds) {
    let notes = program("notes", 1, NOTES);
    let ops = vec![call("notes", "put", "x")];
    let put = input(request("notes", ops.clone()), &[(&notes, Send::Digest)]);
    let asked = outcome(&ops, &osds.submit_bytes("notes", put));
    assert!(matches!(asked, Outcome::NeedsSources(_)), "{asked:?}");
    let (put, _) = osds.submit("notes", vec![call("notes", "put", "x")], &[&notes]);
    assert_eq!(output(put), "put x");
    let stored = osds.reply("notes", vec![Op::MapGet { keys: vec![bytes("last")] }]);
    assert_eq!(stored.results, [OpResult::Values(vec![Some(bytes("x"))])]);
}

fn a_failure_reaches_the_client_and_leaves_nothing(osds: &Osds) {
    let notes = program("notes", 1, NOTES);
    let ops = vec![Op::WriteFull { data: bytes("never") }, call("notes", "fail", "never")];
    let (failed, _) = osds.submit("notes", ops, &[&notes]);
    let error = failed.error();
    assert_eq!(error.kind(), ErrorKind::Fault, "{error}");
    assert!(error.message().contains("on purpose"), "{error}");
    assert_eq!(
        error.fault().map(|site| (site.program.as_str(), site.line)),
        Some(("notes", Some(8)))
    );
    let after = osds.reply("notes", vec![Op::Read { offset: 0, length: 9 }]);
    assert_eq!(after.results, [OpResult::Data(Bytes::new())]);
    let (guarded, _) = osds.submit("notes", vec![Op::AssertAbsent, Op::Remove], &[]);
    assert_eq!(guarded.error().kind(), ErrorKind::Exists);
    let (absent, _) = osds.submit("nowhere", vec![Op::Stat], &[]);
    assert_eq!(absent.error().kind(), ErrorKind::NotFound);
}

fn every_kind_of_op_does_what_it_does_elsewhere(osds: &Osds) {
    let entry = |key: &'static [u8]| MapEntry { key: Bytes::from_static(key), value: bytes("v") };
    let keys: [&[u8]; 4] = [b"\0", b"a\x01", b"k1", b"k2"];
    osds.reply(
        "ops",
        vec![
            Op::Create { exclusive: true },
            Op::Write { offset: 2, data: bytes("cdef") },
            Op::Append { data: bytes("gh") },
            Op::Zero { offset: 4, length: 1 },
            Op::Truncate { size: 7 },
            Op::SetAttribute { name: "a".repeat(200), value: bytes("long") },
            Op::MapSet { entries: keys.map(entry).to_vec() },
            Op::MapSetHeader { value: bytes("head") },
        ],
    );
    osds.reply("ops", vec![Op::MapRemove { keys: vec![bytes("k1")] }]);
    let reads = vec![
        Op::Read { offset: 0, length: 100 },
        Op::GetAttributes,
        Op::MapRange { after: Bytes::new(), prefix: Bytes::new(), limit: 100 },
        Op::MapGetHeader,
    ];
    let answer = osds.inspect_bytes("ops", input(request("ops", reads.clone()), &[]));
    let results = outcome(&reads, &answer).reply().results;
    assert_eq!(results[0], OpResult::Data(Bytes::from_static(b"\0\0cd\0fg")));
    assert_eq!(results[1], OpResult::Attributes(vec![("a".repeat(200), bytes("long"))]));
    let OpResult::Range(range) = &results[2] else { panic!("{results:?}") };
    let left = [entry(keys[0]), entry(keys[1]), entry(keys[3])];
    assert_eq!((&range.entries[..], range.more), (&left[..], false));
    assert_eq!(results[3], OpResult::Data(bytes("head")));

    osds.reply("ops", vec![Op::MapClear, Op::WriteFull { data: bytes("new") }]);
    osds.reply("ops", vec![Op::Remove, Op::Append { data: bytes("again") }]);
    let reads = vec![Op::Read { offset: 0, length: 9 }, Op::GetAttributes];
    let answer = osds.inspect_bytes("ops", input(request("ops", reads.clone()), &[]));
    let results = outcome(&reads, &answer).reply().results;
    assert_eq!(results, [OpResult::Data(bytes("again")), OpResult::Attributes(vec![])]);
    osds.reply("ops", vec![Op::Remove]);
    let (gone, _) = osds.submit("ops", vec![Op::AssertAbsent], &[]);
    assert!(matches!(gone, Outcome::Done { exists: false, .. }), "{gone:?}");
}

fn versions_are_those_of_rados(osds: &Osds) {
    let mut last = 0;
    let touches = [
        Op::Create { exclusive: true },
        Op::WriteFull { data: bytes("1") },
        Op::Write { offset: 0, data: Bytes::new() },
        Op::MapClear,
        Op::MapRemove { keys: vec![bytes("absent")] },
        Op::SetAttribute { name: "a".into(), value: bytes("1") },
        Op::Truncate { size: 1 },
    ];
    for op in touches {
        let name = op.name();
        let (outcome, version) = osds.submit("versions", vec![op], &[]);
        outcome.reply();
        assert!(version > last, "{name}: {version} follows {last}");
        last = version;
        let seen = osds.reply("versions", vec![Op::AssertVersion(version), Op::Stat]);
        let OpResult::Stat(stat) = &seen.results[1] else { panic!("{seen:?}") };
        assert_eq!(stat.version, version, "{name}");
    }
    let stale = vec![Op::AssertVersion(last - 1), Op::Remove];
    assert_eq!(osds.submit("versions", stale, &[]).0.error().kind(), ErrorKind::Conflict);
}

/// Ceph 16.2 does this. So nacre's class never returns a longer answer than the client requests.
#[test]
fn an_osd_that_drops_a_long_answer_keeps_the_size_of_the_dropped_change() {
    let short = ["--osds", "1", "--set", "osd_max_write_op_reply_len=1"];
    let osds = Osds::start(&ceph_plugin_folder(), &short);
    let rados = |what: &[&str]| osds.cluster.client("rados", &[&["-p", "nacre"], what].concat());
    rados(&["setomapval", "o", "count", "7"]);
    let count = MapEntry { key: bytes("count"), value: bytes("8") };
    let change = vec![Op::MapSet { entries: vec![count] }, Op::WriteFull { data: bytes("never") }];
    let answer = osds.submit_bytes("o", input(request("o", change), &[]));
    assert_eq!((answer.status, answer.output.len()), (-75, 0), "EOVERFLOW");
    let count = rados(&["getomapval", "o", "count"]);
    assert!(count.contains("|7|"), "{count}");
    assert_eq!(rados(&["get", "o", "-"]), "");
    let stat = rados(&["stat", "o"]);
    assert!(stat.contains("size 5"), "{stat}");
}

#[test]
fn a_hostile_program_ends_within_its_budget_and_others_are_served() {
    let osds = Osds::with_plugin();
    let before = osds.pids();
    let clock = SystemClock::default();
    osds.reply("victim", vec![Op::WriteFull { data: bytes("as it was") }]);
    let over = AtomicBool::new(false);
    let (served, slowest) = std::thread::scope(|scope| {
        let others = scope.spawn(|| serve_others(&osds, &over));
        for HostileScript { name, source, expected } in hostile_scripts() {
            let eval = serde_json::json!({ "script": source, "handler": "h", "input": "" });
            let began = clock.monotonic();
            let (outcome, _) =
                osds.submit("victim", vec![call("lua", "eval_json", eval.to_string())], &[]);
            let took = clock.monotonic() - began;
            let said = match outcome {
                Outcome::Failed(error) => error.kind().to_string(),
                Outcome::Done { reply, .. } => match &reply.results[0] {
                    OpResult::Called(reply) => format!("status {}", reply.status),
                    other => panic!("{name}: {other:?}"),
                },
                other => panic!("{name}: {other:?}"),
            };
            assert_eq!(said, expected, "{name}");
            assert!(took < PATIENCE, "{name} took {took:?}");
            let left = osds.reply("victim", vec![Op::Read { offset: 0, length: 99 }]);
            assert_eq!(left.results, [OpResult::Data(bytes("as it was"))], "{name}");
        }
        over.store(true, Ordering::Relaxed);
        others.join().unwrap()
    });
    println!("others: {served} requests, the slowest {slowest:?}");
    assert!(served > 0 && slowest < PATIENCE, "{served} requests, the slowest {slowest:?}");
    assert_eq!(osds.pids(), before, "every daemon lives on");
}

/// Writes small objects until the test ends. Returns their number, and the time of the slowest
/// write.
fn serve_others(osds: &Osds, over: &AtomicBool) -> (u32, Duration) {
    let clock = SystemClock::default();
    let (mut served, mut slowest) = (0, Duration::ZERO);
    while !over.load(Ordering::Relaxed) {
        let began = clock.monotonic();
        osds.reply(&format!("other.{}", served % 50), vec![Op::WriteFull { data: bytes("x") }]);
        slowest = slowest.max(clock.monotonic() - began);
        served += 1;
    }
    (served, slowest)
}

#[test]
fn an_osd_of_another_ceph_gets_no_methods_and_says_why() {
    let library = std::fs::read(ceph_plugin_folder().join("libcls_nacre.so")).unwrap();
    let mark = b"nacre-built-for-ceph:";
    let at = library.windows(mark.len()).position(|bytes| bytes == mark).expect("it is marked");
    let mut other = library;
    other[at + mark.len()] = b'9';
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("libcls_nacre.so"), other).unwrap();
    let osds = Osds::start(folder.path(), &["--osds", "1"]);
    let answer = osds.submit_bytes("o", input(request("o", vec![Op::Stat]), &[]));
    assert_eq!(answer.status, -95, "the method is not there: {answer:?}");
    let log = std::fs::read_to_string(osds.cluster.folder().join("log/osd.0.log")).unwrap();
    assert!(log.contains("libcls_nacre.so was built for 9"), "the log says why");
}
