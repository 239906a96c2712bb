//! The smallest kind of hosted state machine: a counter. The store keeps each counter in one cell.
//! A cell refuses writes under an old epoch, as the objects of a log do.

#![allow(dead_code, reason = "each test file uses its own part of this")]

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use nacre_host::{
    Authority, AuthorityClient, ClientRouting, FORWARD_PATIENCE, Forward, Host, HostNodes,
    HostTransport, Hosting, Looks, Machine, NotReady, Question, RECOVER, Record, RecordCache,
    RecordStore, Recovery, Serving, Step, Words, check_proposal, encode_epoch, put_header,
    split_header,
};
use nacre_object::{Error, NodeName, Result};
use tokio::time::Instant;

/// What is stored of a counter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CounterRecord {
    pub name: String,
    pub epoch: u64,
    pub authority: Option<Authority>,
}

impl Record for CounterRecord {
    type Name = String;
    const WORDS: Words = Words { thing: "counter", authority: "keeper", record: "record" };

    fn name(&self) -> &String {
        &self.name
    }

    fn epoch(&self) -> u64 {
        self.epoch
    }

    fn born(&self) -> u64 {
        1
    }

    fn is_removed(&self) -> bool {
        false
    }

    fn authority(&self) -> Option<&Authority> {
        self.authority.as_ref()
    }

    fn claimed_by(&self, node: NodeName, claim: u64) -> Self {
        let epoch = self.epoch + 1;
        let authority = Some(Authority { node, epoch, claim });
        Self { name: self.name.clone(), epoch, authority }
    }

    fn not_found(name: &String) -> Error {
        Error::not_found(format!("there is no counter {name}"))
    }
}

/// Where records and values are.
#[derive(Debug, Default)]
pub struct Shelf {
    pub records: Mutex<BTreeMap<String, CounterRecord>>,
    cells: Mutex<BTreeMap<String, Cell>>,
}

/// The value of a counter, and the epoch at which it is sealed.
#[derive(Debug, Default)]
struct Cell {
    sealed_at: u64,
    value: u64,
}

impl Shelf {
    pub fn with_counter(name: &str) -> Arc<Self> {
        let shelf = Self::default();
        let record = CounterRecord { name: name.into(), epoch: 1, authority: None };
        shelf.records.lock().unwrap().insert(name.into(), record);
        Arc::new(shelf)
    }

    /// Seals a cell; returns its value.
    fn seal(&self, name: &str, epoch: u64) -> Result<u64> {
        let mut cells = self.cells.lock().unwrap();
        let cell = cells.entry(name.into()).or_default();
        if epoch < cell.sealed_at {
            return Err(Error::stale("sealed at a later epoch"));
        }
        cell.sealed_at = epoch;
        Ok(cell.value)
    }

    /// Stores a value under the epoch at which the cell is sealed.
    fn store(&self, name: &str, epoch: u64, value: u64) -> Result<()> {
        let mut cells = self.cells.lock().unwrap();
        let cell = cells.get_mut(name).expect("a keeper seals first");
        if epoch != cell.sealed_at {
            return Err(Error::stale("sealed at another epoch"));
        }
        cell.value = value;
        Ok(())
    }

    pub fn value(&self, name: &str) -> u64 {
        self.cells.lock().unwrap()[name].value
    }
}

#[async_trait]
impl RecordStore<CounterRecord> for Shelf {
    async fn last(&self, name: &String) -> Result<Option<CounterRecord>> {
        Ok(self.records.lock().unwrap().get(name).cloned())
    }

    async fn propose(&self, record: &CounterRecord) -> Result<()> {
        let mut records = self.records.lock().unwrap();
        let stored = records.get(&record.name).map_or(0, |stored| stored.epoch);
        check_proposal(stored, record)?;
        records.insert(record.name.clone(), record.clone());
        Ok(())
    }

