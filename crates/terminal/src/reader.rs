//! Detects whether the output of a command still has a reader.
//!
//! A reader that goes away (`nacre … | head`) is no failure: the command ends quietly. A command
//! that waits for events also asks the kernel whether the reader is still there. Otherwise it would
//! notice only when it prints the next line, which may never come.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use nacre_object::{Error, Result};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

static IS_GONE: AtomicBool = AtomicBool::new(false);

/// Whether the reader of standard output is gone. If it is, the command ended for this reason, even
/// if its error says something else.
pub fn is_gone() -> bool {
    IS_GONE.load(Ordering::Relaxed)
}

/// Notes that the reader is gone, and returns the error with which the printing command ends.
pub fn gone() -> Error {
    IS_GONE.store(true, Ordering::Relaxed);
    Error::unavailable("the output has no reader any more")
}

/// Forgets that the reader is gone, so that the command continues. Returns whether it was gone.
pub fn forget_gone() -> bool {
    IS_GONE.swap(false, Ordering::Relaxed)
}

/// Runs work that prints, until it ends or its output has no reader any more.
pub async fn while_read<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::select! {
        biased;
        outcome = work => outcome,
        () = until_gone() => Err(gone()),
    }
}

/// Completes once the other end of standard output is closed. A file has no other end.
async fn until_gone() {
    let interest = Interest::READABLE | Interest::ERROR;
    #[expect(
        unsafe_code,
        reason = "tokio has no safe way to wait for a descriptor that it does not own"
    )]
    // SAFETY: Standard output stays open, and the same, until the process ends: nothing here closes it.
    let stdout = unsafe { AsyncFd::register_with_interest(io::stdout(), interest) };
    if let Ok(stdout) = stdout {
        // What can be read there is typed at a terminal, and not for this command.
        while let Ok(mut seen) = stdout.ready(interest).await {
            if seen.ready().is_error() || seen.ready().is_write_closed() {
                return;
            }
            seen.clear_ready();
        }
    }
    std::future::pending().await
}
