//! Host functions that are called for each record answer as any other.

mod support;

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use bytes::Bytes;
use mlua::{Lua, Value};
use nacre_object::{Error, ErrorKind};
use nacre_script::{QuickAnswer, QuickArguments, ShortText, Vm, raise};
use support::{run, run_within, small};

/// A unique string of many bytes. Tests count the memory of all such strings that exist.
struct Large(Vec<u8>);

thread_local! {
    static LARGE: Cell<i32> = const { Cell::new(0) };
    static MADE: Cell<u32> = const { Cell::new(0) };
}

impl Default for Large {
    fn default() -> Self {
        LARGE.set(LARGE.get() + 1);
        MADE.set(MADE.get() + 1);
        Self(MADE.get().to_le_bytes().repeat(1 << 18))
    }
}

impl Drop for Large {
    fn drop(&mut self) {
        LARGE.set(LARGE.get() - 1);
    }
}

impl AsRef<[u8]> for Large {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// A VM whose scripts can call the quick function `answer(word, …)`. The word selects what the
/// quick function answers. For an unknown word, the ordinary function behind it raises an error.
fn vm() -> Vm {
    let quick = |arguments: &QuickArguments<'_>| {
        let Some(word) = arguments.text(1) else { return Ok(QuickAnswer::Pass) };
        Ok(match word {
            b"done" => QuickAnswer::Done,
            b"nil" => QuickAnswer::Nil,
            b"text" => QuickAnswer::Text(Bytes::from_static(b"a\0b")),
            b"empty" => QuickAnswer::Text(Bytes::new()),
            b"short" => QuickAnswer::Short(ShortText::of(b"sh", b"ort").unwrap()),
            b"both" => QuickAnswer::TextAndNumber(Bytes::from_static(b"t"), 2.5),
            b"large" => QuickAnswer::Text(Bytes::from_owner(Large::default())),
            b"twice" => {
                QuickAnswer::TextAndNumber(Bytes::new(), 2.0 * arguments.number(2).unwrap())
            }
            b"other" if arguments.is_nil(2) && !arguments.is_nil(1) => QuickAnswer::Nil,
            b"fail" => return Err(raise(Error::conflict("taken"))),
            b"panic" => panic!("as was wanted"),
            _ => QuickAnswer::Pass,
        })
    };
    let behind = |_: &Lua, (word, more): (Value, Value)| match &word {
        Value::String(_) => Ok((word.to_string()?, more)),
        other => Err(mlua::Error::runtime(format!("a {}", other.type_name()))),
    };
    Vm::new(|host| host.globals.raw_set("answer", host.quick_function(quick, behind)?)).unwrap()
}

#[test]
fn a_script_receives_every_kind_of_result_of_a_quick_function() {
    let mut vm = vm();
    let mut returned = |call: &str| run(&mut vm, &format!("return {call}")).unwrap();
    assert_eq!(returned("select('#', answer('done'))"), ["0"]);
    assert_eq!(returned("answer('nil')"), ["nil"]);
    assert_eq!(returned("#answer('text'), answer('empty') == ''"), ["3", "true"]);
    assert_eq!(returned("answer('short')"), ["short"]);
    assert_eq!(returned("answer('both')"), ["t", "2.5"]);
    assert_eq!(returned("select(2, answer('twice', 4))"), ["8"]);
    assert_eq!(returned("answer('other')"), ["nil"]);
    assert_eq!(returned("answer('other', 1)"), ["other", "1"]);
    assert_eq!(returned("answer('something', 'else', 3)"), ["something", "else"]);
    assert_eq!(returned("coroutine.wrap(answer)('something', 'else')"), ["something", "else"]);
    assert_eq!(returned("pcall(answer, 'both')"), ["true", "both", "nil"]);
}

#[test]
fn failures_are_raised_and_caught_like_those_of_any_host_function() {
    let mut vm = vm();
    let error = run(&mut vm, "\n\nanswer('fail')").unwrap_err();
    assert_eq!((error.kind(), error.message()), (ErrorKind::Conflict, "taken"));
    assert_eq!(error.fault().unwrap().line, Some(3));
    let caught = "return pcall(function() answer('fail') end)";
    assert_eq!(run(&mut vm, caught).unwrap(), ["false", "-125", "taken"]);
    let error = run(&mut vm, "\nanswer({})").unwrap_err();
    assert_eq!((error.message(), error.fault().unwrap().line), ("a table", Some(2)));
    assert_eq!(run(&mut vm, "return pcall(answer)").unwrap(), ["false", "a nil"]);
    assert_eq!(run(&mut vm, "return answer('both')").unwrap(), ["t", "2.5"]);
}

#[test]
fn quick_functions_can_be_called_from_anywhere_with_any_number_of_arguments() {
    let mut vm = vm();
    let mut returned = |source: &str| run(&mut vm, source).unwrap();
    let many = "local many = table.create(5000, 'x') return ";
    assert_eq!(returned(&format!("{many} select('#', answer('both', unpack(many)))")), ["2"]);
    assert_eq!(returned(&format!("{many} answer('something', unpack(many))")), ["something", "x"]);
    assert_eq!(returned("return (('text'):gsub('text', answer))"), ["a\0b"]);
    assert_eq!(
        returned(
            "return setmetatable({}, {__call = function(_, ...) return answer(...) end})('both')"
        ),
        ["t", "2.5"]
    );
    assert_eq!(
        returned("return pcall(function() return setmetatable({}, {__index = answer}).short end)"),
        ["false", "a table"]
    );
    let interleaved = "local function each() while true do coroutine.yield(answer('both')) end end
                       local a, b = coroutine.wrap(each), coroutine.wrap(each)
                       a() b() a() return b()";
    assert_eq!(returned(interleaved), ["t", "2.5"]);
}

#[test]
fn a_failure_that_was_not_raised_is_not_raised_later() {
    let mut vm = vm();
    // At some depth of nested calls, the VM has no room to call the ordinary function.
    let source = "local function deep()
                      pcall(function() answer('fail') end)
                      return (('x'):gsub('x', deep))
                  end
                  pcall(deep)
                  return answer('something', 'else')";
    assert_eq!(run(&mut vm, source).unwrap(), ["something", "else"]);
}

#[test]
fn a_panic_in_a_quick_function_reaches_the_host() {
    let mut vm = vm();
    let panicked =
        catch_unwind(AssertUnwindSafe(|| run(&mut vm, "pcall(answer, 'x') answer('panic')")));
    let reason = panicked.unwrap_err();
    assert_eq!(reason.downcast_ref(), Some(&"as was wanted"));
}

#[test]
fn results_of_quick_functions_count_against_the_memory_of_the_run() {
    let hoard = "local all = {} while true do all[#all + 1] = answer('large') end";
    let caught = "while true do pcall(function() local all = {} while true do \
                  all[#all + 1] = answer('large') end end) end";
    for source in [hoard, caught] {
        let error = run_within(&mut vm(), source, &small()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Exhausted, "{source}");
        assert_eq!(LARGE.get(), 0, "the VM's error dropped what there was no room for");
    }
}

#[test]
fn a_short_text_holds_up_to_its_stated_length() {
    assert!(ShortText::of(&[7; 60], &[8; 4]).is_some());
    assert!(ShortText::of(&[7; 60], &[8; 5]).is_none());
    assert!(ShortText::of(&[7; 65], b"").is_none());
}
