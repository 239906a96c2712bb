//! Tests waypoints at the switch of a node, whose store is in memory: what clients see, and what is
//! stored.

use std::sync::Arc;

use bytes::Bytes;
use futures::future::join_all;
use nacre::{ClusterFile, Layout};
use nacre_clock::{Clock, Random, SystemClock};
use nacre_conformance::MemoryStore;
use nacre_node::{NodeSwitch, Onward, RoutePrograms, RoutedLocations, SwitchLayer, Waypoints};
use nacre_object::{ErrorKind, Op, OpResult, Request, Result, Stack, Store};
use nacre_program::Digest;
use nacre_registry::{Hook, KindFaults, LiveProgram, ProgramId, ProgramKind};
use nacre_route::{LiveRoutes, LiveWaypoints, Rule, WaypointHook};

const SCRAMBLE: &str = include_str!("../../../programs/waypoint/scramble.lua");

/// A store, and a client of the switch before it.
struct Node {
    folder: tempfile::TempDir,
    store: MemoryStore,
    live: LiveWaypoints,
    client: Stack,
}

fn clock() -> Arc<dyn Clock> {
    Arc::new(SystemClock::default())
}

/// Makes a version of the waypoint `w` live.
fn activate(live: &LiveWaypoints, version: u64, source: &str) {
    let id = ProgramId::new(ProgramKind::Waypoint, "w".parse().unwrap());
    let digest = Digest::of(source.as_bytes());
    let program = LiveProgram { id, version, digest, source: source.into() };
    WaypointHook::new(clock()).installing_into(live.clone()).install(&program).unwrap();
}

impl Node {
    async fn start(source: &str, rules: &[&str]) -> Self {
        let live = LiveWaypoints::new();
        activate(&live, 1, source);
        let (folder, store) = (tempfile::tempdir().unwrap(), MemoryStore::plain());
        let client = client(&folder, &store, &live, rules).await;
        Self { folder, store, live, client }
    }

    /// The same store behind a switch that has just started.
    async fn restarted(self, rules: &[&str]) -> Self {
        let client = client(&self.folder, &self.store, &self.live, rules).await;
        Self { client, ..self }
    }
}

async fn client(
    folder: &tempfile::TempDir,
    store: &MemoryStore,
    live: &LiveWaypoints,
    rules: &[&str],
) -> Stack {
    let layout = Layout { engine: None, storage: 1, metadata: 0, addresses: vec![], sockets: true };
    let file = ClusterFile::draft(folder.path().join("cluster"), &layout).unwrap();
    let locations = RoutedLocations::of(&file, &file.nodes()[0]).unwrap();
    let faults = KindFaults::of;
    let waypoints = Waypoints::of(live.clone(), faults(ProgramKind::Waypoint));
    let programs = RoutePrograms::of(LiveRoutes::new(), faults(ProgramKind::Route));
    let programs = programs.with_waypoints(waypoints);
    let base = Stack::without_watches(Arc::new(store.clone()));
    let own = Onward::uncached(base.clone());
    let switch = NodeSwitch::new(own, locations, programs, clock(), Default::default());
    let switch = Arc::new(switch.unwrap());
    let rule = |line: &&str| Rule::from_line(&"tests".parse().unwrap(), line).unwrap();
    switch.install(vec![rules.iter().map(rule).collect()]).await.unwrap();
    base.wrapped_by(|next| SwitchLayer::new(Onward::uncached(next), switch))
}

async fn submit(store: &impl Store, name: &str, op: Op) -> Result<OpResult> {
    let request = Request::new(name.parse().unwrap(), vec![op]).unwrap();
    store.submit(request).await.map(|reply| reply.results.into_iter().next().unwrap())
}

async fn bytes(store: &impl Store, name: &str) -> Bytes {
    match submit(store, name, Op::Read { offset: 0, length: 1 << 20 }).await.unwrap() {
        OpResult::Data(data) => data,
        other => panic!("{other:?}"),
    }
}

fn random_op(random: &mut Random) -> Op {
    let (offset, length) = (random.below(9000), 1 + random.below(5000));
    let data = (0..random.below(3000)).map(|_| random.below(256) as u8).collect::<Vec<_>>().into();
    match random.below(8) {
        0 | 1 => Op::Write { offset, data },
        2 => Op::Append { data },
        3 => Op::Truncate { size: offset },
        4 => Op::Zero { offset, length },
        5 if offset < 1000 => Op::WriteFull { data },
        6 if offset < 1000 => Op::Remove,
        _ => Op::Read { offset, length },
    }
}

