//! Runs a transaction on an object of which only some parts have been fetched, and records its
//! changes.
//!
//! If the transaction needs a part that is missing, the view notes what to fetch, and the operation
//! fails. After the fetch, the transaction runs again from the start (see [`crate::transaction`]).
//!
//! **Invariant:** the outcome of a run in which a part was missing is never used. That holds even
//! for a method that catches the error and continues.

use std::collections::BTreeMap;

use bytes::Bytes;
use nacre_object::limits::{MAX_MAP_RANGE_ENTRIES, MAX_OBJECT_BYTES, MAX_OPS, MAX_REPLY_BYTES};
use nacre_object::{
    Error, MapEntry, MapRange, ObjectStat, ObjectView, Result, TransactionView, bounds,
};
use nacre_rados_layout::{Attribute, DraftStream, escape_key};

use crate::ffi::{Change, Fetch, MAX_PARTS};
use crate::transaction::image::{self, Image};
use crate::transaction::missing::Missing;
use crate::transaction::partial_map::PartialMap;

/// How many changes one op makes at most: it creates, cuts and extends the object.
const MAX_CHANGES_OF_OP: usize = 3;
/// How many changes are added at the end: the guard, and the changes of the map.
const MAX_CHANGES_OF_END: usize = 8;
/// How many changes a transaction may record. Methods may make any number of changes, but all of
/// them become parts of one RADOS operation, which has a bound.
const MAX_CHANGES: usize = MAX_PARTS - MAX_CHANGES_OF_END;

const _: () = assert!(MAX_OPS * MAX_CHANGES_OF_OP <= MAX_CHANGES, "ops of a request fit");

/// An object within a transaction.
#[derive(Debug)]
pub struct PartialView<'a> {
    image: &'a Image,
    exists: bool,
    stream: DraftStream,
    map: PartialMap<'a>,
    /// The attributes, once they are needed.
    attributes: Option<BTreeMap<String, Bytes>>,
    header: Option<Bytes>,
    changed: bool,
    /// The changes except those of the map, of which only the final state counts.
    changes: Vec<Change>,
    /// Bytes that the transaction has written.
    charged: usize,
    missing: Missing,
}

/// The result of a run.
#[derive(Debug)]
pub enum Outcome {
    /// It needs to know more.
    Lacks(Vec<Fetch>),
    /// It is as the transaction left it.
    Done {
        /// The changes that give the object its new state; empty if nothing changed.
        changes: Vec<Change>,
        /// Whether it exists then.
        exists: bool,
    },
}

impl<'a> PartialView<'a> {
    /// A transaction that begins.
    pub fn new(image: &'a Image) -> Self {
        Self {
            image,
            exists: image.stat.is_some(),
            stream: DraftStream::unchanged(image.stat.map_or(0, |stat| stat.size)),
            map: PartialMap::new(image),
            attributes: None,
            header: None,
            changed: false,
            changes: vec![],
            charged: 0,
            missing: Missing::default(),
        }
    }

    /// Ends it.
    pub fn finish(self) -> Outcome {
        if !self.missing.is_empty() {
            return Outcome::Lacks(self.missing.into_fetches());
        }
        let (existed, exists) = (self.image.stat.is_some(), self.exists);
        let guard = if existed {
            Change::AssertVersion(self.image.version)
        } else {
            Change::CreateExclusive
        };
        // If the transaction created the object and removed it again, the cluster sees no change.
        if !self.changed || !(existed || exists) {
            return Outcome::Done { changes: vec![], exists };
        }
        let mut changes = vec![guard];
        changes.extend(self.changes);
        if exists {
            changes.extend(self.map.into_changes(self.header));
        }
        if changes.len() == 1 {
            // A transaction may change the object back to its old state, so that no change is left.
            // The object must still get a new version; this change causes it.
            changes.push(Change::Create);
        }
        Outcome::Done { changes, exists }
    }

    fn must_exist(&self) -> Result<()> {
        if self.exists { Ok(()) } else { Err(Error::not_found("no such object")) }
    }

    /// Fails because this part was not fetched yet. If the part can be fetched, the transaction
    /// runs again, and no client sees the error.
    fn lack<T>(&mut self, fetch: Fetch) -> Result<T> {
        let fits = self.missing.data_bytes() + fetch.data_bytes() <= self.image.room();
        if fits {
            self.missing.note(fetch);
        } else if self.missing.is_empty() {
            return Err(image::too_much());
        }
        Err(Error::unavailable("this part of the object is not fetched yet"))
    }

