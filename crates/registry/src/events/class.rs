//! The native class `events`, which keeps the cluster log in an object.
//!
//! | method | input | output |
//! | --- | --- | --- |
//! | `append` | [`AppendRequest`] | [`AppendReply`] |
//! | `read` | [`ReadRequest`] | [`ReadReply`] |

use bytes::Bytes;
use nacre_object::{CallContext, CallReply, ClassName, Error, ObjectView, Result};
use nacre_object::{MethodAccess, NativeClass};
use prost::Message;

use super::format::{
    AppendReply, AppendRequest, EventMessage, FORMAT, Head, ReadReply, ReadRequest,
};
use super::handle::EVENTS_CLASS;
use crate::limits::{MAX_EVENTS, MAX_EVENTS_PAGE};
use crate::numbered::{numbered_after, numbered_key};
use crate::system::{decode_input, decode_stored};

const EVENT: &[u8] = b"e/";

/// A client that gets no reply sends its append again. So the class first searches this many of the
/// newest events for the same append. If more events were appended in between, the event is logged
/// twice.
const APPEND_AGAIN_WINDOW: u64 = 64;

/// The class of the cluster log's object. A process that runs methods of objects in the system pool
/// must have this class.
///
/// # Panics
/// Never: its names are well formed.
pub fn events_class() -> NativeClass {
    let name = ClassName::new(EVENTS_CLASS).expect("a well-formed literal");
    NativeClass::new(name).method("append", MethodAccess::ReadWrite, append).method(
        "read",
        MethodAccess::ReadOnly,
        read,
    )
}

fn append(input: Bytes, view: &mut dyn ObjectView, context: &CallContext) -> Result<CallReply> {
    let request: AppendRequest = decode_input(input)?;
    let mut event = request.event.ok_or_else(|| Error::invalid("the request has no event"))?;
    event.check()?;
    let mut head = read_head(view)?;
    if request.again
        && let Some(sequence) = find_again(&event, &head, view)?
    {
        return answer(&AppendReply { sequence });
    }
    head.last += 1;
    event.sequence = head.last;
    // An event cannot happen after it is reported. So the event of a client whose clock is ahead
    // gets the time of the append instead.
    if event.at_micros == 0 || event.at_micros > context.now_micros {
        event.at_micros = context.now_micros;
    }
    view.map_set(&numbered_key(EVENT, head.last), Bytes::from(event.encode_to_vec()))?;
    while head.last - head.first_kept >= MAX_EVENTS {
        view.map_remove(&numbered_key(EVENT, head.first_kept))?;
        head.first_kept += 1;
    }
    view.set_map_header(Bytes::from(head.encode_to_vec()))?;
    answer(&AppendReply { sequence: head.last })
}

fn read(input: Bytes, view: &mut dyn ObjectView, _: &CallContext) -> Result<CallReply> {
    let request: ReadRequest = decode_input(input)?;
    let head = read_head(view)?;
    let limit = (request.limit as usize).min(MAX_EVENTS_PAGE);
    let after = request.after.unwrap_or_else(|| head.last.saturating_sub(limit as u64));
    let events = events_after(after, limit, &head, view)?;
    answer(&ReadReply { last: head.last, first_kept: head.first_kept, events })
}

fn answer(message: &impl Message) -> Result<CallReply> {
    Ok(CallReply { status: 0, output: Bytes::from(message.encode_to_vec()) })
}

fn read_head(view: &mut dyn ObjectView) -> Result<Head> {
    let bytes = if view.exists()? { view.map_header()? } else { Bytes::new() };
    if bytes.is_empty() {
        return Ok(Head { format: FORMAT, last: 0, first_kept: 1 });
    }
    let head: Head = decode_stored("the cluster log's head", bytes)?;
    if head.format != FORMAT {
        let text = format!(
            "the cluster log has format {}, and this version of nacre reads only {FORMAT}",
            head.format
        );
        return Err(Error::unsupported(text).hint("use a newer nacre"));
    }
    Ok(head)
}

fn find_again(event: &EventMessage, head: &Head, view: &mut dyn ObjectView) -> Result<Option<u64>> {
    let after = head.last.saturating_sub(APPEND_AGAIN_WINDOW);
    let newest = events_after(after, APPEND_AGAIN_WINDOW as usize, head, view)?;
    let same = newest.into_iter().find(|other| other.append_id == event.append_id);
    Ok(same.map(|other| other.sequence))
}