#[tokio::test]
async fn a_client_sees_the_same_with_and_without_a_waypoint_and_the_stored_bytes_differ() {
    let node = Node::start(SCRAMBLE, &["* rw data/r* -> waypoint w"]).await;
    for seed in 0..20 {
        let mut random = Random::seeded(seed);
        let (encoded, plain) = (format!("data/r{seed}"), format!("data/p{seed}"));
        for step in 0..60 {
            let op = random_op(&mut random);
            let mut seen = vec![];
            for name in [&encoded, &plain] {
                let answer = submit(&node.client, name, op.clone()).await;
                seen.push(answer.map_err(|error| error.kind()));
                let all = Op::Read { offset: 0, length: 1 << 20 };
                let all = submit(&node.client, name, all).await;
                seen.push(all.map_err(|error| error.kind()));
            }
            assert!(seen[..2] == seen[2..], "seed {seed}, step {step}: {}", op.name());
        }
    }
    let text = Bytes::from("a secret text ".repeat(100));
    for name in ["data/r", "data/p"] {
        submit(&node.client, name, Op::Write { offset: 0, data: text.clone() }).await.unwrap();
    }
    assert!(bytes(&node.store, "data/p").await == text);
    let stored = bytes(&node.store, "data/r").await;
    assert!(!stored.windows(6).any(|part| part == b"secret"), "{stored:?}");
    let node = node.restarted(&["* rw data/r* -> waypoint w"]).await;
    assert!(bytes(&node.client, "data/r").await == text, "the object says that it is encoded");
}

#[tokio::test]
async fn writes_at_the_same_time_in_any_order_leave_no_gaps() {
    const BLOCK: usize = 512;
    let node = Node::start(SCRAMBLE, &["* rw data/r* -> waypoint w"]).await;
    for round in 0..20 {
        let name = format!("data/r{round}");
        let mut random = Random::seeded(round);
        let mut blocks: Vec<u64> = (0..32).collect();
        for at in (1..blocks.len()).rev() {
            blocks.swap(at, random.below(at as u64 + 1) as usize);
        }
        let write = |block: &u64| {
            let data = Bytes::from(vec![*block as u8 + 1; BLOCK]);
            submit(&node.client, &name, Op::Write { offset: block * BLOCK as u64, data })
        };
        for written in join_all(blocks.iter().map(write)).await {
            written.unwrap();
        }
        let all = bytes(&node.client, &name).await;
        let is_right = |(at, byte): (usize, &u8)| *byte as usize == at / BLOCK + 1;
        assert!(all.len() == 32 * BLOCK && all.iter().enumerate().all(is_right), "round {round}");
    }
}

#[tokio::test]
async fn bytes_of_another_version_are_refused_and_old_objects_stay_as_they_are() {
    let node = Node::start(SCRAMBLE, &["* rw data/r* -> waypoint w"]).await;
    let write = |data: &'static str| Op::Write { offset: 0, data: data.into() };
    submit(&node.store, "data/r.old", write("old")).await.unwrap();
    assert_eq!(bytes(&node.client, "data/r.old").await, "old");
    submit(&node.client, "data/r.old", write("o")).await.unwrap();
    assert_eq!(bytes(&node.store, "data/r.old").await, "old");
    submit(&node.client, "data/r.new", write("new")).await.unwrap();
    activate(&node.live, 2, &SCRAMBLE.replace("0x5f3759df", "0x12345678"));
    let read = Op::Read { offset: 0, length: 3 };
    let error = submit(&node.client, "data/r.new", read).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("waypoint/w@1 has encoded its bytes"), "{error}");
    let replaced = Op::WriteFull { data: "newer".into() };
    submit(&node.client, "data/r.new", replaced).await.unwrap();
    assert_eq!(bytes(&node.client, "data/r.new").await, "newer");
}

#[tokio::test]
async fn a_full_queue_refuses_io_and_the_rest_goes_on_at_the_rate() {
    const BURST: usize = 3;
    let source = "limit = { rate = 4, burst = 3, queue = 6 }\nfunction price() return 1 end\n";
    let node = Node::start(source, &["* w data/r* -> waypoint w"]).await;
    let clock = clock();
    let began = clock.monotonic();
    let write = |number: usize| {
        let node = &node;
        async move {
            let data = Bytes::from_static(b"abc");
            submit(&node.client, &format!("data/r{number}"), Op::Write { offset: 0, data }).await
        }
    };
    let results = join_all((0..20).map(write)).await;
    let passed = results.iter().filter(|one| one.is_ok()).count();
    let promised = BURST as f64 + 4.0 * (clock.monotonic() - began).as_secs_f64();
    assert!(passed >= BURST + 6 && passed as f64 <= promised, "{passed} of {promised} at most");
    for refused in results.into_iter().filter_map(Result::err) {
        assert_eq!(refused.kind(), ErrorKind::Exhausted, "{refused}");
    }
}
