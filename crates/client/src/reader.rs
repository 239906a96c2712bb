//! Reads an object in several requests, all of one version.
//!
//! The first request returns the object's version, and each further request is guarded by it. So a
//! reader gets parts of one version, or `Conflict` once the object has changed.
//!
//! A reader that has returned parts cannot start again. [`Object::read_all`] can, because it
//! returns nothing before it has everything.

use std::cmp::min;

use bytes::{Bytes, BytesMut};
use nacre_object::limits::{MAX_MAP_RANGE_ENTRIES, MAX_REPLY_BYTES};
use nacre_object::{Error, ErrorKind, MapRange, Op, OpResult, Reply, Result};

use crate::Object;

/// How many bytes one request reads. A reply can carry no more, and most objects need one request.
const PART_BYTES: u64 = MAX_REPLY_BYTES as u64;
/// How many times [`Object::read_all`] reads an object that changes during the read.
const MAX_READ_ATTEMPTS: u32 = 8;

impl Object {
    /// Reads bytes `offset..offset + length`, or all from `offset` on, part by part.
    pub fn reader(&self, offset: u64, length: Option<u64>) -> ObjectReader {
        let end = length.map_or(u64::MAX, |length| offset.saturating_add(length));
        ObjectReader { version: OneVersion::of(self), at: offset, end }
    }

    /// Reads the map's entries with `prefix` and key greater than `after`, page by page.
    pub fn map_reader(&self, after: impl Into<Bytes>, prefix: impl Into<Bytes>) -> MapReader {
        let (after, prefix) = (after.into(), prefix.into());
        MapReader { version: OneVersion::of(self), after, prefix, has_more: true }
    }

    /// Reads bytes `offset..offset + length` of one version, or all bytes from `offset` on if
    /// `length` is `None`. Starts again a few times if the object changes meanwhile.
    ///
    /// # Errors
    /// `Conflict` if it changed each time; those of [`Object::read`].
    pub async fn read_all(&self, offset: u64, length: Option<u64>) -> Result<Bytes> {
        let mut attempt = 1;
        loop {
            match self.reader(offset, length).rest().await {
                Err(error)
                    if error.kind() == ErrorKind::Conflict && attempt < MAX_READ_ATTEMPTS =>
                {
                    attempt += 1;
                }
                outcome => return outcome,
            }
        }
    }
}

/// Part of an object's byte stream, read part by part.
#[derive(Debug)]
pub struct ObjectReader {
    version: OneVersion,
    at: u64,
    end: u64,
}

impl ObjectReader {
    /// The next bytes; `None` at the end.
    ///
    /// # Errors
    /// `Conflict` if the object has changed since the first part; those of [`Object::read`].
    pub async fn next(&mut self) -> Result<Option<Bytes>> {
        if self.at >= self.end {
            return Ok(None);
        }
        let length = min(PART_BYTES, self.end - self.at);
        let ops = vec![Op::Read { offset: self.at, length }, Op::Stat];
        let reply = self.version.submit(ops).await?;
        let Ok([OpResult::Data(data), OpResult::Stat(stat)]) =
            <[OpResult; 2]>::try_from(reply.results)
        else {
            return Err(self.version.no_answer("read"));
        };
        self.at += data.len() as u64;
        self.end = min(self.end, stat.size);
        Ok((!data.is_empty()).then_some(data))
    }

    async fn rest(mut self) -> Result<Bytes> {
        let first = self.next().await?.unwrap_or_default();
        if self.at >= self.end {
            return Ok(first);
        }
        let mut all = BytesMut::from(first);
        while let Some(data) = self.next().await? {
            all.extend_from_slice(&data);
        }
        Ok(all.freeze())
    }
}

/// Entries of an object's map, read page by page.
#[derive(Debug)]
pub struct MapReader {
    version: OneVersion,
    after: Bytes,
    prefix: Bytes,
    has_more: bool,
}

impl MapReader {
    /// The next entries: at most `limit`, and at most what one reply carries. `None` at the end.
    ///
    /// # Errors
    /// `Conflict` if the object has changed since the first page; those of [`Object::map_range`].
    pub async fn next(&mut self, limit: usize) -> Result<Option<MapRange>> {
        if !self.has_more {
            return Ok(None);
        }
        let limit = min(limit, MAX_MAP_RANGE_ENTRIES) as u32;
        let (after, prefix) = (self.after.clone(), self.prefix.clone());
        let mut reply = self.version.submit(vec![Op::MapRange { after, prefix, limit }]).await?;
        let Some(OpResult::Range(range)) = reply.results.pop() else {
            return Err(self.version.no_answer("map-range"));
        };
        self.has_more = range.more;
        if let Some(last) = range.entries.last() {
            self.after = last.key.clone();
        }
        Ok(Some(range))
    }
}

/// Reads one version of an object: the version that the first request finds.
#[derive(Debug)]
struct OneVersion {
    object: Object,
    known: Option<u64>,
}

impl OneVersion {
    fn of(object: &Object) -> Self {
        Self { object: object.clone(), known: None }
    }

    /// Runs ops on the version that the first request found. Returns the reply.
    async fn submit(&mut self, mut ops: Vec<Op>) -> Result<Reply> {
        let Some(version) = self.known else {
            let reply = self.object.submit(ops).await?;
            self.known = Some(reply.version);
            return Ok(reply);
        };
        ops.insert(0, Op::AssertVersion(version));
        let mut reply = self.object.submit(ops).await.map_err(|error| match error.kind() {
            ErrorKind::Conflict | ErrorKind::NotFound => self.changed(),
            _ => error,
        })?;
        if reply.results.is_empty() {
            return Err(self.no_answer("assert-version"));
        }
        reply.results.remove(0);
        Ok(reply)
    }

    fn changed(&self) -> Error {
        Error::conflict("the object was changed while it was read")
            .during("read")
            .on(self.object.id())
            .hint("read it again; if it is always being written, read a snapshot of it")
    }

    fn no_answer(&self, operation: &'static str) -> Error {
        crate::object::no_answer(operation).on(self.object.id())
    }
}
