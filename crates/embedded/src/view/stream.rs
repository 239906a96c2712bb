//! The byte stream of an object: extents, holes and a tail of small appends, or a few bytes in the
//! head.
//!
//! A stream of at most [`WHOLE_MAX_BYTES`] that is written at once is kept in the object's head.
//! Once part of it is changed, it is divided into extents and a tail.
//!
//! Any other stream is a map from offsets to *extents*. Bytes that no extent covers read as zeros.
//! An extent lies within one *block*, the range between two multiples of [`PAYLOAD_MAX_BYTES`]. A
//! small extent is stored in the tables, a large one in the journal. A write into the middle of an
//! extent divides it. The remaining parts still refer to the old payload.
//!
//! Small appends do not become extents one by one. Each goes to a numbered *slot*, which is one
//! table entry. Once the slots hold [`FOLD_BYTES`], they are combined (*folded*) into one extent.
//! The next tail uses the same slot keys again. So a stream of small appends leaves no tombstones,
//! rewrites each byte once, and reads like a stream that was written in large pieces.
//!
//! **Invariants:**
//! - A stream in the head has neither extents nor slots.
//! - Extents do not overlap, and end at or before `size`.
//! - Slots, if there are any, cover `tail_start..size`, and no extent does.
//! - Entries of slots from `tail_slots` on are left over from earlier tails and mean nothing.

use std::ops::Bound;

use bytes::Bytes;
use nacre_object::limits::MAX_OBJECT_BYTES;
use nacre_object::{Error, Result, bounds};

use super::Transaction;
use super::nodes::Dropped;
use crate::entry::head::{Content, WHOLE_MAX_BYTES};
use crate::entry::key::{self, Key, NodeId};
use crate::entry::layers::Direction;
use crate::entry::value::{PAYLOAD_MAX_BYTES, PAYLOAD_MIN_BYTES, Value};
use crate::errors;
use crate::journal::payload_reader::PayloadReader;

/// How many bytes of small appends are combined into one extent. Measured (`examples/layout.rs`):
/// with a smaller value, long reads are slower; with a larger one, the append that combines them is
/// noticeably slow.
const FOLD_BYTES: u64 = 32 * 1024;
/// Small appends are combined into an extent at the latest when there are this many, because a read
/// of them reads every one.
const MAX_SLOTS: u32 = 256;

/// The number of extents that one transaction may overwrite or cut off. The transaction holds them
/// in memory and logs their removal, so there must be a bound. The longest stream has this many
/// extents if each holds the smallest payload.
const MAX_CLEARED_EXTENTS: usize = MAX_OBJECT_BYTES as usize / PAYLOAD_MIN_BYTES;

const _: () = assert!(FOLD_BYTES <= PAYLOAD_MAX_BYTES as u64);
// A stream in the head is never a payload of the journal.
const _: () = assert!(WHOLE_MAX_BYTES < PAYLOAD_MIN_BYTES);

/// An extent, or the part of one that matters.
#[derive(Debug)]
struct Extent {
    key: Key,
    start: u64,
    value: Value,
}

impl Extent {
    fn of((key, value): (Key, Value)) -> Self {
        Self { start: key::extent_offset(&key), key, value }
    }

    fn end(&self) -> u64 {
        self.start + self.value.len()
    }
}

/// Copies an extent's bytes to their place in `out`, which begins at offset `start` of the stream.
fn copy_extent(
    extent: &Extent,
    payloads: &mut PayloadReader<'_>,
    start: u64,
    out: &mut [u8],
) -> Result<()> {
    let (from, to) = (extent.start.max(start), extent.end().min(start + out.len() as u64));
    let place = &mut out[(from - start) as usize..(to - start) as usize];
    match extent.value.trimmed(from - extent.start, to - extent.start) {
        Value::Inline(data) => place.copy_from_slice(&data),
        Value::Pieces(pieces) => payloads.read_pieces(&pieces, place)?,
    }
    Ok(())
}

