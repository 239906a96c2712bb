//! Tests the development cluster: several can run side by side, and they leave nothing behind.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use nacre_conformance::CephCluster;
use nacre_conformance::wait::eventually_blocking;
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

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
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
    assert_eq!(mode(one.folder()), 0o700);
    assert_eq!(["keyring", "ceph.conf"].map(|file| mode(&one.folder().join(file))), [0o600; 2]);

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

/// Network devices and namespaces of clusters.
fn networks() -> BTreeSet<PathBuf> {
    let found = ["/sys/class/net", "/run/netns"].map(|folder| std::fs::read_dir(folder).ok());
    let paths = found.into_iter().flatten().flatten().filter_map(|entry| Some(entry.ok()?.path()));
    paths
        .filter(|path| {
            path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"nacre"))
        })
        .collect()
}

#[test]
fn an_osd_can_be_cut_off_and_no_network_outlives_the_cluster() {
    let cluster = CephCluster::start(&["--osds", "2", "--networks"]);
    let number = std::fs::read_to_string(cluster.folder().join("run/network")).unwrap();
    let bridge = format!("nacre{}", number.trim());
    let is_ours = |path: &&PathBuf| path.to_string_lossy().contains(&bridge);
    let carrier = Path::new("/sys/class/net").join(format!("{bridge}-1/operstate"));
    let state = || std::fs::read_to_string(&carrier).unwrap().trim().to_owned();
    assert_eq!(networks().iter().filter(is_ours).count(), 5, "a bridge, two links, two namespaces");
    assert_eq!(state(), "up");
    cluster.block("osd.1");
    assert_eq!(state(), "down");
    cluster.unblock("osd.1");
    drop(cluster);
    assert_eq!(networks().iter().find(is_ours), None);
}

#[test]
fn an_interrupted_start_leaves_nothing() {
    let folder = CephCluster::unused_folder();
    let mut starting = CephCluster::command("up", &folder).stderr(Stdio::null()).spawn().unwrap();
    eventually_blocking("a process is started", || !processes_of(&folder).is_empty());
    let mut status = None;
    eventually_blocking("the end of the start", || {
        status = starting.try_wait().unwrap();
        if status.is_none() {
            // Interrupt more than once, as a terminal, `make` and a shell do together.
            kill_process(Pid::from_child(&starting), Signal::INT).unwrap();
        }
        status.is_some()
    });
    assert!(!status.expect("it has ended").success());
    assert_nothing_is_left_of(&folder);
}

#[test]
fn a_folder_with_other_files_is_left_alone() {
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
