//! Limits the number of operations and bytes in flight. Beyond the limit, callers wait in a queue;
//! otherwise librados would block their threads.

use std::sync::Arc;

use nacre_object::limits::MAX_NOTIFY_BYTES;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Operations at a time.
pub const MAX_OPERATIONS: usize = 512;
/// The most bytes in flight, read and written, as operations announce them.
pub const MAX_BYTES: usize = 256 * 1024 * 1024;
/// How many notifications librados may have in flight, each with its payload. They have their own
/// limit: while an OSD does not answer, notifications to its objects stay in flight for long, even
/// if their callers have stopped waiting.
pub const MAX_NOTIFICATIONS: usize = 1024;
/// The number of operations in flight at which librados blocks the caller's thread. It is twice
/// what the engine ever has in flight, to leave a reserve for operations that the engine does not
/// count, such as listings. [`LIBRADOS_BYTES`] is the same for bytes; librados' default of 100 MiB
/// would be too low for some dozen large reads.
pub const LIBRADOS_OPERATIONS: usize = 2 * (MAX_OPERATIONS + MAX_NOTIFICATIONS);
pub const LIBRADOS_BYTES: usize = 2 * MAX_BYTES;
/// Permits are counted in pages, so that they fit a semaphore.
const PAGE: usize = 4096;

const _: () = assert!(MAX_BYTES + MAX_NOTIFICATIONS * MAX_NOTIFY_BYTES < LIBRADOS_BYTES);

/// The limits of one connection.
#[derive(Debug)]
pub struct InFlight {
    operations: Arc<Semaphore>,
    pages: Arc<Semaphore>,
    notifications: Arc<Semaphore>,
}

/// The right to have one operation in flight.
#[derive(Debug)]
pub struct Permit {
    _operation: OwnedSemaphorePermit,
    _pages: Option<OwnedSemaphorePermit>,
}

impl Default for InFlight {
    fn default() -> Self {
        Self {
            operations: Arc::new(Semaphore::new(MAX_OPERATIONS)),
            pages: Arc::new(Semaphore::new(MAX_BYTES / PAGE)),
            notifications: Arc::new(Semaphore::new(MAX_NOTIFICATIONS)),
        }
    }
}

impl InFlight {
    /// Waits until an operation with this many bytes may be in flight.
    ///
    /// # Panics
    /// Never, because nobody closes the semaphores.
    pub async fn admit(&self, bytes: usize) -> Permit {
        const OPEN: &str = "nobody closes the semaphores";
        let pages = u32::try_from(bytes.min(MAX_BYTES) / PAGE).unwrap_or(u32::MAX);
        Permit {
            _operation: self.operations.clone().acquire_owned().await.expect(OPEN),
            _pages: Some(self.pages.clone().acquire_many_owned(pages).await.expect(OPEN)),
        }
    }

    /// Returns a permit for a notification if one is free. Does not wait for one, because other
    /// notifications may keep their permits for long.
    pub fn admit_notification(&self) -> Option<Permit> {
        let notification = self.notifications.clone().try_acquire_owned().ok()?;
        Some(Permit { _operation: notification, _pages: None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notifications_beyond_the_bound_are_refused_until_one_is_done() {
        let in_flight = InFlight::default();
        let mut kept: Vec<_> = (0..MAX_NOTIFICATIONS)
            .map(|_| in_flight.admit_notification().expect("there is room"))
            .collect();
        assert!(in_flight.admit_notification().is_none());
        kept.pop();
        assert!(in_flight.admit_notification().is_some());
    }
}
