//! Snapshots of a prefix on Ceph: the gateway that routes keeps the former states of objects as copies. It is
//! killed, while clients read and write through both gateways.

mod common;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bytes::Bytes;
use common::on_ceph::{GATEWAYS, OnCeph};
use common::routes::{put, rules};
use common::{RunningCluster, kill, shipped};
use nacre::{ClusterFile, Sessions};
use nacre_conformance::wait::{eventually_blocking, within_deadline};
use nacre_object::{ErrorKind, MapEntry, Op, OpResult, Reply, Request, Result};
use nacre_wire::limits::REQUEST_DEADLINE;
use tokio::task::{block_in_place, spawn_blocking};

/// The part of an object's state that a snapshot keeps.
type State = Vec<OpResult>;

/// Objects that clients change in different ways.
const SAME: &str = "data/s-same";
const WRITTEN: &str = "data/s-written";
const KEYS: &str = "data/s-keys";
const LARGE: &str = "data/s-large";
const REMOVED: &str = "data/s-removed";
const AGAIN: &str = "data/s-again";
const CREATED: &str = "data/s-created";
const MOVED: &str = "data/s-moved";
/// Those that exist on Monday.
const ON_MONDAY: [&str; 6] = [SAME, WRITTEN, KEYS, LARGE, REMOVED, AGAIN];

fn write(offset: u64, text: &'static str) -> Op {
    Op::Write { offset, data: Bytes::from_static(text.as_bytes()) }
}

fn attribute(value: &'static str) -> Op {
    Op::SetAttribute { name: "owner".to_owned(), value: Bytes::from_static(value.as_bytes()) }
}

fn entries(all: &[(&'static str, &'static str)]) -> Op {
    let bytes = |text: &'static str| Bytes::from_static(text.as_bytes());
    let entry = |(key, value): &(&'static str, &'static str)| MapEntry {
        key: bytes(key),
        value: bytes(value),
    };
    Op::MapSet { entries: all.iter().map(entry).collect() }
}

/// Asks chosen gateways.
struct Client(Sessions);

impl Client {
    fn of(cluster: &RunningCluster) -> Self {
        Self(Sessions::new(&ClusterFile::read(cluster.folder()).unwrap()).unwrap())
    }

    async fn once(
        &self,
        gateway: &str,
        object: &str,
        ops: Vec<Op>,
        at: Option<&str>,
    ) -> Result<Reply> {
        let request = Request::new(object.parse().unwrap(), ops).unwrap();
        let request = match at {
            Some(name) => request.at_snapshot(name.parse().unwrap()),
            None => request,
        };
        self.0.session(gateway).unwrap().submit(request, REQUEST_DEADLINE).await
    }

    async fn change(&self, gateway: &str, object: &str, ops: Vec<Op>) {
        self.once(gateway, object, ops, None).await.unwrap();
    }

    /// Everything in an object, now or at a snapshot; while a gateway is down, until it answers.
    async fn state(&self, gateway: &str, object: &str, at: Option<&str>) -> Result<State> {
        let ops = vec![
            Op::Stat,
            Op::Read { offset: 0, length: 6 << 20 },
            Op::GetAttributes,
            Op::MapGetHeader,
            Op::MapRange { after: Bytes::new(), prefix: Bytes::new(), limit: 100 },
        ];
        within_deadline("a gateway answers", async {
            loop {
                match self.once(gateway, object, ops.clone(), at).await {
                    Err(error) if error.kind() == ErrorKind::Unavailable => {}
                    reply => return reply.map(|reply| reply.results),
                }
            }
        })
        .await
    }

    /// Checks through both gateways what objects were at a snapshot; `None` if they did not exist.
    async fn check(&self, name: &str, expected: &BTreeMap<&str, Option<State>>) {
        for gateway in GATEWAYS {
            for (object, expected) in expected {
                let found = match self.state(gateway, object, Some(name)).await {
                    Ok(state) => Some(state),
                    Err(error) if error.kind() == ErrorKind::NotFound => None,
                    Err(error) => panic!("{object} at {name}: {error}"),
                };
                assert_eq!(found, *expected, "{object} at {name}, {gateway}");
            }
        }
    }
}

