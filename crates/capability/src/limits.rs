//! Every bound of capabilities, with its reason.

use std::time::Duration;

/// How long a holder may continue without hearing of its authority. Other clients wait this long
/// for a holder that died, so the lease is short. But it is longer than a process on a busy machine
/// usually waits for a processor.
pub const LEASE: Duration = Duration::from_millis(300);
/// How long a holder waits at most before it asks for news again. It is so short that one lost
/// answer does not end the lease.
pub const RENEW_EVERY: Duration = Duration::from_millis(100);
/// The longest time for which a policy may let a holder keep a grant while other clients wait. It
/// is half of a client's patience for an operation.
pub const MAX_KEEP: Duration = Duration::from_secs(5);
/// A client that was served by round trips (see [the crate](crate)) asks for a capability again
/// after this time, unless the policy says otherwise. A client counts as alone once no other client
/// has asked for anything during this time.
pub const ALONE: Duration = Duration::from_secs(1);
/// The number of clients that may wait for one resource. Each costs some hundred bytes. Further
/// clients are told to ask again later.
pub const MAX_WAITING: usize = 4096;
/// A policy chooses the next client among this many clients that have waited longest. The number is
/// bounded because the policy runs over all of them each time a client is served.
pub const MAX_CONSIDERED: usize = 64;
/// For how many tenants an authority counts the operations, which fair policies need.
pub const MAX_REMEMBERED: usize = 256;

const _: () = assert!(RENEW_EVERY.as_millis() * 2 < LEASE.as_millis());
