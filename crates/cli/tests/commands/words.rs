//! Tests the messages about classes that get wrong input, or that are written for another Lua.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::common::RunningCluster;

const COUNTER: &str = include_str!("../../../../programs/class/counter.lua");
const README: &str = include_str!("../../../../README.md");

/// A file of the cluster's folder with this content.
fn file(cluster: &RunningCluster, name: &str, content: &str) -> String {
    let path = cluster.folder().join(name);
    fs::write(&path, content).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn the_counter_of_the_readme_counts_whole_numbers_and_refuses_others_in_its_own_words() {
    let (_, shown) = README.split_once("```lua\n").unwrap();
    let (shown, _) = shown.split_once("```").unwrap();
    assert_eq!(Some(shown), COUNTER.strip_prefix("--!cls_lua\n"));

    let cluster = RunningCluster::start();
    let path = file(&cluster, "counter.lua", shown);
    cluster.run(&["program", "put", "class/counter", &path, "--activate"]);
    let add = |input: &str| {
        let call = ["class", "call", "data/visits", "counter", "add", "--input", input];
        cluster.command(&call).output().unwrap()
    };
    for (input, sum) in [
        ("5", Some("5\n")),
        ("nan", None),
        ("inf", None),
        ("1.5", None),
        ("x", None),
        ("", None),
        ("9007199254740992", None),
        ("9007199254740987", None),
        ("9007199254740986", Some("9007199254740991\n")),
        ("-9007199254740991", Some("0\n")),
        ("-3", Some("-3\n")),
    ] {
        let output = add(input);
        match sum {
            Some(sum) => assert_eq!(String::from_utf8(output.stdout).unwrap(), sum, "{input}"),
            None => {
                let said = String::from_utf8(output.stderr).unwrap();
                assert_eq!(output.status.code(), Some(1), "{input}: {said}");
                assert!(said.contains("add whole numbers, to a sum below 2^53"), "{said}");
            }
        }
    }
}

#[test]
fn an_unknown_name_in_a_program_is_reported_by_a_call_and_by_a_check() {
    let cluster = RunningCluster::start();
    let source = "function f()\n  return load('x')\nend\nobjclass.register(f)\n";
    let path = file(&cluster, "f.lua", source);
    let (_, said) =
        cluster.fails(&["class", "eval", "data/o", "--script", &path, "--handler", "f"]);
    assert_eq!(said.matches("`load` is not available in programs").count(), 1, "{said}");
    assert_eq!(said.lines().count(), 1, "it is said once: {said}");

    let output = cluster.command(&["program", "check", "class/f", &path]).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{said}");
    let caret = "2 |   return load('x')\n  |          ^\n";
    assert!(said.contains("`load` is not available in classes") && said.contains(caret), "{said}");

    let path = file(&cluster, "shift.lua", "function f()\n  return 1 << 4\nend\n");
    let (_, said) = cluster.fails(&["program", "check", "class/f", &path]);
    let caret = "2 |   return 1 << 4\n  |            ^\n";
    assert!(said.contains("write bit32.lshift(a, n)") && said.contains(caret), "{said}");
}

#[test]
fn a_byte_order_mark_and_a_shebang_line_are_no_part_of_a_program() {
    let cluster = RunningCluster::start();
    let lua =
        "#!/usr/bin/env lua\nfunction f(i, o)\n  error('on line 3')\nend\nobjclass.register(f)\n";
    let path = file(&cluster, "f.lua", &format!("\u{feff}{lua}"));
    cluster.run(&["program", "put", "class/f", &path, "--activate"]);
    let (_, said) = cluster.fails(&["class", "call", "data/o", "f", "f"]);
    assert!(said.contains("on line 3") && said.contains("line 3)"), "{said}");
    let (_, said) =
        cluster.fails(&["class", "eval", "data/o", "--script", &path, "--handler", "f"]);
    assert!(said.contains("on line 3") && said.contains("line 3)"), "{said}");

    let refs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../programs/class/refs.brados");
    let refs = format!("\u{feff}{}", fs::read_to_string(refs).unwrap());
    let path = file(&cluster, "refs.brados", &refs);
    cluster.run(&["program", "put", "class/refs", &path, "--activate"]);
    cluster.run(&["class", "call", "data/o", "refs", "get_ref", "--row", "[\"a\"]"]);
}

#[test]
fn the_kinds_of_programs_are_listed_without_a_cluster() {
    let nowhere = tempfile::tempdir().unwrap();
    let kinds = |arguments: &[&str]| {
        let mut nacre = Command::new(env!("CARGO_BIN_EXE_nacre"));
        nacre.current_dir(&nowhere).args(["program", "kinds"]).args(arguments).output().unwrap()
    };
    let all = String::from_utf8(kinds(&[]).stdout).unwrap();
    for kind in ["class", "map", "filetype", "capability", "balancer", "route", "control", "slo"] {
        assert!(all.contains(&format!("{kind}: ")), "{kind}: {all}");
    }
    for told in ["objclass.map_get(key)", "commit(proposal, map)", "250 ms"] {
        assert!(all.contains(told), "{told}: {all}");
    }
    let map: Value = serde_json::from_slice(&kinds(&["map", "--json"]).stdout).unwrap();
    assert_eq!((&map["kind"], &map["budget"]["steps"]), (&json!("map"), &json!(50_000_000)));
    assert_eq!(kinds(&["toaster"]).status.code(), Some(2));
}
