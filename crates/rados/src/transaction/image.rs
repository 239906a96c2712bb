//! An image: those parts of an object that a transaction has fetched so far, all of the same
//! version.
//!
//! **Invariant:** everything in an image belongs to its version, because later fetches assert that
//! version.

use std::collections::BTreeMap;
use std::ops::Bound;

use bytes::Bytes;
use nacre_object::limits::{
    MAX_REPLY_BYTES, MAX_REQUEST_BYTES, MAX_REQUEST_KEYS, MAX_TRANSACTION_BYTES,
};
use nacre_object::{Error, Result};
use nacre_rados_layout::{Attribute, HEADER_KEY, StoredKey, escape_key, unescape_key};

use crate::ffi::{Fetch, Fetched, Keep};
use crate::transaction::last_walk::LastWalk;
use crate::transaction::map_bounds::{after_of, first_behind_prefix, first_of_range, next_key};

/// The most omap entries in one fetch: an OSD returns no more (`osd_max_omap_entries_per_request`).
pub const MAX_FETCHED_ENTRIES: usize = 1024;
/// The most bytes that an image keeps of one object. It is several times what a request or a reply
/// carries, or what a script could hold. A larger image would take too much memory, because many
/// requests run at the same time.
pub const MAX_IMAGE_BYTES: usize = 64 * 1024 * 1024;
/// The memory of one part in addition to its bytes.
const ENTRY_BYTES: usize = 128;
/// The fewest entries in one fetch. A fetch of one entry could return the header alone, which is no
/// entry of the map.
const MIN_FETCHED_ENTRIES: usize = 2;
/// The first byte of keys that sort after the header.
const BEHIND_HEADER: u8 = 2;

const _: () = assert!(2 * MAX_TRANSACTION_BYTES <= MAX_IMAGE_BYTES);
const _: () = assert!(
    MAX_REQUEST_KEYS * ENTRY_BYTES + MAX_REQUEST_BYTES + MAX_REPLY_BYTES < MAX_IMAGE_BYTES,
    "all that a request without methods may name is kept"
);

/// The fetched parts of an object.
#[derive(Debug, Clone, Default)]
pub struct Image {
    /// The object's version. If the object does not exist, a version at least as great as its last.
    pub version: u64,
    /// Size and time; `None` if the object does not exist.
    pub stat: Option<Stat>,
    /// The attributes, once they are fetched.
    pub attributes: Option<BTreeMap<String, Bytes>>,
    /// The map's header, once it is fetched.
    pub header: Option<Bytes>,
    /// The fetched keys with their values; `None` for a key that does not exist.
    entries: BTreeMap<Bytes, Option<Bytes>>,
    /// Ranges of keys that are fetched completely: first key, and first key after the range
    /// (`None`: no end).
    known_keys: Vec<(Bytes, Option<Bytes>)>,
    /// The fetched parts of the byte stream, with their offsets.
    data: Vec<(u64, Bytes)>,
    /// Walks to the last entry with a prefix.
    last_walks: BTreeMap<Vec<u8>, LastWalk>,
    /// Bytes of all that, about; at most [`MAX_IMAGE_BYTES`].
    kept: usize,
}

/// Size and time of change of an object that exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    /// Bytes of its stream.
    pub size: u64,
    /// Microseconds since 1970; RADOS has only seconds.
    pub modified_micros: u64,
}

impl Image {
    /// Adds fetched parts.
    ///
    /// # Errors
    /// `Corrupt` if nacre cannot have written the parts; `Exhausted` if the image would exceed its
    /// bound.
    pub fn learn(&mut self, fetches: &[Fetch], fetched: Vec<Fetched>) -> Result<()> {
        for (fetch, fetched) in fetches.iter().zip(fetched) {
            match (fetch, fetched) {
                (Fetch::Stat, Fetched::Stat { size, modified_seconds }) => {
                    let seconds = u64::try_from(modified_seconds).unwrap_or(0);
                    let modified_micros = seconds.saturating_mul(1_000_000);
                    self.stat = Some(Stat { size, modified_micros });
                }
                (Fetch::Data { offset, .. }, Fetched::Data(data)) => {
                    self.keep(data.len())?;
                    self.data.push((*offset, data));
                }
                (Fetch::Attributes, Fetched::Attributes(found)) => {
                    for (name, value) in &found {
                        self.keep(name.len() + value.len())?;
                    }
                    self.attributes = Some(attributes(found));
                }
                (Fetch::Keys(asked), Fetched::Keys(found)) => self.learn_keys(asked, found)?,
                (Fetch::Range { after, prefix, keep, .. }, Fetched::Range { entries, more }) => {
                    match keep {
                        Keep::All => self.learn_range(after, prefix, entries, more)?,
                        Keep::Last => self.learn_last(prefix, entries, more)?,
                    }
                }
                _ => {
                    return Err(Error::corrupt("the cluster's answer does not match the request")
                        .hint("check the cluster with `nacre ceph check`"));
                }
            }
        }
        Ok(())
    }

