//! Tests the class runtime: which classes exist, who may call them, and which faults are reported.

use std::sync::Arc;

use crate::support::{Node, call, class, small_budget, status};
use bytes::Bytes;
use nacre_class::{CheckError, ClassProgram, check_program};
use nacre_clock::{Clock, SystemClock};
use nacre_object::{
    CallContext, CallReply, ClassHost, ErrorKind, ObjectView, Op, RemoteClassHost, Result,
};
use nacre_object::{MethodAccess, NativeClass};

const COUNTER: &str = "
function add(input)
    local value = 0
    if objclass.exists() then value = tonumber(objclass.read(0, 0):str()) or 0 end
    local bl = bufferlist.new()
    bl:append(tostring(value + tonumber(input:str())))
    objclass.write_full(bl)
    return value + tonumber(input:str())
end

function get() return tonumber(objclass.read(0, 0):str()) end

objclass.register(add)
objclass.register(get, 'readonly')
";

fn echo(input: Bytes, _: &mut dyn ObjectView, _: &CallContext) -> Result<CallReply> {
    Ok(CallReply { status: 0, output: input })
}

fn fail(_: Bytes, view: &mut dyn ObjectView, _: &CallContext) -> Result<CallReply> {
    view.write_full(Bytes::from_static(b"spoiled"))?;
    Ok(CallReply { status: -17, output: Bytes::new() })
}

fn native() -> NativeClass {
    NativeClass::new(class("native"))
        .method("echo", MethodAccess::ReadOnly, echo)
        .method("fail", MethodAccess::ReadWrite, fail)
        .method("sneak", MethodAccess::ReadOnly, fail)
}

#[test]
fn a_program_adds_methods_to_objects() {
    let node = Node::new();
    node.install("counter", 1, COUNTER).unwrap();
    assert_eq!(node.method("a", "counter", "add", "5").unwrap().status, 5);
    assert_eq!(node.method("a", "counter", "add", "2").unwrap().status, 7);
    assert_eq!(node.method("b", "counter", "add", "1").unwrap().status, 1);
    assert_eq!(node.method("a", "counter", "get", "").unwrap().status, 7);
    assert_eq!(&node.read("a").unwrap()[..], b"7");
}

#[test]
fn a_call_is_one_op_of_its_transaction() {
    let node = Node::new();
    node.install("counter", 1, COUNTER).unwrap();
    let add = |n: &'static str| Op::Call(call("counter", "add", None, n));
    node.submit(
        "a",
        vec![add("1"), add("2"), Op::Append { data: Bytes::from_static(b"0") }, add("3")],
    )
    .unwrap();
    assert_eq!(&node.read("a").unwrap()[..], b"33");
    assert!(node.submit("a", vec![add("1"), Op::AssertAbsent]).is_err());
    assert_eq!(&node.read("a").unwrap()[..], b"33");
}

#[test]
fn a_call_of_another_version_is_stale() {
    let node = Node::new();
    let counter = class("counter");
    assert_eq!(node.runtime.live_version(&counter), None);
    node.install("counter", 4, COUNTER).unwrap();
    assert_eq!(node.runtime.live_version(&counter), Some(4));
    let at = |version| node.call("o", call("counter", "add", version, "1"));
    assert_eq!(at(Some(4)).unwrap().status, 1);
    assert_eq!(at(None).unwrap().status, 2);
    assert_eq!(at(Some(3)).unwrap_err().kind(), ErrorKind::Stale);
    assert_eq!(at(Some(5)).unwrap_err().kind(), ErrorKind::Stale);
    // The new version takes over at once, and an older one may be made live again.
    node.install("counter", 5, "function add() return 100 end objclass.register(add)").unwrap();
    assert_eq!(at(Some(5)).unwrap().status, 100);
    assert_eq!(at(Some(4)).unwrap_err().kind(), ErrorKind::Stale);
    node.install("counter", 4, COUNTER).unwrap();
    assert_eq!(at(Some(4)).unwrap().status, 3);
}

