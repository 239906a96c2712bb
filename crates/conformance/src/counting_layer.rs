//! A layer that counts the transactions and watches that pass it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures::future::{BoxFuture, FutureExt};
use nacre_object::{Layer, ObjectId, Reply, Request, Result, Stack, Store, Watch, WatchStream};

/// The counts of a [`CountingLayer`]. Clones are handles of the same counts.
#[derive(Debug, Clone, Default)]
pub struct Passed(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    transactions: AtomicU64,
    watches: AtomicU64,
}

impl Passed {
    /// Transactions that were submitted.
    pub fn transactions(&self) -> u64 {
        self.0.transactions.load(Ordering::Relaxed)
    }

    /// Watches that were begun.
    pub fn watches(&self) -> u64 {
        self.0.watches.load(Ordering::Relaxed)
    }
}

/// The layer.
#[derive(Debug)]
pub struct CountingLayer(pub Stack, pub Passed);

impl Layer for CountingLayer {
    fn next(&self) -> &Stack {
        &self.0
    }

    fn submit(&self, request: Request) -> BoxFuture<'_, Result<Reply>> {
        // A future that is never polled does nothing, so it is not counted.
        let submit = async move {
            self.1.0.transactions.fetch_add(1, Ordering::Relaxed);
            self.0.submit(request).await
        };
        submit.boxed()
    }

    fn watch<'a>(&'a self, object: &'a ObjectId) -> BoxFuture<'a, Result<WatchStream>> {
        let watch = async move {
            self.1.0.watches.fetch_add(1, Ordering::Relaxed);
            self.0.watch(object).await
        };
        watch.boxed()
    }
}
