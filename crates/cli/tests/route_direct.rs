//! Clients with a switch of their own: they read routed bytes at the nodes that keep them.

mod common;

use std::time::Duration;

use bytes::Bytes;
use common::person::Person;
use common::routes::{Workers, cluster, number, places, put, status, wait_until_home};
use common::{RunningCluster, kill, suspend};
use nacre::{Cluster, ClusterFile, ConnectOptions, ErrorKind, Sessions};
use nacre_conformance::wait::{eventually, eventually_blocking};
use nacre_node::ROUTE_SERVICE;
use nacre_object::ObjectId;
use nacre_route::{DirectRead, Span};
use rustix::process::{Signal, kill_process};

/// A client that reads directly where rules allow it.
fn direct_client(cluster: &RunningCluster) -> Cluster {
    let file = ClusterFile::read(cluster.folder()).unwrap();
    let options = ConnectOptions { direct_reads: true, ..ConnectOptions::default() };
    Cluster::reach_with(&file, &options).unwrap()
}

/// How many direct reads the node of a target has served since it started.
fn served(cluster: &RunningCluster, target: &str) -> u64 {
    number(status(cluster, target).as_ref(), "direct_reads").unwrap_or(0)
}

fn rule(home: &str, away: &str) -> String {
    format!("application t on {home}\n  * w data/r* -> target {away} follow direct-reads\n")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_with_a_switch_reads_routed_bytes_where_they_are_and_others_at_their_home() {
    let (folder, cluster) = cluster();
    let (names, home, away) = places(&cluster, 2).await;
    put(&cluster, folder.path(), &rule(&home, &away));
    let usual = Cluster::connect(cluster.folder()).await.unwrap();
    let direct = direct_client(&cluster);
    let id: ObjectId = format!("data/{}", names[0]).parse().unwrap();
    let (writes, reads) = (usual.object(&id).await.unwrap(), direct.object(&id).await.unwrap());
    writes.write(0, "0123456789").await.unwrap();

    eventually("reads are direct", async || {
        assert_eq!(reads.read(2, 4).await.unwrap(), "2345");
        served(&cluster, &away) > 0
    })
    .await;
    writes.write(4, "abc").await.unwrap();
    assert_eq!(reads.read(2, 6).await.unwrap(), "23abc7", "a direct read sees the newest bytes");
    assert_eq!(reads.read(0, 100).await.unwrap(), "0123abc789", "past the end of the object");
    let before = served(&cluster, &away);
    eventually("reads are direct again after one that no permit covers", async || {
        assert_eq!(reads.read(0, 4).await.unwrap(), "0123");
        served(&cluster, &away) > before
    })
    .await;
    let decided = |status: Option<serde_json::Value>| status.unwrap()["requests"].as_u64();
    let before = (decided(status(&cluster, &home)), served(&cluster, &away));
    for _ in 0..10 {
        assert_eq!(reads.read(0, 4).await.unwrap(), "0123");
    }
    let after = (decided(status(&cluster, &home)), served(&cluster, &away));
    assert!(after.1 >= before.1 + 9, "{before:?} {after:?}");
    assert!(after.0 <= before.0.map(|count| count + 1), "{before:?} {after:?}");

    // A part at home, a part elsewhere: the home joins both.
    cluster.run(&["route", "rm", "t"]);
    wait_until_home(&cluster, &home);
    assert_eq!(reads.read(0, 10).await.unwrap(), "0123abc789", "the bytes came home");
    writes.write(0, "home").await.unwrap();
    assert_eq!(reads.read(0, 10).await.unwrap(), "homeabc789");
    assert_eq!(usual.object(&id).await.unwrap().read(0, 10).await.unwrap(), "homeabc789");
}

#[tokio::test(flavor = "multi_thread")]
async fn direct_reads_never_miss_an_acknowledged_write_while_rules_change_and_nodes_die() {
    let (folder, cluster) = cluster();
    let (names, home, away) = places(&cluster, 4).await;
    let all = ["storage.0", "storage.1", "storage.2"].map(str::to_owned);
    let other = all.into_iter().find(|one| ![&home, &away].contains(&one)).unwrap();
    let usual = Cluster::connect(cluster.folder()).await.unwrap();
    let workers = Workers::start_direct(&usual, &direct_client(&cluster), &names).await;
    let steps = workers.while_they_work(move |workers| {
        let more_rounds = |what: &str| workers.more_rounds(what);
        let direct = |at: &str, what: &str| {
            let before = served(&cluster, at);
            eventually_blocking(what, || served(&cluster, at) > before);
        };
        let route_to = |target: &str| put(&cluster, folder.path(), &rule(&home, target));
        route_to(&away);
        direct(&away, "reads are direct");
        route_to(&other);
        direct(&other, "reads are direct at the next target");
        route_to(&away);
        direct(&away, "reads are direct at the first target again");
        kill(cluster.pid_of(&away).unwrap());
        more_rounds("the workers go on after the node with routed bytes was killed");
        direct(&away, "reads are direct after it has started");
        kill(cluster.pid_of(&home).unwrap());
        more_rounds("the workers go on after the home was killed");
        direct(&away, "reads are direct after the home has started");
        route_to(&other);
        kill(cluster.pid_of(&away).unwrap());
        direct(&other, "reads are direct although bytes left a node that was killed");
        let (first, second) = (cluster.pid_of(&home).unwrap(), cluster.pid_of(&other).unwrap());
        kill(first);
        kill(second);
        more_rounds("the workers go on after both were killed");
        direct(&other, "reads are direct after both have started");
        // A paused node keeps its permits, so bytes leave it only after it has gone on.
        route_to(&away);
        direct(&away, "reads are direct at the node that is paused next");
        let paused = suspend(cluster.pid_of(&away).unwrap());
        route_to(&other);
        kill_process(paused, Signal::CONT).unwrap();
        direct(&other, "reads are direct after a pause");
        cluster.run(&["route", "rm", "t"]);
        wait_until_home(&cluster, &home);
        more_rounds("the workers work without rules");
        (folder, cluster)
    });
    drop(steps.await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_without_the_right_to_read_an_object_reads_no_routed_bytes_of_it() {
    let cluster = RunningCluster::start_tls();
    let person = Person::add(&cluster, "eve", &["rw pool=data prefix=eve"]);
    let sessions = Sessions::new(&ClusterFile::of_identity(&person.identity).unwrap()).unwrap();
    let ask = async |object: &str, method: &'static str| {
        let object: ObjectId = object.parse().unwrap();
        let input = match method {
            "where" => format!(r#"{{"object":"{object}","offset":0}}"#).into(),
            _ => DirectRead {
                token: 1,
                span: Span::new(0, 1).unwrap(),
                object,
                kept_in: "nacre.routed/x".parse().unwrap(),
            }
            .encode(),
        };
        let session = sessions.session("storage.0").unwrap();
        let answer = session.ask(ROUTE_SERVICE, method, input, Duration::from_secs(10)).await;
        answer.unwrap_err().kind()
    };
    assert_eq!(ask("data/other", "where").await, ErrorKind::Denied);
    assert_eq!(ask("data/other", "direct-read").await, ErrorKind::Denied);
    assert_eq!(ask("data/eve1", "where").await, ErrorKind::NotFound);
    assert_eq!(ask("data/eve1", "direct-read").await, ErrorKind::Stale, "she has no permit");
    let session = sessions.session("storage.0").unwrap();
    for method in ["permit", "read", "status"] {
        let answer = session.ask(ROUTE_SERVICE, method, Bytes::new(), Duration::from_secs(10));
        assert_eq!(answer.await.unwrap_err().kind(), ErrorKind::Denied, "{method}");
    }
}
