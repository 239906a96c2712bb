//! `nacre scrub` on a running cluster.

mod common;

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use common::RunningCluster;
use nacre_clock::SystemClock;
use nacre_conformance::TestClasses;
use nacre_embedded::{EmbeddedEngine, Options};
use nacre_object::{Op, Request, Store};
use serde_json::Value;

/// Flips a bit in the middle of where `content` lies in a node's journal.
fn damage(journal: &Path, content: &[u8]) {
    for entry in fs::read_dir(journal).unwrap() {
        let path = entry.unwrap().path();
        let bytes = fs::read(&path).unwrap();
        let found = bytes.windows(content.len()).position(|window| window == content);
        if let Some(at) = found {
            let at = at + content.len() / 2;
            let file = fs::OpenOptions::new().write(true).open(path).unwrap();
            file.write_all_at(&[bytes[at] ^ 1], at as u64).unwrap();
            return;
        }
    }
    panic!("the content is not in {}", journal.display());
}

#[test]
fn a_scrub_names_damaged_objects_and_all_others_are_still_served() {
    let cluster = RunningCluster::start();
    let content = |letter: &str| letter.repeat(20_000);
    cluster.run_with_input(&["object", "put", "data/a"], &content("a"));
    cluster.run_with_input(&["object", "put", "data/b"], &content("b"));
    let said = cluster.run(&["scrub"]);
    assert_eq!(said.matches("nothing is damaged").count(), 3, "{said}");

    let node = cluster.run(&["object", "locate", "data/a"]).trim().to_owned();
    damage(&cluster.folder().join(&node).join("journal"), content("a").as_bytes());
    let output = cluster.command(&["scrub", "--json"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let lines: Vec<Value> = String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let damages: Vec<_> = lines.iter().filter(|line| line["damage"].is_object()).collect();
    assert!(!damages.is_empty());
    for line in damages {
        assert_eq!(line["node"], node);
        // What a crash would have replayed is repaired; the payload itself is lost.
        let is_object = line["damage"]["object"] == "data/a";
        assert!(is_object || line["damage"]["repaired"] == true, "{line}");
    }
    let told = lines.iter().any(|line| line["damage"]["object"] == "data/a");
    assert!(told, "{lines:?}");

    let (status, said) = cluster.fails(&["object", "get", "data/a"]);
    assert_eq!(status, 1);
    assert!(said.contains("corrupt") && said.contains("data/a"), "{said}");
    assert_eq!(cluster.run(&["object", "get", "data/b"]), content("b"));
    // Written again, it is whole again.
    cluster.run_with_input(&["object", "put", "data/a"], &content("a"));
    cluster.run(&["scrub"]);
}

#[test]
fn a_target_that_cannot_be_opened_is_examined_salvaged_and_serves_from_the_new_folder() {
    let scratch = tempfile::tempdir().unwrap();
    let mut cluster = RunningCluster::start_in(scratch.path());
    cluster.run_with_input(&["object", "put", "data/a"], "kept");
    let node = cluster.run(&["object", "locate", "data/a"]).trim().to_owned();
    let target = scratch.path().join(node);
    let folder = target.to_str().unwrap();
    let (_, said) = cluster.fails(&["scrub", "--offline", folder]);
    assert!(said.contains("a node has this folder open"), "{said}");
    assert!(cluster.stop());
    let examined = cluster.run(&["scrub", "--offline", scratch.path().to_str().unwrap()]);
    assert_eq!(examined.matches("nothing is damaged").count(), 3, "{examined}");

    for file in ["tree/list.copy", "target.json", "target.json.copy", "cluster.json"] {
        let path = target.join(file);
        let whole = fs::read(&path).unwrap();
        let mut damaged = whole.clone();
        damaged[0] ^= 1;
        fs::write(&path, damaged).unwrap();
        let output = cluster.command(&["scrub", "--offline", folder]).output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.code() == Some(1) && said.contains(file), "{file}: {said}");
        fs::write(&path, whole).unwrap();
    }

    let manifest = target.join("MANIFEST");
    let mut bytes = fs::read(&manifest).unwrap();
    bytes[12] ^= 1;
    for file in [&manifest, &target.join("MANIFEST.copy")] {
        fs::write(file, &bytes).unwrap();
    }
    let output = cluster.command(&["scrub", "--offline", folder]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8(output.stdout).unwrap().contains("MANIFEST"));
    assert_eq!(fs::read(&manifest).unwrap(), bytes, "it is only read");

    let new = scratch.path().join("salvaged");
    let said = cluster.run(&["salvage", folder, "--to", new.to_str().unwrap()]);
    assert!(said.contains("MANIFEST") && said.contains("put it"), "{said}");
    fs::rename(&target, scratch.path().join("damaged")).unwrap();
    fs::rename(&new, &target).unwrap();
    let cluster = RunningCluster::start_in(scratch.path());
    assert_eq!(cluster.run(&["object", "get", "data/a"]), "kept");
    assert_eq!(cluster.run(&["scrub"]).matches("nothing is damaged").count(), 3);
}

/// Puts an object into a target's folder while no node runs, whoever holds it.
async fn put_stray(target: &Path, object: &str) {
    let clock = Arc::new(SystemClock::default());
    let engine = EmbeddedEngine::open(Options::new(target, Arc::new(TestClasses), clock)).unwrap();
    let ops = vec![Op::WriteFull { data: "stray".into() }];
    engine.submit(Request::new(object.parse().unwrap(), ops).unwrap()).await.unwrap();
    engine.close();
}

#[test]
fn a_scrub_names_strays_which_no_listing_shows_and_removes_them_on_request() {
    let scratch = tempfile::tempdir().unwrap();
    let mut cluster = RunningCluster::start_in(scratch.path());
    let holder = cluster.run(&["object", "locate", "data/a"]).trim().to_owned();
    assert!(cluster.stop());
    let other = ["storage.0", "storage.1"].into_iter().find(|name| **name != holder).unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(put_stray(&scratch.path().join(other), "data/a"));

    let cluster = RunningCluster::start_in(scratch.path());
    assert_eq!(cluster.run(&["object", "ls", "data"]), "");
    assert!(cluster.fails(&["object", "rm", "data/a"]).1.contains("not found"));
    let output = cluster.command(&["scrub"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stdout).unwrap();
    let stray = format!("{other}: data/a: a stray, as {holder} holds objects of this name");
    assert!(said.lines().any(|line| line == stray), "{said}");

    let (_, said) = cluster.fails(&["scrub", "--remove-stray", &holder, "data/a"]);
    assert!(said.contains("it is no stray"), "{said}");
    cluster.run_with_input(&["object", "put", "data/a"], "kept");
    cluster.run(&["scrub", "--remove-stray", other, "data/a"]);
    cluster.run(&["scrub"]);
    assert_eq!(cluster.run(&["object", "get", "data/a"]), "kept");
}