fn events_after(
    after: u64,
    limit: usize,
    head: &Head,
    view: &mut dyn ObjectView,
) -> Result<Vec<EventMessage>> {
    if head.last == 0 {
        return Ok(Vec::new());
    }
    let after = after.max(head.first_kept - 1);
    numbered_after(view, EVENT, after, limit, "an event of the cluster log")
}

#[cfg(test)]
mod tests {
    use nacre_conformance::MemoryObject;
    use nacre_object::{EntityName, ErrorKind};

    use super::super::format::ProgramMessage;
    use super::*;
    use crate::limits::{MAX_EVENT_FIELD_BYTES, MAX_EVENT_FIELDS, MAX_EVENT_TEXT_BYTES};

    #[test]
    fn the_oldest_events_make_room_for_new_ones() {
        let mut object = MemoryObject::default();
        let context = CallContext { source: EntityName::new("local").unwrap(), now_micros: 1 };
        for _ in 0..MAX_EVENTS + 3 {
            let event = Some(EventMessage::default());
            let request = AppendRequest { event, again: false };
            append(request.encode_to_vec().into(), &mut object, &context).unwrap();
        }
        let request = ReadRequest { after: Some(0), limit: 2 };
        let reply = read(request.encode_to_vec().into(), &mut object, &context).unwrap();
        let reply = ReadReply::decode(reply.output).unwrap();
        assert_eq!((reply.last, reply.first_kept), (MAX_EVENTS + 3, 4));
        let sequences: Vec<_> = reply.events.iter().map(|event| event.sequence).collect();
        assert_eq!(sequences, [4, 5]);
    }

    #[test]
    fn an_event_is_never_dated_later_than_its_append() {
        let mut object = MemoryObject::default();
        let context = CallContext { source: EntityName::new("local").unwrap(), now_micros: 5 };
        for at_micros in [0, 3, 5, 6, u64::MAX] {
            let event = Some(EventMessage { at_micros, ..EventMessage::default() });
            let request = AppendRequest { event, again: false };
            append(request.encode_to_vec().into(), &mut object, &context).unwrap();
        }
        let request = ReadRequest { after: Some(0), limit: 9 };
        let reply = read(request.encode_to_vec().into(), &mut object, &context).unwrap();
        let events = ReadReply::decode(reply.output).unwrap().events;
        let moments: Vec<_> = events.iter().map(|event| event.at_micros).collect();
        assert_eq!(moments, [5, 3, 5, 5, 5]);
    }

    #[test]
    fn an_event_that_readers_could_not_decode_is_refused() {
        let plain = || EventMessage { text: "it happened".into(), ..EventMessage::default() };
        let field = |name: &str, value: &str| EventMessage {
            fields: [(name.to_owned(), value.to_owned())].into(),
            ..plain()
        };
        let program = |kind: &str, name: &str| {
            let (kind, name) = (kind.to_owned(), name.to_owned());
            let program = Some(ProgramMessage { kind, name, version: 1, line: None });
            EventMessage { program, ..plain() }
        };
        let numbered = (0..=MAX_EVENT_FIELDS).map(|number| (number.to_string(), String::new()));
        let refused = [
            EventMessage { node: "no name".into(), ..plain() },
            EventMessage { text: "x".repeat(MAX_EVENT_TEXT_BYTES + 1), ..plain() },
            EventMessage { append_id: vec![0; 65].into(), ..plain() },
            EventMessage { fields: numbered.collect(), ..plain() },
            field(&"x".repeat(MAX_EVENT_FIELD_BYTES + 1), ""),
            field("", &"x".repeat(MAX_EVENT_FIELD_BYTES + 1)),
            program("class", "no name"),
            program("of no kind", "name"),
        ];
        let mut object = MemoryObject::default();
        let mut append = |event| {
            let context = CallContext { source: EntityName::new("local")?, now_micros: 1 };
            let request = AppendRequest { event: Some(event), again: false };
            append(request.encode_to_vec().into(), &mut object, &context).map(|_| ())
        };
        for (case, event) in refused.into_iter().enumerate() {
            assert_eq!(append(event).unwrap_err().kind(), ErrorKind::Invalid, "case {case}");
        }
        append(field("count", "2")).unwrap();
        append(program("class", "counter")).unwrap();
        assert_eq!(read_head(&mut object).unwrap().last, 2);
    }
}
