//! Records histories of concurrent clients of the real log, with lost requests and answers, dead
//! nodes and targets, seals and new layouts. Each history must keep the log's promises.

use std::time::Duration;

use crate::support::{Cluster, of_slots};
use bytes::Bytes;
use futures::future::join_all;
use nacre_clock::Random;
use nacre_conformance::faults::{FaultOdds, seeded};
use nacre_conformance::histories::{
    Cell, LogAnswer, LogCall, Operation, Recorder, Ticket, check_log,
};
use nacre_log::view::Layout;
use nacre_log::{Entry, Log, Reconfiguration};
use nacre_object::{Error, ErrorKind, Result};
use tokio::time::{sleep, timeout};

const CLIENTS: u64 = 4;
const CALLS: u64 = 25;

pub type History = Recorder<LogCall, LogAnswer>;

/// A client that does one operation after another, and records its answers.
pub struct Client {
    pub log: Log,
    pub history: History,
    pub random: Random,
    /// No two clients of a history have the same name.
    pub name: u64,
}

impl Client {
    async fn run(mut self) {
        for n in 0..CALLS {
            sleep(Duration::from_micros(self.random.below(5000))).await;
            self.call(n).await;
        }
    }

    /// Makes its call of this number, mostly an append.
    pub async fn call(&mut self, n: u64) {
        // Holes are near the tail.
        let seen = self.history.operations().iter().filter_map(position_of).max().unwrap_or(0);
        let position = (seen + 2).saturating_sub(self.random.below(8));
        match self.random.below(16) {
            0..3 => self.read(position).await,
            3..5 => self.fill(position).await,
            5 => self.trim(LogCall::Trim(position), self.log.trim(position)).await,
            6 if self.random.one_in(4) => {
                let position = position.saturating_sub(10);
                self.trim(LogCall::TrimTo(position), self.log.trim_to(position)).await;
            }
            7 => self.tail().await,
            _ => self.append(self.name * 1000 + n).await,
        }
    }

    pub async fn append(&self, record: u64) {
        let ticket = self.history.begin(LogCall::Append(record));
        match self.log.append(record.to_string()).await {
            Ok(position) => self.history.end(ticket, LogAnswer::At(position)),
            Err(error) => assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}"),
        }
    }

    async fn read(&self, position: u64) {
        let ticket = self.history.begin(LogCall::Read(position));
        match self.log.read(position).await {
            Ok(entry) => self.history.end(ticket, LogAnswer::Holds(cell_of(entry))),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                self.history.end(ticket, LogAnswer::Holds(Cell::Unwritten));
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
                self.history.never_happened(ticket);
            }
        }
    }

    async fn fill(&self, position: u64) {
        let ticket = self.history.begin(LogCall::Fill(position));
        match self.log.fill(position).await {
            Ok(()) => self.history.end(ticket, LogAnswer::Done),
            Err(error) if error.kind() == ErrorKind::Exists => {
                self.history.end(ticket, LogAnswer::Written);
            }
            Err(error) => self.note_failure(ticket, &error),
        }
    }

    async fn trim(&self, call: LogCall, trimming: impl Future<Output = Result<()>>) {
        let ticket = self.history.begin(call);
        match trimming.await {
            Ok(()) => self.history.end(ticket, LogAnswer::Done),
            Err(error) => self.note_failure(ticket, &error),
        }
    }

    async fn tail(&self) {
        let ticket = self.history.begin(LogCall::Tail);
        match self.log.tail().await {
            Ok(tail) => self.history.end(ticket, LogAnswer::Tail(tail)),
            Err(error) => self.note_failure(ticket, &error),
        }
    }

    fn note_failure(&self, ticket: Ticket, error: &Error) {
        match error.kind() {
            // Past the tail.
            ErrorKind::Invalid => self.history.never_happened(ticket),
            kind => assert_eq!(kind, ErrorKind::Unavailable, "{error}"),
        }
    }
}

fn position_of(operation: &Operation<LogCall, LogAnswer>) -> Option<u64> {
    match operation.answer {
        Some(LogAnswer::At(position) | LogAnswer::Tail(position)) => Some(position),
        _ => None,
    }
}

fn cell_of(entry: Entry) -> Cell {
    match entry {
        Entry::Data(data) => Cell::Data(number(&data)),
        Entry::Filled => Cell::Filled,
        Entry::Trimmed => Cell::Trimmed,
        Entry::Lost => panic!("no object is lost"),
    }
}

fn number(data: &Bytes) -> u64 {
    std::str::from_utf8(data).unwrap().parse().unwrap()
}

/// Lets clients use a log while faults occur. After all faults have ended, reads the whole log.
pub async fn use_log(cluster: &Cluster, log: &Log, seed: u64) -> History {
    let history = History::default();
    let mut clients = vec![];
    for name in 0..CLIENTS {
        let random = Random::seeded(seed * 100 + name);
        let log = cluster.open("l").await;
        clients.push(tokio::spawn(Client { log, history: history.clone(), random, name }.run()));
    }
    let mut random = Random::seeded(seed);
    let odds = FaultOdds { fail_before: 30, fail_after: 30, lose_event: 0 };
    while !clients.iter().all(|client| client.is_finished()) {
        let n = random.below(3) as usize;
        match random.below(5) {
            0 => cluster.kill_node(n),
            1 => cluster.target(n).follow(seeded(random.next_u64(), odds)),
            2 => drop(timeout(Duration::from_secs(2), log.seal()).await),
            3 => {
                let layout = Some(Layout { width: 1 + n as u32, slots: 4 + n as u32 });
                let change = Reconfiguration::Relayout { layout, avoid: vec![] };
                drop(timeout(Duration::from_secs(2), log.reconfigure(change)).await);
            }
            _ => cluster.kill_target(n),
        }
        sleep(Duration::from_millis(random.below(30))).await;
        cluster.start_node(n);
        cluster.revive_target(n);
    }
    for client in join_all(clients).await {
        client.unwrap();
    }
    read_all(log, &history).await;
    history
}

/// Reads each position up to the tail, and records what it holds.
pub async fn read_all(log: &Log, history: &History) {
    let (log, history) = (log.clone(), history.clone());
    let reader = Client { log, history, random: Random::seeded(0), name: 0 };
    for position in 0..reader.log.tail().await.unwrap() {
        reader.read(position).await;
    }
}

#[tokio::test(start_paused = true)]
async fn histories_of_concurrent_clients_keep_what_a_log_promises() {
    for seed in crate::bed::seeds(12) {
        let cluster = Cluster::new(3, 3).await;
        let log = cluster.create("l", of_slots(6)).await;
        let history = use_log(&cluster, &log, seed).await.operations();
        assert!(history.len() > 80, "{} calls", history.len());
        check_log(&history).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    }
}
