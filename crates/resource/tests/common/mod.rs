//! A cluster in one process, for tests. Its store fails as planned, and its nodes serve resources
//! and can be killed.

#![allow(dead_code, reason = "each test file uses its own part of this")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use nacre_class::ClassRuntime;
use nacre_clock::{Clock, Random, SystemClock};
use nacre_conformance::{FaultyStore, MemoryStore};
use nacre_host::{ClientRouting, HostNodes, HostTransport, MapRecords};
use nacre_object::{EntityName, Error, NodeName, ProgramName, Result, TenantName};
use nacre_program::{Budget, Digest};
use nacre_registry::{Hook, KindFaults, LiveProgram, Maps, ProgramId, ProgramKind, map_class};
use nacre_resource::{
    Asker, CapabilityHook, CapabilityPolicies, FileTypeHook, LiveCapabilityPrograms, LiveFileTypes,
    Resource, ResourceEnv, ResourceHost, ResourceName, Resources,
};
use serde_json::Value;
use tokio::time::timeout;

/// After this a client knows that a message is lost.
const BREAKS_AFTER: Duration = Duration::from_secs(1);
/// How long a question or an answer is on its way.
const WAY: Duration = Duration::from_millis(1);

/// Nodes that serve resources, by name; `None` for one that was killed.
#[derive(Debug, Default)]
pub struct Nodes {
    hosts: Mutex<BTreeMap<NodeName, Option<ResourceHost>>>,
    /// Questions of clients, but for news.
    asked: AtomicU64,
    /// Whether no client reaches any node.
    are_clients_cut_off: AtomicBool,
    /// The clients that have held a capability.
    holders: Mutex<BTreeSet<u64>>,
    are_holders_cut_off: AtomicBool,
    /// The method whose answers are lost, and how many more of them.
    lost: Mutex<Option<(&'static str, usize)>>,
    /// The method whose answers are late, and how late they are.
    late: Mutex<Option<(&'static str, Duration)>>,
    /// While there is one, messages are late or lost.
    storm: Mutex<Option<Random>>,
}

impl Nodes {
    /// How many requests clients have sent, without polls.
    pub fn asked(&self) -> u64 {
        self.asked.load(Ordering::Relaxed)
    }

    /// Whether clients reach no node from now on.
    pub fn cut_off_clients(&self, are_cut_off: bool) {
        self.are_clients_cut_off.store(are_cut_off, Ordering::Relaxed);
    }

    /// How many clients have held a capability.
    pub fn holders(&self) -> usize {
        self.holders.lock().unwrap().len()
    }

    /// Sets whether the clients that have held a capability until now are cut off from all nodes.
    pub fn cut_holders_off(&self, are_cut_off: bool) {
        self.are_holders_cut_off.store(are_cut_off, Ordering::Relaxed);
    }

    /// Whether a question does not arrive.
    fn is_cut_off(&self, method: &str, input: &[u8]) -> bool {
        let client = client_of(input);
        if method == "hold" && !self.are_holders_cut_off.load(Ordering::Relaxed) {
            self.holders.lock().unwrap().insert(client);
        }
        let is_holder = self.holders.lock().unwrap().contains(&client);
        let is_of_node = matches!(method, "forwarded" | "recover");
        !is_of_node && self.are_clients_cut_off.load(Ordering::Relaxed)
            || is_holder && self.are_holders_cut_off.load(Ordering::Relaxed)
    }

    /// Loses so many answers to a method.
    pub fn lose_answers_to(&self, method: &'static str, count: usize) {
        *self.lost.lock().unwrap() = Some((method, count));
    }

    /// Delays the answers to a method by this much from now on.
    pub fn delay_answers_to(&self, method: &'static str, by: Duration) {
        *self.late.lock().unwrap() = Some((method, by));
    }

    fn delay_of(&self, method: &str) -> Duration {
        let late = *self.late.lock().unwrap();
        late.filter(|(late, _)| *late == method).map_or(Duration::ZERO, |(_, by)| by)
    }

    /// From now on messages are late or lost, as a seed says.
    pub fn begin_storm(&self, seed: u64) {
        *self.storm.lock().unwrap() = Some(Random::seeded(seed));
    }

    /// Ends what `begin_storm` began.
    pub fn end_storm(&self) {
        *self.storm.lock().unwrap() = None;
    }

    /// Draws how long the next message is on its way. `None` if it is lost.
    fn way(&self) -> Option<Duration> {
        let mut storm = self.storm.lock().unwrap();
        let Some(random) = storm.as_mut() else { return Some(WAY) };
        match random.below(20) {
            0 => None,
            1 | 2 => Some(Duration::from_millis(random.below(500))),
            _ => Some(Duration::from_millis(1 + random.below(20))),
        }
    }

    /// Whether an answer to a method is lost.
    fn loses(&self, method: &str) -> bool {
        let mut lost = self.lost.lock().unwrap();
        match lost.as_mut().filter(|(lost, left)| *lost == method && *left > 0) {
            Some((_, left)) => {
                *left -= 1;
                true
            }
            None => false,
        }
    }
}

/// The number of the client that asks a question; 0 if it says none.
fn client_of(input: &[u8]) -> u64 {
    let start = input.iter().position(|byte| *byte == b'{').unwrap_or(input.len());
    let question: Value = serde_json::from_slice(&input[start..]).unwrap_or_default();
    let client = question.get("client").or_else(|| question.get("call")?.get("client"));
    client.and_then(Value::as_u64).unwrap_or_default()
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
        if method != "hold" {
            self.asked.fetch_add(1, Ordering::Relaxed);
        }
        let lost = || Error::unavailable("a message is lost");
        let late = |way: Option<Duration>| async move {
            // A session that has lost a message breaks soon.
            tokio::time::sleep(way.unwrap_or(patience.min(BREAKS_AFTER))).await;
            way.map(drop)
        };
        late(self.way()).await.ok_or_else(lost)?;
        let dead = || Error::unavailable(format!("node {node} is dead"));
        if self.is_cut_off(method, &input) {
            return Err(dead());
        }
        let host = self.hosts.lock().unwrap().get(node).cloned().flatten().ok_or_else(dead)?;
        let (entity, tenant) = match method {
            // A node asks.
            "forwarded" => (EntityName::local(), TenantName::standard()),
            _ => (EntityName::new("alice").unwrap(), TenantName::standard()),
        };
        let asker = Asker { entity: &entity, tenant: &tenant };
        let answered = timeout(patience, host.handle(asker, method, &input)).await;
        let answer = answered.map_err(|_| Error::unavailable(format!("node {node} is silent")))?;
        late(self.way()).await.ok_or_else(lost)?;
        tokio::time::sleep(self.delay_of(method)).await;
        if self.loses(method) {
            return Err(lost());
        }
        // A node that was killed meanwhile answers nobody.
        self.hosts.lock().unwrap().get(node).cloned().flatten().ok_or_else(dead)?;
        answer
    }
}

#[async_trait]
impl HostNodes for Nodes {
    async fn nodes(&self) -> Result<Vec<NodeName>> {
        Ok(self.hosts.lock().unwrap().keys().cloned().collect())
    }
}

pub struct Cluster {
    /// Where records and states are.
    pub system: FaultyStore,
    pub resources: Resources,
    pub nodes: Arc<Nodes>,
    pub file_types: LiveFileTypes,
    capabilities: LiveCapabilityPrograms,
    env: ResourceEnv,
    /// Nodes that were cut off.
    apart: Mutex<BTreeMap<usize, ResourceHost>>,
}

impl Cluster {
    /// A cluster of so many nodes.
    pub fn new(nodes: usize) -> Self {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
        let classes = ClassRuntime::new(Budget::default(), Arc::clone(&clock));
        classes.register_native(map_class()).unwrap();
        let memory = MemoryStore::new(Arc::new(classes), Arc::clone(&clock));
        let system = FaultyStore::over_watched(Arc::new(memory));
        let maps = Maps::new(Arc::new(system.clone()), Arc::new(system.clone()));
        let hosts = Arc::new(Nodes::default());
        let (file_types, capabilities) = (LiveFileTypes::new(), LiveCapabilityPrograms::new());
        let env = ResourceEnv {
            maps: maps.clone(),
            records: Arc::new(MapRecords::new(maps.clone())),
            transport: Arc::clone(&hosts) as _,
            file_types: file_types.clone(),
            policies: Arc::new(CapabilityPolicies::of(capabilities.clone())),
            faults: KindFaults::of(ProgramKind::FileType),
            clock: Arc::clone(&clock),
        };
        let resources =
            Resources::new(maps, Arc::clone(&hosts) as _, Arc::clone(&hosts) as _, clock);
        let apart = Mutex::default();
        let cluster =
            Self { system, resources, nodes: hosts, file_types, capabilities, env, apart };
        (0..nodes).for_each(|n| cluster.start_node(n));
        cluster
    }

