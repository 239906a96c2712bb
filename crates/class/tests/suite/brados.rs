//! Programs in Brados, which are compiled where they are made live.

use std::sync::Arc;

use nacre_brados::{Value, decode_reply, encode_request, shown_reply};
use nacre_class::{MAX_BATCH_REQUESTS, MethodAccess, check_program, decode_answers, encode_batch};
use nacre_clock::{Clock, SystemClock};
use nacre_object::limits::MAX_MAP_VALUE_BYTES;
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

/// A request of it is written in two steps.
const TWO_TABLES: &str = "# a key-value store that counts
state do
  table :kv, [:key:string] => [:value:int]
  table :bytes, [:key:string] => [:bytes:bytes]
  interface input, :put, [:key:string, :bytes:bytes]
  interface input, :double, [:key:string]
  interface output, :value, [:value]
end
bloom do
  kv <+- put{|p| [p.key, 1]}
  bytes <+- put
  value <= (double * kv).rights(:key => :key){|k| [k.value]}
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

fn put_request(key: &str, value: i64) -> Vec<u8> {
    encode_request(&[Value::text(key), Value::Int(value)])
}

#[test]
fn a_batch_is_many_requests_of_a_method_each_with_its_own_outcome() {
    let node = Node::new();
    node.install("kv", 3, PROGRAM).unwrap();
    let requests =
        [put_request("a", 1), put_request("a", 2), b"what".to_vec(), put_request("b", 1 << 52)];
    let reply = call(&node, "put.batch", encode_batch(u32::MAX, &requests).into()).unwrap();
    let answers = decode_answers(reply.output, requests.len()).unwrap();
    let statuses: Vec<_> = answers.iter().map(|answer| answer.status).collect();
    assert_eq!(statuses, [0, -125, -22, 0], "a conflict with what the batch itself put");
    assert!(answers[1].output.starts_with(b"two rows of kv"), "{answers:?}");

    let asked = ["a", "b", "a", "c", "a"].map(|key| encode_request(&[Value::text(key)]));
    let reply = call(&node, "double.batch", encode_batch(u32::MAX, &asked).into()).unwrap();
    let answers = decode_answers(reply.output, asked.len()).unwrap();
    let told: Vec<_> = answers
        .iter()
        .map(|answer| match answer.status {
            0 => shown_reply(&decode_reply(&answer.output).unwrap()),
            status => status.to_string(),
        })
        .collect();
    assert_eq!(told, ["value(2)", "-5", "value(2)", "nothing", "value(2)"]);
    assert!(node.heard.faults.lock().unwrap()[0].starts_with("kv 3 double Some(10)"));

    let few = call(&node, "double.batch", encode_batch(1, &asked).into()).unwrap();
    assert_eq!(decode_answers(few.output, asked.len()).unwrap().len(), 1, "past the limit");
}

#[test]
fn what_is_wrong_with_a_batch_is_wrong_with_all_of_it() {
    let node = Node::new();
    node.install("kv", 3, PROGRAM).unwrap();
    let too_many = vec![vec![]; MAX_BATCH_REQUESTS + 1];
    for input in [vec![1, 2, 3], encode_batch(9, &too_many).into()] {
        let refused = call(&node, "put.batch", input).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Invalid, "{refused}");
    }
    node.install("kv", 4, TWO_TABLES).unwrap();
    let put = |bytes| encode_request(&[Value::text("a"), Value::Bytes(vec![b'x'; bytes])]);
    let requests = [put(1), put(MAX_MAP_VALUE_BYTES + 1)];
    let failed = call(&node, "put.batch", encode_batch(9999, &requests).into()).unwrap_err();
    assert_eq!(failed.kind(), ErrorKind::Invalid, "a value that no map takes: {failed}");
    let reply = double(&node).unwrap();
    assert!(reply.output.is_empty(), "the first of two tables was written, so all is undone");
    let missing = call(&node, "other.batch", encode_batch(9, &[]).into()).unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::Unsupported);
    node.install("by_hand", 1, "function m() end objclass.register(m)").unwrap();
    let class = ClassName::new("by_hand").unwrap();
    let method = MethodName::new("m.batch").unwrap();
    let by_hand = ClassCall { class, method, version: None, input: encode_batch(9, &[]) };
    let refused = node.call("o", by_hand).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unsupported, "classes by hand have what they have");
}
