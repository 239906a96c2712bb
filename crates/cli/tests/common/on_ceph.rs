//! A Ceph cluster with two gateways, of which one routes.

use std::path::Path;

use nacre_conformance::CephCluster;
use nacre_conformance::wait::eventually_blocking;
use serde_json::Value;

use super::RunningCluster;
use super::routes::{number, status};

pub const GATEWAYS: [&str; 2] = ["gateway.0", "gateway.1"];

/// A Ceph cluster with two gateways.
pub struct OnCeph {
    pub ceph: CephCluster,
    pub cluster: RunningCluster,
    folder: tempfile::TempDir,
}

impl OnCeph {
    pub fn start() -> Self {
        let ceph = CephCluster::start(&["--osds", "3", "--store", "bluestore", "--size", "2"]);
        let engine = format!("ceph:{}", ceph.conf().display());
        let folder = tempfile::tempdir().unwrap();
        let arguments = ["--engine", &engine, "--targets", "2"];
        let cluster = RunningCluster::start_with(&folder.path().join("cluster"), &arguments);
        Self { ceph, cluster, folder }
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Where an IO goes, as the gateway says that routes.
    pub fn ways(&self, io: &str) -> Vec<Value> {
        let arguments: Vec<_> = ["route", "trace"].into_iter().chain(io.split(' ')).collect();
        self.cluster.json(&arguments).as_array().unwrap().clone()
    }

    /// The status of the gateway that routes.
    pub fn routing(&self) -> Option<Value> {
        GATEWAYS
            .iter()
            .filter_map(|gateway| status(&self.cluster, gateway))
            .find(|status| status["term"].as_u64() > Some(0))
    }

    pub fn router(&self) -> String {
        let map = self.cluster.json(&["map", "get", "route-gateways"]);
        let router = map["entries"]["router"].as_str().expect("a gateway routes");
        let router: Value = serde_json::from_str(router).unwrap();
        let node = router["node"].as_str().unwrap();
        GATEWAYS.into_iter().find(|name| node.starts_with(name)).unwrap().to_owned()
    }

    pub fn until_routed(&self, what: &str, is_so: impl Fn(u64) -> bool) {
        eventually_blocking(what, || {
            let status = self.routing();
            number(status.as_ref(), "routed_bytes").is_some_and(&is_so)
                && number(status.as_ref(), "in_doubt") == Some(0)
        });
    }

    /// The gateway that does not route.
    pub fn other(&self) -> String {
        let router = self.router();
        GATEWAYS.into_iter().find(|name| *name != router).unwrap().to_owned()
    }

    /// The OSDs, first that which holds an object.
    pub fn osds(&self, object: &str) -> [String; 3] {
        let ways = self.ways(&format!("w {object}"));
        let home = ways[0]["destination"].as_str().unwrap().trim_end_matches(" (home)").to_owned();
        let others = ["osd.0", "osd.1", "osd.2"].into_iter().filter(|osd| *osd != home);
        let [first, second] = others.collect::<Vec<_>>()[..] else { panic!("no OSD {home}") };
        [home.clone(), first.to_owned(), second.to_owned()]
    }
}
