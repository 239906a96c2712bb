//! Checks that an object may be changed both by the class in the OSD and by the engine in the
//! client. Each transaction runs in one of the two, and all together must behave like one store.

mod support;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use async_trait::async_trait;
use nacre_clock::SystemClock;
use nacre_conformance::{Subject, ceph_plugin_folder, compare, run_all, seeds};
use nacre_object::{
    Capabilities, Error, ListPage, ListRequest, NoClasses, OpResult, Reply, Request, Result, Store,
};
use nacre_protocol::proto::Unsuited;
use nacre_rados::{RadosEngine, RadosOptions};
use support::ceph::{Osds, outcome};
use support::{MAX_REPLY_BYTES, Outcome, input};

/// Random runs.
const SEEDS: u64 = 8;
/// Steps of one.
const STEPS: usize = 150;
/// Every second transaction runs in the OSD.
struct BothWays {
    engine: RadosEngine,
    // The cluster outlives its clients.
    osds: Osds,
    turn: AtomicU32,
}

impl fmt::Debug for BothWays {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BothWays")
    }
}

impl BothWays {
    async fn start(namespace: &str) -> Subject {
        let long_replies = format!("osd_max_write_op_reply_len={MAX_REPLY_BYTES}");
        let mut osds = Osds::start(&ceph_plugin_folder(), &["--set", &long_replies]);
        osds.enter(namespace);
        let options = RadosOptions { conf: Some(osds.cluster.conf()), ..Default::default() };
        let clock = Arc::new(SystemClock::default());
        let engine = RadosEngine::connect(options, Arc::new(NoClasses), clock).await.unwrap();
        let store = Self { engine, osds, turn: AtomicU32::new(0) };
        Subject::new(Arc::new(store)).in_pool(namespace.parse().unwrap())
    }

    /// `None` if it cannot be done there.
    async fn in_the_osd(&self, request: &Request) -> Option<Result<Reply>> {
        let name = request.header.object.name.as_str();
        let answer = self.osds.submitted(name, input(request.clone(), &[])).await;
        match outcome(&request.ops, &answer) {
            Outcome::Done { exists, mut reply } => {
                reply.version = if exists { answer.version } else { 0 };
                reply.results.iter_mut().for_each(tell_whole_seconds);
                Some(Ok(reply))
            }
            Outcome::Failed(error) => Some(Err(error.on(&request.header.object))),
            Outcome::Unsuited(Unsuited::RemovesAttribute) => None,
            other => panic!("{other:?}"),
        }
    }
}

/// librados gives the engine times in whole seconds only.
fn tell_whole_seconds(result: &mut OpResult) {
    if let OpResult::Stat(stat) = result {
        stat.modified_micros -= stat.modified_micros % 1_000_000;
    }
}

#[async_trait]
impl Store for BothWays {
    async fn submit(&self, request: Request) -> Result<Reply> {
        self.capabilities().check(&request)?;
        let here = self.turn.fetch_add(1, Ordering::Relaxed).is_multiple_of(2);
        let done = if here { None } else { self.in_the_osd(&request).await };
        match done {
            Some(outcome) => outcome,
            None => self.engine.submit(request).await,
        }
    }

    async fn list(&self, _: ListRequest) -> Result<ListPage> {
        Err(Error::unsupported("this store lists no pools").during("list"))
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::NONE
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_class_and_the_engine_together_pass_the_conformance_suite() {
    run_all(&BothWays::start("suite").await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_transactions_of_class_and_engine_have_the_effect_the_model_predicts() {
    let subject = BothWays::start("random").await;
    for seed in seeds(SEEDS) {
        compare(&subject, seed, STEPS).await;
    }
}
