//! Hosts named state machines on nodes. One node at a time serves each machine, under an epoch.
//!
//! A log's sequencer is such a machine. This crate has the part that all kinds of machines share:
//! who serves, how another node takes over, and how clients find the node that serves.
//!
//! # Protocol
//!
//! 1. The stored [`Record`] of a machine names its [`Authority`]: a node, and the epoch at which
//!    that node took over.
//! 2. A node takes over by proposing the next record, which names it as the authority
//!    ([`core::TakeoverCore`]). The store accepts one next record for each record
//!    (compare-and-swap). A node that loses the race uses the winner's record.
//! 3. The winner runs the [`Recovery`] of this kind of machine. It seals the old epoch and finds
//!    the state.
//! 4. Then [`Host`] serves the machine. It refuses a client whose record is older than the
//!    takeover. If a client knows a later record, the host reads the stored record before it
//!    answers.
//! 5. A node that has handed a machine over redirects its clients, or forwards their requests:
//!    [`ClientRouting`].
//! 6. [`AuthorityClient`] sends requests to the node that its record names. If the node refuses,
//!    the client reads the record again. If the node is silent, the client asks another node to
//!    take over.
//!
//! # Invariants
//!
//! - Two authorities never have the same epoch of the same record: the store refuses the second
//!   claim.
//! - No machine serves before its recovery is complete.
//! - A machine whose record was replaced stops at the first request of a client that knows the new
//!   record. Its earlier answers do no harm: recovery has sealed its epoch, so the store refuses
//!   changes under that epoch.
//!
//! # To host a new kind
//!
//! Implement [`Record`], [`Machine`], [`Recovery`] and [`Hosting`], and answer the kind's requests
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
    AuthorityClient, CachedRecord, HostNodes, HostTransport, RECOVER_PATIENCE, RecordCache,
    answer_within,
};
pub use core::{EpochRefusal, Machine, Recovery, Serving, Step};
pub use outcome::{busy, is_busy, is_transient, is_undecided};
pub use question::{
    Question, RECOVER, decode_epoch, encode_epoch, put_header, recover_question, split_header,
};
pub use record::{Authority, HostedName, MapRecord, Record, Words, deposed};
pub use records::{MapRecords, RecordStore, check_proposal, stored};
pub use server::{
    BUSY_AFTER, ClientRouting, FORWARD_PATIENCE, Forward, HAND_OVER_PATIENCE, Host, Hosting, Look,
    Looks, NotReady, PausedMachine, Slot, propose_while_serving,
};
