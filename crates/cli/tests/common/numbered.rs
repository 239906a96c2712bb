//! An object whose bytes are one number, again and again. Clients write and read it through chosen
//! gateways at the same time, and check what they read.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use nacre::{ClusterFile, Sessions};
use nacre_conformance::wait::eventually_blocking;
use nacre_object::{ErrorKind, ObjectId, Op, OpResult, Request, Result};
use nacre_wire::limits::REQUEST_DEADLINE;
use tokio::task::JoinHandle;

use super::RunningCluster;
use super::on_ceph::GATEWAYS;

/// The object.
pub struct Numbered {
    sessions: Sessions,
    object: ObjectId,
    bytes: usize,
    /// The latest number whose write was acknowledged, or which a reader has seen.
    floor: AtomicU64,
    /// The latest number that a write may have written.
    issued: AtomicU64,
    reads: AtomicU64,
    writes: AtomicU64,
    is_over: AtomicBool,
    /// The gateway through which nothing is written.
    avoided: Mutex<Option<String>>,
}

impl Numbered {
    /// The object of this name, which is not written yet.
    pub fn new(cluster: &RunningCluster, object: &str, bytes: usize) -> Arc<Self> {
        let file = ClusterFile::read(cluster.folder()).unwrap();
        Arc::new(Self {
            sessions: Sessions::new(&file).unwrap(),
            object: object.parse().unwrap(),
            bytes,
            floor: AtomicU64::new(0),
            issued: AtomicU64::new(0),
            reads: AtomicU64::new(0),
            writes: AtomicU64::new(0),
            is_over: AtomicBool::new(false),
            avoided: Mutex::default(),
        })
    }

    async fn ask(&self, gateway: &str, op: Op) -> Result<Option<OpResult>> {
        let request = Request::new(self.object.clone(), vec![op]).unwrap();
        let session = self.sessions.session(gateway).unwrap();
        Ok(session.submit(request, REQUEST_DEADLINE).await?.results.pop())
    }

    /// Writes the next number. While a gateway or an OSD is down, it is unknown whether a write
    /// happens. A repetition with the same number leaves no doubt.
    pub async fn write(&self, gateway: &str) {
        let value = self.issued.fetch_add(1, Ordering::SeqCst) + 1;
        let data = Bytes::from(value.to_le_bytes().repeat(self.bytes / 8));
        while let Err(error) = self.ask(gateway, Op::Write { offset: 0, data: data.clone() }).await
        {
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        }
        self.floor.fetch_max(value, Ordering::SeqCst);
        self.writes.fetch_add(1, Ordering::SeqCst);
    }

    /// Reads all bytes. They must not be older than what was acknowledged or read before. Returns
    /// whether the gateway answered.
    pub async fn read(&self, gateway: &str) -> bool {
        let floor = self.floor.load(Ordering::SeqCst);
        let read = match self.ask(gateway, Op::Read { offset: 0, length: self.bytes as u64 }).await
        {
            Ok(Some(OpResult::Data(read))) => read,
            Ok(other) => panic!("no reply to a read: {other:?}"),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
                return false;
            }
        };
        assert_eq!(read.len(), self.bytes);
        let value = u64::from_le_bytes(read[..8].try_into().unwrap());
        assert!(read.chunks(8).all(|part| part == &read[..8]), "a torn read");
        assert!(value >= floor, "{gateway}: read {value} after {floor} was acknowledged or read");
        assert!(value <= self.issued.load(Ordering::SeqCst));
        self.floor.fetch_max(value, Ordering::SeqCst);
        self.reads.fetch_add(1, Ordering::SeqCst);
        true
    }

    /// Starts readers at both gateways, and a writer that writes through both in turn, with a pause
    /// after each write.
    pub fn work(self: &Arc<Self>, readers: usize, pause: Duration) -> Vec<JoinHandle<()>> {
        let reader = |number: usize| {
            let object = Arc::clone(self);
            tokio::spawn(async move {
                while !object.is_over.load(Ordering::SeqCst) {
                    object.read(GATEWAYS[number % GATEWAYS.len()]).await;
                }
            })
        };
        let mut tasks: Vec<_> = (0..readers).map(reader).collect();
        let object = Arc::clone(self);
        tasks.push(tokio::spawn(async move {
            for gateway in GATEWAYS.into_iter().cycle() {
                if object.is_over.load(Ordering::SeqCst) {
                    break;
                }
                if object.avoided.lock().unwrap().as_deref() != Some(gateway) {
                    object.write(gateway).await;
                }
                tokio::time::sleep(pause).await;
            }
        }));
        tasks
    }

    /// Waits until the object was read and written some more.
    pub fn more(&self, what: &str) {
        let count = || (self.reads.load(Ordering::SeqCst), self.writes.load(Ordering::SeqCst));
        let from = count();
        eventually_blocking(what, || count().0 > from.0 + 20 && count().1 > from.1);
    }

    /// Has the writer avoid a gateway from now on. Returns when it has written through the other one.
    pub fn avoid(&self, gateway: Option<&str>) {
        *self.avoided.lock().unwrap() = gateway.map(str::to_owned);
        self.written("nothing is written through the gateway any more");
    }

    /// Waits until the object was written two more times.
    pub fn written(&self, what: &str) {
        let from = self.writes.load(Ordering::SeqCst);
        eventually_blocking(what, || self.writes.load(Ordering::SeqCst) > from + 1);
    }

    /// Ends the workers. The last write is read through both gateways.
    pub async fn end(&self, workers: Vec<JoinHandle<()>>) {
        self.is_over.store(true, Ordering::SeqCst);
        for worker in workers {
            worker.await.unwrap();
        }
        for gateway in GATEWAYS {
            while !self.read(gateway).await {}
        }
    }
}
