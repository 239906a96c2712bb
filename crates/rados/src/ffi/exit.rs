//! How a process ends that may still be connected.

use std::ffi::c_int;
use std::io::Write;

use super::cluster::connected;

unsafe extern "C" {
    /// Ends the process, and does nothing else: C's and C++'s globals stay as they are.
    fn _exit(status: c_int) -> !;
}

/// Ends the process with this status if a connection is still open, for example after an interrupt
/// while the cluster is silent. librados' threads then still use globals that an ordinary exit
/// would destroy, and these threads end only when the cluster answers.
pub fn exit_if_connected(status: u8) {
    if connected() == 0 {
        return;
    }
    // Flushes the output, as an ordinary exit does. An error could not be reported any more.
    let _ = std::io::stdout().flush();
    // SAFETY: the function takes any number and never returns.
    unsafe { _exit(status.into()) }
}