/// The objects in RADOS that belong to snapshots.
fn stored(on: &OnCeph, prefix: &str) -> Vec<String> {
    let names = on.ceph.client("rados", &["-p", "nacre", "-N", "nacre.routed", "ls"]);
    names.lines().filter(|name| name.starts_with(prefix)).map(str::to_owned).collect()
}

/// Puts rules that send bytes of an object elsewhere and keep snapshots under these names, if there are any.
fn keep(on: &OnCeph, names: &str) {
    let away = format!("application kept on every\n  * w {MOVED} -> pool nacre.routed follow\n");
    let text = match names {
        "" => away,
        names => format!("{away}  * * data/s-* -> snapshots {names}\n"),
    };
    put(&on.cluster, on.folder(), &text);
}

/// Makes the objects that exist on Monday, with bytes of one of them elsewhere. Returns their states.
async fn make_objects(on: &OnCeph, client: &Client) -> BTreeMap<&'static str, Option<State>> {
    for object in ON_MONDAY {
        let header = Op::MapSetHeader { value: Bytes::from_static(b"header") };
        let keys = entries(&[("a", "1"), ("b", "2"), ("c", "3")]);
        let ops = vec![write(0, "monday"), attribute("ann"), header, keys];
        client.change(GATEWAYS[0], object, ops).await;
    }
    client.change(GATEWAYS[1], LARGE, vec![write(5 << 20, "a second piece")]).await;
    block_in_place(|| {
        keep(on, "");
        on.cluster.run_with_input(&["object", "put", MOVED], "monday");
        on.cluster.run_with_input(&["object", "write", MOVED, "--offset", "0", "-"], "MON");
        on.until_routed("bytes are elsewhere", |bytes| bytes > 0);
    });
    let mut states = BTreeMap::from([(CREATED, None)]);
    for object in ON_MONDAY {
        states.insert(object, Some(client.state(GATEWAYS[1], object, None).await.unwrap()));
    }
    states
}

