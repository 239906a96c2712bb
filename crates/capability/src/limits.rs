//! Every bound of capabilities, with its reason.

use std::time::Duration;

/// How long a holder may go on without hearing of its authority. Whoever asks waits this long for a holder that
/// died, so it is short; yet longer than a busy machine usually keeps a process waiting for a processor.
pub const LEASE: Duration = Duration::from_millis(300);
/// How often a holder asks for news at least: an answer may then be lost without an end of the lease.
pub const RENEW_EVERY: Duration = Duration::from_millis(100);
/// No policy lets a holder keep a grant longer than this while others wait: half of what a client waits for an
/// operation.
pub const MAX_KEEP: Duration = Duration::from_secs(5);
/// A client that was served by round trips asks for a capability again after this, unless the policy says otherwise.
/// A client counts as alone when no other has asked for so long.
pub const ALONE: Duration = Duration::from_secs(1);
/// Clients that wait for one resource. Each costs some hundred bytes; the next is told to come again.
pub const MAX_WAITING: usize = 4096;
/// A policy chooses the next client among this many that have waited longest. It is asked for each client that is served.
pub const MAX_CONSIDERED: usize = 64;
/// Clients whose use of one resource is remembered, for policies that are fair.
pub const MAX_REMEMBERED: usize = 256;

const _: () = assert!(RENEW_EVERY.as_millis() * 2 < LEASE.as_millis());
