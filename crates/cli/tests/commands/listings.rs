//! A listing has everything, or says that there is more.

use nacre::Cluster;
use nacre_object::{MapEntry, Op};
use serde_json::Value;

use crate::common::RunningCluster;

/// What a command prints, and what it says besides.
fn listed(cluster: &RunningCluster, arguments: &[&str]) -> (Vec<String>, String) {
    let output = cluster.command(arguments).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{arguments:?}: {said}");
    let printed = String::from_utf8(output.stdout).unwrap();
    (printed.lines().map(str::to_owned).collect(), said)
}

#[tokio::test(flavor = "multi_thread")]
async fn every_listing_is_complete_or_says_that_it_is_cut() {
    let cluster = RunningCluster::start();
    let file = cluster.folder().join("c.lua");
    std::fs::write(&file, include_str!("../../../../programs/class/counter.lua")).unwrap();
    for name in ["class/one", "class/two"] {
        cluster.run(&["program", "put", name, file.to_str().unwrap(), "--activate"]);
    }
    for name in ["one", "two"] {
        cluster.run(&["log", "create", name]);
        cluster.run_with_input(&["log", "append", name], "a\nb\n");
        cluster.run(&["map", "set", "m", &format!("k={name}")]);
        cluster.run(&["map", "set", name, "k=v"]);
        cluster.run(&["object", "create", &format!("data/{name}")]);
        cluster.run(&["object", "attr", "set", "data/one", name, "v"]);
        cluster.run(&["object", "map", "set", "data/one", name, "v"]);
        cluster.run(&["object", "snapshot", "create", "data/one", name]);
        cluster.command(&["--trace", "object", "stat", "data/one"]).output().unwrap();
    }
    // Each with the lines of its header.
    for (listing, header) in [
        (&["object", "ls", "data"][..], 0),
        (&["object", "attr", "ls", "data/one"], 1),
        (&["object", "map", "ls", "data/one"], 1),
        (&["object", "snapshot", "ls", "data/one"], 0),
        (&["pool", "ls"], 0),
        (&["map", "ls"], 0),
        (&["map", "history", "m"], 0),
        (&["log", "ls"], 0),
        (&["log", "read", "one"], 0),
        (&["program", "ls"], 1),
        (&["trace", "ls"], 1),
        (&["events"], 0),
    ] {
        let (all, said) = listed(&cluster, listing);
        assert!(all.len() >= header + 2 && !said.contains("more"), "{listing:?}: {all:?} {said}");
        let (one, said) = listed(&cluster, &[listing, &["--limit", "1"]].concat());
        assert_eq!(one.len(), header + 1, "{listing:?}: {one:?}");
        assert!(said.starts_with("more; raise --limit"), "{listing:?}: {said}");

        let (all, _) = listed(&cluster, &[listing, &["--json"]].concat());
        assert!(!all.iter().any(|line| line.contains("\"more\"")), "{listing:?}: {all:?}");
        let (one, _) = listed(&cluster, &[listing, &["--json", "--limit", "1"]].concat());
        let [document] = &one[..] else { panic!("{listing:?}: {one:?}") };
        let document: Value = serde_json::from_str(document).unwrap();
        assert_eq!(document["more"], true, "{listing:?}: {document}");
        let (none, _) = listed(&cluster, &[listing, &["--json", "--limit", "0"]].concat());
        assert_eq!(none, ["{\"more\":true}"], "{listing:?}");
        let exactly = (all.len()).to_string();
        let (_, said) = listed(&cluster, &[listing, &["--limit", &exactly]].concat());
        let grows = ["events", "trace"].contains(&listing[0]);
        assert!(grows || !said.contains("more"), "{listing:?}: {said}");
    }
    let (names, _) = listed(&cluster, &["object", "ls", "data", "--after", "one"]);
    assert_eq!(names, ["two"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_map_of_several_pages_is_one_listing() {
    let cluster = RunningCluster::start();
    let client = Cluster::connect(cluster.folder()).await.unwrap();
    let object = client.object(&"data/o".parse().unwrap()).await.unwrap();
    let entry = |n| MapEntry { key: format!("{n:05}").into(), value: "v".into() };
    let entries = (0..10_000).map(entry).collect();
    object.transaction().op(Op::MapSet { entries }).commit().await.unwrap();
    let (lines, said) = listed(&cluster, &["object", "map", "ls", "data/o"]);
    let keys: Vec<_> = lines.iter().map(|line| line.split(' ').next().unwrap()).collect();
    assert_eq!((keys.len(), keys[0], keys[10_000]), (10_001, "key", "09999"));
    assert_eq!(said, "");
    let (documents, _) = listed(&cluster, &["object", "map", "ls", "data/o", "--json"]);
    assert_eq!(documents.len(), 10_000);
}
