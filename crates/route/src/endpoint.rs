//! The native class `routed`, whose objects store bytes for other objects. When a client writes to
//! an object, a rule may send the bytes to an object of this class. The object that the client
//! named is called the *home* of the bytes. A node calls this class.
//!
//! Each change of routed bytes has a *counter*: a later change has a greater one
//! ([`Stamp`](crate::Stamp)). An *application* is a named set of rules.
//!
//! | method | input | output |
//! | --- | --- | --- |
//! | `write` | a [`RoutedWrite`] | nothing, or the greatest counter of newer changes |
//! | `drop` | a [`RoutedDrop`] | nothing |
//! | `read` | a [`RoutedRead`] | the bytes, if the object stores all of them; otherwise it fails (`stale`) |
//! | `spans` | nothing | [`RoutedSpans`] |
//!
//! If the object stores newer changes of these bytes, `write` writes nothing and returns their
//! greatest counter.
//!
//! The object's map lists the spans of bytes that the object stores. A key is the offset of the
//! first byte of a span, 8 bytes in big-endian order. The value is the offset one past the last
//! byte, and the counter of the change, each in the same encoding. The map's header stores the
//! home, and the application whose rule sent the bytes.
//!
//! **Invariant:** the spans of an object are disjoint. Every byte of a span was written by the
//! change with the counter of the span.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use nacre_object::limits::MAX_MAP_RANGE_ENTRIES;
use nacre_object::{
    CallContext, CallReply, ClassName, Error, MethodAccess, NativeClass, ObjectId, ObjectView,
    Result,
};

use crate::direct::covers;
use crate::model::{ApplicationName, Span};

/// The pool of the objects that store routed bytes. Clients can neither read, write nor list it.
pub const ROUTED_POOL: &str = "nacre.routed";
/// The prefix of objects in this pool that rules can name.
pub const NAMED_OBJECTS: &str = "named/";
/// The name of the class.
pub const ROUTED_CLASS: &str = "routed";

/// The class of objects that store routed bytes.
///
/// # Panics
/// Never: its names are well formed.
pub fn routed_class() -> NativeClass {
    use MethodAccess::{ReadOnly, ReadWrite};
    NativeClass::new(ClassName::new(ROUTED_CLASS).expect("a literal"))
        .brief()
        .method("write", ReadWrite, write)
        .method("drop", ReadWrite, drop_spans)
        .method("read", ReadOnly, read)
        .method("spans", ReadOnly, spans)
}

/// The input of `write`: a change of routed bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoutedWrite {
    /// The object that the client wrote.
    pub home: ObjectId,
    /// The application whose rule sent them here.
    pub application: ApplicationName,
    /// The counter of the change.
    pub counter: u64,
    /// The first byte.
    pub offset: u64,
    /// The bytes.
    pub data: Bytes,
}

/// The input of `drop`: bytes that are home again, or were written at home.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RoutedDrop {
    /// The bytes.
    pub span: Span,
    /// Bytes of changes with greater counters are kept.
    pub counter: u64,
}

/// The input of `read`: routed bytes of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoutedRead {
    /// The object that the client named.
    pub home: ObjectId,
    /// The bytes.
    pub span: Span,
}

/// The output of `spans`: the routed bytes that an object stores.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoutedSpans {
    /// The object that the client wrote.
    pub home: ObjectId,
    /// The application whose rule sent the bytes here.
    pub application: ApplicationName,
    /// The spans of bytes, each with the counter of its change.
    pub spans: Vec<(Span, u64)>,
}

fn put_text(out: &mut BytesMut, text: &str) {
    out.put_u32(text.len() as u32);
    out.put_slice(text.as_bytes());
}

fn senseless() -> Error {
    Error::invalid("the input of a method of the class routed is malformed")
}

fn take_u64(input: &mut Bytes) -> Result<u64> {
    input.try_get_u64().map_err(|_| senseless())
}

fn take_text(input: &mut Bytes) -> Result<String> {
    let length = input.try_get_u32().map_err(|_| senseless())? as usize;
    if length > input.remaining() {
        return Err(senseless());
    }
    String::from_utf8(input.split_to(length).to_vec()).map_err(|_| senseless())
}

impl RoutedWrite {
    /// Encodes the input of `write`.
    pub fn encode(&self) -> Bytes {
        let mut out = BytesMut::with_capacity(self.data.len() + 128);
        put_text(&mut out, &self.home.to_string());
        put_text(&mut out, self.application.as_str());
        out.put_u64(self.counter);
        out.put_u64(self.offset);
        out.put_slice(&self.data);
        out.freeze()
    }

