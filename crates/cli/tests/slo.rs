//! Tests `nacre slo`: curves, bounds and placements without a cluster; profiles and promises with
//! one.

mod common;

use std::fmt::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use common::metrics_page::{address_of, ask};
use common::slo_profiles::{load_fast_profile, load_profile};
use common::{NACRE, RunningCluster};
use nacre_clock::{Clock, SystemClock};
use serde_json::{Value, json};

const SAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../qos/samples");

/// Runs `nacre slo` in a folder. Returns its status, its standard output and its standard error.
fn slo(folder: &Path, arguments: &[&str]) -> (i32, String, String) {
    let mut command = Command::new(NACRE);
    command.arg("slo").args(arguments).current_dir(folder);
    let output = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

fn json(folder: &Path, arguments: &[&str]) -> Value {
    let (status, printed, said) = slo(folder, &[arguments, &["--json"]].concat());
    assert_eq!(status, 0, "{said}");
    serde_json::from_str(&printed).unwrap()
}

fn sample(name: &str) -> String {
    format!("{SAMPLES}/{name}")
}

/// Writes a trace: 600 writes of 4 KiB a second for 4 s, to three objects in turn.
fn trace(folder: &Path) {
    let mut text = "nacre trace 1\n".to_owned();
    for request in 0..2400_u64 {
        let micros = request * 1_000_000 / 600;
        let (seconds, rest) = (micros / 1_000_000, micros % 1_000_000);
        writeln!(text, "{seconds}.{rest:06} write 4096 object-{}", request % 3).unwrap();
    }
    std::fs::write(folder.join("trace"), text).unwrap();
}

#[test]
fn a_trace_is_made_into_a_curve_for_each_target() {
    let folder = tempfile::tempdir().unwrap();
    trace(folder.path());
    let profile = sample("profile.json");
    let curves = json(folder.path(), &["curve", "trace", "--profile", &profile]);
    assert_eq!(curves["requests"], 2400);
    let [target] = &curves["targets"].as_array().unwrap()[..] else { panic!("{curves}") };
    assert!((target["least_rate"].as_f64().unwrap() - 0.6).abs() < 1e-3, "{target}");
    let spread = ["curve", "trace", "--profile", &profile, "--targets", "5"];
    let targets = json(folder.path(), &spread)["targets"].as_array().unwrap().clone();
    let requests: u64 = targets.iter().map(|target| target["requests"].as_u64().unwrap()).sum();
    assert!(targets.len() > 1 && requests == 2400, "{targets:?}");
    let (status, printed, _) = slo(folder.path(), &["curve", "trace", "--profile", &profile]);
    assert!(status == 0 && printed.contains("busy for 60.0% of the time"), "{printed}");
}

#[test]
fn a_trace_that_cannot_be_used_is_refused_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write("wrong", "v,R,0,1,7\nv,R,0,one,8\n");
    write("seconds", "1,0,8,0,1\n2,0,8,1,1\n");
    write("placeless", "1,0x1000,DiskRead\n9,0x1000,DiskRead\n");
    let profile = sample("profile.json");
    let fails = |expected: i32, arguments: &[&str]| {
        let (status, _, said) = slo(folder.path(), &[arguments, &["--profile", &profile]].concat());
        assert_eq!(status, expected, "{said}");
        said
    };
    assert!(fails(2, &["curve", "wrong"]).contains("line 2"));
    assert!(fails(1, &["curve", "seconds", "--format", "tencent"]).contains("whole seconds"));
    assert!(fails(2, &["curve", "placeless", "--targets", "2"]).contains("names no objects"));
    assert!(fails(1, &["curve", "nosuch"]).contains("cannot read nosuch"));
    let (status, _, _) =
        slo(folder.path(), &["curve", "wrong", "--profile", &profile, "--format", "x"]);
    assert_eq!(status, 2, "it was asked wrongly");
}

