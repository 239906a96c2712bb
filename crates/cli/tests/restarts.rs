//! Tests clusters that end, completely or in part, by a signal or a kill, and continue afterwards.

mod common;
#[path = "restarts/lost_folders.rs"]
mod lost_folders;

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use common::follower::Follower;
use common::{NACRE, RunningCluster, kill, suspend};
use lost_folders::Spread;
use nacre_clock::{Clock, SystemClock};
use nacre_conformance::wait::eventually_blocking;
use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, Signal, kill_process};

const COUNTER: &str = include_str!("../../../programs/class/counter.lua");

#[test]
fn everything_survives_a_restart_of_the_cluster() {
    let scratch = tempfile::tempdir().unwrap();
    let mut cluster = RunningCluster::start_in(scratch.path());
    cluster.run_with_input(&["object", "put", "data/a"], "kept");
    cluster.run(&["map", "set", "m", "a=1"]);
    cluster.run(&["log", "create", "l"]);
    cluster.run_with_input(&["log", "append", "l"], "one\ntwo\n");
    assert!(cluster.stop(), "it ends with status 0");
    let (status, said) = cluster.fails(&["status"]);
    assert_eq!(status, 1);
    assert!(said.contains("nacre up"), "{said}");

    // A copy of a cluster's folder may lack the files that running processes make.
    fs::remove_dir_all(scratch.path().join("run")).unwrap();
    let cluster = RunningCluster::start_in(scratch.path());
    assert_eq!(cluster.run(&["object", "get", "data/a"]), "kept");
    assert_eq!(cluster.run(&["map", "get", "m", "a"]), "1\n");
    assert_eq!(cluster.run(&["log", "read", "l"]), "one\ntwo\n");
    cluster.run_with_input(&["log", "append", "l"], "three\n");
    assert_eq!(cluster.run(&["log", "read", "l"]), "one\ntwo\nthree\n");
}

/// The procedure of docs/operations.md.
#[test]
fn a_copy_of_a_stopped_clusters_folder_restores_it() {
    let scratch = tempfile::tempdir().unwrap();
    let [folder, backup] = ["nacre-data", "backup"].map(|name| scratch.path().join(name));
    let mut cluster = RunningCluster::start_in(&folder);
    cluster.run_with_input(&["object", "put", "data/a"], "before");
    cluster.run(&["map", "set", "m", "a=1"]);
    cluster.run(&["log", "create", "l"]);
    cluster.run_with_input(&["log", "append", "l"], "one\ntwo\n");
    assert!(cluster.stop());
    let copied = Command::new("cp").arg("-a").arg(&folder).arg(&backup).status().unwrap();
    assert!(copied.success());

    let mut cluster = RunningCluster::start_in(&folder);
    cluster.run_with_input(&["object", "put", "data/a"], "after");
    cluster.run_with_input(&["log", "append", "l"], "three\n");
    assert!(cluster.stop());
    fs::remove_dir_all(&folder).unwrap();
    fs::rename(&backup, &folder).unwrap();
    let cluster = RunningCluster::start_in(&folder);
    assert_eq!(cluster.run(&["object", "get", "data/a"]), "before");
    assert_eq!(cluster.run(&["map", "get", "m", "a"]), "1\n");
    assert_eq!(cluster.run(&["log", "read", "l"]), "one\ntwo\n");
    cluster.run_with_input(&["log", "append", "l"], "three\n");
    assert_eq!(cluster.run(&["log", "read", "l"]), "one\ntwo\nthree\n");
}

#[test]
fn a_killed_node_is_started_again_with_its_data() {
    let cluster = RunningCluster::start();
    cluster.run_with_input(&["object", "put", "data/a"], "kept");
    let node = cluster.run(&["object", "locate", "data/a"]).trim().to_owned();
    let killed = cluster.kill_node(&node);
    // The read waits until a new process of the node serves.
    assert_eq!(cluster.run(&["object", "get", "data/a"]), "kept");
    assert_ne!(cluster.pid_of(&node), Some(killed));
}

