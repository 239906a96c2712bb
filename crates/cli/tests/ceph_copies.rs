//! Copies for reads and caches on Ceph: one gateway, the router, makes and uses them. Gateways and OSDs
//! are killed and paused, while clients read and write through both gateways.

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::numbered::Numbered;
use common::on_ceph::OnCeph;
use common::routes::put;
use common::{kill, shipped, suspend};
use nacre_conformance::wait::eventually_blocking;
use rustix::process::{Signal, kill_process};
use serde_json::Value;
use tokio::task::{block_in_place, spawn_blocking};

const OBJECT: &str = "data/r0";

/// What the router says of its copies.
fn copies(on: &OnCeph) -> Value {
    on.routing().map_or(Value::Null, |status| status["copies"].clone())
}

fn reads_at(copies: &Value, osd: &str) -> u64 {
    copies["reads"][osd].as_u64().unwrap_or(0)
}

/// Waits until a copy is made, and reads go to both OSDs.
fn until_copied(on: &OnCeph, osds: &[String; 2], what: &str) {
    let before = copies(on);
    let made = |copies: &Value| copies["made"].as_u64();
    eventually_blocking(what, || {
        let now = copies(on);
        let is_read = |osd: &String| reads_at(&now, osd) > reads_at(&before, osd);
        made(&now) > made(&before) && osds.iter().all(is_read)
    });
}

/// How many objects in RADOS store copies.
fn stored_copies(on: &OnCeph) -> usize {
    let names = on.ceph.client("rados", &["-p", "nacre", "-N", "nacre.routed", "ls"]);
    names.lines().filter(|name| name.contains("}copy:osd.")).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn reads_go_to_copies_on_osds_and_see_every_write_while_an_osd_and_the_router_are_killed() {
    let on = block_in_place(OnCeph::start);
    let object = Numbered::new(&on.cluster, OBJECT, 64 << 10);
    object.write("gateway.0").await;
    let [home, away, _] = block_in_place(|| on.osds(OBJECT));
    let rule =
        format!("application hot on {home}\n  * r data/r* -> one {home},{away} least-loaded\n");
    let osds = [home, away];
    let workers = object.work(3, Duration::from_millis(1800));
    let watched = Arc::clone(&object);
    let steps = spawn_blocking(move || {
        put(&on.cluster, on.folder(), &rule);
        until_copied(&on, &osds, "a copy is made, and both OSDs serve reads");
        until_copied(&on, &osds, "a copy of a later state is made and read");
        eventually_blocking("the copy is shown", || {
            let ways = &on.ways(&format!("r {OBJECT} 0..8"))[0]["copies"];
            ways.as_array().unwrap().iter().all(|way| way["is_current"] == true)
        });
        eventually_blocking("a copy is stored", || stored_copies(&on) > 0);

        on.ceph.kill(&osds[1]);
        watched.more("the object is used after the OSD with the copy was killed");
        on.ceph.restart(&osds[1]);
        until_copied(&on, &osds, "a copy is made again at the OSD");

        kill(on.cluster.pid_of(&on.router()).unwrap());
        watched.more("the object is used after the router was killed");
        eventually_blocking("another router has made copies", || {
            copies(&on)["made"].as_u64() > Some(0)
        });
        on.cluster.run(&["route", "rm", "hot"]);
        assert_eq!(copies(&on)["current"], 0);
        eventually_blocking("all copies are dropped", || stored_copies(&on) == 0);
        watched.more("the object is used without rules again");

        // A control program puts such rules by itself. An object that is written is not copied.
        let program = shipped("control/replicas.lua");
        on.cluster.run(&["program", "put", "control/replicas", &program, "--activate"]);
        on.cluster.run_with_input(&["object", "put", "data/still"], "still");
        let settings =
            ["--set", "read_only_seconds=1", "--set", "least_reads=1", "--set", "objects=data/s*"];
        on.cluster
            .run(&[&["route", "start", "replicas", "--every", "0.2"][..], &settings].concat());
        eventually_blocking("the program spreads the reads", || {
            assert_eq!(on.cluster.run(&["object", "get", "data/still"]), "still");
            copies(&on)["current"] == 2
        });
        on
    });
    let on = steps.await.unwrap();
    object.end(workers).await;
    drop(on);
}

/// How many reads the caches of all gateways have answered.
fn hits(on: &OnCeph) -> u64 {
    let reports = on.cluster.json(&["route", "cache", "status"]);
    let reports = reports.as_array().unwrap();
    let tenants = reports.iter().flat_map(|report| report["tenants"].as_array().unwrap());
    tenants.map(|tenant| tenant["hits"].as_u64().unwrap()).sum()
}

fn until_hit(on: &OnCeph, what: &str) {
    let before = hits(on);
    eventually_blocking(what, || hits(on) > before);
}

#[tokio::test(flavor = "multi_thread")]
async fn cached_reads_see_every_write_through_another_gateway_while_the_router_is_killed_and_paused()
 {
    let on = block_in_place(OnCeph::start);
    let object = Numbered::new(&on.cluster, OBJECT, 8 << 10);
    object.write("gateway.0").await;
    let output =
        block_in_place(|| on.cluster.command(&["route", "cache", "on", "--size", "8MiB"]).output());
    let output = output.unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("librados"), "{said}");
    let (router, other) = block_in_place(|| (on.router(), on.other()));
    for _ in 0..10 {
        for gateway in [&other, &router] {
            object.write(gateway).await;
            assert!(object.read(&router).await && object.read(&other).await);
        }
    }

    let workers = object.work(3, Duration::from_millis(40));
    let watched = Arc::clone(&object);
    let steps = spawn_blocking(move || {
        until_hit(&on, "the router's cache answers reads");
        let reports = on.cluster.json(&["route", "cache", "status"]);
        let caching = |report: &&Value| !report["settings"].is_null();
        let caching: Vec<_> = reports.as_array().unwrap().iter().filter(caching).collect();
        assert!(caching.len() == 1 && caching[0]["target"] == *router, "{reports}");

        // A rule sends reads past the cache.
        put(&on.cluster, on.folder(), "application scan on every\n  * r data/r* -> bypass cache\n");
        let before = hits(&on);
        watched.more("the object is used without the cache");
        assert_eq!(hits(&on), before);
        on.cluster.run(&["route", "rm", "scan"]);
        until_hit(&on, "the cache answers reads again");
        let divided = on.cluster.json(&["route", "cache", "divide"]);
        assert_eq!(divided["in_force"], true, "{divided}");
        assert!(on.cluster.run(&["route", "cache", "curve"]).contains("reads a second"));

        kill(on.cluster.pid_of(&router).unwrap());
        watched.more("the object is used after the router was killed");
        until_hit(&on, "the cache of the next router answers reads");

        // A router that goes on after a pause has old bytes in its cache.
        let paused = on.router();
        let process = on.cluster.pid_of(&paused).unwrap();
        watched.avoid(Some(&paused));
        let pid = suspend(process);
        eventually_blocking("another gateway routes", || on.router() != paused);
        watched.written("another router serves writes");
        kill_process(pid, Signal::CONT).unwrap();
        eventually_blocking("the former router is started anew", || {
            on.cluster.pid_of(&paused).is_some_and(|now| now != process)
        });
        watched.avoid(None);
        watched.more("the object is used after the former router has come back");
        until_hit(&on, "the cache answers reads after that");
        on.cluster.run(&["route", "cache", "off"]);
        watched.more("the object is used with the cache off");
        on
    });
    let on = steps.await.unwrap();
    object.end(workers).await;
    drop(on);
}
