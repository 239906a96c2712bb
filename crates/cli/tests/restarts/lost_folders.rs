//! Storage folders and the cluster's file that are lost, left out or swapped.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use nacre_conformance::wait::eventually_blocking;

use crate::common::{NACRE, RunningCluster};

/// The node that keeps an object.
fn home_of(cluster: &RunningCluster, object: &str) -> String {
    cluster.run(&["object", "locate", object]).trim().to_owned()
}

/// An object on a target whose loss the cluster tolerates, and an object on another target.
pub struct Spread {
    /// Its maps of pools and its events are elsewhere.
    pub target: String,
    pub on_it: String,
    pub elsewhere: String,
}

impl Spread {
    pub fn of(cluster: &RunningCluster) -> Self {
        let needed = ["nacre.system/map/pools", "nacre.system/events"];
        let needed = needed.map(|object| home_of(cluster, object));
        let targets = ["storage.0", "storage.1", "storage.2"];
        let spared = targets.into_iter().find(|target| needed.iter().all(|name| name != target));
        let target = spared.unwrap().to_owned();
        let names = (0..20).map(|number| format!("data/{number}"));
        let (on_it, elsewhere): (Vec<_>, Vec<_>) =
            names.partition(|name| home_of(cluster, name) == target);
        Self { target, on_it: on_it[0].clone(), elsewhere: elsewhere[0].clone() }
    }
}

/// How many nodes the output of `nacre status` shows in a state.
fn in_state(status: &str, state: &str) -> usize {
    status.lines().filter(|line| line.split_whitespace().nth(1) == Some(state)).count()
}

#[test]
fn a_target_with_a_lost_folder_is_refused_until_the_folder_is_back_or_the_target_is_forgotten() {
    let scratch = tempfile::tempdir().unwrap();
    let mut cluster = RunningCluster::start_in(scratch.path());
    let Spread { target, on_it, elsewhere } = Spread::of(&cluster);
    for object in [&on_it, &elsewhere] {
        cluster.run_with_input(&["object", "put", object], "kept");
    }
    cluster.run(&["log", "create", "l"]);
    cluster.run_with_input(&["log", "append", "l"], &"record\n".repeat(30));
    let view_is_on_it =
        |log: &String| home_of(&cluster, &format!("nacre.system/map/log.{log}")) == target;
    let (whole, short): (Vec<_>, Vec<_>) =
        (0..20).map(|number| format!("log{number}")).partition(view_is_on_it);
    let (whole, short) = (&whole[0], &short[0]);
    for log in [whole, short] {
        cluster.run(&["log", "create", log, "--slots", "4"]);
        cluster.run_with_input(&["log", "append", log], &"record\n".repeat(30));
    }
    assert!(cluster.stop());
    let (folder, away) = (scratch.path().join(&target), scratch.path().join("away"));
    fs::rename(&folder, &away).unwrap();

    let said = scratch.path().join("said");
    let told = Stdio::from(fs::File::create(&said).unwrap());
    let mut cluster = RunningCluster::start_told(scratch.path(), &[], told);
    let reason = format!("{target} does not serve");
    assert!(fs::read_to_string(said).unwrap().contains(&reason));
    assert_eq!(cluster.run(&["object", "get", &elsewhere]), "kept");
    for lost in [&["object", "get", &on_it][..], &["object", "ls", "data"]] {
        let (status, said) = cluster.fails(lost);
        assert!(status == 1 && said.contains("unavailable"), "{lost:?}: {said}");
        assert!(said.contains(&reason), "{lost:?}: {said}");
    }
    let (_, said) = cluster.fails(&["log", "read", "l"]);
    assert!(said.contains("unavailable"), "the log is not taken for an empty one: {said}");
    let status = cluster.run(&["status"]);
    assert_eq!((in_state(&status, "up"), in_state(&status, "refused")), (3, 1), "{status}");
    assert!(status.contains(&reason) && status.contains("nacre node forget"), "{status}");
    assert!(cluster.fails(&["scrub"]).1.contains(&reason));
    eventually_blocking("an event tells of it", || cluster.run(&["events"]).contains(&reason));
    assert!(!folder.exists(), "nothing is made in the place of what is lost");
    let refused = cluster.pid_of(&target);
    assert!(cluster.fails(&["node", "forget", &target, "--yes"]).1.contains("running already"));
    assert_eq!(cluster.pid_of(&target), refused, "it is not started again and again");

    fs::rename(&away, &folder).unwrap();
    eventually_blocking("the target serves again", || {
        in_state(&cluster.run(&["status"]), "up") == 4
    });
    assert_eq!(cluster.run(&["object", "get", &on_it]), "kept");
    assert_eq!(cluster.run(&["log", "read", "l"]), "record\n".repeat(30));

    assert!(cluster.stop());
    fs::rename(&folder, &away).unwrap();
    let (status, said) = cluster.fails(&["node", "forget", &target]);
    assert!(status == 2 && said.contains("Lost for good") && said.contains("--yes"), "{said}");
    assert!(said.contains(&format!("the log {whole}, whole")), "{said}");
    assert!(!said.contains(&format!("the log {short}")), "{said}");
    assert!(!folder.exists());
    cluster.run(&["node", "forget", &target, "--yes"]);
    let cluster = RunningCluster::start_in(scratch.path());
    assert!(cluster.fails(&["object", "get", &on_it]).1.contains("not found"));
    assert_eq!(cluster.run(&["object", "get", &elsewhere]), "kept");
    cluster.run_with_input(&["object", "put", &on_it], "anew");
    assert_eq!(cluster.run(&["object", "get", &on_it]), "anew");
    cluster.run_with_input(&["log", "append", "l"], "next\n");
    let read = cluster.command(&["log", "read", "l"]).output().unwrap();
    let left = String::from_utf8(read.stdout).unwrap();
    assert!(left.ends_with("record\nnext\n") && left.lines().count() < 31, "{left}");
    assert_eq!(read.status.code(), Some(1), "what is lost is no success");
    let (status, said) = cluster.fails(&["log", "read", short]);
    assert!(status == 1 && said.contains("were lost with their storage target"), "{said}");
    cluster.run(&["log", "create", whole, "--slots", "4"]);
    cluster.run_with_input(&["log", "append", whole], "anew\n");
    assert_eq!(cluster.run(&["log", "read", whole]), "anew\n");
}