    async fn names(&self) -> Result<Vec<String>> {
        Ok(self.records.lock().unwrap().keys().cloned().collect())
    }
}

/// Seals the cell, and finds the value there.
#[derive(Debug)]
pub struct CounterRecovery(CounterRecord);

impl Recovery for CounterRecovery {
    type Record = CounterRecord;
    /// Seal the cell of this record.
    type Command = CounterRecord;
    /// The value; `None` if another epoch has sealed it.
    type Event = Option<u64>;
    type Found = u64;

    fn new(claimed: CounterRecord) -> Self {
        Self(claimed)
    }

    fn start(&mut self) -> Vec<Step<CounterRecord, u64>> {
        vec![Step::Do(self.0.clone())]
    }

    fn handle(&mut self, found: Option<u64>) -> Vec<Step<CounterRecord, u64>> {
        vec![found.map_or(Step::CheckClaim, Step::Serve)]
    }

    fn claim_stands(&mut self) -> Vec<Step<CounterRecord, u64>> {
        self.start()
    }
}

#[derive(Debug)]
pub struct Counter {
    serving: Serving<CounterRecord>,
    value: u64,
    is_held: bool,
}

impl Machine for Counter {
    type Record = CounterRecord;

    fn serving(&self) -> &Serving<CounterRecord> {
        &self.serving
    }

    fn hold(&mut self) {
        self.is_held = true;
    }

    fn serve(&mut self, stored: CounterRecord) -> bool {
        self.is_held = false;
        self.serving.go_on_by(stored)
    }
}

#[derive(Debug)]
pub struct Counters(pub Arc<Shelf>);

#[async_trait]
impl Hosting for Counters {
    type Record = CounterRecord;
    type Recovery = CounterRecovery;
    type Machine = Counter;
    type Beside = ();
    const MAX_HOSTED: usize = 2;

    fn records(&self) -> &dyn RecordStore<CounterRecord> {
        &*self.0
    }

    async fn carry_out(&self, claimed: CounterRecord) -> Result<Option<u64>> {
        Ok(self.0.seal(&claimed.name, claimed.epoch).ok())
    }

    fn machine(&self, record: CounterRecord, value: u64) -> Counter {
        Counter { serving: Serving::new(record), value, is_held: false }
    }

    fn gave_up(&self, name: &String, _: Option<&CounterRecovery>) -> Error {
        Error::unavailable(format!("the cell of counter {name} does not answer"))
    }
}

/// The only question to a counter, besides `recover`.
pub struct Next;

impl Question<String> for Next {
    fn method(&self) -> &'static str {
        "next"
    }

    fn encode(&self, name: &String, epoch: u64) -> Bytes {
        let mut input = Default::default();
        put_header(&mut input, name, epoch);
        input.freeze()
    }

    fn answered_under(&self, answer: &[u8]) -> Option<u64> {
        answer.last_chunk().map(|epoch| u64::from_le_bytes(*epoch))
    }
}

/// Answers a question as the service of a node does.
pub async fn answer(
    nodes: &Nodes,
    host: &Host<Counters>,
    method: &str,
    input: &[u8],
) -> Result<Bytes> {
    let (name, epoch, _) = split_header(input).expect("a question");
    let name = name.to_owned();
    if method == RECOVER {
        return host.recover(&name, epoch).await.map(encode_epoch);
    }
    let there = |Forward { node, epoch }| {
        let input = Next.encode(&name, epoch);
        async move { nodes.ask(&node, "counters", "next", input, FORWARD_PATIENCE).await }
    };
    host.answer_or_forward(&name, epoch, count(host, &name, epoch), there).await
}

