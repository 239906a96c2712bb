//! Every bound of delivery, with its reason.

use std::time::Duration;

/// Messages that are looked at together, and settled by one transaction.
pub(crate) const PAGE_MESSAGES: u32 = 128;
/// Receivers that one object's messages go to at once.
pub(crate) const PARALLEL_RECEIVERS: usize = 8;
/// Objects whose messages are delivered at once: they share the process with requests.
pub(crate) const PARALLEL_OBJECTS: usize = 16;
/// How many objects may wait in memory for the courier. The courier finds further objects later,
/// when it next reads the marks in the ledgers.
pub(crate) const MAX_QUEUED_OBJECTS: usize = 65_536;
/// The most marks that a process remembers; a mark says that an object may have messages. Beyond
/// this, the process forgets marks of idle objects, and makes them again when they send.
pub(crate) const MAX_REMEMBERED_MARKS: usize = 65_536;
/// The most senders of which an object stores the last message; each takes some hundred bytes. At
/// this number, the object refuses messages of other senders. To stay below it, the object forgets
/// senders without waiting messages whenever it has [`Pace::forget_every`] more senders.
pub(crate) const MAX_SENDERS: u64 = 65_536;
/// The most dead letters of an object. A new one replaces the oldest.
pub(crate) const MAX_DEAD_LETTERS: usize = 64;
/// The most messages in a chain. In a chain, each message is sent by the method that the previous
/// message called. Objects that send to each other in a circle would go on forever, so a longer
/// chain is stopped.
pub(crate) const MAX_CHAIN: u32 = 256;
/// The most groups of waiting messages for which an object stores separate chain depths.
pub(crate) const MAX_LINKS: usize = 256;
/// The length of the reason that a dead letter keeps.
pub(crate) const MAX_REASON_CHARACTERS: usize = 1024;
/// The number of ledgers: the objects that record which other objects may have messages. On Ceph,
/// they spread over at most this many OSDs. On other clusters of usual size, each target has some
/// of them.
pub(crate) const LEDGERS: u64 = 64;
/// Senders that are looked at together, to be forgotten by one transaction.
pub(crate) const PAGE_NOTES: u32 = 128;
/// Marks read at once.
pub(crate) const PAGE_MARKS: u32 = 1024;

/// How delivery is paced. The defaults are what nodes use.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    /// How long the courier first waits after a receiver failed. The time doubles with each
    /// failure.
    pub first_retry: Duration,
    /// The longest wait after a failure.
    pub last_retry: Duration,
    /// A message that its receiver has not accepted for this time is given up, because other
    /// messages wait behind it.
    pub give_up_after: Duration,
    /// The courier removes the mark of an object that sent nothing for this time. The object's next
    /// message needs a new mark.
    pub idle_after: Duration,
    /// The time between looks for idle objects, and for objects whose messages no process delivers.
    pub sweep_every: Duration,
    /// A call without an answer may still be carried out within this time.
    pub uncertain_for: Duration,
    /// How long a process trusts a mark that it made. After that it makes a new one.
    pub trusted_for: Duration,
    /// The sweep (the search for unneeded marks) removes another process's mark that is older than
    /// this, if the object has no waiting message. The age is greater than `trusted_for` to leave
    /// time for unanswered calls and for clocks that differ.
    pub abandoned_after: Duration,
    /// After this many more senders, an object forgets the senders that have no waiting messages.
    /// The next message of a forgotten sender costs one more request.
    pub forget_every: u64,
}

impl Default for Pace {
    fn default() -> Self {
        const MINUTE: Duration = Duration::from_secs(60);
        Self {
            first_retry: Duration::from_millis(50),
            last_retry: MINUTE / 2,
            give_up_after: 60 * MINUTE,
            idle_after: MINUTE / 2,
            sweep_every: MINUTE / 2,
            uncertain_for: 10 * MINUTE,
            trusted_for: 20 * MINUTE,
            abandoned_after: 60 * MINUTE,
            forget_every: 1024,
        }
    }
}

const _: () = assert!(MAX_DEAD_LETTERS < nacre_object::limits::MAX_MAP_RANGE_ENTRIES);
const _: () = assert!(PAGE_MARKS as usize <= nacre_object::limits::MAX_MAP_RANGE_ENTRIES);
