//! A stage that makes the store below it fail, by plan.
//!
//! What it may do is what a network may do: lose a request, lose a reply, delay either, lose the
//! events of a watch or the watch itself. It never invents or reorders anything.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt;
use nacre_object::{
    Capabilities, Error, ListPage, ListRequest, ObjectId, Reply, Request, Result, Store, Watch,
    WatchEvent, WatchStream,
};
use tokio::sync::{Semaphore, watch};

use crate::faults::{Fault, FaultPlan, Operation, no_faults};
use crate::wait::within_deadline;

/// A store with faults. Clones are handles of the same stage.
#[derive(Clone)]
pub struct FaultyStore(Arc<Stage>);

struct Stage {
    store: Arc<dyn Store>,
    watch: Option<Arc<dyn Watch>>,
    plan: Mutex<FaultPlan>,
    gate: Gate,
    /// Counts the cuts; a watch ends when it moves.
    cuts: watch::Sender<u64>,
}

impl FaultyStore {
    /// A stage over a store that has no watches; nothing fails yet.
    pub fn over(store: Arc<dyn Store>) -> Self {
        Self::with(store, None)
    }

    /// A stage over a store with watches; nothing fails yet.
    pub fn over_watched<S: Store + Watch + 'static>(store: Arc<S>) -> Self {
        Self::with(store.clone(), Some(store))
    }

    fn with(store: Arc<dyn Store>, watch: Option<Arc<dyn Watch>>) -> Self {
        let plan = Mutex::new(no_faults());
        let cuts = watch::Sender::new(0);
        Self(Arc::new(Stage { store, watch, plan, gate: Gate::new(), cuts }))
    }

    /// From now on faults follow this plan.
    pub fn follow(&self, plan: FaultPlan) {
        *self.0.plan.lock().unwrap_or_else(PoisonError::into_inner) = plan;
    }

    /// From now on nothing fails. What is held stays so until it is released.
    pub fn heal(&self) {
        self.follow(no_faults());
    }

    /// Returns when at least `count` operations are held.
    pub async fn wait_until_held(&self, count: usize) {
        let held = self.0.gate.wait_until_held(count);
        within_deadline(&format!("{count} operations that are held"), held).await;
    }

    /// Lets so many held operations go on, the longest held first. One that is not held yet is
    /// released when it comes.
    pub fn release(&self, count: usize) {
        self.0.gate.permits.add_permits(count);
    }

    /// Ends every watch there is, as a lost connection does.
    pub fn cut_watches(&self) {
        self.0.cuts.send_modify(|cuts| *cuts += 1);
    }
}

impl Stage {
    fn fate(&self, operation: Operation<'_>) -> Option<Fault> {
        (self.plan.lock().unwrap_or_else(PoisonError::into_inner))(operation)
    }

    /// Runs `done` as `fault` has it.
    async fn run<T>(
        &self,
        fault: Option<Fault>,
        done: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        match fault {
            None => done.await,
            Some(Fault::FailBefore) => Err(Error::unavailable("injected: nobody answers")),
            Some(Fault::FailAfter) => {
                // Whatever came of it, the caller does not hear.
                let _unheard = done.await;
                Err(Error::unavailable("injected: the reply was lost"))
            }
            Some(Fault::Hold) => {
                self.gate.pass().await;
                done.await
            }
            Some(Fault::HoldReply) => {
                let result = done.await;
                self.gate.pass().await;
                result
            }
        }
    }

    fn watched(&self) -> Result<&dyn Watch> {
        self.watch.as_deref().ok_or_else(|| Error::unsupported("the store has no watches"))
    }
}

#[async_trait]
impl Store for FaultyStore {
    async fn submit(&self, request: Request) -> Result<Reply> {
        let fault = self.0.fate(Operation::Submit(&request));
        let object = request.header.object.clone();
        self.0.run(fault, self.0.store.submit(request)).await.map_err(|error| error.on(object))
    }

    async fn list(&self, request: ListRequest) -> Result<ListPage> {
        let fault = self.0.fate(Operation::List(&request));
        self.0.run(fault, self.0.store.list(request)).await.map_err(|error| error.during("list"))
    }

    fn capabilities(&self) -> Capabilities {
        self.0.store.capabilities()
    }
}

#[async_trait]
impl Watch for FaultyStore {
    async fn watch(&self, object: &ObjectId) -> Result<WatchStream> {
        let fault = self.0.fate(Operation::Watch(object));
        let events = self.0.run(fault, self.0.watched()?.watch(object)).await?;
        let mut cuts = self.0.cuts.subscribe();
        let (stage, object) = (Arc::downgrade(&self.0), object.clone());
        let told = move |event: WatchEvent| {
            let stage = stage.upgrade()?;
            let fate = stage.fate(Operation::Event(&object, &event));
            Some(if fate.is_some() { WatchEvent::Lost } else { event })
        };
        let told = events.map(told).take_while(|told| futures::future::ready(told.is_some()));
        let cut = async move { cuts.changed().await };
        Ok(Box::pin(told.filter_map(futures::future::ready).take_until(Box::pin(cut))))
    }

    async fn notify(&self, object: &ObjectId, payload: Bytes) -> Result<()> {
        let fault = self.0.fate(Operation::Notify(object));
        self.0.run(fault, self.0.watched()?.notify(object, payload)).await
    }
}

impl fmt::Debug for FaultyStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("FaultyStore").field(&self.0.store).finish()
    }
}

/// Where held operations wait.
struct Gate {
    held: watch::Sender<usize>,
    permits: Semaphore,
}

impl Gate {
    fn new() -> Self {
        Self { held: watch::Sender::new(0), permits: Semaphore::new(0) }
    }

    async fn pass(&self) {
        let _counted = Held::one_of(&self.held);
        let permit = self.permits.acquire().await.expect("the gate is never closed");
        permit.forget();
    }

    async fn wait_until_held(&self, count: usize) {
        let mut held = self.held.subscribe();
        held.wait_for(|held| *held >= count).await.expect("the gate outlives its borrow");
    }
}

/// Counts an operation as held, until it goes on or is given up.
struct Held<'a>(&'a watch::Sender<usize>);

impl<'a> Held<'a> {
    fn one_of(held: &'a watch::Sender<usize>) -> Self {
        held.send_modify(|held| *held += 1);
        Self(held)
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|held| *held -= 1);
    }
}
