//! Bugs that are planted around the code under test, to show that the checks find them. A planted
//! bug reports a false event to a core, carries out a wrong command, or changes what an object
//! answers. So the code under test needs no switch for it.

/// Known bugs of shared logs, one at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sabotage {
    /// A fill does not care what is there.
    FillOverData,
    /// Of two clients that fill one hole the second is told that it holds data.
    SecondFillRefused,
    /// A recovered sequencer begins at the maximum rather than after it.
    WrongTail,
    /// A recovery takes the first object's seal for the seal of the stripe.
    ServesBeforeFrozen,
    /// Objects forget seals: they accept every epoch.
    SealsForgotten,
    /// An append takes a write that timed out for one that did not happen.
    TimedOutIsAbsent,
    /// A client writes at positions of a sequencer that has been replaced.
    VoidGrantUsed,
    /// A probe believes its old view that there is nothing at a position.
    OldViewBelieved,
    /// A position is filled or trimmed that nobody was given yet: this the log itself once did.
    UnissuedFilled,
    /// Hosts of one name cannot be told apart by their claims: this too the log once did.
    ClaimsAlike,
}

impl Sabotage {
    /// All planted bugs, each with a seed near which a run reveals it.
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
