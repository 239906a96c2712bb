//! Daemons that die, and a cluster that is full or stricter than usual.

mod support;

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use futures::{FutureExt, StreamExt};
use nacre_clock::{Clock, SystemClock};
use nacre_conformance::ops::*;
use nacre_conformance::wait::{eventually, within_deadline};
use nacre_conformance::{CephCluster, Subject};
use nacre_object::ErrorKind::{Exhausted, Unavailable};
use nacre_object::{ListRequest, ObjectId, Store, Watch, WatchEvent};
use nacre_rados::{RadosEngine, RadosOptions};
use nacre_rados_layout::{mailbox, mailbox_namespace};
use support::{connect, options};

/// Longer than an OSD takes to start, shorter than a test may.
const OPERATION_TIMEOUT: Duration = Duration::from_secs(2);

async fn engine(cluster: &CephCluster, operation_timeout: Duration) -> RadosEngine {
    connect(RadosOptions { operation_timeout, ..options(cluster.conf()) }).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_acknowledged_change_survives_a_crash_of_its_osd() {
    let cluster = CephCluster::start(&["--osds", "1", "--store", "bluestore"]);
    let patient = Subject::new(Arc::new(engine(&cluster, Duration::from_secs(40)).await));
    let hasty = Subject::new(Arc::new(engine(&cluster, OPERATION_TIMEOUT).await));
    let version = patient.object("a").replies([write(0, "kept"), map_set([("k", "v")])]).await;

    cluster.kill("osd.0");
    let error = hasty.object("a").submit([read_all()]).await.expect_err("nobody can answer");
    assert_eq!(error.kind(), Unavailable, "{error}");
    assert!(error.hint_text().is_some(), "{error}");

    // A request that waited while the OSD was down is answered when the OSD is back.
    let object = patient.object("a");
    let waiting = tokio::spawn(async move { object.replies([append("!")]).await });
    cluster.restart("osd.0");
    assert!(waiting.await.unwrap().version > version.version);
    let results = patient.object("a").does([read_all(), map_get(["k"])]).await;
    assert_eq!(results, [data("kept!"), values([Some("v")])]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_outlives_its_osd_and_reports_possible_losses() {
    let cluster = CephCluster::start(&["--osds", "1", "--store", "bluestore"]);
    let engine = engine(&cluster, Duration::from_secs(40)).await;
    let object: ObjectId = "data/watched".parse().unwrap();
    let mut events = engine.watch(&object).await.unwrap();
    cluster.kill("osd.0");
    cluster.restart("osd.0");
    engine.notify(&object, "after".into()).await.unwrap();
    let event = tokio::time::timeout(Duration::from_secs(60), events.next()).await;
    match event.expect("an event must come") {
        Some(WatchEvent::Notified { payload }) => assert_eq!(payload, "after"),
        Some(WatchEvent::Lost) => {}
        other => panic!("{other:?}"),
    }
}

/// librados blocks the threads of its callers beyond some number of operations or bytes in flight.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn abandoned_operations_block_no_thread() {
    const BEGUN: usize = 1500;
    const PATIENCE: Duration = Duration::from_secs(40);
    let cluster = CephCluster::start(&["--osds", "1", "--store", "bluestore"]);
    let subject = Subject::new(Arc::new(engine(&cluster, PATIENCE).await));
    let object = subject.object("a");
    object.does([write(0, "kept")]).await;
    cluster.kill("osd.0");
    let clock = SystemClock::default();
    for what in [read(0, 1), read_all()] {
        for _ in 0..BEGUN {
            let reading = object.submit([what.clone()]);
            // Start a read and drop it at once.
            assert!(futures::poll!(std::pin::pin!(reading)).is_pending());
        }
    }
    let took = clock.monotonic();
    cluster.restart("osd.0");
    assert_eq!(object.does([read_all()]).await, [data("kept")]);
    assert!(took < PATIENCE / 2, "{took:?}");
}

/// librados waits for ever for the end of a notification that an OSD has begun.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_notification_whose_osd_is_gone_is_given_up() {
    let cluster = CephCluster::start(&["--osds", "1", "--store", "bluestore"]);
    let engine = engine(&cluster, OPERATION_TIMEOUT).await;
    let object: ObjectId = "data/watched".parse().unwrap();
    let _events = engine.watch(&object).await.unwrap();
    // The killed client cannot acknowledge the notifications that the cluster still sends to it for
    // a while.
    let (namespace, name) = (mailbox_namespace("data"), mailbox("watched"));
    let mut other = Command::new("rados")
        .arg("-c")
        .arg(cluster.conf())
        .args(["-p", "nacre", "-N", &namespace, "watch", &name])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    eventually("both watch", async || cluster.watchers("nacre").len() >= 2).await;
    other.kill().unwrap();
    other.wait().unwrap();
    let before = operations(&cluster);
    let notifying = tokio::spawn({
        let (engine, object) = (engine.clone(), object.clone());
        async move { engine.notify(&object, "not heard by all".into()).await }
    });
    eventually("an operation is under way", async || operations(&cluster) != before).await;
    cluster.kill("osd.0");
    let given_up = tokio::time::timeout(10 * OPERATION_TIMEOUT, notifying).await;
    let refused = given_up.expect("it ends").unwrap().expect_err("nobody can answer");
    assert_eq!(refused.kind(), Unavailable, "{refused}");
}

/// librados gives a notification up when the cluster has not answered for the time an operation has.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn abandoned_notifications_stay_within_librados_bound() {
    let cluster = CephCluster::start(&["--osds", "1", "--store", "bluestore"]);
    let engine = engine(&cluster, OPERATION_TIMEOUT).await;
    let object: ObjectId = "data/watched".parse().unwrap();
    let _events = engine.watch(&object).await.unwrap();
    cluster.kill("osd.0");
    let given_up_at_once = || {
        let notifying = engine.notify(&object, "not heard".into());
        tokio::task::unconstrained(notifying).now_or_never()
    };
    let refused = (0..10_000).find_map(|_| given_up_at_once()).expect("there is no room for all");
    let refused = refused.expect_err("nobody can answer");
    assert_eq!(refused.kind(), Unavailable, "{refused}");
    assert!(refused.to_string().contains("notifications"), "{refused}");
    // Other operations have permits of their own. Later, notifications get permits again, too.
    let other = Subject::new(Arc::new(engine.clone())).object("a");
    let reading = tokio::time::timeout(10 * OPERATION_TIMEOUT, other.submit([read_all()])).await;
    assert_eq!(reading.expect("it ends").expect_err("nobody can answer").kind(), Unavailable);
    tokio::time::sleep(OPERATION_TIMEOUT).await;
    assert!(given_up_at_once().is_none(), "librados has it");
}