#[test]
fn slo_bound_shows_the_bound_of_tenants_with_given_token_buckets() {
    let folder = tempfile::tempdir().unwrap();
    let bounds = json(folder.path(), &["bound", &sample("bound.json")]);
    let latencies: Vec<_> =
        bounds.as_array().unwrap().iter().map(|bound| bound["latency_seconds"].as_f64()).collect();
    assert_eq!(latencies, [Some(1.5), Some(1.5), Some(6.4), Some(6.4)]);
    let (_, printed, _) = slo(folder.path(), &["bound", &sample("bound.json")]);
    assert!(printed.contains("6400.000 ms"), "{printed}");
    let likely = json(folder.path(), &["bound", &sample("bound.json"), "--violation", "0.1"]);
    for (likely, certain) in likely.as_array().unwrap().iter().zip(bounds.as_array().unwrap()) {
        assert_eq!((&likely["violation"], &certain["violation"]), (&0.1.into(), &Value::Null));
        assert!(likely["latency_seconds"].as_f64() <= certain["latency_seconds"].as_f64());
    }
}

#[test]
fn slo_place_places_tenants_and_gives_a_reason_for_a_tenant_that_does_not_fit() {
    let folder = tempfile::tempdir().unwrap();
    let places = json(folder.path(), &["place", &sample("place.json")]);
    assert_eq!((places["placed"].as_u64(), places["refused"].as_u64()), (Some(3), Some(1)));
    let target = |at: usize| places["tenants"][at]["target"].as_str();
    assert_eq!([0, 1, 2, 3].map(target), [Some("disk-0"), Some("disk-1"), Some("disk-0"), None]);
    let refusal = places["tenants"][3]["refusal"].as_str().unwrap();
    assert!(refusal.contains("what would fit"), "{refusal}");
    let plain = json(folder.path(), &["place", &sample("place.json"), "--plain"]);
    assert_eq!(plain["tenants"], places["tenants"]);
    let likely = json(folder.path(), &["place", &sample("place.json"), "--violation", "0.1"]);
    assert!(likely["placed"].as_u64().unwrap() >= 3, "{likely}");
    assert_eq!(likely["tenants"][0]["violation"], 0.1);
}

#[test]
fn a_tenant_with_a_trace_is_placed_by_its_curve() {
    let folder = tempfile::tempdir().unwrap();
    trace(folder.path());
    let question = r#"{"targets": [{"name": "disk"}],
        "tenants": [{"tenant": "a", "slo_seconds": 0.1, "trace": "trace"}]}"#;
    std::fs::write(folder.path().join("q"), question).unwrap();
    let (status, _, said) = slo(folder.path(), &["place", "q"]);
    assert!(status == 2 && said.contains("--profile"), "{said}");
    let profile = sample("profile.json");
    let places = json(folder.path(), &["place", "q", "--profile", &profile]);
    assert!(places["tenants"][0]["bucket"]["rate"].as_f64().unwrap() >= 0.6, "{places}");
}

#[test]
fn a_cluster_promises_what_its_profile_allows_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let cluster = RunningCluster::start_with(folder.path(), &["--targets", "2", "--metadata", "1"]);
    let admit = |verb, tenant, rate| {
        ["slo", verb, tenant, "--latency", "20s", "--rate", rate, "--size", "4096"]
    };
    let (status, said) = cluster.fails(&admit("admit", "gold", "0.01"));
    assert!(status == 1 && said.contains("nacre slo profile"), "{said}");
    let profiles = cluster.json(&["slo", "profile", "--seconds", "9"]);
    let targets: Vec<_> = profiles.as_array().unwrap().iter().map(|one| &one["target"]).collect();
    assert_eq!(targets, ["storage.0", "storage.1"]);
    assert!(cluster.run(&["pool", "ls"]).lines().all(|pool| !pool.contains("profile")));

    assert_eq!(cluster.json(&["slo", "profile", "--stored"]), profiles);
    load_fast_profile(&cluster, &["storage.0", "storage.1"]);
    wrong_profiles_are_refused(&cluster, &profiles);

    let admitted = cluster.json(&admit("admit", "gold", "0.01"));
    assert_eq!(admitted["promise"]["slo_seconds"], 20.0);
    let (status, said) = cluster.fails(&admit("whatif", "greedy", "1000000000"));
    assert!(status == 1 && said.contains("greedy is refused"), "{said}");
    let (status, said) = cluster.fails(&admit("admit", "gold", "0.01"));
    assert!(status == 1 && said.contains("evict it first"), "{said}");
    assert!(cluster.run(&["slo", "ls"]).contains("0.01 writes of 4096 bytes a second"));
    stochastic_promises_are_told_apart(&cluster);
    bounds_of_other_profiles_are_shown(&cluster);

    cluster.run(&["slo", "pool", "data", "gold"]);
    cluster.run(&["slo", "enforce", "on"]);
    cluster.run_with_input(&["object", "put", "data/a", "-"], "kept");
    assert_eq!(cluster.run(&["object", "get", "data/a"]), "kept");
    let status = cluster.json(&["slo", "status"]);
    let gold = &status["tenants"]["gold"];
    assert!(gold["requests"].as_u64().unwrap() >= 2, "{status}");
    assert_eq!((&status["enforced"], &gold["slo_seconds"]), (&true.into(), &20.0.into()));
    let pages = ["storage.0", "storage.1"]
        .map(|node| ask(&address_of(&cluster, node), b"GET /metrics HTTP/1.1\r\n\r\n"));
    let is_counted = |line: &str| {
        line.starts_with("nacre_slo_requests_total") && line.contains("tenant=\"gold\"")
    };
    assert!(pages.concat().lines().any(is_counted), "{}", pages.concat());

    cluster.run(&["slo", "evict", "gold"]);
    assert_eq!(cluster.json(&["slo", "status"])["tenants"]["gold"]["slo_seconds"], Value::Null);
}

