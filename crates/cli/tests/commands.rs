//! The command against a real cluster, as a person would use it.

mod common;
#[path = "commands/listings.rs"]
mod listings;
#[path = "commands/reading.rs"]
mod reading;
#[path = "commands/words.rs"]
mod words;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

use common::follower::Follower;
use common::{RunningCluster, finish};
use nacre::{Cluster, Event, Severity};
use nacre_conformance::wait::{eventually, eventually_blocking};
use nacre_object::{MapEntry, Op};

const COUNTER: &str = include_str!("../../../programs/class/counter.lua");

#[test]
fn a_class_is_put_called_replaced_and_taken_back() {
    let cluster = RunningCluster::start();
    let file = cluster.folder().join("counter.lua");
    let path = file.to_str().unwrap();
    fs::write(&file, COUNTER).unwrap();
    let put = cluster.run(&["program", "put", "class/counter", path, "--activate"]);
    assert_eq!(put, "class/counter version 1, active on every node\n");
    let add = ["class", "call", "data/visits", "counter", "add", "--input"];
    assert_eq!(cluster.run(&[&add[..], &["5"]].concat()), "5\n");
    assert_eq!(cluster.run(&[&add[..], &["2"]].concat()), "7\n");

    fs::write(
        &file,
        COUNTER.replace("output:append(tostring(sum))", "output:append('now ' .. sum)"),
    )
    .unwrap();
    cluster.run(&["program", "put", "class/counter", path, "--activate"]);
    assert_eq!(cluster.run(&[&add[..], &["1"]].concat()), "now 8\n");
    let diff = cluster.run(&["program", "diff", "class/counter", "1", "2"]);
    assert!(diff.contains("+  output:append('now ' .. sum)"), "{diff}");
    let (status, said) = cluster.fails(&[&add[..], &["1", "--class-version", "1"]].concat());
    assert_eq!(status, 1);
    assert!(said.contains("stale"), "{said}");

    cluster.run(&["program", "rollback", "class/counter"]);
    assert_eq!(cluster.run(&[&add[..], &["1"]].concat()), "9\n");
    let events = cluster.run(&["events"]);
    assert_eq!(events.matches("class/counter version 1 is active").count(), 2, "{events}");
    assert_eq!(events.matches("class/counter version 2 is active").count(), 1, "{events}");
    let status = cluster.run(&["program", "status", "class/counter"]);
    assert_eq!(status.matches(" up ").count(), 4, "{status}");
}

#[test]
fn versions_that_no_rollback_reaches_are_shown_and_removed() {
    let cluster = RunningCluster::start();
    let file = cluster.folder().join("counter.lua");
    let put = |number: u32, more: &[&str]| {
        fs::write(&file, format!("{COUNTER}-- {number}\n")).unwrap();
        let path = file.to_str().unwrap();
        cluster.run(&[&["program", "put", "class/counter", path], more].concat());
    };
    put(1, &["--activate"]);
    assert_eq!(cluster.run(&["program", "gc", "--dry-run"]), "nothing to collect\n");
    // Versions 2 to 11 are superseded. The newest eight of these are kept.
    (2..12).for_each(|number| put(number, &[]));
    put(12, &["--activate"]);
    let foreseen = cluster.json(&["program", "gc", "--dry-run"]);
    let version =
        |number: u64| serde_json::json!({ "program": "class/counter", "version": number });
    assert_eq!(foreseen["versions"], serde_json::json!([version(2), version(3)]), "{foreseen}");
    assert_eq!(foreseen["sources"], serde_json::json!([]), "their sources are young");
    let listed = || cluster.json(&["program", "ls"]).to_string();
    let before = listed();
    assert_eq!(cluster.json(&["program", "gc"]), foreseen);
    assert_ne!(listed(), before);
    cluster.fails(&["program", "show", "class/counter", "--program-version", "2"]);
    cluster.run(&["program", "show", "class/counter", "--program-version", "4"]);
    assert_eq!(cluster.run(&["program", "gc"]), "nothing to collect\n");
    cluster.run(&["program", "rollback", "class/counter"]);
    let call = ["class", "call", "data/visits", "counter", "add", "--input", "5"];
    assert_eq!(cluster.run(&call), "5\n");
}

