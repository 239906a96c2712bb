//! Map programs: authorise, sanitise, refuse, trigger; and triggers whatever dies when.

mod common;

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use common::{faulty_maps, maps, name, program, programs, store, store_reporting_to};
use nacre_class::{FaultSink, ProgramFault};
use nacre_conformance::faults::{FaultOdds, Operation, seeded};
use nacre_conformance::wait::within_deadline;
use nacre_conformance::{Fault, MemoryStore, peak_memory_kib, seeds};
use nacre_object::{EntityName, Error, ErrorKind, Op};
use nacre_registry::limits::{MAX_PENDING_TRIGGERS, MAX_TRIGGER_CHAIN};
use nacre_registry::{Change, Maps};

/// The memory that this test process may use, in KiB. A test program passes the host one large
/// string four hundred times. With a copy of each, the test needs more memory than this.
const MAX_PEAK_KIB: u64 = 1 << 20;

/// Makes a source the program of a map.
async fn bind(store: &MemoryStore, map: &str, source: &str) -> u64 {
    let programs = programs(&maps(store));
    let id = program(&format!("map/{map}"));
    let version = programs.put(&id, source).await.unwrap();
    programs.activate(&id, version).await.unwrap();
    version
}

async fn value(maps: &Maps, map: &str, key: &str) -> Option<Bytes> {
    maps.entry(&name(map), key).await.unwrap().1
}

fn set(key: &str, value: &str) -> Vec<Change> {
    vec![Change::set(key, value.as_bytes().to_vec())]
}

fn assert_refused(error: &Error, kind: ErrorKind, text: &str) {
    assert_eq!((error.kind(), error.message()), (kind, text), "{error}");
}

#[tokio::test]
async fn a_map_program_decides_who_may_commit() {
    let store = store();
    let source = "function commit(proposal, map)
        if proposal.source ~= 'admin' then
            map.deny('only admin, not ' .. proposal.source)
        end
    end";
    bind(&store, "m", source).await;
    let maps = maps(&store);
    let as_entity = |name: &str| maps.acting_as(EntityName::new(name).unwrap());

    let error = as_entity("anne").apply(&name("m"), set("a", "1")).await.unwrap_err();
    assert_refused(&error, ErrorKind::Denied, "only admin, not anne");
    let site = error.fault().unwrap();
    assert_eq!((site.program.as_str(), site.version, site.line), ("map/m", 1, Some(3)));
    assert_eq!(maps.epoch(&name("m")).await.unwrap(), 0, "nothing was committed");

    assert_eq!(as_entity("admin").apply(&name("m"), set("a", "1")).await.unwrap(), 1);
    assert_eq!(as_entity("anne").apply(&name("other"), set("a", "1")).await.unwrap(), 1);
}

#[tokio::test]
async fn a_program_rewrites_drops_and_adds_changes() {
    let store = store();
    let source = "function commit(proposal, map)
        local kept = {}
        for _, change in ipairs(proposal.changes) do
            if change.value then change.value = string.lower(change.value) end
            if change.key ~= 'secret' then table.insert(kept, change) end
        end
        local former = tonumber(map.get('commits') or '0')
        table.insert(kept, { key = 'commits', value = tostring(former + 1) })
        proposal.changes = kept
    end";
    bind(&store, "m", source).await;
    let maps = maps(&store);
    let changes = vec![Change::set("a", "LOUD"), Change::set("secret", "x"), Change::remove("b")];
    maps.commit(&name("m"), 0, changes).await.unwrap();
    maps.commit(&name("m"), 1, set("b", "B")).await.unwrap();

    let state = maps.get(&name("m")).await.unwrap();
    let entries: Vec<_> = state.entries.iter().map(|(k, v)| (k.as_str(), &v[..])).collect();
    assert_eq!(entries, [("a", &b"loud"[..]), ("b", b"b"), ("commits", b"2")]);
    let history = maps.history(&name("m"), 0, 10).await.unwrap();
    let committed =
        vec![Change::set("a", "loud"), Change::remove("b"), Change::set("commits", "1")];
    assert_eq!(history.records[0].changes, committed, "watchers are told what was committed");
}

