//! The native class `copied`, whose objects store copies of other objects. A node calls this class
//! for the switches of other nodes.
//!
//! | method | input | output |
//! | --- | --- | --- |
//! | `write` | a [`CopyWrite`]: the next piece of a copy, or the next change of it | nothing |
//! | `drop` | a [`CopyDrop`] | nothing |
//!
//! The object's bytes are the bytes of the copy. The map's header is a [`CopyHead`]. To read a
//! copy, a node reads header and bytes in one request, and checks the state that the header names.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use nacre_object::{
    CallContext, CallReply, ClassName, Error, MethodAccess, NativeClass, ObjectId, ObjectView,
    Result,
};

use super::head::{CopyData, CopyHead, CopyStep, CopyTag, CopyWrite, put_tag, take_tag};

/// The name of the class.
pub const COPIED_CLASS: &str = "copied";

/// The class of objects that store copies.
///
/// # Panics
/// Never: its names are well formed.
pub fn copied_class() -> NativeClass {
    NativeClass::new(ClassName::new(COPIED_CLASS).expect("a literal"))
        .brief()
        .method("write", MethodAccess::ReadWrite, write)
        .method("drop", MethodAccess::ReadWrite, drop_copy)
}

/// The input of `drop`: a copy that the switch does not need any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CopyDrop {
    /// A copy with a later tag is kept.
    pub tag: CopyTag,
}

/// What follows in an encoded [`CopyWrite`].
const BYTES: u8 = 0;
const ZEROS: u8 = 1;

impl CopyWrite {
    /// Encodes the input of `write`: the tag, the number, the size, the offset, the length of the
    /// home's name, that name, and what follows. That is 0 and the bytes, or 1 and the number of
    /// zeros. Numbers have 8 bytes in big-endian order, the length 4 bytes, and 0 or 1 one byte.
    pub fn encode(&self) -> Bytes {
        let home = self.home.to_string();
        let room = if let CopyData::Bytes(bytes) = &self.data { bytes.len() } else { 0 };
        let mut out = BytesMut::with_capacity(room + home.len() + 53);
        put_tag(&mut out, self.tag);
        out.put_u64(self.number);
        out.put_u64(self.size);
        out.put_u64(self.offset);
        out.put_u32(home.len() as u32);
        out.put_slice(home.as_bytes());
        match &self.data {
            CopyData::Bytes(bytes) => {
                out.put_u8(BYTES);
                out.put_slice(bytes);
            }
            CopyData::Zeros(length) => {
                out.put_u8(ZEROS);
                out.put_u64(*length);
            }
        }
        out.freeze()
    }

    fn decode(mut input: Bytes) -> Result<Self> {
        let tag = take_tag(&mut input).ok_or_else(malformed)?;
        let number = input.try_get_u64().map_err(|_| malformed())?;
        let size = input.try_get_u64().map_err(|_| malformed())?;
        let offset = input.try_get_u64().map_err(|_| malformed())?;
        let length = input.try_get_u32().map_err(|_| malformed())? as usize;
        if length > input.len() {
            return Err(malformed());
        }
        let home = input.split_to(length);
        let home: ObjectId = std::str::from_utf8(&home).map_err(|_| malformed())?.parse()?;
        let data = match input.try_get_u8().map_err(|_| malformed())? {
            BYTES => CopyData::Bytes(input),
            ZEROS => CopyData::Zeros(input.try_get_u64().map_err(|_| malformed())?),
            _ => return Err(malformed()),
        };
        Ok(Self { home, tag, number, size, offset, data })
    }
}

impl CopyDrop {
    /// Encodes the input of `drop`.
    pub fn encode(&self) -> Bytes {
        self.tag.encode()
    }
}

fn malformed() -> Error {
    Error::invalid("the input of a method of the class copied is malformed")
}

fn done() -> Result<CallReply> {
    Ok(CallReply { status: 0, output: Bytes::new() })
}

fn stored(view: &mut dyn ObjectView) -> Result<Option<CopyHead>> {
    match view.exists()? {
        true => CopyHead::decode(view.map_header()?).map(Some),
        false => Ok(None),
    }
}

fn write(input: Bytes, view: &mut dyn ObjectView, _: &CallContext) -> Result<CallReply> {
    let write = CopyWrite::decode(input)?;
    let before = stored(view)?;
    let head = match CopyHead::after(before.as_ref(), &write)? {
        CopyStep::Continue(head) => head,
        CopyStep::Begin(head) => {
            view.create(false)?;
            view.truncate(0)?;
            head
        }
    };
    view.set_map_header(head.encode())?;
    match write.data {
        CopyData::Bytes(bytes) if !bytes.is_empty() => view.write(write.offset, bytes)?,
        CopyData::Zeros(length) if length > 0 => view.zero(write.offset, length)?,
        CopyData::Bytes(_) | CopyData::Zeros(_) => {}
    }
    done()
}

fn drop_copy(input: Bytes, view: &mut dyn ObjectView, _: &CallContext) -> Result<CallReply> {
    let tag = CopyTag::decode(input)?;
    if stored(view)?.is_some_and(|head| head.tag <= tag) {
        view.remove()?;
    }
    done()
}

#[cfg(test)]
mod tests {
    use nacre_conformance::MemoryObject;
    use nacre_object::{EntityName, ErrorKind};

    use super::super::head::CopyState;
    use super::*;
    use crate::switch::Term;

