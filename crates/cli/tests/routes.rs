//! `nacre route`: rules on a cluster of real processes, which are killed.

mod common;

use std::process::{Command, Stdio};

use common::routes::{Workers, cluster, number, places, put, rules, status, wait_until_home};
use common::slo_profiles::load_fast_profile;
use common::{NACRE, RunningCluster, kill, suspend};
use nacre::{Cluster, ErrorKind};
use nacre_conformance::wait::eventually_blocking;
use nacre_object::ObjectId;
use rustix::process::{Signal, kill_process};

#[tokio::test(flavor = "multi_thread")]
async fn a_routed_object_answers_as_if_it_were_not_routed() {
    let (folder, cluster) = cluster();
    let (names, home, away) = places(&cluster, 2).await;
    let object = format!("data/{}", names[0]);
    cluster.run_with_input(&["object", "put", &object], "0123456789");
    let text = format!("application t on {home}\n  * w data/r* 2..5000 -> target {away} follow\n");
    put(&cluster, folder.path(), &text);

    cluster.run_with_input(&["object", "write", &object, "--offset", "4", "-"], "abc");
    assert_eq!(number(status(&cluster, &home).as_ref(), "routed_bytes"), Some(3));
    assert_eq!(cluster.run(&["object", "get", &object]), "0123abc789");
    let routed = number(status(&cluster, &home).as_ref(), "routed_bytes");
    assert_eq!(routed, Some(3), "a read of the whole object leaves its bytes where they are");
    cluster.run_with_input(&["object", "write", &object, "--offset", "0", "-"], "ABCDEF");
    assert_eq!(cluster.run(&["object", "get", &object]), "ABCDEFc789", "a write is split");
    cluster.run_with_input(&["object", "write", &object, "--offset", "12", "-"], "end");
    assert_eq!(cluster.json(&["object", "stat", &object])["size"], 15);
    assert_eq!(cluster.run(&["object", "get", &object]), "ABCDEFc789\0\0end");

    let second = format!("data/{}", names[1]);
    cluster.run_with_input(&["object", "write", &second, "--offset", "2", "-"], "new");
    let listed = cluster.run(&["object", "ls", "data"]);
    assert!(listed.contains(&names[0]) && listed.contains(&names[1]), "{listed}");
    assert_eq!(cluster.run(&["object", "get", &second]), "\0\0new");
    let client = Cluster::connect(cluster.folder()).await.unwrap();
    let routed = client.locate(&object.parse().unwrap());
    assert_eq!(routed.as_str(), home);

    cluster.run_with_input(&["object", "write", &object, "--offset", "4", "-"], "EF");
    let io = ["route", "trace", "r", &object, "0..20", "--json"];
    let ways = cluster.run(&io);
    assert!(ways.contains(&away) && ways.contains("(home)"), "{ways}");
    let counted = status(&cluster, &home).unwrap();
    assert!(counted["rules"][0]["count"].as_u64() >= Some(4), "{counted}");

    let third = client.object(&object.parse().unwrap()).await.unwrap();
    assert_eq!(third.append("!").await.unwrap(), 15, "an append brings the bytes home first");
    assert_eq!(cluster.run(&["object", "get", &object]), "ABCDEFc789\0\0end!");
    cluster.run_with_input(&["object", "write", &object, "--offset", "2", "-"], "x");
    cluster.run(&["object", "rm", &object]);
    let (_, said) = cluster.fails(&["object", "get", &object]);
    assert!(said.contains("not found") || said.contains("no such"), "{said}");
    cluster.run_with_input(&["object", "put", &object], "again");
    assert_eq!(cluster.run(&["object", "get", &object]), "again", "no old bytes come back");

    cluster.run(&["route", "rm", "t"]);
    wait_until_home(&cluster, &home);
    assert_eq!(cluster.run(&["object", "get", &second]), "\0\0new");
    let scrubbed = cluster.run(&["scrub", "--json"]);
    assert!(!scrubbed.contains("holder"), "routed bytes lie where their names say: {scrubbed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_node_keeps_no_bytes_of_other_nodes_from_coming_home() {
    let (folder, cluster) = cluster();
    let (names, home, silent) = places(&cluster, 6).await;
    let other = ["storage.0", "storage.1", "storage.2"].into_iter();
    let other = other.map(str::to_owned).find(|one| ![&home, &silent].contains(&one)).unwrap();
    let to = |at: usize| if at == 3 { &other } else { &silent };
    let rule =
        |(at, name): (usize, &String)| format!("  * w data/{name} -> target {} follow\n", to(at));
    let lines: String = names.iter().enumerate().map(rule).collect();
    put(&cluster, folder.path(), &format!("application t on {home}\n{lines}"));
    for name in &names {
        let object = format!("data/{name}");
        cluster.run_with_input(&["object", "write", &object, "--offset", "0", "-"], "away");
    }
    let process = suspend(cluster.pid_of(&silent).unwrap());
    cluster.run(&["route", "rm", "t"]);
    eventually_blocking("the bytes of the node that answers are home", || {
        number(status(&cluster, &home).as_ref(), "routed_bytes") == Some(5 * 4)
    });
    kill_process(process, Signal::CONT).unwrap();
    wait_until_home(&cluster, &home);
    for name in &names {
        assert_eq!(cluster.run(&["object", "get", &format!("data/{name}")]), "away");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_with_a_promise_is_routed_only_to_targets_at_which_it_was_admitted() {
    let (folder, cluster) = cluster();
    let (names, home, away) = places(&cluster, 1).await;
    load_fast_profile(&cluster, &["storage.0", "storage.1", "storage.2"]);
    cluster.run(&["slo", "pool", "data", "gold"]);
    let trace = folder.path().join("trace");
    let write = |second: u32| format!("{second}.0 write 4096 {}\n", names[0]);
    let text = format!("nacre trace 1\n{}", (0..10).map(write).collect::<String>());
    std::fs::write(&trace, text).unwrap();
    let trace = trace.to_str().unwrap();
    let admit = ["slo", "admit", "gold", "--latency", "20s", "--trace-file", trace];
    let text = format!("application t on {home}\n  tenant:gold w data/* -> target {away} follow\n");
    let file = rules(folder.path(), &text);
    let put = ["route", "put", file.to_str().unwrap()];

    cluster.run(&admit);
    let (_, said) = cluster.fails(&put);
    assert!(said.contains(&format!("the traffic of gold was not admitted at {away}")), "{said}");
    cluster.run(&["slo", "evict", "gold"]);
    cluster.run(&put);
    let (_, said) = cluster.fails(&admit);
    assert!(said.contains("installed rules send IO where a promise would not hold"), "{said}");
    assert!(said.contains(&format!("tenant:gold w data/* -> target {away}")), "{said}");

    // The rule and the target that stores the bytes know the tenant of the pool.
    let object = format!("data/{}", names[0]);
    cluster.run_with_input(&["object", "write", &object, "--offset", "0", "-"], "abc");
    let slo = cluster.json(&["slo", "status"]);
    let targets = slo["targets"].as_array().unwrap();
    let target = targets.iter().find(|target| target["target"] == *away).unwrap();
    let tenants = target["tenants"].as_array().unwrap();
    let gold = tenants.iter().find(|tenant| tenant["tenant"] == "gold");
    assert!(gold.is_some_and(|gold| gold["requests"].as_u64() > Some(0)), "{slo}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pool_is_not_given_to_a_tenant_whose_promise_installed_rules_would_break() {
    let (folder, cluster) = cluster();
    let (names, home, away) = places(&cluster, 1).await;
    load_fast_profile(&cluster, &["storage.0", "storage.1", "storage.2"]);
    cluster.run(&["pool", "create", "other"]);
    let (_, said) = cluster.fails(&["slo", "pool", "nacre.system", "gold"]);
    assert!(said.contains("nacre's own"), "{said}");
    cluster.run(&["slo", "pool", "data", "gold"]);
    cluster.run(&["slo", "pool", "other", "bulk"]);
    let trace = folder.path().join("trace");
    let write = |second: u32| format!("{second}.0 write 4096 {}\n", names[0]);
    let text = format!("nacre trace 1\n{}", (0..10).map(write).collect::<String>());
    std::fs::write(&trace, text).unwrap();
    let trace = trace.to_str().unwrap();
    cluster.run(&["slo", "admit", "gold", "--latency", "20s", "--trace-file", trace]);
    let text = format!("application t on {home}\n  * w other/* -> target {away} follow\n");
    put(&cluster, folder.path(), &text);
    for assign in [&["slo", "pool", "other", "gold"][..], &["slo", "pool", "other"]] {
        let (_, said) = cluster.fails(assign);
        assert!(said.contains("where a promise would not hold"), "{said}");
        assert!(said.contains(&format!("* w other/* -> target {away}")), "{said}");
    }
    cluster.run(&["route", "rm", "t"]);
    cluster.run(&["slo", "pool", "other", "gold"]);
}

/// The names of an object's snapshots.
fn snapshots(cluster: &RunningCluster, object: &str) -> Vec<String> {
    let printed = cluster.run(&["object", "snapshot", "ls", object]);
    printed.lines().map(str::to_owned).collect()
}

#[test]
fn former_versions_of_an_object_are_kept_and_a_removed_object_can_be_restored() {
    let (folder, cluster) = cluster();
    put(&cluster, folder.path(), "application v on every\n  * * data/doc* -> versions 3\n");
    let put = |text: &str| drop(cluster.run_with_input(&["object", "put", "data/doc", "-"], text));
    put("one");
    assert_eq!(snapshots(&cluster, "data/doc"), [""; 0], "a new object has no former version");
    put("two");
    cluster.run_with_input(&["object", "write", "data/doc", "--offset", "3", "-"], " and a half");
    let kept = snapshots(&cluster, "data/doc");
    let at = |version: &str| cluster.run(&["object", "get", "data/doc", "--at", version]);
    assert_eq!(kept.iter().map(|version| at(version)).collect::<Vec<_>>(), ["one", "two"]);
    assert_eq!(cluster.run(&["object", "get", "data/doc"]), "two and a half");
    assert_eq!(snapshots(&cluster, "data/doc"), kept, "a read makes no version");
    cluster.run(&["object", "attr", "set", "data/doc", "colour=red"]);
    cluster.run(&["object", "rm", "data/doc"]);
    eventually_blocking("the oldest version is dropped", || {
        let versions = snapshots(&cluster, "data/doc");
        versions.len() == 3 && at(&versions[0]) == "two"
    });
    let last = snapshots(&cluster, "data/doc").pop().unwrap();
    cluster.run(&["object", "snapshot", "rollback", "data/doc", &last]);
    assert_eq!(cluster.run(&["object", "get", "data/doc"]), "two and a half");
    assert_eq!(cluster.run(&["object", "attr", "get", "data/doc", "colour"]).trim(), "red");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_change_has_its_version_also_right_after_a_restart_of_the_node() {
    let (folder, cluster) = cluster();
    let (names, home, _) = places(&cluster, 1).await;
    put(&cluster, folder.path(), "application v on every\n  * * data/* -> versions 32\n");
    let client = Cluster::connect(cluster.folder()).await.unwrap();
    let object = client.pool("data").await.unwrap().object(names[0].as_str()).unwrap();
    for number in 0..9 {
        if number % 3 == 1 {
            cluster.kill_node(&home);
        }
        // The client does not know whether the node did a write before it died, so it repeats the write.
        while let Err(error) = object.write(0, number.to_string()).await {
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        }
    }
    let name = format!("data/{}", names[0]);
    let at = |version: &String| cluster.run(&["object", "get", &name, "--at", version]);
    let mut states: Vec<_> = snapshots(&cluster, &name).iter().map(at).collect();
    states.dedup();
    assert_eq!(states.concat(), "01234567");
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_that_are_faster_than_the_dropping_of_versions_do_not_fail() {
    let (folder, cluster) = cluster();
    put(&cluster, folder.path(), "application v on every\n  * * data/* -> versions 32\n");
    cluster.run_with_input(&["object", "put", "data/x", "-"], "begun");
    cluster.run(&["object", "snapshot", "create", "data/x", "version-0.9"]);
    let client = Cluster::connect(cluster.folder()).await.unwrap();
    let object = client.pool("data").await.unwrap().object("x").unwrap();
    let writes = (0..150).map(|number: u32| object.write(0, number.to_string()));
    futures::future::try_join_all(writes).await.unwrap();
    eventually_blocking("32 versions are left, and the snapshot of the user", || {
        let all = snapshots(&cluster, "data/x");
        all.len() <= 33 && all.contains(&"version-0.9".to_owned())
    });
}

#[test]
fn rules_that_are_put_at_once_are_checked_together() {
    let (folder, cluster) = cluster();
    let put = |target: u32| {
        let text = format!(
            "nacre routes 1\napplication to{target} on every\n  * w data/c* -> target storage.{target} follow\n"
        );
        let file = folder.path().join(format!("rules{target}"));
        std::fs::write(&file, text).unwrap();
        let mut command = cluster.command(&["route", "put", file.to_str().unwrap()]);
        command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let all = [0, 1, 2].map(put).map(|command| command.wait_with_output().unwrap());
    let (installed, refused): (Vec<_>, Vec<_>) =
        all.into_iter().partition(|output| output.status.success());
    assert_eq!((installed.len(), refused.len()), (1, 2), "{refused:?}");
    for output in refused {
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains("contradict each other"), "{said}");
    }
    let file = rules(folder.path(), "application t on storage.9\n  * w data/x -> home\n");
    let (_, said) = cluster.fails(&["route", "check", file.to_str().unwrap()]);
    assert!(said.contains("name one of every, storage.0"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn routed_bytes_are_hidden_from_clients() {
    let (folder, cluster) = cluster();
    let (names, home, away) = places(&cluster, 1).await;
    let text = format!("application t on {home}\n  * w data/* -> target {away} follow\n");
    put(&cluster, folder.path(), &text);
    let object = format!("data/{}", names[0]);
    cluster.run_with_input(&["object", "write", &object, "--offset", "0", "-"], "secret");
    let ways = cluster.json(&["route", "trace", "r", &object, "0..6"]);
    let place: ObjectId = ways[0]["object"].as_str().unwrap().parse().unwrap();
    let client = Cluster::connect(cluster.folder()).await.unwrap();
    let read = nacre_object::Request::new(place, vec![nacre::Op::Read { offset: 0, length: 9 }]);
    let refused = nacre_object::Store::submit(client.store().as_ref(), read.unwrap()).await;
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Denied);
    assert!(!cluster.run(&["pool", "ls"]).contains("nacre.routed"));
    let (_, said) = cluster.fails(&["pool", "create", "nacre.routed"]);
    assert!(said.contains("are nacre's own"), "{said}");
}

#[test]
fn unsafe_and_unsupported_rules_are_refused_with_the_reason() {
    let (folder, cluster) = cluster();
    let check = |text: &str| {
        let file = rules(folder.path(), text);
        cluster.fails(&["route", "put", file.to_str().unwrap()])
    };
    let (code, said) = check("application a on every\n  * rw data/x -> pool spill\n");
    assert!(code != 0 && said.contains("only writes are sent elsewhere"), "{said}");
    let (_, said) = check("application a on every\n  * w data/x -> target storage.9 follow\n");
    assert!(said.contains("there is no target storage.9"), "{said}");
    let (_, said) = check("application a on elsewhere\n  * w data/x -> home\n");
    assert!(said.contains("line 2") && said.contains("no switch elsewhere"), "{said}");

    put(
        &cluster,
        folder.path(),
        "application a on every\n  * w data/* -> target storage.1 follow\n",
    );
    let contradiction = "application b on every\n  * w data/x -> target storage.2 follow\n";
    let (_, said) = check(contradiction);
    assert!(said.contains("not safe") && said.contains("--force"), "{said}");
    let file = rules(folder.path(), contradiction);
    cluster.run(&["route", "put", file.to_str().unwrap(), "--force"]);
    assert!(cluster.run(&["events"]).contains("unsafe rules of b are installed"));

    let listed = cluster.run(&["route", "ls", "--json"]);
    assert_eq!(listed.lines().count(), 2, "{listed}");
    let shown = cluster.run(&["route", "show", "a"]);
    assert!(shown.ends_with("  * w data/* -> target storage.1 follow\n"), "{shown}");
    cluster.run(&["route", "rm", "b"]);
    let (_, said) = cluster.fails(&["route", "rm", "b"]);
    assert!(said.contains("no such application"), "{said}");
    let history = cluster.run(&["route", "history"]);
    assert!(history.lines().last().unwrap().ends_with("b            removed"), "{history}");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_acknowledged_write_is_lost_when_nodes_of_a_route_are_killed() {
    let (folder, cluster) = cluster();
    let (names, home, away) = places(&cluster, 4).await;
    let workers = Workers::start(&cluster, &names).await;
    let steps = workers.while_they_work(move |workers| {
        let more_rounds = |what: &str| workers.more_rounds(what);
        let routed = |what: &str| {
            eventually_blocking(what, || {
                number(status(&cluster, &home).as_ref(), "routed_bytes") > Some(0)
            });
        };
        more_rounds("the workers work");
        let text = format!("application t on {home}\n  * w data/r* -> target {away} follow\n");
        put(&cluster, folder.path(), &text);
        routed("writes go elsewhere");
        more_rounds("the workers work with rules");
        kill(cluster.pid_of(&away).unwrap());
        more_rounds("the workers go on after the node with routed bytes was killed");
        kill(cluster.pid_of(&home).unwrap());
        more_rounds("the workers go on after the node with the switch was killed");
        routed("the started switch knows where bytes lie");
        let first = cluster.pid_of(&home).unwrap();
        let second = cluster.pid_of(&away).unwrap();
        kill(first);
        kill(second);
        more_rounds("the workers go on after both were killed at once");
        cluster.run(&["route", "rm", "t"]);
        kill(cluster.pid_of(&home).unwrap());
        more_rounds("the workers go on after the switch was killed while bytes come home");
        wait_until_home(&cluster, &home);
        more_rounds("the workers work without rules");
        (folder, cluster)
    });
    drop(steps.await);
}

#[test]
fn the_demo_of_routes_verifies_every_read() {
    let mut demo = Command::new(NACRE);
    let output = demo.args(["demo", "--routes", "--quick"]).output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(printed.lines().last().is_some_and(|line| line.starts_with("verified: ")), "{printed}");
}