#[test]
fn a_mistake_in_a_program_is_shown_where_it_is_and_nothing_is_stored() {
    let cluster = RunningCluster::start();
    let file = cluster.folder().join("wrong.lua");
    fs::write(&file, "function f(input, output)\n  local x = = 1\nend\nobjclass.register(f)\n")
        .unwrap();
    let (status, said) = cluster.fails(&["program", "put", "class/wrong", file.to_str().unwrap()]);
    assert_eq!(status, 2);
    assert!(said.contains("wrong.lua:2:") && said.contains("2 |   local x = = 1"), "{said}");
    assert!(said.contains('^'), "{said}");
    assert!(!cluster.run(&["program", "ls"]).contains("wrong"));
}

#[test]
fn a_fault_fails_its_own_call_and_is_in_the_cluster_log() {
    let cluster = RunningCluster::start();
    let file = cluster.folder().join("faulty.lua");
    let source = "function f(input, output)\n  objclass.map_set_val('k', input)\n  error('oops')\n\
                  end\nobjclass.register(f)\n";
    fs::write(&file, source).unwrap();
    cluster.run(&["program", "put", "class/faulty", file.to_str().unwrap(), "--activate"]);
    let (_, said) = cluster.fails(&["class", "call", "data/x", "faulty", "f", "--input", "1"]);
    assert!(said.contains("oops") && said.contains("line 3"), "{said}");
    cluster.fails(&["object", "stat", "data/x"]);
    let mut events = Follower::start(cluster.command(&["events", "--follow"]));
    eventually_blocking("the fault is reported", || events.next_line().contains("oops"));
}

#[test]
fn a_script_is_evaluated_without_being_stored() {
    let cluster = RunningCluster::start();
    let file = cluster.folder().join("echo.lua");
    let path = file.to_str().unwrap();
    fs::write(&file, "function e(i, o) o:append(i:str()); return 7 end objclass.register(e)")
        .unwrap();
    let eval = ["class", "eval", "data/x", "--script", path, "--handler"];
    let printed = cluster.run(&[&eval[..], &["e", "--input", "hi"]].concat());
    assert_eq!(printed, "status 7\nhi");
    let json = cluster.json(&[&eval[..], &["e", "--input", "hi"]].concat());
    assert_eq!((json["status"].as_i64(), json["output"].as_str()), (Some(7), Some("hi")));
    let failed = cluster.command(&[&eval[..], &["nobody"]].concat()).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&failed.stdout), "status -95\n");
}

#[test]
fn objects_keep_bytes_maps_attributes_and_snapshots() {
    let cluster = RunningCluster::start();
    cluster.run_with_input(&["object", "put", "data/a"], "hello");
    assert_eq!(cluster.run_with_input(&["object", "append", "data/a"], " world"), "5\n");
    cluster.run(&["object", "snapshot", "create", "data/a", "s1"]);
    cluster.run_with_input(&["object", "write", "data/a", "--offset", "0"], "J");
    assert_eq!(cluster.run(&["object", "get", "data/a"]), "Jello world");
    assert_eq!(cluster.run(&["object", "get", "data/a", "--at", "s1"]), "hello world");
    assert_eq!(cluster.run(&["object", "get", "data/a", "--offset", "6", "--length", "3"]), "wor");
    let all = serde_json::json!({ "data": "Jello world" });
    assert_eq!(cluster.json(&["object", "get", "data/a"]), all);
    cluster.run(&["object", "snapshot", "rollback", "data/a", "s1"]);
    assert_eq!(cluster.run(&["object", "get", "data/a"]), "hello world");
    cluster.run(&["object", "map", "set", "data/a", "k", "v"]);
    assert_eq!(cluster.run(&["object", "map", "get", "data/a", "k"]), "v\n");
    cluster.run(&["object", "attr", "set", "data/a", "colour", "red"]);
    assert_eq!(cluster.json(&["object", "attr", "get", "data/a", "colour"])["value"], "red");
    assert_eq!(cluster.json(&["object", "stat", "data/a"])["size"], 11);
    cluster.run(&["object", "truncate", "data/sizes", "1536"]);
    assert!(cluster.run(&["object", "stat", "data/sizes"]).starts_with("size      1.5 KiB\n"));
    let exact = cluster.run(&["object", "stat", "data/sizes", "--bytes"]);
    assert!(exact.starts_with("size      1536 B\n"), "{exact}");
    cluster.run(&["object", "rm", "data/sizes"]);
    for n in 0..5 {
        cluster.run(&["object", "create", &format!("data/many/{n}")]);
    }
    let names = cluster.run(&["object", "ls", "data", "--prefix", "many/"]);
    assert_eq!(names, "many/0\nmany/1\nmany/2\nmany/3\nmany/4\n");
    let target = cluster.run(&["object", "locate", "data/a"]);
    assert!(target.starts_with("storage."), "{target}");
    cluster.run(&["object", "rm", "data/a"]);
    assert!(cluster.fails(&["object", "get", "data/a"]).1.contains("not found"));
}