    /// How many more bytes the image may keep.
    pub fn room(&self) -> usize {
        MAX_IMAGE_BYTES - self.kept
    }

    /// Counts bytes that the image keeps.
    fn keep(&mut self, bytes: usize) -> Result<()> {
        let bytes = ENTRY_BYTES + bytes;
        if bytes > self.room() {
            return Err(too_much());
        }
        self.kept += bytes;
        Ok(())
    }

    /// The image keeps at most as many keys as a reply carries. Further keys are fetched again if
    /// they are needed.
    fn learn_keys(&mut self, asked: &[Vec<u8>], found: Vec<(Bytes, Bytes)>) -> Result<()> {
        let found: BTreeMap<_, _> = found.into_iter().collect();
        let mut learned = 0;
        for stored in asked {
            if learned > MAX_REPLY_BYTES {
                break;
            }
            let value = found.get(stored.as_slice()).cloned();
            let bytes = stored.len() + value.as_ref().map_or(0, Bytes::len);
            self.keep(bytes)?;
            learned += bytes;
            match unescape_key(stored) {
                StoredKey::Header => self.header = Some(value.unwrap_or_default()),
                StoredKey::Entry(key) => {
                    self.entries.insert(key.into(), value);
                }
                StoredKey::Foreign => return Err(foreign_key()),
            }
        }
        Ok(())
    }

    /// The image keeps at most as many entries as a reply carries. Further entries are fetched
    /// again if they are needed.
    fn learn_range(
        &mut self,
        after: &[u8],
        prefix: &[u8],
        found: Vec<(Bytes, Bytes)>,
        mut more: bool,
    ) -> Result<()> {
        let (StoredKey::Entry(after), StoredKey::Entry(prefix)) =
            (unescape_key(after), unescape_key(prefix))
        else {
            return Err(foreign_key());
        };
        let first = first_of_range(&after, &prefix);
        let mut behind = Some(first.clone());
        let mut learned = 0;
        for (stored, value) in found {
            if learned > MAX_REPLY_BYTES {
                more = true;
                break;
            }
            self.keep(stored.len() + value.len())?;
            learned += stored.len() + value.len();
            match unescape_key(&stored) {
                StoredKey::Entry(key) => {
                    behind = Some(next_key(&key));
                    self.entries.insert(key.into(), Some(value));
                }
                StoredKey::Header => {
                    behind = Some(vec![BEHIND_HEADER]);
                    self.header = Some(value);
                }
                StoredKey::Foreign => return Err(foreign_key()),
            }
        }
        if !more {
            behind = first_behind_prefix(&prefix);
        }
        self.keep(0)?;
        let (first, behind) = (Bytes::from(first), behind.map(Bytes::from));
        match self.known_keys.iter_mut().find(|(_, behind)| behind.as_ref() == Some(&first)) {
            // The range continues a fetched one, so extend that.
            Some(span) => span.1 = behind,
            None => self.known_keys.push((first, behind)),
        }
        Ok(())
    }

    /// Of the entries only the last is kept.
    fn learn_last(&mut self, prefix: &[u8], found: Vec<(Bytes, Bytes)>, more: bool) -> Result<()> {
        let StoredKey::Entry(prefix) = unescape_key(prefix) else { return Err(foreign_key()) };
        let walk = self.last_walks.remove(&prefix);
        if let Some(walk) = &walk {
            self.kept -= ENTRY_BYTES + prefix.len() + walk.kept();
        }
        let mut walk = walk.unwrap_or_else(|| LastWalk::new(&prefix));
        walk.pace(found.len(), found.iter().map(|(key, value)| key.len() + value.len()).sum());
        for (stored, value) in found {
            match unescape_key(&stored) {
                StoredKey::Entry(key) => walk.pass(key, value),
                StoredKey::Header => walk.pass_until(vec![BEHIND_HEADER]),
                StoredKey::Foreign => return Err(foreign_key()),
            }
        }
        if !more {
            walk.arrive();
        }
        self.keep(prefix.len() + walk.kept())?;
        self.last_walks.insert(prefix, walk);
        Ok(())
    }

    /// How far the walk to the last entry with a prefix is, if it was begun.
    pub fn last_walk(&self, prefix: &[u8]) -> Option<&LastWalk> {
        self.last_walks.get(prefix)
    }

    /// The value of a key, or `Some(None)` if the key does not exist; `None` if the key was not
    /// fetched.
    pub fn entry(&self, key: &[u8]) -> Option<Option<Bytes>> {
        if let Some(value) = self.entries.get(key) {
            return Some(value.clone());
        }
        let known = self.known_until(key).is_none_or(|behind| *key < *behind);
        known.then_some(None)
    }