/// Operations of clients that the only OSD has done.
fn operations(cluster: &CephCluster) -> u64 {
    let socket = cluster.folder().join("run/osd.0.asok");
    let ask = ["--admin-daemon", socket.to_str().unwrap(), "perf", "dump", "osd", "op"];
    let counters: serde_json::Value = serde_json::from_str(&cluster.client("ceph", &ask)).unwrap();
    counters["osd"]["op"].as_u64().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watcher_that_was_cut_off_is_told_of_possible_losses() {
    /// Longer than a notification waits for its watchers, and shorter than the cluster keeps the
    /// watch of a silent client.
    const CUT_OFF: Duration = Duration::from_secs(12);
    let cluster = CephCluster::start(&["--osds", "1", "--networks"]);
    let engine = engine(&cluster, CUT_OFF).await;
    let object: ObjectId = "data/watched".parse().unwrap();
    let mut events = engine.watch(&object).await.unwrap();
    cluster.block("osd.0");
    let subject = Subject::new(Arc::new(engine.clone()));
    let error = subject.object("a").submit([read_all()]).await.expect_err("nobody can answer");
    assert_eq!(error.kind(), Unavailable, "{error}");
    cluster.unblock("osd.0");
    let event = tokio::time::timeout(Duration::from_secs(60), events.next()).await;
    assert_eq!(event.expect("an event must come"), Some(WatchEvent::Lost));
}

#[tokio::test]
async fn a_full_cluster_refuses_writes_as_exhausted() {
    let cluster = CephCluster::start(&["--osds", "1"]);
    let subject = Subject::new(Arc::new(engine(&cluster, Duration::from_secs(40)).await));
    let object = subject.object("a");
    object.does([write_full(vec![b'x'; 8 << 20])]).await;
    // With this ratio, Ceph considers a store of 8 MiB full. The OSD notices this at its next
    // check.
    for ratio in ["set-nearfull-ratio", "set-backfillfull-ratio", "set-full-ratio"] {
        cluster.client("ceph", &["osd", ratio, "0.001"]);
    }
    let refused = async {
        loop {
            if let Err(error) = object.submit([append("more")]).await {
                break error;
            }
        }
    };
    let error = within_deadline("a request is refused", refused).await;
    assert_eq!(error.kind(), Exhausted, "{error}");
    assert_eq!(object.does([read(0, 2)]).await, [data("xx")], "it can be read");
}

#[tokio::test]
async fn an_error_names_the_clusters_limit() {
    let small = ["--osds", "1", "--set", "osd_max_object_size=1048576"];
    let cluster = CephCluster::start(&small);
    let subject = Subject::new(Arc::new(engine(&cluster, Duration::from_secs(40)).await));
    let error = subject.object("a").refuses([write(1 << 20, "x")]).await;
    assert_eq!(error.kind(), Exhausted, "{error}");
    assert!(error.to_string().contains("osd_max_object_size"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deleted_pool_is_not_taken_for_an_empty_one() {
    let cluster = CephCluster::start(&["--osds", "1"]);
    let engine = engine(&cluster, Duration::from_secs(40)).await;
    let subject = Subject::new(Arc::new(engine.clone()));
    let object = subject.object("a");
    object.does([write(0, "lost")]).await;
    let delete = ["osd", "pool", "delete", "nacre", "nacre", "--yes-i-really-really-mean-it"];
    cluster.client("ceph", &delete);

    // librados learns of the deletion with the next map.
    let refused = async {
        loop {
            if let Err(error) = object.submit([read_all()]).await {
                break error;
            }
        }
    };
    let error = within_deadline("a request is refused", refused).await;
    let is_gone = |error: nacre_object::Error| {
        assert_eq!(error.kind(), Unavailable, "{error}");
        assert!(error.to_string().contains("pool is gone"), "{error}");
    };
    is_gone(error);
    // The engine also does not take a new pool with the same name for the deleted one.
    cluster.client("ceph", &["osd", "pool", "create", "nacre"]);
    for ops in [vec![write(0, "x")], vec![append("x")], vec![call("count", "")]] {
        is_gone(object.submit(ops).await.expect_err("its pool is gone"));
    }
    let elsewhere = subject.clone().in_pool("never-seen".parse().unwrap());
    is_gone(elsewhere.object("a").submit([write(0, "x")]).await.expect_err("its pool is gone"));
    let pool = "data".parse().unwrap();
    let listed =
        engine.list(ListRequest { pool, after: None, prefix: String::new(), limit: 10 }).await;
    is_gone(listed.expect_err("nobody knows what was in it"));
    let watched: ObjectId = "data/watched".parse().unwrap();
    is_gone(engine.watch(&watched).await.err().expect("its pool is gone"));
    is_gone(engine.notify(&watched, "x".into()).await.expect_err("its pool is gone"));
}