#[test]
fn the_cluster_log_reports_that_a_node_ended_and_that_it_serves_again() {
    let cluster = RunningCluster::start();
    cluster.kill_node("storage.1");
    // The procedure of docs/operations.md to restart a node.
    let process = fs::read_to_string(cluster.folder().join("run/storage.2.lock")).unwrap();
    assert!(Command::new("kill").arg(process).status().unwrap().success());
    for node in ["storage.1", "storage.2"] {
        eventually_blocking(&format!("the cluster log tells of {node}"), || {
            let events = cluster.run(&["events"]);
            let place = |text: &str| events.lines().position(|line| line.contains(text));
            let ended = place(&format!("warning  {node}  the node ended: "));
            let serves = place(&format!("info  {node}  the node serves again"));
            assert!(serves.is_none() || ended < serves, "{events}");
            ended.is_some() && serves.is_some()
        });
    }
}

/// Whether the cluster's maps have a node as up.
fn is_up(cluster: &RunningCluster, node: &str) -> bool {
    let status = cluster.json(&["program", "status", "class/counter"]);
    let nodes = status["nodes"].as_array().unwrap();
    let known = nodes.iter().find(|line| line["node"] == node);
    known.is_some_and(|line| line["up"].as_bool().unwrap())
}

#[test]
fn an_activation_does_not_wait_for_a_node_that_fails_to_start() {
    let cluster = RunningCluster::start();
    let file = cluster.folder().join("counter.lua");
    fs::write(&file, COUNTER).unwrap();
    let put = ["program", "put", "class/counter", file.to_str().unwrap(), "--activate"];
    cluster.run(&put);
    eventually_blocking("meta.0 has reported", || is_up(&cluster, "meta.0"));
    // Where it listens is something that it will not remove.
    let socket = cluster.folder().join("run/meta.0.sock");
    let nodes = cluster.announced["nodes"].as_array().unwrap();
    let pid = nodes.iter().find(|node| node["name"] == "meta.0").unwrap()["pid"].as_i64().unwrap();
    fs::remove_file(&socket).unwrap();
    fs::write(&socket, "").unwrap();
    kill(i32::try_from(pid).unwrap());
    fs::write(&file, COUNTER.replace("tostring(sum)", "'now ' .. sum")).unwrap();
    assert_eq!(cluster.run(&put), "class/counter version 2, active on every node\n");
    assert!(!is_up(&cluster, "meta.0"));
    fs::remove_file(&socket).unwrap();
    eventually_blocking("meta.0 is up again", || is_up(&cluster, "meta.0"));
    cluster.run(&["program", "wait", "class/counter", "2"]);
}

#[test]
fn a_folder_runs_one_cluster_at_a_time_and_no_process_is_left_behind() {
    let mut cluster = RunningCluster::start();
    let folder = cluster.folder().to_str().unwrap().to_owned();
    let again = Command::new(NACRE).args(["up", "--cluster", &folder]).output().unwrap();
    assert_eq!(again.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&again.stderr).contains("is running already"));
    let nodes = cluster.announced["nodes"].as_array().unwrap().clone();
    assert!(cluster.stop());
    for node in nodes {
        let process = format!("/proc/{}", node["pid"]);
        assert!(!std::path::Path::new(&process).exists(), "{} is gone", node["name"]);
    }
}

#[test]
fn a_new_node_waits_for_the_process_that_a_killed_supervisor_left_behind() {
    let scratch = tempfile::tempdir().unwrap();
    let mut cluster = RunningCluster::start_in(scratch.path());
    cluster.run_with_input(&["object", "put", "data/a"], "kept");
    cluster.kill();
    // From now on the test holds the node's lock, like a process that takes long to end.
    let leaving = fs::File::open(scratch.path().join("run/meta.0.lock")).unwrap();
    flock(&leaving, FlockOperation::LockExclusive).unwrap();
    let folder = scratch.path().to_owned();
    let next = std::thread::spawn(move || RunningCluster::start_in(&folder));
    let log = scratch.path().join("run/meta.0.log");
    eventually_blocking("meta.0 waits for the process before it", || {
        assert!(!next.is_finished(), "it started, or gave up");
        fs::read_to_string(&log).unwrap().contains("waiting for the process before this one")
    });
    drop(leaving);
    assert_eq!(next.join().unwrap().run(&["object", "get", "data/a"]), "kept");
}

