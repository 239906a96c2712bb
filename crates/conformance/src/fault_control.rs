//! Controls which operations of a store fail in a test, and when.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use nacre_object::{Error, Result};
use tokio::sync::{Semaphore, watch};

use crate::faults::{Fault, FaultPlan, Operation, no_faults};
use crate::wait::within_deadline;

/// The handle by which a test controls the faults of a [`FaultLayer`](crate::FaultLayer). Clones
/// control the same layer.
#[derive(Clone)]
pub struct FaultControl(Arc<Inner>);

struct Inner {
    plan: Mutex<FaultPlan>,
    gate: Gate,
    /// The number of calls of `cut_watches`. Each watch ends when this number changes.
    cuts: watch::Sender<u64>,
}

impl Default for FaultControl {
    /// Nothing fails yet.
    fn default() -> Self {
        let (plan, cuts) = (Mutex::new(no_faults()), watch::Sender::new(0));
        Self(Arc::new(Inner { plan, gate: Gate::new(), cuts }))
    }
}

/// See [`FaultControl::downgrade`].
pub(crate) struct WeakControl(Weak<Inner>);

impl WeakControl {
    /// The control, unless all handles are dropped.
    pub fn upgrade(&self) -> Option<FaultControl> {
        self.0.upgrade().map(FaultControl)
    }
}

impl fmt::Debug for FaultControl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultControl").finish_non_exhaustive()
    }
}

impl FaultControl {
    /// From now on faults follow this plan.
    pub fn follow(&self, plan: FaultPlan) {
        *self.0.plan.lock().unwrap_or_else(PoisonError::into_inner) = plan;
    }

    /// From now on nothing fails. Held operations still wait until the test releases them.
    pub fn heal(&self) {
        self.follow(no_faults());
    }

    /// Returns when at least `count` operations are held.
    pub async fn wait_until_held(&self, count: usize) {
        let held = self.0.gate.wait_until_held(count);
        within_deadline(&format!("{count} operations that are held"), held).await;
    }

    /// Releases this many held operations, those that are held longest first. If fewer are held,
    /// the next operations pass without being held, until the number is reached.
    pub fn release(&self, count: usize) {
        self.0.gate.permits.add_permits(count);
    }

    /// Ends all watches, as a lost connection does.
    pub fn cut_watches(&self) {
        self.0.cuts.send_modify(|cuts| *cuts += 1);
    }

    /// Receives the number of calls of [`Self::cut_watches`]. Each watch ends when it changes.
    pub(crate) fn cuts(&self) -> watch::Receiver<u64> {
        self.0.cuts.subscribe()
    }

    /// A handle that does not keep the control alive. The stream of a watch has this kind of
    /// handle.
    pub(crate) fn downgrade(&self) -> WeakControl {
        WeakControl(Arc::downgrade(&self.0))
    }

    /// Asks the plan whether, and how, an operation fails.
    pub(crate) fn fate(&self, operation: Operation<'_>) -> Option<Fault> {
        (self.0.plan.lock().unwrap_or_else(PoisonError::into_inner))(operation)
    }

    /// Runs the operation `done`, with the planned fault.
    pub(crate) async fn run<T>(
        &self,
        fate: Option<Fault>,
        done: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        match fate {
            None => done.await,
            Some(Fault::FailBefore) => Err(Error::unavailable("injected: nobody answers")),
            Some(Fault::FailAfter) => {
                // The caller does not get the result.
                let _unheard = done.await;
                Err(Error::unavailable("injected: the reply was lost"))
            }
            Some(Fault::Hold) => {
                self.0.gate.pass().await;
                done.await
            }
            Some(Fault::HoldReply) => {
                let result = done.await;
                self.0.gate.pass().await;
                result
            }
        }
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
        let _counted = HeldOperation::one_of(&self.held);
        let permit = self.permits.acquire().await.expect("the gate is never closed");
        permit.forget();
    }

    async fn wait_until_held(&self, count: usize) {
        let mut held = self.held.subscribe();
        held.wait_for(|held| *held >= count).await.expect("the gate outlives its borrow");
    }
}

/// Counts an operation as held, until it goes on or is given up.
struct HeldOperation<'a>(&'a watch::Sender<usize>);

impl<'a> HeldOperation<'a> {
    fn one_of(held: &'a watch::Sender<usize>) -> Self {
        held.send_modify(|held| *held += 1);
        Self(held)
    }
}

impl Drop for HeldOperation<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|held| *held -= 1);
    }
}
