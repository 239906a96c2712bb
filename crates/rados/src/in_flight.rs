//! How much may be under way: past it callers wait, rather than librados' callers block.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Operations at a time.
pub const MAX_OPERATIONS: usize = 512;
/// Bytes at a time, in and out, as operations announce them.
pub const MAX_BYTES: usize = 256 * 1024 * 1024;
/// Where librados blocks its caller's thread, as we have it told: past what is ever under way, with what is
/// not counted here, such as names. Its own bound of bytes is 100 MiB, some dozen large reads.
pub const LIBRADOS_OPERATIONS: usize = 2 * MAX_OPERATIONS;
pub const LIBRADOS_BYTES: usize = 2 * MAX_BYTES;
/// Permits are counted in pages, so that they fit a semaphore.
const PAGE: usize = 4096;

/// What is under way by one connection.
#[derive(Debug)]
pub struct InFlight {
    operations: Arc<Semaphore>,
    pages: Arc<Semaphore>,
}

/// The right to have one operation under way.
#[derive(Debug)]
pub struct Permit {
    _operation: OwnedSemaphorePermit,
    _pages: OwnedSemaphorePermit,
}

impl Default for InFlight {
    fn default() -> Self {
        Self {
            operations: Arc::new(Semaphore::new(MAX_OPERATIONS)),
            pages: Arc::new(Semaphore::new(MAX_BYTES / PAGE)),
        }
    }
}

impl InFlight {
    /// Waits for room for an operation of so many bytes.
    ///
    /// # Panics
    /// Never: nobody closes the semaphores.
    pub async fn admit(&self, bytes: usize) -> Permit {
        const OPEN: &str = "nobody closes the semaphores";
        let pages = u32::try_from(bytes.min(MAX_BYTES) / PAGE).unwrap_or(u32::MAX);
        Permit {
            _operation: self.operations.clone().acquire_owned().await.expect(OPEN),
            _pages: self.pages.clone().acquire_many_owned(pages).await.expect(OPEN),
        }
    }
}
