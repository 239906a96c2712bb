//! Runs the test suite of sequencers on a log's sequencer. File types with a sequencer pass it too.

use async_trait::async_trait;
use nacre_conformance::sequencers::{Sequencer, SequencerCluster};
use nacre_log::Log;
use nacre_object::Result;

use crate::support::{Cluster, node, of_slots};

struct Client(Log);

#[async_trait]
impl Sequencer for Client {
    async fn next(&self, count: u32) -> Result<u64> {
        // After a sequencer died, the next one issues unwritten positions again. So the test
        // appends records instead of only taking positions.
        let first = self.0.append("record").await?;
        for position in first + 1..first + u64::from(count) {
            assert_eq!(self.0.append("record").await?, position);
        }
        Ok(first)
    }

    async fn read(&self) -> Result<u64> {
        self.0.tail().await
    }
}

#[async_trait]
impl SequencerCluster for Cluster {
    async fn client(&self) -> Box<dyn Sequencer> {
        Box::new(Client(self.open("l").await))
    }

    async fn hand_over(&self) {
        let log = self.open("l").await;
        let successor = node(1 - self.sequencer_of(&log).await);
        log.move_sequencer(successor).await.unwrap();
    }

    async fn kill_authority(&self) {
        let log = self.open("l").await;
        self.kill_node(self.sequencer_of(&log).await);
    }

    fn cut_holders_off(&self, are_cut_off: bool) {
        if are_cut_off { self.cut_holder_off() } else { self.reconnect() }
    }
}

async fn cluster() -> Cluster {
    let cluster = Cluster::new(3, 2).await;
    cluster.create("l", of_slots(1000)).await;
    cluster
}

nacre_conformance::sequencer_suite!(cluster());
