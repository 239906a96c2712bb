//! Decides which faults a [`crate::FaultyStore`] injects. It asks a plan before each operation.

use nacre_clock::Random;
use nacre_object::{ListRequest, ObjectId, Request, WatchEvent};

/// An operation for which a plan chooses a fault.
#[derive(Debug, Clone, Copy)]
pub enum Operation<'a> {
    /// A transaction is about to be submitted.
    Submit(&'a Request),
    /// A page is about to be listed.
    List(&'a ListRequest),
    /// A watch is about to be established.
    Watch(&'a ObjectId),
    /// Watchers are about to be notified.
    Notify(&'a ObjectId),
    /// A watcher is about to get an event. Any fault loses the event, and the watcher gets `Lost`.
    Event(&'a ObjectId, &'a WatchEvent),
}

impl Operation<'_> {
    /// The object of the operation; `None` for a listing.
    pub fn object(&self) -> Option<&ObjectId> {
        match self {
            Self::Submit(request) => Some(&request.header.object),
            Self::List(_) => None,
            Self::Watch(object) | Self::Notify(object) | Self::Event(object, _) => Some(object),
        }
    }
}

/// How one operation fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The operation is not done, and returns `Unavailable`.
    FailBefore,
    /// The operation is done, but returns `Unavailable`.
    FailAfter,
    /// The operation waits until the test releases it, and is then done.
    Hold,
    /// The operation is done, and its answer waits until the test releases it.
    HoldReply,
}

/// Chooses the fault of each operation, in the order of arrival. `None` lets the operation pass.
pub type FaultPlan = Box<dyn FnMut(Operation<'_>) -> Option<Fault> + Send>;

/// A plan by which no operation fails.
pub fn no_faults() -> FaultPlan {
    Box::new(|_| None)
}

/// A partitioned network: no request is answered, and watchers get no events.
pub fn unreachable() -> FaultPlan {
    Box::new(|_| Some(Fault::FailBefore))
}

/// The first transactions get these faults, one each. All later operations pass.
pub fn scripted(faults: impl IntoIterator<Item = Option<Fault>>) -> FaultPlan {
    let mut faults: Vec<_> = faults.into_iter().collect();
    faults.reverse();
    Box::new(move |operation| match operation {
        Operation::Submit(_) => faults.pop().flatten(),
        _ => None,
    })
}

/// How often each fault occurs: once in this many operations; 0 for never.
#[derive(Debug, Clone, Copy, Default)]
pub struct FaultOdds {
    /// [`Fault::FailBefore`].
    pub fail_before: u64,
    /// [`Fault::FailAfter`].
    pub fail_after: u64,
    /// An event is lost.
    pub lose_event: u64,
}

/// Random faults. The same seed and operations give the same faults.
pub fn seeded(seed: u64, odds: FaultOdds) -> FaultPlan {
    let mut random = Random::seeded(seed);
    let mut happens = move |once_in: u64| once_in > 0 && random.one_in(once_in);
    Box::new(move |operation| match operation {
        Operation::Event(..) => happens(odds.lose_event).then_some(Fault::FailBefore),
        _ if happens(odds.fail_before) => Some(Fault::FailBefore),
        _ if happens(odds.fail_after) => Some(Fault::FailAfter),
        _ => None,
    })
}
