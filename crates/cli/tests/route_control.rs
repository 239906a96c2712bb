//! Control applications on real nodes: programs make rules, fail, and continue on another node.

mod common;

use std::fs;

use common::routes::cluster;
use common::{RunningCluster, shipped};
use nacre::Cluster;
use nacre_conformance::wait::eventually_blocking;
use serde_json::Value;

/// A program that makes a rule for a switch, which its settings name, and counts its runs.
const COUNTING: &str = r#"
settings = { switch = "every", to = "home" }
function control(cluster)
  insert(cluster.settings.switch, "* w data/x -> " .. cluster.settings.to)
  cluster.state.runs = (cluster.state.runs or 0) + 1
  if cluster.state.runs % 10 == 0 then tell("run " .. cluster.state.runs) end
end
"#;

fn put_program(cluster: &RunningCluster, folder: &tempfile::TempDir, source: &str) {
    let file = folder.path().join("program.lua");
    fs::write(&file, source).unwrap();
    cluster.run(&["program", "put", "control/p", file.to_str().unwrap(), "--activate"]);
}

/// What is said of the only started application.
fn application(cluster: &RunningCluster) -> Value {
    let printed = cluster.run(&["route", "applications", "--json"]);
    serde_json::from_str(&printed).unwrap()
}

fn rules(cluster: &RunningCluster) -> Vec<String> {
    let printed = cluster.run(&["route", "ls", "--json"]);
    let rule = |line: &str| serde_json::from_str::<Value>(line).unwrap()["rule"].to_string();
    printed.lines().map(rule).collect()
}

#[test]
fn a_started_program_makes_rules_and_a_stopped_one_takes_them_with_it() {
    let (folder, cluster) = cluster();
    put_program(&cluster, &folder, COUNTING);
    let started = cluster.json(&["route", "start", "p", "--every", "0.1"]);
    assert_eq!(started["is_running"], true);
    assert_eq!(rules(&cluster), ["\"* w data/x -> home\""]);
    let target = ["--set", "to=target storage.1 follow"];
    cluster.run(&[&["route", "start", "p", "--every", "0.1"][..], &target].concat());
    assert_eq!(rules(&cluster), ["\"* w data/x -> target storage.1 follow\""]);
    eventually_blocking("the program goes on", || {
        application(&cluster)["report"]["runs"].as_u64() > Some(3)
    });
    let (status, said) = cluster.fails(&["route", "rm", "p"]);
    assert!(status == 1 && said.contains("nacre route stop p"), "{said}");
    let (status, said) = cluster.fails(&["program", "rm", "control/p", "--force"]);
    assert!(status == 1 && said.contains("nacre route stop p"), "{said}");
    cluster.run(&["route", "stop", "p"]);
    assert_eq!(rules(&cluster), [""; 0]);
    assert_eq!(cluster.run(&["route", "applications", "--json"]), "");
    cluster.run(&["program", "rm", "control/p", "--force"]);
}

#[test]
fn wrong_settings_and_missing_programs_are_refused_before_anything_is_stored() {
    let (folder, cluster) = cluster();
    let (status, said) = cluster.fails(&["route", "start", "p"]);
    assert!(status == 1 && said.contains("nacre program put control/p"), "{said}");
    put_program(&cluster, &folder, COUNTING);
    for (arguments, expected) in [
        (["--set", "swich=a"], "switch"),
        (["--set", "to"], "--set NAME=VALUE"),
        (["--every", "0.001"], "0.1"),
    ] {
        let (status, said) = cluster.fails(&[&["route", "start", "p"][..], &arguments].concat());
        assert!(status != 0 && said.contains(expected), "{arguments:?}: {said}");
    }
    assert_eq!(cluster.run(&["route", "applications", "--json"]), "");
}

#[test]
fn rules_that_are_unsafe_or_for_no_switch_are_refused_and_the_former_ones_stay() {
    let (folder, cluster) = cluster();
    put_program(&cluster, &folder, COUNTING);
    cluster.run(&["route", "start", "p", "--every", "0.1"]);
    for (setting, expected) in [
        ("to=target storage.1", "follow"),
        ("to=target nowhere follow", "nowhere"),
        ("switch=storage.9", "there is no switch storage.9"),
    ] {
        let start = ["route", "start", "p", "--every", "0.1", "--set", setting];
        let (status, said) = cluster.fails(&start);
        assert!(status == 1 && said.contains(expected), "{setting}: {said}");
        assert_eq!(rules(&cluster), ["\"* w data/x -> home\""], "{setting}");
    }
}

