//! Tests behaviour of this engine only: how it finds its cluster, and the form of its objects.

mod support;

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use nacre_conformance::ops::*;
use nacre_conformance::wait::within_deadline;
use nacre_conformance::{CephCluster, Subject};
use nacre_object::ErrorKind::{Denied, Invalid, NotFound, Unavailable};
use nacre_object::{ErrorKind, Op, OpResult, PoolName, Watch, WatchEvent};
use nacre_rados::{RadosEngine, RadosOptions};
use support::{cluster, conf, connect, engine, options, subject};

async fn refused(options: RadosOptions) -> (ErrorKind, String) {
    let error = connect(options).await.expect_err("it must not connect");
    assert!(error.hint_text().is_some(), "{error} does not say what to do");
    (error.kind(), error.to_string())
}

#[tokio::test]
async fn an_unreachable_cluster_is_unavailable_within_seconds() {
    let folder = CephCluster::unused_folder();
    std::fs::create_dir(&folder).unwrap();
    let file = folder.join("ceph.conf");
    // The discard port, on which no process listens.
    let keyring = conf().with_file_name("keyring");
    let text = format!("[global]\nmon_host = 127.0.0.1:9\nkeyring = {}\n", keyring.display());
    std::fs::write(&file, text).unwrap();
    let connect_timeout = Duration::from_secs(2);
    let (kind, text) = refused(RadosOptions { connect_timeout, ..options(file) }).await;
    assert_eq!(kind, Unavailable, "{text}");
    assert!(text.contains("mon_host"), "{text}");
    std::fs::remove_dir_all(&folder).unwrap();
}

#[tokio::test]
async fn the_error_says_what_is_wrong_with_a_connection() {
    let (kind, text) = refused(options("/nowhere/ceph.conf".into())).await;
    assert_eq!(kind, Invalid, "{text}");
    let (kind, text) = refused(RadosOptions { pool: "none".into(), ..options(conf()) }).await;
    assert_eq!(kind, NotFound, "{text}");
    assert!(text.contains("ceph osd pool create none"), "{text}");
    let (kind, text) = refused(RadosOptions { user: "nobody".into(), ..options(conf()) }).await;
    assert_eq!(kind, Denied, "{text}");
    assert!(text.contains("client.nobody"), "{text}");
}

#[tokio::test]
async fn a_plain_rados_client_reads_the_object_in_its_documented_form() {
    let object = subject("plain").await.object("seen");
    object.does([write(0, "bytes"), map_set([("key", "value")]), set_attribute("a", "v")]).await;
    let rados = |arguments: &[&str]| {
        let pool = ["-p", "nacre", "-N", "plain"];
        cluster().client("rados", &[&pool[..], arguments].concat())
    };
    assert_eq!(rados(&["get", "seen", "-"]), "bytes");
    assert_eq!(rados(&["listomapkeys", "seen"]), "key\n");
    assert_eq!(rados(&["getxattr", "seen", "a"]), "v");
    assert_eq!(rados(&["ls"]), "seen\n");

    rados(&["setomapval", "seen", "theirs", "1"]);
    rados(&["setxattr", "seen", "theirs", "2"]);
    let found = object.does([map_get(["theirs"]), get_attribute("theirs")]).await;
    assert_eq!(found, [values([Some("1")]), data("2")]);
}

#[tokio::test]
async fn an_object_can_be_located() {
    let engine = engine().await;
    let here = engine.locate(&"located/a".parse().unwrap()).await.unwrap();
    assert!((0..3).contains(&here.primary) && here.acting == [here.primary], "{here:?}");
    let mut primaries: Vec<i32> = Vec::new();
    for i in 0..30 {
        let object = format!("located/{i}").parse().unwrap();
        primaries.push(engine.locate(&object).await.unwrap().primary);
    }
    primaries.sort_unstable();
    primaries.dedup();
    assert_eq!(primaries, [0, 1, 2], "objects spread over the OSDs");
}

#[tokio::test]
async fn clients_that_change_one_object_at_the_same_time_lose_nothing() {
    const ROUNDS: usize = 50;
    let subjects = [subject("shared").await, subject("shared").await, subject("shared").await];
    let count = |subject: &Subject| {
        let object = subject.object("counter");
        async move {
            for _ in 0..ROUNDS {
                object.does([call("count", "")]).await;
            }
        }
    };
    futures::future::join_all(subjects.iter().map(count)).await;
    let total = (subjects.len() * ROUNDS).to_string();
    let results = subjects[0].object("counter").does([map_get(["count"])]).await;
    assert_eq!(results, [OpResult::Values(vec![Some(total.into())])]);
}

