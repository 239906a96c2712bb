//! Runs the registry on the embedded engine. Everything that the registry stores must survive a
//! restart, also with many committers on real threads.

mod common;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use common::{NOW_MICROS, classes, name, node_hooks, program, programs};
use futures::future::join_all;
use nacre_clock::ManualClock;
use nacre_conformance::wait::within_deadline;
use nacre_embedded::{EmbeddedEngine, Options};
use nacre_object::{ErrorKind, NodeName};
use nacre_registry::{Change, Event, MapState, Maps, Node, Nodes, Severity, Subscriber};

fn open(folder: &Path) -> (EmbeddedEngine, Maps) {
    let clock = Arc::new(ManualClock::at(NOW_MICROS));
    let options = Options::new(folder, Arc::new(classes(clock.clone())), clock);
    let engine = EmbeddedEngine::open(options).unwrap();
    let maps = Maps::new(Arc::new(engine.clone()), Arc::new(engine.clone()));
    (engine, maps)
}

#[tokio::test]
async fn the_registry_survives_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let (map, route, policy) = (name("m"), program("route/r"), program("map/m"));
    let node = Node {
        name: NodeName::new("a").unwrap(),
        roles: vec!["storage".into()],
        address: "here".into(),
        incarnation: 1,
        started_at_micros: 1,
        up: true,
    };
    let (engine, maps) = open(folder.path());
    Nodes::new(maps.clone()).register(&node).await.unwrap();
    let source = "function commit(proposal, map) map.trigger('copy', proposal.changes) end";
    programs(&maps).put(&policy, source).await.unwrap();
    programs(&maps).put(&route, "return 1").await.unwrap();
    programs(&maps).activate_all(&[(policy.clone(), 1), (route.clone(), 1)]).await.unwrap();
    maps.commit(&map, 0, vec![Change::set("k", "v")]).await.unwrap();
    maps.events().append(Event::new(Severity::Info, "hello")).await.unwrap();
    let before = (
        maps.get(&map).await.unwrap(),
        maps.history(&name("copy"), 0, 10).await.unwrap(),
        maps.events().recent(10).await.unwrap(),
        programs(&maps).list(None).await.unwrap(),
    );
    engine.close();
    drop((engine, maps));

    let (_engine, maps) = open(folder.path());
    let after = (
        maps.get(&map).await.unwrap(),
        maps.history(&name("copy"), 0, 10).await.unwrap(),
        maps.events().recent(10).await.unwrap(),
        programs(&maps).list(None).await.unwrap(),
    );
    assert_eq!(before, after);
    assert_eq!(Nodes::new(maps.clone()).list().await.unwrap(), [node]);
    assert_eq!(programs(&maps).show(&route, None).await.unwrap().source, "return 1");
    maps.commit(&map, 1, vec![Change::set("k", "w")]).await.unwrap();
    let (_, copied) = maps.entry(&name("copy"), "k").await.unwrap();
    assert_eq!(copied.unwrap(), "w", "the map's program is still bound");

    let name = NodeName::new("a").unwrap();
    let _node = Subscriber::start(name, 1, &programs(&maps), node_hooks(&Arc::new(())), &[]);
    for id in [&route, &policy] {
        programs(&maps).wait(id, 1, Duration::from_secs(60)).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn committers_and_watchers_on_many_threads_agree() {
    const COMMITTERS: u64 = 6;
    const EACH: u64 = 20;
    let folder = tempfile::tempdir().unwrap();
    let (_engine, maps) = open(folder.path());
    let map = name("m");
    let count = |value: Option<&Bytes>| -> u64 {
        value.map_or(0, |value| std::str::from_utf8(value).unwrap().parse().unwrap())
    };
    let committers = (0..COMMITTERS).map(|_| {
        let (maps, map) = (maps.clone(), map.clone());
        tokio::spawn(async move {
            for _ in 0..EACH {
                let add_one = |state: &MapState| {
                    let next = count(state.entries.get("count")) + 1;
                    Ok(vec![Change::set("count", next.to_string())])
                };
                maps.update(&map, add_one).await.unwrap();
            }
        })
    });
    let watchers = (0..3).map(|_| {
        let (maps, map) = (maps.clone(), map.clone());
        tokio::spawn(async move {
            let mut copy = MapState::empty(map.clone());
            let mut watcher = maps.watch(&map, 0);
            while copy.epoch < COMMITTERS * EACH {
                let event = within_deadline("what is told next", watcher.next()).await.unwrap();
                assert_eq!(event.epoch(), copy.epoch + 1);
                copy.apply(&event);
                assert_eq!(count(copy.entries.get("count")), copy.epoch);
            }
        })
    });
    let tasks: Vec<_> = committers.chain(watchers).collect();
    join_all(tasks).await.into_iter().for_each(|task| task.unwrap());
    let error = maps.commit(&map, 0, vec![Change::remove("count")]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
}