/// Checks what gateways refuse.
async fn check_refused(on: &OnCeph, client: &Client) {
    for (object, name) in [(SAME, "never"), ("data/other", "monday")] {
        for gateway in GATEWAYS {
            let error = client.state(gateway, object, Some(name)).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        }
    }
    block_in_place(|| {
        for arguments in [
            &["object", "snapshot", "create", SAME, "mine"][..],
            &["object", "snapshot", "create", SAME, "kept-monday"],
            &["object", "snapshot", "ls", SAME],
            &["object", "snapshot", "rollback", SAME, "monday"],
        ] {
            let (_, said) = on.cluster.fails(arguments);
            assert!(said.contains("lacks the capability"), "{said}");
        }
        let text = "application one on osd.1\n  * * data/t* -> snapshots friday\n";
        let file = rules(on.folder(), text);
        let (_, said) = on.cluster.fails(&["route", "put", file.to_str().unwrap()]);
        assert!(said.contains("on every"), "{said}");
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_on_ceph_is_read_as_it_was_until_no_rule_names_the_snapshot() {
    let on = block_in_place(OnCeph::start);
    let client = Client::of(&on.cluster);
    let monday = make_objects(&on, &client).await;
    block_in_place(|| keep(&on, "monday"));
    client.check("monday", &monday).await;

    let (router, other) = block_in_place(|| (on.router(), on.other()));
    let change = async |gateway: &str, object, ops| client.change(gateway, object, ops).await;
    change(&other, WRITTEN, vec![write(0, "TUE"), attribute("bob"), entries(&[("b", "new")])])
        .await;
    change(&router, KEYS, vec![Op::MapClear]).await;
    change(&other, KEYS, vec![Op::RemoveAttribute { name: "owner".to_owned() }]).await;
    change(&router, LARGE, vec![Op::Truncate { size: 3 }]).await;
    change(&other, REMOVED, vec![Op::Remove]).await;
    change(&router, AGAIN, vec![Op::Remove]).await;
    change(&other, CREATED, vec![write(0, "tuesday")]).await;
    change(&router, CREATED, vec![attribute("carl")]).await;
    block_in_place(|| on.cluster.run_with_input(&["object", "append", MOVED, "-"], "!"));
    client.check("monday", &monday).await;
    check_refused(&on, &client).await;
    block_in_place(|| {
        assert_eq!(on.cluster.run(&["object", "get", MOVED, "--at", "monday"]), "MONday");
        assert_eq!(on.cluster.run(&["object", "get", MOVED]), "MONday!");
        assert_eq!(on.cluster.run(&["object", "get", WRITTEN]), "TUEday");
        assert!(on.cluster.run(&["route", "trace", "w", SAME]).contains("keeps snapshots"));
        assert!(!stored(&on, "kept:monday/").is_empty());

        kill(on.cluster.pid_of(&router).unwrap());
    });
    client.check("monday", &monday).await;

    let mut tuesday = BTreeMap::from([(AGAIN, None), (REMOVED, None)]);
    for object in [SAME, WRITTEN, KEYS, LARGE, CREATED] {
        let state = client.state(&other, object, None).await.unwrap();
        tuesday.insert(object, Some(state));
    }
    block_in_place(|| keep(&on, "monday,tuesday"));
    change(&other, AGAIN, vec![write(0, "wednesday")]).await;
    change(&other, WRITTEN, vec![Op::Remove]).await;
    change(&other, WRITTEN, vec![write(0, "wednesday")]).await;
    change(&other, CREATED, vec![Op::Remove]).await;
    client.check("monday", &monday).await;
    client.check("tuesday", &tuesday).await;

    // The copies of a name disappear when no rule has the name any more.
    block_in_place(|| {
        keep(&on, "tuesday");
        eventually_blocking("the copies of monday are dropped", || {
            stored(&on, "kept:monday/").is_empty()
        });
        assert!(!stored(&on, "kept:tuesday/").is_empty());
    });
    client.check("tuesday", &tuesday).await;
    block_in_place(|| {
        on.cluster.run(&["route", "rm", "kept"]);
        eventually_blocking("all copies and notes are dropped", || stored(&on, "kept").is_empty());
        assert_eq!(on.cluster.run(&["object", "get", AGAIN]), "wednesday");
    });
    let error = client.state(&other, SAME, Some("tuesday")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
}

/// An object into which a client writes growing numbers.
struct Growing {
    name: String,
    /// The latest number whose write was acknowledged.
    acknowledged: AtomicU64,
    /// The latest number that was sent.
    sent: AtomicU64,
    /// Whether the router was killed.
    is_killed: AtomicBool,
    is_over: AtomicBool,
}

impl Growing {
    /// Writes through both gateways in turn, until this is over.
    async fn write(&self, client: &Client) {
        for gateway in GATEWAYS.into_iter().cycle() {
            if self.is_over.load(Ordering::SeqCst) {
                return;
            }
            let number = self.sent.fetch_add(1, Ordering::SeqCst) + 1;
            let data = Bytes::from(number.to_be_bytes().to_vec());
            match client.once(gateway, &self.name, vec![Op::WriteFull { data }], None).await {
                Ok(_) => drop(self.acknowledged.fetch_max(number, Ordering::SeqCst)),
                Err(error) => assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}"),
            }
        }
    }

    /// Reads the object at a snapshot through both gateways, until it has read the same number often
    /// after the router was killed.
    async fn read_at(&self, client: &Client, name: &str) -> u64 {
        let (mut kept, mut reads) = (None, 0);
        for gateway in GATEWAYS.into_iter().cycle() {
            let ops = vec![Op::Read { offset: 0, length: 8 }];
            match client.once(gateway, &self.name, ops, Some(name)).await.map(|one| one.results) {
                Ok(results) => {
                    let [OpResult::Data(data)] = &results[..] else { panic!("{results:?}") };
                    let number = u64::from_be_bytes(data[..].try_into().unwrap());
                    let first = *kept.get_or_insert(number);
                    assert_eq!(first, number, "{}: the snapshot has changed", self.name);
                    reads += u64::from(self.is_killed.load(Ordering::SeqCst));
                    if reads == 60 {
                        return number;
                    }
                }
                // The rule is not in force yet.
                Err(error) if error.kind() == ErrorKind::Unsupported => {
                    assert_eq!(kept, None, "the snapshot is lost");
                }
                Err(error) => assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}"),
            }
        }
        unreachable!("the gateways take turns for ever")
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_on_ceph_never_changes_while_clients_write_and_the_router_is_killed() {
    let on = block_in_place(OnCeph::start);
    let client = Arc::new(Client::of(&on.cluster));
    let growing = |number: u64| {
        let (acknowledged, sent, is_killed, is_over) = Default::default();
        let name = format!("data/s-{number}");
        Arc::new(Growing { name, acknowledged, sent, is_killed, is_over })
    };
    let objects: Vec<_> = (0..3).map(growing).collect();
    let (mut writers, mut readers) = (vec![], vec![]);
    for object in &objects {
        let (object, client) = (Arc::clone(object), Arc::clone(&client));
        writers.push(tokio::spawn(async move { object.write(&client).await }));
    }
    let written = objects.clone();
    let watched = objects.clone();
    let steps = spawn_blocking(move || {
        eventually_blocking("all objects are written", || {
            written.iter().all(|object| object.acknowledged.load(Ordering::SeqCst) > 0)
        });
        let numbers = |of: fn(&Growing) -> &AtomicU64| -> Vec<u64> {
            written.iter().map(|object| of(object).load(Ordering::SeqCst)).collect()
        };
        let least = numbers(|object| &object.acknowledged);
        keep(&on, "monday");
        let most = numbers(|object| &object.sent);
        kill(on.cluster.pid_of(&on.router()).unwrap());
        written.iter().for_each(|object| object.is_killed.store(true, Ordering::SeqCst));
        (on, least, most)
    });
    for object in watched {
        let client = Arc::clone(&client);
        readers.push(tokio::spawn(async move { object.read_at(&client, "monday").await }));
    }
    let (on, least, most) = steps.await.unwrap();
    for (number, reader) in readers.into_iter().enumerate() {
        let kept = within_deadline("the snapshot is read", reader).await.unwrap();
        let possible = least[number]..=most[number];
        assert!(possible.contains(&kept), "{kept} is kept, not one of {possible:?}");
    }
    objects.iter().for_each(|object| object.is_over.store(true, Ordering::SeqCst));
    for writer in writers {
        writer.await.unwrap();
    }

    // A control program puts such rules by itself.
    block_in_place(|| {
        let cluster = &on.cluster;
        cluster.run_with_input(&["object", "put", "data/plan"], "before");
        let program = shipped("control/snapshots.lua");
        cluster.run(&["program", "put", "control/snapshots", &program, "--activate"]);
        cluster.run(&["route", "start", "snapshots", "--set", "prefix=data/plan"]);
        eventually_blocking("the rule of the program is in force", || {
            cluster.run(&["route", "trace", "w", "data/plan"]).contains("keeps snapshots")
        });
        let shown = cluster.run(&["route", "show", "snapshots"]);
        let name = shown.split_whitespace().find(|word| word.starts_with("auto-"));
        let name = name.unwrap_or_else(|| panic!("{shown}"));
        cluster.run_with_input(&["object", "put", "data/plan"], "after");
        assert_eq!(cluster.run(&["object", "get", "data/plan", "--at", name]), "before");
        cluster.run(&["route", "stop", "snapshots"]);
        eventually_blocking("its copies are dropped", || {
            stored(&on, &format!("kept:{name}/")).is_empty()
        });
        assert_eq!(cluster.run(&["object", "get", "data/plan"]), "after");
    });
}
