//! What an operator sees of routes: when rules are in force, who changed them, what the switches
//! count, and which rules are without effect.

mod common;

use std::process::Command;

use common::RunningCluster;
use common::metrics_page::{address_of, ask};
use common::routes::{cluster, number, places, put, rules, status, wait_until_home};
use nacre::Cluster;
use nacre_conformance::wait::eventually_blocking;
use serde_json::Value;

const TARGETS: [&str; 3] = ["storage.0", "storage.1", "storage.2"];

fn rule_count(cluster: &RunningCluster, target: &str) -> usize {
    status(cluster, target).unwrap()["rules"].as_array().unwrap().len()
}

/// The documents that a command prints.
fn documents(cluster: &RunningCluster, arguments: &[&str]) -> Vec<Value> {
    let printed = cluster.run(arguments);
    printed.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Sends a signal to a process of the cluster.
fn signal(pid: i32, name: &str) {
    let sent = Command::new("kill").args([&format!("-{name}"), &pid.to_string()]).status();
    assert!(sent.unwrap().success(), "{name} for {pid}");
}

/// The value of a metric of a switch.
fn metric(cluster: &RunningCluster, target: &str, name: &str, labels: &str) -> f64 {
    let page = ask(&address_of(cluster, target), b"GET /metrics HTTP/1.1\r\n\r\n");
    let series = format!("nacre_route_{name}{{target=\"{target}\"{labels}}} ");
    let line = page.lines().find_map(|line| line.strip_prefix(&*series));
    line.unwrap_or_else(|| panic!("no {series}in {page}")).parse().unwrap()
}

#[test]
fn a_change_of_rules_returns_when_every_concerned_switch_has_installed_it() {
    let (folder, cluster) = cluster();
    let file =
        rules(folder.path(), "application t on every\n  * w data/* -> target storage.1 follow\n");
    let file = file.to_str().unwrap();
    let done = cluster.json(&["route", "put", file]);
    assert_eq!((&done["epoch"], &done["in_force"]), (&1.into(), &true.into()), "{done}");
    for target in TARGETS {
        assert_eq!(rule_count(&cluster, target), 1, "{target}");
        assert_eq!(number(status(&cluster, target).as_ref(), "epoch"), Some(1), "{target}");
    }
    assert_eq!(cluster.run(&["route", "rm", "t"]).trim(), "epoch 2, in force");
    for target in TARGETS {
        assert_eq!(rule_count(&cluster, target), 0, "{target}");
    }
    assert_eq!(cluster.run(&["route", "put", file, "--no-wait"]).trim(), "epoch 3, stored");
    eventually_blocking("the nodes install the rules by themselves", || {
        TARGETS.iter().all(|target| rule_count(&cluster, target) == 1)
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_does_not_answer_is_named_and_the_rules_are_stored() {
    let (folder, cluster) = cluster();
    let (_, silent, other) = places(&cluster, 0).await;
    let pid = cluster.pid_of(&silent).unwrap();
    signal(pid, "STOP");
    let on = |name: &str, target: &str| {
        let text = format!("application {name} on {target}\n  * w data/{name}* -> home\n");
        rules(folder.path(), &text)
    };
    let file = on("a", &other);
    let told = cluster.run(&["route", "put", file.to_str().unwrap()]);
    assert_eq!(told.trim(), "epoch 1, in force", "the silent node is not concerned");
    let file = on("b", &silent);
    let (code, said) = cluster.fails(&["route", "put", file.to_str().unwrap(), "--timeout", "1"]);
    assert_eq!(code, 1, "{said}");
    let expected =
        format!("the rules are stored as epoch 2, but not in force after 1 s on {silent}");
    assert!(said.contains(&expected) && said.contains("nacre route status"), "{said}");
    assert!(said.contains("does not answer") && !said.contains(&other), "{said}");
    signal(pid, "CONT");
    eventually_blocking("the node installs the rules when it goes on", || {
        status(&cluster, &silent).is_some_and(|status| status["epoch"] == 2)
    });
    assert_eq!(rule_count(&cluster, &silent), 1);
}

#[test]
fn the_history_says_who_put_and_removed_which_rules() {
    let (folder, cluster) = cluster();
    let two = "application a on every\n  * w data/a* -> target storage.1 follow\n\
               application b on storage.0\n  * w data/b* -> home\n  * w data/c* -> home\n";
    put(&cluster, folder.path(), two);
    cluster.run(&["route", "rm", "a"]);
    let tail = common::shipped("control/tail.lua");
    cluster.run(&["program", "put", "control/tail", &tail, "--activate"]);
    cluster.run(&["route", "start", "tail", "--no-wait"]);
    let all = documents(&cluster, &["route", "history", "--json"]);
    let short = |one: &Value| {
        let about = one["application"].as_str().or(one["key"].as_str()).unwrap().to_owned();
        (one["epoch"].as_u64().unwrap(), about, one["change"].as_str().unwrap().to_owned())
    };
    let expected = [(1, "a", "put"), (1, "b", "put"), (2, "a", "removed"), (3, "tail", "started")];
    let expected = expected.map(|(epoch, name, what)| (epoch, name.to_owned(), what.to_owned()));
    // A later change may name the node that runs the program.
    assert_eq!(all.iter().take(4).map(short).collect::<Vec<_>>(), expected);
    assert!(all.iter().all(|one| one["author"] == "local"), "{all:?}");
    assert!(all.iter().all(|one| one["at_micros"].as_u64() > Some(0)), "{all:?}");
    assert_eq!(all[1]["value"]["insertions"][0]["rules"][1], "* w data/c* -> home");

    let last = documents(&cluster, &["route", "history", "--json", "--limit", "2"]);
    assert_eq!((last.len(), &last[1]["more"]), (2, &true.into()), "{last:?}");
    let table = cluster.run(&["route", "history"]);
    assert!(table.starts_with("epoch  at "), "{table}");
    assert!(table.contains("put 2 rules on storage.0") && table.contains("local"), "{table}");
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_count_what_a_switch_does_by_application() {
    let (folder, cluster) = cluster();
    let (names, home, away) = places(&cluster, 1).await;
    let object = format!("data/{}", names[0]);
    let write = |offset: &str, text: &str| {
        cluster.run_with_input(&["object", "write", &object, "--offset", offset, "-"], text);
    };
    let text = format!("application t on {home}\n  * w data/r* 4.. -> target {away} follow\n");
    put(&cluster, folder.path(), &text);
    let of = |name: &str| metric(&cluster, &home, name, "");
    let of_t = |name: &str| metric(&cluster, &home, name, ",application=\"t\"");
    assert_eq!((of("rules_epoch"), of_t("rules"), of_t("decided_total")), (1.0, 1.0, 0.0));
    write("4", "away");
    write("2", "split");
    assert_eq!((of_t("decided_total"), of("split_total")), (2.0, 1.0));
    assert_eq!((of_t("elsewhere_bytes"), of_t("elsewhere_objects")), (4.0, 1.0));
    assert_eq!((of("in_flight"), of("held"), of("in_doubt")), (0.0, 0.0, 0.0));
    let read = ["object", "get", &object, "--offset", "4", "--length", "4"];
    assert_eq!(cluster.run(&read), "lity");
    assert!(of("followed_total") >= 1.0);

    let background = || {
        let tenants = &cluster.json(&["slo", "status"])["tenants"];
        tenants["nacre.background"]["requests"].as_u64().unwrap_or(0)
    };
    let before = background();
    cluster.run(&["route", "rm", "t"]);
    wait_until_home(&cluster, &home);
    assert_eq!(of_t("brought_home_bytes_total"), 4.0);
    assert!(background() > before, "bytes are brought home as background work");
    assert_eq!((of_t("elsewhere_bytes"), of_t("rules")), (0.0, 0.0));
    assert_eq!(of_t("decided_total"), 2.0, "the counter outlives its rules");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rule_at_a_switch_that_never_meets_its_object_is_refused_with_the_right_target() {
    let (folder, cluster) = cluster();
    let (names, home, away) = places(&cluster, 1).await;
    let object = format!("data/{}", names[0]);
    let on = |switch: &str, objects: &str| {
        let text = format!("application t on {switch}\n  * w {objects} -> target {away} follow\n");
        rules(folder.path(), &text).to_str().unwrap().to_owned()
    };
    let file = on(&away, &object);
    for verb in ["check", "put"] {
        let (code, said) = cluster.fails(&["route", verb, &file]);
        assert_eq!(code, 2, "{said}");
        assert!(said.contains(&format!("because {home} holds {object}")), "{said}");
        assert!(said.contains(&format!("write \"application t on {home}\"")), "{said}");
    }
    assert!(cluster.run(&["route", "history"]).lines().count() <= 1, "nothing was stored");
    let tagged = (0..).map(|tag| format!("data/{{{tag}}}"));
    let client = Cluster::connect(cluster.folder()).await.unwrap();
    let is_home =
        |begin: &String| client.locate(&format!("{begin}x").parse().unwrap()).as_str() == home;
    let begin = tagged.filter(is_home).take(1).next().unwrap();
    let (_, said) = cluster.fails(&["route", "put", &on(&away, &format!("{begin}*"))]);
    assert!(said.contains(&format!("because {home} holds")), "{said}");

    for (switch, objects) in
        [(home.as_str(), object.as_str()), ("every", &object), (&away, "data/r*")]
    {
        cluster.run(&["route", "check", &on(switch, objects)]);
    }
    cluster.run(&["route", "put", &on(&away, &object), "--force"]);
    assert!(cluster.run(&["events"]).contains("a rule without effect"));
}
