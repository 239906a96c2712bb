//! Makes host functions that cost little. Use them for functions that scripts call for each record.
//!
//! An ordinary host function gets each argument as an mlua handle, which takes a slot in the VM. To
//! return a string, mlua makes a protected call, because memory is limited. Each of these costs
//! some hundred nanoseconds. A quick function reads its string arguments in place and pushes its
//! result directly onto the stack. For arguments of other types, and to raise an error, it calls an
//! ordinary host function.
//!
//! **Invariant:** while the body of a quick function runs, no code of the VM runs; the result is
//! pushed after the body has returned. So an error of the VM, such as running out of memory, never
//! unwinds through the body.

use std::any::Any;
use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;
use std::{ptr, slice};

use bytes::Bytes;
use mlua::{Function, Lua, MultiValue, ffi};

/// The arguments of a quick function.
pub struct QuickArguments<'a> {
    state: *mut ffi::lua_State,
    count: c_int,
    /// Strings may be borrowed only while the function runs.
    borrowed: PhantomData<&'a ()>,
}

impl QuickArguments<'_> {
    /// The string at a position, counted from 1; `None` if the argument is no string.
    pub fn text(&self, position: usize) -> Option<&[u8]> {
        let index = self.index(position)?;
        let mut length = 0;
        // SAFETY: `index` is the index of an argument. The bytes of a string do not move while it
        // is an argument. Only a string is read, so the VM converts no value in place.
        unsafe {
            if ffi::lua_type(self.state, index) != ffi::LUA_TSTRING {
                return None;
            }
            let bytes = ffi::lua_tolstring(self.state, index, &mut length);
            Some(slice::from_raw_parts(bytes.cast(), length))
        }
    }

    /// The number at a position, counted from 1; `None` if the argument is no number.
    pub fn number(&self, position: usize) -> Option<f64> {
        let index = self.index(position)?;
        // SAFETY: the index is that of an argument, and a number is converted from nothing.
        unsafe {
            let is_number = ffi::lua_type(self.state, index) == ffi::LUA_TNUMBER;
            is_number.then(|| ffi::lua_tonumber(self.state, index))
        }
    }

    /// Whether an argument is nil or missing.
    pub fn is_nil(&self, position: usize) -> bool {
        // SAFETY: the index is that of an argument.
        let kind = |index| unsafe { ffi::lua_type(self.state, index) };
        self.index(position).is_none_or(|index| kind(index) == ffi::LUA_TNIL)
    }

    fn index(&self, position: usize) -> Option<c_int> {
        c_int::try_from(position).ok().filter(|index| (1..=self.count).contains(index))
    }
}

/// The result of a quick function.
pub enum QuickAnswer {
    /// The ordinary function must be called with these arguments.
    Pass,
    /// No value.
    Done,
    /// Nil.
    Nil,
    /// A string.
    Text(Bytes),
    /// A short string.
    Short(ShortText),
    /// A string and a number.
    TextAndNumber(Bytes, f64),
    /// Nil, then numbers.
    Numbers(Numbers),
}

/// Some numbers.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Numbers {
    numbers: [f64; Self::MAX],
    count: usize,
}

impl Numbers {
    /// The most numbers.
    pub const MAX: usize = 9;

    /// Adds a number. Returns false if there is no space for it.
    pub fn push(&mut self, number: f64) -> bool {
        let place = self.numbers.get_mut(self.count);
        let has_room = place.map(|place| *place = number).is_some();
        self.count += usize::from(has_room);
        has_room
    }

    /// The numbers.
    pub fn as_slice(&self) -> &[f64] {
        &self.numbers[..self.count]
    }
}

// All numbers must fit into the stack slots that the VM guarantees to a called function
// (`LUA_MINSTACK`).
const _: () = assert!(Numbers::MAX < ffi::LUA_MINSTACK as usize);

/// A string that needs no memory of its own.
pub struct ShortText {
    bytes: [u8; Self::MAX_BYTES],
    length: usize,
}

impl ShortText {
    /// The most bytes.
    pub const MAX_BYTES: usize = 64;

