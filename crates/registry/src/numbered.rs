//! Numbered messages under a prefix of an object's map. A bounded history consists of them.

use nacre_object::{MapEntry, ObjectView, Result};
use prost::Message;

use crate::limits::MAX_PAGE_BYTES;
use crate::system::decode_stored;

/// How many values are read at a time. The number is small because values can be large, and a page
/// must not exceed its bound by much.
const CHUNK: usize = 16;

/// The key of a message's number. It is big-endian, so that key order is number order.
pub(crate) fn numbered_key(prefix: &[u8], number: u64) -> Vec<u8> {
    [prefix, &number.to_be_bytes()].concat()
}

/// Returns the messages with greater numbers than `after`, in order: at most `limit`, and at most
/// one page. The object must exist.
pub(crate) fn numbered_after<Stored: Message + Default>(
    view: &mut dyn ObjectView,
    prefix: &[u8],
    after: u64,
    limit: usize,
    what: &str,
) -> Result<Vec<Stored>> {
    let mut found = Vec::new();
    let mut bytes = 0;
    let mut after = numbered_key(prefix, after);
    while found.len() < limit && bytes < MAX_PAGE_BYTES {
        let range = view.map_range(&after, prefix, CHUNK.min(limit - found.len()))?;
        let Some(last) = range.entries.last() else { break };
        after = last.key.to_vec();
        for MapEntry { value, .. } in range.entries {
            if bytes < MAX_PAGE_BYTES {
                bytes += value.len();
                found.push(decode_stored(what, value)?);
            }
        }
        if !range.more {
            break;
        }
    }
    Ok(found)
}
