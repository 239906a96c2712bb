//! How programs reach nodes, whatever is away when.

mod common;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::{TestNode, faulty_maps, maps, name, node_hooks, program, programs, store};
use futures::future::join_all;
use nacre_conformance::faults::{FaultOdds, Operation, no_faults, seeded, unreachable};
use nacre_conformance::wait::within_deadline;
use nacre_conformance::{Fault, MemoryStore, seeds};
use nacre_object::{Error, ErrorKind, FaultSite, NodeName, Op, Request, Result, Store};
use nacre_registry::{
    Change, LiveProgram, Maps, Node, NodeStatus, Nodes, ProgramId, Programs, Removal, Severity,
    Subscriber,
};

const SOON: Duration = Duration::from_secs(60);

/// A node's programs: those whose source holds "bad" cannot be made live.
#[derive(Default)]
struct Runtime {
    live: Mutex<BTreeMap<ProgramId, (u64, String)>>,
}

impl TestNode for Runtime {
    fn install(&self, program: &LiveProgram) -> Result<()> {
        if program.source.contains("bad") {
            let site = FaultSite { line: Some(7), ..FaultSite::default() };
            return Err(Error::fault_at(site, "it is bad"));
        }
        let live = (program.version, program.source.to_string());
        self.live.lock().unwrap().insert(program.id.clone(), live);
        Ok(())
    }

    fn uninstall(&self, program: &ProgramId) {
        self.live.lock().unwrap().remove(program);
    }
}

impl Runtime {
    fn version(&self, program: &ProgramId) -> Option<u64> {
        self.live.lock().unwrap().get(program).map(|(version, _)| *version)
    }
}

fn node_name(text: &str) -> NodeName {
    NodeName::new(text).unwrap()
}

/// A node that is registered and follows the programs through `maps`.
async fn start(maps: &Maps, text: &str, incarnation: u64) -> (Subscriber, Arc<Runtime>) {
    let node = Node {
        name: node_name(text),
        roles: vec!["target".into()],
        address: String::new(),
        incarnation,
        started_at_micros: 0,
        up: true,
    };
    Nodes::new(maps.clone()).register(&node).await.unwrap();
    let runtime = Arc::new(Runtime::default());
    (Subscriber::start(node.name, incarnation, &programs(maps), node_hooks(&runtime), &[]), runtime)
}

async fn put(programs: &Programs, id: &ProgramId, source: &str) -> u64 {
    programs.put(id, &format!("-- {source}")).await.unwrap()
}

async fn activate(programs: &Programs, id: &ProgramId, source: &str) -> u64 {
    let version = put(programs, id, source).await;
    programs.activate(id, version).await.unwrap();
    version
}

#[tokio::test(start_paused = true)]
async fn an_activated_version_becomes_live_on_every_node_and_is_reported() {
    let maps = maps(&store());
    let (programs, id) = (programs(&maps), program("route/r"));
    activate(&programs, &id, "one").await;
    let nodes = join_all(["a", "b", "c"].map(|text| start(&maps, text, 1))).await;
    programs.wait(&id, 1, SOON).await.unwrap();
    assert_eq!(activate(&programs, &id, "two").await, 2);
    programs.wait(&id, 2, SOON).await.unwrap();
    for (subscriber, runtime) in &nodes {
        assert_eq!((subscriber.live(&id), runtime.version(&id)), (Some(2), Some(2)));
    }
    programs.rollback(&id).await.unwrap();
    programs.wait(&id, 1, SOON).await.unwrap();
    let statuses = programs.status(&id).await.unwrap();
    let status = |text| NodeStatus { node: node_name(text), up: true, live: Some(1), failed: None };
    assert_eq!(statuses, ["a", "b", "c"].map(status));

    programs.remove(&id, None, Removal::EvenIfActive).await.unwrap();
    for (subscriber, runtime) in &nodes {
        subscriber.ready().await.unwrap();
        assert_eq!((subscriber.live(&id), runtime.version(&id)), (None, None));
    }
}

