//! `nacre route cache`: caches of reads on a cluster of real processes, which are killed.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use common::metrics_page::{address_of, ask};
use common::routes::{cluster, places, put, status};
use common::{RunningCluster, kill};
use nacre::{Cluster, ErrorKind, Object};
use nacre_conformance::wait::eventually_blocking;
use serde_json::Value;

const MIB: u64 = 1 << 20;

/// What the node of a target says of its caches.
fn report(cluster: &RunningCluster, target: &str) -> Value {
    let all = cluster.json(&["route", "cache", "status"]);
    let one = all.as_array().unwrap().iter().find(|one| one["target"] == target).cloned();
    one.unwrap_or_else(|| panic!("no {target} in {all}"))
}

/// A number about one of the tenants or caches of a report.
fn number(report: &Value, list: &str, name: (&str, &str), field: &str) -> u64 {
    let all = report[list].as_array().unwrap();
    let one = all.iter().find(|one| one[name.0] == name.1);
    one.map_or(0, |one| one[field].as_u64().unwrap())
}

fn reads(report: &Value, tenant: &str) -> (u64, u64) {
    let of = |field| number(report, "tenants", ("tenant", tenant), field);
    (of("hits"), of("misses"))
}

/// The capacity of a tenant's cache, and the bytes in it.
fn sizes(report: &Value, cache: &str) -> (u64, u64) {
    let of = |field| number(report, "caches", ("cache", cache), field);
    (of("capacity_bytes"), of("used_bytes"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cache_answers_reads_and_shows_every_write_at_once() {
    let (_folder, cluster) = cluster();
    let (names, home, _) = places(&cluster, 1).await;
    let object = format!("data/{}", names[0]);
    assert!(cluster.run(&["route", "cache", "status"]).contains("no node caches reads"));
    assert_eq!(cluster.run(&["route", "cache", "off"]).trim(), "epoch 0, in force");
    let (_, said) = cluster.fails(&["route", "cache", "divide"]);
    assert!(said.contains("route cache on"), "{said}");
    let (_, said) = cluster.fails(&["route", "cache", "on", "--size", "1MiB"]);
    assert!(said.contains("4 MiB"), "{said}");
    let on = cluster.json(&["route", "cache", "on", "--pool", "data", "--size", "8MiB"]);
    assert_eq!(on["in_force"], true, "{on}");

    cluster.run_with_input(&["object", "put", &object], "first");
    for _ in 0..3 {
        assert_eq!(cluster.run(&["object", "get", &object]), "first");
    }
    let tenant = report(&cluster, &home)["tenants"][0]["tenant"].as_str().unwrap().to_owned();
    let (hits, misses) = reads(&report(&cluster, &home), &tenant);
    assert!(hits >= 2 && misses >= 1, "{hits} hits, {misses} misses");
    cluster.run_with_input(&["object", "write", &object, "--offset", "0", "-"], "F");
    assert_eq!(cluster.run(&["object", "get", &object]), "First");
    cluster.run_with_input(&["object", "put", &object], "2");
    assert_eq!(cluster.run(&["object", "get", &object]), "2");
    cluster.run(&["object", "rm", &object]);
    let (_, said) = cluster.fails(&["object", "get", &object]);
    assert!(said.contains("not found") || said.contains("no such"), "{said}");

    let page = ask(&address_of(&cluster, &home), b"GET /metrics HTTP/1.1\r\n\r\n");
    let series = format!("nacre_cache_hits_total{{target=\"{home}\",tenant=\"{tenant}\"}} ");
    assert!(page.contains(&series), "{page}");
    let text = cluster.run(&["route", "cache", "status"]);
    assert!(text.contains("hit ratio") && text.contains(&tenant), "{text}");
    let curve = cluster.json(&["route", "cache", "curve", &tenant]);
    assert_eq!(curve[0]["points"].as_array().unwrap().len(), 128, "{curve}");
    assert!(cluster.run(&["route", "cache", "curve"]).contains("miss ratio"));
    cluster.fails(&["route", "cache", "curve", "nobody"]);
    cluster.run(&["route", "cache", "off"]);
    assert_eq!(report(&cluster, &home)["settings"], Value::Null);
}

#[tokio::test(flavor = "multi_thread")]
async fn reads_that_a_rule_sends_past_the_cache_neither_use_nor_fill_it() {
    let (folder, cluster) = cluster();
    let (names, home, _) = places(&cluster, 2).await;
    let [scanned, cached] = [&names[0], &names[1]].map(|name| format!("data/{name}"));
    cluster.run(&["route", "cache", "on", "--pool", "data", "--size", "8MiB"]);
    let rule = format!("application scans on every\n  * r {scanned} -> bypass cache\n");
    put(&cluster, folder.path(), &rule);
    let counted = || {
        let report = report(&cluster, &home);
        let tenants = report["tenants"].as_array().unwrap();
        let sum = |field| tenants.iter().map(|one| one[field].as_u64().unwrap()).sum::<u64>();
        (sum("hits"), sum("misses"))
    };
    let get = |object: &str| cluster.run(&["object", "get", object]);
    let read =
        |object: &str| cluster.run(&["object", "get", object, "--offset", "1", "--length", "3"]);
    cluster.run_with_input(&["object", "put", &scanned], "first");
    cluster.run_with_input(&["object", "put", &cached], "other");
    for text in ["First", "Fresh"] {
        cluster.run_with_input(&["object", "write", &scanned, "--offset", "0", "-"], text);
        assert_eq!((get(&scanned), read(&scanned)), (text.to_owned(), text[1..4].to_owned()));
    }
    assert_eq!(counted(), (0, 0));
    assert_eq!((get(&cached), get(&cached)), ("other".to_owned(), "other".to_owned()));
    assert_eq!(counted(), (1, 1));

    let way = cluster.run(&["route", "trace", "r", &scanned, "0..5"]);
    assert!(way.contains("past the cache"), "{way}");
    let used = &status(&cluster, &home).unwrap()["rules"][0];
    assert_eq!(used["count"], 4, "{used}");
    cluster.run(&["route", "rm", "scans"]);
    assert_eq!((get(&scanned), get(&scanned)), ("Fresh".to_owned(), "Fresh".to_owned()));
    assert_eq!(counted(), (2, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn shares_of_tenants_change_while_the_cluster_runs_and_caches_keep_their_blocks() {
    let (_folder, cluster) = cluster();
    let client = Cluster::connect(cluster.folder()).await.unwrap();
    for tenant in ["gold", "silver"] {
        cluster.run(&["pool", "create", tenant]);
        cluster.run(&["slo", "pool", tenant, tenant]);
    }
    let cache = |arguments: &[&str]| {
        let on = ["route", "cache", "on", "--pool", "gold", "--pool", "silver", "--size", "16MiB"];
        cluster.run(&[&on, arguments].concat());
    };
    cache(&["--share", "gold=4MiB"]);
    let gold = client.object(&"gold/a".parse().unwrap()).await.unwrap();
    let target = client.locate(&"gold/a".parse().unwrap()).to_string();
    gold.write(0, vec![7; 2 * MIB as usize]).await.unwrap();
    let read_all = async || {
        for block in 0..2 * MIB / 4096 {
            assert_eq!(gold.read(block * 4096, 4096).await.unwrap(), vec![7; 4096]);
        }
    };
    read_all().await;
    let before = report(&cluster, &target);
    assert_eq!(sizes(&before, "gold").0, 4 * MIB, "{before}");
    assert!(sizes(&before, "gold").1 > 2 * MIB, "{before}");

    cache(&["--share", "gold=8MiB", "--share", "silver=4MiB"]);
    let resized = report(&cluster, &target);
    assert_eq!((sizes(&resized, "gold").0, sizes(&resized, "silver").0), (8 * MIB, 4 * MIB));
    assert_eq!(sizes(&resized, "(others)").0, 4 * MIB);
    read_all().await;
    let after = report(&cluster, &target);
    assert_eq!(reads(&after, "gold").1, reads(&before, "gold").1, "a resized cache forgot blocks");
    assert_eq!(reads(&after, "gold").0, reads(&before, "gold").0 + 2 * MIB / 4096);

    cache(&["--share", "gold=1MiB"]);
    assert!(sizes(&report(&cluster, &target), "gold").1 <= MIB);
    read_all().await;
    eventually_blocking("the node has counted a second with these reads", || {
        let report = report(&cluster, &target);
        let tenants = report["tenants"].as_array().unwrap();
        let gold = tenants.iter().find(|one| one["tenant"] == "gold").unwrap();
        gold["reads_per_second"].as_f64().unwrap() > 0.0
    });
    let divided = cluster.json(&["route", "cache", "divide"]);
    assert_eq!(divided["in_force"], true, "{divided}");
    let share = divided["shares"]["gold"].as_u64().unwrap();
    assert!(share >= 2 * MIB, "gold reads two MiB again and again: {divided}");
    assert_eq!(sizes(&report(&cluster, &target), "gold").0, share);
    cache(&["--shared"]);
    assert_eq!(sizes(&report(&cluster, &target), "(others)").0, 16 * MIB);
}

/// The values that each block of an object may hold: the last acknowledged write, and the failed
/// writes after it.
struct Checked {
    object: Object,
    blocks: Vec<Vec<u64>>,
}

const BLOCK: u64 = 4096;

impl Checked {
    async fn write(&mut self, block: u64, value: u64) {
        let data = value.to_le_bytes().repeat(BLOCK as usize / 8);
        self.blocks[block as usize].push(value);
        match self.object.write(block * BLOCK, data).await {
            Ok(()) => self.blocks[block as usize] = vec![value],
            Err(error) => assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}"),
        }
    }

    /// Reads all blocks. Returns whether the node answered.
    async fn read(&mut self) -> bool {
        let read = match self.object.read(0, self.blocks.len() as u64 * BLOCK).await {
            Ok(read) => read,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
                return false;
            }
        };
        for (found, possible) in read.chunks(BLOCK as usize).zip(&mut self.blocks) {
            let value = u64::from_le_bytes(found[..8].try_into().unwrap());
            assert!(found.chunks(8).all(|part| part == &found[..8]), "a torn block");
            assert!(possible.contains(&value), "{value} is not one of {possible:?}");
            *possible = vec![value];
        }
        true
    }

    /// Writes now and then, and reads in between, until `is_over` is set. Counts answered reads.
    async fn work(mut self, is_over: Arc<AtomicBool>, reads: Arc<AtomicU64>) {
        for block in 0..self.blocks.len() as u64 {
            self.write(block, block).await;
        }
        for value in 100.. {
            if is_over.load(Ordering::Relaxed) {
                break;
            }
            self.write(value % self.blocks.len() as u64, value).await;
            for _ in 0..4 {
                if self.read().await {
                    reads.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
        while !self.read().await {}
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn reads_through_a_cache_find_every_acknowledged_write_while_nodes_are_killed() {
    let (_folder, cluster) = cluster();
    let (names, home, _) = places(&cluster, 4).await;
    let client = Cluster::connect(cluster.folder()).await.unwrap();
    let (is_over, reads) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let mut workers = vec![];
    for name in &names {
        let object = client.object(&format!("data/{name}").parse().unwrap()).await.unwrap();
        let checked = Checked { object, blocks: vec![vec![]; 5] };
        workers.push(tokio::spawn(checked.work(Arc::clone(&is_over), Arc::clone(&reads))));
    }
    let steps = tokio::task::spawn_blocking(move || {
        let more_reads = |what: &str| {
            let from = reads.load(Ordering::Relaxed);
            eventually_blocking(what, || reads.load(Ordering::Relaxed) >= from + 100);
        };
        let hits = || {
            let report = report(&cluster, &home);
            let all = report["tenants"].as_array().unwrap();
            all.iter().map(|tenant| tenant["hits"].as_u64().unwrap()).sum::<u64>()
        };
        more_reads("the workers work without a cache");
        cluster.run(&["route", "cache", "on", "--size", "4MiB"]);
        more_reads("the workers work with a cache");
        assert!(hits() > 0, "the cache answers reads");
        kill(cluster.pid_of(&home).unwrap());
        more_reads("the workers go on after the node was killed");
        cluster.run(&["route", "cache", "on", "--size", "8MiB", "--shared"]);
        more_reads("the workers go on after the cache was resized");
        assert!(hits() > 0, "the cache answers reads after the restart");
        kill(cluster.pid_of(&home).unwrap());
        more_reads("the workers go on after the node was killed again");
        cluster.run(&["route", "cache", "off"]);
        more_reads("the workers go on without a cache");
        cluster.run(&["route", "cache", "on", "--size", "4MiB"]);
        more_reads("the workers go on with the cache again");
        is_over.store(true, Ordering::Relaxed);
        cluster
    });
    let cluster = steps.await.unwrap();
    for worker in workers {
        worker.await.unwrap();
    }
    drop(cluster);
}
