//! Tests the engine together with the class inside the OSDs. The engine sends its requests to the
//! class, and the answers must equal those of the engine alone.

mod support;

use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use nacre_class::{ClassProgram, ClassRuntime, FaultSink, ProgramFault};
use nacre_clock::{Clock, ManualClock, SystemClock};
use nacre_conformance::wait::eventually;
use nacre_conformance::{
    CephCluster, Subject, TestClasses, ceph_plugin_folder, compare, run_all, seeds,
};
use nacre_log::log_class;
use nacre_object::{
    CallReply, ErrorKind, MapEntry, Op, OpResult, RemoteClassHost, Request, Result, Store,
};
use nacre_program::Budget;
use nacre_rados::{OsdCounts, RadosEngine, RadosOptions};
use support::{call, program, request};

/// Random runs.
const SEEDS: u64 = 8;
/// Steps of one.
const STEPS: usize = 150;

/// A program valid in both Lua dialects. It counts, and returns a string of the requested length.
const COUNTER: &str = include_str!("../../../programs/class/counter.lua");
const NOTES: &str = "function put(input, output)
    objclass.map_set_val('last', input)
    output:append('put ' .. objclass.map_get_val('last'):str())
end
objclass.register(put)
function count_loudly(input, output)
    local found, count = pcall(objclass.map_get_val, 'count')
    local sum = (found and tonumber(count:str()) or 0) + 1
    local value = bufferlist.new()
    value:append(tostring(sum))
    objclass.map_set_val('count', value)
    output:append(tostring(sum) .. string.rep('!', tonumber(input:str())))
end
objclass.register(count_loudly)
function fail(input, output)
    objclass.map_set_val('last', input)
    error('on purpose')
end
objclass.register(fail)
function last(input, output) output:append(objclass.map_get_val('last'):str()) end
objclass.register(last, 'readonly')";

/// Counts what two listings list, in both languages.
const CENSUS: &str = "--!cls_lua
local function count(entries)
    local number = 0
    for at = 1, 200 do
        if entries[('key %03d'):format(at)] ~= nil then number = number + 1 end
    end
    return number
end
function census(input, output)
    local after, most = input:str(), 120
    local keys = count(objclass.map_get_keys(after, most))
    local vals = count(objclass.map_get_vals(after, 'key', most))
    output:append(tostring(keys) .. ' ' .. tostring(vals))
end
objclass.register(census, 'readonly')";

/// What the sink heard.
#[derive(Default)]
struct Heard(Mutex<Vec<String>>);

impl FaultSink for Heard {
    fn fault(&self, fault: &ProgramFault<'_>) {
        let ProgramFault { program, version, method, line, .. } = fault;
        self.0.lock().unwrap().push(format!("{program} {version} {method} {line:?}"));
    }
}

/// An engine with programs, on a cluster of its own.
struct Node {
    engine: RadosEngine,
    runtime: Arc<ClassRuntime>,
    heard: Arc<Heard>,
    // Outlives its clients.
    ceph: CephCluster,
}

async fn connect(ceph: &CephCluster, classes: Arc<dyn RemoteClassHost>) -> RadosEngine {
    connect_by(ceph, classes, Arc::new(SystemClock::default())).await
}

async fn connect_by(
    ceph: &CephCluster,
    classes: Arc<dyn RemoteClassHost>,
    clock: Arc<dyn Clock>,
) -> RadosEngine {
    let options = RadosOptions { conf: Some(ceph.conf()), ..Default::default() };
    RadosEngine::connect(options, classes, clock).await.unwrap()
}

fn cluster(class_dir: &Path, options: &[&str]) -> CephCluster {
    let class_dir = class_dir.to_str().unwrap();
    CephCluster::start(&[&["--class-dir", class_dir], options].concat())
}

