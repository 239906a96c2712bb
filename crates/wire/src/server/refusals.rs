//! Counts refused peers by reason, and reports them to observers.
//!
//! A refusal concerns a connection or session that was never established. An admitted connection
//! that is idle, breaks or is revoked does not count. A client that leaves by itself does not count
//! either. For example, a command may end while it is still connecting to nodes that it does not
//! need.
//!
//! **Invariant:** a refused peer cannot make the node do expensive work through reports. An
//! observer never waits, and does a bounded amount of work however many refusals there are.

use std::fmt;
use std::sync::{Arc, OnceLock};

use nacre_telemetry::Counter;

/// Why a peer was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RefusalReason {
    /// The TLS handshake failed: no TLS, no certificate, a certificate of another authority, or a
    /// certificate that names no entity.
    Tls,
    /// A handshake, a request or a hello did not come in time, or came only in part.
    Silence,
    /// Too many connections said nothing; this had done so for longest.
    Crowd,
    /// It does not speak the protocol, or another version.
    Protocol,
    /// Another user of the machine, at a Unix socket.
    User,
    /// The guard does not know it, or not any more.
    Entity,
    /// The node, or the entity, has as many sessions as it may have.
    Sessions,
}

impl RefusalReason {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 7] = [
        Self::Tls,
        Self::Silence,
        Self::Crowd,
        Self::Protocol,
        Self::User,
        Self::Entity,
        Self::Sessions,
    ];

    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Tls => "tls",
            Self::Silence => "silence",
            Self::Crowd => "crowd",
            Self::Protocol => "protocol",
            Self::User => "user",
            Self::Entity => "entity",
            Self::Sessions => "sessions",
        }
    }
}

/// A peer was refused.
#[derive(Debug, Clone)]
pub struct Refusal {
    /// Why.
    pub reason: RefusalReason,
    /// Where it came from: an address, or `unix`.
    pub from: Arc<str>,
    /// The same as the reason, for people.
    pub text: String,
}

/// The server reports refusals to this observer. It calls the observer on the task that serves the
/// connection, so the observer must not wait.
pub trait RefusalObserver: Send + Sync {
    /// A peer was refused.
    fn refused(&self, refusal: Refusal);
}

/// The refusals of a server.
#[derive(Default)]
pub(crate) struct Refusals {
    counts: [Counter; RefusalReason::ALL.len()],
    observer: OnceLock<Arc<dyn RefusalObserver>>,
}

impl fmt::Debug for Refusals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.read()).finish()
    }
}

impl Refusals {
    /// Reports refusals to this observer from now on. Only the first call has an effect.
    pub(crate) fn observe(&self, observer: Arc<dyn RefusalObserver>) {
        let _ = self.observer.set(observer);
    }

    /// Counts a refused peer and reports it to the observer.
    pub(crate) fn note(&self, reason: RefusalReason, from: &Arc<str>, text: impl fmt::Display) {
        self.counts[reason as usize].add(1);
        if let Some(observer) = self.observer.get() {
            observer.refused(Refusal { reason, from: from.clone(), text: text.to_string() });
        }
    }

    /// The number of refusals by reason.
    pub(crate) fn read(&self) -> [(RefusalReason, u64); RefusalReason::ALL.len()] {
        RefusalReason::ALL.map(|reason| (reason, self.counts[reason as usize].get()))
    }
}
