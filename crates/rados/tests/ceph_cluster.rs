//! The development cluster: real daemons, several side by side, and nothing left of them.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use nacre_conformance::CephCluster;
use rustix::process::{Pid, Signal, kill_process};

/// The processes whose command line names a path below `folder`.
fn processes_of(folder: &Path) -> Vec<PathBuf> {
    let below = format!("{}/", folder.display());
    let names_it = |process: &PathBuf| {
        let command = std::fs::read(process.join("cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&command).contains(&below)
    };
    let entries = std::fs::read_dir("/proc").unwrap();
    entries.filter_map(|entry| Some(entry.ok()?.path())).filter(names_it).collect()
}

fn assert_nothing_is_left_of(folder: &Path) {
    assert_eq!(processes_of(folder), Vec::<PathBuf>::new());
    assert!(!folder.exists(), "{} is left", folder.display());
}

fn running(cluster: &CephCluster) -> Vec<String> {
    let daemons = cluster.daemons().into_iter();
    daemons.filter(|(_, pid)| pid.is_some()).map(|(name, _)| name).collect()
}

#[test]
fn two_clusters_run_side_by_side_and_leave_nothing() {
    let one = CephCluster::start(&["--osds", "1"]);
    let two = CephCluster::start(&["--osds", "2"]);
    assert_eq!(running(&one), ["mon.a", "osd.0"]);
    assert_eq!(running(&two), ["mon.a", "osd.0", "osd.1"]);

    let folders = [one.folder().to_owned(), two.folder().to_owned()];
    drop(one);
    assert_nothing_is_left_of(&folders[0]);
    assert_eq!(running(&two), ["mon.a", "osd.0", "osd.1"], "the other one goes on");
    drop(two);
    assert_nothing_is_left_of(&folders[1]);
}

#[test]
fn a_daemon_can_be_killed_and_started_again() {
    let cluster = CephCluster::start(&["--osds", "2", "--store", "bluestore"]);
    cluster.kill("osd.1");
    assert_eq!(running(&cluster), ["mon.a", "osd.0"]);
    cluster.restart("osd.1");
    assert_eq!(running(&cluster), ["mon.a", "osd.0", "osd.1"]);
}

#[test]
fn an_interrupted_start_leaves_nothing() {
    let folder = CephCluster::unused_folder();
    let mut starting = CephCluster::command("up", &folder).stderr(Stdio::null()).spawn().unwrap();
    while processes_of(&folder).is_empty() {
        std::thread::yield_now();
    }
    kill_process(Pid::from_child(&starting), Signal::INT).unwrap();
    assert!(!starting.wait().unwrap().success());
    assert_nothing_is_left_of(&folder);
}

#[test]
fn a_folder_with_other_things_in_it_is_left_alone() {
    let folder = CephCluster::unused_folder();
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("precious"), "kept").unwrap();
    for command in ["up", "down", "status"] {
        let output = CephCluster::command(command, &folder).output().unwrap();
        assert!(!output.status.success(), "{command}");
    }
    assert_eq!(std::fs::read_to_string(folder.join("precious")).unwrap(), "kept");
    std::fs::remove_dir_all(&folder).unwrap();
}