impl Node {
    async fn on(ceph: CephCluster) -> Self {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
        let heard = Arc::new(Heard::default());
        let runtime = ClassRuntime::new(Budget::default(), clock).reporting_to(heard.clone());
        runtime.register_native(log_class()).unwrap();
        let runtime = Arc::new(runtime);
        let engine = connect(&ceph, runtime.clone()).await;
        Self { ceph, engine, runtime, heard }
    }

    async fn with_plugin() -> Self {
        Self::on(cluster(&ceph_plugin_folder(), &["--osds", "1"])).await
    }

    fn install(&self, program: &ClassProgram) {
        self.runtime.install(program).unwrap();
    }

    async fn submit(&self, object: &str, ops: Vec<Op>) -> Result<Vec<OpResult>> {
        Ok(self.engine.submit(request(object, ops)).await?.results)
    }

    async fn call(
        &self,
        object: &str,
        class: &str,
        method: &str,
        input: &str,
    ) -> Result<CallReply> {
        match self.submit(object, vec![call(class, method, input.to_owned())]).await?.pop() {
            Some(OpResult::Called(reply)) => Ok(reply),
            other => panic!("{other:?}"),
        }
    }

    /// Operations of clients that the only OSD has done.
    fn operations(&self) -> u64 {
        let socket = self.ceph.folder().join("run/osd.0.asok");
        let ask = ["--admin-daemon", socket.to_str().unwrap(), "perf", "dump", "osd", "op"];
        let counters: serde_json::Value =
            serde_json::from_str(&self.ceph.client("ceph", &ask)).unwrap();
        counters["osd"]["op"].as_u64().unwrap()
    }