    /// The key up to which all keys from `first` on are fetched; that key itself is not included.
    /// `None` if all keys to the end of the map are fetched.
    pub fn known_until(&self, first: &[u8]) -> Option<Bytes> {
        let mut known = Bytes::copy_from_slice(first);
        loop {
            let reaches = |span: &&(Bytes, Option<Bytes>)| {
                span.0 <= known && span.1.as_ref().is_none_or(|behind| *behind > known)
            };
            match self.known_keys.iter().find(reaches) {
                None => return Some(known),
                Some((_, None)) => return None,
                Some((_, Some(behind))) => known = behind.clone(),
            }
        }
    }

    /// The known entries from `first` on, in key order.
    pub fn entries_from(&self, first: &[u8]) -> impl Iterator<Item = (&Bytes, &Bytes)> {
        let range = self.entries.range::<[u8], _>((Bound::Included(first), Bound::Unbounded));
        range.filter_map(|(key, value)| Some((key, value.as_ref()?)))
    }

    /// Bytes of the stream; `None` if they were not fetched.
    pub fn data(&self, offset: u64, length: u64) -> Option<Bytes> {
        let end = offset.checked_add(length)?;
        let holds =
            |(start, data): &&(u64, Bytes)| *start <= offset && end <= start + data.len() as u64;
        let (start, data) = self.data.iter().find(holds)?;
        let from = usize::try_from(offset - start).ok()?;
        Some(data.slice(from..from + usize::try_from(length).ok()?))
    }
}

/// The fetch of a range of the map that begins with `first`, inclusive.
pub fn range_from(first: &[u8], prefix: &[u8], limit: usize, keep: Keep) -> Fetch {
    Fetch::Range {
        after: escape_key(&after_of(first, prefix)),
        prefix: escape_key(prefix),
        limit: limit.clamp(MIN_FETCHED_ENTRIES, MAX_FETCHED_ENTRIES) as u64,
        keep,
    }
}

/// How the header is asked for.
pub fn header() -> Fetch {
    Fetch::Keys(vec![HEADER_KEY.to_vec()])
}

fn attributes(found: Vec<(Bytes, Bytes)>) -> BTreeMap<String, Bytes> {
    let ours = |(stored_name, stored_value): (Bytes, Bytes)| {
        let (name, start) = Attribute::read(&stored_name, &stored_value)?;
        Some((name, stored_value.slice(start..)))
    };
    found.into_iter().filter_map(ours).collect()
}

/// The error of a transaction that needs more of an object than an image may keep.
pub fn too_much() -> Error {
    Error::exhausted(format!("the transaction looked at more than {MAX_IMAGE_BYTES} bytes"))
        .hint("read less of the object at a time")
}

fn foreign_key() -> Error {
    Error::corrupt("the map has a key that nacre does not write")
        .hint("another program writes to this object: let only nacre write to it")
}

#[cfg(test)]
mod tests {
    use nacre_object::ErrorKind;

    use super::*;

    #[test]
    fn the_memory_of_an_image_is_bounded() {
        let mut image = Image::default();
        let data = Bytes::from(vec![0; MAX_REPLY_BYTES]);
        let refused = (0..100).find_map(|offset| {
            let fetch = Fetch::Data { offset, length: data.len() };
            image.learn(&[fetch], vec![Fetched::Data(data.clone())]).err()
        });
        assert_eq!(refused.unwrap().kind(), ErrorKind::Exhausted);
        assert!(image.data.len() * MAX_REPLY_BYTES <= MAX_IMAGE_BYTES);
    }

    #[test]
    fn absent_keys_count_against_the_memory_bound() {
        let mut image = Image::default();
        let refused = (0_u32..1_000_000).find_map(|number| {
            let fetch = Fetch::Keys(vec![escape_key(&number.to_be_bytes())]);
            image.learn(&[fetch], vec![Fetched::Keys(vec![])]).err()
        });
        assert_eq!(refused.unwrap().kind(), ErrorKind::Exhausted);
    }

    #[test]
    fn an_image_keeps_at_most_as_much_of_an_answer_as_a_reply_carries() {
        let value = Bytes::from(vec![0; 1 << 20]);
        let entries: Vec<_> =
            (b'a'..=b'z').map(|key| (Bytes::from(vec![key]), value.clone())).collect();
        let mut image = Image::default();
        let fetched = Fetched::Range { entries: entries.clone(), more: false };
        image.learn(&[range_from(b"", b"", 100, Keep::All)], vec![fetched]).unwrap();
        let known = image.known_until(b"").unwrap();
        assert_eq!(image.entries_from(b"").count(), MAX_REPLY_BYTES >> 20);
        assert!(*known > b"h"[..] && *known < b"i"[..], "{known:?}");

        let mut image = Image::default();
        let asked = entries.iter().map(|(key, _)| key.to_vec()).collect();
        image.learn(&[Fetch::Keys(asked)], vec![Fetched::Keys(entries)]).unwrap();
        assert_eq!((image.entry(b"h"), image.entry(b"i")), (Some(Some(value)), None));
    }
}
