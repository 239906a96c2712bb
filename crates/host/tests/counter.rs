//! The smallest kind of hosted machine: counters. Each is kept in one cell, which refuses writes under an old
//! epoch, as a log's objects do.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use nacre_host::{
    Authority, AuthorityClient, Host, HostNodes, HostTransport, Hosting, Looks, Machine, NotReady,
    Question, RECOVER, Record, RecordCache, RecordStore, Recovery, Serving, Step, Words,
    check_proposal, encode_epoch, put_header, split_header,
};
use nacre_object::{Error, ErrorKind, MapName, NodeName, Result};
use tokio::time::Instant;

/// What is stored of a counter.
#[derive(Debug, Clone, PartialEq, Eq)]
struct CounterRecord {
    name: String,
    epoch: u64,
    authority: Option<Authority>,
}

impl Record for CounterRecord {
    type Name = String;
    const WORDS: Words = Words { thing: "counter", authority: "keeper", record: "record" };
    const KEY: &'static str = "record";

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

    fn encode(&self) -> Vec<u8> {
        unimplemented!("this test keeps records as they are")
    }

    fn decode(_: &[u8]) -> Result<Self> {
        unimplemented!("this test keeps records as they are")
    }

    fn map(_: &String) -> &MapName {
        unimplemented!("this test keeps records as they are")
    }

    fn of_map(_: &MapName) -> Option<String> {
        unimplemented!("this test keeps records as they are")
    }

    fn not_found(name: &String) -> Error {
        Error::not_found(format!("there is no counter {name}"))
    }
}

/// Where records and values are.
#[derive(Debug, Default)]
struct Shelf {
    records: Mutex<BTreeMap<String, CounterRecord>>,
    cells: Mutex<BTreeMap<String, Cell>>,
}

/// The value of a counter, and the epoch at which it is sealed.
#[derive(Debug, Default)]
struct Cell {
    sealed_at: u64,
    value: u64,
}

