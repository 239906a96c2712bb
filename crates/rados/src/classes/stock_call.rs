//! Runs a program's method in Ceph's own object class `lua`, in OSDs that lack nacre's class.
//!
//! Ceph's class runs Lua 5.3 instead of Luau, and a method does not see its own writes. It knows
//! neither nacre's additions to the API nor the form in which nacre stores objects. So the call
//! carries a script (`stock.lua`). The script provides each function that means the same in Lua and
//! Luau; every other function fails.
//!
//! **Invariant:** only a successful call counts. A failed operation changed nothing; the client
//! then runs the call itself, and finds the proper error. Only programs that declare with [`MARK`]
//! that they are made for both languages run in this way.
//!
//! The script cannot intercept one operator. Lua 5.3 joins numbers by `..` in its own notation: it
//! writes `3.0` where Luau writes `3`. So [`stock_source`] replaces that operator.

use bytes::{BufMut, Bytes};
use nacre_object::{ClassForm, Op, RemoteClassHost, Request};

use crate::classes::stock_source::stock_source;
use crate::ffi::Call;

/// The first line of a program that is made for Lua 5.3 as well as for Luau.
pub const MARK: &str = "--!cls_lua";
/// Runs the program that is its input.
const SCRIPT: &str = include_str!("stock.lua");
/// The handler in it.
const HANDLER: &str = "run_program";
/// The version of the struct that `eval_bufferlist` takes, and the oldest that reads it.
const EVAL_VERSIONS: [u8; 2] = [1, 1];

/// The request as a call of the class `lua`; `None` if the class cannot run it.
pub fn stock_call(request: &Request, classes: &dyn RemoteClassHost) -> Option<Call> {
    let [Op::Call(call)] = &request.ops[..] else { return None };
    let ClassForm::Program(program) = classes.form(&call.class) else { return None };
    let lua = without_preamble(&program.source);
    let is_marked = lua.trim_start().lines().next().is_some_and(|line| line.trim_end() == MARK);
    let is_live = call.version.is_none_or(|version| version == program.version);
    if !is_marked || !is_live {
        return None;
    }
    let source = stock_source(lua)?;
    let input = packed(&[source.as_bytes(), call.method.as_str().as_bytes(), &call.input]);
    Some(Call { asks_existence: true, ..eval(SCRIPT, HANDLER, &input) })
}

/// Removes a byte order mark and a shebang line from the source. The other lines keep their
/// numbers.
fn without_preamble(source: &str) -> &str {
    let source = source.strip_prefix('\u{feff}').unwrap_or(source);
    match source.starts_with("#!") {
        true => &source[source.find('\n').unwrap_or(source.len())..],
        false => source,
    }
}

/// A call that does nothing. It succeeds if the OSD has the class.
pub fn empty_stock_call() -> Call {
    eval("", "", &[])
}

/// A call of a script that is sent along.
pub fn eval(script: &str, handler: &str, input: &[u8]) -> Call {
    let fields = packed(&[script.as_bytes(), handler.as_bytes(), input]);
    let mut encoded = Vec::with_capacity(EVAL_VERSIONS.len() + 4 + fields.len());
    encoded.put_slice(&EVAL_VERSIONS);
    encoded.put_u32_le(fields.len() as u32);
    encoded.put_slice(&fields);
    Call {
        class: c"lua",
        method: c"eval_bufferlist",
        input: Bytes::from(encoded),
        writes: true,
        asks_existence: false,
    }
}

/// Texts, each behind its length.
fn packed(texts: &[&[u8]]) -> Vec<u8> {
    let mut packed = Vec::with_capacity(texts.iter().map(|text| 4 + text.len()).sum());
    for text in texts {
        packed.put_u32_le(text.len() as u32);
        packed.put_slice(text);
    }
    packed
}
