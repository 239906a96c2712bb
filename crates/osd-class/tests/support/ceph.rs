//! A cluster whose OSDs offer the class.

use std::path::Path;
use std::sync::Arc;

use nacre_class::ClassProgram;
use nacre_conformance::{CephCluster, ceph_plugin_folder};
use nacre_object::{Op, Reply};

use super::librados::{Answer, Client};
use super::{Outcome, Send, input, request};

/// The pool that the cluster begins with.
const POOL: &str = "nacre";

/// A cluster and a client of it.
pub struct Osds {
    pub cluster: CephCluster,
    pub client: Arc<Client>,
}

impl Osds {
    /// Starts a cluster whose OSDs offer the classes in a folder.
    pub fn start(class_dir: &Path, options: &[&str]) -> Self {
        let class_dir = class_dir.to_str().unwrap();
        let cluster = CephCluster::start(&[&["--class-dir", class_dir], options].concat());
        let client = Client::connect(&cluster.conf(), POOL);
        Self { cluster, client }
    }

    /// Starts a cluster of one OSD that offers the plugin.
    pub fn with_plugin() -> Self {
        Self::start(&ceph_plugin_folder(), &["--osds", "1"])
    }

    /// Works in a namespace of the pool from now on.
    pub fn enter(&self, namespace: &str) {
        self.client.enter(namespace);
    }

    pub fn exec(&self, object: &str, method: &str, input: &[u8]) -> Answer {
        self.client.exec(object, "nacre", method, input)
    }

    /// Runs a transaction that calls these programs; answers what came of it, and the version.
    pub fn submit(&self, object: &str, ops: Vec<Op>, programs: &[&ClassProgram]) -> (Outcome, u64) {
        let named = |send| programs.iter().map(|program| (*program, send)).collect::<Vec<_>>();
        let by =
            |send| self.exec(object, "submit", &input(request(object, ops.clone()), &named(send)));
        let mut answer = by(Send::Digest);
        if let Outcome::NeedsSources(_) = outcome(&answer) {
            answer = by(Send::Source);
        }
        (outcome(&answer), answer.version)
    }

    /// What a transaction without programs answers.
    pub fn reply(&self, object: &str, ops: Vec<Op>) -> Reply {
        self.submit(object, ops, &[]).0.reply()
    }

    /// The pids of the OSDs.
    pub fn pids(&self) -> Vec<(String, Option<u32>)> {
        self.cluster.daemons()
    }
}

pub fn outcome(answer: &Answer) -> Outcome {
    assert_eq!(answer.status, 0, "{answer:?}");
    Outcome::of(&answer.output)
}