    fn counts(&self) -> (u64, u64) {
        let OsdCounts { by_plugin, by_stock, .. } = self.engine.osd_counts();
        (by_plugin, by_stock)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_engine_with_the_class_in_the_osds_passes_the_conformance_suite() {
    let ceph = cluster(&ceph_plugin_folder(), &[]);
    let engine = connect(&ceph, Arc::new(TestClasses)).await;
    let subject = Subject::watched(Arc::new(engine.clone()));
    run_all(&subject).await;
    let after_suite = engine.osd_counts().by_plugin;
    assert!(after_suite > 100, "{after_suite} requests ran there");
    for seed in seeds(SEEDS) {
        compare(&subject, seed, STEPS).await;
    }
    let random = engine.osd_counts().by_plugin - after_suite;
    assert!(random > SEEDS * STEPS as u64 / 10, "{random} requests ran there");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_are_run_in_the_osd() {
    let node = Node::with_plugin().await;
    node.install(&program("notes", 3, NOTES));
    a_program_goes_there_once(&node).await;
    a_call_is_one_operation(&node).await;
    a_reply_that_is_too_long_for_an_osd_arrives_and_is_counted_once(&node).await;
    a_fault_in_an_osd_is_reported_by_the_client(&node).await;
    time_goes_on(&node).await;
    what_reads_only_is_answered_from_absent_objects_too(&node).await;
    clients_that_count_at_once_lose_nothing(&node).await;
}

async fn a_program_goes_there_once(node: &Node) {
    let (before, _) = node.counts();
    for text in ["x", "y"] {
        let reply = node.call("notes", "notes", "put", text).await.unwrap();
        assert_eq!(reply.output, format!("put {text}"));
    }
    assert_eq!(node.call("notes", "notes", "last", "").await.unwrap().output, "y");
    let (after, by_stock) = node.counts();
    assert_eq!((after - before, by_stock), (3, 0));
    let stale = Op::Call(nacre_object::ClassCall {
        class: "notes".parse().unwrap(),
        method: "put".parse().unwrap(),
        version: Some(2),
        input: Bytes::new(),
    });
    let error = node.submit("notes", vec![stale]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Stale, "{error}");
}

/// The engine asks an OSD only once which classes it has. So each later call is one operation.
async fn a_call_is_one_operation(node: &Node) {
    const CALLS: u64 = 20;
    let operations = || tokio::task::block_in_place(|| node.operations());
    node.call("other", "notes", "put", "x").await.unwrap();
    let before = operations();
    for _ in 0..CALLS {
        node.call("other", "notes", "put", "x").await.unwrap();
    }
    assert_eq!(operations() - before, CALLS);
}

async fn a_reply_that_is_too_long_for_an_osd_arrives_and_is_counted_once(node: &Node) {
    for count in 1..4 {
        let reply = node.call("loud", "notes", "count_loudly", "5000").await.unwrap();
        assert_eq!(reply.output, format!("{count}{}", "!".repeat(5000)));
    }
    let (before, _) = node.counts();
    // For a while the client itself runs calls of this method. The OSD still runs other methods.
    node.call("loud", "notes", "count_loudly", "1").await.unwrap();
    node.call("loud", "notes", "put", "z").await.unwrap();
    assert_eq!(node.counts().0 - before, 1);
}

async fn a_fault_in_an_osd_is_reported_by_the_client(node: &Node) {
    let ops = vec![Op::WriteFull { data: Bytes::from("never") }, call("notes", "fail", "never")];
    let error = node.submit("notes", ops).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Fault, "{error}");
    assert_eq!(error.fault().and_then(|site| site.line), Some(17), "{error}");
    assert_eq!(*node.heard.0.lock().unwrap(), ["notes 3 fail Some(17)"]);
    assert_eq!(node.call("notes", "notes", "last", "").await.unwrap().output, "y");
}

async fn time_goes_on(node: &Node) {
    let modified = async || match node.submit("timed", vec![Op::Stat]).await.unwrap().pop() {
        Some(OpResult::Stat(stat)) => stat.modified_micros,
        other => panic!("{other:?}"),
    };
    node.call("timed", "notes", "put", "x").await.unwrap();
    let first = modified().await;
    let now = SystemClock::default().now_micros();
    assert!(now - first < 10_000_000, "{first} is now, {now}");
    tokio::time::sleep(Duration::from_millis(1100)).await;
    node.call("timed", "notes", "put", "y").await.unwrap();
    assert!(modified().await > first);
}

async fn what_reads_only_is_answered_from_absent_objects_too(node: &Node) {
    let error = node.call("nowhere", "notes", "last", "").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
}

async fn clients_that_count_at_once_lose_nothing(node: &Node) {
    node.install(&program("counter", 1, COUNTER));
    let others = connect(&node.ceph, node.runtime.clone()).await;
    let add = |engine: &RadosEngine| {
        let engine = engine.clone();
        tokio::spawn(async move {
            let add = vec![call("counter", "add", "1")];
            engine.submit(Request::new("data/sum".parse().unwrap(), add).unwrap()).await
        })
    };
    let adding: Vec<_> = (0..100).flat_map(|_| [add(&node.engine), add(&others)]).collect();
    for added in adding {
        added.await.unwrap().unwrap();
    }
    assert_eq!(node.call("sum", "counter", "add", "0").await.unwrap().output, "200");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_the_class_cls_lua_runs_marked_programs_and_the_engine_the_others() {
    let empty = tempfile::tempdir().unwrap();
    let node = Node::on(cluster(empty.path(), &["--osds", "1"])).await;
    node.install(&program("counter", 1, COUNTER));
    node.install(&program("notes", 1, NOTES));
    assert!(COUNTER.starts_with("--!cls_lua"), "it says that it is made for both");
    for (input, sum) in [("5", "5"), ("2", "7"), ("-10", "-3")] {
        assert_eq!(node.call("sum", "counter", "add", input).await.unwrap().output, sum);
    }
    assert_eq!(node.counts(), (0, 3));
    // If a call of the class in the OSD fails, the engine itself runs the call, and finds the
    // proper error.
    let refused = node.call("sum", "counter", "add", "0.5").await.unwrap_err();
    assert!(refused.message().contains("add whole numbers"), "{refused}");
    assert_eq!(node.call("notes", "notes", "put", "x").await.unwrap().output, "put x");
    assert_eq!(node.counts(), (0, 3));
    let stat = node.submit("sum", vec![Op::Stat]).await.unwrap();
    let OpResult::Stat(stat) = &stat[0] else { panic!("{stat:?}") };
    let guarded = vec![Op::AssertVersion(stat.version), call("counter", "add", "1")];
    node.submit("sum", guarded).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_listing_cut_by_the_osd_is_not_taken_for_complete() {
    let empty = tempfile::tempdir().unwrap();
    let options = ["--osds", "1", "--set", "osd_max_omap_entries_per_request=100"];
    let node = Node::on(cluster(empty.path(), &options)).await;
    node.install(&program("census", 1, CENSUS));
    let key = |number: usize| format!("key {number:03}");
    let entry = |number| MapEntry { key: key(number).into(), value: Bytes::new() };
    let entries = (1..=200).map(entry).collect();
    node.submit("map", vec![Op::MapSet { entries }]).await.unwrap();
    for (after, expected, by_stock) in [
        (key(150), "50 50", 1),
        (key(100), "100 100", 2),
        (key(99), "101 101", 2),
        (key(0), "120 120", 2),
        (key(200), "0 0", 3),
    ] {
        assert_eq!(node.call("map", "census", "census", &after).await.unwrap().output, expected);
        assert_eq!(node.counts(), (0, by_stock), "after {after}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_is_executed_once_although_its_osd_dies() {
    const CALLS: usize = 1500;
    let options = ["--osds", "3", "--store", "bluestore", "--size", "2"];
    let node = Arc::new(Node::on(cluster(&ceph_plugin_folder(), &options)).await);
    node.install(&program("counter", 1, COUNTER));
    node.call("sum", "counter", "add", "0").await.unwrap();
    let primary = node.engine.locate(&"data/sum".parse().unwrap()).await.unwrap().primary;
    let primary = format!("osd.{primary}");
    let counting = tokio::spawn({
        let node = node.clone();
        async move {
            for _ in 0..CALLS {
                node.call("sum", "counter", "add", "1").await.unwrap();
            }
        }
    });
    for _ in 0..2 {
        // Some calls are under way, whatever the machine does besides.
        let (before, _) = node.counts();
        while node.counts().0 < before + 20 && !counting.is_finished() {
            tokio::task::yield_now().await;
        }
        let (node, primary) = (node.clone(), primary.clone());
        let restart = move || {
            node.ceph.kill(&primary);
            node.ceph.restart(&primary);
        };
        tokio::task::spawn_blocking(restart).await.unwrap();
    }
    counting.await.unwrap();
    let sum = node.call("sum", "counter", "add", "0").await.unwrap().output;
    assert_eq!(sum, CALLS.to_string());
    assert_eq!(node.counts().0, CALLS as u64 + 2, "all of them ran there");
}

/// Where Ceph's own classes are.
const STOCK_CLASSES: &str = "/usr/lib/x86_64-linux-gnu/rados-classes";

/// Starts two OSDs that both keep all data. The first has nacre's class, the second only Ceph's
/// classes. The folder must outlive the OSDs.
async fn half_equipped(folder: &Path) -> Node {
    symlink(ceph_plugin_folder(), folder.join("osd.0")).unwrap();
    symlink(STOCK_CLASSES, folder.join("osd.1")).unwrap();
    let classes = format!("osd_class_dir={}/$name", folder.display());
    let options = ["--osds", "2", "--store", "bluestore", "--size", "2", "--set", &classes];
    let node = Node::on(CephCluster::start(&options)).await;
    node.install(&program("counter", 1, COUNTER));
    node
}

/// An object that an OSD serves.
async fn object_of(osd: i32, engine: &RadosEngine) -> String {
    for number in 0.. {
        let name = format!("sum.{number}");
        let object = format!("data/{name}").parse().unwrap();
        if engine.locate(&object).await.unwrap().primary == osd {
            return name;
        }
    }
    unreachable!("every OSD serves some")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_resent_to_an_osd_without_the_class_is_not_executed_twice() {
    const CALLERS: usize = 32;
    /// How many calls run in each way before the next event.
    const SOME: u64 = 200;
    let folder = tempfile::tempdir().unwrap();
    let node = Arc::new(half_equipped(folder.path()).await);
    let object = object_of(0, &node.engine).await;
    for object in [&object, &object_of(1, &node.engine).await] {
        assert_eq!(node.call(object, "counter", "add", "1").await.unwrap().output, "1");
    }
    assert_eq!(node.counts(), (1, 1), "each goes the way that its OSD has");
    let over = Arc::new(AtomicBool::new(false));
    let count = || {
        let (node, object, over) = (node.clone(), object.clone(), over.clone());
        tokio::spawn(async move {
            let (mut done, mut unsure) = (0, 0);
            while !over.load(Ordering::Relaxed) {
                match node.call(&object, "counter", "add", "1").await {
                    Ok(_) => done += 1,
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
                        unsure += 1;
                    }
                }
            }
            (done, unsure)
        })
    };
    let counting: Vec<_> = (0..CALLERS).map(|_| count()).collect();
    eventually("some calls were made", async || node.counts().0 >= SOME).await;
    let killed = node.clone();
    tokio::task::spawn_blocking(move || killed.ceph.kill("osd.0")).await.unwrap();
    eventually("some calls of the other kind were made", async || node.counts().1 >= SOME).await;
    over.store(true, Ordering::Relaxed);
    let (mut done, mut unsure) = (1, 0);
    for caller in counting {
        let (others_done, others_unsure) = caller.await.unwrap();
        (done, unsure) = (done + others_done, unsure + others_unsure);
    }
    let sum = node.call(&object, "counter", "add", "0").await.unwrap().output;
    let sum: u64 = std::str::from_utf8(&sum).unwrap().parse().unwrap();
    println!("{done} were done, {unsure} may have been, the sum is {sum}");
    assert!(unsure > 0, "some were under way");
    assert!((done..=done + unsure).contains(&sum), "{done} done, {unsure} unsure, sum {sum}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_engine_notices_when_an_osd_gets_the_class() {
    let empty = tempfile::tempdir().unwrap();
    let mut node = Node::on(cluster(empty.path(), &["--osds", "1"])).await;
    let clock = Arc::new(ManualClock::at(1));
    node.engine = connect_by(&node.ceph, node.runtime.clone(), clock.clone()).await;
    node.install(&program("counter", 1, COUNTER));
    node.call("sum", "counter", "add", "1").await.unwrap();
    assert_eq!(node.counts(), (0, 1));
    let library = ceph_plugin_folder().join("libcls_nacre.so");
    std::fs::copy(library, node.ceph.folder().join("classes/libcls_nacre.so")).unwrap();
    node.call("sum", "counter", "add", "1").await.unwrap();
    assert_eq!(node.counts(), (0, 2));
    clock.advance(Duration::from_secs(31));
    assert_eq!(node.call("sum", "counter", "add", "1").await.unwrap().output, "3");
    assert_eq!(node.counts(), (1, 2));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_the_right_to_call_classes_the_engine_runs_everything() {
    let options = ["--osds", "1", "--set", "osd_class_load_list=rbd", "--set"];
    let options = [&options[..], &["osd_class_default_list=rbd"]].concat();
    let node = Node::on(CephCluster::start(&options)).await;
    node.install(&program("counter", 1, COUNTER));
    assert_eq!(node.call("sum", "counter", "add", "5").await.unwrap().output, "5");
    assert_eq!(node.counts(), (0, 0));
}
