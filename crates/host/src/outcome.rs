//! What an error of a host, or of a proposed record, means for the caller.

use nacre_object::{Error, ErrorKind, Status};

/// The status (EAGAIN) of a host that is alive but has no answer yet. A client that gets it must
/// not ask another node to take over.
const BUSY: Status = -11;

/// The error of a host that is alive but has no answer yet.
pub fn busy(message: impl Into<String>) -> Error {
    Error::unavailable(message).with_status(BUSY)
}

/// Marks `reason` as the error of a host that is alive but has no answer yet.
pub(crate) fn busy_because(reason: Error) -> Error {
    reason.with_status(BUSY)
}

/// Whether the error says that the host is alive but has no answer yet.
pub fn is_busy(error: &Error) -> bool {
    error.kind() == ErrorKind::Unavailable && error.has_own_status() && error.status() == BUSY
}

/// Whether asking again may help.
pub fn is_transient(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Stale)
}

/// Whether the outcome of a proposal that failed with this error is unknown. The proposal may have
/// lost to another one, or may have been stored although no reply came. The caller must read the
/// record to learn the outcome.
pub fn is_undecided(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Stale | ErrorKind::Invalid | ErrorKind::Unavailable)
}