    /// Joins two parts. Returns `None` if they do not fit.
    pub fn of(first: &[u8], second: &[u8]) -> Option<Self> {
        let (start, length) = (first.len(), first.len() + second.len());
        let mut bytes = [0; Self::MAX_BYTES];
        bytes.get_mut(..start)?.copy_from_slice(first);
        bytes.get_mut(start..length)?.copy_from_slice(second);
        Some(Self { bytes, length })
    }

    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// The failure of a quick function, which the ordinary function raises.
enum Failure {
    Error(mlua::Error),
    Panic(Box<dyn Any + Send>),
}

type Body = dyn Fn(&QuickArguments<'_>) -> mlua::Result<QuickAnswer>;

struct Quick {
    body: Box<Body>,
    failure: Rc<Cell<Option<Failure>>>,
}

/// Makes a function that calls `body`, and calls `behind` if `body` returns [`QuickAnswer::Pass`].
pub(crate) fn function(
    lua: &Lua,
    body: impl Fn(&QuickArguments<'_>) -> mlua::Result<QuickAnswer> + 'static,
    behind: impl Fn(&Lua, MultiValue) -> mlua::Result<MultiValue> + 'static,
) -> mlua::Result<Function> {
    let failure: Rc<Cell<Option<Failure>>> = Rc::default();
    let quick = Quick { body: Box::new(body), failure: failure.clone() };
    let behind = lua.create_function(move |lua, arguments| match failure.take() {
        None => behind(lua, arguments),
        Some(Failure::Error(error)) => Err(error),
        Some(Failure::Panic(panic)) => resume_unwind(panic),
    })?;
    // SAFETY: the VM aligns the memory of a userdata for a `Quick`. `quick` is moved into this
    // memory before anything else can fail, and the VM drops it later. `lua_pushcclosurek` takes
    // the userdata and the ordinary function off the stack, as the closure's two upvalues.
    unsafe {
        lua.exec_raw(behind, |state| {
            let place = ffi::lua_newuserdatadtor(state, size_of::<Quick>(), drop_quick);
            ptr::write(place.cast(), quick);
            ffi::lua_insert(state, -2);
            ffi::lua_pushcclosurek(state, call, c"host".as_ptr(), 2, None);
        })
    }
}

unsafe extern "C" fn drop_quick(_: *mut ffi::lua_State, place: *mut c_void) {
    // SAFETY: a `Quick` was moved here.
    unsafe { ptr::drop_in_place(place.cast::<Quick>()) }
}

/// The C function that the VM calls. Its upvalues are the `Quick` and the ordinary function.
unsafe extern "C-unwind" fn call(state: *mut ffi::lua_State) -> c_int {
    // SAFETY: `function` made the two upvalues of this closure. The stack has space for all values
    // that are pushed here. If the VM runs out of memory, it unwinds, and unwinding drops all live
    // values of this function.
    unsafe {
        let quick = ffi::lua_touserdata(state, ffi::lua_upvalueindex(1)).cast::<Quick>();
        let count = ffi::lua_gettop(state);
        let arguments = QuickArguments { state, count, borrowed: PhantomData };
        match catch_unwind(AssertUnwindSafe(|| ((*quick).body)(&arguments))) {
            Ok(Ok(QuickAnswer::Done)) => 0,
            Ok(Ok(QuickAnswer::Nil)) => {
                ffi::lua_pushnil(state);
                1
            }
            Ok(Ok(QuickAnswer::Text(text))) => push(state, &text),
            Ok(Ok(QuickAnswer::Short(text))) => push(state, text.as_bytes()),
            Ok(Ok(QuickAnswer::TextAndNumber(text, number))) => {
                push(state, &text);
                ffi::lua_pushnumber(state, number);
                2
            }
            Ok(Ok(QuickAnswer::Numbers(numbers))) => {
                ffi::lua_pushnil(state);
                let numbers = numbers.as_slice();
                numbers.iter().for_each(|number| ffi::lua_pushnumber(state, *number));
                1 + numbers.len() as c_int
            }
            // `pass` stores a failure for the ordinary function to raise. An earlier failure is
            // still stored if calls were nested so deeply that the VM could not call the ordinary
            // function. `None` clears the earlier failure, so that this call does not raise it.
            Ok(Ok(QuickAnswer::Pass)) => pass(state, count, &(*quick).failure, None),
            Ok(Err(error)) => pass(state, count, &(*quick).failure, Some(Failure::Error(error))),
            Err(panic) => pass(state, count, &(*quick).failure, Some(Failure::Panic(panic))),
        }
    }
}

/// # Safety
/// The stack must have space for one more value.
unsafe fn push(state: *mut ffi::lua_State, text: &[u8]) -> c_int {
    // SAFETY: the VM copies the bytes.
    unsafe { ffi::lua_pushlstring(state, text.as_ptr().cast(), text.len()) };
    1
}

/// Calls the ordinary function with all arguments. If `failure` is given, the ordinary function
/// only raises this failure.
///
/// # Safety
/// Only [`call`] may call this, and only while it has pushed nothing.
unsafe fn pass(
    state: *mut ffi::lua_State,
    count: c_int,
    failed: &Cell<Option<Failure>>,
    failure: Option<Failure>,
) -> c_int {
    failed.set(failure);
    // SAFETY: the second upvalue is the ordinary function. Only its results are left on the stack.
    unsafe {
        ffi::lua_pushvalue(state, ffi::lua_upvalueindex(2));
        ffi::lua_insert(state, 1);
        ffi::lua_call(state, count, ffi::LUA_MULTRET);
        ffi::lua_gettop(state)
    }
}
