//! Tests `nacre route` with rules that name a program, on a cluster of real processes. The test
//! kills some of them.

mod common;

use std::path::Path;

use common::metrics_page::{address_of, ask};
use common::routes::{Workers, cluster, number, places, put, rules, status, wait_until_home};
use common::{RunningCluster, kill};
use nacre_conformance::wait::eventually_blocking;
use serde_json::Value;

/// Puts a program that declares some destinations, and makes it active.
fn activate(cluster: &RunningCluster, folder: &Path, destinations: &[&str], body: &str) {
    cluster.run(&["program", "put", "route/p", &source(folder, destinations, body), "--activate"]);
}

/// A file with the source of a program. The body begins in line 3.
fn source(folder: &Path, destinations: &[&str], body: &str) -> String {
    let file = folder.join("p.lua");
    let list: Vec<_> = destinations.iter().map(|to| format!("{to:?}")).collect();
    let list = list.join(", ");
    let text = format!("destinations = {{ {list} }}\nfunction route(io)\n{body}\nend\n");
    std::fs::write(&file, text).unwrap();
    file.to_str().unwrap().to_owned()
}

/// What a switch says of the program.
fn program(cluster: &RunningCluster, target: &str) -> Option<Value> {
    status(cluster, target).and_then(|status| status["programs"].get(0).cloned())
}

fn wait_for_version(cluster: &RunningCluster, target: &str, version: u64) {
    eventually_blocking("the switch goes by the version", || {
        program(cluster, target).is_some_and(|program| program["version"] == version)
    });
}

fn write(cluster: &RunningCluster, object: &str, offset: &str, text: &str) {
    cluster.run_with_input(&["object", "write", object, "--offset", offset, "-"], text);
}

