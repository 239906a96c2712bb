//! Which faults a [`crate::FaultyStore`] injects: a plan is asked before each operation.

use nacre_clock::Random;
use nacre_object::{ListRequest, ObjectId, Request, WatchEvent};

/// What a plan is asked about.
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
    /// The object it concerns; a listing has none.
    pub fn object(&self) -> Option<&ObjectId> {
        match self {
            Self::Submit(request) => Some(&request.header.object),
            Self::List(_) => None,
            Self::Watch(object) | Self::Notify(object) | Self::Event(object, _) => Some(object),
        }
    }
}

/// What happens to one operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// `Unavailable`; nothing was done.
    FailBefore,
    /// It is done, and then `Unavailable`.
    FailAfter,
    /// It waits for its release before it is done.
    Hold,
    /// It is done, and its answer waits for its release.
    HoldReply,
}

/// Decides the fate of each operation, in the order they arrive; `None` lets it pass.
pub type FaultPlan = Box<dyn FnMut(Operation<'_>) -> Option<Fault> + Send>;

/// Nothing fails.
pub fn no_faults() -> FaultPlan {
    Box::new(|_| None)
}

/// A partition: no request is answered, and watchers miss everything.
pub fn unreachable() -> FaultPlan {
    Box::new(|_| Some(Fault::FailBefore))
}

/// The first transactions meet these faults, one each; everything later passes.
pub fn scripted(faults: impl IntoIterator<Item = Option<Fault>>) -> FaultPlan {
    let mut faults: Vec<_> = faults.into_iter().collect();
    faults.reverse();
    Box::new(move |operation| match operation {
        Operation::Submit(_) => faults.pop().flatten(),
        _ => None,
    })
}

/// How often each thing goes wrong: once in so many operations; 0 for never.
#[derive(Debug, Clone, Copy, Default)]
pub struct FaultOdds {
    /// [`Fault::FailBefore`].
    pub fail_before: u64,
    /// [`Fault::FailAfter`].
    pub fail_after: u64,
    /// An event is lost.
    pub lose_event: u64,
}

/// Faults by chance; the same seed and operations give the same faults.
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
