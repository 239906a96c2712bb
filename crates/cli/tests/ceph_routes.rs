//! `nacre route` on Ceph: one gateway routes the IO of all objects to chosen OSDs. Gateways and
//! OSDs are killed and paused.

mod common;

use common::on_ceph::OnCeph;
use common::routes::{Workers, put};
use common::{kill, shipped, suspend};
use nacre_conformance::wait::eventually_blocking;
use nacre_object::ObjectId;
use rustix::process::{Signal, kill_process};
use tokio::task::block_in_place;

#[test]
fn a_routed_object_on_ceph_answers_as_if_it_were_not_routed() {
    let on = OnCeph::start();
    let cluster = &on.cluster;
    cluster.run_with_input(&["object", "put", "data/r0"], "0123456789");
    let text = "application t on every\n  * w data/r* 2..5000 -> pool nacre.routed follow\n";
    put(cluster, on.folder(), text);
    cluster.run_with_input(&["object", "write", "data/r0", "--offset", "4", "-"], "abc");
    assert_eq!(cluster.run(&["object", "get", "data/r0"]), "0123abc789");
    on.until_routed("three bytes are elsewhere", |bytes| bytes == 3);
    cluster.run_with_input(&["object", "write", "data/r0", "--offset", "0", "-"], "ABCDEF");
    assert_eq!(cluster.run(&["object", "get", "data/r0"]), "ABCDEFc789", "a write is split");

    let ways = on.ways("r data/r0 0..20");
    let home = ways[0]["destination"].as_str().unwrap().strip_suffix(" (home)").unwrap();
    let away = ways[1]["destination"].as_str().unwrap();
    assert!(home.starts_with("osd.") && away.starts_with("osd.") && home != away, "{ways:?}");
    let place: ObjectId = ways[1]["object"].as_str().unwrap().parse().unwrap();
    let (_, said) = cluster.fails(&["object", "get", &place.to_string()]);
    assert!(said.contains("no pool nacre.routed"), "{said}");
    assert!(cluster.run(&["object", "ls", "data"]).contains("r0"));

    // Rules for one OSD are about the objects whose primary OSD it is.
    cluster.run(&["route", "rm", "t"]);
    on.until_routed("all bytes are home", |bytes| bytes == 0);
    assert_eq!(cluster.run(&["object", "get", "data/r0"]), "ABCDEFc789");
    let third = ["osd.0", "osd.1", "osd.2"].into_iter().find(|osd| *osd != home && *osd != away);
    let third = third.unwrap();
    let text = format!(
        "application t on {home}\n  * w data/* -> target {third} follow\napplication u on {third}\n  * w data/* -> target {away} follow\n"
    );
    put(cluster, on.folder(), &text);
    let ways = on.ways("w data/r0 0..4");
    assert_eq!(ways[0]["destination"], *third, "{ways:?}");
    assert_eq!(ways[0]["application"], "t");
    cluster.run_with_input(&["object", "write", "data/r0", "--offset", "0", "-"], "third");
    assert_eq!(cluster.run(&["object", "get", "data/r0"]), "thirdFc789");
    assert_eq!(on.ways("r data/r0 0..5")[0]["destination"], *third);

    let file =
        common::routes::rules(on.folder(), "application c on every\n  * * data/c -> versions 8\n");
    let (_, said) = cluster.fails(&["route", "put", file.to_str().unwrap()]);
    assert!(said.contains("no snapshot before each change"), "{said}");
    let file = common::routes::rules(
        on.folder(),
        "application c on every\n  * w log/c -> target osd.9 follow\n",
    );
    let (_, said) = cluster.fails(&["route", "put", file.to_str().unwrap()]);
    assert!(said.contains("no target osd.9"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_tail_application_sends_the_writes_of_a_busy_osd_elsewhere() {
    let on = block_in_place(OnCeph::start);
    let program = shipped("control/tail.lua");
    block_in_place(|| {
        on.cluster.run(&["program", "put", "control/tail", &program, "--activate"]);
        let mut start = vec!["route", "start", "tail"];
        // The workers start before the program knows the average rate of their OSD. With `alpha=0` it compares the
        // rate with `least_rate` alone.
        let set =
            ["pools=data", "alpha=0", "recent_seconds=1", "average_seconds=20", "least_rate=2"];
        set.iter().for_each(|one| start.extend(["--set", one]));
        on.cluster.run(&start);
    });
    let home = |name: &String| {
        let ways = on.ways(&format!("w data/{name}"));
        ways[0]["destination"].as_str().unwrap().trim_end_matches(" (home)").to_owned()
    };
    // All work is on objects of one OSD.
    let names = block_in_place(|| {
        let busy = home(&"r0".to_owned());
        let all = (0..).map(|number| format!("r{number}"));
        all.filter(|name| home(name) == busy).take(3).collect::<Vec<_>>()
    });
    let workers = Workers::start(&on.cluster, &names).await;
    let on = workers
        .while_they_work(move |workers| {
            on.until_routed("the writes go elsewhere", |bytes| bytes > 0);
            workers.more_rounds("the workers work with the rules of the program");
            let shown = on.cluster.run(&["route", "show", "tail"]);
            assert!(shown.contains("on osd."), "{shown}");
            let applications = on.cluster.run(&["route", "applications", "--json"]);
            assert!(applications.contains("\"node\":\"gateway."), "{applications}");
            on.cluster.run(&["route", "stop", "tail"]);
            on.until_routed("all bytes are home", |bytes| bytes == 0);
            on
        })
        .await;
    drop(on);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_acknowledged_write_is_lost_when_gateways_and_osds_fail() {
    let on = block_in_place(OnCeph::start);
    let names: Vec<_> = (0..4).map(|number| format!("r{number}")).collect();
    let workers = Workers::start(&on.cluster, &names).await;
    let on = workers
        .while_they_work(move |workers| {
            let more_rounds = |what: &str| workers.more_rounds(what);
            more_rounds("the workers work");
            let text = "application t on every\n  * w data/r* -> pool nacre.routed follow\n";
            put(&on.cluster, on.folder(), text);
            on.until_routed("writes go elsewhere", |bytes| bytes > 0);
            more_rounds("the workers work with rules");

            kill(on.cluster.pid_of(&on.router()).unwrap());
            more_rounds("the workers go on after the gateway that routes was killed");

            // A router that is paused is replaced, and shut out of the Ceph cluster.
            let paused = on.router();
            let process = on.cluster.pid_of(&paused).unwrap();
            let pid = suspend(process);
            eventually_blocking("another gateway routes", || on.router() != paused);
            more_rounds("the workers go on with another router");
            kill_process(pid, Signal::CONT).unwrap();
            eventually_blocking("the former router is started anew", || {
                on.cluster.pid_of(&paused).is_some_and(|now| now != process)
            });
            more_rounds("the workers go on after the former router has come back");

            on.ceph.kill("osd.1");
            more_rounds("the workers go on without an OSD");
            on.ceph.restart("osd.1");
            more_rounds("the workers go on with all OSDs");
            on.cluster.run(&["route", "rm", "t"]);
            on.until_routed("all bytes are home", |bytes| bytes == 0);
            more_rounds("the workers go on without rules");
            on
        })
        .await;
    drop(on);
}