#[tokio::test(start_paused = true)]
async fn a_wait_with_the_longest_timeout_ends_when_the_version_is_live() {
    let maps = maps(&store());
    let (programs, id) = (programs(&maps), program("route/r"));
    activate(&programs, &id, "one").await;
    let _node = start(&maps, "a", 1).await;
    programs.wait(&id, 1, Duration::MAX).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_version_that_cannot_be_made_live_is_reported_with_its_line() {
    let maps = maps(&store());
    let (programs, id) = (programs(&maps), program("route/r"));
    let (subscriber, runtime) = start(&maps, "a", 1).await;
    activate(&programs, &id, "good").await;
    programs.wait(&id, 1, SOON).await.unwrap();
    let mut events = maps.events().follow(2);
    activate(&programs, &id, "bad").await;

    let error = programs.wait(&id, 2, SOON).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Fault, "{error}");
    assert!(error.message().contains("node a") && error.message().contains("it is bad"), "{error}");
    let error = subscriber.caught_up(&id, 2).await.unwrap_err();
    assert_eq!((error.kind(), error.fault().unwrap().line), (ErrorKind::Fault, Some(7)));
    assert_eq!(runtime.version(&id), Some(1), "the former version stays");

    let nacre_registry::EventItem::Event(event) =
        within_deadline("what is told next", events.next()).await.unwrap()
    else {
        panic!("nothing is missed")
    };
    assert_eq!((event.severity, event.node), (Severity::Error, Some(node_name("a"))));
    let site = event.program.unwrap();
    assert_eq!((site.name.as_str(), site.version, site.line), ("r", 2, Some(7)));

    programs.rollback(&id).await.unwrap();
    let mut reports = maps.watch_whole(&name("program-status"));
    loop {
        let [status] = &programs.status(&id).await.unwrap()[..] else { panic!("one node") };
        assert_eq!(status.live, Some(1));
        if status.failed.is_none() {
            break;
        }
        within_deadline("what is told next", reports.next()).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_that_was_away_catches_up_when_it_returns() {
    let maps = maps(&store());
    let (programs, kept, dropped) = (programs(&maps), program("route/kept"), program("route/old"));
    let (first_life, _) = start(&maps, "a", 1).await;
    activate(&programs, &kept, "one").await;
    activate(&programs, &dropped, "one").await;
    programs.wait(&dropped, 1, SOON).await.unwrap();
    drop(first_life);

    activate(&programs, &kept, "two").await;
    activate(&programs, &kept, "three").await;
    programs.remove(&dropped, None, Removal::EvenIfActive).await.unwrap();
    let (second_life, runtime) = start(&maps, "a", 2).await;
    second_life.ready().await.unwrap();
    assert_eq!((runtime.version(&kept), runtime.version(&dropped)), (Some(3), None));
    programs.wait(&kept, 3, SOON).await.unwrap();
    let [status] = &programs.status(&dropped).await.unwrap()[..] else { panic!("one node") };
    assert_eq!(status.live, None, "what the first life reported is corrected");
}

/// Found by the random test below: the reports of a node outlive it.
#[tokio::test(start_paused = true)]
async fn a_wait_ignores_the_reports_from_before_a_nodes_restart() {
    let store = store();
    let maps = maps(&store);
    let (programs, id) = (programs(&maps), program("route/r"));
    let (former_life, _) = start(&maps, "a", 1).await;
    activate(&programs, &id, "one").await;
    programs.wait(&id, 1, SOON).await.unwrap();
    drop(former_life);
    let (reached, stage) = faulty_maps(&store, no_faults());
    let (_node, runtime) = start(&reached, "a", 2).await;
    stage.follow(unreachable());
    let error = programs.wait(&id, 1, SOON).await.unwrap_err();
    assert_eq!((error.kind(), runtime.version(&id)), (ErrorKind::Unavailable, None));
    stage.heal();
    programs.wait(&id, 1, SOON).await.unwrap();
    assert_eq!(runtime.version(&id), Some(1));
}

#[tokio::test(start_paused = true)]
async fn an_outage_of_the_store_delays_programs_and_loses_nothing() {
    let store = store();
    let maps = maps(&store);
    let (programs, id) = (programs(&maps), program("route/r"));
    let (reached, stage) = faulty_maps(&store, no_faults());
    let (subscriber, runtime) = start(&reached, "a", 1).await;
    activate(&programs, &id, "one").await;
    programs.wait(&id, 1, SOON).await.unwrap();

    stage.follow(unreachable());
    stage.cut_watches();
    activate(&programs, &id, "two").await;
    activate(&programs, &id, "three").await;
    let error = programs.wait(&id, 3, SOON).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.message().ends_with("on a"), "{error}");
    assert_eq!(runtime.version(&id), Some(1));

    stage.heal();
    subscriber.caught_up(&id, 3).await.unwrap();
    programs.wait(&id, 3, SOON).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_behind_catches_up_and_a_caller_that_is_behind_is_told() {
    let store = store();
    let maps = maps(&store);
    let (programs, id) = (programs(&maps), program("route/r"));
    activate(&programs, &id, "one").await;
    activate(&programs, &id, "two").await;
    // A node that is slow to hear: what it reads of the history waits to be released.
    let slow = |operation: Operation<'_>| match operation {
        Operation::Submit(request) => {
            let reads_history =
                matches!(&request.ops[..], [Op::Call(call)] if call.method.as_str() == "history");
            reads_history.then_some(Fault::Hold)
        }
        _ => None,
    };
    let (reached, stage) = faulty_maps(&store, no_faults());
    let (subscriber, _) = start(&reached, "a", 1).await;
    subscriber.caught_up(&id, 2).await.unwrap();
    stage.follow(Box::new(slow));

    // Roll back to version 1. The caller knows of the rollback and the node does not yet. The node
    // must catch up, although version 1 is lower than its version 2.
    programs.rollback(&id).await.unwrap();
    stage.wait_until_held(1).await;
    assert_eq!(subscriber.live(&id), Some(2));
    let (caught_up, ()) = tokio::join!(subscriber.caught_up(&id, 1), async { stage.release(1) });
    caught_up.unwrap();
    assert_eq!(subscriber.live(&id), Some(1));

    stage.heal();
    stage.release(100);
    for (id, version) in [(&id, 2), (&id, 9), (&program("route/none"), 1)] {
        let error = subscriber.caught_up(id, version).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Stale, "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn waiting_ends_when_another_version_is_activated() {
    let store = store();
    let maps = maps(&store);
    let (programs, id) = (programs(&maps), program("route/r"));
    let (reached, stage) = faulty_maps(&store, no_faults());
    let (_node, _) = start(&reached, "a", 1).await;
    stage.follow(unreachable());
    activate(&programs, &id, "one").await;
    let next = async {
        tokio::task::yield_now().await;
        activate(&programs, &id, "two").await;
    };
    let (waited, ()) = tokio::join!(programs.wait(&id, 1, SOON), next);
    assert_eq!(waited.unwrap_err().kind(), ErrorKind::Stale);
}

#[tokio::test(start_paused = true)]
async fn a_wait_ignores_nodes_that_are_down_or_forgotten() {
    let maps = maps(&store());
    let (programs, id) = (programs(&maps), program("route/r"));
    let nodes = Nodes::new(maps.clone());
    for text in ["gone", "down"] {
        drop(start(&maps, text, 1).await);
    }
    let (_node, _) = start(&maps, "a", 1).await;
    activate(&programs, &id, "one").await;
    let error = programs.wait(&id, 1, Duration::from_secs(1)).await.unwrap_err();
    assert!(error.message().ends_with("on down, gone"), "{error}");
    nodes.forget(&node_name("gone")).await.unwrap();
    let down = async {
        tokio::task::yield_now().await;
        nodes.mark_down(&node_name("down"), 1).await.unwrap();
    };
    let (waited, ()) = tokio::join!(programs.wait(&id, 1, SOON), down);
    waited.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_node_waits_for_a_source_that_cannot_be_read() {
    let store = store();
    let maps = maps(&store);
    let (programs, id) = (programs(&maps), program("route/r"));
    put(&programs, &id, "one").await;
    let digest = programs.show(&id, None).await.unwrap().digest;
    let object = format!("nacre.system/program/{digest}").parse().unwrap();
    store.submit(Request::new(object, vec![Op::Remove]).unwrap()).await.unwrap();
    programs.activate(&id, 1).await.unwrap();
    let (subscriber, _) = start(&maps, "a", 1).await;
    // Who asks for other programs is not held up by it.
    let other = program("route/other");
    subscriber.settled(&other).await.unwrap();
    activate(&programs, &other, "other").await;
    subscriber.settled(&other).await.unwrap();
    assert_eq!(subscriber.live(&other), Some(1));
    assert!(tokio::time::timeout(SOON, subscriber.settled(&id)).await.is_err());
    let error = programs.wait(&id, 1, SOON).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.message().contains("on a (") && error.message().contains("not found"), "{error}");
    put(&programs, &id, "one").await;
    subscriber.ready().await.unwrap();
    assert_eq!(subscriber.live(&id), Some(1));
}

/// The activator dies between its commit and binding the program to its map: nodes do it.
#[tokio::test(start_paused = true)]
async fn nodes_bind_a_map_program_that_its_activator_did_not_bind() {
    let store = store();
    let (dying, stage) = faulty_maps(&store, no_faults());
    let id = program("map/m");
    let source = "function commit(proposal, map) map.deny('closed') end";
    programs(&dying).put(&id, source).await.unwrap();
    let but_the_map = |operation: Operation<'_>| {
        let object = operation.object()?.name.as_str();
        (object == "map/m").then_some(Fault::FailBefore)
    };
    stage.follow(Box::new(but_the_map));
    let error = programs(&dying).activate(&id, 1).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);

    let maps = maps(&store);
    let (subscriber, _) = start(&maps, "a", 1).await;
    subscriber.ready().await.unwrap();
    let error = maps.apply(&name("m"), vec![Change::set("k", "v")]).await.unwrap_err();
    assert_eq!(error.message(), "closed");
    programs(&maps).wait(&id, 1, SOON).await.unwrap();
    programs(&maps).remove(&id, None, Removal::EvenIfActive).await.unwrap();
    maps.apply(&name("m"), vec![Change::set("k", "v")]).await.unwrap();
}

