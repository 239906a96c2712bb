//! The cache of a gateway to Ceph: its lease, and changes that are not answered.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::future::{self, BoxFuture, FutureExt};
use nacre_clock::{Clock, ManualClock};
use nacre_conformance::wait::eventually;
use nacre_conformance::{MemoryStore, TestClasses};
use nacre_object::{Error, Layer, Op, OpResult, Reply, Request, Result, Stack, Store, TargetName};
use nacre_slo::{NodeSlo, OneTarget};

use super::{CacheDivision, CacheLayer, CacheSettings, NodeCache};

/// A store that answers only reads while it is silent.
#[derive(Debug)]
struct Silent {
    next: Stack,
    is_silent: Arc<AtomicBool>,
}

impl Layer for Silent {
    fn next(&self) -> &Stack {
        &self.next
    }

    fn submit(&self, request: Request) -> BoxFuture<'_, Result<Reply>> {
        let is_read = matches!(request.ops.as_slice(), [Op::Read { .. }]);
        match is_read || !self.is_silent.load(Ordering::SeqCst) {
            true => self.next.submit(request),
            false => future::err(Error::unavailable("the cluster does not answer")).boxed(),
        }
    }
}

/// A gateway that caches.
struct Fixture {
    clock: Arc<ManualClock>,
    caches: Arc<NodeCache>,
    is_silent: Arc<AtomicBool>,
    stack: Stack,
}

impl Fixture {
    fn new() -> Self {
        let (clock, is_silent) = (Arc::new(ManualClock::default()), Arc::<AtomicBool>::default());
        let (name, own): (TargetName, Arc<dyn Clock>) =
            ("gateway.0".parse().unwrap(), clock.clone());
        let slo = NodeSlo::new(OneTarget(name.clone()), Arc::clone(&own));
        let caches = NodeCache::of_gateway(name, slo, own).unwrap();
        let (pools, division) = (vec!["data".to_owned()], CacheDivision::Shared);
        caches.apply(1, Some(CacheSettings { pools, bytes: 16 << 20, division })).unwrap();
        let memory = MemoryStore::new(Arc::new(TestClasses), clock.clone());
        let stack = Stack::new(memory)
            .wrapped_by(|next| Silent { next, is_silent: Arc::clone(&is_silent) })
            .wrapped_by(|next| CacheLayer::new(next, Arc::clone(&caches)));
        Self { clock, caches, is_silent, stack }
    }

    fn lease_for(&self, time: Duration) {
        self.caches.lease().unwrap().lasts_until(self.clock.monotonic() + time);
    }

    async fn ask(&self, op: Op) -> Result<Vec<OpResult>> {
        let request = Request::new("data/a".parse().unwrap(), vec![op]).unwrap();
        Ok(self.stack.submit(request).await?.results)
    }

    async fn write(&self, text: &'static str) -> Result<()> {
        self.ask(Op::Write { offset: 0, data: Bytes::from(text) }).await.map(drop)
    }

    /// Whether the cache answers a read, which must return this text.
    async fn is_hit(&self, text: &'static str) -> bool {
        let before = self.hits();
        let read = self.ask(Op::Read { offset: 0, length: 9 }).await.unwrap();
        assert_eq!(read, [OpResult::Data(Bytes::from(text))]);
        self.hits() > before
    }

    fn hits(&self) -> u64 {
        self.caches.report().tenants.iter().map(|tenant| tenant.hits).sum()
    }
}

#[tokio::test]
async fn a_gateway_answers_reads_from_its_cache_only_while_it_has_the_lease() {
    let at = Fixture::new();
    at.write("one").await.unwrap();
    assert!(!at.is_hit("one").await && !at.is_hit("one").await, "it was never the router");
    at.lease_for(Duration::from_secs(4));
    assert!(at.is_hit("one").await);
    at.clock.advance(Duration::from_secs(4));
    assert!(!at.is_hit("one").await, "another gateway may route by now");
    at.lease_for(Duration::from_secs(4));
    assert!(at.is_hit("one").await);
}

#[tokio::test(start_paused = true)]
async fn an_object_is_not_cached_while_a_change_without_an_answer_may_still_happen() {
    let at = Fixture::new();
    at.lease_for(Duration::from_secs(4));
    at.write("one").await.unwrap();
    assert!(!at.is_hit("one").await && at.is_hit("one").await);
    at.is_silent.store(true, Ordering::SeqCst);
    at.write("two").await.unwrap_err();
    for _ in 0..3 {
        assert!(!at.is_hit("one").await, "the change may happen at any time");
        tokio::time::sleep(Duration::from_secs(60)).await;
    }
    at.is_silent.store(false, Ordering::SeqCst);
    eventually("the cluster answers, and the object is cached again", async || {
        at.is_hit("one").await
    })
    .await;
}
