//! Programs in Brados, which are compiled where they are made live.

use std::sync::Arc;

use nacre_brados::{Value, decode_reply, encode_request, shown_reply};
use nacre_class::{MethodAccess, check_program};
use nacre_clock::{Clock, SystemClock};
use nacre_object::{CallReply, ClassCall, ClassName, ErrorKind, MethodName, Result};
use nacre_script::Digest;

use crate::support::Node;

const PROGRAM: &str = "# a key-value store
state do
  table :kv, [:key:string] => [:value:int]
  interface input, :put, [:key:string, :value:int]
  interface input, :double, [:key:string]
  interface output, :value, [:value]
end
bloom do
  kv <+ put
  value <= (double * kv).pairs(:key => :key) do |d, k|
    [k.value * 2]
  end
end
";

fn call(node: &Node, method: &str, input: Vec<u8>) -> Result<CallReply> {
    let (class, method) = (ClassName::new("kv")?, MethodName::new(method)?);
    node.call("o", ClassCall { class, method, version: None, input: input.into() })
}

fn put(node: &Node, value: i64) -> Result<CallReply> {
    call(node, "put", encode_request(&[Value::text("a"), Value::Int(value)]))
}

fn double(node: &Node) -> Result<CallReply> {
    call(node, "double", encode_request(&[Value::text("a")]))
}

#[test]
fn a_brados_program_is_a_class_like_any_other() {
    let node = Node::new();
    node.install("kv", 3, PROGRAM).unwrap();
    put(&node, 21).unwrap();
    let reply = double(&node).unwrap();
    assert_eq!(shown_reply(&decode_reply(&reply.output).unwrap()), "value(42)");
    let live = node.runtime.live();
    assert_eq!((live[0].version, live[0].digest), (3, Digest::of(PROGRAM.as_bytes())));
}

#[test]
fn errors_of_a_brados_program_name_its_own_lines() {
    let node = Node::new();
    node.install("kv", 3, PROGRAM).unwrap();
    put(&node, 1 << 52).unwrap();
    let conflict = put(&node, 1).unwrap_err();
    assert_eq!(conflict.kind(), ErrorKind::Conflict, "{conflict}");
    assert!(conflict.message().contains("two rows of kv"), "{conflict}");
    assert_eq!(conflict.fault().unwrap().line, Some(3), "the table's");
    let fault = double(&node).unwrap_err();
    assert_eq!(fault.kind(), ErrorKind::Fault);
    let site = fault.fault().unwrap();
    assert_eq!((site.program.as_str(), site.version, site.line), ("kv", 3, Some(10)), "{fault}");
    assert_eq!(site.traceback, "kv:10");
    let invalid = call(&node, "put", b"what".to_vec()).unwrap_err();
    assert_eq!(invalid.kind(), ErrorKind::Invalid);
    assert!(invalid.message().contains(":key:string, :value:int"), "{invalid}");
}

#[test]
fn a_brados_program_is_checked_by_its_own_compiler() {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
    let checked = check_program(PROGRAM, &clock).unwrap();
    let methods: Vec<_> =
        checked.methods.iter().map(|(name, access)| (name.as_str(), *access)).collect();
    assert_eq!(methods, [("double", MethodAccess::ReadOnly), ("put", MethodAccess::ReadWrite)]);
    assert_eq!(checked.digest, Digest::of(PROGRAM.as_bytes()));
    let wrong = PROGRAM.replace("kv <+ put", "kv <+ putt");
    let error = check_program(&wrong, &clock).unwrap_err();
    assert_eq!((error.line, error.column), (Some(9), Some(9)));
    assert!(error.message.ends_with("did you mean `put`?"), "{}", error.message);
    assert!(error.excerpt.contains("9 |   kv <+ putt\n  |         ^^^^"), "{}", error.excerpt);
    let error = Node::new().install("kv", 1, &wrong).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
}