#[tokio::test]
async fn a_map_program_sees_the_proposal_and_the_map() {
    let store = store();
    let maps = maps(&store).acting_as(EntityName::new("anne").unwrap());
    maps.commit(&name("m"), 0, set("old", "there")).await.unwrap();
    let source = "function commit(proposal, map)
        map.invalid(table.concat({
            proposal.map, proposal.source, tostring(proposal.epoch), tostring(proposal.at),
            tostring(#proposal.chain), proposal.changes[1].key, proposal.changes[1].value,
            tostring(proposal.changes[2].value), map.get('old'), tostring(map.get('none')),
        }, ' '))
    end";
    bind(&store, "m", source).await;
    let changes = vec![Change::set("k", &b"v\0\xff"[..]), Change::remove("r")];
    let error = maps.commit(&name("m"), 1, changes).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    let text = error.message();
    assert!(text.starts_with("m anne 2 1700000000000000 0 k v\0"), "{text:?}");
    assert!(text.ends_with(" nil there nil"), "{text:?}");
}

#[tokio::test]
async fn a_failing_map_program_fails_only_its_commit() {
    let cases = [
        ("local x = nil\nx.y = 1", ErrorKind::Fault, Some(2)),
        ("while true do end", ErrorKind::Exhausted, None),
        ("proposal.changes = { 7 }", ErrorKind::Fault, None),
        ("proposal.changes = { { key = 'k', value = 7 } }", ErrorKind::Fault, None),
        ("proposal.changes = { { key = '', value = 'x' } }", ErrorKind::Invalid, None),
        ("proposal.changes[1].value = string.rep('x', 100000)", ErrorKind::Invalid, None),
        ("map.trigger('no such name', {})", ErrorKind::Invalid, Some(1)),
        ("for n = 1, 100 do map.trigger('t', {{key='k'}}) end", ErrorKind::Exhausted, Some(1)),
        ("proposal.changes = { { key = '\\xff', value = '' } }", ErrorKind::Fault, None),
        ("map.trigger('t', {})", ErrorKind::Invalid, None),
        ("map.trigger('entities', {{key='k', value='v'}})", ErrorKind::Invalid, Some(1)),
        ("map.trigger('layouts', {{key='k', value='v'}})", ErrorKind::Invalid, Some(1)),
        ("map.trigger('log.orders', {{key='k', value='v'}})", ErrorKind::Invalid, Some(1)),
    ];
    for (body, kind, line) in cases {
        let store = store();
        let version =
            bind(&store, "m", &format!("function commit(proposal, map) {body}\nend")).await;
        let maps = maps(&store);
        let error = maps.commit(&name("m"), 0, set("a", "1")).await.unwrap_err();
        assert_eq!(error.kind(), kind, "{body}: {error}");
        let site = error.fault().unwrap_or_else(|| panic!("{body}: no fault site in {error}"));
        assert_eq!((site.program.as_str(), site.version), ("map/m", version), "{body}");
        if line.is_some() {
            assert_eq!(site.line, line, "{body}: {error}");
        }
        assert_eq!(maps.epoch(&name("m")).await.unwrap(), 0, "{body}");
        assert_eq!(maps.epoch(&name("t")).await.unwrap(), 0, "{body}");
        assert_eq!(maps.commit(&name("free"), 0, set("a", "1")).await.unwrap(), 1);
    }
}

#[tokio::test]
async fn a_string_repeated_in_many_changes_is_copied_only_up_to_the_bound() {
    const MANY: &str = "local text, changes = string.rep('x', 2^23), {}
        for n = 1, 400 do changes[n] = { key = 'k' .. n, value = text } end";
    let bodies = [
        format!("{MANY} proposal.changes = changes"),
        format!("{MANY} map.trigger('t', changes)"),
        format!("{MANY} for n = 1, 8 do map.trigger('t', {{ changes[n] }}) end"),
    ];
    for body in bodies {
        let store = store();
        bind(&store, "m", &format!("function commit(proposal, map) {body} end")).await;
        let error = maps(&store).commit(&name("m"), 0, set("a", "1")).await.unwrap_err();
        assert_refused(&error, ErrorKind::Invalid, "a commit of 8388610 bytes is too long");
        assert_eq!(error.fault().expect("it is the program's").program, "map/m", "{body}");
        assert!(peak_memory_kib() < MAX_PEAK_KIB, "{body}: {} KiB", peak_memory_kib());
    }
}

/// Notes which programs failed where.
#[derive(Default)]
struct Recorder(Mutex<Vec<(String, u64, Option<u32>)>>);

impl FaultSink for Recorder {
    fn fault(&self, fault: &ProgramFault<'_>) {
        let site = (fault.program.to_owned(), fault.version, fault.line);
        self.0.lock().unwrap().push(site);
    }
}

#[tokio::test]
async fn a_map_programs_fault_is_reported_and_its_refusal_is_not() {
    let recorder = Arc::new(Recorder::default());
    let store = store_reporting_to(recorder.clone());
    bind(&store, "strict", "function commit(proposal, map) map.deny('no') end").await;
    bind(&store, "broken", "function commit(proposal, map)\nproposal.x.y = 1 end").await;
    let maps = maps(&store);
    for map in ["strict", "broken"] {
        maps.apply(&name(map), set("k", "v")).await.unwrap_err();
    }
    assert_eq!(*recorder.0.lock().unwrap(), [("map/broken".to_owned(), 1, Some(2))]);
}

#[tokio::test]
async fn a_map_program_keeps_no_state_between_commits() {
    let store = store();
    let source = "count = 0
    function commit(proposal, map)
        count += 1
        proposal.changes[1].value = tostring(count)
    end";
    bind(&store, "m", source).await;
    let maps = maps(&store);
    for epoch in 0..3 {
        maps.commit(&name("m"), epoch, set("count", "")).await.unwrap();
        assert_eq!(value(&maps, "m", "count").await.unwrap(), "1");
    }
}

#[tokio::test]
async fn rolling_back_and_removing_a_program_takes_effect_at_once() {
    let store = store();
    let say = |text: &str| {
        format!("function commit(proposal, map) proposal.changes[1].value = '{text}' end")
    };
    bind(&store, "m", &say("one")).await;
    bind(&store, "m", &say("two")).await;
    let (maps, id) = (maps(&store), program("map/m"));
    let programs = programs(&maps);
    let committed = async || {
        maps.apply(&name("m"), set("k", "plain")).await.unwrap();
        value(&maps, "m", "k").await.unwrap()
    };
    assert_eq!(committed().await, "two");
    assert_eq!(programs.rollback(&id).await.unwrap(), 1);
    assert_eq!(committed().await, "one");
    let removal = nacre_registry::Removal::EvenIfActive;
    programs.remove(&id, None, removal).await.unwrap();
    assert_eq!(committed().await, "plain");
    assert_eq!(bind(&store, "m", &say("three")).await, 3, "numbers are not used again");
    assert_eq!(committed().await, "three");
}

/// Copies each commit of `from` to `to`.
fn copy_to(to: &str) -> String {
    format!("function commit(proposal, map) map.trigger('{to}', proposal.changes) end")
}

#[tokio::test]
async fn a_committer_carries_out_triggers_with_their_origin() {
    let store = store();
    bind(&store, "a", &copy_to("b")).await;
    bind(&store, "b", &copy_to("c")).await;
    let maps = maps(&store);
    maps.commit(&name("a"), 0, set("k", "v")).await.unwrap();
    assert_eq!(value(&maps, "c", "k").await.unwrap(), "v");
    let record = &maps.history(&name("c"), 0, 1).await.unwrap().records[0];
    let origin = record.origin.as_ref().unwrap();
    assert_eq!((origin.chain.as_slice(), origin.sequence), (&[name("a"), name("b")][..], 1));
}

#[tokio::test]
async fn a_cycle_of_triggers_ends_with_an_event() {
    let store = store();
    bind(&store, "a", &copy_to("b")).await;
    bind(&store, "b", &copy_to("a")).await;
    let maps = maps(&store);
    maps.commit(&name("a"), 0, set("k", "v")).await.unwrap();
    let epochs = [maps.epoch(&name("a")).await.unwrap(), maps.epoch(&name("b")).await.unwrap()];
    assert_eq!(epochs.iter().sum::<u64>(), MAX_TRIGGER_CHAIN as u64);
    let event = maps.events().recent(1).await.unwrap().pop().unwrap();
    assert!(event.text.contains("is it a cycle?"), "{}", event.text);
    assert!(event.fields["maps"].starts_with("a -> b -> a -> "), "{:?}", event.fields);
}

#[tokio::test]
async fn a_trigger_that_is_refused_is_dropped_with_an_event() {
    let store = store();
    bind(&store, "a", &copy_to("b")).await;
    bind(&store, "b", "function commit(proposal, map) map.deny('closed') end").await;
    let maps = maps(&store);
    assert_eq!(maps.commit(&name("a"), 0, set("k", "v")).await.unwrap(), 1);
    assert_eq!(maps.epoch(&name("b")).await.unwrap(), 0);
    let event = maps.events().recent(1).await.unwrap().pop().unwrap();
    assert!(event.text.contains("closed"), "{}", event.text);
    assert_eq!(event.fields["maps"], "a -> b");
}

/// The committer dies after its commit: nothing it sends arrives any more.
fn dies_after_its_commit(operation: Operation<'_>) -> Option<Fault> {
    match operation {
        Operation::Submit(request) => {
            let is_commit = request.header.object.name.as_str() == "map/a"
                && matches!(&request.ops[..], [Op::Call(call)] if call.method.as_str() == "commit");
            (!is_commit).then_some(Fault::FailBefore)
        }
        _ => Some(Fault::FailBefore),
    }
}

#[tokio::test(start_paused = true)]
async fn a_later_reader_carries_out_the_triggers_of_a_dead_committer() {
    let store = store();
    bind(&store, "a", &copy_to("b")).await;
    {
        let (dying, _) = faulty_maps(&store, Box::new(dies_after_its_commit));
        assert_eq!(dying.commit(&name("a"), 0, set("k", "v")).await.unwrap(), 1);
    }
    let reader = maps(&store);
    assert_eq!(reader.epoch(&name("b")).await.unwrap(), 0, "the committer died before");
    let mut watcher = reader.watch(&name("b"), 0);
    reader.get(&name("a")).await.unwrap();
    assert_eq!(within_deadline("what is told next", watcher.next()).await.unwrap().epoch(), 1);
    assert_eq!(value(&reader, "b", "k").await.unwrap(), "v");
}

#[tokio::test]
async fn commits_are_refused_while_too_many_triggers_wait() {
    let store = store();
    bind(&store, "a", &copy_to("b")).await;
    bind(&store, "b", "function commit(proposal, map) while true do end end").await;
    // A committer that never gets round to its triggers.
    let (busy, stage) = faulty_maps(&store, Box::new(dies_after_its_commit));
    for epoch in 0..MAX_PENDING_TRIGGERS {
        busy.commit(&name("a"), epoch, set("k", "v")).await.unwrap();
    }
    let error = busy.commit(&name("a"), MAX_PENDING_TRIGGERS, set("k", "v")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Exhausted);
    stage.heal();
    bind(&store, "b", "function commit(proposal, map) end").await;
    busy.settle(&name("a")).await.unwrap();
    assert_eq!(busy.epoch(&name("b")).await.unwrap(), MAX_PENDING_TRIGGERS);
    busy.commit(&name("a"), MAX_PENDING_TRIGGERS, set("k", "v")).await.unwrap();
}

/// The program of map `a` triggers a copy of each commit into map `b`. A committer whose messages
/// are lost may stop before it has carried out the trigger; then a second client carries it out.
/// Each commit must reach `b` exactly once, in order.
#[tokio::test(start_paused = true)]
async fn each_trigger_is_carried_out_once_although_messages_are_lost() {
    const COMMITS: u64 = 30;
    for seed in seeds(20) {
        let store = store();
        bind(&store, "a", &copy_to("b")).await;
        let odds = FaultOdds { fail_before: 5, fail_after: 5, lose_event: 0 };
        let (one, _) = faulty_maps(&store, seeded(seed, odds));
        let (two, _) = faulty_maps(&store, seeded(seed + 1000, odds));
        let commit = async {
            for epoch in 0..COMMITS {
                one.commit(&name("a"), epoch, set("k", &epoch.to_string())).await.unwrap();
            }
        };
        let help = async {
            for _ in 0..COMMITS {
                let _ = two.settle(&name("a")).await;
                tokio::task::yield_now().await;
            }
        };
        tokio::join!(commit, help);
        let maps = maps(&store);
        maps.settle(&name("a")).await.unwrap();
        let history = maps.history(&name("b"), 0, usize::MAX).await.unwrap();
        let copied: Vec<_> =
            history.records.into_iter().flat_map(|record| record.changes).collect();
        let expected: Vec<_> = (0..COMMITS).flat_map(|n| set("k", &n.to_string())).collect();
        assert_eq!(copied, expected, "seed {seed}");
    }
}