impl Shelf {
    fn with_counter(name: &str) -> Arc<Self> {
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

    fn value(&self, name: &str) -> u64 {
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
struct CounterRecovery(CounterRecord);

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
struct Counter {
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
struct Counters(Arc<Shelf>);

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
struct Next;

impl Question<String> for Next {
    fn method(&self) -> &'static str {
        "next"
    }

    fn encode(&self, name: &String, epoch: u64) -> Bytes {
        let mut input = Default::default();
        put_header(&mut input, name, epoch);
        input.freeze()
    }
}

/// Answers a question as the service of a node does.
async fn answer(host: &Host<Counters>, method: &str, input: &[u8]) -> Result<Bytes> {
    let (name, epoch, _) = split_header(input).expect("a question");
    let name = name.to_owned();
    if method == RECOVER {
        return host.recover(&name, epoch).await.map(encode_epoch);
    }
    let slot = host.slot(&name)?;
    let mut looks = Looks::default();
    loop {
        // Heard from before the machine is looked at, so that no change falls in between.
        let mut changed = pin!(slot.changed());
        changed.as_mut().enable();
        let not_ready = match slot.machine().as_mut() {
            None => Some(NotReady::NotServing),
            Some(counter) if counter.is_held => None,
            Some(counter) => match counter.serving.check(epoch) {
                Ok(()) => {
                    let value = counter.value + 1;
                    host.kind().0.store(&name, counter.serving.authority().epoch, value)?;
                    counter.value = value;
                    return Ok(Bytes::copy_from_slice(&value.to_le_bytes()));
                }
                Err(refusal) => Some(NotReady::Epoch(refusal)),
            },
        };
        match not_ready {
            Some(why) => host.get_ready(&name, why, &mut looks).await?,
            None => changed.await,
        }
    }
}

/// How long a question is on its way.
const WAY: Duration = Duration::from_millis(1);

/// Two nodes, either of which may be unreachable.
#[derive(Debug)]
struct Nodes {
    hosts: BTreeMap<NodeName, Host<Counters>>,
    unreachable: Mutex<Option<NodeName>>,
}

impl Nodes {
    fn over(shelf: &Arc<Shelf>) -> Arc<Self> {
        let host = |name| (node(name), Host::new(node(name), Counters(Arc::clone(shelf))));
        let hosts = ["a", "b"].map(host).into_iter().collect();
        Arc::new(Self { hosts, unreachable: Mutex::default() })
    }

    fn cut_off(&self, node: Option<NodeName>) {
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
        answer(&self.hosts[node], method, &input).await
    }
}

/// Has the node that serves a counter hand it over.
async fn hand_over(nodes: &Arc<Nodes>, shelf: &Shelf, to: &str) -> Result<u64> {
    let host = &nodes.hosts[&authority(shelf, "c")];
    host.hand_over(&"c".to_owned(), node(to), Arc::clone(nodes) as _, "counters").await
}

#[async_trait]
impl HostNodes for Nodes {
    async fn nodes(&self) -> Result<Vec<NodeName>> {
        Ok(self.hosts.keys().cloned().collect())
    }
}

type Client = AuthorityClient<CounterRecord, ()>;

async fn client(shelf: &Arc<Shelf>, nodes: &Arc<Nodes>, name: &str) -> Client {
    let records = RecordCache::open(name.to_owned(), Arc::clone(shelf) as _).await.unwrap();
    let silence = Duration::from_millis(300);
    let (transport, nodes) = (Arc::clone(nodes) as _, Arc::clone(nodes) as _);
    Client::new(name.into(), "counters", transport, nodes, silence, Arc::new(records))
}

async fn next(client: &Client) -> Result<u64> {
    let deadline = Instant::now() + Duration::from_secs(10);
    let (answer, _) = client.ask(&Next, Duration::from_secs(1), deadline).await?;
    Ok(u64::from_le_bytes(answer[..].try_into().unwrap()))
}

fn node(name: &str) -> NodeName {
    NodeName::new(name).unwrap()
}

fn authority(shelf: &Shelf, name: &str) -> NodeName {
    shelf.records.lock().unwrap()[name].authority.clone().unwrap().node
}

#[tokio::test(start_paused = true)]
async fn the_first_question_has_a_node_take_the_counter_over() {
    let shelf = Shelf::with_counter("c");
    let nodes = Nodes::over(&shelf);
    let client = client(&shelf, &nodes, "c").await;
    assert_eq!((next(&client).await.unwrap(), next(&client).await.unwrap()), (1, 2));
    let serving: Vec<_> = nodes.hosts.values().map(|host| host.serving().len()).collect();
    assert_eq!(serving.iter().sum::<usize>(), 1, "one node serves");
}

#[tokio::test(start_paused = true)]
async fn a_silent_authority_is_replaced_and_cannot_count_after_that() {
    let shelf = Shelf::with_counter("c");
    let nodes = Nodes::over(&shelf);
    let [first, second] = [client(&shelf, &nodes, "c").await, client(&shelf, &nodes, "c").await];
    assert_eq!(next(&first).await.unwrap(), 1);
    assert_eq!(next(&second).await.unwrap(), 2);
    let deposed = authority(&shelf, "c");
    nodes.cut_off(Some(deposed.clone()));
    assert_eq!(next(&first).await.unwrap(), 3);
    assert_ne!(authority(&shelf, "c"), deposed);
    // The second client still goes by the old record, and the deposed node still believes that it serves.
    nodes.cut_off(None);
    assert_eq!(nodes.hosts[&deposed].serving(), ["c"]);
    assert_eq!(next(&second).await.unwrap(), 4, "the deposed node's count was refused");
    assert_eq!(shelf.value("c"), 4);
}

#[tokio::test(start_paused = true)]
async fn a_deposed_authority_stops_when_a_client_knows_a_later_record() {
    let shelf = Shelf::with_counter("c");
    let nodes = Nodes::over(&shelf);
    let client = client(&shelf, &nodes, "c").await;
    next(&client).await.unwrap();
    let deposed = authority(&shelf, "c");
    nodes.cut_off(Some(deposed.clone()));
    next(&client).await.unwrap();
    let epoch = shelf.records.lock().unwrap()["c"].epoch;
    let question = Next.encode(&"c".into(), epoch);
    let refused = answer(&nodes.hosts[&deposed], "next", &question).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Stale, "{refused}");
    assert!(nodes.hosts[&deposed].serving().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_counter_that_moves_to_and_fro_loses_no_count_and_gives_none_twice() {
    const CLIENTS: usize = 4;
    const COUNTS: usize = 200;
    let shelf = Shelf::with_counter("c");
    let nodes = Nodes::over(&shelf);
    let mut counting = tokio::task::JoinSet::new();
    for _ in 0..CLIENTS {
        let client = client(&shelf, &nodes, "c").await;
        counting.spawn(async move {
            let mut counts = vec![];
            for _ in 0..COUNTS {
                counts.push(next(&client).await.unwrap());
            }
            counts
        });
    }
    next(&client(&shelf, &nodes, "c").await).await.unwrap();
    let (mut moves, mut all) = (0, vec![]);
    while !counting.is_empty() {
        while let Some(done) = counting.try_join_next() {
            all.extend(done.unwrap());
        }
        let other = if authority(&shelf, "c") == node("a") { "b" } else { "a" };
        hand_over(&nodes, &shelf, other).await.unwrap();
        assert_eq!(authority(&shelf, "c"), node(other));
        moves += 1;
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), CLIENTS * COUNTS, "none twice");
    assert_eq!(shelf.value("c"), (CLIENTS * COUNTS) as u64 + 1, "none lost");
    assert!(moves > 10, "{moves} moves");
}

#[tokio::test(start_paused = true)]
async fn a_counter_stays_where_it_is_if_its_successor_does_not_answer() {
    let shelf = Shelf::with_counter("c");
    let nodes = Nodes::over(&shelf);
    let client = client(&shelf, &nodes, "c").await;
    next(&client).await.unwrap();
    let here = authority(&shelf, "c");
    let other = if here == node("a") { "b" } else { "a" };
    nodes.cut_off(Some(node(other)));
    let refused = hand_over(&nodes, &shelf, other).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Conflict, "{refused}");
    assert_eq!((authority(&shelf, "c"), next(&client).await.unwrap()), (here, 2));
}

#[tokio::test(start_paused = true)]
async fn a_node_that_does_not_serve_a_counter_cannot_hand_it_over() {
    let shelf = Shelf::with_counter("c");
    let nodes = Nodes::over(&shelf);
    next(&client(&shelf, &nodes, "c").await).await.unwrap();
    let other = if authority(&shelf, "c") == node("a") { "b" } else { "a" };
    let host = &nodes.hosts[&node(other)];
    let (name, transport) = ("c".to_owned(), Arc::clone(&nodes) as _);
    let moved = host.hand_over(&name, node("a"), transport, "counters");
    assert_eq!(moved.await.unwrap_err().kind(), ErrorKind::Stale);
}

#[tokio::test(start_paused = true)]
async fn a_node_hosts_no_more_machines_than_its_bound() {
    let shelf = Shelf::with_counter("c");
    let host = Host::new(node("a"), Counters(Arc::clone(&shelf)));
    for name in ["c", "d", "e"] {
        let record = CounterRecord { name: name.into(), epoch: 1, authority: None };
        shelf.records.lock().unwrap().insert(name.into(), record);
    }
    for name in ["c", "d"] {
        host.recover(&name.to_owned(), 1).await.unwrap();
    }
    let refused = host.recover(&"e".to_owned(), 1).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Exhausted, "{refused}");
}