#[test]
fn calling_a_missing_class_or_method_is_not_supported() {
    let node = Node::new();
    node.install("counter", 1, COUNTER).unwrap();
    node.runtime.register_native(native()).unwrap();
    for (class, method) in
        [("none", "add"), ("counter", "none"), ("native", "none"), ("lua", "none")]
    {
        let error = node.method("o", class, method, "").unwrap_err();
        assert_eq!(
            (error.kind(), error.status()),
            (ErrorKind::Unsupported, -95),
            "{class}.{method}"
        );
    }
    assert!(
        node.method("o", "counter", "none", "")
            .unwrap_err()
            .hint_text()
            .unwrap()
            .contains("add, get")
    );
    assert!(node.runtime.uninstall(&class("counter")));
    assert!(!node.runtime.uninstall(&class("counter")));
    assert!(!node.runtime.uninstall(&class("native")));
    assert_eq!(status(node.method("o", "counter", "add", "1")), -95);
    assert_eq!(node.runtime.live(), []);
}

#[test]
fn live_programs_are_listed_with_version_and_digest() {
    let node = Node::new();
    node.install("b", 2, COUNTER).unwrap();
    node.install("a", 9, "function m() end objclass.register(m)").unwrap();
    let program = ClassProgram::new(class("b"), 2, COUNTER);
    let live = node.runtime.live();
    let names: Vec<_> = live.iter().map(|live| (live.name.as_str(), live.version)).collect();
    assert_eq!(names, [("a", 9), ("b", 2)]);
    assert_eq!(live[1].digest, program.digest());
}

