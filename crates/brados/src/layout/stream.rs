//! Divides the byte stream of an object into parts, and adds fields to the header for them.
//!
//! The parts are, in order: the header, if it is in the stream; slots and indexes with a known
//! count, in the order of their tables; then one part that can grow. That part is either slots
//! without a count, or the heap that all appended tables share.
//!
//! The header has fields for these parts, after the program's own fields. Slots and indexes in the
//! stream have two fields: the number of the first slot, and how many slots may be in use (`i8i8`).
//! The heap has one field, which lists its first free blocks (`s4`, see `emit/layout.lua`).

use super::legality::{Illegal, Stored};
use super::{HeaderLocation, IndexLocation, Layout, TableLocation};
use crate::ir::CollectionId;
use crate::limits::MAX_STREAM_BYTES;

/// The size in bytes of an entry of an index in the stream: the state of the slot, and the location
/// of the row in the heap.
pub(crate) const INDEX_BYTES: u32 = 16;
/// The greatest size of the heap's field in the header, in bytes: its length, and seven bytes for
/// each size of blocks. There are four sizes for each doubling, from 16 bytes to the whole stream.
const HEAP_FIELD_BYTES: u32 = 4 + 7 * (4 * (MAX_STREAM_BYTES.ilog2() - 4) + 1);
/// Bytes of a layout's signature, before the header's fields.
pub(crate) const SIGNATURE_BYTES: usize = 16;

/// Slots of one width, one after another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slots {
    /// Where the first begins.
    pub base: u32,
    pub width: u32,
    pub count: u32,
    /// The position of the header field that holds the number of the first slot. The next field
    /// holds how many slots are in use.
    pub field: usize,
}

/// The parts of the byte stream.
#[derive(Debug, Default)]
pub(crate) struct Stream {
    /// Bytes of the header, if it is there.
    pub header_bytes: u32,
    /// The slots of tables, and of their indexes.
    pub slots: Vec<(CollectionId, Slots)>,
    /// The offset of the heap, and the position of the field with its free lists.
    pub heap: Option<(u32, usize)>,
    /// The formats of the layout's fields.
    pub format: String,
    /// How many fields.
    pub fields: usize,
}

impl Stream {
    pub fn slots_of(&self, id: CollectionId) -> Option<Slots> {
        self.slots.iter().find(|(own, _)| *own == id).map(|(_, slots)| *slots)
    }

    /// The initial values of the layout's fields.
    pub fn blank(&self) -> Vec<String> {
        let heap = self.heap.iter().map(|_| "\"\"".to_owned());
        self.slots.iter().flat_map(|_| ["0".to_owned(), "0".to_owned()]).chain(heap).collect()
    }

    /// Bytes of the layout's fields at most.
    fn field_bytes(&self) -> u32 {
        16 * self.slots.len() as u32 + self.heap.map_or(0, |_| HEAP_FIELD_BYTES)
    }

    fn add_slots(&mut self, id: CollectionId, base: u32, width: u32, count: u32) {
        self.slots.push((id, Slots { base, width, count, field: self.fields }));
        self.format.push_str("i8i8");
        self.fields += 2;
    }

    fn add_heap(&mut self, base: u32) {
        self.heap = Some((base, self.fields));
        self.format.push_str("s4");
        self.fields += 1;
    }
}

/// A part that grows at the end of the stream.
enum Growing<'a> {
    Slots(CollectionId, &'a str, u32),
    Heap(&'a str),
}

/// Divides the byte stream into the parts of a layout.
///
/// # Errors
/// If two parts would both grow at the end of the stream, or if the stream is too small for the
/// parts.
pub(crate) fn divide(stored: &Stored<'_>, layout: &Layout) -> Result<Stream, Illegal> {
    let mut stream = Stream::default();
    let mut growing: Option<Growing<'_>> = None;
    for id in stored.tables() {
        let name = stored.name(id);
        let (width, count) = match layout.table(name) {
            TableLocation::Map => continue,
            TableLocation::Slots { bytes, count: Some(count) } => (bytes, count),
            TableLocation::Slots { bytes, count: None } => {
                grow(&mut growing, Growing::Slots(id, name, bytes))?;
                continue;
            }
            TableLocation::Appended(IndexLocation::Map) => {
                grow(&mut growing, Growing::Heap(name))?;
                continue;
            }
            TableLocation::Appended(IndexLocation::Stream { count }) => {
                grow(&mut growing, Growing::Heap(name))?;
                (INDEX_BYTES, count)
            }
        };
        // The offset of the slots is set later, because the header before them grows with each part
        // that is added.
        stream.add_slots(id, 0, width, count);
    }
    match growing {
        Some(Growing::Slots(id, _, width)) => stream.add_slots(id, 0, width, u32::MAX),
        Some(Growing::Heap(_)) => stream.add_heap(0),
        None => {}
    }
    if layout.header == HeaderLocation::Stream {
        stream.header_bytes = SIGNATURE_BYTES as u32 + stored.header.size() + stream.field_bytes();
    }
    let base = u64::from(stream.header_bytes);
    place(stored, &mut stream, base)?;
    Ok(stream)
}

/// Gives each part its offset, one after another from `base` on.
fn place(stored: &Stored<'_>, stream: &mut Stream, mut base: u64) -> Result<(), Illegal> {
    let most = u64::from(MAX_STREAM_BYTES);
    for (id, slots) in &mut stream.slots {
        slots.base = base.min(most) as u32;
        let width = u64::from(slots.width);
        if slots.count == u32::MAX {
            slots.count = ((most.saturating_sub(base)) / width) as u32;
        }
        base += width * u64::from(slots.count);
        if base > most || slots.count == 0 {
            let reason = format!("the byte stream has at most {most} bytes, too few for its slots");
            return Err(Illegal::new(stored.name(*id), reason).help("make them fewer or smaller"));
        }
    }
    if let Some((heap, _)) = &mut stream.heap {
        *heap = base as u32;
    }
    Ok(())
}

/// Records the part that grows at the end of the stream, or fails if another part grows there
/// already. The heap is one part, shared by all appended tables.
fn grow<'a>(growing: &mut Option<Growing<'a>>, own: Growing<'a>) -> Result<(), Illegal> {
    let (first, second) = match (&*growing, &own) {
        (None, _) => {
            *growing = Some(own);
            return Ok(());
        }
        (Some(Growing::Heap(_)), Growing::Heap(_)) => return Ok(()),
        (Some(Growing::Slots(_, first, _)), Growing::Slots(_, second, _)) => (*first, *second),
        (Some(Growing::Slots(_, first, _)), Growing::Heap(second)) => (*first, *second),
        (Some(Growing::Heap(second)), Growing::Slots(_, first, _)) => (*first, *second),
    };
    let reason = format!("it and `{second}` would both grow at the end of the byte stream");
    Err(Illegal::new(first, reason).help("say how many slots it has: slots(BYTES, COUNT)"))
}
