//! Tests that scripts behave as in Ceph's `cls_lua`: how a script is called, which status it
//! returns, and how it fails. `cls_lua_api.rs` tests the API of scripts. Together the two files
//! test every line of the documented behaviour.
//!
//! Most tests are the body of a handler with the expected status and output. `check` runs each body
//! on a new object.

use crate::support::{Node, call, check, small_budget, status, write};
use bytes::Bytes;

const EIO: i32 = -5;
const ENOENT: i32 = -2;
const EEXIST: i32 = -17;
const EINVAL: i32 = -22;
const EOPNOTSUPP: i32 = -95;

// Calling

#[test]
fn json_input_is_script_handler_and_optional_input() {
    let node = Node::new();
    let eval = |input: &str| node.method("o", "lua", "eval_json", input);
    let echo = r#"{"script": "function e(i, o) o:append(i:str()) end objclass.register(e)",
                   "handler": "e", "input": "omg it works",
                  }"#;
    assert_eq!(&eval(echo).unwrap().output[..], b"omg it works");
    let without =
        r#"{"script": "function e(i) return #i end objclass.register(e)", "handler": "e"}"#;
    assert_eq!(eval(without).unwrap().status, 0);
    for wrong in [
        "",
        "not json",
        "[]",
        r#"{"script": "x = 1"}"#,
        r#"{"handler": "x"}"#,
        r#"{"script": 1, "handler": ""}"#,
        r#"{"script": "", "handler": 1}"#,
        r#"{"script": "", "handler": "", "input": 1}"#,
    ] {
        assert_eq!(status(eval(wrong)), EINVAL, "{wrong}");
    }
}

#[test]
fn bufferlist_input_is_a_versioned_struct_of_script_handler_and_input() {
    let node = Node::new();
    let script = "function e(i, o) o:append(i:str()) end objclass.register(e)";
    let reply = node.eval("o", script, "e", b"\0\xff\n").unwrap();
    assert_eq!(&reply.output[..], b"\0\xff\n");
    for wrong in
        [&b""[..], b"\x01\x01\xff\0\0\0", b"\x01\x01\x04\0\0\0\x09\0\0\0", b"\x02\x02\0\0\0\0"]
    {
        let input = Bytes::copy_from_slice(wrong);
        let result = node.call("o", call("lua", "eval_bufferlist", None, input));
        assert_eq!(status(result), EINVAL, "{wrong:?}");
    }
}

#[test]
fn the_chunk_runs_and_then_the_registered_global_of_that_name() {
    let node = Node::new();
    // If the handler's name is empty, only the chunk runs, with the object.
    assert_eq!(node.status("o", "objclass.create(true)", ""), 0);
    assert_eq!(node.status("o", "objclass.create(true)", ""), EEXIST);
    assert_eq!(node.status("o", "", ""), 0);
    assert_eq!(node.status("o", "return -5", ""), 0);
    // Both arguments are buffer lists.
    let types = "assert(type(input) == 'userdata' and #output == 0) output:append(input:str())";
    assert_eq!(node.body("o", types), (0, "the input".into()));
}

#[test]
fn the_last_returned_value_is_the_status() {
    check(&[
        ("", 0, ""),
        ("return 1", 1, ""),
        ("return 0", 0, ""),
        ("return -1", -1, ""),
        ("return '1'", 1, ""),
        ("return '0'", 0, ""),
        ("return '-1'", -1, ""),
        ("return ' 0x10 '", 16, ""),
        ("return 2.0", 2, ""),
        ("return 1, 2, -3", -3, ""),
        ("return -3, 0", 0, ""),
        ("return 'junk', 0", 0, ""),
        ("return (function() end)()", 0, ""),
        ("return 2147483647", i32::MAX, ""),
        ("return nil", EIO, ""),
        ("return 0, nil", EIO, ""),
        ("return {}", EIO, ""),
        ("return true", EIO, ""),
        ("return 'asdf'", EIO, ""),
        ("return ''", EIO, ""),
        ("return 1.5", EIO, ""),
        ("return '1.5'", EIO, ""),
        ("return 0/0", EIO, ""),
        ("return math.huge", EIO, ""),
        ("return 2^40", EIO, ""),
        ("return input", EIO, ""),
        ("return -9999", -9999, ""),
    ]);
}

#[test]
fn a_fault_gives_the_status_eio() {
    let node = Node::new();
    let register = |rest: &str| format!("function h() end {rest}");
    assert_eq!(node.status("o", "-", ""), EIO);
    assert_eq!(node.status("o", "-", "h"), EIO);
    assert_eq!(node.status("o", "error('x')", ""), EIO);
    assert_eq!(node.status("o", "function a() error('x') end function b() a() end b()", ""), EIO);
    assert_eq!(node.body("o", "error('x')").0, EIO);
    assert_eq!(node.body("o", "assert(false)").0, EIO);
    assert_eq!(node.body("o", "error({ status = -2 })").0, EIO);
    assert_eq!(node.status("o", &register(""), "h"), EIO, "not registered");
    assert_eq!(node.status("o", &register("objclass.register(h) objclass.register(h)"), ""), EIO);
    assert_eq!(node.status("o", "objclass.register('some string')", ""), EIO);
    assert_eq!(node.status("o", "objclass.register(missing)", ""), EIO);
    assert_eq!(node.status("o", "objclass.register(h) function h() end", "h"), EIO);
    assert_eq!(node.status("o", &register("objclass.register(h)"), "h"), 0);
    let two = "function a() end function b() end objclass.register(a) objclass.register(b)";
    assert_eq!((node.status("o", two, "a"), node.status("o", two, "b")), (0, 0));
    // A library function is a global function, too; it is just not registered.
    assert_eq!(node.status("o", "", "tostring"), EIO);
}