    /// Checks, before an op does anything, that the transaction may write this many bytes more.
    fn charge(&mut self, bytes: usize) -> Result<()> {
        if self.changes.len() + MAX_CHANGES_OF_OP > MAX_CHANGES {
            let text = format!("the transaction makes more than {} changes", self.changes.len());
            return Err(Error::exhausted(text).hint("write less often, and more at a time"));
        }
        bounds::check_transaction_bytes(self.charged + bytes)?;
        self.charged += bytes;
        Ok(())
    }

    /// Records a change that creates the object if it does not exist.
    fn change(&mut self, change: Change) {
        self.touch();
        self.changes.push(change);
    }

    /// Creates the object if it does not exist, and notes that the transaction changes it.
    fn touch(&mut self) {
        if !self.exists {
            self.changes.push(Change::Create);
        }
        self.exists = true;
        self.changed = true;
    }

    fn known_attributes(&mut self) -> Result<&mut BTreeMap<String, Bytes>> {
        if self.attributes.is_none() && self.image.stat.is_some() {
            match &self.image.attributes {
                Some(known) => self.attributes = Some(known.clone()),
                None => return self.lack(Fetch::Attributes),
            }
        }
        Ok(self.attributes.get_or_insert_default())
    }

    /// Extends the stream with zeros.
    fn extend(&mut self, size: u64) {
        if size < MAX_OBJECT_BYTES {
            self.changes.push(Change::Truncate(size));
        } else {
            // RADOS extends to its limit by writing alone.
            let last = Bytes::from_static(&[0]);
            self.changes.push(Change::Write { offset: size - 1, data: last });
        }
    }
}

