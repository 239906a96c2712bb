//! Rules that also move the bytes which objects have already.

mod common;

use common::RunningCluster;
use common::routes::{Workers, cluster, number, places, put, status, wait_until_home};
use nacre::{Cluster, Object};
use nacre_conformance::wait::eventually_blocking;

const OBJECT_BYTES: usize = 3 * 1024 * 1024 + 77;

fn routed_bytes(cluster: &RunningCluster, target: &str) -> Option<u64> {
    number(status(cluster, target).as_ref(), "routed_bytes")
}

fn rule(home: &str, away: &str) -> String {
    format!("application t on {home}\n  * w data/r* -> target {away} follow at-rest\n")
}

async fn objects(client: &Cluster, names: &[String]) -> Vec<Object> {
    let mut objects = vec![];
    for name in names {
        objects.push(client.object(&format!("data/{name}").parse().unwrap()).await.unwrap());
    }
    objects
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_that_objects_have_already_move_to_the_target_and_come_home_again() {
    let (folder, cluster) = cluster();
    let (names, home, away) = places(&cluster, 3).await;
    let client = Cluster::connect(cluster.folder()).await.unwrap();
    let objects = objects(&client, &names).await;
    let contents = |number: usize| -> Vec<u8> {
        (0..OBJECT_BYTES).map(|at| ((at * 31 + number * 7) % 251) as u8).collect()
    };
    for (number, object) in objects.iter().enumerate() {
        object.write_full(contents(number)).await.unwrap();
    }
    let check = async || {
        for (number, object) in objects.iter().enumerate() {
            assert_eq!(object.stat().await.unwrap().size, OBJECT_BYTES as u64);
            let mut read = vec![];
            while read.len() < OBJECT_BYTES {
                read.extend(object.read(read.len() as u64, 1 << 20).await.unwrap());
            }
            assert!(read == contents(number), "object {number} has other bytes");
        }
    };
    put(&cluster, folder.path(), &rule(&home, &away));
    let all = Some(3 * OBJECT_BYTES as u64);
    eventually_blocking("all bytes have moved", || routed_bytes(&cluster, &home) == all);
    check().await;
    let pid = cluster.kill_node(&away);
    eventually_blocking("the target has started again", || {
        cluster.pid_of(&away).is_some_and(|now| now != pid)
    });
    check().await;
    cluster.kill_node(&home);
    check().await;
    assert_eq!(routed_bytes(&cluster, &home), all);
    cluster.run(&["route", "rm", "t"]);
    wait_until_home(&cluster, &home);
    check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn moving_bytes_never_undoes_a_write_while_clients_write_and_nodes_die() {
    let (folder, cluster) = cluster();
    let (names, home, away) = places(&cluster, 4).await;
    let workers = Workers::start(&cluster, &names).await;
    let steps = workers.while_they_work(move |workers| {
        workers.more_rounds("the workers work");
        for round in 0..3 {
            put(&cluster, folder.path(), &rule(&home, &away));
            eventually_blocking("bytes move", || routed_bytes(&cluster, &home) > Some(0));
            workers.more_rounds("the workers go on while bytes move");
            cluster.kill_node(if round % 2 == 0 { &home } else { &away });
            workers.more_rounds("the workers go on after a node was killed");
            cluster.run(&["route", "rm", "t"]);
            wait_until_home(&cluster, &home);
        }
        (folder, cluster)
    });
    drop(steps.await);
}
