//! Shares reads of system objects among concurrent callers.
//!
//! When a map changes, all its watchers in this process read the same part of the map, and then the
//! same program's source. Callers that ask while such a read is in flight do not get its result.
//! All of them together share one *next* read.
//!
//! **Invariant:** a read begins only after all callers that share it have asked. So no caller gets
//! a state that is older than its request.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nacre_object::{ClassHost, ObjectId, Op, PoolName, Reply, Request, Result};
use tokio::sync::OnceCell;

/// The reads that are asked for now.
#[derive(Debug, Default)]
pub struct SharedReads {
    lines: Mutex<HashMap<ObjectId, Vec<Arc<Line>>>>,
}

/// Callers with the same request. It exists as long as it has callers.
#[derive(Debug)]
struct Line {
    request: Request,
    /// One read at a time.
    turn: tokio::sync::Mutex<()>,
    /// The read that has not begun.
    next: Mutex<Arc<Round>>,
}

/// One read and its result.
type Round = OnceCell<Result<Reply>>;

/// Whether several callers may share a request: it reads a system object and changes nothing. Many
/// callers at once seldom read the same user object, so sharing would only make such requests
/// slower.
pub fn is_shared(request: &Request, classes: &dyn ClassHost) -> bool {
    let only_reads = |op: &Op| match op {
        Op::Call(call) => classes.is_read_only(call),
        op => !op.is_write(),
    };
    request.header.object.pool == PoolName::system() && request.ops.iter().all(only_reads)
}

impl SharedReads {
    /// Returns the reply to a request. Concurrent callers with the same request share one `read`.
    ///
    /// # Errors
    /// The errors of `read`.
    pub async fn read(
        &self,
        request: &Request,
        read: impl Future<Output = Result<Reply>>,
    ) -> Result<Reply> {
        let asked = Asked { shared: self, line: self.line(request) };
        let line = &asked.line;
        let round = line.round();
        // If the caller that began the read is gone, another caller of the line does it.
        let reading = round.get_or_init(|| async {
            let _turn = line.turn.lock().await;
            line.begin(&round);
            read.await
        });
        reading.await.clone()
    }

    fn line(&self, request: &Request) -> Arc<Line> {
        let mut lines = self.lines();
        let of_object = lines.entry(request.header.object.clone()).or_default();
        if let Some(line) = of_object.iter().find(|line| line.request == *request) {
            return line.clone();
        }
        let (turn, next) = Default::default();
        let line = Arc::new(Line { request: request.clone(), turn, next });
        of_object.push(line.clone());
        line
    }

    fn lines(&self) -> MutexGuard<'_, HashMap<ObjectId, Vec<Arc<Line>>>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A caller in a line. The line is removed with its last caller.
struct Asked<'a> {
    shared: &'a SharedReads,
    line: Arc<Line>,
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        let object = &self.line.request.header.object;
        let mut lines = self.shared.lines();
        let Some(of_object) = lines.get_mut(object) else { return };
        // Callers join the waiting line of a request only while they hold this lock. A count of two
        // means that only the table and this caller refer to the line. Nobody else waits in it
        // then, so remove it.
        of_object.retain(|line| !Arc::ptr_eq(line, &self.line) || Arc::strong_count(line) > 2);
        if of_object.is_empty() {
            lines.remove(object);
        }
    }
}

impl Line {
    fn round(&self) -> Arc<Round> {
        self.next.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Later callers join the next round.
    fn begin(&self, round: &Arc<Round>) {
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        if Arc::ptr_eq(&next, round) {
            *next = Arc::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use futures::future::{join, join_all};
    use nacre_object::OpResult;
    use tokio::sync::Semaphore;

    use super::*;

    /// A simulated store of one number. A read waits for a permit, and then returns the number as a
    /// version.
    #[derive(Default)]
    struct Source {
        number: AtomicU64,
        reads: AtomicU64,
    }

    impl Source {
        async fn read(&self, permits: &Semaphore) -> Result<Reply> {
            self.reads.fetch_add(1, Ordering::Relaxed);
            let version = self.number.load(Ordering::Relaxed);
            permits.acquire().await.unwrap().forget();
            Ok(Reply { version, results: vec![OpResult::Done] })
        }
    }

    fn request(name: &str) -> Request {
        let object = ObjectId::new(PoolName::system(), name.parse().unwrap());
        Request::new(object, vec![Op::Stat]).unwrap()
    }

    #[tokio::test]
    async fn callers_during_a_read_share_the_next_read() {
        let (shared, source, permits) =
            (SharedReads::default(), Source::default(), Semaphore::new(0));
        let request = request("map/a");
        let ask = || shared.read(&request, source.read(&permits));
        let mut first = std::pin::pin!(ask());
        assert!(futures::poll!(&mut first).is_pending());
        source.number.store(7, Ordering::Relaxed);
        let mut later = std::pin::pin!(join_all((0..10).map(|_| ask())));
        assert!(futures::poll!(&mut later).is_pending());
        permits.add_permits(2);
        let (first, later) = join(first, later).await;
        assert_eq!(first.unwrap().version, 0);
        assert!(later.into_iter().all(|reply| reply.unwrap().version == 7));
        assert_eq!(source.reads.load(Ordering::Relaxed), 2);
        assert!(shared.lines().is_empty());
    }

    #[tokio::test]
    async fn a_shared_read_goes_on_if_the_caller_that_began_it_is_gone() {
        let (shared, source, permits) =
            (SharedReads::default(), Source::default(), Semaphore::new(0));
        let request = request("map/a");
        let ask = || shared.read(&request, source.read(&permits));
        let mut first = Box::pin(ask());
        assert!(futures::poll!(&mut first).is_pending());
        let mut second = std::pin::pin!(ask());
        assert!(futures::poll!(&mut second).is_pending());
        drop(first);
        permits.add_permits(1);
        assert_eq!(second.await.unwrap().version, 0);
        assert!(shared.lines().is_empty());
    }

    #[tokio::test]
    async fn requests_that_differ_do_not_wait_for_each_other() {
        let (shared, source, permits) =
            (SharedReads::default(), Source::default(), Semaphore::new(0));
        let (one, other) = (request("map/a"), request("map/b"));
        let mut held = std::pin::pin!(shared.read(&one, source.read(&permits)));
        assert!(futures::poll!(&mut held).is_pending());
        let free = Semaphore::new(1);
        shared.read(&other, source.read(&free)).await.unwrap();
        permits.add_permits(1);
        held.await.unwrap();
    }
}
