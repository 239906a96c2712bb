//! Every bound of this crate with its reason.

use std::time::Duration;

use nacre_program::Budget;

/// The longest path, with its slashes. The path and the prefix of resource maps together fit into a
/// map's name.
pub const MAX_PATH_BYTES: usize = 96;
/// The largest state of one resource in JSON. Each change stores the whole state, with the
/// remembered answers.
pub const MAX_STATE_BYTES: usize = 48 * 1024;
/// How deep tables may be nested in a state, an input or an output.
pub const MAX_DEPTH: usize = 16;
/// The input of a call in JSON.
pub const MAX_INPUT_BYTES: usize = 16 * 1024;
/// The output of a method that reads, in JSON.
pub const MAX_OUTPUT_BYTES: usize = 64 * 1024;
/// The largest output of a method that writes. It is stored beside the state, so that a client that
/// repeats its call gets the same output.
pub const MAX_WRITE_OUTPUT_BYTES: usize = 1024;
/// For how many clients a resource remembers the last answer. A repeated call is not recognised
/// after that many other clients have called methods that write. So a client must not repeat a call
/// automatically after a long time.
pub const MAX_REMEMBERED_CLIENTS: usize = 128;
/// The largest size of the remembered answers in JSON, with the names of their clients. If they
/// take more, the resource remembers fewer clients.
pub const MAX_REMEMBERED_BYTES: usize = 12 * 1024;
/// A bound on the bytes that are stored in addition to the state and the remembered answers.
const STORED_OVERHEAD_BYTES: usize = 512;
const _: () = assert!(
    MAX_STATE_BYTES + MAX_REMEMBERED_BYTES + STORED_OVERHEAD_BYTES
        <= nacre_registry::limits::MAX_VALUE_BYTES,
    "state and answers are one value of a map"
);
/// Resources one node serves at a time.
pub const MAX_HOSTED: usize = 10_000;
/// How long a recovery waits before it reads the state again.
pub const READ_AGAIN: Duration = Duration::from_millis(50);

/// The shortest time for which a capability program may refuse a capability. Meanwhile the client
/// sends each call to the authority (round trips).
pub const MIN_ROUND_TRIPS: Duration = Duration::from_millis(1);
/// The longest time for which a capability program may refuse a capability. During that time the
/// client does not notice that another program or version decides, so the time is bounded.
pub const MAX_ROUND_TRIPS: Duration = Duration::from_secs(10);

/// The budget of one decision of a capability program. All clients of the resource wait for the
/// decision.
pub const CAPABILITY_BUDGET: Budget = Budget {
    time: Duration::from_millis(5),
    steps: 100_000,
    memory_bytes: 1024 * 1024,
    output_bytes: 0,
};

/// The budget of one call. A call delays the other calls of its resource, so its budget is smaller
/// than that of a class method.
pub const CALL_BUDGET: Budget = Budget {
    time: Duration::from_millis(50),
    memory_bytes: 8 * 1024 * 1024,
    output_bytes: MAX_OUTPUT_BYTES,
    ..Budget::DEFAULT
};
