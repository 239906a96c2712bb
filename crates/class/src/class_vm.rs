//! The VM of each thread that calls methods.

use bytes::{Bytes, BytesMut};
use mlua::chunk::Compiler;
use mlua::{Function, IntoLuaMulti, Lua, LuaString, MultiValue, Table, Value};
use nacre_object::{Error, Result, Status};
use nacre_script::{Host, Library, LoadedVm, ProgramVm, Pulse, QuickAnswer, QuickArguments, raise};

use crate::arguments::whole;
use crate::buffer_list::{self, BufferLists};
use crate::calling;
use crate::errno::EOPNOTSUPP;
use crate::objclass;

/// The class API in a VM.
pub(crate) struct ClassLibrary {
    pub lists: BufferLists,
    pub dispatch: Dispatch,
}

/// A VM with the class API.
pub(crate) type ClassVm = LoadedVm<ClassLibrary>;

/// The functions of `dispatch.luau`.
pub(crate) struct Dispatch {
    /// Takes `(chunk, globals, handler, input, output)`; returns the handler's last result.
    pub call: Function,
    /// The Luau function that calls a method of a kept script, that is, of a script whose chunk
    /// runs only once for many calls. Takes `(chunk, globals, handler)`; returns the status and the
    /// reply.
    pub call_kept: Function,
    /// Takes `(chunk, globals, handler)` of a kept script; runs the requests of a batch.
    pub call_batch: Function,
    /// Takes `(chunk, globals)`; returns `{name = is_read_only}` and the number of registered
    /// functions.
    pub inspect: Function,
}

impl Library for ClassLibrary {
    fn install(host: &Host<'_>) -> mlua::Result<Self> {
        buffer_list::install(host)?;
        let dispatch = load_dispatch(host)?;
        objclass::install(host, &dispatch.raw_get("register")?)?;
        let dispatch = Dispatch {
            call: dispatch.raw_get("call")?,
            call_kept: dispatch.raw_get("call_kept")?,
            call_batch: dispatch.raw_get("call_batch")?,
            inspect: dispatch.raw_get("inspect")?,
        };
        Ok(Self { lists: BufferLists::new(host.memory.clone()), dispatch })
    }
}

fn load_dispatch(host: &Host<'_>) -> mlua::Result<Table> {
    let (lua, functions) = (host.lua, host.lua.create_table()?);
    functions.raw_set("restrict", lua.create_function(|_, ()| calling::restrict())?)?;
    functions.raw_set("missing", lua.create_function(|_, handler| missing(handler))?)?;
    let shown_request = |arguments: &QuickArguments<'_>| {
        calling::requests(|requests| requests.shown(arguments.text(1)))
    };
    functions.raw_set("shown_request", host.quick_function(shown_request, nothing)?)?;
    let request = |_: &QuickArguments<'_>| {
        let current = calling::requests(|requests| requests.current().clone())?;
        Ok(QuickAnswer::Text(current))
    };
    functions.raw_set("request", host.quick_function(request, nothing)?)?;
    let pulse = host.pulse.clone();
    let after_pieces = move |lua: &Lua, (status, pieces, columns)| {
        after_pieces(lua, &pulse, status, &pieces, columns)
    };
    functions.raw_set("next_request", host.quick_function(next_request, after_pieces)?)?;
    // Compiled without line numbers, so that errors have positions in the script.
    let compiler = Compiler::new().set_optimization_level(1).set_debug_level(0);
    let source = include_str!("dispatch.luau");
    lua.load(source).set_name("=dispatch").set_compiler(compiler).call(functions)
}

/// The ordinary function behind a quick function that never passes a call on to it.
fn nothing(_: &Lua, (): ()) -> mlua::Result<()> {
    Ok(())
}

/// Records the status and the reply of the batch's previous request, if there was one. Returns the
/// next request. The arguments are the status, the reply, and the columns that the method
/// registered for its requests.
fn next_request(arguments: &QuickArguments<'_>) -> mlua::Result<QuickAnswer> {
    if !arguments.is_nil(1) {
        let status = arguments.number(1).and_then(whole).and_then(|n| Status::try_from(n).ok());
        let nothing = arguments.is_nil(2).then_some(&b""[..]);
        let (Some(status @ 0..), Some(reply)) = (status, arguments.text(2).or(nothing)) else {
            return Ok(QuickAnswer::Pass);
        };
        calling::answer(status, reply.len(), || Ok(reply))?;
    }
    calling::next_request(arguments.text(3))
}

/// Records a reply that consists of pieces.
fn after_pieces(
    lua: &Lua,
    pulse: &Pulse,
    status: Value,
    pieces: &Value,
    columns: Option<LuaString>,
) -> mlua::Result<MultiValue> {
    let (Some(0), Value::Table(pieces)) = (status.as_i64(), pieces) else {
        return Err(mlua::Error::runtime("a Brados class returned a status"));
    };
    let length = length_of(pieces)?;
    calling::answer(0, length, || {
        pulse.check_output(length)?;
        joined(pieces, length)
    })?;
    let columns = columns.as_ref().map(LuaString::as_bytes);
    Ok(match calling::next_request(columns.as_deref())? {
        QuickAnswer::TextAndNumber(text, number) => {
            (lua.create_string(text)?, number).into_lua_multi(lua)?
        }
        QuickAnswer::Numbers(numbers) => {
            let numbers = numbers.as_slice().iter().map(|number| Value::Number(*number));
            std::iter::once(Value::Nil).chain(numbers).collect()
        }
        _ => MultiValue::new(),
    })
}

/// The total length of a reply that consists of pieces. The length is checked before the pieces are
/// copied. One string of the VM may occur as many pieces, so a small table can stand for a huge
/// reply.
pub(crate) fn length_of(pieces: &Table) -> mlua::Result<usize> {
    let pieces = pieces.sequence_values::<LuaString>();
    pieces.map(|piece| Ok(piece?.as_bytes().len())).sum()
}

/// Joins the pieces of a reply of this length.
pub(crate) fn joined(pieces: &Table, length: usize) -> mlua::Result<Bytes> {
    let mut bytes = BytesMut::with_capacity(length);
    for piece in pieces.sequence_values::<LuaString>() {
        bytes.extend_from_slice(&piece?.as_bytes());
    }
    Ok(bytes.freeze())
}

fn missing(handler: String) -> mlua::Result<()> {
    let text = format!("{} has no method {handler:?}", calling::program_name()?);
    Err(raise(Error::from_status(-EOPNOTSUPP, text)))
}

thread_local! {
    static VM: ProgramVm<ClassLibrary> = const { ProgramVm::new() };
}

/// Runs `body` with this thread's VM for classes.
pub(crate) fn with_vm<R>(body: impl FnOnce(&mut ClassVm) -> Result<R>) -> Result<R> {
    VM.with(|vm| vm.with(body))
}
