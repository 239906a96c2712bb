//! Clients that append to a log while a test causes faults. They keep the positions of all
//! acknowledged records.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use nacre::{Entry, Log};
use nacre_conformance::wait::eventually;
use tokio::sync::Mutex;
use tokio::task::JoinHandle;

/// Records that are appended between two things that happen.
const SOME: u64 = 200;
/// Clients at once.
const CLIENTS: usize = 4;
/// Records that are read at a time.
const PAGE: usize = 1000;

/// Clients of one log at work.
pub struct Appenders {
    told: Arc<Told>,
    tasks: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct Told {
    is_over: AtomicBool,
    positions: Mutex<HashMap<String, u64>>,
    /// How many they are.
    records: AtomicU64,
}

impl Appenders {
    /// Begins to append records whose names begin so.
    pub fn start(log: &Log, name: &str) -> Self {
        let told = Arc::<Told>::default();
        let append = |client| told.clone().append(log.clone(), format!("{name}-{client}"));
        let tasks = (0..CLIENTS).map(|client| tokio::spawn(append(client))).collect();
        Self { told, tasks }
    }

    /// Returns when records were appended after this moment.
    pub async fn more(&self) {
        let records = || self.told.records.load(Ordering::Relaxed);
        let before = records();
        eventually("more records are appended", async || records() >= before + SOME).await;
    }

    /// Ends the clients; answers which records were acknowledged, and at which positions.
    pub async fn end(self) -> HashMap<String, u64> {
        self.told.is_over.store(true, Ordering::Relaxed);
        for task in self.tasks {
            task.await.unwrap();
        }
        Arc::into_inner(self.told).unwrap().positions.into_inner()
    }
}

impl Told {
    async fn append(self: Arc<Self>, log: Log, name: String) {
        for number in 0.. {
            if self.is_over.load(Ordering::Relaxed) {
                return;
            }
            let record = format!("{name}-{number}");
            // After an error the record may be in the log all the same. So it is not sent again,
            // and the next record gets another name.
            if let Ok(position) = log.append(&record).await {
                self.positions.lock().await.insert(record, position);
                self.records.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

/// Every record that was acknowledged is there once, at its position.
pub async fn check(log: &Log, told: &HashMap<String, u64>) {
    let mut found: HashMap<String, Vec<u64>> = HashMap::new();
    let mut at = 0;
    loop {
        let page = log.read_range(at, PAGE).await.unwrap();
        let Some(last) = page.last() else { break };
        at = last.position + 1;
        for slot in page {
            if let Some(Entry::Data(record)) = slot.entry {
                let record = String::from_utf8(record.to_vec()).unwrap();
                found.entry(record).or_default().push(slot.position);
            }
        }
    }
    for (record, position) in told {
        assert_eq!(found.get(record), Some(&vec![*position]), "{record}");
    }
}
