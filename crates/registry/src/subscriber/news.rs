//! Translates events of the map `programs` into news for the core. It does no IO.

use std::collections::BTreeMap;

use bytes::Bytes;
use nacre_object::{Error, Result};

use super::core::News;
use crate::maps::MapEvent;
use crate::programs::{ProgramId, ProgramRecord};

/// Returns the news that an event contains, and the errors of records that cannot be decoded.
pub(super) fn news_of(event: MapEvent) -> (News, Vec<Error>) {
    let (whole, epoch) = (matches!(event, MapEvent::Whole(_)), event.epoch());
    let entries: Vec<(String, Option<Bytes>)> = match event {
        MapEvent::Whole(state) => {
            state.entries.into_iter().map(|(key, value)| (key, Some(value))).collect()
        }
        MapEvent::Epoch(record) => {
            let changes = record.changes.into_iter();
            changes.map(|change| (change.key().to_owned(), change.value().cloned())).collect()
        }
    };
    let (mut records, mut unreadable) = (BTreeMap::new(), Vec::new());
    for (key, value) in entries {
        match parse_entry(&key, value.as_ref(), epoch) {
            Ok((program, record)) => {
                records.insert(program, record);
            }
            Err(error) => unreadable.push(error),
        }
    }
    (News { epoch, whole, records }, unreadable)
}

fn parse_entry(key: &str, value: Option<&Bytes>, epoch: u64) -> Result<(ProgramId, ProgramRecord)> {
    let record = match value {
        Some(value) => ProgramRecord::parse(key, value, epoch)?,
        // The whole record was removed, so nothing is active from this epoch on.
        None => ProgramRecord { activation: epoch, ..ProgramRecord::default() },
    };
    Ok((key.parse()?, record))
}