#[test]
fn logs_work_with_pipes() {
    let cluster = RunningCluster::start();
    cluster.run(&["log", "create", "l"]);
    let lines: String = (0..1000).map(|n| format!("line {n}\n")).collect();
    cluster.run_with_input(&["log", "append", "l"], &lines);
    assert_eq!(cluster.run(&["log", "read", "l"]), lines);
    assert_eq!(cluster.run(&["log", "tail", "l"]), "1000\n");
    assert_eq!(cluster.run(&["log", "read", "l", "7"]), "line 7\n");
    cluster.run(&["log", "trim", "l", "7"]);
    assert!(cluster.fails(&["log", "read", "l", "7"]).1.contains("trimmed"));
    cluster.run(&["log", "trim", "l", "499", "--to"]);
    assert_eq!(cluster.run(&["log", "read", "l"]), lines[lines.find("line 500").unwrap()..]);
    cluster.run(&["log", "fill", "l", "1000"]);
    cluster.run_with_input(&["log", "append", "l", "--positions"], "after the hole");
    assert_eq!(cluster.run(&["log", "read", "l", "--from", "1000"]), "after the hole\n");
    assert_eq!(cluster.json(&["log", "stat", "l"])["tail"], 1002);

    let mut followed = Follower::start(cluster.command(&["log", "follow", "l", "--from", "1001"]));
    assert_eq!(followed.next_line(), "after the hole");
    cluster.run_with_input(&["log", "append", "l"], "more\n");
    assert_eq!(followed.next_line(), "more");
    drop(followed);

    cluster.run(&["log", "remove", "l"]);
    assert_eq!(cluster.run(&["log", "ls"]), "");
    assert!(cluster.fails(&["log", "read", "l"]).1.contains("not found"));
    assert!(cluster.fails(&["log", "remove", "l"]).1.contains("no log l"));
    cluster.run(&["log", "create", "l"]);
    cluster.run_with_input(&["log", "append", "l"], "anew\n");
    assert_eq!(cluster.run(&["log", "read", "l"]), "anew\n");
}