/// Runs `nacre up` on a folder that it refuses. Returns its exit status and its messages.
fn up_fails(folder: &Path, arguments: &[&str]) -> (i32, String) {
    let mut up = Command::new(NACRE);
    up.arg("up").args(arguments).arg("--cluster").arg(folder).stdin(Stdio::null());
    let output = up.output().unwrap();
    assert!(!output.status.success(), "it ran");
    (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn a_cluster_without_its_file_is_not_recreated_and_runs_once_the_file_is_restored() {
    let scratch = tempfile::tempdir().unwrap();
    let mut cluster = RunningCluster::start_in(scratch.path());
    cluster.run_with_input(&["object", "put", "data/a"], "kept");
    assert!(cluster.stop());
    let file = scratch.path().join("cluster.json");
    fs::remove_file(&file).unwrap();
    let (status, said) = up_fails(scratch.path(), &[]);
    assert_eq!(status, 1);
    assert!(said.contains("storage.0, storage.1, storage.2"), "{said}");
    let copy = scratch.path().join("storage.0/cluster.json");
    assert!(said.contains(&format!("cp {} {}", copy.display(), file.display())), "{said}");
    fs::copy(&copy, &file).unwrap();
    let mut cluster = RunningCluster::start_in(scratch.path());
    assert_eq!(cluster.run(&["object", "get", "data/a"]), "kept");

    assert!(cluster.stop());
    let whole = fs::read(&file).unwrap();
    let mut document: serde_json::Value = serde_json::from_slice(&whole).unwrap();
    document["nodes"].as_array_mut().unwrap().retain(|node| node["name"] != "storage.2");
    fs::write(&file, document.to_string()).unwrap();
    for is_there in [true, false] {
        if !is_there {
            fs::rename(scratch.path().join("storage.2"), scratch.path().join("elsewhere")).unwrap();
        }
        let (_, said) = up_fails(scratch.path(), &[]);
        assert!(said.contains("leaves out the storage target storage.2"), "{said}");
        assert!(said.contains("restore the file: cp "), "{said}");
    }
    assert_eq!(fs::read(&copy).unwrap(), whole, "the copies are left as they are");
}

#[test]
fn a_cluster_refuses_to_start_with_another_number_of_targets_than_at_init() {
    let scratch = tempfile::tempdir().unwrap();
    let mut init = Command::new(NACRE);
    init.args(["init", "--targets", "2", "--cluster"]).arg(scratch.path());
    assert!(init.output().unwrap().status.success());
    let (status, said) = up_fails(scratch.path(), &["--targets", "3"]);
    assert_eq!(status, 2);
    assert!(said.contains("has 2 storage targets, not 3"), "{said}");
    assert!(said.contains("leave --targets out"), "{said}");
}
