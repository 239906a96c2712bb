//! Copy-on-write snapshots of all objects of a prefix, which rules keep.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use common::routes::{cluster, places, put, rules, status};
use common::{RunningCluster, shipped};
use nacre::{Cluster, ErrorKind, Object};
use nacre_conformance::wait::eventually_blocking;

fn keep(cluster: &RunningCluster, folder: &std::path::Path, names: &str) {
    let text = format!("application kept on every\n  * * data/r* -> snapshots {names}\n");
    put(cluster, folder, &text);
}

/// What `nacre object get --at` prints, or that the object did not exist.
fn at(cluster: &RunningCluster, object: &str, name: &str) -> Option<String> {
    let mut get = cluster.command(&["object", "get", object, "--at", name]);
    let output = get.output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    match output.status.success() {
        true => Some(String::from_utf8(output.stdout).unwrap()),
        false if said.contains("not found") => None,
        false => panic!("{said}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_is_read_as_it_was_when_the_snapshot_was_put_whatever_changed_it() {
    let (folder, cluster) = cluster();
    let (names, home, away) = places(&cluster, 6).await;
    let all: Vec<String> = names.iter().map(|name| format!("data/{name}")).collect();
    let [same, written, removed, created, again, moved] = &all[..] else { panic!("six names") };
    for object in [same, written, removed, again, moved] {
        cluster.run_with_input(&["object", "put", object], "monday");
    }
    // Bytes that rules have sent elsewhere belong to the state that is kept.
    let name = &names[5];
    put(
        &cluster,
        folder.path(),
        &format!("application t on {home}\n  * w data/{name} -> target {away} follow\n"),
    );
    cluster.run_with_input(&["object", "write", moved, "--offset", "0", "-"], "MON");
    cluster.run(&["route", "rm", "t"]);

    keep(&cluster, folder.path(), "monday");
    cluster.run_with_input(&["object", "write", written, "--offset", "0", "-"], "TUE");
    cluster.run(&["object", "rm", removed]);
    cluster.run_with_input(&["object", "put", created], "tuesday");
    cluster.run_with_input(&["object", "append", moved, "-"], "!");
    cluster.run(&["object", "rm", again]);
    let check_monday = |cluster: &RunningCluster| {
        for object in [same, written, removed, again] {
            assert_eq!(at(cluster, object, "monday").as_deref(), Some("monday"), "{object}");
        }
        assert_eq!(at(cluster, created, "monday"), None);
        assert_eq!(at(cluster, moved, "monday").as_deref(), Some("MONday"));
    };
    check_monday(&cluster);
    assert_eq!(cluster.run(&["object", "get", written]), "TUEday");

    keep(&cluster, folder.path(), "monday,tuesday");
    cluster.run_with_input(&["object", "put", again], "wednesday");
    cluster.run_with_input(&["object", "put", written], "wednesday");
    cluster.run(&["object", "attr", "set", created, "owner", "ann"]);
    cluster.run(&["object", "rm", created]);
    check_monday(&cluster);
    assert_eq!(at(&cluster, again, "tuesday"), None);
    assert_eq!(at(&cluster, written, "tuesday").as_deref(), Some("TUEday"));
    assert_eq!(at(&cluster, created, "tuesday").as_deref(), Some("tuesday"));
    assert_eq!(at(&cluster, same, "tuesday").as_deref(), Some("monday"));

    cluster.kill_node(&home);
    eventually_blocking("the home serves again", || status(&cluster, &home).is_some());
    check_monday(&cluster);
    cluster.run_with_input(&["object", "put", again], "after a restart");
    cluster.run_with_input(&["object", "put", removed], "after a restart");
    check_monday(&cluster);
    assert_eq!(at(&cluster, again, "tuesday"), None);
    assert_eq!(at(&cluster, removed, "tuesday"), None);
    cluster.run_with_input(&["object", "put", same], "later");
    assert_eq!(at(&cluster, same, "monday").as_deref(), Some("monday"));

    // Without its name in the rule, a snapshot is dropped at the next change under a new name.
    keep(&cluster, folder.path(), "tuesday,wednesday");
    cluster.run_with_input(&["object", "put", written], "thursday");
    let listed = cluster.run(&["object", "snapshot", "ls", written]);
    assert!(!listed.contains("monday") && listed.contains("kept-tuesday"), "{listed}");
    assert_eq!(at(&cluster, written, "wednesday").as_deref(), Some("wednesday"));
}

#[tokio::test(flavor = "multi_thread")]
async fn names_are_used_once_and_users_cannot_touch_kept_snapshots() {
    let (folder, cluster) = cluster();
    let (names, ..) = places(&cluster, 1).await;
    let object = format!("data/{}", names[0]);
    cluster.run_with_input(&["object", "put", &object], "old");
    keep(&cluster, folder.path(), "monday");
    cluster.run_with_input(&["object", "put", &object], "new");
    for action in ["create", "rm"] {
        let (_, said) = cluster.fails(&["object", "snapshot", action, &object, "kept-monday"]);
        assert!(said.contains("rules keep the snapshots"), "{said}");
    }
    cluster.run(&["object", "snapshot", "create", &object, "mine"]);
    cluster.run(&["route", "rm", "kept"]);
    let text = "application kept on every\n  * * data/r* -> snapshots monday\n";
    let file = rules(folder.path(), text);
    let (_, said) = cluster.fails(&["route", "put", file.to_str().unwrap()]);
    assert!(said.contains("the snapshot name monday was used before"), "{said}");
    assert_eq!(at(&cluster, &object, "mine").as_deref(), Some("new"));
}

#[tokio::test(flavor = "multi_thread")]
async fn other_rules_about_the_same_objects_do_not_switch_snapshots_off() {
    let (folder, cluster) = cluster();
    let (names, _, away) = places(&cluster, 3).await;
    let all: Vec<String> = names.iter().map(|name| format!("data/{name}")).collect();
    for object in &all {
        cluster.run_with_input(&["object", "put", object], "old");
    }
    let lines = [
        "* * data/r* -> snapshots monday".to_owned(),
        format!("* w {} -> versions 2", all[0]),
        format!("* rw {} -> all storage.0,storage.1,storage.2", all[1]),
        format!("* w {} -> target {away} follow at-rest", all[2]),
    ];
    let lines: String = lines.iter().map(|line| format!("  {line}\n")).collect();
    put(&cluster, folder.path(), &format!("application t on every\n{lines}"));
    for object in &all {
        cluster.run_with_input(&["object", "write", object, "--offset", "0", "-"], "N");
        assert_eq!(at(&cluster, object, "monday").as_deref(), Some("old"), "{object}");
        assert_eq!(cluster.run(&["object", "get", object]), "Nld");
    }
    let listed = cluster.run(&["object", "snapshot", "ls", &all[0]]);
    assert!(listed.contains("version-") && listed.contains("kept-monday"), "{listed}");
}

/// Writes growing numbers into an object until `is_over` is set.
async fn write_numbers(object: Object, is_over: Arc<AtomicBool>) {
    let mut number = 0_u64;
    while !is_over.load(Ordering::Relaxed) {
        number += 1;
        match object.write(0, Bytes::from(number.to_be_bytes().to_vec())).await {
            Ok(()) => {}
            Err(error) => assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}"),
        }
    }
}

/// Reads an object at a snapshot, first without success, until it has read the same number often.
async fn read_the_same(object: Object) {
    let (mut kept, mut reads) = (None, 0);
    while reads < 200 {
        match object.read(0, 8).await {
            Ok(read) => {
                assert_eq!(*kept.get_or_insert(read.clone()), read, "the snapshot has changed");
                reads += 1;
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {
                assert_eq!(kept, None, "the snapshot is lost");
            }
            Err(error) => assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_never_changes_while_clients_write_and_the_home_is_killed() {
    let (folder, cluster) = cluster();
    let (names, home, _) = places(&cluster, 4).await;
    let client = Cluster::connect(cluster.folder()).await.unwrap();
    let is_over = Arc::new(AtomicBool::new(false));
    let (mut writers, mut readers) = (vec![], vec![]);
    for name in &names {
        let object = client.object(&format!("data/{name}").parse().unwrap()).await.unwrap();
        object.write(0, Bytes::from(vec![0; 8])).await.unwrap();
        readers.push(tokio::spawn(read_the_same(object.at("monday".parse().unwrap()))));
        writers.push(tokio::spawn(write_numbers(object, Arc::clone(&is_over))));
    }
    let cluster = tokio::task::spawn_blocking(move || {
        keep(&cluster, folder.path(), "monday");
        cluster.kill_node(&home);
        (folder, cluster)
    });
    let cluster = cluster.await.unwrap();
    for reader in readers {
        reader.await.unwrap();
    }
    is_over.store(true, Ordering::Relaxed);
    for writer in writers {
        writer.await.unwrap();
    }
    drop(cluster);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_program_makes_a_snapshot_when_it_is_started() {
    let (_folder, cluster) = cluster();
    let (names, ..) = places(&cluster, 1).await;
    let object = format!("data/{}", names[0]);
    cluster.run_with_input(&["object", "put", &object], "before");
    let program = shipped("control/snapshots.lua");
    cluster.run(&["program", "put", "control/snapshots", &program, "--activate"]);
    cluster.run(&["route", "start", "snapshots", "--set", "prefix=data/r"]);
    eventually_blocking("the rule is in force", || {
        cluster.run(&["route", "trace", "w", &object]).contains("keeps snapshots")
    });
    let shown = cluster.run(&["route", "show", "snapshots"]);
    let name = shown.split_whitespace().find(|word| word.starts_with("auto-"));
    let name = name.unwrap_or_else(|| panic!("{shown}"));
    cluster.run_with_input(&["object", "put", &object], "after");
    assert_eq!(at(&cluster, &object, name).as_deref(), Some("before"));
    cluster.run(&["route", "stop", "snapshots"]);
    assert_eq!(cluster.run(&["object", "get", &object]), "after");
}
