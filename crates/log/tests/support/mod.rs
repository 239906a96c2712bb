//! A cluster in one process, for tests. Its storage targets fail as planned, its nodes host
//! sequencers and can be killed, and a checker compares the log with the acknowledged records.

#![allow(dead_code, reason = "each test uses its part")]

pub mod checker;
pub mod planted;
pub mod policies;
pub mod reader;
pub mod scoped;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use nacre_class::{ClassProgram, ClassRuntime};
use nacre_clock::{Clock, Random, SystemClock};
use nacre_conformance::wait::within_deadline;
use nacre_conformance::{FaultyStore, faults};
use nacre_host::{HostNodes, HostTransport, MapRecords};
use nacre_log::view::View;
use nacre_log::{
    AnyVersion, BRADOS_CLASS, Batching, Log, LogEnv, LogName, LogOptions, PROGRAM_CLASS, Patience,
    SEQUENCER_SERVICE, SequencerCaller, SequencerHost,
};
use nacre_object::{
    ClassName, Error, ListRequest, MapEntry, NodeName, ObjectId, Op, OpResult, PoolName, Request,
    Result, TargetName,
};
use nacre_placement::{PlacedStore, PlacedTarget, Target};
use nacre_program::Budget;
use nacre_registry::{Maps, map_class};
use planted::PROGRAM;
use policies::TestPolicies;
use tokio::time::{sleep, timeout};

use crate::bed::{self, Bed};

/// The interface as relations.
pub const RELATIONS: &str = include_str!("../../../../programs/class/log.brados");

/// Longer than a node takes to answer, recovering a log included.
const NODE_PATIENCE: Duration = Duration::from_secs(25);

/// How each question about a log begins.
pub fn question_about(view: &View) -> Vec<u8> {
    let (log, epoch) = (view.log().as_str(), view.epoch());
    [&(log.len() as u16).to_le_bytes()[..], log.as_bytes(), &epoch.to_le_bytes()].concat()
}

/// Nodes that host sequencers, by name; `None` for a node that was killed.
#[derive(Default)]
pub struct Nodes {
    hosts: Mutex<BTreeMap<NodeName, Option<SequencerHost>>>,
    /// Questions for positions.
    asked: AtomicU64,
    /// The holder that is cut off from its node: every request with this client number is lost. The
    /// number is stored as requests encode it.
    cut_off: Mutex<Option<Vec<u8>>>,
    /// The last holder that asked for news.
    holder: Mutex<Vec<u8>>,
    /// All holders that asked for news.
    holders: Mutex<BTreeSet<Vec<u8>>>,
    /// Decides which requests and answers are late or lost; `None` if none is.
    storm: Mutex<Option<Random>>,
}

/// A session that has lost a message breaks after this.
const BREAKS_AFTER: Duration = Duration::from_millis(500);

impl Nodes {
    /// Whether a request is lost because its client is cut off.
    fn is_lost(&self, method: &str, input: &[u8]) -> bool {
        let name = usize::from(u16::from_le_bytes([input[0], input[1]]));
        let client = input.get(2 + name + 8..2 + name + 16).unwrap_or_default().to_vec();
        match method {
            "hold" => {
                *self.holder.lock().unwrap() = client.clone();
                self.holders.lock().unwrap().insert(client.clone());
            }
            "next" | "acquire" => {
                self.asked.fetch_add(1, Ordering::Relaxed);
            }
            _ => {}
        }
        let is_of_holder = matches!(method, "hold" | "acquire" | "return");
        is_of_holder && *self.cut_off.lock().unwrap() == Some(client)
    }

    /// Waits until a message has arrived, however late.
    ///
    /// # Errors
    /// `Unavailable` if it is lost.
    async fn arrival(&self, patience: Duration) -> Result<()> {
        let late = match self.storm.lock().unwrap().as_mut() {
            None => return Ok(()),
            Some(random) => match random.below(20) {
                0 => None,
                1 | 2 => Some(Duration::from_millis(random.below(500))),
                _ => Some(Duration::from_millis(1 + random.below(10))),
            },
        };
        sleep(late.unwrap_or(patience.min(BREAKS_AFTER))).await;
        late.map(|_| ()).ok_or_else(|| Error::unavailable("a message is lost"))
    }
}

impl std::fmt::Debug for Nodes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Nodes")
    }
}