/// Stopping takes eight seconds if the cluster waits for the clients' long polls, and one second
/// otherwise.
const STOPS_WITHIN: Duration = Duration::from_secs(5);

/// Clients that wait for a record, a commit and an event.
fn followers(cluster: &RunningCluster) -> [Follower; 3] {
    cluster.run(&["log", "create", "l"]);
    cluster.run_with_input(&["log", "append", "l"], "one\n");
    cluster.run(&["map", "set", "m", "a=1"]);
    let follow = [
        &["log", "follow", "l"][..],
        &["map", "watch", "m", "--from", "0"],
        &["events", "--follow", "--limit", "1"],
    ];
    let mut followers = follow.map(|arguments| Follower::start(cluster.command(arguments)));
    for follower in &mut followers {
        follower.next_line();
    }
    followers
}

#[test]
fn a_cluster_stops_while_clients_follow_it_and_the_clients_continue_after_the_restart() {
    let scratch = tempfile::tempdir().unwrap();
    let mut cluster = RunningCluster::start_in(scratch.path());
    let [mut records, mut commits, mut events] = followers(&cluster);
    let clock = SystemClock::default();
    let begun = clock.monotonic();
    assert!(cluster.stop());
    let took = clock.monotonic() - begun;
    assert!(took < STOPS_WITHIN, "{took:?}");

    let cluster = RunningCluster::start_in(scratch.path());
    cluster.run_with_input(&["log", "append", "l"], "two\n");
    assert_eq!(records.next_line(), "two");
    cluster.run(&["map", "set", "m", "a=2"]);
    assert!(commits.next_line().ends_with("  a=2"));
    let source = cluster.folder().join("counter.lua");
    fs::write(&source, COUNTER).unwrap();
    let put = ["program", "put", "class/counter", source.to_str().unwrap(), "--activate"];
    cluster.run(&put);
    eventually_blocking("the event of the activation", || {
        events.next_line().contains("class/counter version 1 is active")
    });
}

#[test]
fn a_terminated_node_is_back_soon_although_clients_follow_it() {
    let cluster = RunningCluster::start();
    let [mut records, ..] = followers(&cluster);
    let before = cluster.pid_of("meta.0").unwrap();
    let clock = SystemClock::default();
    let begun = clock.monotonic();
    kill_process(Pid::from_raw(before).unwrap(), Signal::TERM).unwrap();
    eventually_blocking("meta.0 is another process", || {
        cluster.pid_of("meta.0").is_some_and(|pid| pid != before)
    });
    let took = clock.monotonic() - begun;
    assert!(took < STOPS_WITHIN, "{took:?}");
    cluster.run_with_input(&["log", "append", "l"], "two\n");
    assert_eq!(records.next_line(), "two");
}

#[test]
fn a_second_signal_ends_a_node_that_does_not_stop() {
    let scratch = tempfile::tempdir().unwrap();
    let (said, says) = std::io::pipe().unwrap();
    let mut cluster = RunningCluster::start_told(scratch.path(), &[], Stdio::from(says));
    let pid = cluster.pid_of("meta.0").unwrap();
    suspend(pid);
    cluster.terminate();
    let mut line = String::new();
    BufReader::new(said).read_line(&mut line).unwrap();
    assert!(line.contains("a second signal ends every node"), "{line}");
    let clock = SystemClock::default();
    let begun = clock.monotonic();
    cluster.terminate();
    assert!(cluster.ended());
    let took = clock.monotonic() - begun;
    assert!(took < STOPS_WITHIN, "{took:?}");
    assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists(), "meta.0 is gone");
}

