//! The cache layer over the store that specifies all stores, and over one that answers late.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use futures::future::{BoxFuture, FutureExt};
use nacre_clock::{Clock, ManualClock, Random, SystemClock};
use nacre_conformance::histories::{ObjectModel, check};
use nacre_conformance::wait::{eventually, within_deadline};
use nacre_conformance::workloads::use_object;
use nacre_conformance::{
    CountingLayer, MemoryStore, Passed, Subject, TestClasses, compare, run_all, seeds,
};
use nacre_object::{
    ClassCall, Layer, Op, OpResult, Reply, Request, Result, Stack, Store, TargetName, TenantName,
};
use nacre_slo::{NodeSlo, OneTarget};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use super::block::{BLOCK_BYTES, MAX_CACHED_BYTES};
use super::node_cache::MAX_TENANTS;
use super::{CacheDivision, CacheLayer, CacheSettings, NodeCache, OTHER_TENANTS};

const MIB: u64 = 1 << 20;

fn settings(bytes: u64, shares: &[(&str, u64)]) -> CacheSettings {
    let pools = ["conformance", "data"].map(str::to_owned).to_vec();
    let shares = shares.iter().map(|(name, bytes)| ((*name).to_owned(), *bytes)).collect();
    CacheSettings { pools, bytes, division: CacheDivision::Shares(shares) }
}

fn caches() -> Arc<NodeCache> {
    let target: TargetName = "storage.0".parse().unwrap();
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
    let caches = NodeCache::new(target.clone(), NodeSlo::new(OneTarget(target), clock)).unwrap();
    caches.apply(1, Some(settings(16 * MIB, &[]))).unwrap();
    caches
}

fn memory() -> MemoryStore {
    MemoryStore::new(Arc::new(TestClasses), Arc::new(ManualClock::default()))
}

/// A cached store, its caches, and what passes to the store below.
fn cached() -> (Stack, Arc<NodeCache>, Passed) {
    let (caches, passed) = (caches(), Passed::default());
    let stack = Stack::new(memory())
        .wrapped_by(|next| CountingLayer(next, passed.clone()))
        .wrapped_by(|next| CacheLayer::new(next, Arc::clone(&caches)));
    (stack, caches, passed)
}

fn request(object: &str, ops: Vec<Op>) -> Request {
    Request::new(object.parse().unwrap(), ops).unwrap()
}

fn of_tenant(tenant: &str, mut request: Request) -> Request {
    request.header.tenant = tenant.parse().unwrap();
    request
}

fn read(offset: u64, length: u64) -> Op {
    Op::Read { offset, length }
}

fn write(offset: u64, data: &[u8]) -> Op {
    Op::Write { offset, data: Bytes::copy_from_slice(data) }
}

