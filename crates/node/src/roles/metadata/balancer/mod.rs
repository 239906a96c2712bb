//! The balancer of a metadata node. It measures the load of its units (sequencers and shared
//! resources) and receives the heartbeats of the other ranks (metadata nodes). At each tick the
//! policy decides which units move, and the balancer hands them over.
//!
//! ```text
//! meter ─► measure ─► heartbeat ─► all ranks
//!                                     │ rounds: one heartbeat of each rank, all of one tick
//!                                     ▼
//!          history ◄─ decision ◄─ policy ─► hand over, one unit after another
//! ```
//!
//! **Invariants.** Every rank decides for itself, and moves only units that it serves. A tick moves
//! nothing if a heartbeat is missing, or if ranks have different versions of the policy. A policy
//! that fails moves nothing and does not affect the rest of the node.

mod balancer_state;
mod meter;
mod runner;
mod service;
mod units;

use std::sync::{Arc, Mutex};

use nacre::Cluster;
use nacre_balance::{LivePolicies, NodeTraits, Rounds};
use nacre_clock::Clock;
use nacre_object::{NodeName, Result};
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;

use self::balancer_state::BalancerState;
use self::runner::Runner;
pub(super) use self::service::BalancerService;
pub(super) use self::units::Units;

/// The name under which a node offers its balancer to the wire.
pub(super) const BALANCER_SERVICE: &str = "balancer";

/// The heartbeats that a node has received, and a signal for the task that waits for them.
#[derive(Debug)]
pub(super) struct Heard {
    rounds: Mutex<Rounds>,
    news: Notify,
}

/// What a balancer needs to work.
pub(super) struct BalancerContext {
    pub node: NodeName,
    pub cluster: Cluster,
    pub units: Units,
    pub policies: LivePolicies,
    pub clock: Arc<dyn Clock>,
}

/// A balancer at work. It ends when it is dropped.
#[derive(Debug)]
pub(super) struct Balancer {
    task: JoinHandle<()>,
    heard: Arc<Heard>,
    known: watch::Receiver<BalancerState>,
}

impl Balancer {
    /// Starts a balancer. Needs a tokio runtime.
    ///
    /// # Errors
    /// `Invalid` if the name of the node is malformed.
    pub fn start(context: BalancerContext) -> Result<Self> {
        let rounds = Mutex::new(Rounds::new(context.node.as_str()));
        let heard = Arc::new(Heard { rounds, news: Notify::new() });
        let known = BalancerState::follow(&context);
        let runner = Runner::new(context, Arc::clone(&heard))?;
        Ok(Self { task: tokio::spawn(runner.run(known.clone())), heard, known })
    }

    /// The traits that the operator gave this node, as far as the node knows them.
    pub fn traits(&self) -> NodeTraits {
        self.known.borrow().traits.clone()
    }

    /// The service by which other nodes send their heartbeats.
    pub fn service(&self) -> BalancerService {
        BalancerService::new(Arc::clone(&self.heard))
    }

    /// Stops the balancer: it hands over no more units.
    pub fn stop(&self) {
        self.task.abort();
    }
}

impl Drop for Balancer {
    fn drop(&mut self) {
        self.stop();
    }
}