fn wrong_profiles_are_refused(cluster: &RunningCluster, profiles: &Value) {
    let mut twice = profiles.clone();
    twice[1]["target"] = "storage.0".into();
    let mut unknown = profiles.clone();
    unknown[1]["target"] = "storage.7".into();
    for (wrong, because) in [
        (json!([]), "the file has no profiles"),
        (twice, "two profiles of storage.0"),
        (unknown, "there is no target storage.7"),
    ] {
        let file = cluster.folder().join("wrong.json");
        std::fs::write(&file, wrong.to_string()).unwrap();
        let (_, said) = cluster.fails(&["slo", "profile", "--load", file.to_str().unwrap()]);
        assert!(said.contains(because), "{said}");
    }
}

/// Beside gold, which has a deterministic promise.
fn stochastic_promises_are_told_apart(cluster: &RunningCluster) {
    let web = |verb| {
        [
            "slo",
            verb,
            "web",
            "--latency",
            "20s",
            "--violation",
            "0.01",
            "--rate",
            "1",
            "--size",
            "4k",
        ]
    };
    assert!(cluster.run(&web("whatif")).contains("stochastic, violation 0.01"));
    let promise = &cluster.json(&web("admit"))["promise"];
    assert_eq!((&promise["violation"], &promise["priority"]), (&0.01.into(), &1.into()));
    let listed = cluster.run(&["slo", "ls"]);
    assert!(listed.contains("deterministic") && listed.contains("violation 0.01"), "{listed}");
    let tenants = &cluster.json(&["slo", "status"])["tenants"];
    assert_eq!(
        (&tenants["web"]["violation"], &tenants["gold"]["violation"]),
        (&0.01.into(), &Value::Null)
    );
    let greedy = ["slo", "whatif", "greedy", "--latency", "20s", "--violation", "0.01"];
    let (_, said) =
        cluster.fails(&[&greedy[..], &["--rate", "1000000000", "--size", "4k"]].concat());
    assert!(said.contains("by the stochastic bound for a violation of 0.01"), "{said}");
    let (status, _) =
        cluster.fails(&[&greedy[..6], &["1.5", "--rate", "1", "--size", "4k"]].concat());
    assert_eq!(status, 2, "a violation is below 1");
    cluster.run(&["slo", "evict", "web"]);
}

/// With the promise of gold, which was made with a profile of 16 requests.
fn bounds_of_other_profiles_are_shown(cluster: &RunningCluster) {
    let listed = cluster.run(&["slo", "ls"]);
    assert!(listed.contains("the same") && !listed.contains("drifted"), "{listed}");
    let targets = ["storage.0", "storage.1"];
    load_profile(cluster, &targets, 4096);
    let gold = cluster.json(&["slo", "ls"]);
    assert_eq!(gold["has_drifted"], true);
    let bound = gold["promise"]["bound_seconds"].as_f64();
    assert!(gold["present_bound_seconds"].as_f64() > bound, "{gold}");
    assert!(cluster.run(&["slo", "ls"]).contains("drifted"));
    load_fast_profile(cluster, &targets);
}