impl ObjectView for PartialView<'_> {
    fn exists(&mut self) -> Result<bool> {
        Ok(self.exists)
    }

    fn stat(&mut self) -> Result<ObjectStat> {
        self.must_exist()?;
        let modified_micros = self.image.stat.map_or(0, |stat| stat.modified_micros);
        let version = self.image.version;
        Ok(ObjectStat { size: self.stream.size(), modified_micros, version })
    }

    fn version(&mut self) -> Result<u64> {
        Ok(self.image.version)
    }

    fn create(&mut self, exclusive: bool) -> Result<()> {
        match self.exists {
            true if exclusive => Err(Error::exists("the object already exists")),
            true => Ok(()),
            false => {
                self.charge(0)?;
                self.touch();
                Ok(())
            }
        }
    }

    fn remove(&mut self) -> Result<()> {
        self.must_exist()?;
        self.exists = false;
        self.changed = true;
        self.stream = DraftStream::default();
        self.map = PartialMap::none(self.image);
        self.attributes = Some(BTreeMap::new());
        self.header = Some(Bytes::new());
        // The removal makes earlier changes pointless.
        self.changes.clear();
        if self.image.stat.is_some() {
            self.changes.push(Change::Remove);
        }
        Ok(())
    }

    fn read(&mut self, offset: u64, length: u64) -> Result<Bytes> {
        self.must_exist()?;
        let size = self.stream.size();
        let (start, end) = (offset.min(size), offset.saturating_add(length).min(size));
        let Some((first, behind)) = self.stream.needed(start, end) else {
            return Ok(self.stream.read(start, end, start, &Bytes::new()));
        };
        match self.image.data(first, behind - first) {
            Some(base) => Ok(self.stream.read(start, end, first, &base)),
            None => self.lack(Fetch::Data { offset: first, length: (behind - first) as usize }),
        }
    }

    fn write(&mut self, offset: u64, data: Bytes) -> Result<()> {
        let end = bounds::check_stream_end(offset, data.len() as u64)?;
        self.charge(data.len())?;
        if data.is_empty() {
            if end > self.stream.size() {
                return self.truncate(end);
            }
            self.touch();
            return Ok(());
        }
        self.stream.write(offset, data.clone());
        self.change(Change::Write { offset, data });
        Ok(())
    }

    fn write_full(&mut self, data: Bytes) -> Result<()> {
        bounds::check_stream_end(0, data.len() as u64)?;
        self.charge(data.len())?;
        self.stream.write_full(data.clone());
        self.change(Change::WriteFull(data));
        Ok(())
    }

    fn append(&mut self, data: Bytes) -> Result<u64> {
        let offset = self.stream.size();
        self.write(offset, data)?;
        Ok(offset)
    }

    fn truncate(&mut self, size: u64) -> Result<()> {
        bounds::check_stream_end(size, 0)?;
        self.charge(0)?;
        self.touch();
        if self.stream.size() < size {
            self.extend(size);
        } else if size < self.stream.size() {
            self.changes.push(Change::Truncate(size));
        }
        self.stream.truncate(size);
        Ok(())
    }

    fn zero(&mut self, offset: u64, length: u64) -> Result<()> {
        self.must_exist()?;
        self.charge(0)?;
        let size = self.stream.size();
        let (start, end) = (offset.min(size), offset.saturating_add(length).min(size));
        self.touch();
        if start < end {
            self.stream.zero(start, end);
            if end < size {
                self.changes.push(Change::Zero { offset: start, length: end - start });
            } else {
                // RADOS treats zeros up to the end of the data as a cut.
                self.changes.push(Change::Truncate(start));
                self.extend(size);
            }
        }
        Ok(())
    }

    fn attribute(&mut self, name: &str) -> Result<Option<Bytes>> {
        bounds::check_attribute_name(name)?;
        self.must_exist()?;
        Ok(self.known_attributes()?.get(name).cloned())
    }

    fn attributes(&mut self) -> Result<Vec<(String, Bytes)>> {
        self.must_exist()?;
        let all = self.known_attributes()?.iter();
        Ok(all.map(|(name, value)| (name.clone(), value.clone())).collect())
    }

    fn set_attribute(&mut self, name: &str, value: Bytes) -> Result<()> {
        bounds::check_attribute_name(name)?;
        bounds::check_attribute_value(&value)?;
        let known = self.known_attributes()?;
        if !known.contains_key(name) {
            bounds::check_attribute_count(known.len() + 1)?;
        }
        self.charge(name.len() + value.len())?;
        self.known_attributes()?.insert(name.to_owned(), value.clone());
        let Attribute { stored_name, preamble } = Attribute::named(name);
        let value =
            if preamble.is_empty() { value } else { [&preamble[..], &value].concat().into() };
        self.change(Change::SetAttribute { name: stored_name, value });
        Ok(())
    }

    fn remove_attribute(&mut self, name: &str) -> Result<()> {
        bounds::check_attribute_name(name)?;
        self.must_exist()?;
        if !self.known_attributes()?.contains_key(name) {
            return Err(Error::not_found(format!("no attribute {name:?}")));
        }
        self.charge(name.len())?;
        self.known_attributes()?.remove(name);
        self.change(Change::RemoveAttribute(Attribute::named(name).stored_name));
        Ok(())
    }

    fn map_get(&mut self, key: &[u8]) -> Result<Option<Bytes>> {
        bounds::check_map_key(key)?;
        self.must_exist()?;
        match self.map.get(key) {
            Some(value) => Ok(value),
            None => self.lack(Fetch::Keys(vec![escape_key(key)])),
        }
    }

    fn map_set(&mut self, key: &[u8], value: Bytes) -> Result<()> {
        bounds::check_map_key(key)?;
        bounds::check_map_value(&value)?;
        self.charge(key.len() + value.len())?;
        self.map.set(key, Some(value));
        self.touch();
        Ok(())
    }

    fn map_remove(&mut self, key: &[u8]) -> Result<()> {
        bounds::check_map_key(key)?;
        self.must_exist()?;
        self.charge(key.len())?;
        self.map.set(key, None);
        self.touch();
        Ok(())
    }

    fn map_clear(&mut self) -> Result<()> {
        self.must_exist()?;
        self.map.clear();
        self.header = Some(Bytes::new());
        self.touch();
        Ok(())
    }

    fn map_range(&mut self, after: &[u8], prefix: &[u8], limit: usize) -> Result<MapRange> {
        bounds::check_map_range(after, prefix)?;
        self.must_exist()?;
        let limit = limit.min(MAX_MAP_RANGE_ENTRIES);
        match self.map.range(after, prefix, limit, MAX_REPLY_BYTES) {
            Ok(range) => Ok(range),
            Err(fetch) => self.lack(fetch),
        }
    }

    fn map_last(&mut self, prefix: &[u8]) -> Result<Option<MapEntry>> {
        bounds::check_map_range(&[], prefix)?;
        self.must_exist()?;
        match self.map.last(prefix) {
            Ok(last) => Ok(last),
            Err(fetch) => self.lack(fetch),
        }
    }

    fn map_header(&mut self) -> Result<Bytes> {
        self.must_exist()?;
        match (&self.header, &self.image.header) {
            (Some(header), _) | (None, Some(header)) => Ok(header.clone()),
            (None, None) if self.image.stat.is_some() => self.lack(image::header()),
            (None, None) => Ok(Bytes::new()),
        }
    }

    fn set_map_header(&mut self, value: Bytes) -> Result<()> {
        bounds::check_map_value(&value)?;
        self.charge(value.len())?;
        self.header = Some(value);
        self.touch();
        Ok(())
    }
}

/// The engine declares that it has no snapshots, so no request that needs one gets here.
impl TransactionView for PartialView<'_> {}