#[test]
fn a_version_that_fails_changes_nothing_is_reported_once_and_can_be_replaced() {
    let (folder, cluster) = cluster();
    put_program(&cluster, &folder, COUNTING);
    cluster.run(&["route", "start", "p", "--every", "0.1"]);
    // The program fails only in a run that has a state, so the check at its put succeeds.
    let failing = COUNTING
        .replace("if cluster", "if cluster.state.runs > 6 then error('on purpose') end if cluster");
    put_program(&cluster, &folder, &failing);
    eventually_blocking("the failure is shown", || {
        let problem = application(&cluster)["report"]["problem"].to_string();
        problem.contains("control/p@2:6") || problem.contains("line 6")
    });
    assert_eq!(rules(&cluster), ["\"* w data/x -> home\""]);
    let events = || cluster.run(&["events", "--json"]);
    let of_failure = |text: &str| text.lines().filter(|line| line.contains("on purpose")).count();
    eventually_blocking("the cluster log has the failure", || of_failure(&events()) == 1);
    put_program(&cluster, &folder, COUNTING);
    eventually_blocking("the corrected version runs", || {
        let report = &application(&cluster)["report"];
        report["problem"].is_null() && report["version"] == 3
    });
    assert_eq!(of_failure(&events()), 1, "{}", events());
}

#[tokio::test(flavor = "multi_thread")]
async fn another_node_continues_with_the_state_when_the_controller_dies() {
    let (folder, cluster) = cluster();
    put_program(&cluster, &folder, COUNTING);
    cluster.run(&["route", "start", "p", "--every", "0.1"]);
    let client = Cluster::connect(cluster.folder()).await.unwrap();
    let keeper =
        |map: &str| client.locate(&format!("nacre.system/map/{map}").parse().unwrap()).to_string();
    let keepers = [keeper("routes"), keeper("route-control")];
    tokio::task::spawn_blocking(move || {
        let node = application(&cluster)["node"].as_str().unwrap().to_owned();
        eventually_blocking("a state is stored", || {
            let map = cluster.run(&["map", "get", "route-control", "--json"]);
            map.contains("state/p")
        });
        // The node itself starts again, unless it stays dead. A node that keeps the maps must.
        if keepers.contains(&node) {
            cluster.kill_node(&node);
        } else {
            let pid = cluster.pid_of(&node).unwrap();
            common::suspend(pid);
        }
        let former = node;
        eventually_blocking("a node continues", || {
            let now = application(&cluster);
            let told = now["report"]["told"].as_array().cloned().unwrap_or_default();
            let is_new = now["node"] != former.as_str() || keepers.contains(&former);
            // A program that had lost its state would count from 1 again, and report run 10 first.
            is_new && told.first().is_some_and(|text| text != "run 10")
        });
        assert_eq!(rules(&cluster), ["\"* w data/x -> home\""]);
    })
    .await
    .unwrap();
}

fn start_shipped(cluster: &RunningCluster, name: &str) {
    let file = shipped(&format!("control/{name}.lua"));
    cluster.run(&["program", "put", &format!("control/{name}"), &file, "--activate"]);
    cluster.run(&["route", "start", name]);
}