fn hits(caches: &NodeCache) -> u64 {
    caches.report().tenants.iter().map(|tenant| tenant.hits).sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cached_store_conforms() {
    let (stack, caches, _) = cached();
    run_all(&Subject::watched(Arc::new(stack))).await;
    assert!(hits(&caches) > 0, "the suite reads something twice");
}

#[tokio::test(flavor = "multi_thread")]
async fn random_transactions_on_a_cached_store_have_the_effect_the_model_predicts() {
    let (stack, caches, _) = cached();
    let subject = Subject::watched(Arc::new(stack));
    for seed in seeds(30) {
        compare(&subject, seed, 100).await;
    }
    assert!(hits(&caches) > 0);
}

/// A random request, mostly a read. Its bytes lie near the borders of blocks.
fn random_request(random: &mut Random) -> Request {
    let object = format!("data/{}", random.below(2));
    let near = |random: &mut Random, most: u64| {
        let border = random.below(most + 1) * BLOCK_BYTES;
        (border + random.below(3)).saturating_sub(random.below(3))
    };
    let offset = near(random, 6);
    let length = match random.below(8) {
        0 => u64::MAX,
        1 => MAX_CACHED_BYTES + random.below(2),
        2 => random.below(3),
        _ => near(random, 3),
    };
    let byte = random.next_u64() as u8;
    let data = Bytes::from(vec![byte; near(random, 3) as usize]);
    let call = |method: &str| {
        let (class, method) = (TestClasses::CLASS.parse().unwrap(), method.parse().unwrap());
        Op::Call(ClassCall { class, method, version: None, input: Bytes::from_static(b"x") })
    };
    let snapshot = || "s".parse().unwrap();
    let ops = match random.below(40) {
        0 => vec![Op::Write { offset, data }],
        1 => vec![Op::Append { data }],
        2 => vec![Op::WriteFull { data }],
        3 => vec![Op::Truncate { size: offset }],
        4 => vec![Op::Zero { offset, length: length.min(1 << 30) }],
        5 => vec![Op::Remove],
        6 => {
            vec![Op::SetAttribute { name: "a".to_owned(), value: data.slice(..data.len().min(9)) }]
        }
        7 => vec![call("append"), Op::Stat],
        8 => vec![Op::SnapshotCreate { snapshot: snapshot() }],
        9 => vec![Op::SnapshotRemove { snapshot: snapshot() }],
        10 => vec![Op::Rollback { snapshot: snapshot() }],
        11 => vec![Op::Write { offset, data }, read(offset, length), Op::Stat],
        12 => vec![Op::Write { offset, data }, Op::AssertAbsent],
        13 => vec![Op::Create { exclusive: false }],
        14..=22 => vec![read(offset, length), Op::Stat],
        23 => return request(&object, vec![read(offset, length)]).at_snapshot(snapshot()),
        _ => vec![read(offset, length)],
    };
    request(&object, ops)
}

#[tokio::test]
async fn a_cached_store_answers_everything_as_the_store_alone() {
    let mut total = 0;
    for seed in seeds(60) {
        let mut random = Random::seeded(seed);
        let (stack, caches, _) = cached();
        let plain = memory();
        for step in 0..400 {
            let request = random_request(&mut random);
            let expected = plain.submit(request.clone()).await;
            let found = stack.submit(request.clone()).await;
            let text = |reply: &Result<Reply>| match reply {
                Ok(reply) => format!("{reply:?}"),
                Err(error) => format!("{:?} {:?} {error}", error.kind(), error.operation()),
            };
            let (found, expected) = (text(&found), text(&expected));
            assert!(found == expected, "seed {seed}, step {step}: {:?}", request.ops);
        }
        total += hits(&caches);
    }
    assert!(total > 1000, "only {total} reads were answered by the cache");
}

#[tokio::test]
async fn a_read_that_was_read_before_does_not_reach_the_store() {
    let (stack, caches, passed) = cached();
    let data: Vec<u8> = (0..3 * BLOCK_BYTES + 100).map(|byte| byte as u8).collect();
    stack.submit(request("data/a", vec![write(0, &data)])).await.unwrap();
    let ask = async |offset: u64, length: u64| {
        let reply = stack.submit(request("data/a", vec![read(offset, length)])).await.unwrap();
        let [OpResult::Data(found)] = &reply.results[..] else { panic!("{reply:?}") };
        let end = (offset + length).min(data.len() as u64) as usize;
        assert_eq!(found[..], data[(offset as usize).min(end)..end]);
        reply.version
    };
    let version = ask(10, BLOCK_BYTES).await;
    let before = passed.transactions();
    for (offset, length) in [(0, 1), (BLOCK_BYTES, BLOCK_BYTES), (77, 2 * BLOCK_BYTES - 77)] {
        assert_eq!(ask(offset, length).await, version);
    }
    assert_eq!((passed.transactions(), hits(&caches)), (before, 3), "whole blocks were read");
    ask(2 * BLOCK_BYTES, 1 << 30).await;
    let before = passed.transactions();
    ask(0, 1 << 30).await;
    ask(100 * BLOCK_BYTES, 1).await;
    assert_eq!(passed.transactions(), before + 1, "the stream ends, as the cache knows");

    // A write of one block leaves the others, and tells the version.
    stack
        .submit(request("data/a", vec![write(BLOCK_BYTES, &data[BLOCK_BYTES as usize..][..9])]))
        .await
        .unwrap();
    let before = passed.transactions();
    assert!(ask(0, 9).await > version);
    assert_eq!(passed.transactions(), before, "block 0 did not change");
    ask(BLOCK_BYTES, 9).await;
    assert_eq!(passed.transactions(), before + 1, "block 1 did");
}

/// A layer that holds replies back until it is told to let them go.
#[derive(Debug)]
struct Late {
    next: Stack,
    held: Arc<PausedReplies>,
}

/// The replies that a [`Late`] layer holds back.
#[derive(Debug)]
struct PausedReplies {
    /// How many replies to reads may go, and how many to changes.
    reads: Semaphore,
    changes: Semaphore,
    /// How many requests the store below has carried out.
    done: AtomicU64,
}

impl PausedReplies {
    async fn until_done(&self, count: u64) {
        eventually("the store has the request", async || self.done() == count).await;
    }

    fn done(&self) -> u64 {
        self.done.load(Ordering::SeqCst)
    }
}

impl Layer for Late {
    fn next(&self) -> &Stack {
        &self.next
    }

    fn submit(&self, request: Request) -> BoxFuture<'_, Result<Reply>> {
        async move {
            let is_change = request.ops.iter().any(Op::is_write);
            let reply = self.next.submit(request).await;
            self.held.done.fetch_add(1, Ordering::SeqCst);
            let gate = if is_change { &self.held.changes } else { &self.held.reads };
            gate.acquire().await.unwrap().forget();
            reply
        }
        .boxed()
    }
}

