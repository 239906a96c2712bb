//! What a transaction will look at, as far as its ops tell: it is fetched in one go.

use nacre_object::limits::{MAX_OBJECT_BYTES, MAX_REPLY_BYTES};
use nacre_object::{Op, bounds};
use nacre_rados_layout::escape_key;

use crate::ffi::Fetch;
use crate::image::{header, range_from};
use crate::map_bounds::first_of_range;

/// Entries of a range that are asked for before anything is known of their size.
const PLANNED_ENTRIES: usize = 128;
/// Ranges that are planned for: the entries of many could be too much at once.
const PLANNED_RANGES: usize = 4;

/// What to fetch first: size and time always, so that an absent object is noticed.
pub fn plan(ops: &[Op]) -> Vec<Fetch> {
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
                // One more tells whether there are more; one may be the header.
                let limit = (*limit as usize).saturating_add(2).min(PLANNED_ENTRIES);
                fetches.push(range_from(&first_of_range(after, prefix), prefix, limit));
            }
            Op::MapGetHeader => fetches.push(header()),
            _ => {}
        }
    }
    if attributes {
        fetches.push(Fetch::Attributes);
    }
    if !keys.is_empty() {
        fetches.push(Fetch::Keys(keys));
    }
    fetches
}