#[test]
fn native_classes_are_called_and_fail_like_programs() {
    let node = Node::new();
    node.runtime.register_native(native()).unwrap();
    assert_eq!(&node.method("o", "native", "echo", "hi").unwrap().output[..], b"hi");
    let error = node.method("o", "native", "fail", "").unwrap_err();
    assert_eq!((error.kind(), error.status()), (ErrorKind::Exists, -17));
    assert!(node.read("o").is_err(), "nothing of it remains");
    assert_eq!(node.method("o", "native", "sneak", "").unwrap_err().kind(), ErrorKind::Denied);
    let versioned = |version| node.call("o", call("native", "echo", Some(version), ""));
    assert_eq!(versioned(0).unwrap().status, 0);
    assert_eq!(versioned(1).unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(node.runtime.live_version(&class("native")), Some(0));
}

#[test]
fn a_name_belongs_to_one_kind_of_class() {
    let node = Node::new();
    node.runtime.register_native(native()).unwrap();
    assert_eq!(node.runtime.register_native(native()).unwrap_err().kind(), ErrorKind::Exists);
    let lua = NativeClass::new(class("lua"));
    assert_eq!(node.runtime.register_native(lua).unwrap_err().kind(), ErrorKind::Exists);
    for name in ["native", "lua"] {
        assert_eq!(node.install(name, 1, COUNTER).unwrap_err().kind(), ErrorKind::Exists, "{name}");
    }
    node.install("program", 1, COUNTER).unwrap();
    let program = NativeClass::new(class("program"));
    assert_eq!(node.runtime.register_native(program).unwrap_err().kind(), ErrorKind::Exists);
}

#[test]
fn the_host_knows_which_methods_are_read_only() {
    let node = Node::new();
    node.install("counter", 1, COUNTER).unwrap();
    node.runtime.register_native(native()).unwrap();
    let read_only = |class, method| node.runtime.is_read_only(&call(class, method, None, ""));
    assert!(read_only("counter", "get") && read_only("native", "echo"));
    assert!(!read_only("counter", "add") && !read_only("native", "fail"));
    assert!(
        !read_only("counter", "none")
            && !read_only("none", "get")
            && !read_only("lua", "eval_json")
    );
}

#[test]
fn a_read_only_method_cannot_make_itself_writable() {
    let node = Node::new();
    // This program registers its method as read-only while it is checked (without an object), but
    // not when it is called.
    let source = "function m(input) objclass.write_full(input) end
                  local checked = not pcall(objclass.exists)
                  objclass.register(m, checked and 'readonly' or nil)
                  if not checked then objclass.create(false) end";
    node.install("sly", 1, source).unwrap();
    assert!(node.runtime.is_read_only(&call("sly", "m", None, "")));
    assert_eq!(node.method("o", "sly", "m", "x").unwrap_err().kind(), ErrorKind::Denied);
}

#[test]
fn state_passes_between_calls_only_through_the_object() {
    let node = Node::new();
    let source = "local hidden, list = 0, {}
                  function m()
                      hidden += 1
                      table.insert(list, 1)
                      shared = (shared or 0) + 1
                      return hidden + #list + shared
                  end
                  objclass.register(m)";
    node.install("sticky", 1, source).unwrap();
    for _ in 0..3 {
        assert_eq!(node.method("o", "sticky", "m", "").unwrap().status, 3);
        assert_eq!(node.status("o", source, "m"), 3);
        assert_eq!(node.body("o", "assert(shared == nil and m == nil)").0, 0);
    }
}

#[test]
fn the_same_call_draws_the_same_random_numbers() {
    let node = Node::new();
    let context =
        CallContext { source: "client.a".parse().unwrap(), now_micros: 1_700_000_000_000_000 };
    node.install(
        "dice",
        1,
        "function m(_, o) o:append(tostring(math.random())) end objclass.register(m)",
    )
    .unwrap();
    let throw = || {
        let mut object = nacre_conformance::MemoryObject::default();
        node.runtime.call(&call("dice", "m", None, ""), &mut object, &context).unwrap().output
    };
    assert_eq!(throw(), throw());
}

#[test]
fn faults_are_reported_with_program_version_method_and_line() {
    let node = Node::with_budget(small_budget());
    let source = "function fault()\n  error('x')\nend\nfunction spin() while true do end end
                  function answer() objclass.stat() end function refuse() return -5 end
                  objclass.register(fault) objclass.register(spin) objclass.register(answer)
                  objclass.register(refuse)";
    node.install("buggy", 3, source).unwrap();
    let error = node.method("o", "buggy", "fault", "").unwrap_err();
    let site = error.fault().unwrap();
    assert_eq!((site.program.as_str(), site.version, site.line), ("buggy", 3, Some(2)));
    assert_eq!((error.kind(), error.message()), (ErrorKind::Fault, "x"));
    assert!(site.traceback.starts_with("buggy:2: in function 'fault'"), "{}", site.traceback);
    assert_eq!(node.method("o", "buggy", "spin", "").unwrap_err().kind(), ErrorKind::Exhausted);
    // An error of the object, or a status that the program returns, is no fault of the program.
    assert_eq!(node.method("o", "buggy", "answer", "").unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(status(node.method("o", "buggy", "refuse", "")), -5);
    assert_eq!(node.status("o", "\nlocal x = nil + 1", ""), -5);
    let heard = std::mem::take(&mut *node.heard.faults.lock().unwrap());
    let expected = [
        "buggy 3 fault Some(2) fault ",
        "buggy 3 spin Some(4) exhausted time",
        "eval 0  Some(2) fault ",
    ];
    assert_eq!(heard, expected);
}

#[test]
fn a_syntax_error_of_a_one_off_script_tells_its_line() {
    let error = Node::new().eval("o", "\n\nx = do", "", b"").unwrap_err();
    assert_eq!((error.kind(), error.status()), (ErrorKind::Fault, -5));
    assert_eq!(error.fault().unwrap().line, Some(3));
}

#[test]
fn many_programs_and_scripts_are_served_from_bounded_caches() {
    let node = Node::new();
    for round in 0..2 {
        for i in 0..300 {
            assert_eq!(node.body("o", &format!("return {i}")).0, i, "round {round}");
        }
    }
}

#[test]
fn methods_run_on_many_threads_at_once() {
    let node = Arc::new(Node::new());
    node.install("counter", 1, COUNTER).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let node = node.clone();
            scope.spawn(move || {
                let object = format!("o{}", thread % 2);
                for _ in 0..100 {
                    node.method(&object, "counter", "add", "1").unwrap();
                }
            });
        }
    });
    for object in ["o0", "o1"] {
        assert_eq!(node.method(object, "counter", "get", "").unwrap().status, 200);
    }
}

#[test]
fn a_panic_in_the_engine_is_not_caught_by_a_script() {
    let node = Node::new();
    node.install("m", 1, "function m() pcall(objclass.stat) return 0 end objclass.register(m)")
        .unwrap();
    let context = CallContext { source: "client.a".parse().unwrap(), now_micros: 0 };
    let called = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        node.runtime.call(&call("m", "m", None, ""), &mut Unready, &context)
    }));
    assert!(called.is_err());
    assert_eq!(node.body("o", "return 1").0, 1, "the next call gets a new VM");
}

