//! Runs the test suite of a log's sequencer on resources whose file type is a sequencer, in Luau
//! and native.

mod common;

use async_trait::async_trait;
use common::{Cluster, name, node};
use nacre_conformance::sequencers::{Sequencer, SequencerCluster};
use nacre_object::Result;
use nacre_resource::Resource;
use serde_json::{Value, json};

const PATH: &str = "/seq/orders";

struct Client(Resource);

#[async_trait]
impl Sequencer for Client {
    async fn next(&self, count: u32) -> Result<u64> {
        self.0.call("next", json!(count)).await.map(number)
    }

    async fn read(&self) -> Result<u64> {
        self.0.call("read", Value::Null).await.map(number)
    }
}

fn number(value: Value) -> u64 {
    value.as_f64().unwrap() as u64
}

#[async_trait]
impl SequencerCluster for Cluster {
    async fn client(&self) -> Box<dyn Sequencer> {
        Box::new(Client(self.open(PATH).await))
    }

    async fn hand_over(&self) {
        let successor = node(1 - self.authority_of(PATH).await);
        self.open(PATH).await.move_to(&successor).await.unwrap();
    }

    async fn kill_authority(&self) {
        self.kill_node(self.authority_of(PATH).await);
    }

    fn cut_holders_off(&self, are_cut_off: bool) {
        self.nodes.cut_holders_off(are_cut_off);
    }
}

async fn of_type(file_type: &str) -> Cluster {
    let cluster = Cluster::new(2);
    cluster.install("sequencer", 1, include_str!("../../../programs/filetype/sequencer.lua"));
    cluster.resources.create(&name(PATH), file_type.parse().unwrap()).await.unwrap();
    cluster
}

mod in_luau {
    nacre_conformance::sequencer_suite!(super::of_type("sequencer"));
}

mod native {
    nacre_conformance::sequencer_suite!(super::of_type("native-sequencer"));
}
