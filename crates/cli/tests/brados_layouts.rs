//! Tests a change of a class's layout on a real cluster, while clients use the class and the test
//! kills a node. Clients get only correct answers.
//!
//! The cluster counts the calls of the class, and `nacre brados tune` uses these counts as a
//! workload.

mod common;

use std::process::Stdio;
use std::sync::Arc;

use nacre::{Cluster, Object};
use nacre_node::Layouts;

use common::layouts::{
    LOOK_AGAIN, Orders, PATIENCE, PROGRAM, clients, end, is_settled, is_walking, keeper,
    layout_when, source,
};
use common::{RunningCluster, finish};

/// The number of objects. Converting all of them takes a second or two, long enough for the test to
/// kill a node meanwhile.
const OBJECTS: usize = 300;
const LAYOUT: &str = "kv: slots(768)";

/// Waits until enough calls of the class are counted for a workload.
async fn is_counted(running: &RunningCluster) {
    let counted = async {
        while running.json(&["brados", "counts", "kv"])["requests"].as_u64().unwrap() < 1000 {
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    };
    tokio::time::timeout(PATIENCE, counted).await.expect("what the class is asked is counted");
}

/// Checks that `tune` uses the counted calls of the class as its workload.
fn tune_as_observed(running: &RunningCluster) {
    let folder = running.folder();
    // The test checks the output, not the measured times, so short measurements are enough.
    let profile = ["brados", "profile", "--seconds", "0.05"];
    let profiled = running.command(&profile).current_dir(folder).output().unwrap();
    assert!(profiled.status.success(), "{}", String::from_utf8_lossy(&profiled.stderr));
    let tuned = running
        .command(&["brados", "tune", "kv.brados", "--observed", "kv"])
        .args(["--rounds", "1", "--seconds", "0.05"])
        .current_dir(folder)
        .output()
        .unwrap();
    let (said, told) =
        (String::from_utf8_lossy(&tuned.stdout), String::from_utf8_lossy(&tuned.stderr));
    assert!(tuned.status.success() && said.contains("chosen: "), "{told}");
    assert!(told.contains("get below(4)") && told.contains("put below(4), "), "{told}");
    assert!(told.contains("assumed: "), "{told}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_class_changes_its_layout_while_it_is_used_and_a_node_dies() {
    let running = RunningCluster::start();
    let path = running.folder().join("kv.brados");
    std::fs::write(&path, PROGRAM).unwrap();
    running.run(&["program", "put", "class/kv", path.to_str().unwrap(), "--activate"]);
    let cluster = Cluster::connect(running.folder()).await.unwrap();
    let pool = cluster.pool("data").await.unwrap();
    let objects: Vec<Object> =
        (0..OBJECTS).map(|at| pool.object(&format!("o{at}")).unwrap()).collect();
    let orders = Arc::new(Orders { gets: 5.into(), ..Orders::default() });
    let clients = clients(&objects, 2, &orders);
    is_counted(&running).await;
    tune_as_observed(&running);
    assert_eq!(source(&cluster).await, PROGRAM, "nothing is done that was not asked for");

    let mut adopting = running.command(&["brados", "adopt", "kv", "--layout", LAYOUT]);
    let adopting = adopting.stderr(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    layout_when(&cluster, "moved", is_walking).await;
    assert!(running.run(&["status"]).contains(&format!("layout of kv: on its way into {LAYOUT}")));
    running.kill_node(&keeper(&cluster).await);
    layout_when(&cluster, "settled", |layout| layout.change.is_none()).await;
    // The command may fail, because the node with the record was away for a moment.
    let adopted = finish(adopting, "an adoption");
    println!("adopt: {}", String::from_utf8_lossy(&adopted.stderr));
    assert!(source(&cluster).await.contains(&format!("\nlayout {LAYOUT}\n")));
    assert!(is_settled(&cluster, &objects).await);

    let before = Layouts::of(&cluster).get(&"kv".parse().unwrap()).await.unwrap();
    running.run(&["brados", "adopt", "kv", "--layout", "map", "--no-wait"]);
    let after = layout_when(&cluster, "settled again", |layout| layout.change.is_none()).await;
    assert!(after.settled > before.settled);
    assert!(source(&cluster).await.contains("\nlayout map\n"));
    assert!(is_settled(&cluster, &objects).await);
    end(clients, &orders).await;
}

#[test]
fn a_class_without_layouts_adopts_none() {
    let running = RunningCluster::start();
    let path = running.folder().join("counter.lua");
    std::fs::write(&path, "function get(input, output) end objclass.register(get)").unwrap();
    running.run(&["program", "put", "class/counter", path.to_str().unwrap(), "--activate"]);
    for (class, expected, told) in [("nosuch", 1, "is active"), ("counter", 2, "not in Brados")] {
        let (status, said) = running.fails(&["brados", "adopt", class, "--layout", "map"]);
        assert!(status == expected && said.contains(told), "{class}: {status} {said}");
    }
}
