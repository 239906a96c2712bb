//! Named state machines, each served by one node at a time under an epoch.
//!
//! A log's sequencer is such a machine. This crate has the part that is the same for all kinds of
//! machines. Compare-and-swap on a stored [`Record`] decides which node serves. A node that takes
//! over seals the state that its predecessor could still change. A client finds the node that
//! serves, and asks another node to replace a silent one.
//!
//! # Protocol
//!
//! 1. The record of a machine names its [`Authority`]: a node, and the epoch at which that node
//!    took over.
//! 2. A node takes over by proposing the stored record's successor, with itself as the authority
//!    ([`core::TakeoverCore`]). A node that loses the race uses the winner's record.
//! 3. The winner runs the kind's own [`Recovery`], which seals the old epoch and finds the state.
//! 4. Then [`Host`] serves the machine. It answers a client whose record is at least as new as the
//!    take-over. If a client knows a later record than the host, the host reads the stored record
//!    before it answers.
//! 5. A node that has handed a machine over redirects its clients, or forwards their questions:
//!    [`ClientRouting`].
//! 6. [`AuthorityClient`] asks the node that its record names. If the node refuses, the client
//!    reads the record again. If the node is silent, the client asks another node to take over.
//!
//! # Invariants
//!
//! - Two authorities never have the same epoch of the same record: the second claim is refused.
//! - No machine serves before its recovery is complete.
//! - A machine whose record was replaced stops at the first question by a client that knows the new
//!   record. Until then its answers do no harm, because recovery has sealed its epoch: the store
//!   refuses changes under it.
//!
//! # To host a new kind
//!
//! Implement [`Record`], [`Machine`], [`Recovery`] and [`Hosting`], and answer the kind's questions
//! with a [`Host`]. `tests/support/mod.rs` is the smallest example, `nacre-log` the first real one.

mod backoff;
pub mod client;
pub mod core;
mod outcome;
mod question;
mod record;
mod records;
pub mod server;
#[cfg(test)]
mod testing;

pub use backoff::Backoff;
pub use client::{
    AuthorityClient, HostNodes, HostTransport, Known, RECOVER_PATIENCE, RecordCache, answer_within,
};
pub use core::{EpochRefusal, Machine, Recovery, Serving, Step};
pub use outcome::{busy, is_busy, is_transient, is_undecided};
pub use question::{
    Question, RECOVER, decode_epoch, encode_epoch, put_header, recover_question, split_header,
};
pub use record::{Authority, HostedName, MapRecord, Record, Words, deposed};
pub use records::{MapRecords, RecordStore, check_proposal, stored};
pub use server::{
    BUSY_AFTER, ClientRouting, FORWARD_PATIENCE, Forward, HAND_OVER_PATIENCE, Held, Host, Hosting,
    Look, Looks, NotReady, Slot, propose_while_serving,
};
