//! `CacheLayer`: answers reads from the caches of a node, and notices changes.
//!
//! A read is answered from the cache if all its bytes, and the version of the object, are there in
//! the present generation. Otherwise it goes to the store below. Before that, it is extended to
//! whole blocks, so that the reply fills the cache.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use futures::future::{BoxFuture, FutureExt};
use nacre_object::limits::MAX_OBJECT_BYTES;
use nacre_object::{
    Layer, ObjectId, ObjectStat, Op, OpResult, Reply, Request, Result, Stack, Store,
};

use super::block::{BLOCK_BYTES, MAX_CACHED_BYTES, MAX_READ_BLOCKS, ReturnedBytes};
use super::blocks::{Block, CachedObject, VersionEntry};
use super::changes::{Changes, Generation, ObjectHash, Part, Touched};
use super::node_cache::{Answered, NodeCache, TenantCache};
use crate::completed::Completed;
use crate::late_changes::LateChanges;

/// The layer.
#[derive(Debug)]
pub struct CacheLayer {
    next: Stack,
    caches: Arc<NodeCache>,
}

/// A read that the cache may answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct CachedRead {
    offset: u64,
    length: u64,
    /// Whether a `stat` follows it in the request.
    with_stat: bool,
}

impl CachedRead {
    /// The read that a request consists of. `None` if the request does anything else.
    fn of(request: &Request) -> Option<Self> {
        let (read, with_stat) = match request.ops.as_slice() {
            [read] => (read, false),
            [read, Op::Stat] => (read, true),
            _ => return None,
        };
        let Op::Read { offset, length } = read else { return None };
        let is_cached = request.header.snapshot.is_none() && *length > 0;
        is_cached.then_some(Self { offset: *offset, length: *length, with_stat })
    }

    fn end(self) -> u64 {
        self.offset.saturating_add(self.length)
    }

    /// The same bytes and the rest of their first and last block. A long read is not extended. It
    /// fills the cache only if the stream turns out to be short.
    fn extended(self) -> Self {
        let end = self.end();
        if self.length > MAX_CACHED_BYTES || end > MAX_OBJECT_BYTES {
            return self;
        }
        let offset = self.offset / BLOCK_BYTES * BLOCK_BYTES;
        let length = end.div_ceil(BLOCK_BYTES) * BLOCK_BYTES - offset;
        Self { offset, length, ..self }
    }

    /// The answer of the store to a request for this read.
    fn answer(self, reply: &Reply) -> Option<(Bytes, Option<ObjectStat>)> {
        match (reply.results.as_slice(), self.with_stat) {
            ([OpResult::Data(data)], false) => Some((data.clone(), None)),
            ([OpResult::Data(data), OpResult::Stat(stat)], true) => {
                Some((data.clone(), Some(*stat)))
            }
            _ => None,
        }
    }
}

/// The generations of an object from before a read of it.
#[derive(Debug)]
struct SeenGenerations {
    version: Generation,
    stream: Generation,
    /// The first block of the read, and the generations of this block and those that follow it.
    first: u64,
    blocks: Vec<Generation>,
}

impl SeenGenerations {
    /// `None` if a change is in flight. A long read gets the generations of as many blocks as the
    /// cache keeps of one read.
    fn of(changes: &Changes, object: ObjectHash, read: CachedRead) -> Option<Self> {
        let (first, last) = (read.offset / BLOCK_BYTES, (read.end() - 1) / BLOCK_BYTES);
        let last = last.min(first.saturating_add(MAX_READ_BLOCKS - 1));
        let generation = |part| changes.generation(object, part);
        Some(Self {
            version: generation(Part::Version)?,
            stream: generation(Part::Stream)?,
            first,
            blocks: (first..=last)
                .map(|block| generation(Part::Block(block)))
                .collect::<Option<_>>()?,
        })
    }

    fn is_unchanged(&self, changes: &Changes, object: ObjectHash) -> bool {
        let blocks = (self.first..).map(Part::Block).zip(&self.blocks);
        changes.is_unchanged(object, Part::Version, self.version)
            && changes.is_unchanged(object, Part::Stream, self.stream)
            && blocks.into_iter().all(|(part, of)| changes.is_unchanged(object, part, *of))
    }
}

