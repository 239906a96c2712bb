//! A client with many requests in flight has a second session with its node.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use futures::future::{BoxFuture, try_join_all};
use nacre_conformance::{Fault, FaultyStore, MemoryStore};
use nacre_object::{
    Demand, EntityName, Error, Guard, Op, Peer, Result, Standing, Store, TenantName, Unlimited,
};
use nacre_wire::RemoteStore;
use nacre_wire::limits::{REQUEST_COST_BYTES, SECOND_SESSION_BYTES};

use crate::harness::{Node, SocketFolder, connect, eventually, request};

/// The number of requests in flight from which on a client has a second session.
const BUSY: usize = SECOND_SESSION_BYTES / REQUEST_COST_BYTES;
const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// Counts the messages of each session, and admits a limited number of sessions.
#[derive(Debug)]
struct Doorman {
    most: usize,
    asked: Mutex<Vec<Arc<AtomicUsize>>>,
}

impl Doorman {
    fn letting_in(most: usize) -> Arc<Self> {
        Arc::new(Self { most, asked: Mutex::default() })
    }

    /// Messages of each session that came in.
    fn asked(&self) -> Vec<usize> {
        let asked = self.asked.lock().unwrap();
        asked.iter().map(|asked| asked.load(Ordering::Relaxed)).collect()
    }
}

#[async_trait]
impl Guard for Doorman {
    async fn admit(&self, _: &Peer) -> Result<Arc<dyn Standing>> {
        let mut sessions = self.asked.lock().unwrap();
        if sessions.len() == self.most {
            return Err(Error::denied("that is enough of you"));
        }
        let asked = Arc::<AtomicUsize>::default();
        sessions.push(Arc::clone(&asked));
        Ok(Arc::new(Counted { of: Unlimited::local(), asked }))
    }
}

#[derive(Debug)]
struct Counted {
    of: Unlimited,
    asked: Arc<AtomicUsize>,
}

impl Standing for Counted {
    fn entity(&self) -> &EntityName {
        self.of.entity()
    }

    fn tenant(&self) -> TenantName {
        self.of.tenant()
    }

    fn allow(&self, demand: Demand<'_>) -> Result<()> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        self.of.allow(demand)
    }

    fn ended(&self) -> BoxFuture<'static, ()> {
        self.of.ended()
    }
}

/// A node behind a doorman, a client of the node, and the store that holds reads back.
async fn reading(
    folder: &SocketFolder,
    doorman: &Arc<Doorman>,
) -> (Node, RemoteStore, FaultyStore) {
    let faulty = FaultyStore::over(Arc::new(MemoryStore::plain()));
    let store: Arc<dyn Store> = Arc::new(faulty.clone());
    let node = Node::start(&folder.endpoint(), 1, |builder| {
        builder.store(store).guard(Arc::clone(doorman) as Arc<dyn Guard>)
    })
    .await;
    let remote = RemoteStore::new(connect(&node.endpoint).await);
    remote.submit(request("data/o", Op::WriteFull { data: "bytes".into() })).await.unwrap();
    (node, remote, faulty)
}

async fn read_at_once(remote: &RemoteStore, count: usize) {
    let reads =
        (0..count).map(|_| remote.submit(request("data/o", Op::Read { offset: 0, length: 5 })));
    try_join_all(reads).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_with_few_requests_in_flight_has_one_session() {
    let (folder, doorman) = (SocketFolder::new(), Doorman::letting_in(usize::MAX));
    let (_node, remote, _) = reading(&folder, &doorman).await;
    for _ in 0..20 {
        read_at_once(&remote, BUSY).await;
    }
    assert_eq!(doorman.asked(), [1 + 20 * BUSY]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_with_many_requests_in_flight_uses_two_sessions() {
    let (folder, doorman) = (SocketFolder::new(), Doorman::letting_in(usize::MAX));
    let (node, remote, faulty) = reading(&folder, &doorman).await;
    // Hold all reads. A fast node would otherwise answer some of them before the last one is sent,
    // so too few would be in flight at once.
    faulty.follow(Box::new(|_| Some(Fault::Hold)));
    let ask_at_once = |count| {
        let remote = remote.clone();
        tokio::spawn(async move { read_at_once(&remote, count).await })
    };
    let (mut asking, mut under_way) = (vec![ask_at_once(BUSY + 1)], BUSY + 1);
    faulty.wait_until_held(under_way).await;
    eventually("there is a second session", || node.server.session_count() == 2).await;
    // The client hears of it a moment after the node.
    while doorman.asked()[1] == 0 {
        asking.push(ask_at_once(1));
        under_way += 1;
        faulty.wait_until_held(under_way).await;
        tokio::time::sleep(LOOK_AGAIN).await;
    }
    faulty.release(under_way);
    try_join_all(asking).await.unwrap();

    let before = doorman.asked();
    let asking = ask_at_once(6 * BUSY);
    faulty.wait_until_held(6 * BUSY).await;
    let now = doorman.asked();
    let [first, second] = [0, 1].map(|session| now[session] - before[session]);
    assert_eq!(first + second, 6 * BUSY);
    assert!(second >= 2 * BUSY, "{first} and {second}");
    faulty.release(6 * BUSY);
    asking.await.unwrap();
    drop(remote);
    eventually("both sessions are gone", || node.server.session_count() == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_refused_a_second_session_goes_on_with_the_first() {
    let (folder, doorman) = (SocketFolder::new(), Doorman::letting_in(1));
    let (_node, remote, _) = reading(&folder, &doorman).await;
    for _ in 0..20 {
        read_at_once(&remote, 4 * BUSY).await;
    }
    assert_eq!(doorman.asked(), [1 + 80 * BUSY]);
}
