//! The class that the suite calls. Its small native methods try everything that a method may do.

use bytes::Bytes;
use nacre_object::{
    CallContext, CallReply, ClassCall, ClassHost, Error, ObjectView, ReadOnlyView, RemoteClassHost,
    Result,
};

/// The status of methods that fail: the errno to which only the error kind `Conflict` is mapped.
pub const FAILED_STATUS: i32 = -16;
/// How many bytes `fill` appends at a time. This is far below every bound.
const FILL_BYTES: usize = 1024 * 1024;

/// A class host with the one class [`TestClasses::CLASS`], in version [`TestClasses::VERSION`]. A
/// store that can run classes needs this host to pass the suite. Methods get and return numbers as
/// decimal strings.
///
/// | method | does |
/// |---|---|
/// | `echo` | outputs its input |
/// | `count` | adds 1 to map key `count`, reads it back and outputs it |
/// | `append` | appends its input, outputs the offset |
/// | `write-and-fail` | changes stream, map, header and attributes, then ends with [`FAILED_STATUS`] |
/// | `fault` | changes the stream, then is a `Fault` |
/// | `remove` | removes the object |
/// | `catch` | tries ops that must fail, goes on, appends its input |
/// | `version` | appends its input and outputs the version it then sees |
/// | `size` (read-only) | outputs the stream's size |
/// | `last` (read-only) | outputs the last key with its input as prefix |
/// | `range` (read-only) | outputs how many entries a range without limit has |
/// | `time` (read-only) | outputs the time that the engine passed to the call |
/// | `output` (read-only) | outputs as many bytes as its input says |
/// | `fill` | appends as many bytes as its input says |
/// | `liar` (read-only) | writes, which must be `Denied` |
#[derive(Debug, Clone, Copy, Default)]
pub struct TestClasses;

type Body = fn(&Bytes, &mut dyn ObjectView, &CallContext) -> Result<Bytes>;

enum Method {
    Reads(Body),
    Writes(Body),
}

impl TestClasses {
    /// The class.
    pub const CLASS: &'static str = "conformance";
    /// Its version.
    pub const VERSION: u64 = 7;
}

fn find(call: &ClassCall) -> Option<Method> {
    use Method::{Reads, Writes};
    if call.class.as_str() != TestClasses::CLASS {
        return None;
    }
    Some(match call.method.as_str() {
        "echo" => Reads(|input, _, _| Ok(input.clone())),
        "count" => Writes(count),
        "append" => Writes(|input, view, _| view.append(input.clone()).map(text)),
        "write-and-fail" => Writes(write_and_fail),
        "fault" => Writes(fault),
        "remove" => Writes(|_, view, _| view.remove().map(|()| Bytes::new())),
        "catch" => Writes(catch),
        "version" => Writes(|input, view, _| {
            view.append(input.clone())?;
            view.version().map(text)
        }),
        "size" => Reads(|_, view, _| view.stat().map(|stat| text(stat.size))),
        "last" => Reads(last),
        "range" => Reads(|input, view, _| {
            view.map_range(b"", input, usize::MAX).map(|range| text(range.entries.len() as u64))
        }),
        "time" => Reads(|_, _, context| Ok(text(context.now_micros))),
        "output" => Reads(|input, _, _| Ok(Bytes::from(vec![7; number(input)?]))),
        "fill" => Writes(fill),
        "liar" => Reads(|input, view, _| view.append(input.clone()).map(text)),
        _ => return None,
    })
}

impl ClassHost for TestClasses {
    fn is_read_only(&self, call: &ClassCall) -> bool {
        matches!(find(call), Some(Method::Reads(_)))
    }

    fn call(
        &self,
        call: &ClassCall,
        view: &mut dyn ObjectView,
        context: &CallContext,
    ) -> Result<CallReply> {
        if call.version.is_some_and(|version| version != Self::VERSION) {
            return Err(Error::stale(format!("the live version is {}", Self::VERSION)));
        }
        let output = match find(call) {
            Some(Method::Reads(body)) => body(&call.input, &mut ReadOnlyView::new(view), context)?,
            Some(Method::Writes(body)) => body(&call.input, view, context)?,
            None => {
                let text = format!("there is no method {} of class {}", call.method, call.class);
                return Err(Error::unsupported(text));
            }
        };
        Ok(CallReply { status: 0, output })
    }
}

fn text(number: u64) -> Bytes {
    Bytes::from(number.to_string())
}

fn number(input: &Bytes) -> Result<usize> {
    let parsed = std::str::from_utf8(input).ok().and_then(|text| text.parse().ok());
    parsed.ok_or_else(|| Error::invalid("the input is no number"))
}

fn count(_: &Bytes, view: &mut dyn ObjectView, _: &CallContext) -> Result<Bytes> {
    let before = if view.exists()? { view.map_get(b"count")? } else { None };
    let before = before.as_ref().map_or(Ok(0), number)?;
    view.map_set(b"count", text(before as u64 + 1))?;
    view.map_get(b"count")?.ok_or_else(|| Error::corrupt("a method does not see its own write"))
}

fn write_and_fail(_: &Bytes, view: &mut dyn ObjectView, _: &CallContext) -> Result<Bytes> {
    view.write_full(Bytes::from_static(b"must not remain"))?;
    view.map_clear()?;
    view.map_set(b"must not", Bytes::from_static(b"remain"))?;
    view.set_map_header(Bytes::from_static(b"must not remain"))?;
    view.set_attribute("must not", Bytes::from_static(b"remain"))?;
    Err(Error::from_status(FAILED_STATUS, "it was asked to fail"))
}

fn fault(_: &Bytes, view: &mut dyn ObjectView, _: &CallContext) -> Result<Bytes> {
    view.append(Bytes::from_static(b"must not remain"))?;
    let site = nacre_object::FaultSite {
        program: TestClasses::CLASS.to_owned(),
        version: TestClasses::VERSION,
        line: Some(3),
        traceback: "in fault".to_owned(),
    };
    Err(Error::fault_at(site, "it was asked to"))
}

fn catch(input: &Bytes, view: &mut dyn ObjectView, _: &CallContext) -> Result<Bytes> {
    view.append(input.clone())?;
    let failures = [
        view.create(true).is_err(),
        view.remove_attribute("never set").is_err(),
        view.map_set(b"", Bytes::new()).is_err(),
        view.truncate(u64::MAX).is_err(),
    ];
    Ok(text(failures.iter().filter(|failed| **failed).count() as u64))
}

fn last(input: &Bytes, view: &mut dyn ObjectView, _: &CallContext) -> Result<Bytes> {
    let last = view.map_last(input)?;
    last.map(|entry| entry.key).ok_or_else(|| Error::not_found("no key with that prefix"))
}

fn fill(input: &Bytes, view: &mut dyn ObjectView, _: &CallContext) -> Result<Bytes> {
    let mut left = number(input)?;
    while left > 0 {
        let piece = left.min(FILL_BYTES);
        view.append(Bytes::from(vec![7; piece]))?;
        left -= piece;
    }
    Ok(Bytes::new())
}

/// For engines with remote objects. The methods of this class run only in the client's process.
impl RemoteClassHost for TestClasses {}