#[test]
fn calling_a_missing_handler_is_not_supported() {
    let node = Node::new();
    assert_eq!(node.status("o", "x = 1", "x"), EOPNOTSUPP);
    assert_eq!(node.status("o", "", "x"), EOPNOTSUPP);
    assert_eq!(node.status("o", "local function x() end objclass.register(x)", "x"), EOPNOTSUPP);
    assert_eq!(node.status("o", "", "string"), EOPNOTSUPP);
}

// Errors

#[test]
fn an_uncaught_storage_error_becomes_the_status() {
    check(&[
        ("objclass.stat()", ENOENT, ""),
        ("objclass.remove()", ENOENT, ""),
        ("objclass.create(true) objclass.create(true)", EEXIST, ""),
        ("objclass.map_get_val('dne')", ENOENT, ""),
        ("objclass.create() objclass.map_get_val('dne')", ENOENT, ""),
        ("objclass.create() objclass.getxattr('dne')", -61, ""),
        ("objclass.map_set_vals({a = {}})", EINVAL, ""),
        ("objclass.map_set_vals({[{}] = 'x'})", EINVAL, ""),
    ]);
}

#[test]
fn pcall_gives_false_errno_and_message_and_clears_the_error() {
    check(&[
        (
            "local ok, status, message = pcall(objclass.stat)
             assert(ok == false and status == -objclass.ENOENT and type(message) == 'string')
             assert(select('#', pcall(objclass.stat)) == 3)",
            0,
            "",
        ),
        ("local ok, status = pcall(objclass.stat) return status", ENOENT, ""),
        (
            "local ok, status = pcall(function() local s = objclass.stat() end) return status",
            ENOENT,
            "",
        ),
        // A later failure in the same handler behaves the same way, caught or not.
        (
            "objclass.create(true)
             for i = 1, 3 do
                 local ok, status = pcall(objclass.create, true)
                 assert(not ok and status == -objclass.EEXIST)
             end
             return -9999",
            -9999,
            "",
        ),
        ("pcall(objclass.stat) objclass.getxattrs()", ENOENT, ""),
        // Clearing: an ordinary error after a caught one is no storage error.
        ("pcall(objclass.stat) error('x')", EIO, ""),
        (
            "pcall(objclass.stat) local ok, message, more = pcall(error, 'x', 0)
             assert(ok == false and message == 'x' and more == nil)",
            0,
            "",
        ),
        (
            "pcall(objclass.stat) local ok, value = pcall(function() return 7 end) return value",
            7,
            "",
        ),
        // Nested: the inner one tells the error, the outer one sees success.
        (
            "return (select(2, pcall(function() return (select(2, pcall(objclass.stat))) end)))",
            ENOENT,
            "",
        ),
        // Wrong arguments are ordinary errors.
        (
            "local ok, m, more = pcall(objclass.read, {}, 1) assert(type(m) == 'string' and not more)",
            0,
            "",
        ),
        ("objclass.write(0, 1, 'x')", EIO, ""),
        ("objclass.map_set_val('k', 'x')", EIO, ""),
    ]);
}

#[test]
fn objclass_holds_the_classic_errno_constants() {
    check(&[(
        "local names = 'EPERM ENOENT ESRCH EINTR EIO ENXIO E2BIG ENOEXEC EBADF ECHILD EAGAIN ENOMEM '
             .. 'EACCES EFAULT - EBUSY EEXIST EXDEV ENODEV ENOTDIR EISDIR EINVAL ENFILE EMFILE '
             .. 'ENOTTY - EFBIG ENOSPC ESPIPE EROFS EMLINK EPIPE EDOM ERANGE'
         local number = 0
         for name in names:gmatch('%S+') do
             number += 1
             assert(name == '-' or objclass[name] == number, name)
         end
         assert(number == 34 and objclass.ENOTBLK == nil and objclass.ETXTBSY == nil)
         assert(objclass.ENODATA == 61 and objclass.ESTALE == 116 and objclass.EOPNOTSUPP == 95)",
        0,
        "",
    )]);
}

#[test]
fn a_handler_that_fails_leaves_the_object_as_it_was() {
    let node = Node::with_budget(small_budget());
    let spoil = "local bl = bufferlist.new() bl:append('spoiled')
                 objclass.write_full(bl) objclass.setxattr('x', bl) objclass.map_set_val('k', bl)
                 objclass.map_write_header(bl) ";
    write(&node, "o", b"good");
    for end in
        ["return -1", "error('x')", "return nil", "objclass.create(true)", "while true do end"]
    {
        assert!(node.body("o", &format!("{spoil}{end}")).0 < 0, "{end}");
        assert_eq!(&node.read("o").unwrap()[..], b"good", "{end}");
        assert_eq!(node.map("o"), [], "{end}");
        assert!(
            node.body("absent", &format!("{spoil}{end}")).0 < 0 || end == "objclass.create(true)"
        );
        assert_eq!(node.body("absent", "objclass.stat()").0, ENOENT, "{end}");
    }
    assert_eq!(node.body("o", spoil).0, 0);
    assert_eq!(&node.read("o").unwrap()[..], b"spoiled");
}
