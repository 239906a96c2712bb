//! Time in an OSD, where a method waits for the disk and for other daemons: its budget is of what its
//! thread has had of a CPU. Each wait is the OSD's own, and bounded by it.

use std::time::Duration;

use nacre_clock::{Clock, SystemClock};

use super::ffi;

/// The machine's clock, which knows what a thread has used.
#[derive(Debug, Default)]
pub(super) struct OsdClock(SystemClock);

impl Clock for OsdClock {
    fn now_micros(&self) -> u64 {
        self.0.now_micros()
    }

    fn monotonic(&self) -> Duration {
        self.0.monotonic()
    }

    fn thread_time(&self) -> Option<Duration> {
        Some(ffi::thread_time())
    }
}