async fn count(host: &Host<Counters>, name: &String, epoch: u64) -> Result<Bytes> {
    let slot = host.slot(name)?;
    let mut looks = Looks::default();
    loop {
        // Enabled before the look at the counter, so that no change is missed in between.
        let mut changed = pin!(slot.changed());
        changed.as_mut().enable();
        let not_ready = match slot.machine().as_mut() {
            None => Some(NotReady::NotServing),
            Some(counter) if counter.is_held => None,
            Some(counter) => match counter.serving.check(epoch) {
                Ok(()) => {
                    let value = counter.value + 1;
                    host.kind().0.store(name, counter.serving.authority().epoch, value)?;
                    counter.value = value;
                    let epoch = counter.serving.record().epoch();
                    return Ok([value.to_le_bytes(), epoch.to_le_bytes()].concat().into());
                }
                Err(refusal) => Some(NotReady::Epoch(refusal)),
            },
        };
        match not_ready {
            Some(why) => host.get_ready(name, why, &mut looks).await?,
            None => changed.await,
        }
    }
}

/// How long a question is on its way.
const WAY: Duration = Duration::from_millis(1);

/// Three nodes, one of which may be unreachable.
#[derive(Debug)]
pub struct Nodes {
    pub hosts: BTreeMap<NodeName, Host<Counters>>,
    unreachable: Mutex<Option<NodeName>>,
}

impl Nodes {
    pub fn over(shelf: &Arc<Shelf>) -> Arc<Self> {
        let host = |name| (node(name), Host::new(node(name), Counters(Arc::clone(shelf))));
        let hosts = ["a", "b", "c"].map(host).into_iter().collect();
        Arc::new(Self { hosts, unreachable: Mutex::default() })
    }

    pub fn cut_off(&self, node: Option<NodeName>) {
        *self.unreachable.lock().unwrap() = node;
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
        _: Duration,
    ) -> Result<Bytes> {
        if self.unreachable.lock().unwrap().as_ref() == Some(node) {
            return Err(Error::unavailable("no route"));
        }
        tokio::time::sleep(WAY).await;
        answer(self, &self.hosts[node], method, &input).await
    }
}

/// Makes the node that serves a counter hand it over.
pub async fn hand_over(
    nodes: &Arc<Nodes>,
    shelf: &Shelf,
    to: &str,
    routing: ClientRouting,
) -> Result<u64> {
    let host = &nodes.hosts[&authority(shelf, "c")];
    let (name, transport) = ("c".to_owned(), Arc::clone(nodes) as _);
    host.hand_over(&name, node(to), transport, "counters", routing).await
}

#[async_trait]
impl HostNodes for Nodes {
    async fn nodes(&self) -> Result<Vec<NodeName>> {
        Ok(self.hosts.keys().cloned().collect())
    }
}

/// A client and its copies of the records.
pub struct Client {
    authority: AuthorityClient<CounterRecord, ()>,
    records: Arc<RecordCache<CounterRecord, ()>>,
}

pub async fn client(shelf: &Arc<Shelf>, nodes: &Arc<Nodes>, name: &str) -> Client {
    let records = RecordCache::open(name.to_owned(), Arc::clone(shelf) as _).await.unwrap();
    let silence = Duration::from_millis(300);
    let (transport, nodes) = (Arc::clone(nodes) as _, Arc::clone(nodes) as _);
    let records = Arc::new(records);
    let known = Arc::clone(&records);
    let authority = AuthorityClient::new(name.into(), "counters", transport, nodes, silence, known);
    Client { authority, records }
}

pub async fn next(client: &Client) -> Result<u64> {
    let deadline = Instant::now() + Duration::from_secs(10);
    let (answer, _) = client.authority.ask(&Next, Duration::from_secs(2), deadline).await?;
    // The client adopts the record under which it was answered, as the client of a log does.
    client.records.at_least(Next.answered_under(&answer).unwrap()).await?;
    Ok(u64::from_le_bytes(*answer.first_chunk().unwrap()))
}

pub fn node(name: &str) -> NodeName {
    NodeName::new(name).unwrap()
}

pub fn authority(shelf: &Shelf, name: &str) -> NodeName {
    shelf.records.lock().unwrap()[name].authority.clone().unwrap().node
}
