//! Tests `nacre ceph check`, `nacre ceph install`, and the OSDs in `nacre status`, on a Ceph
//! cluster without nacre's class.

mod common;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;

use nacre_conformance::{CephCluster, ceph_plugin_folder};
use serde_json::Value;

use common::{NACRE, RunningCluster};

/// How many requests for the status, of some 50 ms each, a node's survey of its OSDs may take.
const ATTEMPTS: usize = 200;

/// A class whose method changes its object, and whose answer is too long for an OSD.
const LONG: &str = "\
function answer(input, output)
  objclass.map_set_val('k', input)
  output:append(string.rep('x', 100))
end
objclass.register(answer)
";

/// Runs `nacre`. Returns its status, the JSON document, and the text on standard error.
fn nacre(arguments: &[&str]) -> (Option<i32>, Value, String) {
    let output = Command::new(NACRE).args(arguments).arg("--json").output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(!said.contains("panicked"), "{said}");
    (output.status.code(), serde_json::from_slice(&output.stdout).unwrap_or_default(), said)
}

fn check(engine: &str) -> (Option<i32>, Value, String) {
    nacre(&["ceph", "check", "--engine", engine])
}

/// What is reported as lacking, without what is only advisable.
fn lacks(answer: &Value) -> Vec<String> {
    let lacks = answer["lacks"].as_array().unwrap().iter();
    let needed = lacks.filter(|lack| lack["is_needed"] == true);
    needed.map(|lack| lack["what"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn ceph_check_says_how_to_install_a_missing_class_and_then_finds_it() {
    let empty = tempfile::tempdir().unwrap();
    let class_dir = empty.path().to_str().unwrap();
    let ceph = CephCluster::start(&["--osds", "1", "--class-dir", class_dir]);
    let engine = format!("ceph:{}", ceph.conf().display());

    let (status, found, _) = check(&engine);
    assert_eq!(status, Some(1), "{found}");
    let [lack] = &lacks(&found)[..] else { panic!("{found}") };
    assert!(lack.starts_with("osd.0 has no class nacre") && lack.contains("no bounds"), "{lack}");
    let commands = &found["lacks"][0]["commands"];
    assert!(commands[0].as_str().unwrap().starts_with("nacre ceph install"), "{commands}");
    assert_eq!(methods_run_by(&engine), "by cls_lua if marked --!cls_lua, without budgets");

    let (plugin, folder) =
        (ceph_plugin_folder().join("libcls_nacre.so"), ceph.folder().join("classes"));
    refuses_what_is_not_for_this_ceph(&plugin, &folder);
    assert!(install(&plugin, &folder).is_empty());
    let (status, found, said) = check(&engine);
    assert_eq!((status, lacks(&found).len()), (Some(0), 0), "{found} {said}");
    assert_eq!(found["cluster"]["osds"][0]["classes"]["nacre"], "yes");
    assert_eq!(methods_run_by(&engine), "by nacre's class");
    // By now the OSD has loaded the library, and keeps this version even if the file is replaced.
    assert_eq!(install(&plugin, &folder), ["0"]);
}

/// What the status of a node says of `osd.0`.
fn methods_run_by(engine: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let cluster = RunningCluster::start_with(folder.path(), &["--engine", engine]);
    for _ in 0..ATTEMPTS {
        let status = cluster.run(&["status"]);
        if let Some((_, said)) = status.split_once("methods run at osd.0: ") {
            let events = cluster.run(&["events"]);
            assert!(events.contains("methods run at osd.0"), "{events}");
            return said.trim().to_owned();
        }
    }
    panic!("the node does not say where methods run");
}

fn run_install(plugin: &Path, folder: &Path) -> (Option<i32>, Value, String) {
    let [plugin, folder] = [plugin, folder].map(|path| path.to_str().unwrap());
    nacre(&["ceph", "install", "--plugin", plugin, "--class-dir", folder])
}

/// Installs it; answers the OSDs that have to be restarted.
fn install(plugin: &Path, folder: &Path) -> Vec<Value> {
    let (status, answer, said) = run_install(plugin, folder);
    assert_eq!(status, Some(0), "{said}");
    let installed = std::fs::read(folder.join("libcls_nacre.so")).unwrap();
    assert!(installed == std::fs::read(plugin).unwrap());
    answer["restart"].as_array().unwrap().clone()
}

fn refuses_what_is_not_for_this_ceph(plugin: &Path, folder: &Path) {
    let scratch = tempfile::tempdir().unwrap();
    let other = scratch.path().join("other.so");
    let whole = std::fs::read(plugin).unwrap();
    let mut library = whole.clone();
    let mark = b"nacre-built-for-ceph:";
    let at = library.windows(mark.len()).position(|bytes| bytes == mark).unwrap();
    library[at + mark.len()] = b'9';
    std::fs::write(&other, library).unwrap();
    let (status, _, said) = run_install(&other, folder);
    assert!(status == Some(1) && said.contains("was built for Ceph 9"), "{said}");
    for (bytes, because) in
        [(&b"nothing"[..], "no library"), (&whole[..whole.len() - 1], "cut short")]
    {
        std::fs::write(&other, bytes).unwrap();
        let (status, _, said) = run_install(&other, folder);
        assert!(status == Some(2) && said.contains(because), "{said}");
    }
    let (status, _, said) = run_install(plugin, &folder.join("absent"));
    assert!(status == Some(1) && said.contains("--class-dir"), "{said}");
    assert!(!folder.join("libcls_nacre.so").exists());
}

#[test]
fn status_counts_methods_whose_answers_are_too_long_for_osds() {
    let class_dir = ceph_plugin_folder();
    let ceph = CephCluster::start(&["--osds", "1", "--class-dir", class_dir.to_str().unwrap()]);
    let (engine, folder) =
        (format!("ceph:{}", ceph.conf().display()), tempfile::tempdir().unwrap());
    let cluster = RunningCluster::start_with(folder.path(), &["--engine", &engine]);
    let told = |what: &str| {
        let report = cluster.json(&["status"])["report"].take();
        let metrics = metrics_of(report["metrics"].as_str().unwrap());
        let sample =
            metrics.lines().find_map(|line| line.strip_prefix(&format!("nacre_osd_{what} ")));
        let sample = sample.unwrap_or_else(|| panic!("{metrics}")).parse::<u64>().unwrap();
        (report["rados"].clone(), sample)
    };
    let (before, counted) = told("long_answers_total");
    assert_eq!((before["long_answers"].as_u64(), counted), (Some(0), 0), "{before}");

    // The OSD cannot return an answer this long, so the node runs the method itself. The node
    // learns this at the first call, and does not ask the OSD at the second call.
    let source = folder.path().join("long.lua");
    std::fs::write(&source, LONG).unwrap();
    cluster.run(&["program", "put", "class/long", source.to_str().unwrap(), "--activate"]);
    for _ in 0..2 {
        let answer = cluster.run(&["class", "call", "data/a", "long", "answer"]);
        assert_eq!(answer.trim().len(), 100);
    }
    let (after, counted) = told("long_answers_total");
    assert_eq!((after["long_answers"].as_u64(), counted), (Some(2), 2), "{after}");
    assert_eq!(after["long_answer_methods"], serde_json::json!(["long.answer"]));
    assert_eq!(told("long_answer_methods").1, 1);
    let status = cluster.run(&["status"]);
    assert!(status.contains("runs long.answer, whose answers are too long"), "{status}");
}

/// What an address tells Prometheus.
fn metrics_of(address: &str) -> String {
    let mut connection = TcpStream::connect(address).unwrap();
    write!(connection, "GET /metrics HTTP/1.1\r\n\r\n").unwrap();
    let mut text = String::new();
    connection.read_to_string(&mut text).unwrap();
    text
}

#[test]
fn ceph_check_reports_a_missing_pool_and_lists_that_exclude_the_class() {
    let class_dir = ceph_plugin_folder();
    let options = ["--osds", "1", "--class-dir", class_dir.to_str().unwrap()];
    let settings = ["--set", "osd_class_load_list=rbd", "--set", "osd_class_default_list=rbd"];
    let ceph = CephCluster::start(&[&options[..], &settings].concat());
    let engine = format!("ceph:{}", ceph.conf().display());
    let (status, found, _) = check(&format!("{engine}?pool=other"));
    assert_eq!((status, lacks(&found)[0].as_str()), (Some(1), "there is no pool other"));
    let (_, found, _) = check(&engine);
    let commands: Vec<_> = found["lacks"].as_array().unwrap().iter().collect();
    let commands = commands.iter().map(|lack| lack["commands"][0].as_str().unwrap());
    let commands: Vec<_> = commands.take(2).collect();
    assert_eq!(
        commands,
        [
            "ceph config set osd osd_class_load_list 'rbd nacre'",
            "ceph config set osd osd_class_default_list 'rbd nacre'"
        ]
    );
    let (status, _, said) = check("embedded");
    assert!(status == Some(2) && said.contains("not a Ceph cluster"), "{said}");
}

#[test]
fn an_error_about_a_key_names_the_file_and_the_command_to_run() {
    let ceph = CephCluster::start(&["--osds", "1"]);
    let scratch = tempfile::tempdir().unwrap();
    let keyring = scratch.path().join("keyring");
    let conf = scratch.path().join("ceph.conf");
    let text = std::fs::read_to_string(ceph.conf()).unwrap();
    let ours = ceph.folder().join("keyring").display().to_string();
    std::fs::write(&conf, text.replace(&ours, &keyring.display().to_string())).unwrap();
    let engine = format!("ceph:{}?user=x", conf.display());
    let is_refused = |because: &str, by: &str| {
        let (status, _, said) = check(&engine);
        let said: Value = serde_json::from_str(&said).unwrap();
        let error = &said["error"];
        assert_eq!((status, &error["kind"]), (Some(1), &Value::from("denied")), "{said}");
        let [message, hint] = ["message", "hint"].map(|part| error[part].as_str().unwrap());
        assert!(message.starts_with(because) && hint.contains(by), "{said}");
    };
    let file = keyring.display();
    let fetch = format!("`ceph auth get client.x >> {file}`");
    is_refused(&format!("there is no key of client.x: no file {file}"), &fetch);
    std::fs::copy(&ours, &keyring).unwrap();
    let has =
        format!("there is no key of client.x: {file} has keys of mon., client.admin, osd.0 only");
    is_refused(&has, "`ceph auth get-or-create client.x ");

    // A node whose folder remembers the user finds it out by itself.
    let folder = scratch.path().join("cluster");
    let folder = folder.to_str().unwrap();
    let (status, ..) =
        nacre(&["init", "--engine", &engine, "--listen", "127.0.0.2:0", "--cluster", folder]);
    assert_eq!(status, Some(0));
    let up = Command::new(NACRE).args(["up", "--cluster", folder]).output().unwrap();
    let said = String::from_utf8(up.stderr).unwrap();
    let why = format!("nacre: unavailable: gateway.0 did not start: connect: denied: {has}");
    assert!(said.starts_with(&why) && said.trim_end().ends_with("run/gateway.0.log"), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");

    let key = "AQDdb2VlAAAAABAAhZKcOgSyJbeR1vnPgcSmSg==";
    std::fs::write(&keyring, format!("[client.x]\nkey = {key}\n")).unwrap();
    let unknown = format!("the monitors have no client.x with the key that is in {file}");
    is_refused(&unknown, "`ceph auth get client.x`");
}