    fn context() -> CallContext {
        CallContext { source: EntityName::local(), now_micros: 1 }
    }

    fn tag(term: u64, number: u64) -> CopyTag {
        CopyTag { term: Term(term), number }
    }

    fn state(tag: CopyTag, applied: u64) -> CopyState {
        CopyState { tag, applied }
    }

    fn send(object: &mut MemoryObject, one: CopyWrite) -> Result<()> {
        write(one.encode(), object, &context()).map(drop)
    }

    /// Sends a write of a copy of 6 bytes.
    fn put(
        object: &mut MemoryObject,
        tag: CopyTag,
        number: u64,
        (offset, data): (u64, &str),
    ) -> Result<()> {
        let home = "data/x".parse().unwrap();
        let data = CopyData::Bytes(Bytes::copy_from_slice(data.as_bytes()));
        send(object, CopyWrite { home, tag, number, size: 6, offset, data })
    }

    fn head(object: &mut MemoryObject) -> CopyHead {
        stored(object).unwrap().unwrap()
    }

    #[test]
    fn a_copy_serves_reads_of_the_state_that_it_has() {
        let mut object = MemoryObject::default();
        put(&mut object, tag(1, 1), 0, (0, "abc")).unwrap();
        assert!(!head(&mut object).serves(state(tag(1, 1), 2)));
        put(&mut object, tag(1, 1), 1, (3, "def")).unwrap();
        assert!(head(&mut object).serves(state(tag(1, 1), 2)));
        for other in [state(tag(1, 1), 1), state(tag(1, 2), 2), state(tag(2, 1), 2)] {
            assert!(!head(&mut object).serves(other));
        }
        assert_eq!(object.read(0, 9).unwrap(), "abcdef");
    }

    #[test]
    fn a_write_that_comes_again_or_late_changes_nothing() {
        let mut object = MemoryObject::default();
        put(&mut object, tag(1, 1), 0, (0, "abcdef")).unwrap();
        put(&mut object, tag(1, 1), 1, (2, "X")).unwrap();
        put(&mut object, tag(1, 1), 2, (2, "Y")).unwrap();
        for (number, write) in [(0, (0, "abcdef")), (1, (2, "X")), (2, (2, "Y"))] {
            let late = put(&mut object, tag(1, 1), number, write).unwrap_err();
            assert_eq!(late.kind(), ErrorKind::Stale);
        }
        assert_eq!(object.read(0, 9).unwrap(), "abYdef");
    }

    #[test]
    fn an_update_lengthens_a_copy_or_writes_zeros() {
        let mut object = MemoryObject::default();
        put(&mut object, tag(1, 1), 0, (0, "abcdef")).unwrap();
        let write = |number, size, offset, data| CopyWrite {
            home: "data/x".parse().unwrap(),
            tag: tag(1, 1),
            number,
            size,
            offset,
            data,
        };
        send(&mut object, write(1, 9, 8, CopyData::Bytes(Bytes::from_static(b"i")))).unwrap();
        send(&mut object, write(2, 9, 1, CopyData::Zeros(2))).unwrap();
        send(&mut object, write(3, 9, 9, CopyData::Zeros(0))).unwrap();
        assert_eq!(object.read(0, 20).unwrap(), "a\0\0def\0\0i");
        let head = head(&mut object);
        assert_eq!((head.size, head.applied), (9, 4));
    }

    #[test]
    fn a_later_copy_replaces_an_earlier_one_and_not_the_other_way_round() {
        let mut object = MemoryObject::default();
        put(&mut object, tag(1, 9), 0, (0, "abcdef")).unwrap();
        put(&mut object, tag(2, 1), 0, (0, "xyz")).unwrap();
        assert_eq!(object.read(0, 9).unwrap(), "xyz", "the bytes of the earlier copy are gone");
        for number in [0, 1] {
            let late = put(&mut object, tag(1, 9), number, (0, "abcdef")).unwrap_err();
            assert_eq!(late.kind(), ErrorKind::Stale);
        }
        assert_eq!(object.read(0, 9).unwrap(), "xyz");
    }

    #[test]
    fn a_write_without_the_writes_before_it_is_refused() {
        let mut object = MemoryObject::default();
        let early = put(&mut object, tag(1, 1), 1, (3, "def")).unwrap_err();
        assert_eq!(early.kind(), ErrorKind::Conflict);
        assert!(!object.exists().unwrap());
        put(&mut object, tag(1, 1), 0, (0, "a")).unwrap();
        let gap = put(&mut object, tag(1, 1), 2, (1, "c")).unwrap_err();
        assert_eq!(gap.kind(), ErrorKind::Conflict);
        let long = put(&mut object, tag(1, 1), 1, (1, "too long")).unwrap_err();
        assert_eq!(long.kind(), ErrorKind::Invalid);
    }

    #[test]
    fn a_drop_removes_a_copy_unless_it_is_later() {
        let mut object = MemoryObject::default();
        put(&mut object, tag(1, 5), 0, (0, "a")).unwrap();
        let mut drop_at = |tag| {
            drop_copy(CopyDrop { tag }.encode(), &mut object, &context()).unwrap();
            object.exists().unwrap()
        };
        assert!(drop_at(tag(1, 4)));
        assert!(!drop_at(tag(1, 5)));
        assert!(!drop_at(tag(1, 5)), "a repeated drop changes nothing");
    }
}