/// Only nodes and the local user may bind a map program. Any other entity that activates one waits
/// until a node has bound it.
#[tokio::test(start_paused = true)]
async fn an_activator_that_is_no_node_waits_until_its_map_program_is_bound() {
    let store = store();
    let (maps, id) = (maps(&store), program("map/m"));
    let alice = maps.acting_as("alice".parse().unwrap());
    let source = "function commit(proposal, map) map.deny('closed') end";
    programs(&alice).put(&id, source).await.unwrap();
    let error = programs(&alice).activate(&id, 1).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "there is no node: {error}");
    alice.apply(&name("m"), vec![Change::set("k", "v")]).await.unwrap();

    let _subscriber = start(&maps, "a", 1).await;
    programs(&alice).activate(&id, 1).await.unwrap();
    let error = alice.apply(&name("m"), vec![Change::set("k", "v")]).await.unwrap_err();
    assert_eq!(error.message(), "closed");
}

/// Two nodes and a client that activates programs use stores that lose messages, and the nodes
/// restart. In the end the active versions must be live on every node, and the nodes must have
/// reported this.
#[tokio::test(start_paused = true)]
async fn nodes_converge_through_random_faults() {
    for seed in seeds(15) {
        converge(&store(), seed).await;
    }
}

async fn converge(store: &MemoryStore, seed: u64) {
    let odds = FaultOdds { fail_before: 8, fail_after: 8, lose_event: 4 };
    let mut random = nacre_clock::Random::seeded(seed);
    let ids = ["route/one", "balancer/two", "map/three"].map(program);
    let maps = maps(store);
    let programs = programs(&maps);
    let stages: Vec<_> = (0..2).map(|n| faulty_maps(store, seeded(seed * 10 + n, odds))).collect();
    let mut nodes = Vec::new();
    for (n, (_, stage)) in stages.iter().enumerate() {
        stage.heal();
        nodes.push(start(&stages[n].0, &n.to_string(), 1).await);
        stage.follow(seeded(seed * 10 + n as u64, odds));
    }
    for step in 0..30 {
        let id = random.pick(&ids).unwrap();
        match random.below(4) {
            0 => {
                let n = random.below(2) as usize;
                stages[n].1.heal();
                nodes[n] = start(&stages[n].0, &n.to_string(), 2 + step).await;
                stages[n].1.follow(seeded(seed + step, odds));
            }
            1 => drop(programs.rollback(id).await),
            _ => {
                let source = format!("function commit() end -- {}", random.below(5));
                let version = programs.put(id, &source).await.unwrap();
                programs.activate(id, version).await.unwrap();
            }
        }
        tokio::time::sleep(Duration::from_millis(random.below(100))).await;
    }
    for id in &ids {
        let Some(active) = programs.active(id).await.unwrap() else { continue };
        programs
            .wait(id, active, SOON)
            .await
            .unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        for (subscriber, runtime) in &nodes {
            assert_eq!(subscriber.live(id), Some(active), "seed {seed} {id}");
            if !id.to_string().starts_with("map/") {
                assert_eq!(runtime.version(id), Some(active), "seed {seed} {id}");
            }
        }
    }
}
