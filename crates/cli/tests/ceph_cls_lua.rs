//! Tests that a class written for stock Ceph runs on nacre and the other way round. The foreign
//! client is Debian's python3-rados. It calls the class `lua`, which every Ceph cluster has.

mod common;

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use nacre_conformance::CephCluster;
use serde_json::{Value, json};

use common::RunningCluster;

/// Scripts as people wrote them for Ceph, each with its handler `run`.
const STOCK_SCRIPTS: &[(&str, &str)] = &[
    (
        "an upload with its checksum beside it",
        "function run(input, output)
           objclass.create(false)
           objclass.write(0, #input, input)
           local sum = 0
           for at = 1, #input do sum = (sum + input:str():byte(at)) % 65536 end
           local value = bufferlist.new()
           value:append(tostring(sum))
           objclass.setxattr('checksum', value)
           output:append(tostring(sum))
         end
         objclass.register(run)",
    ),
    (
        "an index of words",
        "function run(input, output)
           local words = {}
           for word in string.gmatch(input:str(), '%a+') do words[word] = 'seen' end
           objclass.map_set_vals(words)
           local count = 0
           for _ in pairs(words) do count = count + 1 end
           output:append(string.format('%d words', count))
         end
         objclass.register(run)",
    ),
    (
        "a lock that is taken once",
        "function run(input, output)
           local free, errno = pcall(objclass.create, true)
           if not free and errno == -objclass.EEXIST then
             output:append('taken')
             return 0
           end
           objclass.write_full(input)
           output:append('locked')
         end
         objclass.register(run)",
    ),
];

/// What the plain client prints.
fn plain(ceph: &CephCluster, object: &str, arguments: &[&str], script: &str) -> String {
    let client = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/plain_client.py");
    let mut process = Command::new("/usr/bin/python3")
        .arg(client)
        .arg(ceph.conf())
        .args(["data", object])
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("python3 is installed");
    process.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
    let output = process.wait_with_output().unwrap();
    assert!(output.status.success(), "{object} {arguments:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn shown(ceph: &CephCluster, object: &str) -> Value {
    serde_json::from_str(&plain(ceph, object, &["show"], "")).unwrap()
}

#[test]
fn classes_move_between_nacre_and_stock_ceph() {
    let ceph = CephCluster::start(&["--osds", "1"]);
    let folder = tempfile::tempdir().unwrap();
    let engine = format!("ceph:{}", ceph.conf().display());
    let cluster = RunningCluster::start_with(folder.path(), &["--engine", &engine]);
    a_class_put_with_nacre_is_called_by_a_plain_client(&ceph, &cluster);
    scripts_of_stock_ceph_run_in_nacre_unchanged(&ceph, &cluster);
}

fn a_class_put_with_nacre_is_called_by_a_plain_client(
    ceph: &CephCluster,
    cluster: &RunningCluster,
) {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../../programs/class/counter.lua");
    cluster.run(&["program", "put", "class/counter", source, "--activate"]);
    let add =
        |input| cluster.run(&["class", "call", "data/visits", "counter", "add", "--input", input]);
    assert_eq!(add("5").trim(), "5");
    let stored = cluster.run(&["program", "show", "class/counter"]);
    plain(ceph, "visits", &["eval", "add", "2"], &stored);
    assert_eq!(shown(ceph, "visits")["omap"], json!({ "count": "7" }));
    assert_eq!(add("1").trim(), "8");
}

fn scripts_of_stock_ceph_run_in_nacre_unchanged(ceph: &CephCluster, cluster: &RunningCluster) {
    for (name, script) in STOCK_SCRIPTS {
        for input in ["the quick brown fox", "jumps over the dog"] {
            plain(ceph, "stock", &["eval", "run", input], script);
            let call = json!({ "script": script, "handler": "run", "input": input }).to_string();
            let call = ["class", "call", "data/ours", "lua", "eval_json", "--input", &call];
            assert!(!cluster.run(&call).is_empty(), "{name}");
            assert_eq!(shown(ceph, "ours"), shown(ceph, "stock"), "{name}");
        }
        for object in ["data/ours", "data/stock"] {
            cluster.run(&["object", "rm", object]);
        }
    }
}