    /// Decodes the input of the method.
    ///
    /// # Errors
    /// `Invalid` if it is malformed.
    pub fn decode(mut input: Bytes) -> Result<Self> {
        let home = take_text(&mut input)?.parse()?;
        let application = take_text(&mut input)?.parse()?;
        let (counter, offset) = (take_u64(&mut input)?, take_u64(&mut input)?);
        Ok(Self { home, application, counter, offset, data: input })
    }
}

impl RoutedDrop {
    /// Encodes the input of `drop`.
    pub fn encode(&self) -> Bytes {
        let mut out = BytesMut::with_capacity(24);
        [self.span.start(), self.span.end(), self.counter].iter().for_each(|n| out.put_u64(*n));
        out.freeze()
    }

    /// Decodes the input of the method.
    ///
    /// # Errors
    /// `Invalid` if it is malformed.
    pub fn decode(mut input: Bytes) -> Result<Self> {
        let (start, end) = (take_u64(&mut input)?, take_u64(&mut input)?);
        let span = Span::new(start, end).ok_or_else(senseless)?;
        Ok(Self { span, counter: take_u64(&mut input)? })
    }
}

impl RoutedRead {
    /// Encodes the input of `read`.
    pub fn encode(&self) -> Bytes {
        let mut out = BytesMut::new();
        put_text(&mut out, &self.home.to_string());
        out.put_u64(self.span.start());
        out.put_u64(self.span.end());
        out.freeze()
    }

    /// Decodes the input of the method.
    ///
    /// # Errors
    /// `Invalid` if it is malformed.
    pub fn decode(mut input: Bytes) -> Result<Self> {
        let home = take_text(&mut input)?.parse()?;
        let (start, end) = (take_u64(&mut input)?, take_u64(&mut input)?);
        Ok(Self { home, span: Span::new(start, end).ok_or_else(senseless)? })
    }
}

impl RoutedSpans {
    fn encode(&self) -> Bytes {
        let mut out = BytesMut::new();
        put_text(&mut out, &self.home.to_string());
        put_text(&mut out, self.application.as_str());
        for (span, counter) in &self.spans {
            [span.start(), span.end(), *counter].iter().for_each(|number| out.put_u64(*number));
        }
        out.freeze()
    }

    /// Decodes the output of `spans`.
    ///
    /// # Errors
    /// `Invalid` if the output is malformed.
    pub fn decode(mut output: Bytes) -> Result<Self> {
        let home = take_text(&mut output)?.parse()?;
        let application = take_text(&mut output)?.parse()?;
        let mut spans = vec![];
        while output.has_remaining() {
            let (start, end) = (take_u64(&mut output)?, take_u64(&mut output)?);
            spans.push((Span::new(start, end).ok_or_else(senseless)?, take_u64(&mut output)?));
        }
        Ok(Self { home, application, spans })
    }
}

/// Decodes the output of `write`. `None` means that the bytes were written. Otherwise the object
/// stores a newer change, and the result is its counter.
///
/// # Errors
/// `Invalid` if the output is malformed.
pub fn outrun_by(mut output: Bytes) -> Result<Option<u64>> {
    if output.is_empty() { Ok(None) } else { take_u64(&mut output).map(Some) }
}

fn answer(output: Bytes) -> Result<CallReply> {
    Ok(CallReply { status: 0, output })
}

fn write(input: Bytes, view: &mut dyn ObjectView, _: &CallContext) -> Result<CallReply> {
    let write = RoutedWrite::decode(input)?;
    let end = write.offset.saturating_add(write.data.len() as u64);
    let span = Span::new(write.offset, end).ok_or_else(senseless)?;
    view.create(false)?;
    let head = view.map_header()?;
    if head.is_empty() {
        let mut head = BytesMut::new();
        put_text(&mut head, &write.home.to_string());
        put_text(&mut head, write.application.as_str());
        view.set_map_header(head.freeze())?;
    } else {
        let home = take_text(&mut head.clone())?;
        if home != write.home.to_string() {
            return Err(Error::conflict(format!(
                "the object already stores routed bytes of {home}"
            ))
            .hint("route the bytes of different objects to different objects"));
        }
    }
    let near = overlapping(view, span)?;
    let newer = near.iter().map(|(_, counter)| *counter).filter(|other| *other > write.counter);
    if let Some(newer) = newer.max() {
        let mut out = BytesMut::with_capacity(8);
        out.put_u64(newer);
        return answer(out.freeze());
    }
    cut_out(view, &near, span)?;
    set_span(view, span, write.counter)?;
    view.write(write.offset, write.data)?;
    answer(Bytes::new())
}

