//! The native class `copied`, whose objects store copies of other objects. A node calls this class
//! for the switches of other nodes.
//!
//! | method | input | output |
//! | --- | --- | --- |
//! | `write` | a [`CopyWrite`]: the next piece of a copy | nothing |
//! | `drop` | a [`CopyDrop`] | nothing |
//!
//! The object's bytes are the bytes of the copy. The map's header is a [`CopyHead`]. To read a
//! copy, a node reads header and bytes in one request, and checks the tag.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use nacre_object::{
    CallContext, CallReply, ClassName, Error, MethodAccess, NativeClass, ObjectId, ObjectView,
    Result,
};

use super::head::{CopyHead, CopyStep, CopyTag, CopyWrite, put_tag, take_tag};

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

impl CopyWrite {
    /// Encodes the input of `write`: the tag, the size, the offset, the length of the home's name,
    /// that name, and the bytes. Numbers have 8 bytes in big-endian order, the length 4 bytes.
    pub fn encode(&self) -> Bytes {
        let home = self.home.to_string();
        let mut out = BytesMut::with_capacity(self.data.len() + home.len() + 36);
        put_tag(&mut out, self.tag);
        out.put_u64(self.size);
        out.put_u64(self.offset);
        out.put_u32(home.len() as u32);
        out.put_slice(home.as_bytes());
        out.put_slice(&self.data);
        out.freeze()
    }

    fn decode(mut input: Bytes) -> Result<Self> {
        let tag = take_tag(&mut input).ok_or_else(malformed)?;
        let size = input.try_get_u64().map_err(|_| malformed())?;
        let offset = input.try_get_u64().map_err(|_| malformed())?;
        let length = input.try_get_u32().map_err(|_| malformed())? as usize;
        if length > input.len() {
            return Err(malformed());
        }
        let home = input.split_to(length);
        let home: ObjectId = std::str::from_utf8(&home).map_err(|_| malformed())?.parse()?;
        Ok(Self { home, tag, size, offset, data: input })
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
    if !write.data.is_empty() {
        view.write(write.offset, write.data)?;
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

    use super::*;
    use crate::switch::Term;

    fn context() -> CallContext {
        CallContext { source: EntityName::local(), now_micros: 1 }
    }

    fn tag(term: u64, number: u64) -> CopyTag {
        CopyTag { term: Term(term), number }
    }

    fn put(object: &mut MemoryObject, tag: CopyTag, offset: u64, data: &str) -> Result<()> {
        let home = "data/x".parse().unwrap();
        let data = Bytes::copy_from_slice(data.as_bytes());
        let piece = CopyWrite { home, tag, size: 6, offset, data };
        write(piece.encode(), object, &context()).map(drop)
    }

    fn head(object: &mut MemoryObject) -> CopyHead {
        stored(object).unwrap().unwrap()
    }

    #[test]
    fn a_copy_serves_reads_of_its_tag_once_all_pieces_are_stored() {
        let mut object = MemoryObject::default();
        put(&mut object, tag(1, 1), 0, "abc").unwrap();
        assert!(!head(&mut object).serves(tag(1, 1)));
        put(&mut object, tag(1, 1), 3, "def").unwrap();
        put(&mut object, tag(1, 1), 0, "abc").unwrap();
        assert!(head(&mut object).serves(tag(1, 1)), "a repeated piece changes nothing");
        assert!(!head(&mut object).serves(tag(1, 2)) && !head(&mut object).serves(tag(2, 1)));
        assert_eq!(object.read(0, 9).unwrap(), "abcdef");
    }

    #[test]
    fn a_later_copy_replaces_an_earlier_one_and_not_the_other_way_round() {
        let mut object = MemoryObject::default();
        put(&mut object, tag(1, 9), 0, "abcdef").unwrap();
        put(&mut object, tag(2, 1), 0, "xyz").unwrap();
        assert_eq!(object.read(0, 9).unwrap(), "xyz", "the bytes of the earlier copy are gone");
        let late = put(&mut object, tag(1, 9), 0, "abcdef").unwrap_err();
        assert_eq!(late.kind(), ErrorKind::Stale);
        assert_eq!(object.read(0, 9).unwrap(), "xyz");
    }

    #[test]
    fn a_piece_without_the_pieces_before_it_is_refused() {
        let mut object = MemoryObject::default();
        let early = put(&mut object, tag(1, 1), 3, "def").unwrap_err();
        assert_eq!(early.kind(), ErrorKind::Conflict);
        assert!(!object.exists().unwrap());
        put(&mut object, tag(1, 1), 0, "a").unwrap();
        assert_eq!(put(&mut object, tag(1, 1), 2, "c").unwrap_err().kind(), ErrorKind::Conflict);
        assert_eq!(
            put(&mut object, tag(1, 1), 1, "too long").unwrap_err().kind(),
            ErrorKind::Invalid
        );
    }

    #[test]
    fn a_drop_removes_a_copy_unless_it_is_later() {
        let mut object = MemoryObject::default();
        put(&mut object, tag(1, 5), 0, "a").unwrap();
        let mut drop_at = |tag| {
            drop_copy(CopyDrop { tag }.encode(), &mut object, &context()).unwrap();
            object.exists().unwrap()
        };
        assert!(drop_at(tag(1, 4)));
        assert!(!drop_at(tag(1, 5)));
        assert!(!drop_at(tag(1, 5)), "a repeated drop changes nothing");
    }
}
