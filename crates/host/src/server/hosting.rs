//! What a kind of state machine must define so that a node can host it.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use nacre_object::{Error, Result};

use super::{Host, Slot};
use crate::core::{Machine, Recovery};
use crate::record::Record;
use crate::records::RecordStore;

/// What a machine of a kind is called.
pub type NameOf<K> = <<K as Hosting>::Record as Record>::Name;
/// A command of a kind's recovery.
pub type CommandOf<K> = <<K as Hosting>::Recovery as Recovery>::Command;
/// An event of a kind's recovery.
pub type EventOf<K> = <<K as Hosting>::Recovery as Recovery>::Event;
/// What a kind's recovery finds.
pub type FoundOf<K> = <<K as Hosting>::Recovery as Recovery>::Found;

/// A kind of state machine, with the store of its records and state.
#[async_trait]
pub trait Hosting: fmt::Debug + Send + Sync + Sized + 'static {
    /// What is stored of a machine.
    type Record: Record;
    /// How its state is found.
    type Recovery: Recovery<Record = Self::Record>;
    /// The machine that serves.
    type Machine: Machine<Record = Self::Record>;
    /// What a node keeps beside each machine, even while the machine does not serve.
    type Beside: Default + fmt::Debug + Send + Sync;
    /// Machines one node hosts at a time.
    const MAX_HOSTED: usize;

    /// Where the records are.
    fn records(&self) -> &dyn RecordStore<Self::Record>;

    /// Carries out a command of a recovery.
    ///
    /// # Errors
    /// Only errors that end the recovery. After a failure that may pass, return an event instead;
    /// the recovery then tries again.
    async fn carry_out(&self, command: CommandOf<Self>) -> Result<EventOf<Self>>;

    /// The machine that a recovery found.
    fn machine(&self, record: Self::Record, found: FoundOf<Self>) -> Self::Machine;

    /// Stores state for the successor before the host hands a state machine over. The machine
    /// answers no client meanwhile, so this must be quick. If it fails, the successor recovers as
    /// after a failure.
    async fn before_hand_over(_host: &Host<Self>, _slot: &Arc<Slot<Self>>) {}

    /// The error of a recovery that took too long: what it waits for, and what to do.
    fn gave_up(&self, name: &NameOf<Self>, recovery: Option<&Self::Recovery>) -> Error;
}