fn routed_bytes(cluster: &RunningCluster, target: &str) -> Option<u64> {
    number(status(cluster, target).as_ref(), "routed_bytes")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_decides_where_writes_go_until_a_new_version_takes_over() {
    let (folder, cluster) = cluster();
    let folder = folder.path();
    let (names, home, away) = places(&cluster, 2).await;
    let [first, second] = [0, 1].map(|at| format!("data/{}", names[at]));
    let text = format!("application t on {home}\n  * w data/r* -> program p follow\n");
    let file = rules(folder, &text);
    let (code, said) = cluster.fails(&["route", "put", file.to_str().unwrap()]);
    assert!(code == 1 && said.contains("nacre program put route/p FILE --activate"), "{said}");

    let to_away = format!("target {away}");
    activate(&cluster, folder, &["home", &to_away], &format!("  return {to_away:?}"));
    put(&cluster, folder, &text);
    write(&cluster, &first, "0", "abcdef");
    assert_eq!(routed_bytes(&cluster, &home), Some(6));
    let ways = cluster.run(&["route", "trace", "w", &first, "0..6"]);
    assert!(ways.contains(&away) && ways.contains("program p follow, by p@1"), "{ways}");
    let ways = cluster.json(&["route", "trace", "r", &first, "0..6"]);
    assert_eq!(ways[0]["destination"], away.as_str(), "reads follow the write");
    assert!(cluster.run(&["route", "ls"]).contains("* w data/r* -> program p follow"));
    assert_eq!(program(&cluster, &home).unwrap()["decided"], 1);

    let body = format!(
        "  if io.length < 4 then return \"home\" end\n  insert(io.rule, {to_away:?})\n  return {to_away:?}"
    );
    activate(&cluster, folder, &["home", &to_away], &body);
    wait_for_version(&cluster, &home, 2);
    write(&cluster, &first, "1", "XY");
    assert_eq!(routed_bytes(&cluster, &home), Some(4), "the written bytes are at home now");
    assert_eq!(cluster.run(&["object", "get", &first]), "aXYdef");
    write(&cluster, &second, "0", "long");
    write(&cluster, &second, "1", "i");
    let told = program(&cluster, &home).unwrap();
    assert_eq!((&told["decided"], &told["inserted_rules"]), (&3.into(), &1.into()), "{told}");
    assert_eq!(routed_bytes(&cluster, &home), Some(8), "the inserted rule sent both away");
    assert_eq!(cluster.run(&["object", "get", &second]), "ling");

    let (code, said) = cluster.fails(&["program", "rm", "route/p", "--force"]);
    assert!(code == 1 && said.contains("decides for rules of the application t"), "{said}");
    cluster.run(&["route", "rm", "t"]);
    wait_until_home(&cluster, &home);
    cluster.run(&["program", "rm", "route/p", "--force"]);
    assert_eq!(cluster.run(&["object", "get", &first]), "aXYdef");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failing_program_fails_only_its_own_io_and_is_reported_once() {
    let (folder, cluster) = cluster();
    let folder = folder.path();
    let (names, home, away) = places(&cluster, 2).await;
    let [first, second] = [0, 1].map(|at| format!("data/{}", names[at]));
    let to_away = format!("target {away}");
    activate(&cluster, folder, &["home", &to_away], &format!("  return {to_away:?}"));
    let text = format!("application t on {home}\n  * w data/r* -> program p follow\n");
    put(&cluster, folder, &text);
    write(&cluster, &first, "0", "kept");

    let body = format!(
        "  if io.object == {first:?} then\n    error(\"no idea\")\n  end\n  return \"home\""
    );
    activate(&cluster, folder, &["home"], &body);
    wait_for_version(&cluster, &home, 2);
    for _ in 0..3 {
        let file = folder.join("lost");
        std::fs::write(&file, "lost").unwrap();
        let (code, said) =
            cluster.fails(&["object", "write", &first, "--offset", "0", file.to_str().unwrap()]);
        assert!(code == 1 && said.contains("no idea"), "{said}");
        assert!(said.contains("route/p") && said.contains("line 4"), "{said}");
    }
    assert_eq!(cluster.run(&["object", "get", &first]), "kept", "no failed write went anywhere");
    write(&cluster, &second, "0", "other IO goes on");
    eventually_blocking("the failure is reported", || {
        cluster.run(&["events"]).contains("route/p@2 line 4")
    });
    assert_eq!(cluster.run(&["events"]).matches("no idea").count(), 1);
    assert_eq!(program(&cluster, &home).unwrap()["failed"], 3);
    let page = ask(&address_of(&cluster, &home), b"GET /metrics HTTP/1.1\r\n\r\n");
    let failures =
        format!("nacre_route_program_failures_total{{target=\"{home}\",program=\"p\"}} 3\n");
    assert!(page.contains(&failures), "{page}");

    let file = source(folder, &["home", "target storage.9"], "  return \"home\"");
    let (code, said) = cluster.fails(&["program", "put", "route/p", &file, "--activate"]);
    assert!(code == 2 && said.contains("there is no target storage.9"), "{said}");
    let file = source(folder, &["home"], "  drain(io.rule)\n  return \"home\"");
    let (code, said) = cluster.fails(&["program", "put", "route/p", &file]);
    assert!(code == 2 && said.contains("unsupported: `drain`"), "{said}");
    cluster.run(&["program", "rollback", "route/p"]);
    wait_for_version(&cluster, &home, 1);
    write(&cluster, &first, "0", "more");
    assert_eq!(cluster.run(&["object", "get", &first]), "more");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_acknowledged_write_is_lost_while_versions_change_and_nodes_are_killed() {
    let (folder, cluster) = cluster();
    let (names, home, away) = places(&cluster, 4).await;
    let to_away = format!("target {away}");
    activate(&cluster, folder.path(), &[&to_away], &format!("  return {to_away:?}"));
    let workers = Workers::start(&cluster, &names).await;
    let steps = workers.while_they_work(move |workers| {
        let more_rounds = |what: &str| workers.more_rounds(what);
        more_rounds("the workers work");
        let text = format!("application t on {home}\n  * w data/r* -> program p follow\n");
        put(&cluster, folder.path(), &text);
        eventually_blocking("writes go elsewhere", || routed_bytes(&cluster, &home) > Some(0));
        let all = ["home", "target storage.0", "target storage.1", "target storage.2"];
        let mixed = "  if io.offset == 1024 then insert(io.rule .. \" 1KiB..3KiB\", destinations[2]) end\n  \
                     return destinations[(io.offset // 1024 + #io.name) % #destinations + 1]";
        for (version, body) in [(2, mixed), (3, "  return \"home\""), (4, mixed)] {
            activate(&cluster, folder.path(), &all, body);
            wait_for_version(&cluster, &home, version);
            more_rounds("the workers go on with another version");
        }
        kill(cluster.pid_of(&away).unwrap());
        more_rounds("the workers go on after a node with routed bytes was killed");
        kill(cluster.pid_of(&home).unwrap());
        more_rounds("the workers go on after the node with the switch was killed");
        wait_for_version(&cluster, &home, 4);
        eventually_blocking("the started switch knows where bytes lie", || {
            routed_bytes(&cluster, &home) > Some(0)
        });
        let [first, second] = [&home, &away].map(|node| cluster.pid_of(node).unwrap());
        kill(first);
        kill(second);
        more_rounds("the workers go on after both were killed at once");
        cluster.run(&["route", "rm", "t"]);
        wait_until_home(&cluster, &home);
        more_rounds("the workers work without rules");
        (folder, cluster)
    });
    drop(steps.await);
}