#[async_trait]
impl HostTransport for Nodes {
    async fn ask(
        &self,
        node: &NodeName,
        _: &'static str,
        method: &'static str,
        input: Bytes,
        patience: Duration,
    ) -> Result<Bytes> {
        self.arrival(patience).await?;
        let host = self.hosts.lock().unwrap().get(node).cloned().flatten();
        if self.is_lost(method, &input) {
            sleep(patience).await;
            return Err(Error::unavailable("the question is lost"));
        }
        let Some(host) = host else {
            return Err(Error::unavailable(format!("node {node} is dead")));
        };
        let answered =
            timeout(patience, host.handle(SequencerCaller::local(), method, input)).await;
        self.arrival(patience).await?;
        answered.unwrap_or_else(|_| Err(Error::unavailable(format!("node {node} is silent"))))
    }
}

#[async_trait]
impl HostNodes for Nodes {
    async fn nodes(&self) -> Result<Vec<NodeName>> {
        Ok(self.hosts.lock().unwrap().keys().cloned().collect())
    }
}

pub struct Cluster {
    pub targets: BTreeMap<TargetName, FaultyStore>,
    /// Where the views are.
    pub system: FaultyStore,
    pub nodes: Arc<Nodes>,
    pub env: LogEnv,
    /// What its stores lie on, which goes with it.
    _bed: Option<Bed>,
}

impl Cluster {
    pub async fn new(targets: usize, nodes: usize) -> Self {
        Self::patient(targets, nodes, Patience::default()).await
    }

    pub async fn patient(targets: usize, nodes: usize, patience: Patience) -> Self {
        Self::built(targets, nodes, patience, PROGRAM).await
    }

    /// A cluster with another program of the storage interface.
    pub async fn with_program(targets: usize, nodes: usize, program: &str) -> Self {
        Self::built(targets, nodes, Patience::default(), program).await
    }

    async fn built(targets: usize, nodes: usize, patience: Patience, program: &str) -> Self {
        let (classes, clock) = classes(program);
        let bed = Bed::new(classes, clock).await;
        let cluster = Self::over(&bed, targets, nodes, patience);
        Self { _bed: Some(bed), ..cluster }
    }

    /// A cluster of stores of a bed.
    pub fn over(bed: &Bed, targets: usize, nodes: usize, patience: Patience) -> Self {
        let names = (0..targets).map(target);
        let targets: BTreeMap<_, _> =
            names.map(|name| (name.clone(), bed.store(name.as_str()))).collect();
        let placed = targets.iter().map(|(name, store)| {
            PlacedTarget::new(Target::new(name.clone()), Arc::new(store.clone()))
        });
        let placed = Arc::new(PlacedStore::new(placed.collect()).unwrap());
        let system = bed.store("system");
        let maps = Maps::new(Arc::new(system.clone()), Arc::new(system.clone()));
        let hosts = Arc::new(Nodes::default());
        let env = LogEnv {
            store: placed.clone(),
            placement: placed,
            views: Arc::new(MapRecords::new(maps)),
            sequencers: hosts.clone(),
            nodes: hosts.clone(),
            policies: Arc::new(TestPolicies),
            classes: Arc::new(AnyVersion),
            patience,
            batching: Batching::default(),
            columns: 1,
        };
        let cluster = Self { targets, system, nodes: hosts, env, _bed: None };
        (0..nodes).for_each(|n| cluster.start_node(n));
        cluster
    }

    pub async fn create(&self, name: &str, options: LogOptions) -> Log {
        Log::create(self.env.clone(), LogName::new(name).unwrap(), options).await.unwrap()
    }

    /// Makes a log of short stripes that holds `record 0`, `record 1` and so on.
    pub async fn filled(&self, name: &str, records: u64) -> Log {
        let log = self.create(name, of_slots(4)).await;
        for record in 0..records {
            log.append(format!("record {record}")).await.unwrap();
        }
        log
    }

    pub async fn open(&self, name: &str) -> Log {
        Log::open(self.env.clone(), LogName::new(name).unwrap()).await.unwrap()
    }

    /// Starts a node, or starts it again with nothing in memory.
    pub fn start_node(&self, n: usize) {
        let host = SequencerHost::new(node(n), self.env.clone());
        self.nodes.hosts.lock().unwrap().insert(node(n), Some(host));
    }

    /// Cuts the node off the network: nobody receives its messages from now on. The node itself
    /// keeps running, which is harder to handle than its death.
    pub fn kill_node(&self, n: usize) {
        self.nodes.hosts.lock().unwrap().insert(node(n), None);
    }

    /// Asks a node about a log, as clients with this view do.
    pub async fn ask(
        &self,
        n: usize,
        method: &'static str,
        view: &View,
        more: &[u8],
    ) -> Result<Bytes> {
        let question = [&question_about(view)[..], more].concat();
        self.nodes.ask(&node(n), SEQUENCER_SERVICE, method, question.into(), NODE_PATIENCE).await
    }