fn drop_spans(input: Bytes, view: &mut dyn ObjectView, _: &CallContext) -> Result<CallReply> {
    let RoutedDrop { span, counter } = RoutedDrop::decode(input)?;
    if !view.exists()? {
        return answer(Bytes::new());
    }
    let mut old = overlapping(view, span)?;
    old.retain(|(_, other)| *other <= counter);
    cut_out(view, &old, span)?;
    if view.map_range(&[], &[], 1)?.entries.is_empty() {
        view.remove()?;
    }
    answer(Bytes::new())
}

fn read(input: Bytes, view: &mut dyn ObjectView, _: &CallContext) -> Result<CallReply> {
    let RoutedRead { home, span } = RoutedRead::decode(input)?;
    let elsewhere = || Error::stale(format!("the object does not store these bytes of {home}"));
    if !view.exists()? || take_text(&mut view.map_header()?)? != home.to_string() {
        return Err(elsewhere());
    }
    let stored = overlapping(view, span)?;
    let stored: Vec<_> = stored.iter().map(|(span, _)| (span.start(), span.end())).collect();
    match covers(&stored, span) {
        true => answer(view.read(span.start(), span.length())?),
        false => Err(elsewhere()),
    }
}

fn spans(_: Bytes, view: &mut dyn ObjectView, _: &CallContext) -> Result<CallReply> {
    let mut head = view.map_header()?;
    let (home, application) = (take_text(&mut head)?.parse()?, take_text(&mut head)?.parse()?);
    let mut spans = vec![];
    let mut after = Bytes::new();
    loop {
        let page = view.map_range(&after, &[], MAX_MAP_RANGE_ENTRIES)?;
        for entry in &page.entries {
            spans.push(span_of(&entry.key, &entry.value)?);
        }
        match page.entries.last() {
            Some(last) if page.more => after = last.key.clone(),
            _ => break,
        }
    }
    answer(RoutedSpans { home, application, spans }.encode())
}

fn key_of(start: u64) -> [u8; 8] {
    start.to_be_bytes()
}

fn damage(what: &str) -> Error {
    Error::corrupt(format!("the map of an object with routed bytes is damaged: {what}"))
        .hint("`nacre scrub` lists damaged objects; restore them from a copy")
}

fn span_of(key: &Bytes, value: &Bytes) -> Result<(Span, u64)> {
    let damaged = |_| damage("a span is malformed");
    let (mut key, mut value) = (key.clone(), value.clone());
    let start = take_u64(&mut key).map_err(damaged)?;
    let (end, counter) =
        (take_u64(&mut value).map_err(damaged)?, take_u64(&mut value).map_err(damaged)?);
    let span = Span::new(start, end);
    Ok((span.ok_or_else(|| damage("a span is empty"))?, counter))
}

/// The stored spans that overlap `span`.
fn overlapping(view: &mut dyn ObjectView, span: Span) -> Result<Vec<(Span, u64)>> {
    let mut found = vec![];
    // A stored span is never longer than the longest write. So one that begins more than this
    // length before `span` cannot reach it.
    let longest = nacre_object::limits::MAX_REQUEST_BYTES as u64;
    let mut after = match span.start().checked_sub(longest + 1) {
        Some(before) => Bytes::copy_from_slice(&key_of(before)),
        None => Bytes::new(),
    };
    loop {
        let page = view.map_range(&after, &[], MAX_MAP_RANGE_ENTRIES)?;
        for entry in &page.entries {
            let (other, counter) = span_of(&entry.key, &entry.value)?;
            if other.start() >= span.end() {
                return Ok(found);
            }
            if other.overlaps(span) {
                found.push((other, counter));
            }
        }
        match page.entries.last() {
            Some(last) if page.more => after = last.key.clone(),
            _ => return Ok(found),
        }
    }
}

/// Removes the bytes of `span` from these stored spans.
fn cut_out(view: &mut dyn ObjectView, spans: &[(Span, u64)], span: Span) -> Result<()> {
    for (other, counter) in spans {
        view.map_remove(&key_of(other.start()))?;
        let before = Span::new(other.start(), other.end().min(span.start()));
        let after = Span::new(other.start().max(span.end()), other.end());
        for rest in [before, after].into_iter().flatten() {
            set_span(view, rest, *counter)?;
        }
    }
    Ok(())
}

fn set_span(view: &mut dyn ObjectView, span: Span, counter: u64) -> Result<()> {
    let mut value = BytesMut::with_capacity(16);
    value.put_u64(span.end());
    value.put_u64(counter);
    view.map_set(&key_of(span.start()), value.freeze())
}

#[cfg(test)]
mod tests {
    use nacre_conformance::MemoryObject;
    use nacre_object::EntityName;

    use super::*;

    fn context() -> CallContext {
        CallContext { source: EntityName::local(), now_micros: 1 }
    }

