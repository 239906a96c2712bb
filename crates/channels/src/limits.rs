//! Every bound of delivery, with its reason.

use std::time::Duration;

/// Messages that are looked at together, and settled by one transaction.
pub(crate) const PAGE_MESSAGES: u32 = 128;
/// Receivers that one object's messages go to at once.
pub(crate) const PARALLEL_RECEIVERS: usize = 8;
/// Objects whose messages are delivered at once: they share the process with requests.
pub(crate) const PARALLEL_OBJECTS: usize = 16;
/// How many objects wait in memory for a round of delivery. If there are more, the next sweep finds
/// them by their marks.
pub(crate) const MAX_QUEUED_OBJECTS: usize = 65_536;
/// Marks a process remembers; past it those of idle objects are forgotten, and made again when
/// needed.
pub(crate) const MAX_REMEMBERED_MARKS: usize = 65_536;
/// How many senders an object remembers, at some hundred bytes each. It must remember those whose
/// messages wait, and remembers others as [`Pace`] allows. Past this number, it receives no
/// messages of other senders.
pub(crate) const MAX_SENDERS: u64 = 65_536;
/// Messages kept of those an object could not deliver; the oldest make room.
pub(crate) const MAX_DEAD_LETTERS: usize = 64;
/// The greatest length of a chain of messages, in which each message was sent by the method that
/// the previous one called. Objects that send to each other in a circle would go on forever, so a
/// longer chain counts as a circle and is stopped.
pub(crate) const MAX_CHAIN: u32 = 256;
/// Groups of waiting messages whose depths an object knows apart.
pub(crate) const MAX_LINKS: usize = 256;
/// Why a message was not delivered.
pub(crate) const MAX_REASON_CHARACTERS: usize = 1024;
/// The number of ledgers. On Ceph, up to this many OSDs can share the work. On other clusters of
/// usual size, each target has some of the ledgers.
pub(crate) const LEDGERS: u64 = 64;
/// Senders that are looked at together, to be forgotten by one transaction.
pub(crate) const PAGE_NOTES: u32 = 128;
/// Marks read at once.
pub(crate) const PAGE_MARKS: u32 = 1024;

/// How delivery is paced. The defaults are what nodes use.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    /// How long a receiver that failed is left alone at first; it doubles with each failure.
    pub first_retry: Duration,
    /// And at most.
    pub last_retry: Duration,
    /// If its receiver does not accept a message for this time, the message is given up, because
    /// others wait behind it.
    pub give_up_after: Duration,
    /// An object that sent nothing for so long loses its mark, which the next message makes again.
    pub idle_after: Duration,
    /// The time between looks for idle objects, and for objects whose messages no process delivers.
    pub sweep_every: Duration,
    /// A call that was not answered may still be carried out so much later.
    pub uncertain_for: Duration,
    /// A mark is trusted for so long by who made it, and then made again.
    pub trusted_for: Duration,
    /// A mark of another process that is older than this is removed if its object has no waiting
    /// message. No process trusts so old a mark. The difference from `trusted_for` leaves time for
    /// calls without an answer, and for clocks that differ.
    pub abandoned_after: Duration,
    /// Each time an object remembers this many more senders than after the last time, it forgets
    /// those whose messages are settled. The next message of a forgotten sender costs one more
    /// request.
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
