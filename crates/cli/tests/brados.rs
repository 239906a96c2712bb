//! Programs in Brados: the compiler by itself, and as classes of a real cluster.

mod common;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use common::follower::Follower;
use common::{NACRE, RunningCluster};
use nacre_conformance::wait::eventually_blocking;

const REFS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../programs/class/refs.brados");

fn nacre(arguments: &[&str]) -> Output {
    Command::new(NACRE).args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn write(folder: &Path, name: &str, source: &str) -> String {
    let path = folder.join(name);
    fs::write(&path, source).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn brados_check_reports_every_mistake_with_its_place_and_a_hint() {
    let folder = tempfile::tempdir().unwrap();
    let source = fs::read_to_string(REFS).unwrap();
    let wrong = source.replace("refs <+ get_ref", "refs <+ get_reff").replace("t.count", "t.total");
    let path = write(folder.path(), "wrong.brados", &wrong);
    let checked = nacre(&["brados", "check", &path]);
    assert_eq!(checked.status.code(), Some(2));
    let said = text(&checked.stderr);
    assert!(
        said.contains("wrong.brados:18:11: error: there is no collection `get_reff`"),
        "{said}"
    );
    assert!(said.contains("18 |   refs <+ get_reff\n   |           ^^^^^^^^"), "{said}");
    assert!(said.contains("help: did you mean `get_ref`?"), "{said}");
    assert!(said.contains("`total` has no column `total`"), "{said}");
    let checked = nacre(&["--json", "brados", "check", &path]);
    let first: serde_json::Value =
        serde_json::from_str(text(&checked.stdout).lines().next().unwrap()).unwrap();
    assert_eq!((&first["line"], &first["column"]), (&18.into(), &11.into()));
    let checked = nacre(&["brados", "check", REFS]);
    assert_eq!(checked.status.code(), Some(0), "{}", text(&checked.stderr));
}

#[test]
fn brados_compile_explain_and_fmt_print_the_expected_output() {
    let folder = tempfile::tempdir().unwrap();
    let compiled = nacre(&["brados", "compile", REFS]);
    assert!(text(&compiled.stdout).contains("objclass.register(_G[\"get_ref\"]"));
    let svg = folder.path().join("graph.svg");
    let explained = nacre(&["brados", "explain", REFS, "--svg", svg.to_str().unwrap()]);
    let said = text(&explained.stdout);
    assert!(said.contains("refs: point lookup by tag"), "{said}");
    assert!(said.contains("aggregate total"), "{said}");
    assert!(
        said.contains("why this layout:\n  what a program does not name lies in the map"),
        "{said}"
    );
    let elsewhere = ["--layout", "header: attribute"];
    let explained = nacre(&[&["brados", "explain", REFS][..], &elsewhere].concat());
    assert!(text(&explained.stdout).contains("header: the attribute `brados`"));
    let compiled = nacre(&[&["brados", "compile", REFS][..], &elsewhere].concat());
    assert!(text(&compiled.stdout).contains("setxattr"));
    let wrong = nacre(&["brados", "compile", REFS, "--layout", "refs: slots(16)"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(text(&wrong.stderr).contains("slots are found by a number"), "{wrong:?}");
    let listed = nacre(&["brados", "layouts", REFS]);
    let said = text(&listed.stdout);
    assert!(said.starts_with("possible:\n  map\n  header: attribute\n"), "{said}");
    assert!(
        said.contains("\nnot possible:\n  refs: slots(256): `refs`: slots are found"),
        "{said}"
    );
    let drawn = fs::read_to_string(svg).unwrap();
    assert!(drawn.starts_with("<svg") && drawn.contains(">put_ref</text>"), "{drawn}");

    let source = fs::read_to_string(REFS).unwrap();
    assert_eq!(nacre(&["brados", "fmt", "--check", REFS]).status.code(), Some(0));
    let untidy =
        source.replace("  refs <+ get_ref", " refs<+get_ref").replace("op| ['ok']", "op|['ok' ]");
    let path = write(folder.path(), "untidy.brados", &untidy);
    assert_eq!(nacre(&["brados", "fmt", "--check", &path]).status.code(), Some(2));
    let fmt = |arguments: &[&str]| {
        let mut command = Command::new(NACRE);
        let piped = fs::File::open(&path).unwrap();
        command.args(["brados", "fmt", "-"]).args(arguments).stdin(piped).output().unwrap()
    };
    assert_eq!(text(&fmt(&[]).stdout), source);
    let document: serde_json::Value = serde_json::from_slice(&fmt(&["--json"]).stdout).unwrap();
    assert_eq!(document, serde_json::json!({ "source": source }));
    assert_eq!(nacre(&["brados", "fmt", &path]).status.code(), Some(0));
    assert_eq!(fs::read_to_string(&path).unwrap(), source);
}

#[test]
fn a_test_script_runs_beside_its_program() {
    let tested = nacre(&["program", "test", REFS]);
    assert_eq!(tested.status.code(), Some(0), "{}", text(&tested.stderr));
    assert!(text(&tested.stdout).contains("all as expected"), "{}", text(&tested.stdout));
    let folder = tempfile::tempdir().unwrap();
    let script = write(folder.path(), "wrong.test", "== a case\nget_ref 'a' -> ret('no')\n");
    let tested = nacre(&["program", "test", REFS, &script]);
    assert_eq!(tested.status.code(), Some(1));
    let said = text(&tested.stderr);
    assert!(said.contains("wrong.test:2: a case") && said.contains("got ret('ok')"), "{said}");
    assert!(!said.contains("conflict"), "a failure of a test is no error of the command: {said}");
    assert!(text(&tested.stdout).contains(" cases failed"), "{}", text(&tested.stdout));
    // Rows have no order.
    let script = "== two rows\nget_ref 'b' -> ret('ok')\nget_ref 'grün' -> ret('ok')\n\
                  list nil -> held('grün') held('b')\n";
    let script = write(folder.path(), "order.test", script);
    let tested = nacre(&["program", "test", REFS, &script]);
    assert_eq!(tested.status.code(), Some(0), "{}", text(&tested.stderr));
    let lua = write(folder.path(), "c.lua", "function f() end objclass.register(f)");
    let refused = nacre(&["program", "test", &lua, &script]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("c.lua is not a program in Brados"));
}

#[test]
fn a_brados_program_is_put_called_replaced_and_taken_back() {
    let cluster = RunningCluster::start();
    let source = fs::read_to_string(REFS).unwrap();
    let path = write(cluster.folder(), "refs.brados", &source);
    let put = cluster.run(&["program", "put", "class/refs", &path, "--activate"]);
    assert_eq!(put, "class/refs version 1, active on every node\n");
    let call = |method: &str, row: &str| {
        cluster.run(&["class", "call", "data/thing", "refs", method, "--row", row])
    };
    assert_eq!(call("get_ref", "[\"a\"]"), "ret('ok')\n");
    assert_eq!(call("list", "[null]"), "held('a')\n");
    call("get_ref", "[\"grün\"]");
    assert!(call("list", "[null]").contains("held('grün')"));
    call("put_ref", "[\"grün\"]");

    let other = source.replace("['ok']", "['fine']");
    let path = write(cluster.folder(), "refs.brados", &other);
    cluster.run(&["program", "put", "class/refs", &path, "--activate"]);
    assert_eq!(call("get_ref", "[\"b\"]"), "ret('fine')\n");
    cluster.run(&["program", "rollback", "class/refs"]);
    assert_eq!(call("get_ref", "[\"c\"]"), "ret('ok')\n");
    assert_eq!(call("list", "[\"a\"]"), "held('b')\nheld('c')\n");
    let shown = cluster.run(&["program", "show", "class/refs", "--program-version", "1"]);
    assert_eq!(shown, source, "the source that is kept is what was put");

    let wrong = source.replace("refs <+ get_ref", "refs <+ get_reff");
    let path = write(cluster.folder(), "refs.brados", &wrong);
    let (status, said) = cluster.fails(&["program", "put", "class/refs", &path]);
    assert_eq!(status, 2);
    assert!(said.contains("refs.brados:18:11: error:"), "{said}");
    assert!(said.contains("did you mean `get_ref`?"), "{said}");
}

#[test]
fn an_object_is_migrated_while_its_class_has_another_layout() {
    let cluster = RunningCluster::start();
    let source = "state do
  table :kv, [:key:int] => [:value:string]
  interface input, :put, [:key:int, :value:string]
  interface input, :get, [:key:int]
  interface output, :ret, [:value]
end
bloom do
  kv <+- put
  ret <= (get * kv).rights(:key => :key){|k| [k.value]}
end
";
    let put = |source: &str| {
        let path = write(cluster.folder(), "kv.brados", source);
        cluster.run(&["program", "put", "class/kv", &path, "--activate"])
    };
    let call = |method: &str, row: &str| {
        cluster.run(&["class", "call", "data/o", "kv", method, "--row", row])
    };
    put(source);
    for key in 0..20 {
        call("put", &format!("[{key}, \"value {key}\"]"));
    }
    put(&format!("{source}layout kv: slots(64), header: attribute\n"));
    let (status, said) = cluster.fails(&["class", "call", "data/o", "kv", "get", "--row", "[3]"]);
    assert!(status == 2 && said.contains("another layout") || said.contains("or layout"), "{said}");
    put(&format!("{source}layout kv: slots(64), header: attribute\nformer layout map\n"));
    assert_eq!(call("get", "[3]"), "ret('value 3')\n");
    call("put", "[3, \"other\"]");
    assert_eq!(call("get", "[3]"), "ret('other')\n");
    assert_eq!(cluster.run(&["class", "migrate", "data/o", "kv"]), "19 rows moved\n");
    assert_eq!(cluster.run(&["class", "migrate", "data/o", "kv"]), "0 rows moved\n");
    assert_eq!(call("get", "[3]") + &call("get", "[19]"), "ret('other')\nret('value 19')\n");
}

#[test]
fn a_call_on_a_striped_object_reaches_the_stripe_of_its_row() {
    let cluster = RunningCluster::start();
    let log = concat!(env!("CARGO_MANIFEST_DIR"), "/../brados/tests/support/striped_log.brados");
    let source = fs::read_to_string(log).unwrap() + "layout stripes: 3\n";
    let path = write(cluster.folder(), "log.brados", &source);
    cluster.run(&["program", "put", "class/striped", &path, "--activate"]);
    let call = |method: &str, row: &str| {
        let arguments = ["class", "call", "data/l", "striped", method, "--striped", "--row", row];
        cluster.run(&arguments)
    };
    assert_eq!(call("seal", "[1]"), "ret(0)\n", "all of them");
    for pos in 1..=7 {
        assert_eq!(call("write", &format!("[1, {pos}, \"entry {pos}\"]")), "ret(0)\n");
    }
    assert_eq!(call("read", "[1, 5]"), "entry('entry 5')\n");
    assert_eq!(
        cluster.run(&["class", "call", "data/l.2", "striped", "read", "--row", "[1, 5]"]),
        "entry('entry 5')\n",
        "it is in the stripe of 5 modulo 3"
    );
    assert_eq!(call("max_position", "[null]"), "l.0: max(6)\nl.1: max(7)\nl.2: max(5)\n");
    assert_eq!(call("seal", "[2]").lines().next(), Some("ret(0)"));
    assert_eq!(call("write", "[1, 9, \"late\"]"), "ret(-29)\n", "a fence in every stripe");

    let chunks = concat!(env!("CARGO_MANIFEST_DIR"), "/../../programs/class/chunks.brados");
    cluster.run(&["program", "put", "class/chunks", chunks, "--activate"]);
    let call = |method: &str, row: &str| {
        let arguments = ["class", "call", "data/i", "chunks", method, "--striped", "--row", row];
        cluster.run(&arguments)
    };
    for chunk in 0..16 {
        let row = format!("[\"f{chunk}\", \"alice\", \"p{chunk}\"]");
        assert_eq!(call("refer", &row), format!("kept('p{chunk}')\n"));
    }
    assert_eq!(call("refer", "[\"f3\", \"bob\", \"q3\"]"), "kept('p3')\n");
    assert_eq!(call("release", "[\"f9\", \"alice\"]"), "ret('ok')\n");
    assert_eq!(call("idle", "[null]"), "free('f9', 'p9')\n");
    let objects = cluster.run(&["object", "ls", "data", "--prefix", "i."]);
    assert_eq!(objects.lines().count(), 8, "sixteen chunks are in eight stripes: {objects}");

    let listed = nacre(&["brados", "layouts", log]);
    let said = text(&listed.stdout);
    assert!(
        said.contains("stripes, by log.pos:\n  seal: every stripe\n  write: by pos\n"),
        "{said}"
    );
}

#[test]
fn a_fault_of_a_brados_program_names_its_line_in_the_cluster_log() {
    let cluster = RunningCluster::start();
    let source = "state do\n  interface input, :half, [:n:int]\n  interface output, :ret, [:n]\nend\n\
                  bloom do\n  ret <= half{|h| [10 / h.n]}\nend\n";
    let path = write(cluster.folder(), "half.brados", source);
    cluster.run(&["program", "put", "class/half", &path, "--activate"]);
    let call = ["class", "call", "data/o", "half", "half", "--row"];
    assert_eq!(cluster.run(&[&call[..], &["[3]"]].concat()), "ret(3)\n");
    let (status, said) = cluster.fails(&[&call[..], &["[0]"]].concat());
    assert_eq!(status, 1);
    assert!(said.contains("division by zero") && said.contains("line 6"), "{said}");
    let mut events = Follower::start(cluster.command(&["events", "--follow"]));
    eventually_blocking("the fault is reported at the program's line", || {
        events.next_line().contains("line 6")
    });
}

#[test]
fn calls_of_a_class_are_counted_on_all_nodes_and_shown() {
    let cluster = RunningCluster::start();
    cluster.run(&["program", "put", "class/refs", REFS, "--activate"]);
    for object in ["a", "b", "c", "d", "e"] {
        let object = format!("data/{object}");
        cluster.run(&["class", "call", &object, "refs", "get_ref", "--row", r#"["tag"]"#]);
    }
    let long = format!("[\"{}\"]", "x".repeat(200));
    cluster.run(&["class", "call", "data/a", "refs", "get_ref", "--row", &long]);
    let counts = cluster.json(&["brados", "counts", "refs"]);
    let get_ref = &counts["methods"]["get_ref"];
    assert_eq!((&counts["requests"], &get_ref["requests"]), (&6.into(), &6.into()), "{counts}");
    assert_eq!(get_ref["bytes"], 5 * 8 + 205);
    assert_eq!((&get_ref["sizes"][3], &get_ref["sizes"][8]), (&5.into(), &1.into()));
    assert_eq!(counts["concurrency"], 1.0);
    let told = cluster.run(&["brados", "counts"]);
    assert!(told.contains("refs: 6 requests, 1.0 at a time"), "{told}");
    assert!(told.contains("to 8: 5, to 256: 1"), "{told}");

    // Another version is counted on.
    let source = fs::read_to_string(REFS).unwrap();
    let path = write(cluster.folder(), "refs.brados", &format!("{source}\n# again\n"));
    cluster.run(&["program", "put", "class/refs", &path, "--activate"]);
    cluster.run(&["class", "call", "data/a", "refs", "get_ref", "--row", r#"["tag"]"#]);
    assert_eq!(cluster.json(&["brados", "counts", "refs"])["requests"], 7);
    let (status, said) = cluster.fails(&["brados", "counts", "none"]);
    assert!(status == 1 && said.contains("no node counts calls of none"), "{said}");
}
