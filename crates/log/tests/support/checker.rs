//! What must be true of a log whatever happened to it.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use futures::StreamExt;
use nacre_log::{Entry, Log};
use nacre_object::ErrorKind;

/// Records what was acknowledged and compares it with the log.
#[derive(Clone, Default)]
pub struct Checker(Arc<Mutex<Seen>>);

#[derive(Default)]
struct Seen {
    acknowledged: BTreeMap<u64, String>,
    /// Records of which nobody knows whether they are in the log.
    unknown: usize,
    /// Records there was no room for.
    refused: usize,
}

impl Checker {
    /// Appends a record and remembers it. If it is appended after another was acknowledged, it must
    /// have the greater position.
    pub async fn append(&self, log: &Log, record: String) -> Option<u64> {
        let greatest = self.0.lock().unwrap().acknowledged.last_key_value().map(|(p, _)| *p);
        match log.append(&record).await {
            Ok(position) => {
                assert!(Some(position) > greatest, "{record} at {position}, after {greatest:?}");
                let mut seen = self.0.lock().unwrap();
                let other = seen.acknowledged.insert(position, record.clone());
                assert_eq!(other, None, "{record} and another at {position}");
                Some(position)
            }
            Err(error) => {
                let mut seen = self.0.lock().unwrap();
                match error.kind() {
                    ErrorKind::Unavailable => seen.unknown += 1,
                    ErrorKind::Exhausted => seen.refused += 1,
                    kind => panic!("{record}: {kind:?}: {error}"),
                }
                None
            }
        }
    }

    pub fn acknowledged(&self) -> usize {
        self.0.lock().unwrap().acknowledged.len()
    }

    pub fn unknown(&self) -> usize {
        self.0.lock().unwrap().unknown
    }

    pub fn refused(&self) -> usize {
        self.0.lock().unwrap().refused
    }

    /// Reads the whole log twice and checks it. Every acknowledged record must be at its position,
    /// no record may appear twice, somebody must have appended every record, and every hole must be
    /// filled.
    pub async fn check(&self, log: &Log) -> BTreeMap<u64, Entry> {
        let first = read_all(log).await;
        assert_eq!(first, read_all(log).await, "what was read has changed");
        let seen = self.0.lock().unwrap();
        for (position, record) in &seen.acknowledged {
            let entry = Entry::Data(record.clone().into());
            assert_eq!(first.get(position), Some(&entry), "at {position}");
        }
        let mut positions = HashMap::new();
        for (position, entry) in &first {
            if let Entry::Data(data) = entry
                && let Some(other) = positions.insert(data.clone(), position)
            {
                panic!("{data:?} is at {other} and at {position}");
            }
        }
        let extra = positions.len() - seen.acknowledged.len();
        assert!(extra <= seen.unknown + seen.refused, "{extra} records that nobody knows");
        first
    }
}

/// Every entry up to the tail, holes filled.
pub async fn read_all(log: &Log) -> BTreeMap<u64, Entry> {
    let (start, tail) = (log.view().kept_from(), log.tail().await.unwrap());
    let entries = log.follow(start).take((tail - start) as usize);
    entries.map(|entry| entry.unwrap()).collect().await
}