    /// Starts a node, or starts it again with nothing in memory.
    pub fn start_node(&self, n: usize) {
        let host = ResourceHost::new(node(n), self.env.clone());
        self.nodes.hosts.lock().unwrap().insert(node(n), Some(host));
    }

    /// Cuts the node off: nobody receives its messages from now on. The node itself keeps running,
    /// which is harder for the other nodes than its death.
    pub fn kill_node(&self, n: usize) {
        self.nodes.hosts.lock().unwrap().insert(node(n), None);
    }

    /// Has the authority of a resource hand it over in proxy mode.
    pub async fn hand_over_as_proxy(&self, path: &str, to: usize) {
        let here = node(self.authority_of(path).await);
        let host = self.nodes.hosts.lock().unwrap()[&here].clone().expect("the authority is up");
        host.hand_over(&name(path), node(to), ClientRouting::Forward).await.unwrap();
    }

    /// Calls that each node has passed on.
    pub fn forwards(&self) -> u64 {
        self.nodes.hosts.lock().unwrap().values().flatten().map(ResourceHost::forwards).sum()
    }

    /// The host of a node.
    pub fn host(&self, n: usize) -> ResourceHost {
        self.nodes.hosts.lock().unwrap()[&node(n)].clone().expect("the node is up")
    }

