//! Plans, from a transaction's ops, which parts of the object to fetch in the first read. If there
//! are many keys, later reads fetch some of them.

use std::vec::IntoIter;

use nacre_object::limits::{MAX_OBJECT_BYTES, MAX_REPLY_BYTES};
use nacre_object::{Op, bounds};
use nacre_rados_layout::escape_key;

use crate::ffi::{Fetch, Keep};
use crate::transaction::image::{header, range_from};
use crate::transaction::map_bounds::first_of_range;

/// How many entries of a range are fetched while their size is not known.
const PLANNED_ENTRIES: usize = 128;
/// How many ranges are planned for. The entries of more ranges could be too much at once.
const PLANNED_RANGES: usize = 4;

/// How many keys are fetched while the size of their values is not known.
const FIRST_KEYS: usize = 64;
/// How many keys each read after the first fetches, if the values of the first keys were small
/// enough for one reply.
const NEXT_KEYS: usize = 256;

/// Keys that the ops name and that are not fetched yet.
#[derive(Debug)]
pub struct LaterKeys(IntoIter<Vec<u8>>);

impl LaterKeys {
    /// Completes the list of parts that a transaction lacks. If keys are among them, adds some of
    /// the keys that the transaction will need next, so that one read fetches all of them.
    pub fn extend(&mut self, mut lacking: Vec<Fetch>) -> Vec<Fetch> {
        let keys = lacking.iter_mut().find_map(|fetch| match fetch {
            Fetch::Keys(keys) => Some(keys),
            _ => None,
        });
        if let Some(keys) = keys {
            keys.extend(self.0.by_ref().take(NEXT_KEYS));
        }
        lacking
    }
}

/// The parts to fetch first. Size and time are always among them, so that an absent object is
/// noticed.
pub fn plan(ops: &[Op]) -> (Vec<Fetch>, LaterKeys) {
    let mut fetches = vec![Fetch::Stat];
    let mut keys = Vec::new();
    let (mut planned_bytes, mut ranges, mut attributes) = (0, 0, false);
    for op in ops {
        match op {
            Op::Read { offset, length } if *length > 0 && *offset < MAX_OBJECT_BYTES => {
                let length = (*length).min(MAX_REPLY_BYTES as u64) as usize;
                planned_bytes += length;
                if planned_bytes <= MAX_REPLY_BYTES {
                    fetches.push(Fetch::Data { offset: *offset, length });
                }
            }
            Op::GetAttribute { .. }
            | Op::GetAttributes
            | Op::SetAttribute { .. }
            | Op::RemoveAttribute { .. } => attributes = true,
            Op::MapGet { keys: wanted } => {
                let good = wanted.iter().filter(|key| bounds::check_map_key(key).is_ok());
                keys.extend(good.map(|key| escape_key(key)));
            }
            Op::MapRange { after, prefix, limit }
                if ranges < PLANNED_RANGES && bounds::check_map_range(after, prefix).is_ok() =>
            {
                ranges += 1;
                // Fetch one more entry to see whether more follow, and one more because an entry
                // may be the header.
                let limit = (*limit as usize).saturating_add(2).min(PLANNED_ENTRIES);
                let first = first_of_range(after, prefix);
                fetches.push(range_from(&first, prefix, limit, Keep::All));
            }
            Op::MapGetHeader => fetches.push(header()),
            _ => {}
        }
    }
    if attributes {
        fetches.push(Fetch::Attributes);
    }
    let mut keys = keys.into_iter();
    let first: Vec<_> = keys.by_ref().take(FIRST_KEYS).collect();
    if !first.is_empty() {
        fetches.push(Fetch::Keys(first));
    }
    (fetches, LaterKeys(keys))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn keys(fetches: &[Fetch]) -> Vec<Vec<u8>> {
        let keys = fetches.iter().filter_map(|fetch| match fetch {
            Fetch::Keys(keys) => Some(keys.clone()),
            _ => None,
        });
        keys.flatten().collect()
    }

    #[test]
    fn many_keys_are_fetched_in_several_reads() {
        let wanted: Vec<_> = (0..500).map(|n| Bytes::from(format!("key {n:03}"))).collect();
        let (first, mut later) = plan(&[Op::MapGet { keys: wanted.clone() }]);
        let mut fetched = keys(&first);
        assert_eq!(fetched.len(), FIRST_KEYS);
        while fetched.len() < wanted.len() {
            let lacking = Fetch::Keys(vec![wanted[fetched.len()].to_vec()]);
            let next = keys(&later.extend(vec![Fetch::Attributes, lacking]));
            assert!((2..=NEXT_KEYS + 1).contains(&next.len()), "{} keys", next.len());
            // The next keys contain the key that was lacking.
            fetched.extend_from_slice(&next[1..]);
        }
        assert_eq!(fetched, wanted);
        assert_eq!(later.extend(vec![Fetch::Attributes]), [Fetch::Attributes]);
    }
}
