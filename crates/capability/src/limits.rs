//! Every bound on capabilities, with its reason.

use std::time::Duration;

/// How long a holder may continue without hearing from its authority. It is short, because other
/// clients wait this long for a holder that died. It is longer than a process on a busy computer
/// usually waits for a processor.
pub const LEASE: Duration = Duration::from_millis(300);
/// How long a holder waits at most before it polls its authority again. It is short enough that one
/// lost answer does not end the lease.
pub const RENEW_EVERY: Duration = Duration::from_millis(100);
/// How long a policy may let a holder keep a grant while other clients wait. It is half of the time
/// that a client waits for an operation.
pub const MAX_KEEP: Duration = Duration::from_secs(5);
/// How long a client that was refused a capability waits before it asks again, unless the policy
/// names another time. A client counts as alone if no other client has asked for this long.
pub const ALONE: Duration = Duration::from_secs(1);
/// How many clients may wait for one resource. Each costs some hundred bytes. The authority tells
/// further clients to ask again later.
pub const MAX_WAITING: usize = 4096;
/// How many waiting clients a policy may choose the next one from: those that have waited longest.
/// The number is bounded because the policy looks at all of them for each choice.
pub const MAX_CONSIDERED: usize = 64;
/// For how many tenants an authority counts operations. Fair policies need these counts.
pub const MAX_REMEMBERED: usize = 256;

const _: () = assert!(RENEW_EVERY.as_millis() * 2 < LEASE.as_millis());
