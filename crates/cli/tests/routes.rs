//! `nacre route`: rules on a cluster of real processes, which are killed.

mod common;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bytes::Bytes;
use common::{NACRE, RunningCluster, kill};
use nacre::{Cluster, Error, ErrorKind, Object};
use nacre_conformance::wait::eventually_blocking;
use nacre_object::ObjectId;
use serde_json::Value;

/// The bytes of a write.
const BLOCK: usize = 1024;
/// Blocks of an object.
const BLOCKS: u64 = 6;

fn rules(folder: &Path, text: &str) -> PathBuf {
    let file = folder.join("rules");
    std::fs::write(&file, format!("nacre routes 1\n{text}")).unwrap();
    file
}

/// A cluster of three targets, and a folder for files.
fn cluster() -> (tempfile::TempDir, RunningCluster) {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["--targets", "3", "--metadata", "1"];
    let cluster = RunningCluster::start_with(&folder.path().join("cluster"), &arguments);
    (folder, cluster)
}

fn put(cluster: &RunningCluster, folder: &Path, text: &str) {
    let file = rules(folder, text);
    cluster.run(&["route", "put", file.to_str().unwrap()]);
}

/// The status of the switch of a target; nothing while its node is down.
fn status(cluster: &RunningCluster, target: &str) -> Option<Value> {
    let output = cluster.command(&["route", "status", "--json"]).output().unwrap();
    let all: Value = serde_json::from_slice(&output.stdout).ok()?;
    all.as_array()?.iter().find(|one| one["target"] == target).cloned()
}

fn number(status: Option<&Value>, name: &str) -> Option<u64> {
    status.and_then(|status| status[name].as_u64())
}

fn wait_for_rules(cluster: &RunningCluster, target: &str, count: usize) {
    eventually_blocking("the switch has its rules", || {
        let status = status(cluster, target);
        status.is_some_and(|status| status["rules"].as_array().unwrap().len() == count)
    });
}

fn wait_until_home(cluster: &RunningCluster, target: &str) {
    eventually_blocking("all bytes are home", || {
        let status = status(cluster, target);
        number(status.as_ref(), "routed_bytes") == Some(0)
            && number(status.as_ref(), "in_doubt") == Some(0)
    });
}