    /// Cuts a node off: nobody can reach it, and it does not know that.
    pub fn cut_off(&self, n: usize) {
        let host = self.nodes.hosts.lock().unwrap().insert(node(n), None).flatten();
        self.apart.lock().unwrap().insert(n, host.expect("the node was up"));
    }

    /// Joins a node that was cut off.
    pub fn join(&self, n: usize) {
        let host = self.apart.lock().unwrap().remove(&n).expect("the node was cut off");
        self.nodes.hosts.lock().unwrap().insert(node(n), Some(host));
    }

    /// Makes a version of a file type live on all nodes.
    pub fn install(&self, name: &str, version: u64, source: &str) {
        let hook = FileTypeHook::new(Arc::clone(&self.env.clock));
        let id = ProgramId::new(ProgramKind::FileType, name.parse().unwrap());
        let (digest, source) = (Digest::of(source), source.into());
        let program = LiveProgram { id, version, digest, source };
        hook.installing_into(self.file_types.clone()).install(&program).unwrap();
    }

    /// Removes a file type from all nodes.
    pub fn uninstall(&self, name: &str) {
        let hook = FileTypeHook::new(Arc::clone(&self.env.clock));
        let id = ProgramId::new(ProgramKind::FileType, name.parse().unwrap());
        hook.installing_into(self.file_types.clone()).uninstall(&id).unwrap();
    }

    /// Makes a version of a capability program live on all nodes.
    pub fn install_capability(&self, name: &str, version: u64, source: &str) {
        let hook = CapabilityHook::new(Arc::clone(&self.env.clock));
        let id = ProgramId::new(ProgramKind::Capability, name.parse().unwrap());
        let (digest, source) = (Digest::of(source), source.into());
        let program = LiveProgram { id, version, digest, source };
        hook.installing_into(self.capabilities.clone()).install(&program).unwrap();
    }

    /// Makes a resource, and a handle to it.
    pub async fn create(&self, path: &str, file_type: &str) -> Resource {
        let file_type: ProgramName = file_type.parse().unwrap();
        self.resources.create(&name(path), file_type).await.unwrap();
        self.open(path).await
    }

    pub async fn open(&self, path: &str) -> Resource {
        self.resources.open(&name(path)).await.unwrap()
    }

    /// The number of the node that serves a resource.
    pub async fn authority_of(&self, path: &str) -> usize {
        use nacre_host::Record;
        let record = self.resources.record(&name(path)).await.unwrap();
        let authority = record.authority().expect("the resource has an authority");
        authority.node.as_str().strip_prefix("node").unwrap().parse().unwrap()
    }
}

pub fn name(path: &str) -> ResourceName {
    ResourceName::new(path).unwrap()
}

pub fn node(n: usize) -> NodeName {
    NodeName::new(format!("node{n}")).unwrap()
}