/// How many decisions of programs `nacre slo status` counts.
fn decided(cluster: &RunningCluster) -> u64 {
    let status = cluster.json(&["slo", "status"]);
    let targets = status["targets"].as_array().unwrap();
    targets.iter().map(|target| target["decided_by_program"].as_u64().unwrap()).sum()
}

/// Lets several clients write concurrently until `is_enough` returns true, but for at most a
/// minute. Each round writes objects of its own.
fn write_until(cluster: &RunningCluster, round: &str, mut is_enough: impl FnMut() -> bool) {
    let clock = SystemClock::default();
    let deadline = clock.monotonic() + Duration::from_secs(60);
    for number in 0.. {
        let bench = |pool: &str| {
            let name = format!("{pool}/{round}-{number}");
            let mut command = cluster.command(&["object", "put", &name, "-"]);
            command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap()
        };
        let mut putting: Vec<_> = ["data", "other"].repeat(4).into_iter().map(bench).collect();
        for put in &mut putting {
            use std::io::Write as _;
            put.stdin.take().unwrap().write_all(&[7; 100_000]).unwrap();
        }
        for mut put in putting {
            assert!(put.wait().unwrap().success(), "no request is lost");
        }
        if is_enough() {
            return;
        }
        assert!(clock.monotonic() < deadline, "nothing came of it within a minute");
    }
}

#[test]
fn a_program_orders_requests_until_another_program_or_none_is_chosen() {
    let folder = tempfile::tempdir().unwrap();
    let cluster = RunningCluster::start_with(folder.path(), &["--targets", "1", "--metadata", "1"]);
    // One request at a time: so several wait.
    load_profile(&cluster, &["storage.0"], 1);
    cluster.run(&["pool", "create", "other"]);
    cluster.run(&["slo", "pool", "data", "gold"]);
    cluster.run(&["slo", "pool", "other", "bulk"]);
    cluster.run(&["slo", "enforce", "on"]);
    let (status, said) = cluster.fails(&["slo", "order", "weighted_fair"]);
    assert!(status == 1 && said.contains("nacre program put slo/weighted_fair"), "{said}");
    let shipped = concat!(env!("CARGO_MANIFEST_DIR"), "/../../programs/slo");
    let put = |program: &str, file: &str| {
        cluster.run(&["program", "put", program, file, "--activate"]);
    };
    for name in ["thesis", "earliest_deadline", "weighted_fair"] {
        put(&format!("slo/{name}"), &format!("{shipped}/{name}.lua"));
        let before = decided(&cluster);
        cluster.run(&["slo", "order", name]);
        write_until(&cluster, name, || decided(&cluster) > before);
        assert_eq!(cluster.json(&["slo", "status"])["order"], *name);
    }
    let fails = folder.path().join("fails.lua");
    let source = "function choose(waiting)\n  if waiting[1].tenant ~= 'made-up' then\n    \
                  error('no idea')\n  end\n  return 1\nend\n";
    std::fs::write(&fails, source).unwrap();
    put("slo/weighted_fair", fails.to_str().unwrap());
    write_until(&cluster, "fails", || cluster.run(&["events"]).contains("no idea"));
    let events = cluster.run(&["events"]);
    assert!(events.contains("slo/weighted_fair@2 line 3"), "{events}");
    cluster.run(&["slo", "order", "native"]);
    assert_eq!(cluster.json(&["slo", "status"])["order"], Value::Null);
    for round in ["thesis", "earliest_deadline", "weighted_fair", "fails"] {
        let object = format!("data/{round}-0");
        assert_eq!(cluster.run(&["object", "get", &object]).len(), 100_000);
    }
}