/// The target that a rule names for the writes of an object.
fn target_of(cluster: &RunningCluster, object: &str) -> String {
    let printed = cluster.run(&["route", "trace", "w", object, "--json"]);
    let ways: Value = serde_json::from_str(&printed).unwrap();
    ways[0]["rule"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn the_first_write_of_a_volume_waits_for_the_controller_and_goes_where_it_says() {
    let (_folder, cluster) = cluster();
    start_shipped(&cluster, "first_write");
    assert!(target_of(&cluster, "data/vm1.1").ends_with("controller header"));
    let write = |object: &str, text: &str| {
        cluster.run_with_input(&["object", "write", object, "--offset", "0"], text);
        assert_eq!(cluster.run(&["object", "get", object]), text);
    };
    write("data/vm1.1", "first");
    let chosen = target_of(&cluster, "data/vm1.1");
    assert!(chosen.starts_with("* w data/vm1.* -> target storage."), "{chosen}");
    for number in 2..6 {
        write(&format!("data/vm1.{number}"), "more");
    }
    write("data/vm2.1", "another volume");
    let other = target_of(&cluster, "data/vm2.1");
    let target = |rule: &str| rule.split("-> ").nth(1).map(str::to_owned);
    assert_ne!(target(&other), target(&chosen), "the first volume counts as load");
    // A change of the whole object waits too.
    cluster.run_with_input(&["object", "put", "data/vm3.1", "-"], "whole");
    assert_eq!(cluster.run(&["object", "get", "data/vm3.1"]), "whole");
    let report = &application(&cluster)["report"];
    assert_eq!(report["rules"], 4, "{report}");
    assert!(report["asked"].as_u64() >= Some(3), "{report}");
}

/// A program that sends IO to the controller. It makes rules about `data/x1` only.
const ASKING: &str = r#"
function control(cluster)
  insert("every", "* rw data/x* -> controller header")
  for _, io in cluster.waiting do
    if io.object == "data/x1" then insert("every", "* rw data/x1 -> home") end
    if io.object == "data/x3" then error("on purpose") end
  end
end
"#;

#[test]
fn an_io_fails_if_the_program_makes_no_rule_about_it_or_fails() {
    let (folder, cluster) = cluster();
    let rules = common::routes::rules(
        folder.path(),
        "application a on every\n  * w data/x* -> controller header\n",
    );
    for command in ["check", "put"] {
        let (status, said) = cluster.fails(&["route", command, rules.to_str().unwrap()]);
        assert!(status == 1 && said.contains("only a control program can insert"), "{said}");
    }
    cluster.run_with_input(&["object", "put", "data/x4", "-"], "four");
    put_program(&cluster, &folder, ASKING);
    cluster.run(&["route", "start", "p"]);
    cluster.run_with_input(&["object", "write", "data/x1", "--offset", "0"], "one");
    assert_eq!(cluster.run(&["object", "get", "data/x1"]), "one");
    let bytes = folder.path().join("bytes");
    fs::write(&bytes, "two").unwrap();
    let write = |object| ["object", "write", object, "--offset", "0", bytes.to_str().unwrap()];
    let (status, said) = cluster.fails(&write("data/x2"));
    assert!(status == 1 && said.contains("has made no other rule for it"), "{said}");
    let (status, said) = cluster.fails(&write("data/x3"));
    assert!(status == 1 && said.contains("on purpose"), "{said}");
    let (status, said) = cluster.fails(&["object", "get", "data/x4"]);
    assert!(status == 1 && said.contains("has made no other rule for it"), "{said}");
    cluster.run(&["route", "stop", "p"]);
    cluster.run(&write("data/x2"));
    assert_eq!(cluster.run(&["object", "get", "data/x2"]), "two");
}

#[tokio::test(flavor = "multi_thread")]
async fn io_that_waits_for_the_controller_goes_on_when_another_node_takes_over() {
    let (folder, cluster) = cluster();
    put_program(&cluster, &folder, ASKING);
    cluster.run(&["route", "start", "p"]);
    let client = Cluster::connect(cluster.folder()).await.unwrap();
    let home = client.locate(&"data/x1".parse().unwrap()).to_string();
    let keepers = ["routes", "route-control"]
        .map(|map| client.locate(&format!("nacre.system/map/{map}").parse().unwrap()).to_string());
    tokio::task::spawn_blocking(move || {
        let node = application(&cluster)["node"].as_str().unwrap().to_owned();
        // The supervisor starts it again, unless it stays suspended. The home of the object, and a
        // node that keeps the maps, must be there.
        if keepers.contains(&node) || node == home {
            cluster.kill_node(&node);
        } else {
            common::suspend(cluster.pid_of(&node).unwrap());
        }
        let object = client.pool("data");
        let wrote = tokio::runtime::Handle::current()
            .block_on(async { object.await?.object("x1")?.write(0, "waited").await });
        wrote.unwrap();
        assert_eq!(cluster.run(&["object", "get", "data/x1"]), "waited");
    })
    .await
    .unwrap();
}

#[test]
fn the_shipped_applications_can_be_put_and_started() {
    let (_folder, cluster) = cluster();
    cluster.run(&["route", "cache", "on", "--pool", "data", "--size", "8MiB"]);
    for name in ["tail", "replicas", "caches", "busiest_tenant"] {
        start_shipped(&cluster, name);
    }
    let printed = cluster.run(&["route", "applications", "--json"]);
    assert_eq!(printed.lines().count(), 4, "{printed}");
    assert_eq!(rules(&cluster), [""; 0], "there is no load");
}