#[test]
fn a_fault_of_an_unreported_call_is_reported_once_its_result_is_used() {
    let node = Node::new();
    let source = "function m() assert(pcall(objclass.getxattr, 'a')) end objclass.register(m)";
    node.install("m", 1, source).unwrap();
    let context = CallContext { source: "client.a".parse().unwrap(), now_micros: 0 };
    let call = call("m", "m", None, "");
    let (outcome, faults) = node.runtime.call_unreported(&call, &mut Unready, &context);
    assert_eq!(outcome.unwrap_err().kind(), ErrorKind::Fault);
    assert!(node.heard.faults.lock().unwrap().is_empty());
    let [(fault, error)] = &faults[..] else { panic!("{faults:?}") };
    assert_eq!((fault.program.as_str(), fault.version, fault.method.as_str()), ("m", 1, "m"));
    node.runtime.failed(fault, error);
    assert_eq!(node.method("o", "m", "m", "").unwrap_err().kind(), ErrorKind::Fault);
    assert_eq!(node.heard.faults.lock().unwrap().len(), 2);
}

#[test]
fn a_program_is_checked_before_it_is_stored() {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
    let check = |source: &str| check_program(source, &clock);
    let checked = check(COUNTER).unwrap();
    let methods: Vec<_> =
        checked.methods.iter().map(|(name, access)| (name.as_str(), *access)).collect();
    assert_eq!(methods, [("add", MethodAccess::ReadWrite), ("get", MethodAccess::ReadOnly)]);

    let refused = |source: &str| -> CheckError { check(source).unwrap_err() };
    let error = refused("function m()\n  return do\nend");
    assert_eq!((error.line, error.column), (Some(2), Some(10)));
    assert_eq!(error.excerpt, "    2 |   return do\n      |          ^\n");
    let error = refused("x = 1\nlocal y = x.z.w\n");
    assert_eq!((error.line, error.column), (Some(2), None));
    assert_eq!(error.excerpt, "    2 | local y = x.z.w\n");
    assert_eq!(refused("\nobjclass.stat()").line, Some(2), "there is no object yet");
    assert!(refused("").message.contains("no method"));
    assert!(
        refused("local function m() end objclass.register(m)")
            .message
            .contains("not a global function")
    );
    assert!(refused("while true do end").message.contains("longer than"));
    let node = Node::new();
    let error = node.install("m", 1, "x = = 1").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert_eq!(node.runtime.live(), []);
}

/// An object view of an engine that has not fetched anything yet, and that has a bug.
struct Unready;

impl ObjectView for Unready {
    fn stat(&mut self) -> Result<nacre_object::ObjectStat> {
        panic!("a bug in the engine")
    }
    fn exists(&mut self) -> Result<bool> {
        unreachable!()
    }
    fn version(&mut self) -> Result<u64> {
        unreachable!()
    }
    fn create(&mut self, _: bool) -> Result<()> {
        unreachable!()
    }
    fn remove(&mut self) -> Result<()> {
        unreachable!()
    }
    fn read(&mut self, _: u64, _: u64) -> Result<Bytes> {
        unreachable!()
    }
    fn write(&mut self, _: u64, _: Bytes) -> Result<()> {
        unreachable!()
    }
    fn write_full(&mut self, _: Bytes) -> Result<()> {
        unreachable!()
    }
    fn append(&mut self, _: Bytes) -> Result<u64> {
        unreachable!()
    }
    fn truncate(&mut self, _: u64) -> Result<()> {
        unreachable!()
    }
    fn zero(&mut self, _: u64, _: u64) -> Result<()> {
        unreachable!()
    }
    fn attribute(&mut self, _: &str) -> Result<Option<Bytes>> {
        Err(nacre_object::Error::unavailable("it is not at hand"))
    }
    fn attributes(&mut self) -> Result<Vec<(String, Bytes)>> {
        unreachable!()
    }
    fn set_attribute(&mut self, _: &str, _: Bytes) -> Result<()> {
        unreachable!()
    }
    fn remove_attribute(&mut self, _: &str) -> Result<()> {
        unreachable!()
    }
    fn map_get(&mut self, _: &[u8]) -> Result<Option<Bytes>> {
        unreachable!()
    }
    fn map_set(&mut self, _: &[u8], _: Bytes) -> Result<()> {
        unreachable!()
    }
    fn map_remove(&mut self, _: &[u8]) -> Result<()> {
        unreachable!()
    }
    fn map_clear(&mut self) -> Result<()> {
        unreachable!()
    }
    fn map_range(&mut self, _: &[u8], _: &[u8], _: usize) -> Result<nacre_object::MapRange> {
        unreachable!()
    }
    fn map_last(&mut self, _: &[u8]) -> Result<Option<nacre_object::MapEntry>> {
        unreachable!()
    }
    fn map_header(&mut self) -> Result<Bytes> {
        unreachable!()
    }
    fn set_map_header(&mut self, _: Bytes) -> Result<()> {
        unreachable!()
    }
}