#[test]
fn a_scrub_counts_as_background_work_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let cluster = RunningCluster::start_with(folder.path(), &["--targets", "1", "--metadata", "1"]);
    load_fast_profile(&cluster, &["storage.0"]);
    cluster.run(&["slo", "enforce", "on"]);
    cluster.run(&["slo", "weight", "nacre.background", "0.5"]);
    cluster.run_with_input(&["object", "put", "data/a", "-"], "kept");
    cluster.run(&["scrub"]);
    let status = cluster.json(&["slo", "status"]);
    let steps = &status["tenants"]["nacre.background"]["requests"];
    assert!(steps.as_u64().unwrap() >= 2, "{status}");
    let (failed, said) = cluster.fails(&["slo", "weight", "nacre.system", "0.5"]);
    assert!(failed == 2 && said.contains("nacre's own"), "{said}");
}

#[test]
fn advice_names_the_tenant_to_move_and_says_that_nacre_cannot_move_it() {
    let folder = tempfile::tempdir().unwrap();
    let cluster = RunningCluster::start_with(folder.path(), &["--targets", "2", "--metadata", "1"]);
    load_fast_profile(&cluster, &["storage.0", "storage.1"]);
    let said = cluster.run(&["slo", "advise", "--apply"]);
    assert!(said.contains("nothing is to be moved"), "{said}");
    // Each target does 244,140 writes a second. Gold takes 0.6 of one.
    let curve = json!({ "segments": [{ "start_seconds": 0, "work_seconds": 1e-3, "rate": 0.6 }] });
    let watched = json!({
        "tenant": "gold", "seconds": 1.0, "curves": { "storage.0": curve },
        "proposed_slo_seconds": null,
    });
    let file = folder.path().join("curves.json");
    std::fs::write(&file, watched.to_string()).unwrap();
    let curves = ["--curves", file.to_str().unwrap()];
    cluster.run(&[&["slo", "admit", "gold", "--latency", "20s"], &curves[..]].concat());
    let ask = ["slo", "advise", "--for", "bulk", "--latency", "20s", "--size", "4096"];
    let few = [&ask[..], &["--rate", "150000", "--few-objects"]].concat();
    let advice: Value = {
        let output = cluster.command(&[&few[..], &["--json"]].concat()).output().unwrap();
        serde_json::from_slice(&output.stdout).unwrap()
    };
    assert_eq!((&advice["left_out"][0], &advice["is_solved"]), (&"bulk".into(), &true.into()));
    assert!(advice["moves"][0]["to"].is_string() && advice["unsupported"].is_string(), "{advice}");
    let (status, said) = cluster.fails(&[&few[..], &["--apply"]].concat());
    assert!(status == 1 && said.contains("cannot move a tenant to a chosen target"), "{said}");
    let (status, said) = cluster.fails(&[&ask[..], &["--rate", "900000"]].concat());
    assert!(status == 1 && said.contains("no moves were found"), "{said}");
}

