//! How a process ends that may still be connected.

use std::ffi::c_int;
use std::io::Write;

use super::cluster::connected;

unsafe extern "C" {
    /// Ends the process, and does nothing else: C's and C++'s globals stay as they are.
    fn _exit(status: c_int) -> !;
}

/// Ends the process with this status if a connection has not come to its end, as when somebody is interrupted
/// while the cluster is silent. librados' threads are then at work with globals that an ordinary end would
/// take away from under them, and nothing can end them but the cluster's answer.
pub fn leave_if_connected(status: u8) {
    if connected() == 0 {
        return;
    }
    // As an ordinary end does; there is nobody to tell if it fails.
    let _ = std::io::stdout().flush();
    // SAFETY: it takes any number, and returns to nobody.
    unsafe { _exit(status.into()) }
}