/// A cached store whose replies are held back below the cache.
fn late() -> (Stack, Arc<PausedReplies>) {
    let (reads, changes) = (Semaphore::new(0), Semaphore::new(0));
    let held = Arc::new(PausedReplies { reads, changes, done: AtomicU64::new(0) });
    let of_layer = Arc::clone(&held);
    let stack = Stack::new(memory())
        .wrapped_by(|next| Late { next, held: of_layer })
        .wrapped_by(|next| CacheLayer::new(next, caches()));
    (stack, held)
}

fn sent(stack: &Stack, ops: Vec<Op>) -> JoinHandle<Result<Reply>> {
    let stack = stack.clone();
    tokio::spawn(async move { stack.submit(request("data/a", ops)).await })
}

fn data(reply: Result<Reply>) -> Bytes {
    match reply.unwrap().results.remove(0) {
        OpResult::Data(data) => data,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_read_does_not_bring_back_bytes_from_before_a_write() {
    let (stack, held) = late();
    held.changes.add_permits(2);
    sent(&stack, vec![write(0, b"old")]).await.unwrap().unwrap();
    // The store has answered the read, and the reply arrives after the write has ended.
    let slow = sent(&stack, vec![read(0, 9)]);
    held.until_done(2).await;
    sent(&stack, vec![write(0, b"new")]).await.unwrap().unwrap();
    held.reads.add_permits(1);
    assert_eq!(data(slow.await.unwrap()), "old");
    held.reads.add_permits(1);
    let next = within_deadline("a read", sent(&stack, vec![read(0, 9)])).await;
    assert_eq!(data(next.unwrap()), "new");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_that_nobody_waits_for_still_ends_and_invalidates() {
    let (stack, held) = late();
    held.changes.add_permits(1);
    held.reads.add_permits(1000);
    sent(&stack, vec![write(0, b"old")]).await.unwrap().unwrap();
    sent(&stack, vec![read(0, 9)]).await.unwrap().unwrap();
    let abandoned = sent(&stack, vec![write(0, b"new")]);
    held.until_done(3).await;
    abandoned.abort();
    assert!(abandoned.await.unwrap_err().is_cancelled());
    // Its reply is still held back: until the write has ended, the cache answers nothing.
    for done in 4..7 {
        assert_eq!(data(sent(&stack, vec![read(0, 9)]).await.unwrap()), "new");
        assert_eq!(held.done(), done);
    }
    held.changes.add_permits(1);
    eventually("the write has ended, so reads fill the cache again", async || {
        let before = held.done();
        assert_eq!(data(sent(&stack, vec![read(0, 9)]).await.unwrap()), "new");
        held.done() == before
    })
    .await;
}

/// A layer that lets other tasks run before and after each request, a random number of times.
#[derive(Debug)]
struct Yielding(Stack, AtomicU64);

impl Layer for Yielding {
    fn next(&self) -> &Stack {
        &self.0
    }

    fn submit(&self, request: Request) -> BoxFuture<'_, Result<Reply>> {
        let mut random = Random::seeded(self.1.fetch_add(1, Ordering::SeqCst));
        async move {
            for _ in 0..random.below(6) {
                tokio::task::yield_now().await;
            }
            let reply = self.0.submit(request).await;
            for _ in 0..random.below(6) {
                tokio::task::yield_now().await;
            }
            reply
        }
        .boxed()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn histories_of_concurrent_clients_of_a_cached_store_are_linearizable() {
    let caches = caches();
    let stack = Stack::new(memory())
        .wrapped_by(|next| Yielding(next, AtomicU64::new(7)))
        .wrapped_by(|next| CacheLayer::new(next, Arc::clone(&caches)));
    for seed in seeds(60) {
        let stores = vec![stack.as_store(); 4];
        let object = format!("data/seed-{seed}").parse().unwrap();
        let history = use_object(&stores, &object, seed, 30).await;
        check::<ObjectModel>(&history).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    }
    assert!(hits(&caches) > 0, "the cache answered nothing");
}

/// Two writers count up in two blocks each. Readers must never see a count below one that was
/// acknowledged before the read began, nor below one that they have seen.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_reads_of_several_blocks_see_every_acknowledged_write() {
    const BLOCKS: u64 = 4;
    const WRITES: u64 = 400;
    let caches = caches();
    let stack = Stack::new(memory())
        .wrapped_by(|next| Yielding(next, AtomicU64::new(1)))
        .wrapped_by(|next| CacheLayer::new(next, Arc::clone(&caches)));
    let whole = vec![0; (BLOCKS * BLOCK_BYTES) as usize];
    stack.submit(request("data/a", vec![write(0, &whole)])).await.unwrap();
    let acknowledged: Arc<Vec<AtomicU64>> =
        Arc::new((0..BLOCKS).map(|_| AtomicU64::new(0)).collect());
    let mut tasks = vec![];
    for block in 0..BLOCKS {
        let (stack, acknowledged) = (stack.clone(), Arc::clone(&acknowledged));
        tasks.push(tokio::spawn(async move {
            let mut random = Random::seeded(block);
            for count in 1..=WRITES {
                let place = block * BLOCK_BYTES;
                stack
                    .submit(request("data/a", vec![write(place, &count.to_le_bytes())]))
                    .await
                    .unwrap();
                acknowledged[block as usize].store(count, Ordering::SeqCst);
                for _ in 0..random.below(40) {
                    tokio::task::yield_now().await;
                }
            }
        }));
    }
    for reader in 0..3 {
        let (stack, acknowledged) = (stack.clone(), Arc::clone(&acknowledged));
        tasks.push(tokio::spawn(async move {
            let (mut random, mut seen) = (Random::seeded(90 + reader), [0; BLOCKS as usize]);
            while seen != [WRITES; BLOCKS as usize] {
                let first = random.below(BLOCKS);
                let blocks = 1 + random.below(BLOCKS - first);
                let least: Vec<_> =
                    acknowledged.iter().map(|count| count.load(Ordering::SeqCst)).collect();
                let op = read(first * BLOCK_BYTES, blocks * BLOCK_BYTES);
                let found = data(stack.submit(request("data/a", vec![op])).await);
                for block in first..first + blocks {
                    let at = ((block - first) * BLOCK_BYTES) as usize;
                    let count = u64::from_le_bytes(found[at..at + 8].try_into().unwrap());
                    let block = block as usize;
                    assert!(count >= least[block].max(seen[block]), "block {block} has {count}");
                    seen[block] = count;
                }
                tokio::task::yield_now().await;
            }
        }));
    }
    for task in tasks {
        within_deadline("writers and readers", task).await.unwrap();
    }
    assert!(hits(&caches) > 0, "the cache answered nothing");
}

#[tokio::test]
async fn each_tenant_has_its_share_and_the_others_use_the_rest() {
    let (stack, caches, passed) = cached();
    let shares = [("gold", 4 * MIB), ("none", 0)];
    caches.apply(2, Some(settings(8 * MIB, &shares))).unwrap();
    let bytes = vec![1; MIB as usize];
    for object in 0..3 {
        let object = format!("data/{object}");
        stack.submit(request(&object, vec![write(0, &bytes)])).await.unwrap();
    }
    let scan = async |tenant: &str| {
        for object in 0..3 {
            for block in 0..MIB / BLOCK_BYTES {
                let op = read(block * BLOCK_BYTES, BLOCK_BYTES);
                let one = of_tenant(tenant, request(&format!("data/{object}"), vec![op]));
                stack.submit(one).await.unwrap();
            }
        }
    };
    let misses = async |tenant: &str| {
        let before = passed.transactions();
        scan(tenant).await;
        passed.transactions() - before
    };
    scan("gold").await;
    assert_eq!(misses("gold").await, 0, "three MiB fit in four");
    assert_eq!(misses("none").await, 3 * MIB / BLOCK_BYTES);
    assert_eq!(misses("none").await, 3 * MIB / BLOCK_BYTES, "it has no cache");
    for tenant in 0..4 {
        scan(&format!("guest{tenant}")).await;
    }
    assert_eq!(misses("gold").await, 0, "nobody takes its memory");
    let used = |name: &str| {
        let report = caches.report();
        let cache = report.caches.iter().find(|cache| cache.cache == name).cloned().unwrap();
        assert!(cache.used_bytes <= cache.capacity_bytes);
        (cache.used_bytes, cache.capacity_bytes)
    };
    assert_eq!((used("gold").1, used("none"), used(OTHER_TENANTS).1), (4 * MIB, (0, 0), 4 * MIB));

    caches.apply(3, Some(settings(8 * MIB, &[("gold", 5 * MIB)]))).unwrap();
    assert_eq!(misses("gold").await, 0, "a larger cache keeps its blocks");
    caches.apply(4, Some(settings(8 * MIB, &[("gold", MIB)]))).unwrap();
    assert!(used("gold").0 <= MIB && used("gold").0 > MIB / 2, "a smaller one keeps what fits");
    assert!(misses("gold").await > 0);
    assert!(caches.apply(5, Some(settings(1, &[]))).is_err());
    assert_eq!(caches.report().epoch, 4, "wrong settings change nothing");
    caches.apply(6, None).unwrap();
    assert_eq!(misses("gold").await, 3 * MIB / BLOCK_BYTES, "caches are off");
    assert!(caches.report().caches.is_empty());
}

#[tokio::test]
async fn tenants_past_the_bound_are_counted_together() {
    let (stack, caches, _) = cached();
    stack.submit(request("data/a", vec![write(0, b"x")])).await.unwrap();
    for tenant in 0..MAX_TENANTS + 3 {
        let name: TenantName = format!("t{tenant}").parse().unwrap();
        let one = of_tenant(name.as_str(), request("data/a", vec![read(0, 1)]));
        stack.submit(one).await.unwrap();
    }
    let report = caches.report();
    assert_eq!(report.tenants.len(), MAX_TENANTS + 1);
    let others = report.tenants.iter().find(|tenant| tenant.tenant == OTHER_TENANTS).unwrap();
    assert_eq!(others.hits + others.misses, 3);
    for tenant in &report.tenants {
        tenant.demand().unwrap();
    }
}

#[tokio::test]
async fn objects_of_other_pools_are_not_cached() {
    let (stack, caches, passed) = cached();
    for pool in ["other", "nacre.routed", "nacre.system"] {
        let object = format!("{pool}/a");
        stack.submit(request(&object, vec![write(0, b"x")])).await.unwrap();
        let before = passed.transactions();
        for _ in 0..3 {
            stack.submit(request(&object, vec![read(0, 1)])).await.unwrap();
        }
        assert_eq!(passed.transactions(), before + 3, "{pool}");
    }
    assert_eq!(hits(&caches), 0);
}
