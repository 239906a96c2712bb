//! Bugs that are planted around the code under test, to show that the checks find them. A planted
//! bug reports a false event to a core, carries out a wrong command, or changes the answer of an
//! object. So the code under test needs no switch for it.

/// Known bugs of shared logs, one at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sabotage {
    /// A fill overwrites data.
    FillOverData,
    /// When two clients fill the same hole, the second is told that the position holds data.
    SecondFillRefused,
    /// A recovered sequencer begins at the maximum position instead of the position after it.
    WrongTail,
    /// A recovery counts the whole stripe as sealed once its first object is sealed.
    ServesBeforeFrozen,
    /// Objects forget seals: they accept every epoch.
    SealsForgotten,
    /// An append assumes that a write that timed out did not happen.
    TimedOutIsAbsent,
    /// A client writes at positions that a replaced sequencer issued.
    VoidGrantUsed,
    /// A probe with an old view believes that a position is empty.
    OldViewBelieved,
    /// A client fills or trims a position that was not issued yet. The log itself once had this
    /// bug.
    UnissuedFilled,
    /// Hosts of the same name make equal claims. The log itself once had this bug.
    ClaimsAlike,
}

impl Sabotage {
    /// All planted bugs, each with a seed near which a run finds it.
    pub const ALL: [(Self, u64); 10] = [
        (Self::FillOverData, 0),
        (Self::SecondFillRefused, 0),
        (Self::WrongTail, 0),
        (Self::ServesBeforeFrozen, 20),
        (Self::SealsForgotten, 0),
        (Self::TimedOutIsAbsent, 0),
        (Self::VoidGrantUsed, 465),
        (Self::OldViewBelieved, 470),
        (Self::UnissuedFilled, 30),
        (Self::ClaimsAlike, 0),
    ];
}
