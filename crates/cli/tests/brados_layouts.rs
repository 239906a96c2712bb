//! A class of a real cluster gets another layout when that is better for what it is asked: proposed, adopted
//! with a node killed meanwhile, and by itself, but not if it is measured to be none; its clients' answers are
//! right throughout.

mod common;

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use nacre::{ClassLayout, Cluster, Object};
use nacre_tuner::{Access, Fingerprint, Profile};

use common::layouts::{
    ANY_GAIN, DEAR_SECONDS, ENDLESS_SECONDS, LOOK_AGAIN, NO_GAIN, Orders, PATIENCE, PROGRAM,
    clients, end, is_settled, is_walking, keeper, layout_when, profile, source, terms,
};
use common::{RunningCluster, finish};

/// So many that moving them takes a second or two, in which a node is killed.
const OBJECTS: usize = 300;
const SLOW_MAPS: [Access; 4] =
    [Access::MapGet, Access::MapSet, Access::MapRange, Access::MapRemove];

/// What the class is asked is a workload to tune by.
fn tune_as_observed(running: &RunningCluster, profile: &Profile) {
    std::fs::write(running.folder().join("profile.json"), profile.to_json().unwrap()).unwrap();
    let tuned = running
        .command(&["brados", "tune", "kv.brados", "--observed", "kv", "--profile", "profile.json"])
        .args(["--rounds", "1", "--seconds", "0.05"])
        .current_dir(running.folder())
        .output()
        .unwrap();
    let (said, told) =
        (String::from_utf8_lossy(&tuned.stdout), String::from_utf8_lossy(&tuned.stderr));
    assert!(tuned.status.success() && said.contains("chosen: "), "{told}");
    assert!(told.contains("get below(4)") && told.contains("put below(4), "), "{told}");
    assert!(told.contains("assumed: "), "{told}");
}

/// What measuring left.
fn scratch_folders(running: &RunningCluster) -> String {
    let found =
        Command::new("find").arg(running.folder()).args(["-name", "nacre-tuner.*"]).output();
    String::from_utf8(found.unwrap().stdout).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_better_layout_is_proposed_and_adopted_while_a_node_dies_and_found_again_by_itself() {
    let running = RunningCluster::start();
    let path = running.folder().join("kv.brados");
    std::fs::write(&path, PROGRAM).unwrap();
    running.run(&["program", "put", "class/kv", path.to_str().unwrap(), "--activate"]);
    assert!(running.run(&["brados", "proposals"]).contains("nacre brados profile --keep"));
    let cluster = Cluster::connect(running.folder()).await.unwrap();
    let engine = Fingerprint::of_folder(Path::new(running.folder())).unwrap();
    let kept = profile(&engine, &SLOW_MAPS, DEAR_SECONDS);
    cluster.layouts().keep_profile(&kept).await.unwrap();
    let class = "kv".parse().unwrap();
    cluster.layouts().allow(&class, false, Some(terms(ANY_GAIN))).await.unwrap();

    let pool = cluster.pool("data").await.unwrap();
    let objects: Vec<Object> =
        (0..OBJECTS).map(|at| pool.object(&format!("o{at}")).unwrap()).collect();
    let orders = Arc::new(Orders { gets: 5.into(), ..Orders::default() });
    let clients = clients(&objects, 2, &orders);

    let known =
        layout_when(&cluster, "proposed", |layout| layout.standing.proposal.is_some()).await;
    let proposal = known.standing.proposal.unwrap();
    assert!(proposal.measured.is_some(), "{proposal}");
    let layout = proposal.estimate.best.layout;
    assert!(layout.contains("kv: slots(") || layout.contains("kv: appended("), "{layout}");
    assert!(running.run(&["brados", "proposals"]).contains(&format!("proposed: {layout}")));
    assert!(running.run(&["status"]).contains(&format!("layout of kv: proposed: {layout}")));
    assert!(running.run(&["events"]).contains("kv had better be in layout"));
    assert_eq!(source(&cluster).await, PROGRAM, "nothing is done that was not allowed");
    tune_as_observed(&running, &kept);

    let mut adopting = running.command(&["brados", "adopt", "kv"]);
    let adopting = adopting.stderr(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    // Where the mix still drifted it was proposed anew.
    let layout = layout_when(&cluster, "moved", is_walking).await.change.unwrap().layout;
    running.kill_node(&keeper(&cluster).await);
    layout_when(&cluster, "settled", |layout| layout.change.is_none()).await;
    // It may have been told that the node with the record is away.
    let adopted = finish(adopting, "an adoption");
    println!("adopt: {}", String::from_utf8_lossy(&adopted.stderr));
    assert!(source(&cluster).await.contains(&format!("\nlayout {layout}\n")));
    assert!(is_settled(&cluster, &objects).await);

    // Brought back, with leave to do better: that is found again, and done.
    running.run(&["brados", "auto", "kv", "on"]);
    let active = |layout: &ClassLayout| layout.settled;
    let before = cluster.layouts().get(&class).await.unwrap();
    running.run(&["brados", "adopt", "kv", "--layout", "map", "--no-wait"]);
    let by_itself = |layout: &ClassLayout| {
        let change = layout.change.as_ref();
        change.is_some_and(|change| change.why.contains("instead of map"))
    };
    let again = layout_when(&cluster, "changed by itself", by_itself).await;
    let layout = again.change.unwrap().layout;
    let after = layout_when(&cluster, "settled again", |layout| layout.change.is_none()).await;
    assert!(active(&after) > active(&before));
    assert!(source(&cluster).await.contains(&format!("\nlayout {layout}\n")));
    assert!(is_settled(&cluster, &objects).await);

    // What is predicted and not measured is not done.
    cluster.layouts().allow(&class, true, Some(terms(NO_GAIN))).await.unwrap();
    let wrong = profile(&engine, &[Access::StreamRead], ENDLESS_SECONDS);
    cluster.layouts().keep_profile(&wrong).await.unwrap();
    orders.gets.store(7, Ordering::Relaxed);
    let refuted = async {
        while !running.run(&["events"]).contains("kv stays in its layout, as measured: map ") {
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    };
    tokio::time::timeout(PATIENCE, refuted).await.expect("it is measured");
    assert!(source(&cluster).await.contains(&format!("\nlayout {layout}\n")));
    let removed = async {
        while !scratch_folders(&running).is_empty() {
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    };
    tokio::time::timeout(PATIENCE, removed).await.expect("what was measured with is removed");
    end(clients, &orders).await;
}

#[test]
fn a_class_without_layouts_is_not_judged_by_any() {
    let running = RunningCluster::start();
    let path = running.folder().join("counter.lua");
    std::fs::write(&path, "function get(input, output) end objclass.register(get)").unwrap();
    running.run(&["program", "put", "class/counter", path.to_str().unwrap(), "--activate"]);
    for (class, expected, told) in [("nosuch", 1, "is active"), ("counter", 2, "not in Brados")] {
        for arguments in [&["auto", class, "on"][..], &["adopt", class], &["auto", class, "off"]] {
            let (status, said) = running.fails(&[&["brados"], arguments].concat());
            assert!(status == expected && said.contains(told), "{arguments:?}: {status} {said}");
        }
    }
    assert!(!running.run(&["brados", "proposals"]).contains("counter"));
}