#[test]
fn the_class_of_a_log_must_be_able_to_store_logs_and_cannot_be_removed() {
    let cluster = RunningCluster::start();
    let file = cluster.folder().join("class.lua");
    let put = |name: &str, source: &str| {
        fs::write(&file, source).unwrap();
        cluster.run(&["program", "put", name, file.to_str().unwrap(), "--activate"]);
    };
    put("class/counter", COUNTER);
    let (status, said) = cluster.fails(&["log", "create", "l", "--class", "nosuch"]);
    assert!(status == 1 && said.contains("no version of class/nosuch is active"), "{said}");
    let (status, said) = cluster.fails(&["log", "create", "l", "--class", "counter"]);
    assert!(status == 2 && said.contains("no method seal, max_position"), "{said}");
    assert_eq!(cluster.run(&["log", "ls"]), "");

    put("class/mine", nacre::LOG_PROGRAM_SOURCE);
    cluster.run(&["log", "create", "l", "--class", "mine"]);
    cluster.run_with_input(&["log", "append", "l"], "one\n");
    let remove_class = ["program", "rm", "class/mine", "--force"];
    let (status, said) = cluster.fails(&remove_class);
    assert!(status == 1 && said.contains("stores the entries of the log l"), "{said}");
    assert_eq!(cluster.run(&["log", "read", "l"]), "one\n");

    // Remove the class with `map rm --system`, although the log uses it. Until the class is back,
    // the log cannot be removed, not even partly.
    cluster.run(&["map", "rm", "programs", "class/mine", "--system"]);
    for _ in 0..2 {
        let (status, said) = cluster.fails(&["log", "remove", "l"]);
        assert!(status == 1 && said.contains("put and activate"), "{said}");
        assert_eq!(cluster.run(&["log", "ls"]), "l\n");
    }
    put("class/mine", nacre::LOG_PROGRAM_SOURCE);
    cluster.run(&["log", "remove", "l"]);
    assert_eq!(cluster.run(&["log", "ls"]), "");
    cluster.run(&remove_class);
}

#[test]
fn a_capability_program_stays_while_a_log_or_a_file_type_uses_it() {
    let cluster = RunningCluster::start();
    let file = cluster.folder().join("mine.lua");
    fs::write(&file, "function grant(ask) return false end\n").unwrap();
    let create = ["log", "create", "l", "--capability", "capability/mine"];
    let (status, said) = cluster.fails(&create);
    assert!(status == 1 && said.contains("capability/mine has no active version"), "{said}");
    assert_eq!(cluster.run(&["log", "ls"]), "");
    cluster.run(&["program", "put", "capability/mine", file.to_str().unwrap(), "--activate"]);
    cluster.run(&create);
    assert_eq!(cluster.json(&["log", "stat", "l"])["capability"], "mine");
    let remove = ["program", "rm", "capability/mine", "--force"];
    let (status, said) = cluster.fails(&remove);
    let text = "capability/mine decides who issues the positions of the log l";
    assert!(status == 1 && said.contains(text), "{said}");
    cluster.run(&["log", "set", "l", "--capability", "none"]);

    let held = cluster.folder().join("held.lua");
    fs::write(
        &held,
        "filetype.capability('shared', 'mine')\nfiletype.read('get', function() end)\n",
    )
    .unwrap();
    let put_type = ["program", "put", "filetype/held", held.to_str().unwrap(), "--activate"];
    cluster.run(&put_type);
    let (status, said) = cluster.fails(&remove);
    assert!(status == 1 && said.contains("filetype/held uses capability/mine"), "{said}");
    cluster.run(&["program", "rm", "filetype/held", "--force"]);
    cluster.run(&remove);
    let (status, said) = cluster.fails(&put_type);
    let text = "filetype/held uses capability/mine, which has no active version";
    assert!(status == 1 && said.contains(text), "{said}");
}

#[test]
fn lines_before_an_invalid_line_are_appended() {
    let cluster = RunningCluster::start();
    cluster.run(&["log", "create", "l"]);
    let good: String = (0..700).map(|n| format!("line {n}\n")).collect();
    let file = cluster.folder().join("lines");
    fs::write(&file, format!("{good}{}\nanother\n", "x".repeat(1024 * 1024))).unwrap();
    let (status, said) = cluster.fails(&["log", "append", "l", file.to_str().unwrap()]);
    assert_eq!(status, 2);
    assert!(said.contains("700 records appended, the last at position 699"), "{said}");
    assert!(said.contains("line 701 of"), "{said}");
    assert_eq!(cluster.run(&["log", "read", "l"]), good);
}

