//! A workload whose outcome can be checked after any crash: each writer numbers its transactions.

#![allow(dead_code, reason = "each test uses its part")]

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use nacre_object::{ErrorKind, MapEntry, ObjectId, Op, OpResult, Request, Store};

use super::{append, object, read_all, submit};

/// The n-th record of a writer: its number, then bytes computed from the number. Some records are
/// small; some are so large that the engine keeps them in the journal.
pub fn record(n: u64) -> Bytes {
    let length = [20, 120, 900, 1500, 9000][(n % 5) as usize] + (n % 37) as usize;
    let mut record = n.to_be_bytes().to_vec();
    record.extend((0..length).map(|i| (n as usize * 31 + i) as u8));
    record.into()
}

/// The n-th transaction of a writer: it appends a record, updates the count of records, and stores
/// the record's offset.
pub fn transaction(n: u64) -> Vec<Op> {
    let entry = |key: Vec<u8>, value: Bytes| MapEntry { key: key.into(), value };
    let count = entry(b"count".to_vec(), Bytes::copy_from_slice(&(n + 1).to_be_bytes()));
    let noted = entry(format!("record/{n:08}").into_bytes(), record(n));
    vec![append(record(n)), Op::MapSet { entries: vec![count, noted] }]
}

/// What one writer's clients have learned.
#[derive(Debug, Default)]
pub struct Acknowledged {
    /// Transactions acknowledged.
    pub written: AtomicU64,
    /// The highest count that a reader has seen.
    pub seen: AtomicU64,
}

/// Writers and readers, each writer with an object of its own.
#[derive(Debug, Clone)]
pub struct Ledger {
    pub writers: Arc<Vec<Acknowledged>>,
    errors: Arc<Mutex<Vec<ErrorKind>>>,
}

impl Ledger {
    pub fn new(writers: usize) -> Self {
        let writers = (0..writers).map(|_| Acknowledged::default()).collect();
        Self { writers: Arc::new(writers), errors: Arc::default() }
    }

    pub fn object(writer: usize) -> ObjectId {
        object(format!("writer-{writer}"))
    }

    /// Runs all writers and their readers until something fails. Returns the kinds of errors.
    pub async fn run(&self, store: Arc<dyn Store>) -> Vec<ErrorKind> {
        let tasks: Vec<_> = (0..self.writers.len())
            .flat_map(|writer| {
                let (a, b) = ((self.clone(), store.clone()), (self.clone(), store.clone()));
                [
                    tokio::spawn(async move { a.0.write(&*a.1, writer).await }),
                    tokio::spawn(async move { b.0.read(&*b.1, writer).await }),
                ]
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        std::mem::take(&mut self.errors.lock().unwrap())
    }

    async fn write(&self, store: &dyn Store, writer: usize) {
        let acknowledged = &self.writers[writer].written;
        let mut n = count(store, writer).await.unwrap_or(0);
        loop {
            match submit(store, &Self::object(writer), transaction(n)).await {
                Ok(_) => n += 1,
                Err(error) => return self.errors.lock().unwrap().push(error.kind()),
            }
            acknowledged.store(n, Ordering::SeqCst);
        }
    }

    async fn read(&self, store: &dyn Store, writer: usize) {
        // Reads go on after the engine is poisoned, so this ends with the writer.
        while self.errors.lock().unwrap().is_empty() {
            match count(store, writer).await {
                Some(count) => self.writers[writer].seen.fetch_max(count, Ordering::SeqCst),
                None => 0,
            };
            tokio::task::yield_now().await;
        }
    }

    /// Transactions acknowledged, of all writers.
    pub fn acknowledged(&self) -> u64 {
        self.writers.iter().map(|writer| writer.written.load(Ordering::SeqCst)).sum()
    }

    /// Checks that every object holds only whole transactions, and all that were acknowledged or
    /// read. Returns the number of transactions.
    pub async fn check(&self, store: &dyn Store) -> u64 {
        let mut total = 0;
        for (writer, acknowledged) in self.writers.iter().enumerate() {
            let found = check_object(store, writer).await;
            let written = acknowledged.written.load(Ordering::SeqCst);
            let seen = acknowledged.seen.load(Ordering::SeqCst);
            assert!(found >= written, "writer {writer}: {written} acknowledged, {found} found");
            assert!(found >= seen, "writer {writer}: {seen} seen, {found} found");
            // At most the transaction in flight may have happened besides.
            assert!(found <= written.max(seen) + 1, "writer {writer}: {found} after {written}");
            acknowledged.written.store(found, Ordering::SeqCst);
            acknowledged.seen.store(found, Ordering::SeqCst);
            total += found;
        }
        total
    }
}

/// The count of a writer's records. `None` if it cannot be read or nothing was written yet.
pub async fn count(store: &dyn Store, writer: usize) -> Option<u64> {
    let keys = vec![Bytes::from_static(b"count")];
    let reply = submit(store, &Ledger::object(writer), vec![Op::MapGet { keys }]).await.ok()?;
    match &reply.results[0] {
        OpResult::Values(values) => {
            values[0].as_ref().map(|value| u64::from_be_bytes(value.as_ref().try_into().unwrap()))
        }
        other => panic!("{other:?}"),
    }
}

/// Checks that a writer's object has only whole transactions. Returns how many.
pub async fn check_object(store: &dyn Store, writer: usize) -> u64 {
    let id = Ledger::object(writer);
    let Some(found) = count(store, writer).await else { return 0 };
    let ops = vec![read_all(), Op::Stat];
    let reply = store.submit(Request::new(id.clone(), ops).unwrap()).await.unwrap();
    let expected: Vec<u8> = (0..found).flat_map(|n| record(n).to_vec()).collect();
    match &reply.results[0] {
        OpResult::Data(data) => assert!(*data == expected, "the stream of {id} is not whole"),
        other => panic!("{other:?}"),
    }
    let mut after = Bytes::new();
    let mut n = 0;
    loop {
        let prefix = Bytes::from_static(b"record/");
        let op = Op::MapRange { after: after.clone(), prefix, limit: 100 };
        let reply = submit(store, &id, vec![op]).await.unwrap();
        let OpResult::Range(range) = &reply.results[0] else { panic!("{reply:?}") };
        for entry in &range.entries {
            assert_eq!(entry.key, format!("record/{n:08}").as_bytes(), "the map of {id}");
            assert_eq!(entry.value, record(n), "the map of {id}");
            n += 1;
        }
        match range.entries.last() {
            Some(last) if range.more => after = last.key.clone(),
            _ => break,
        }
    }
    assert_eq!(n, found, "the map of {id}");
    found
}
