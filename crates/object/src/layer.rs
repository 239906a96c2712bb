//! `Layer`: one step of the path that a request takes to an engine.
//!
//! A [`Stack`] is a store whose objects can be watched. A layer wraps a stack, and the two together
//! are a new stack. The layer overrides the methods it needs, and passes all other calls on.
//!
//! ```
//! # use nacre_object::{Layer, Reply, Request, Result, Stack, Store};
//! # use std::sync::atomic::{AtomicU64, Ordering};
//! # use futures::future::BoxFuture;
//! /// Counts transactions.
//! #[derive(Debug)]
//! struct Counting(Stack, AtomicU64);
//!
//! impl Layer for Counting {
//!     fn next(&self) -> &Stack {
//!         &self.0
//!     }
//!
//!     fn submit(&self, request: Request) -> BoxFuture<'_, Result<Reply>> {
//!         self.1.fetch_add(1, Ordering::Relaxed);
//!         self.0.submit(request)
//!     }
//! }
//! # fn f(engine: Stack) {
//! let stack = engine.wrapped_by(|next| Counting(next, AtomicU64::new(0)));
//! # }
//! ```

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::future::BoxFuture;

use crate::{
    Capabilities, Error, ListPage, ListRequest, ObjectId, Reply, Request, Result, Store, Watch,
    WatchStream,
};

/// A layer of a stack, see the [module](self). The methods are those of [`Store`] and [`Watch`].
pub trait Layer: Send + Sync + fmt::Debug + 'static {
    /// The stack that this layer wraps.
    fn next(&self) -> &Stack;

    /// See [`Store::submit`].
    fn submit(&self, request: Request) -> BoxFuture<'_, Result<Reply>> {
        self.next().submit(request)
    }

    /// See [`Store::list`].
    fn list(&self, request: ListRequest) -> BoxFuture<'_, Result<ListPage>> {
        self.next().list(request)
    }

    /// See [`Store::capabilities`].
    fn capabilities(&self) -> Capabilities {
        self.next().capabilities()
    }

    /// See [`Watch::watch`].
    fn watch<'a>(&'a self, object: &'a ObjectId) -> BoxFuture<'a, Result<WatchStream>> {
        self.next().watch(object)
    }

    /// See [`Watch::notify`].
    fn notify<'a>(&'a self, object: &'a ObjectId, payload: Bytes) -> BoxFuture<'a, Result<()>> {
        self.next().notify(object, payload)
    }
}

trait WatchedStore: Store + Watch {}

impl<S: Store + Watch> WatchedStore for S {}

/// A store whose objects can be watched: an engine or a remote node, with or without layers around
/// it. It is cheap to clone.
#[derive(Clone)]
pub struct Stack(Arc<dyn WatchedStore>);

impl Stack {
    /// A stack without layers.
    pub fn new(store: impl Store + Watch + 'static) -> Self {
        Self(Arc::new(store))
    }

    /// Makes a stack without layers from a store that cannot watch objects. Watches are
    /// `Unsupported`.
    pub fn without_watches(store: Arc<dyn Store>) -> Self {
        Self::new(WithoutWatches(store))
    }

    /// Wraps this stack in the layer that `make` makes of it.
    #[must_use]
    pub fn wrapped_by<L: Layer>(self, make: impl FnOnce(Self) -> L) -> Self {
        Self(Arc::new(Layered(make(self))))
    }

    /// The stack, for code that needs no watch.
    pub fn as_store(&self) -> Arc<dyn Store> {
        self.0.clone()
    }

    /// The stack, for code that needs only the watch.
    pub fn as_watch(&self) -> Arc<dyn Watch> {
        self.0.clone()
    }
}

impl<S: Store + Watch + 'static> From<Arc<S>> for Stack {
    fn from(store: Arc<S>) -> Self {
        Self(store)
    }
}

impl fmt::Debug for Stack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Implements [`Store`] and [`Watch`] for a type whose first field has methods of the same names.
/// An `async fn` would box each future a second time; this macro avoids that.
macro_rules! forward {
    ($type:ty, $($generic:ident: $bound:path)?) => {
        impl<$($generic: $bound)?> Store for $type {
            fn submit<'a, 'b>(&'a self, request: Request) -> BoxFuture<'b, Result<Reply>>
            where
                'a: 'b,
                Self: 'b,
            {
                self.0.submit(request)
            }

            fn list<'a, 'b>(&'a self, request: ListRequest) -> BoxFuture<'b, Result<ListPage>>
            where
                'a: 'b,
                Self: 'b,
            {
                self.0.list(request)
            }

            fn capabilities(&self) -> Capabilities {
                self.0.capabilities()
            }
        }

        impl<$($generic: $bound)?> Watch for $type {
            fn watch<'a, 'b, 'c>(&'a self, object: &'b ObjectId) -> BoxFuture<'c, Result<WatchStream>>
            where
                'a: 'c,
                'b: 'c,
                Self: 'c,
            {
                self.0.watch(object)
            }

            fn notify<'a, 'b, 'c>(&'a self, object: &'b ObjectId, payload: Bytes) -> BoxFuture<'c, Result<()>>
            where
                'a: 'c,
                'b: 'c,
                Self: 'c,
            {
                self.0.notify(object, payload)
            }
        }
    };
}

forward!(Stack,);
forward!(Layered<L>, L: Layer);

/// A layer as the top of a stack.
#[derive(Debug)]
struct Layered<L>(L);

#[derive(Debug)]
struct WithoutWatches(Arc<dyn Store>);

#[async_trait]
impl Store for WithoutWatches {
    async fn submit(&self, request: Request) -> Result<Reply> {
        self.0.submit(request).await
    }

    async fn list(&self, request: ListRequest) -> Result<ListPage> {
        self.0.list(request).await
    }

    fn capabilities(&self) -> Capabilities {
        self.0.capabilities()
    }
}

#[async_trait]
impl Watch for WithoutWatches {
    async fn watch(&self, object: &ObjectId) -> Result<WatchStream> {
        Err(no_watches().on(object))
    }

    async fn notify(&self, object: &ObjectId, _: Bytes) -> Result<()> {
        Err(no_watches().on(object))
    }
}

fn no_watches() -> Error {
    Error::unsupported("this store has no watches, so nobody can watch or notify its objects")
}