    /// The number of the node that is a log's sequencer.
    pub async fn sequencer_of(&self, log: &Log) -> usize {
        let stat = log.stat().await.unwrap();
        let name = stat.sequencer.expect("the log has a sequencer");
        name.as_str().strip_prefix("node").unwrap().parse().unwrap()
    }

    /// A target, to make it fail.
    pub fn target(&self, n: usize) -> &FaultyStore {
        &self.targets[&target(n)]
    }

    /// Questions for positions so far.
    pub fn questions(&self) -> u64 {
        self.nodes.asked.load(Ordering::Relaxed)
    }

    /// From now on, all requests about the capability that its holder sends are lost.
    pub fn cut_holder_off(&self) {
        let holder = self.nodes.holder.lock().unwrap().clone();
        *self.nodes.cut_off.lock().unwrap() = Some(holder);
    }

    /// Delays or loses requests and answers from now on, as a seed decides.
    pub fn begin_storm(&self, seed: u64) {
        *self.nodes.storm.lock().unwrap() = Some(Random::seeded(seed));
    }

    /// Ends what `begin_storm` began.
    pub fn end_storm(&self) {
        *self.nodes.storm.lock().unwrap() = None;
    }

    /// How many clients have held the sequencer's capability.
    pub fn holders(&self) -> usize {
        self.nodes.holders.lock().unwrap().len()
    }

    /// Ends what `cut_holder_off` began.
    pub fn reconnect(&self) {
        *self.nodes.cut_off.lock().unwrap() = None;
    }

    pub fn kill_target(&self, n: usize) {
        self.target(n).follow(faults::unreachable());
    }

    pub fn revive_target(&self, n: usize) {
        self.target(n).heal();
    }

    pub fn target_of(&self, object: &ObjectId) -> usize {
        let name = self.env.placement.locate(object);
        name.as_str().strip_prefix("target").unwrap().parse().unwrap()
    }

    /// The target that holds a position of a log.
    pub fn target_of_position(&self, log: &Log, position: u64) -> usize {
        let view = log.view();
        let place = view.place(position).expect("the position has an object");
        self.target_of(&view.object(place).unwrap())
    }

    /// Entries that the log's objects hold, on all targets.
    pub async fn entries(&self) -> usize {
        let pool = PoolName::new("log").unwrap();
        let (after, prefix) = (None, String::new());
        let request = ListRequest { pool: pool.clone(), after, prefix, limit: usize::MAX };
        let mut entries = 0;
        for name in self.env.store.list(request).await.unwrap().names {
            let (after, prefix) = (Bytes::new(), Bytes::new());
            let range = vec![Op::MapRange { after, prefix, limit: 1000 }];
            let request = Request::new(ObjectId::new(pool.clone(), name), range).unwrap();
            match &self.env.store.submit(request).await.unwrap().results[..] {
                [OpResult::Range(range)] => {
                    // In an object of the Brados class, such keys hold single values, not entries.
                    let is_entry = |entry: &&MapEntry| !entry.key.starts_with(b"@");
                    entries += range.entries.iter().filter(is_entry).count();
                }
                other => panic!("{other:?} is no range"),
            }
        }
        entries
    }
}

/// The implementations of the storage interface, `program` among them.
pub fn classes(program: &str) -> (Arc<ClassRuntime>, Arc<dyn Clock>) {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
    let classes = ClassRuntime::new(Budget::default(), clock.clone());
    classes.register_native(nacre_log::log_class()).unwrap();
    classes.register_native(map_class()).unwrap();
    for (name, source) in [(PROGRAM_CLASS, program), (BRADOS_CLASS, RELATIONS)] {
        classes.install(&ClassProgram::new(class(name), 1, source)).unwrap();
    }
    (Arc::new(classes), clock)
}

pub fn class(name: &str) -> ClassName {
    ClassName::new(name).unwrap()
}

pub fn target(n: usize) -> TargetName {
    TargetName::new(format!("target{n}")).unwrap()
}

pub fn node(n: usize) -> NodeName {
    NodeName::new(format!("node{n}")).unwrap()
}

/// A log on the class under test, with objects of this many slots.
pub fn of_slots(slots: u32) -> LogOptions {
    LogOptions { class: class(bed::CLASS), slots, ..LogOptions::default() }
}

/// Waits until `is_so`. Looks again each time all other tasks wait.
pub async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let reached = async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    within_deadline(what, reached).await;
}