impl Transaction<'_> {
    pub(super) fn read_stream(&self, offset: u64, length: u64) -> Result<Bytes> {
        let content = self.existing()?;
        let start = offset.min(content.size);
        let end = offset.saturating_add(length).min(content.size);
        if let Some(whole) = &content.whole {
            return Ok(whole.slice(start as usize..end.max(start) as usize));
        }
        let Some(node) = content.stream else {
            return Ok(Bytes::from(vec![0; (end - start) as usize]));
        };
        let extents_end = content.extents_end();
        let mut extents = self.extents(node, start, end.min(extents_end))?.peekable();
        if let Some(Ok(only)) = extents.peek()
            && only.start <= start
            && end <= only.end()
        {
            let part = only.value.trimmed(start - only.start, end - only.start);
            return self.load(&part);
        }
        let mut out = vec![0; (end - start) as usize];
        let mut payloads = PayloadReader::new(self.segments);
        for extent in extents {
            copy_extent(&extent?, &mut payloads, start, &mut out)?;
        }
        if end > extents_end {
            self.copy_tail(content, node, start, &mut out)?;
        }
        Ok(out.into())
    }

    /// Copies bytes of the tail, from offset `start` on, into `out`.
    fn copy_tail(&self, content: &Content, node: NodeId, start: u64, out: &mut [u8]) -> Result<()> {
        let end = start + out.len() as u64;
        let mut at = content.tail_start;
        for data in self.slots(node, content.tail_slots) {
            let data = data?;
            let (from, to) = (at.max(start), (at + data.len() as u64).min(end));
            if from < to {
                let place = &mut out[(from - start) as usize..(to - start) as usize];
                place.copy_from_slice(&data[(from - at) as usize..(to - at) as usize]);
            }
            at += data.len() as u64;
            if at >= end {
                break;
            }
        }
        Ok(())
    }

    /// Yields the bytes of the slots (small appends), in order. Looks each slot up: a scan would
    /// also read old versions of every slot, because the same keys are used again and again.
    fn slots(&self, node: NodeId, count: u32) -> impl Iterator<Item = Result<Bytes>> {
        (0..count).map(move |slot| {
            let missing = || {
                Error::corrupt(format!("small append {slot} of the stream's tail is missing"))
                    .hint(errors::FIND_DAMAGE)
            };
            self.layers.get(&key::slot(node, slot))?.ok_or_else(missing)?.into_inline()
        })
    }

    /// The bytes in the slots.
    pub(super) fn read_tail(&self, content: &Content) -> Result<Bytes> {
        let mut tail = vec![0; (content.size - content.tail_start) as usize];
        if let Some(node) = content.stream {
            self.copy_tail(content, node, content.tail_start, &mut tail)?;
        }
        Ok(tail.into())
    }

    /// Extents that cover part of `start..end`, in order.
    fn extents(
        &self,
        node: NodeId,
        start: u64,
        end: u64,
    ) -> Result<impl Iterator<Item = Result<Extent>>> {
        let first = match start < end {
            true => self.extent_at(node, start)?,
            false => None,
        };
        let from = first.as_ref().map_or(start, Extent::end);
        let rest = (from < end).then(|| {
            let (first, past) = (key::extent(node, from), key::extent(node, end));
            let range = (Bound::Included(first.as_slice()), Bound::Excluded(past.as_slice()));
            self.layers.scan(range, Direction::Forward)
        });
        let rest = rest.into_iter().flatten().map(|entry| entry.map(Extent::of));
        Ok(first.map(Ok).into_iter().chain(rest))
    }

    /// The extent that has the byte at `offset`.
    fn extent_at(&self, node: NodeId, offset: u64) -> Result<Option<Extent>> {
        // Aligned reads and writes find the extent they start with by its key.
        let key = key::extent(node, offset);
        if let Some(value) = self.layers.get(&key)? {
            return Ok(Some(Extent { key: key.into(), start: offset, value }));
        }
        let block = key::extent(node, offset - offset % PAYLOAD_MAX_BYTES as u64);
        let range = (Bound::Included(block.as_slice()), Bound::Excluded(key.as_slice()));
        let before = self.layers.scan(range, Direction::Backward).next().transpose()?;
        Ok(before.map(Extent::of).filter(|before| before.end() > offset))
    }

    pub(super) fn write_stream(&mut self, offset: u64, data: Bytes) -> Result<()> {
        let end = bounds::check_stream_end(offset, data.len() as u64)?;
        self.charge(data.len())?;
        let size = self.writing()?.size;
        if data.is_empty() && offset <= size {
            return Ok(());
        }
        self.divide_stream()?;
        let node = self.stream_node()?;
        if offset == size && data.len() < PAYLOAD_MIN_BYTES {
            return self.append_slot(node, data);
        }
        if end > self.writing()?.tail_start {
            self.fold_tail(node)?;
        }
        self.clear_extents(node, offset, end.min(size))?;
        self.put_extents(node, offset, data);
        let content = self.writing()?;
        content.size = content.size.max(end);
        Ok(())
    }

    /// The node of the stream, which is made if there is none.
    fn stream_node(&mut self) -> Result<NodeId> {
        if let Some(node) = self.writing()?.stream {
            return Ok(node);
        }
        let node = self.new_node();
        self.writing()?.stream = Some(node);
        Ok(node)
    }

    /// Moves a stream from the head to extents of its own.
    fn divide_stream(&mut self) -> Result<()> {
        if let Some(whole) = self.writing()?.whole.take() {
            let node = self.stream_node()?;
            self.put_extents(node, 0, whole);
        }
        Ok(())
    }

    fn append_slot(&mut self, node: NodeId, data: Bytes) -> Result<()> {
        let content = self.writing()?;
        if content.tail_slots == 0 {
            content.tail_start = content.size;
        }
        let slot = content.tail_slots;
        content.tail_slots += 1;
        content.size += data.len() as u64;
        let is_full = content.size - content.tail_start >= FOLD_BYTES || slot + 1 >= MAX_SLOTS;
        self.layers.put(key::slot(node, slot), Value::Inline(data));
        if is_full { self.fold_tail(node) } else { Ok(()) }
    }

    /// Combines the slots into one extent.
    fn fold_tail(&mut self, node: NodeId) -> Result<()> {
        let content = self.existing()?.clone();
        if content.tail_slots == 0 {
            return Ok(());
        }
        let tail = self.read_tail(&content)?;
        self.put_extents(node, content.tail_start, tail);
        self.writing()?.tail_slots = 0;
        Ok(())
    }

    /// Stores bytes in a range without extents. Returns how many extents they became. Extents end
    /// at block borders, so a later write of whole blocks replaces whole extents.
    pub(super) fn put_extents(&mut self, node: NodeId, mut offset: u64, mut data: Bytes) -> usize {
        let mut count = 0;
        while !data.is_empty() {
            let to_boundary = PAYLOAD_MAX_BYTES - (offset % PAYLOAD_MAX_BYTES as u64) as usize;
            let part = data.split_to(to_boundary.min(data.len()));
            let next = offset + part.len() as u64;
            self.layers.put(key::extent(node, offset), Value::of(part));
            offset = next;
            count += 1;
        }
        count
    }

    /// Makes a hole of `start..end`, cutting extents that reach over its ends.
    fn clear_extents(&mut self, node: NodeId, start: u64, end: u64) -> Result<()> {
        let extents = self.extents(node, start, end)?.take(MAX_CLEARED_EXTENTS + 1);
        let extents: Vec<Extent> = extents.collect::<Result<_>>()?;
        self.cleared_extents += extents.len();
        if self.cleared_extents > MAX_CLEARED_EXTENTS {
            let text = "the transaction overwrites or cuts off too many small writes";
            return Err(Error::exhausted(text).hint(format!(
                "change at most {MAX_CLEARED_EXTENTS} of them at a time, or write the whole object again"
            )));
        }
        for extent in extents {
            self.release(&extent.key, extent.value.pieces());
            if extent.start < start {
                let left = extent.value.trimmed(0, start - extent.start);
                self.layers.put(extent.key.clone(), left);
            } else {
                self.layers.delete(extent.key.clone());
            }
            if extent.end() > end {
                let right = extent.value.trimmed(end - extent.start, extent.value.len());
                self.layers.put(key::extent(node, end), right);
            }
        }
        Ok(())
    }

    pub(super) fn replace_stream(&mut self, data: Bytes) -> Result<()> {
        let size = bounds::check_stream_end(0, data.len() as u64)?;
        self.charge(data.len())?;
        let fits_head = !data.is_empty() && data.len() <= WHOLE_MAX_BYTES;
        match self.only_extent()? {
            // The new extent has the same key, so this one need not be deleted.
            Some(only) if !data.is_empty() && !fits_head => {
                self.release(&only.key, only.value.pieces());
            }
            _ => self.empty_stream()?,
        }
        self.writing()?.size = size;
        if fits_head {
            self.writing()?.whole = Some(data);
        } else if !data.is_empty() {
            let node = self.stream_node()?;
            self.put_extents(node, 0, data);
        }
        Ok(())
    }

    /// Returns the extent that is the whole stream, if there is one, as in an object that was
    /// written at once. Finds it without a scan.
    fn only_extent(&mut self) -> Result<Option<Extent>> {
        let content = self.writing()?;
        let (size, slots) = (content.size, content.tail_slots);
        let Some(node) = content.stream.filter(|_| size > 0 && slots == 0) else { return Ok(None) };
        let key = key::extent(node, 0);
        let extent =
            self.layers.get(&key)?.map(|value| Extent { key: key.into(), start: 0, value });
        // Extents do not overlap, and none ends after the stream.
        Ok(extent.filter(|extent| extent.end() == size))
    }

    pub(super) fn empty_stream(&mut self) -> Result<()> {
        let content = self.writing()?;
        content.size = 0;
        content.tail_slots = 0;
        if content.whole.take().is_some() {
            // Its node is empty.
            return Ok(());
        }
        if let Some(node) = content.stream
            && self.drop_node(node)? == Dropped::Abandoned
        {
            self.writing()?.stream = None;
        }
        Ok(())
    }

    pub(super) fn resize_stream(&mut self, size: u64) -> Result<()> {
        bounds::check_stream_end(size, 0)?;
        if size == 0 {
            return self.empty_stream();
        }
        self.divide_stream()?;
        let content = self.writing()?;
        let old_size = content.size;
        if let Some(node) = content.stream {
            if size <= content.tail_start && content.tail_slots > 0 {
                content.tail_slots = 0;
            } else if size != old_size {
                self.fold_tail(node)?;
            }
            self.clear_extents(node, size, old_size)?;
        }
        self.writing()?.size = size;
        Ok(())
    }

    pub(super) fn zero_stream(&mut self, offset: u64, length: u64) -> Result<()> {
        self.changing()?;
        self.divide_stream()?;
        let content = self.changing()?;
        let end = offset.saturating_add(length).min(content.size);
        let Some(node) = content.stream.filter(|_| offset < end) else { return Ok(()) };
        if end > content.tail_start {
            self.fold_tail(node)?;
        }
        self.clear_extents(node, offset, end)
    }
}