impl CacheLayer {
    /// The layer before `next`.
    pub fn new(next: Stack, caches: Arc<NodeCache>) -> Self {
        Self { next, caches }
    }

    async fn read(&self, request: Request, read: CachedRead, cache: TenantCache) -> Result<Reply> {
        let hash = self.caches.changes.hash(&request.header.object);
        let object = CachedObject { hash, id: &request.header.object };
        if let Some((data, entry)) = self.found(object, read, &cache)
            && self.caches.may_answer()
        {
            cache.count(hash, read.offset, data.len() as u64, Answered::ByCache);
            let stat = entry.stat.filter(|_| read.with_stat).map(OpResult::Stat);
            let results = [OpResult::Data(data)].into_iter().chain(stat).collect();
            return Ok(Reply { version: entry.version, results });
        }
        let sent = read.extended();
        let Some(before) = SeenGenerations::of(&self.caches.changes, hash, sent) else {
            // The object is being changed, so the reply must not be kept.
            let reply = self.next.submit(request).await?;
            let length = read.answer(&reply).map_or(0, |(data, _)| data.len());
            cache.count(hash, read.offset, length as u64, Answered::ByEngine);
            return Ok(reply);
        };
        let id = Arc::new(request.header.object.clone());
        let mut reply = self.next.submit(with_read(request, sent)).await?;
        let Some((data, stat)) = sent.answer(&reply) else { return Ok(reply) };
        if before.is_unchanged(&self.caches.changes, hash) {
            let entry = VersionEntry { generation: before.version, version: reply.version, stat };
            keep(&cache, hash, &id, &before, (sent, &data), entry);
        }
        let data = cut(&data, sent.offset, read);
        cache.count(hash, read.offset, data.len() as u64, Answered::ByEngine);
        reply.results[0] = OpResult::Data(data);
        Ok(reply)
    }

    /// The bytes of a read, if the cache has them all. They are the present bytes: no change of any
    /// of them began or ended between the two times at which their generations are compared.
    fn found(
        &self,
        object: CachedObject<'_>,
        read: CachedRead,
        cache: &TenantCache,
    ) -> Option<(Bytes, VersionEntry)> {
        let changes = &self.caches.changes;
        let generation = |part| changes.generation(object.hash, part);
        let (version, stream) = (generation(Part::Version)?, generation(Part::Stream)?);
        let entry = cache.blocks.version(object).filter(|entry| entry.generation == version)?;
        if read.with_stat && entry.stat.is_none() {
            return None;
        }
        let first = read.offset / BLOCK_BYTES;
        let (mut blocks, mut pieces) = (vec![], vec![]);
        for number in first..=(read.end() - 1) / BLOCK_BYTES {
            if blocks.len() as u64 == MAX_READ_BLOCKS {
                return None;
            }
            let now = generation(Part::Block(number))?;
            let block = cache.blocks.block(object, number)?;
            let is_end = block.end.is_some();
            if block.stream != stream
                || block.block != now
                || block.end.is_some_and(|at| at != version)
            {
                return None;
            }
            blocks.push(now);
            pieces.push(cut(&block.bytes, number * BLOCK_BYTES, read));
            if is_end {
                break;
            }
        }
        let seen = SeenGenerations { version, stream, first, blocks };
        seen.is_unchanged(changes, object.hash).then(|| (joined(pieces), entry))
    }