#[test]
fn a_watched_tenant_can_be_promised_its_observed_load() {
    let folder = tempfile::tempdir().unwrap();
    let cluster = RunningCluster::start_with(folder.path(), &["--targets", "1", "--metadata", "1"]);
    load_fast_profile(&cluster, &["storage.0"]);
    cluster.run(&["slo", "pool", "data", "gold"]);
    let (status, said) = cluster.fails(&["slo", "watch", "gold", "--seconds", "0.1"]);
    assert!(status == 1 && said.contains("has sent nothing"), "{said}");
    let mut watching = cluster
        .command(&["slo", "watch", "gold", "--seconds", "5", "--json"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut sent = 0;
    while watching.try_wait().unwrap().is_none() {
        cluster.run_with_input(&["object", "put", "data/a", "-"], "some bytes");
        sent += 1;
    }
    let printed = watching.wait_with_output().unwrap().stdout;
    let watched: Value = serde_json::from_slice(&printed).unwrap();
    assert!(sent > 1 && watched["curves"]["storage.0"]["segments"].is_array(), "{watched}");
    assert!(watched["proposed_slo_seconds"].as_f64().unwrap() > 0.0, "{watched}");
    let curves = folder.path().join("curves.json");
    std::fs::write(&curves, &printed).unwrap();
    let curves = curves.to_str().unwrap();
    let admitted = cluster.json(&["slo", "admit", "gold", "--latency", "20s", "--curves", curves]);
    let curve = &admitted["promise"]["flows"][0]["curve"];
    let rate_of_first = |curve: &Value| curve["segments"][0]["rate"].as_f64().unwrap();
    assert_eq!(rate_of_first(curve), rate_of_first(&watched["curves"]["storage.0"]));
}

#[test]
fn a_replayed_trace_reads_what_was_prepared_and_leaves_a_log_of_latencies() {
    let folder = tempfile::tempdir().unwrap();
    let cluster = RunningCluster::start_with(folder.path(), &["--targets", "1", "--metadata", "1"]);
    let (trace, log) = (folder.path().join("trace"), folder.path().join("log.hdr"));
    let mut text = "nacre trace 1\n".to_owned();
    for request in 0..100_u32 {
        let kind = if request % 2 == 0 { "read" } else { "write" };
        writeln!(text, "{}.{:02} {kind} 4096 object-{}", request / 50, request % 50, request % 5)
            .unwrap();
    }
    std::fs::write(&trace, text).unwrap();
    let (trace, log) = (trace.to_str().unwrap(), log.to_str().unwrap());
    let report = cluster.json(&["slo", "replay", trace, "--speed", "4", "--hdr-log", log]);
    let replayed = &report["traces"][0];
    assert_eq!((&replayed["requests"], &replayed["failed"]), (&100.into(), &0.into()), "{report}");
    assert!(replayed["seconds_p50"].as_f64() > Some(0.0), "{report}");
    let written = std::fs::read_to_string(log).unwrap();
    assert!(written.starts_with("#[") && written.contains("Tag="), "{written}");
    let read_only = folder.path().join("reads");
    std::fs::write(&read_only, "nacre trace 1\n0 read 10 absent\n0.1 read 10 absent\n").unwrap();
    let read_only = read_only.to_str().unwrap();
    let report = cluster.json(&["slo", "replay", read_only, "--no-prepare"]);
    assert_eq!(report["traces"][0]["failures"]["not found"], 2, "{report}");
}

#[test]
fn a_tenant_is_admitted_only_if_the_links_carry_its_requests() {
    let folder = tempfile::tempdir().unwrap();
    let cluster = RunningCluster::start_with(folder.path(), &["--targets", "1", "--metadata", "1"]);
    load_fast_profile(&cluster, &["storage.0"]);
    let ask = |tenant: &'static str| {
        let rate = ["--rate", "50", "--size", "1M", "--op", "read", "--latency", "2s"];
        [&["slo", "admit", tenant][..], &rate].concat()
    };
    let (status, said) = cluster.fails(&["slo", "link", "storage.9", "1Gbit"]);
    assert!(status == 1 && said.contains("storage.9"), "{said}");
    let (status, said) = cluster.fails(&["slo", "link", "storage.0", "fast"]);
    assert!(status == 2 && said.contains("1Gbit"), "{said}");
    cluster.run(&["slo", "link", "--all", "100Mbit"]);
    let links = &cluster.json(&["slo", "status"])["link_bytes_per_second"];
    assert_eq!(links["storage.0"], 12.5e6);
    let (status, said) = cluster.fails(&ask("gold"));
    assert!(status == 1 && said.contains("the link of storage.0, out"), "{said}");
    cluster.run(&["slo", "link", "--all", "10Gbit"]);
    let slow_client = [&ask("gold")[..], &["--link", "100Mbit"]].concat();
    let (status, said) = cluster.fails(&slow_client);
    assert!(status == 1 && said.contains("the client link of gold, in"), "{said}");
    cluster.run(&[&ask("gold")[..], &["--link", "10Gbit"]].concat());
    cluster.run(&["slo", "enforce", "on"]);
    // Requests go on while the link is limited, in parts and whole.
    let file = folder.path().join("large");
    std::fs::write(&file, vec![7; 3_000_000]).unwrap();
    cluster.run(&["object", "put", "data/large", file.to_str().unwrap()]);
    assert_eq!(cluster.run(&["object", "get", "data/large"]).len(), 3_000_000);
    let listed = cluster.json(&["slo", "ls"]);
    let said = listed.to_string();
    assert!(said.contains("the client link of gold, out"), "{said}");
    cluster.run(&["slo", "link", "--all", "off"]);
    assert_eq!(cluster.json(&["slo", "status"])["link_bytes_per_second"], json!({}));
}