#[test]
fn lines_are_appended_after_the_reader_of_the_positions_is_gone() {
    let cluster = RunningCluster::start();
    cluster.run(&["log", "create", "l"]);
    let mut append = cluster
        .command(&["log", "append", "l", "--positions"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = append.stdin.take().unwrap();
    input.write_all(b"first\n").unwrap();
    let mut positions = BufReader::new(append.stdout.take().unwrap()).lines();
    assert_eq!(positions.next().unwrap().unwrap(), "0");
    drop(positions);
    let rest: String = (0..2000).map(|n| format!("line {n}\n")).collect();
    input.write_all(rest.as_bytes()).unwrap();
    drop(input);
    let output = finish(append, "an append whose positions nobody reads");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("2001 records appended, the last at position 2000"), "{said}");
    assert_eq!(cluster.run(&["log", "read", "l"]), format!("first\n{rest}"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_with_control_characters_forges_no_line_and_moves_no_cursor() {
    let cluster = RunningCluster::start();
    let name = "data/\u{1b}[2Jobject\nforged";
    let traced = cluster.command(&["--trace", "object", "create", name]).output().unwrap();
    let client = Cluster::connect(cluster.folder()).await.unwrap();
    let event = Event::new(Severity::Info, "\u{1b}[2Jevent\nforged").field("why", "\r\nforged");
    client.events().append(event).await.unwrap();
    for (shown, what) in [
        (cluster.run(&["object", "ls", "data"]), "object"),
        (String::from_utf8(traced.stderr).unwrap(), "object"),
        (cluster.run(&["events"]), "event"),
    ] {
        assert!(shown.contains(&format!("\\u{{1b}}[2J{what}")), "{shown}");
        assert!(!shown.contains(|c: char| c.is_control() && c != '\n'), "{shown:?}");
        assert!(!shown.lines().any(|line| line.starts_with("forged")), "{shown}");
    }
    let listed = cluster.json(&["object", "ls", "data"]);
    assert_eq!(listed["name"], name["data/".len()..], "programs get it as it is");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_listing_has_as_many_entries_as_the_limit_allows() {
    let cluster = RunningCluster::start();
    let client = Cluster::connect(cluster.folder()).await.unwrap();
    let object = client.object(&"data/o".parse().unwrap()).await.unwrap();
    let entry = |n| MapEntry { key: format!("{n:05}").into(), value: "v".into() };
    let entries = (0..5000).map(entry).collect();
    object.transaction().op(Op::MapSet { entries }).commit().await.unwrap();
    let listed = |limit: &str| {
        let all = cluster.run(&["object", "map", "ls", "data/o", "--limit", limit, "--json"]);
        let last: serde_json::Value = serde_json::from_str(all.lines().last().unwrap()).unwrap();
        (all.lines().count(), last["key"].as_str().unwrap().to_owned())
    };
    assert_eq!(listed("100000"), (5000, "04999".to_owned()));
    assert_eq!(listed("4500"), (4500, "04499".to_owned()));

    let event = |n: u32| Event::new(Severity::Info, format!("event {n}"));
    let appended = (0..600).map(|n| client.events().append(event(n)));
    futures::future::try_join_all(appended).await.unwrap();
    let all = cluster.run(&["events", "--limit", "5000"]);
    let is_told =
        |n: &u32| all.lines().filter(|line| line.ends_with(&format!("  event {n}"))).count() == 1;
    assert!((0..600).all(|n| is_told(&n)), "{all}");
    assert_eq!(cluster.run(&["events", "--limit", "550"]).lines().count(), 550);
    assert_eq!(cluster.run(&["events", "--limit", "0"]), "");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_follower_from_now_on_sees_no_earlier_event() {
    let cluster = RunningCluster::start();
    let client = Cluster::connect(cluster.folder()).await.unwrap();
    let append = |text: &'static str| client.events().append(Event::new(Severity::Info, text));
    append("before").await.unwrap();
    let follow = ["events", "--limit", "0", "--follow"];
    let mut follow = Follower::start(cluster.command(&follow));
    let first = tokio::task::spawn_blocking(move || follow.next_line());
    // The test cannot know when the follower begins to watch, so it appends until one event
    // arrives.
    eventually("the follower tells an event", async || {
        append("since").await.unwrap();
        first.is_finished()
    })
    .await;
    let told = first.await.unwrap();
    assert!(told.ends_with("  since"), "{told}");
}

#[test]
fn maps_commit_by_epoch_and_keep_their_history() {
    let cluster = RunningCluster::start();
    assert_eq!(cluster.run(&["map", "set", "m", "a=1", "b=2"]), "epoch 1\n");
    assert_eq!(cluster.run(&["map", "set", "m", "a=3", "--epoch", "1"]), "epoch 2\n");
    let (status, said) = cluster.fails(&["map", "set", "m", "a=4", "--epoch", "1"]);
    assert_eq!(status, 1);
    assert!(said.contains("conflict"), "{said}");
    assert_eq!(cluster.run(&["map", "get", "m", "a"]), "3\n");
    cluster.run(&["map", "rm", "m", "b"]);
    let map = cluster.json(&["map", "get", "m"]);
    assert_eq!((map["epoch"].as_u64(), &map["entries"]), (Some(3), &serde_json::json!({"a": "3"})));
    assert_eq!(cluster.run(&["map", "history", "m"]).lines().count(), 3);
}

#[test]
fn a_value_of_any_length_is_listed() {
    let cluster = RunningCluster::start();
    let long = "x".repeat(100_000);
    cluster.run(&["object", "map", "set", "data/o", "long", &long]);
    cluster.run(&["object", "map", "set", "data/o", "short", "1"]);
    let list = ["object", "map", "ls", "data/o"];
    let shown = cluster.run(&list);
    assert!(shown.contains("x…") && shown.len() < 10_000, "{} bytes", shown.len());
    assert!(cluster.run(&[&list[..], &["--json"]].concat()).contains(&long));
}

#[test]
fn a_map_of_nacre_itself_changes_only_with_the_option_system() {
    let cluster = RunningCluster::start();
    cluster.run(&["log", "create", "l"]);
    cluster.run(&["map", "set", "mine", "a=1"]);
    assert_eq!(cluster.run(&["map", "ls"]), "mine\n");
    let all = cluster.run(&["map", "ls", "--all"]);
    for map in ["log.l", "mine", "nodes", "pools", "program-status", "programs"] {
        assert!(all.lines().any(|line| line == map), "{map}: {all}");
    }
    for map in all.lines().filter(|map| *map != "mine") {
        for change in [&["map", "set", map, "x=y"][..], &["map", "rm", map, "x"]] {
            let (status, said) = cluster.fails(change);
            assert!(status == 2 && said.contains("one of nacre's own"), "{change:?}: {said}");
        }
        cluster.run(&["map", "get", map]);
    }
    assert!(cluster.fails(&["map", "set", "log.l", "x=y"]).1.contains("`nacre log`"));
    let pools = "nacre.system/map/pools";
    for change in [&["object", "rm", pools][..], &["object", "map", "set", pools, "x=y"]] {
        let (status, said) = cluster.fails(change);
        assert!(status == 2 && said.contains("one of nacre's own"), "{change:?}: {said}");
    }
    cluster.run(&["map", "set", "pools", "more={}", "--system"]);
    cluster.run(&["map", "rm", "pools", "more", "--system"]);
    assert_eq!(cluster.run(&["pool", "ls"]), "data\nlog\n");
}

#[test]
fn a_map_program_can_refuse_and_correct_changes_and_trigger_others() {
    let cluster = RunningCluster::start();
    let file = cluster.folder().join("limits.lua");
    let source = "function commit(proposal, map)
        for _, change in proposal.changes do
            local value = tonumber(change.value)
            if not value then map.invalid(change.key .. ' must be a number') end
            change.value = tostring(math.min(value, 100))
        end
        map.trigger('audit', {{key = tostring(proposal.epoch), value = proposal.source}})
    end";
    fs::write(&file, source).unwrap();
    cluster.run(&["program", "put", "map/limits", file.to_str().unwrap(), "--activate"]);
    cluster.run(&["map", "set", "limits", "jobs=1000"]);
    assert_eq!(cluster.run(&["map", "get", "limits", "jobs"]), "100\n");
    let (status, said) = cluster.fails(&["map", "set", "limits", "jobs=many"]);
    assert_eq!(status, 2);
    assert!(said.contains("jobs must be a number"), "{said}");
    assert_eq!(cluster.run(&["map", "get", "audit", "1"]), "local\n");
}