#[tokio::test]
async fn abandoned_reads_do_not_disturb_later_reads() {
    let object = subject("dropped").await.object("a");
    object.does([write_full(vec![7; 100_000]), map_set([("k", "v")])]).await;
    for _ in 0..200 {
        let reading = object.submit([read_all(), map_range("", "", 9), Op::GetAttributes]);
        // Start a read and drop it at once. A quick answer may already be there.
        let _begun = futures::poll!(std::pin::pin!(reading));
    }
    assert_eq!(object.answers(read(0, 2)).await, data(vec![7, 7]));
}

#[tokio::test]
async fn clients_receive_each_others_notifications() {
    let (one, two) = (engine().await, engine().await);
    let object = "heard/never written".parse().unwrap();
    let mut stream = one.watch(&object).await.unwrap();
    two.notify(&object, "hello".into()).await.unwrap();
    assert_eq!(
        within_deadline("what is told next", stream.next()).await,
        Some(WatchEvent::Notified { payload: "hello".into() })
    );
    // Listening leaves no object of that name.
    assert_eq!(subject("heard").await.object("never written").version().await, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_closed_engine_leaves_no_watch_behind() {
    let engine = engine().await;
    let watched: Vec<_> = (0..20).map(|n| format!("closed/{n}").parse().unwrap()).collect();
    let streams = futures::future::join_all(watched.iter().map(|object| engine.watch(object)));
    let mut streams = streams.await;
    // Some of them have just gone by themselves.
    streams.truncate(10);
    for begun in &watched {
        // Start a watch and drop it at once. If the mailbox already has listeners, the watch may be
        // complete by then.
        let _begun = futures::poll!(std::pin::pin!(engine.watch(begun)));
    }
    let of_ours = || {
        let watchers = tokio::task::block_in_place(|| cluster().watchers("nacre"));
        watchers.into_iter().filter(|watcher| watcher.contains("closed")).collect::<Vec<_>>()
    };
    assert_ne!(of_ours(), [] as [String; 0]);
    engine.close().await;
    assert_eq!(of_ours(), [] as [String; 0]);
    let refused = engine.watch(&watched[0]).await.err().expect("it is closed");
    assert_eq!(refused.kind(), Unavailable, "{refused}");
}

#[tokio::test]
async fn engines_use_the_rados_pool_that_was_chosen_for_a_pool() {
    let (one, other) = (engine().await, engine().await);
    let made = cluster().client("ceph", &["osd", "pool", "create", "second", "8", "8"]);
    assert!(made.is_empty() || made.contains("created"), "{made}");
    let pool: PoolName = "placed".parse().unwrap();
    let object = |engine: &RadosEngine| {
        Subject::watched(Arc::new(engine.clone())).in_pool(pool.clone()).object("a")
    };
    // The other engine knows the pool as one that lies in the main RADOS pool.
    object(&other).does([write(0, "home")]).await;
    let refused = one.place_pool(&pool, Some("second")).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Conflict, "{refused}");
    object(&other).does([Op::Remove]).await;
    one.place_pool(&pool, Some("second")).await.unwrap();

    object(&other).does([write(0, "there")]).await;
    let names = |rados_pool: &str| {
        cluster().client("rados", &["-p", rados_pool, "-N", "placed", "ls"]).trim().to_owned()
    };
    assert_eq!((names("second"), names("nacre")), ("a".to_owned(), String::new()));
    for engine in [&one, &other] {
        assert_eq!(engine.rados_pool_of(&pool).await.unwrap().name, "second");
        assert_eq!(engine.placement_groups(&pool).await.unwrap(), 8);
    }
    assert_eq!(one.place_pool(&pool, None).await.unwrap_err().kind(), ErrorKind::Conflict);
    object(&one).does([Op::Remove]).await;
    one.place_pool(&pool, None).await.unwrap();
    object(&other).does([write(0, "home again")]).await;
    assert_eq!((names("second"), names("nacre")), (String::new(), "a".to_owned()));
    object(&other).does([Op::Remove]).await;

    let absent = one.place_pool(&pool, Some("none")).await.unwrap_err();
    assert!(
        absent.kind() == NotFound && absent.to_string().contains("pool create none"),
        "{absent}"
    );
    let own = one.place_pool(&"nacre.system".parse().unwrap(), Some("second")).await.unwrap_err();
    assert_eq!(own.kind(), Invalid, "{own}");
    assert!(one.placed_pools().await.unwrap().is_empty());
    one.close().await;
    other.close().await;
}