/// Objects of one target, and another target for their bytes that does not keep the map of rules.
async fn places(cluster: &RunningCluster, names: usize) -> (Vec<String>, String, String) {
    let client = Cluster::connect(cluster.folder()).await.unwrap();
    let keeper = client.locate(&"nacre.system/map/routes".parse().unwrap()).to_string();
    let targets = ["storage.0", "storage.1", "storage.2"];
    let [home, away] = targets.into_iter().filter(|name| *name != keeper).collect::<Vec<_>>()[..]
    else {
        panic!("one target keeps the map")
    };
    let all = (0..).map(|number| format!("r{number}"));
    let is_at_home = |name: &String| {
        let object: ObjectId = format!("data/{name}").parse().unwrap();
        client.locate(&object).as_str() == home
    };
    (all.filter(is_at_home).take(names).collect(), home.to_owned(), away.to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_routed_object_answers_as_if_it_were_not_routed() {
    let (folder, cluster) = cluster();
    let (names, home, away) = places(&cluster, 2).await;
    let object = format!("data/{}", names[0]);
    cluster.run_with_input(&["object", "put", &object], "0123456789");
    let text = format!("application t on {home}\n  * w data/r* 2..5000 -> target {away} follow\n");
    put(&cluster, folder.path(), &text);
    wait_for_rules(&cluster, &home, 1);

    cluster.run_with_input(&["object", "write", &object, "--offset", "4", "-"], "abc");
    assert_eq!(number(status(&cluster, &home).as_ref(), "routed_bytes"), Some(3));
    assert_eq!(cluster.run(&["object", "get", &object]), "0123abc789");
    cluster.run_with_input(&["object", "write", &object, "--offset", "0", "-"], "ABCDEF");
    assert_eq!(cluster.run(&["object", "get", &object]), "ABCDEFc789", "a write is split");
    cluster.run_with_input(&["object", "write", &object, "--offset", "12", "-"], "end");
    assert_eq!(cluster.json(&["object", "stat", &object])["size"], 15);
    assert_eq!(cluster.run(&["object", "get", &object]), "ABCDEFc789\0\0end");

    let second = format!("data/{}", names[1]);
    cluster.run_with_input(&["object", "write", &second, "--offset", "2", "-"], "new");
    let listed = cluster.run(&["object", "ls", "data"]);
    assert!(listed.contains(&names[0]) && listed.contains(&names[1]), "{listed}");
    assert_eq!(cluster.run(&["object", "get", &second]), "\0\0new");
    let client = Cluster::connect(cluster.folder()).await.unwrap();
    let routed = client.locate(&object.parse().unwrap());
    assert_eq!(routed.as_str(), home);

    // `object get` reads the whole object, and that brings its bytes home.
    cluster.run_with_input(&["object", "write", &object, "--offset", "4", "-"], "EF");
    let io = ["route", "trace", "r", &object, "0..20", "--json"];
    let ways = cluster.run(&io);
    assert!(ways.contains(&away) && ways.contains("(home)"), "{ways}");
    let counted = status(&cluster, &home).unwrap();
    assert!(counted["rules"][0]["count"].as_u64() >= Some(4), "{counted}");

    let third = client.object(&object.parse().unwrap()).await.unwrap();
    assert_eq!(third.append("!").await.unwrap(), 15, "an append brings the bytes home first");
    assert_eq!(cluster.run(&["object", "get", &object]), "ABCDEFc789\0\0end!");
    cluster.run_with_input(&["object", "write", &object, "--offset", "2", "-"], "x");
    cluster.run(&["object", "rm", &object]);
    let (_, said) = cluster.fails(&["object", "get", &object]);
    assert!(said.contains("not found") || said.contains("no such"), "{said}");
    cluster.run_with_input(&["object", "put", &object], "again");
    assert_eq!(cluster.run(&["object", "get", &object]), "again", "no old bytes come back");

    cluster.run(&["route", "rm", "t"]);
    wait_for_rules(&cluster, &home, 0);
    wait_until_home(&cluster, &home);
    assert_eq!(cluster.run(&["object", "get", &second]), "\0\0new");
    let scrubbed = cluster.run(&["scrub", "--json"]);
    assert!(!scrubbed.contains("holder"), "routed bytes lie where their names say: {scrubbed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn routed_bytes_are_hidden_from_clients() {
    let (folder, cluster) = cluster();
    let (names, home, away) = places(&cluster, 1).await;
    let text = format!("application t on {home}\n  * w data/* -> target {away} follow\n");
    put(&cluster, folder.path(), &text);
    wait_for_rules(&cluster, &home, 1);
    let object = format!("data/{}", names[0]);
    cluster.run_with_input(&["object", "write", &object, "--offset", "0", "-"], "secret");
    let ways = cluster.json(&["route", "trace", "r", &object, "0..6"]);
    let place: ObjectId = ways[0]["object"].as_str().unwrap().parse().unwrap();
    let client = Cluster::connect(cluster.folder()).await.unwrap();
    let read = nacre_object::Request::new(place, vec![nacre::Op::Read { offset: 0, length: 9 }]);
    let refused = nacre_object::Store::submit(client.store().as_ref(), read.unwrap()).await;
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Denied);
    assert!(!cluster.run(&["pool", "ls"]).contains("nacre.routed"));
}

#[test]
fn unsafe_and_unsupported_rules_are_refused_with_the_reason() {
    let (folder, cluster) = cluster();
    let check = |text: &str| {
        let file = rules(folder.path(), text);
        cluster.fails(&["route", "put", file.to_str().unwrap()])
    };
    let (code, said) = check("application a on every\n  * rw data/x -> pool spill\n");
    assert!(code != 0 && said.contains("only writes are sent elsewhere"), "{said}");
    let (_, said) = check("application a on every\n  * w data/x -> target storage.9 follow\n");
    assert!(said.contains("there is no target storage.9"), "{said}");
    let (_, said) = check("application a on elsewhere\n  * w data/x -> home\n");
    assert!(said.contains("line 2") && said.contains("no switch elsewhere"), "{said}");

    put(
        &cluster,
        folder.path(),
        "application a on every\n  * w data/* -> target storage.1 follow\n",
    );
    let contradiction = "application b on every\n  * w data/x -> target storage.2 follow\n";
    let (_, said) = check(contradiction);
    assert!(said.contains("not safe") && said.contains("--force"), "{said}");
    let file = rules(folder.path(), contradiction);
    cluster.run(&["route", "put", file.to_str().unwrap(), "--force"]);
    assert!(cluster.run(&["events"]).contains("unsafe rules of b are installed"));

    let listed = cluster.run(&["route", "ls", "--json"]);
    assert_eq!(listed.lines().count(), 2, "{listed}");
    let shown = cluster.run(&["route", "show", "a"]);
    assert!(shown.ends_with("  * w data/* -> target storage.1 follow\n"), "{shown}");
    cluster.run(&["route", "rm", "b"]);
    let (_, said) = cluster.fails(&["route", "rm", "b"]);
    assert!(said.contains("no such application"), "{said}");
    let history = cluster.run(&["route", "history"]);
    assert!(history.contains("application/b ends"), "{history}");
}

/// What one object must hold: of each block the last acknowledged write, and later ones that failed.
struct Checked {
    object: Object,
    blocks: Vec<Vec<u64>>,
}

impl Checked {
    async fn write(&mut self, block: u64, value: u64) {
        let data = Bytes::from(value.to_le_bytes().repeat(BLOCK / 8));
        self.blocks[block as usize].push(value);
        if self.object.write(block * BLOCK as u64, data).await.is_ok() {
            self.blocks[block as usize] = vec![value];
        }
    }

    /// Whether it was read.
    async fn read(&mut self) -> bool {
        let read = match self.object.read(0, BLOCKS * BLOCK as u64).await {
            Ok(read) => read,
            Err(error) => {
                assert!(is_passing(&error), "{error}");
                return false;
            }
        };
        for (block, possible) in self.blocks.iter_mut().enumerate() {
            let found = read.get(block * BLOCK..(block + 1) * BLOCK);
            let found = found.unwrap_or_else(|| panic!("block {block} is lost"));
            let value = u64::from_le_bytes(found[..8].try_into().unwrap());
            assert!(found.chunks(8).all(|part| part == &found[..8]), "a torn block");
            assert!(
                possible.contains(&value),
                "block {block} holds {value}, not one of {possible:?}"
            );
            *possible = vec![value];
        }
        true
    }
}

fn is_passing(error: &Error) -> bool {
    error.kind() == ErrorKind::Unavailable
}

/// Writes and reads an object until it is told to stop; counts the rounds.
async fn work(mut checked: Checked, is_over: Arc<AtomicBool>, rounds: Arc<AtomicU64>, first: u64) {
    let mut value = first << 32;
    for block in 0..BLOCKS {
        checked.write(block, value).await;
    }
    while !is_over.load(Ordering::Relaxed) {
        value += 1;
        checked.write(value % BLOCKS, value).await;
        if checked.read().await {
            rounds.fetch_add(1, Ordering::Relaxed);
        }
    }
    while !checked.read().await {}
}

#[tokio::test(flavor = "multi_thread")]
async fn no_acknowledged_write_is_lost_when_nodes_of_a_route_are_killed() {
    let (folder, cluster) = cluster();
    let (names, home, away) = places(&cluster, 4).await;
    let client = Cluster::connect(cluster.folder()).await.unwrap();
    let (is_over, rounds) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let mut workers = vec![];
    for (number, name) in names.iter().enumerate() {
        let object = client.object(&format!("data/{name}").parse().unwrap()).await.unwrap();
        let checked = Checked { object, blocks: vec![vec![]; BLOCKS as usize] };
        let work = work(checked, Arc::clone(&is_over), Arc::clone(&rounds), number as u64 + 1);
        workers.push(tokio::spawn(work));
    }
    let steps = tokio::task::spawn_blocking(move || {
        let more_rounds = |what: &str| {
            let from = rounds.load(Ordering::Relaxed);
            eventually_blocking(what, || rounds.load(Ordering::Relaxed) >= from + 20);
        };
        let routed = |what: &str| {
            eventually_blocking(what, || {
                number(status(&cluster, &home).as_ref(), "routed_bytes") > Some(0)
            });
        };
        more_rounds("the workers work");
        let text = format!("application t on {home}\n  * w data/r* -> target {away} follow\n");
        put(&cluster, folder.path(), &text);
        routed("writes go elsewhere");
        more_rounds("the workers work with rules");
        kill(cluster.pid_of(&away).unwrap());
        more_rounds("the workers go on after the node with routed bytes was killed");
        kill(cluster.pid_of(&home).unwrap());
        more_rounds("the workers go on after the node with the switch was killed");
        routed("the started switch knows where bytes lie");
        let first = cluster.pid_of(&home).unwrap();
        let second = cluster.pid_of(&away).unwrap();
        kill(first);
        kill(second);
        more_rounds("the workers go on after both were killed at once");
        cluster.run(&["route", "rm", "t"]);
        wait_for_rules(&cluster, &home, 0);
        kill(cluster.pid_of(&home).unwrap());
        more_rounds("the workers go on after the switch was killed while bytes come home");
        wait_until_home(&cluster, &home);
        more_rounds("the workers work without rules");
        is_over.store(true, Ordering::Relaxed);
        (folder, cluster)
    });
    let kept = steps.await.unwrap();
    for worker in workers {
        worker.await.unwrap();
    }
    drop(kept);
}

#[test]
fn the_demo_of_routes_verifies_every_read() {
    let mut demo = Command::new(NACRE);
    let output = demo.args(["demo", "--routes", "--quick"]).output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(printed.lines().last().is_some_and(|line| line.starts_with("verified: ")), "{printed}");
}