    /// Sends a change to the store below. It runs to its end even if nobody waits for it any more:
    /// only then is it known that the store will not apply it later. If the process is about to end,
    /// the change stays in flight, and its object is not cached any more. So does a change that Ceph
    /// may still carry out although it was answered.
    fn change(&self, request: Request, touched: Touched) -> BoxFuture<'_, Result<Reply>> {
        let (next, caches) = (self.next.clone(), Arc::clone(&self.caches));
        let running = async move {
            let object = caches.changes.hash(&request.header.object);
            let known = caches.blocks_for(&request).and_then(|(_, blocks)| {
                let id = &request.header.object;
                blocks.version(CachedObject { hash: object, id })?;
                Some((blocks, Arc::new(id.clone())))
            });
            let begun = caches.changes.begin(object, &touched);
            let late =
                caches.late_changes().map(|late| (late.clone(), request.header.object.clone()));
            let reply = next.submit(request).await;
            if let Some((late, id)) = late
                && LateChanges::may_happen(&reply)
            {
                tokio::spawn(async move {
                    late.settled(&next, &id).await;
                    caches.changes.end(object, &touched, begun);
                });
                return reply;
            }
            let generation = caches.changes.end(object, &touched, begun);
            // Without this, the next read would have to ask for the version.
            if let (Some((blocks, id)), Some(generation), Ok(reply)) = (known, generation, &reply) {
                let entry = VersionEntry { generation, version: reply.version, stat: None };
                blocks.put_version(object, &id, entry);
            }
            reply
        };
        Completed::of(running).boxed()
    }
}

/// Keeps what a reply shows of the stream.
fn keep(
    cache: &TenantCache,
    hash: ObjectHash,
    object: &Arc<ObjectId>,
    before: &SeenGenerations,
    (sent, data): (CachedRead, &Bytes),
    entry: VersionEntry,
) {
    let returned =
        ReturnedBytes { offset: sent.offset, asked: sent.length, length: data.len() as u64 };
    if returned.length > MAX_CACHED_BYTES + 2 * BLOCK_BYTES {
        return;
    }
    for block in returned.blocks() {
        let at = block.number.checked_sub(before.first).map(|at| at as usize);
        let Some(generation) = at.and_then(|at| before.blocks.get(at)) else { break };
        let kept = Block {
            // A copy, because a part of the reply would keep the whole reply in memory.
            bytes: Bytes::copy_from_slice(&data[block.bytes]),
            stream: before.stream,
            block: *generation,
            end: block.is_end.then_some(before.version),
        };
        cache.blocks.put_block(hash, object, block.number, kept);
    }
    let known = cache.blocks.version(CachedObject { hash, id: object });
    let is_better = known.is_none_or(|known| {
        known.generation != entry.generation || known.stat.is_none() && entry.stat.is_some()
    });
    if is_better {
        cache.blocks.put_version(hash, object, entry);
    }
}

/// The request with other bytes to read.
fn with_read(mut request: Request, read: CachedRead) -> Request {
    request.ops[0] = Op::Read { offset: read.offset, length: read.length };
    request.header.range.offset = read.offset;
    request.header.range.length = read.length;
    request
}

/// The bytes of a read among those from `offset` on.
fn cut(data: &Bytes, offset: u64, read: CachedRead) -> Bytes {
    let at = |place: u64| (place.saturating_sub(offset)).min(data.len() as u64) as usize;
    data.slice(at(read.offset)..at(read.end()))
}

fn joined(mut pieces: Vec<Bytes>) -> Bytes {
    if pieces.len() == 1 {
        return pieces.remove(0);
    }
    let mut all = BytesMut::with_capacity(pieces.iter().map(Bytes::len).sum());
    pieces.iter().for_each(|piece| all.extend_from_slice(piece));
    all.freeze()
}

impl Layer for CacheLayer {
    fn next(&self) -> &Stack {
        &self.next
    }

    fn submit(&self, request: Request) -> BoxFuture<'_, Result<Reply>> {
        // Nodes read maps through classes, and routed bytes belong to objects of other pools.
        if request.header.object.pool.is_own() {
            return self.next.submit(request);
        }
        // Changes are noticed even while the caches are off. So they can be turned on at any time.
        if let Some(touched) = Touched::by(&request.ops) {
            return self.change(request, touched);
        }
        match CachedRead::of(&request).and_then(|read| Some((read, self.caches.of(&request)?))) {
            Some((read, cache)) => self.read(request, read, cache).boxed(),
            None => self.next.submit(request),
        }
    }
}
