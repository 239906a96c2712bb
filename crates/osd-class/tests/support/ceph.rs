//! A cluster whose OSDs offer the class.

use std::path::Path;

use futures::executor::block_on;
use nacre_class::ClassProgram;
use nacre_conformance::{CephCluster, ceph_plugin_folder};
use nacre_object::{Op, Reply};
use nacre_rados::{PlainAnswer, PlainClient, RadosOptions};

use super::{Outcome, Send, input, request};

/// A cluster and a client of it.
pub struct Osds {
    client: PlainClient,
    // Outlives its client.
    pub cluster: CephCluster,
}

impl Osds {
    /// Starts a cluster whose OSDs offer the classes in a folder.
    pub fn start(class_dir: &Path, options: &[&str]) -> Self {
        let class_dir = class_dir.to_str().unwrap();
        let cluster = CephCluster::start(&[&["--class-dir", class_dir], options].concat());
        let client = connect(&cluster, "");
        Self { client, cluster }
    }

    /// Starts a cluster of one OSD that offers the plugin.
    pub fn with_plugin() -> Self {
        Self::start(&ceph_plugin_folder(), &["--osds", "1"])
    }

    /// Works in a namespace of the pool from now on.
    pub fn enter(&mut self, namespace: &str) {
        self.client = connect(&self.cluster, namespace);
    }

    /// Calls the method `submit`. Tasks call this one, so that nothing waits on the runtime's threads.
    pub async fn submitted(&self, object: &str, input: Vec<u8>) -> PlainAnswer {
        self.client.submit(object, c"nacre", c"submit", input).await.unwrap()
    }

    /// Calls the method `submit`.
    pub fn submit_bytes(&self, object: &str, input: Vec<u8>) -> PlainAnswer {
        block_on(self.submitted(object, input))
    }

    /// Calls the method `inspect`.
    pub fn inspect_bytes(&self, object: &str, input: Vec<u8>) -> PlainAnswer {
        block_on(self.client.inspect(object, c"nacre", c"inspect", input)).unwrap()
    }

    /// Runs a transaction that calls these programs. Returns the outcome and the version.
    pub fn submit(&self, object: &str, ops: Vec<Op>, programs: &[&ClassProgram]) -> (Outcome, u64) {
        let named = |send| programs.iter().map(|program| (*program, send)).collect::<Vec<_>>();
        let by =
            |send| self.submit_bytes(object, input(request(object, ops.clone()), &named(send)));
        let mut answer = by(Send::Digest);
        if let Outcome::NeedsSources(_) = outcome(&ops, &answer) {
            answer = by(Send::Source);
        }
        (outcome(&ops, &answer), answer.version)
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

/// Connects on a separate thread, because the thread of the test may belong to an async runtime.
fn connect(cluster: &CephCluster, namespace: &str) -> PlainClient {
    let options = RadosOptions { conf: Some(cluster.conf()), ..Default::default() };
    let namespace = namespace.to_owned();
    let connecting = move || {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(PlainClient::connect(options, &namespace)).unwrap()
    };
    std::thread::spawn(connecting).join().unwrap()
}

/// What the class answered to `ops`.
pub fn outcome(ops: &[Op], answer: &PlainAnswer) -> Outcome {
    assert_eq!(answer.status, 0, "{answer:?}");
    Outcome::of(ops, &answer.output)
}
