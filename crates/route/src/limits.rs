//! Every bound of this crate with its reason.

use std::time::Duration;

use nacre_object::limits::{MAX_IDENTIFIER_BYTES, MAX_OBJECT_NAME_BYTES};

/// The most rules of one switch. An experiment of the sRoute paper (section 5.1) ended with 100,000
/// rules.
pub const MAX_RULES: usize = 100_000;
/// The most rules of one switch whose object is a pattern with `*` before its end. The switch tries
/// patterns with the same literal prefix one after the other, so many of them are slow.
pub const MAX_PATTERN_RULES: usize = 1024;
/// The most bytes of a rule's object: a pool, a slash and the longest object name.
pub const MAX_OBJECT_MATCH_BYTES: usize = MAX_IDENTIFIER_BYTES + 1 + MAX_OBJECT_NAME_BYTES;
/// The most targets among which one rule scatters IO or fragments of objects. Nobody keeps more copies of an object.
pub const MAX_SCATTER_TARGETS: usize = 16;
/// The most destinations that one program declares: one for each target of a large cluster.
pub const MAX_PROGRAM_DESTINATIONS: usize = 256;
/// The most rules that programs have inserted at one switch. If a program inserts one rule for each
/// object, it can handle as many objects as a switch has rules.
pub const MAX_INSERTED_RULES: usize = MAX_RULES;
/// The most rules that a program may insert and delete while it decides about one IO. One object
/// needs only a few.
pub const MAX_RULE_CHANGES: usize = 16;
/// The budget of a route program for one decision. The IO waits for the decision, and the program
/// occupies a thread that also serves other requests.
#[cfg(feature = "programs")]
pub(crate) const ROUTE_BUDGET: nacre_program::Budget = nacre_program::Budget {
    time: Duration::from_millis(2),
    steps: 20_000,
    memory_bytes: 1024 * 1024,
    output_bytes: 0,
};
/// How long a permit for direct reads lasts at the node that keeps the bytes. If that node does not
/// answer, newer bytes elsewhere are not readable for so long.
pub const DIRECT_LEASE: Duration = Duration::from_secs(10);
/// The most permits for direct reads that a node has given at the same time. Each takes some hundred
/// bytes.
pub const MAX_PERMITS: usize = 65_536;
/// The most spans of one permit. A client reads other spans through the home.
pub const MAX_PERMIT_SPANS: usize = 256;
/// The most objects of one home whose permits a client remembers.
pub const MAX_CLIENT_PERMITS: usize = 4096;
/// The most rules that a home tells its clients, so that the message stays small. Objects of further
/// rules are read through the home.
pub const MAX_DIRECT_RULES: usize = 1024;
/// The most rules of an application that a control program makes. They are one value of a map.
#[cfg(feature = "programs")]
pub(crate) const MAX_CONTROL_RULES: usize = 512;
/// The most settings of a control program.
#[cfg(feature = "programs")]
pub(crate) const MAX_SETTINGS: usize = 64;
/// The most bytes of a setting.
#[cfg(feature = "programs")]
pub(crate) const MAX_SETTING_BYTES: usize = 1024;
/// The most bytes of what a control program keeps between its runs, in JSON. The controller stores
/// it as one value of a map.
#[cfg(feature = "programs")]
pub const MAX_CONTROL_STATE_BYTES: usize = 60 * 1024;
/// How deep tables may be nested in what a control program keeps.
#[cfg(feature = "programs")]
pub(crate) const MAX_CONTROL_STATE_DEPTH: usize = 8;
/// The most tenants to which one run of a control program gives shares of caches.
#[cfg(feature = "programs")]
pub(crate) const MAX_SHARES: usize = 64;
/// The largest share of a cache, in bytes: up to this number, a double is exact.
#[cfg(feature = "programs")]
pub(crate) const MAX_SHARE_BYTES: f64 = 9_007_199_254_740_992.0;
/// The most events that a control program writes to the cluster log in one run.
#[cfg(feature = "programs")]
pub(crate) const MAX_TOLD: usize = 16;
/// The most characters of such an event.
#[cfg(feature = "programs")]
pub(crate) const MAX_TOLD_CHARACTERS: usize = 400;
/// The budget of a control program for one run. It decides about a whole cluster, once a second.
#[cfg(feature = "programs")]
pub(crate) const CONTROL_BUDGET: nacre_program::Budget = nacre_program::Budget {
    time: Duration::from_millis(100),
    steps: 2_000_000,
    memory_bytes: 16 * 1024 * 1024,
    output_bytes: 0,
};
/// How long an IO waits at a waypoint that holds IO. A client waits longer for its reply, so it
/// learns the reason.
pub const MAX_WAYPOINT_WAIT: Duration = Duration::from_secs(20);
/// The most IOs that wait at one waypoint. The switch holds some more.
pub const MAX_WAYPOINT_QUEUE: usize = 32_768;
/// The most waypoints that one IO passes. Rules that send IO round in a loop end here.
pub const MAX_WAYPOINTS_OF_AN_IO: usize = 8;
/// The most zeros that a waypoint encodes and writes for one request. A request of a client has at
/// most twice as many bytes.
pub const MAX_FILLED_BYTES: u64 = 4 << 20;
/// The bytes that a waypoint encodes or decodes in one run. The budget of a run is for so many.
#[cfg(feature = "programs")]
pub const WAYPOINT_RUN_BYTES: usize = 64 * 1024;
/// The budget of one run of a waypoint: of a decision about one IO, or of the encoding of
/// [`WAYPOINT_RUN_BYTES`]. That is enough for thirty steps for each byte.
#[cfg(feature = "programs")]
pub(crate) const WAYPOINT_BUDGET: nacre_program::Budget = nacre_program::Budget {
    time: Duration::from_millis(250),
    steps: 2_000_000,
    memory_bytes: 4 * 1024 * 1024,
    output_bytes: 0,
};
/// The most versions of an object that a rule keeps. Each is a snapshot of the object, and half of an
/// object's snapshots are left for others.
pub const MAX_VERSIONS: u32 = nacre_object::limits::MAX_SNAPSHOTS as u32 / 2;
/// The most snapshots of a prefix that a rule keeps. An object has room for as many of its users.
pub const MAX_SNAPSHOT_NAMES: usize = nacre_object::limits::MAX_SNAPSHOTS / 2;
/// The most bytes of such a name. All names that were used are one value of a map.
pub const MAX_SNAPSHOT_NAME_BYTES: usize = 48;
/// The most pieces into which rules may split one IO: enough for a rule about every 4 KiB of the
/// longest request.
pub const MAX_PIECES: usize = 4096;
/// The most bytes of a rule file. If names are short, the rules of several full switches fit.
pub const MAX_FILE_BYTES: usize = 64 << 20;
/// The most bytes in a line of a rule file. A header and a destination with the longest names fit,
/// even if all characters are escaped.
pub const MAX_LINE_BYTES: usize = 16 * 1024;
/// The most IOs that a switch holds while rules change or overlapping IO is in flight. A client has
/// some dozens of IOs in flight, so this is enough for a thousand clients.
pub const MAX_HELD_IOS: usize = 65_536;
/// The most IOs in flight at one switch.
pub const MAX_IN_FLIGHT_IOS: usize = 65_536;
/// How long an IO waits for the controller before it fails. A new controller takes over within some
/// seconds. A client waits longer for its reply, so it learns the reason.
pub const MAX_CONTROLLER_WAIT: Duration = Duration::from_secs(20);
/// How often switches try to agree about one write before the write fails.
pub const MAX_AGREEMENT_ATTEMPTS: u32 = 16;
/// The most switches in one update.
pub const MAX_SWITCHES: usize = 4096;
/// After an IO has passed this many switches and layers, the analysis reports a loop. A path
/// without a loop visits each switch and layer at most once. Real paths visit about five.
pub const MAX_HOPS: usize = 64;
/// The most states in the search for an object that matches each combination of rules. Each state
/// needs some hundred bytes.
pub const MAX_CHECK_STATES: usize = 1 << 20;
/// The most problems of one kind that the analysis reports. A person reads the first few.
pub const MAX_FINDINGS_OF_A_KIND: usize = 100;
/// The most blocks that one miss-ratio curve samples. Far fewer are enough: with 8,192 blocks the
/// error is half a per cent.
pub const MAX_SAMPLED_BLOCKS: usize = 1 << 20;
/// The most steps of a miss-ratio curve that a node reports. A plot shows no more.
pub const MAX_CURVE_STEPS: usize = 4096;
/// The most parts into which a cache is divided among tenants.
pub const MAX_CACHE_UNITS: usize = 4096;
/// The most objects with copies, or with reads that may lead to copies, at one switch. Each needs
/// some hundred bytes.
pub const MAX_COPIED_OBJECTS: usize = 16_384;
/// The most bytes of an object that is copied. Reads of a larger object go to its home.
pub const MAX_COPY_BYTES: u64 = 64 << 20;
/// The most bytes of all current copies of one switch. Once they are reached, it orders no more.
pub const MAX_COPIED_BYTES: u64 = 64 << 30;
/// The bytes of an object in one unit of a stripe, if it is erasure-coded. A read of fewer bytes
/// usually needs one fragment.
pub const ERASURE_UNIT_BYTES: u64 = 128 << 10;
/// How many units of a fragment are written at once: 1 MiB.
pub const STRIPES_OF_A_WRITE: u64 = 8;
/// The fewest bytes of an object that is erasure-coded. For fewer, the fragments' names and headers
/// would take as much as the code saves.
pub const MIN_ERASURE_BYTES: u64 = 64 << 10;
/// The most copies that one switch makes at the same time. Clients' requests wait behind them.
pub const MAX_COPIES_IN_THE_MAKING: usize = 4;
/// The most copies that a switch remembers in order to drop them. It finds all others by asking the
/// targets.
pub const MAX_COPIES_TO_DROP: usize = 4096;
/// The most updates on their way to one copy. A copy that lags further behind is made anew.
pub const MAX_UNCONFIRMED_UPDATES: u64 = 16;
/// The most spans of bytes that a copy in the making has to catch up with. If there are more, the
/// switch takes all bytes between them too.
pub const MAX_MISSED_SPANS: usize = 64;
/// After this time without a read, an object's copies are dropped.
pub const COPY_IDLE_TIME: Duration = Duration::from_secs(600);
/// After this time without a read, a switch forgets an object without copies, so that other objects
/// can be copied.
pub const UNCOPIED_IDLE_TIME: Duration = Duration::from_secs(10);
/// How long a target gets no reads of copies after its first failure.
pub const MIN_TARGET_REST: Duration = Duration::from_millis(500);
/// How long a target gets no reads of copies after many failures.
pub const MAX_TARGET_REST: Duration = Duration::from_secs(30);

const _: () = assert!(MAX_COPY_BYTES < MAX_COPIED_BYTES);
const _: () = assert!(MAX_PATTERN_RULES < MAX_RULES);
const _: () = assert!(MAX_OBJECT_MATCH_BYTES * 4 < MAX_LINE_BYTES);
const _: () = assert!(MAX_WAYPOINT_QUEUE < MAX_HELD_IOS);
const _: () = assert!(MAX_FILLED_BYTES * 2 <= nacre_object::limits::MAX_REQUEST_BYTES as u64);
