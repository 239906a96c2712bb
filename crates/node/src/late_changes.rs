//! `LateChanges`: changes that a Ceph cluster has not answered in time.
//!
//! The engine then fails with `Unavailable`, but the cluster may still carry the change out, for
//! example when a paused OSD goes on. Until it is certain that this cannot happen any more, the
//! object counts as changing: no read may be answered from a copy or a cache, because a later read
//! of the object itself could already see the change.
//!
//! An OSD carries out the operations of one client on one object in the order in which they were
//! sent. It discards those of a former connection of the client, and an OSD that replaces another
//! one knows what was carried out. So once the cluster has answered a later operation on the object,
//! the change has happened or never will.
//!
//! If the process ends meanwhile, nobody remembers the change. The next router shuts the former one
//! out of the cluster, and with it all its changes.

use std::sync::Arc;
use std::time::Duration;

use nacre_object::{ErrorKind, ObjectId, Reply, Result, Stack, Store};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

use crate::routes::background_stat;

/// How many objects are asked for at the same time, so that other requests find room in the engine.
const ASKED_AT_ONCE: usize = 4;
/// How long an OSD may take to answer. After that, other objects have their turn.
const ANSWER_TIME: Duration = Duration::from_secs(2);
/// Between two questions about an object.
const REST: Duration = Duration::from_millis(500);

/// The changes of one engine that may happen later.
#[derive(Debug, Clone)]
pub(crate) struct LateChanges {
    turns: Arc<Semaphore>,
}

impl Default for LateChanges {
    fn default() -> Self {
        Self { turns: Arc::new(Semaphore::new(ASKED_AT_ONCE)) }
    }
}

impl LateChanges {
    /// Whether a change with this reply may happen later.
    pub fn may_happen(reply: &Result<Reply>) -> bool {
        reply.as_ref().is_err_and(|error| error.kind() == ErrorKind::Unavailable)
    }

    /// Returns once no change of the object that was sent before can happen any more.
    pub async fn settled(&self, store: &Stack, object: &ObjectId) {
        loop {
            {
                // Nobody closes the semaphore.
                let _turn = self.turns.acquire().await;
                if is_answered(store, object).await {
                    return;
                }
            }
            sleep(REST).await;
        }
    }
}

/// Whether the cluster answers a question about the object. An error other than that there is no
/// object may come from a layer above the cluster.
async fn is_answered(store: &Stack, object: &ObjectId) -> bool {
    let Ok(request) = background_stat(object.clone()) else { return false };
    match timeout(ANSWER_TIME, store.submit(request)).await {
        Ok(Ok(_)) => true,
        Ok(Err(error)) => error.kind() == ErrorKind::NotFound,
        Err(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use futures::future::{self, BoxFuture, FutureExt};
    use nacre_clock::ManualClock;
    use nacre_conformance::{MemoryStore, TestClasses};
    use nacre_object::{Error, Layer, Request};

    use super::*;

    /// A store that does not answer the first requests.
    #[derive(Debug)]
    struct Silent {
        next: Stack,
        silences: Arc<AtomicU64>,
    }

    impl Layer for Silent {
        fn next(&self) -> &Stack {
            &self.next
        }

        fn submit(&self, request: Request) -> BoxFuture<'_, Result<Reply>> {
            let left = self
                .silences
                .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
            match left {
                Ok(_) => future::err(Error::unavailable("the cluster does not answer")).boxed(),
                Err(_) => self.next.submit(request),
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_change_is_settled_once_the_store_answers_even_that_there_is_no_object() {
        let silences = Arc::new(AtomicU64::new(3));
        let memory = MemoryStore::new(Arc::new(TestClasses), Arc::new(ManualClock::default()));
        let store = Stack::new(memory);
        let store = store.wrapped_by(|next| Silent { next, silences: Arc::clone(&silences) });
        LateChanges::default().settled(&store, &"data/absent".parse().unwrap()).await;
        assert_eq!(silences.load(Ordering::SeqCst), 0);
    }

    #[test]
    fn only_a_change_without_an_answer_may_happen_later() {
        assert!(LateChanges::may_happen(&Err(Error::unavailable("no answer"))));
        assert!(!LateChanges::may_happen(&Err(Error::conflict("refused"))));
        assert!(!LateChanges::may_happen(&Ok(Reply { version: 1, results: vec![] })));
    }
}