#[test]
fn a_cluster_in_a_deep_folder_is_reached_by_its_absolute_path() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path().join("x".repeat(100)).join("y".repeat(100));
    let mut cluster = RunningCluster::start_in(&folder);
    cluster.run_with_input(&["object", "put", "data/a"], "kept");
    assert_eq!(cluster.run(&["object", "get", "data/a"]), "kept");
    let status = cluster.run(&["status", "--json"]);
    // The supervisor is reached as well.
    assert!(status.lines().all(|line| line.contains("\"supervisor\":")), "{status}");
    assert!(cluster.stop());
}

/// Flips a bit of a file.
fn flip_a_bit(path: &Path, at: usize) {
    let mut bytes = fs::read(path).unwrap();
    bytes[at] ^= 1;
    fs::write(path, bytes).unwrap();
}

/// The files of a target that lie in one of its folders.
fn files_in(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<_> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

/// The list of a target's files of tables.
fn list_of_files(target: &Path) -> PathBuf {
    let current = fs::read(target.join("tree/current")).unwrap();
    let list = u64::from_le_bytes(current[..8].try_into().unwrap());
    target.join(format!("tree/v{list}"))
}

/// A way to damage a stopped target so that its store cannot be opened: a bit is flipped in certain
/// files at a certain offset. A report about the damage contains the text `named`.
struct Damage {
    files: Vec<PathBuf>,
    at: fn(&Path) -> usize,
    named: &'static str,
}

const DAMAGES: usize = 4;

fn damages(target: &Path) -> [Damage; DAMAGES] {
    let head = |_: &Path| 12;
    // In the checksum of the table of contents, with which a file ends.
    let footer = |path: &Path| fs::metadata(path).unwrap().len() as usize - 20;
    let copied = |file: PathBuf, copy: &str| vec![file, target.join(copy)];
    let tables = files_in(&target.join("tree/tables"));
    assert!(!tables.is_empty(), "the target has files of tables");
    let damage = |files, at, named| Damage { files, at, named };
    [
        damage(copied(target.join("MANIFEST"), "MANIFEST.copy"), head, "MANIFEST"),
        damage(copied(target.join("tree/current"), "tree/list.copy"), head, "/tree/"),
        damage(copied(list_of_files(target), "tree/list.copy"), head, "/tree/v"),
        damage(tables[..1].to_vec(), footer, "the tables"),
    ]
}

#[test]
fn a_damaged_target_does_not_keep_the_others_from_serving_and_serves_once_it_is_repaired() {
    let scratch = tempfile::tempdir().unwrap();
    let mut cluster = RunningCluster::start_in(scratch.path());
    let Spread { target, on_it, elsewhere } = Spread::of(&cluster);
    for object in [&on_it, &elsewhere] {
        cluster.run_with_input(&["object", "put", object], "kept");
    }
    assert!(cluster.stop());
    for number in 0..DAMAGES {
        // Each run of the cluster leaves other files.
        let Damage { files, at, named } = &damages(&scratch.path().join(&target))[number];
        let whole: Vec<_> = files.iter().map(|path| fs::read(path).unwrap()).collect();
        for path in files {
            flip_a_bit(path, at(path));
        }
        check_only_the_target_is_refused(
            scratch.path(),
            &target,
            [&on_it, &elsewhere],
            named,
            || {
                for (path, whole) in files.iter().zip(&whole) {
                    fs::write(path, whole).unwrap();
                }
            },
        );
    }
}

#[test]
fn a_target_whose_journal_is_damaged_does_not_keep_the_others_from_serving() {
    let scratch = tempfile::tempdir().unwrap();
    let mut cluster = RunningCluster::start_in(scratch.path());
    let Spread { target, on_it, elsewhere } = Spread::of(&cluster);
    for object in [&on_it, &elsewhere, &on_it] {
        cluster.run_with_input(&["object", "put", object], "kept");
    }
    // A killed store needs the content of its journal.
    cluster.vanish(&target);
    let segment = &files_in(&scratch.path().join(&target).join("journal"))[0];
    let whole = fs::read(segment).unwrap();
    // In the first group, which others follow.
    flip_a_bit(segment, 512 + 12);
    check_only_the_target_is_refused(
        scratch.path(),
        &target,
        [&on_it, &elsewhere],
        "journal",
        || {
            fs::write(segment, &whole).unwrap();
        },
    );
}

#[test]
fn a_target_whose_file_cannot_be_read_does_not_keep_the_others_from_serving() {
    let scratch = tempfile::tempdir().unwrap();
    let mut cluster = RunningCluster::start_in(scratch.path());
    let Spread { target, on_it, elsewhere } = Spread::of(&cluster);
    for object in [&on_it, &elsewhere] {
        cluster.run_with_input(&["object", "put", object], "kept");
    }
    assert!(cluster.stop());
    // Permissions do not stop root from reading. A folder in place of the file stops every user.
    let files = [
        list_of_files(&scratch.path().join(&target)),
        scratch.path().join(&target).join("MANIFEST"),
    ];
    for path in files {
        let away = scratch.path().join("away");
        fs::rename(&path, &away).unwrap();
        fs::create_dir(&path).unwrap();
        let named = path.file_name().unwrap().to_str().unwrap().to_owned();
        check_only_the_target_is_refused(
            scratch.path(),
            &target,
            [&on_it, &elsewhere],
            &named,
            || {
                fs::remove_dir(&path).unwrap();
                fs::rename(&away, &path).unwrap();
            },
        );
    }
}

/// Starts a cluster with one damaged target. Checks that a report names the damaged file, and that
/// the other targets serve. Then repairs the target, and checks that it serves again.
fn check_only_the_target_is_refused(
    folder: &Path,
    target: &str,
    [on_it, elsewhere]: [&str; 2],
    named: &str,
    mend: impl FnOnce(),
) {
    let mut cluster = RunningCluster::start_in(folder);
    assert_eq!(cluster.run(&["object", "get", elsewhere]), "kept");
    let (_, said) = cluster.fails(&["object", "get", on_it]);
    let reason = format!("{target} does not serve");
    assert!(said.contains(&reason) && said.contains(named), "{named}: {said}");
    let status = cluster.run(&["status"]);
    let says_what_to_do =
        status.contains("restore the folder") || status.contains("see to the disk");
    assert!(status.contains(&reason) && says_what_to_do, "{status}");
    eventually_blocking("an event tells of it", || cluster.run(&["events"]).contains(&reason));
    mend();
    eventually_blocking("the target serves again", || {
        cluster.run(&["status"]).matches(" up ").count() == 4
    });
    assert_eq!(cluster.run(&["object", "get", on_it]), "kept");
    assert!(cluster.stop());
}

#[test]
fn a_target_with_a_damaged_vital_file_serves_from_the_copy_and_an_event_reports_it() {
    let scratch = tempfile::tempdir().unwrap();
    let mut cluster = RunningCluster::start_in(scratch.path());
    let Spread { target, on_it, .. } = Spread::of(&cluster);
    cluster.run_with_input(&["object", "put", &on_it], "kept");
    assert!(cluster.stop());
    let target = scratch.path().join(&target);
    let vital = ["MANIFEST", "MANIFEST.copy", "tree/current", "tree/list.copy", "target.json"];
    for file in vital {
        flip_a_bit(&target.join(file), 12);
        let mut cluster = RunningCluster::start_in(scratch.path());
        assert_eq!(cluster.run(&["object", "get", &on_it]), "kept");
        if file != "target.json" {
            eventually_blocking("an event tells of it", || {
                cluster.run(&["events"]).contains("it was written anew from its copy")
            });
        }
        assert!(cluster.stop());
    }
}
