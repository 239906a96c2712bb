//! Tests a log on Ceph while OSDs die, are cut off from the network, are marked out, or are full.
//! Every acknowledged record must be in the log once, at its reported position.

use std::sync::Arc;

use nacre_conformance::CephCluster;
use nacre_log::{Log, LogOptions, Patience};
use tokio::task::spawn_blocking;

use crate::bed::Bed;
use crate::suite::faults::{Writers, more};
use crate::support::checker::Checker;
use crate::support::planted::PROGRAM;
use crate::support::{Cluster, classes, of_slots, until};

/// Records on either side of a fault.
const SOME: usize = 100;

/// Options for a cluster of three OSDs, each of which keeps every object. So after an OSD has died,
/// the other two know which changes it missed. The cluster notices a dead OSD within seconds.
const DAEMONS: [&str; 13] = [
    "--osds",
    "3",
    "--store",
    "bluestore",
    "--size",
    "3",
    "--networks",
    "--set",
    "osd_heartbeat_interval=1",
    "--set",
    "osd_heartbeat_grace=4",
    "--set",
    "mon_osd_adjust_heartbeat_grace=false",
];

/// A log with writers on daemons of its own.
struct Scene {
    ceph: Arc<CephCluster>,
    log: Log,
    checker: Checker,
    writers: Writers,
}

impl Scene {
    async fn new() -> Self {
        let ceph = spawn_blocking(|| CephCluster::start(&DAEMONS)).await.unwrap();
        let (classes, clock) = classes(PROGRAM);
        let bed = Bed::on(&ceph, classes, clock).await;
        let cluster = Cluster::over(&bed, 1, 2, Patience::default());
        let log = cluster.create("l", LogOptions { width: Some(6), ..of_slots(100) }).await;
        let checker = Checker::default();
        let writers = Writers::start(&cluster, &checker, 6);
        more(&checker, SOME).await;
        Self { ceph: Arc::new(ceph), log, checker, writers }
    }

    /// Does something to the daemons, while the writers write.
    async fn daemons<T: Send + 'static>(
        &self,
        act: impl FnOnce(&CephCluster) -> T + Send + 'static,
    ) -> T {
        let ceph = self.ceph.clone();
        spawn_blocking(move || act(&ceph)).await.unwrap()
    }

    /// Records go on being appended.
    async fn goes_on(&self) {
        more(&self.checker, SOME).await;
    }

    /// Waits until the monitors count this many OSDs that are up.
    async fn osds_are_up(&self, count: usize) {
        let up = format!("\"num_up_osds\":{count},");
        let stat =
            async || self.daemons(|ceph| ceph.client("ceph", &["osd", "stat", "-f", "json"])).await;
        until(&format!("{count} OSDs are up"), async || stat().await.contains(&up)).await;
    }

    /// Stops the writers, and compares the log with the answers that they got.
    async fn check(self) -> Checker {
        self.writers.stop().await;
        self.checker.check(&self.log).await;
        self.checker
    }
}

#[tokio::test(start_paused = true)]
async fn a_log_survives_an_osd_that_is_killed_and_returns() {
    let scene = Scene::new().await;
    scene.daemons(|ceph| ceph.kill("osd.1")).await;
    scene.osds_are_up(2).await;
    scene.goes_on().await;
    scene.daemons(|ceph| ceph.restart("osd.1")).await;
    scene.osds_are_up(3).await;
    scene.goes_on().await;
    assert_eq!(scene.check().await.unknown(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_log_survives_when_all_osds_are_killed_and_return() {
    const OSDS: [&str; 3] = ["osd.0", "osd.1", "osd.2"];
    let scene = Scene::new().await;
    scene.daemons(|ceph| OSDS.iter().for_each(|osd| ceph.kill(osd))).await;
    scene.daemons(|ceph| OSDS.iter().for_each(|osd| ceph.restart(osd))).await;
    scene.goes_on().await;
    assert_eq!(scene.check().await.unknown(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_log_survives_an_osd_that_is_marked_out_and_in_again() {
    let scene = Scene::new().await;
    for change in ["out", "in"] {
        scene.daemons(move |ceph| ceph.client("ceph", &["osd", change, "1"])).await;
        scene.goes_on().await;
    }
    assert_eq!(scene.check().await.unknown(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_log_survives_an_osd_that_is_cut_off_from_the_network() {
    let scene = Scene::new().await;
    scene.daemons(|ceph| ceph.block("osd.2")).await;
    scene.osds_are_up(2).await;
    scene.goes_on().await;
    scene.daemons(|ceph| ceph.unblock("osd.2")).await;
    scene.osds_are_up(3).await;
    scene.goes_on().await;
    assert_eq!(scene.check().await.unknown(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_full_cluster_refuses_records_and_accepts_them_again_when_it_has_space() {
    let scene = Scene::new().await;
    let ratio = |ratio: &'static str| {
        move |ceph: &CephCluster| {
            for kind in ["set-nearfull-ratio", "set-backfillfull-ratio", "set-full-ratio"] {
                ceph.client("ceph", &["osd", kind, ratio]);
            }
        }
    };
    // Everything is more than this.
    scene.daemons(ratio("0.000001")).await;
    until("an append is refused", async || scene.checker.refused() > 0).await;
    scene.daemons(ratio("0.95")).await;
    scene.goes_on().await;
    scene.check().await;
}
