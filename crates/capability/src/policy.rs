//! The trait of policies, the questions that a policy decides, and two policies that need no
//! program.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::limits::ALONE;

/// A reading of a monotonic clock: the time since an instant that the clock's owner chose.
pub type Time = Duration;

/// What a holder may do on its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Read a copy of the state, as others may.
    Shared,
    /// Read and change the state; nobody else does meanwhile.
    Exclusive,
}

impl Mode {
    /// The mode's word in policy programs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Shared => "shared",
            Self::Exclusive => "exclusive",
        }
    }

    /// The wish for it.
    pub fn wish(self) -> Wish {
        match self {
            Self::Shared => Wish::Shared,
            Self::Exclusive => Wish::Exclusive,
        }
    }
}

/// What a client asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wish {
    /// One operation that reads, by the authority.
    Read,
    /// One operation that changes the state, by the authority.
    Write,
    /// A shared capability, or to have one operation done that reads.
    Shared,
    /// The client wants the exclusive capability, or one operation that changes the state.
    Exclusive,
}

impl Wish {
    /// The capability that is asked for, if it is one.
    pub fn mode(self) -> Option<Mode> {
        match self {
            Self::Read | Self::Write => None,
            Self::Shared => Some(Mode::Shared),
            Self::Exclusive => Some(Mode::Exclusive),
        }
    }

    /// Whether it only reads the state.
    pub fn is_read(self) -> bool {
        matches!(self, Self::Read | Self::Shared)
    }

    /// Whether a grant of this mode must end first.
    pub fn conflicts_with(self, granted: Mode) -> bool {
        granted == Mode::Exclusive || !self.is_read()
    }
}

/// The client that asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asker {
    /// The number that tells this client from all others, or 0 if the client gives none.
    pub client: u64,
    /// The authenticated entity.
    pub entity: Arc<str>,
    /// Whose requests these are.
    pub tenant: Arc<str>,
}

/// The conditions of a grant, which apply once another client asks. The grant then ends when its
/// time is over or its number of operations is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Terms {
    /// How long the holder may keep the grant at least.
    pub hold: Option<Duration>,
    /// How many operations the holder may do before it must ask again. If the number is 1, there is
    /// no grant: the authority does that operation itself.
    pub operations: Option<u64>,
}

/// What a policy decides for a client that could get a capability.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The capability it asked for.
    Grant(Terms),
    /// The authority does this one operation (a round trip). After this time the client may ask for
    /// a capability again.
    RoundTrip(Duration),
}

/// A client that asks, as a policy sees it.
#[derive(Debug, Clone, Copy)]
pub struct Ask<'a> {
    /// Who it is.
    pub asker: &'a Asker,
    /// What it asks for.
    pub wish: Wish,
    /// How long it has waited.
    pub waited: Duration,
    /// How long no other client has asked for anything that conflicts with `wish`. If `wish` is to
    /// read, only changes conflict. `Duration::MAX` if no other client ever asked.
    pub alone: Duration,
    /// Others that wait.
    pub waiting: usize,
    /// Operations that its tenant has done by earlier grants.
    pub operations: u64,
}

/// A client that holds a capability, as a policy sees it.
#[derive(Debug, Clone, Copy)]
pub struct Holding<'a> {
    /// Who it is.
    pub asker: &'a Asker,
    /// What it holds.
    pub mode: Mode,
    /// How long it has held it.
    pub held: Duration,
    /// On which terms.
    pub terms: Terms,
    /// How many operations it has reported.
    pub operations: u64,
}

/// Decides which client holds a capability, for how long, and which client is next. Must give equal
/// answers to equal arguments.
pub trait Policy: fmt::Debug + Send + Sync {
    /// Decides what a client gets that asks for a capability. No other client's grant conflicts
    /// with the request.
    fn grant(&self, ask: &Ask<'_>) -> Verdict;

    /// How much longer a holder may keep a capability that conflicts with `ask`. By default the
    /// terms of the grant decide.
    fn keep(&self, holding: &Holding<'_>, _: &Ask<'_>) -> Duration {
        holding.keeps_by_its_terms()
    }

    /// Chooses which waiting client is served next. Returns its index in `waiting`, where the
    /// client that came first is first.
    fn turn(&self, _waiting: &[Ask<'_>]) -> usize {
        0
    }

    /// A number that changes with the policy. Grants are then considered anew.
    fn version(&self) -> u64 {
        0
    }
}

/// Finds policies by the names of their programs.
pub trait Policies: fmt::Debug + Send + Sync {
    /// Returns the policy of this name. When another version of its program becomes active, the
    /// policy uses that version.
    fn named(&self, name: &str) -> Arc<dyn Policy>;
}

/// For a process that runs no programs: every name stands for [`BestEffort`].
#[derive(Debug, Clone, Copy, Default)]
pub struct NoPrograms;

impl Policies for NoPrograms {
    fn named(&self, _: &str) -> Arc<dyn Policy> {
        Arc::new(BestEffort)
    }
}

impl Holding<'_> {
    /// How much longer the terms of the grant let the holder keep it. Terms without a time, but
    /// with a number of operations, end after `MAX_KEEP`.
    pub fn keeps_by_its_terms(&self) -> Duration {
        match self.terms {
            Terms { hold: Some(hold), .. } => hold.saturating_sub(self.held),
            Terms { operations: Some(_), .. } => crate::limits::MAX_KEEP.saturating_sub(self.held),
            Terms { .. } => Duration::ZERO,
        }
    }
}

/// The default policy. It grants a capability to a client that is alone, and revokes it as soon as
/// another client needs the state. Then it serves all clients by round trips until one of them is
/// alone again. A client that only reads counts as alone if all others only read too.
#[derive(Debug, Clone, Copy, Default)]
pub struct BestEffort;

impl Policy for BestEffort {
    fn grant(&self, ask: &Ask<'_>) -> Verdict {
        let is_first = ask.waiting == 0 || ask.wish.is_read();
        if is_first && ask.alone >= ALONE {
            Verdict::Grant(Terms::default())
        } else {
            Verdict::RoundTrip(ALONE)
        }
    }
}

/// Every operation is a round trip.
#[derive(Debug, Clone, Copy, Default)]
pub struct Never;

impl Policy for Never {
    fn grant(&self, _: &Ask<'_>) -> Verdict {
        Verdict::RoundTrip(ALONE)
    }
}
