//! Programs in Brados, which are compiled where they are made live.

use std::slice::from_ref;
use std::sync::Arc;

use nacre_brados::{Value, shown_reply};
use nacre_calls::{MAX_BATCH_REQUESTS, decode_answers, encode_batch};
use nacre_calls::{decode_reply, encode_request};
use nacre_class::check_program;
use nacre_clock::{Clock, SystemClock};
use nacre_object::MethodAccess;
use nacre_object::limits::MAX_MAP_VALUE_BYTES;
use nacre_object::{CallReply, ClassCall, ClassName, ErrorKind, MethodName, Result};
use nacre_program::Digest;

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
fn an_error_of_the_whole_batch_refuses_every_request() {
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

/// A program whose requests have strings at the end and before the end. The tests send short
/// strings, and strings so long that the host makes no VM strings of them.
const TEXTS: &str = "# keeps texts
state do
  table :page, [:at:int] => [:text:bytes]
  table :note, [:name:string] => [:at:int]
  interface input, :write, [:at:int, :text:bytes]
  interface input, :read, [:at:int]
  interface input, :echo, [:at:int, :text:bytes]
  interface input, :name_it, [:name:string, :at:int]
  interface input, :find, [:name:string]
  interface output, :found, [] => [:text:bytes]
  interface output, :at, [] => [:at:int]
end
bloom do
  page <+ write
  found <= (read * page).rights(:at => :at){|p| [p.text]}
  found <= echo{|e| [e.text]}
  note <+- name_it
  at <= (find * note).rights(:name => :name){|n| [n.at]}
end
";

#[test]
fn long_requests_give_the_same_results_as_short_ones() {
    let node = Node::new();
    node.install("kv", 1, TEXTS).unwrap();
    let found =
        |reply: CallReply| decode_reply(&reply.output).unwrap().remove(0).1.remove(0).remove(0);
    let ask = |method: &str, row: &[Value]| call(&node, method, encode_request(row));
    for (at, length) in [0, 1, 40, 200, 255, 256, 257, 300, 5000].into_iter().enumerate() {
        let at = Value::Int(at as i64 - 2);
        let text = Value::Bytes((0..length).map(|byte| byte as u8).collect());
        let other = Value::Bytes(vec![7; length + 1]);
        let name = Value::Bytes(vec![b'n'; length.min(1000)]);
        ask("write", &[at.clone(), text.clone()]).unwrap();
        ask("write", &[at.clone(), text.clone()]).unwrap();
        let conflict = ask("write", &[at.clone(), other.clone()]).unwrap_err();
        assert_eq!(conflict.kind(), ErrorKind::Conflict, "{length}");
        assert_eq!(found(ask("read", from_ref(&at)).unwrap()), text, "{length}");
        assert_eq!(found(ask("echo", &[at.clone(), other.clone()]).unwrap()), other);
        ask("name_it", &[name.clone(), at.clone()]).unwrap();
        assert_eq!(found(ask("find", from_ref(&name)).unwrap()), at, "{length}");

        let next = |more: i64| match &at {
            Value::Int(at) => Value::Int(100 + 10 * at + more),
            other => panic!("{other:?}"),
        };
        let batch = |method: &str, rows: &[&[Value]]| {
            let requests: Vec<_> = rows.iter().map(|row| encode_request(row)).collect();
            let input = encode_batch(u32::MAX, &requests).to_vec();
            let reply = call(&node, &format!("{method}.batch"), input).unwrap();
            decode_answers(reply.output, rows.len()).unwrap()
        };
        let written =
            [&[next(0), text.clone()][..], &[next(0), other.clone()], &[next(1), other.clone()]];
        let statuses = batch("write", &written).into_iter().map(|answer| answer.status);
        assert_eq!(statuses.collect::<Vec<_>>(), [0, -125, 0], "{length}");
        let texts = batch("read", &[&[next(0)], &[next(1)]]).into_iter().map(found);
        assert_eq!(texts.collect::<Vec<_>>(), [text.clone(), other.clone()], "{length}");
        let texts = batch("echo", &[&[next(0), text.clone()], &[next(1), other.clone()]]);
        assert_eq!(texts.into_iter().map(found).collect::<Vec<_>>(), [text, other], "{length}");
        let named = batch("name_it", &[&[name.clone(), next(0)], &[name.clone(), next(1)]]);
        assert!(named.iter().all(|answer| answer.status == 0), "{length}");
        assert_eq!(found(batch("find", &[&[name]]).remove(0)), next(1), "{length}");
    }
    let mut cut = encode_request(&[Value::Int(1), Value::Bytes(vec![7; 300])]);
    cut.pop();
    assert_eq!(call(&node, "write", cut).unwrap_err().kind(), ErrorKind::Invalid);
}