    fn put(object: &mut MemoryObject, offset: u64, counter: u64, data: &str) -> Option<u64> {
        let write = RoutedWrite {
            home: "data/x".parse().unwrap(),
            application: "tail".parse().unwrap(),
            counter,
            offset,
            data: Bytes::copy_from_slice(data.as_bytes()),
        };
        outrun_by(write_of(write, object).unwrap().output).unwrap()
    }

    fn write_of(write: RoutedWrite, object: &mut MemoryObject) -> Result<CallReply> {
        super::write(write.encode(), object, &context())
    }

    fn kept(object: &mut MemoryObject) -> Vec<(u64, u64, u64)> {
        let told = spans(Bytes::new(), object, &context()).unwrap().output;
        let told = RoutedSpans::decode(told).unwrap().spans.into_iter();
        told.map(|(span, counter)| (span.start(), span.end(), counter)).collect()
    }

    #[test]
    fn a_later_write_takes_bytes_out_of_earlier_spans() {
        let mut object = MemoryObject::default();
        assert_eq!(put(&mut object, 0, 1, "aaaaaaaa"), None);
        assert_eq!(put(&mut object, 2, 5, "bb"), None);
        assert_eq!(kept(&mut object), [(0, 2, 1), (2, 4, 5), (4, 8, 1)]);
        assert_eq!(object.read(0, 100).unwrap(), "aabbaaaa");
    }

    #[test]
    fn an_older_write_is_refused_and_changes_nothing() {
        let mut object = MemoryObject::default();
        put(&mut object, 0, 7, "new");
        assert_eq!(put(&mut object, 1, 6, "old"), Some(7));
        assert_eq!(object.read(0, 100).unwrap(), "new");
    }

    #[test]
    fn a_drop_removes_bytes_unless_a_newer_write_wrote_them() {
        let mut object = MemoryObject::default();
        put(&mut object, 0, 1, "aaaa");
        put(&mut object, 2, 9, "bb");
        let drop = RoutedDrop { span: Span::WHOLE, counter: 5 };
        drop_spans(drop.encode(), &mut object, &context()).unwrap();
        assert_eq!(kept(&mut object), [(2, 4, 9)]);
        let drop = RoutedDrop { span: Span::WHOLE, counter: 9 };
        drop_spans(drop.encode(), &mut object, &context()).unwrap();
        assert!(!object.exists().unwrap());
    }

    #[test]
    fn a_read_gets_bytes_only_if_all_of_them_are_stored_for_its_object() {
        let mut object = MemoryObject::default();
        let read_of = |object: &mut MemoryObject, home: &str, start: u64, end: u64| {
            let span = Span::new(start, end).unwrap();
            let read = RoutedRead { home: home.parse().unwrap(), span };
            read_output(super::read(read.encode(), object, &context()))
        };
        assert_eq!(read_of(&mut object, "data/x", 0, 1), None, "it does not exist");
        put(&mut object, 0, 1, "aaaa");
        put(&mut object, 4, 2, "bb");
        put(&mut object, 8, 3, "cc");
        assert_eq!(read_of(&mut object, "data/x", 1, 6).as_deref(), Some("aaabb"));
        assert_eq!(read_of(&mut object, "data/x", 4, 9), None, "there is a gap");
        assert_eq!(read_of(&mut object, "data/y", 0, 1), None, "they belong to another object");
        let drop = RoutedDrop { span: Span::new(0, 2).unwrap(), counter: 9 };
        drop_spans(drop.encode(), &mut object, &context()).unwrap();
        assert_eq!(read_of(&mut object, "data/x", 1, 3), None);
        assert_eq!(read_of(&mut object, "data/x", 2, 3).as_deref(), Some("a"));
    }

    /// The bytes of a read; `None` if it was refused as stale.
    fn read_output(reply: Result<CallReply>) -> Option<String> {
        match reply {
            Ok(reply) => Some(String::from_utf8(reply.output.to_vec()).unwrap()),
            Err(error) => {
                assert_eq!(error.kind(), nacre_object::ErrorKind::Stale, "{error}");
                None
            }
        }
    }

    #[test]
    fn bytes_of_two_objects_are_not_mixed() {
        let mut object = MemoryObject::default();
        put(&mut object, 0, 1, "aaaa");
        let write = RoutedWrite {
            home: "data/y".parse().unwrap(),
            application: "tail".parse().unwrap(),
            counter: 2,
            offset: 8,
            data: Bytes::from_static(b"b"),
        };
        let error = write_of(write, &mut object).unwrap_err();
        assert_eq!(error.kind(), nacre_object::ErrorKind::Conflict);
    }
}
