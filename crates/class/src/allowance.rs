//! What one request may take of its thread, all its calls together: each has a budget of its own, and a
//! thousand of them would hold up everybody whose objects that thread serves.

use std::sync::OnceLock;
use std::time::Duration;

use nacre_clock::Clock;
use nacre_object::{CallAllowance, Error, Result};

/// Of a CPU: some calls that need all of theirs.
const CPU_TIME: Duration = Duration::from_secs(1);
/// With what it waits for its disk: less than an OSD takes for stuck (`osd_op_thread_timeout`, 15 s), the last
/// call included.
const WALL_TIME: Duration = Duration::from_secs(5);
/// Requests that took less are not looked at closer.
const QUICK: Duration = Duration::from_millis(50);

const _: () = assert!(QUICK.as_millis() < CPU_TIME.as_millis());
const _: () = assert!(CPU_TIME.as_millis() < WALL_TIME.as_millis());

/// What is left of it.
pub(crate) struct Allowance<'a> {
    clock: &'a dyn Clock,
    began: Duration,
    /// The time of the thread at the first closer look; where the clock can tell it.
    thread_began: OnceLock<Duration>,
}

impl<'a> Allowance<'a> {
    /// All of it, from now on.
    pub fn new(clock: &'a dyn Clock) -> Self {
        Self { clock, began: clock.monotonic(), thread_began: OnceLock::new() }
    }

    /// Of a CPU, in a request that `took` so long.
    fn used(&self, took: Duration) -> Duration {
        let Some(thread) = self.clock.thread_time() else { return took };
        thread.saturating_sub(*self.thread_began.get_or_init(|| thread))
    }
}

impl CallAllowance for Allowance<'_> {
    fn check(&self) -> Result<()> {
        let took = self.clock.monotonic().saturating_sub(self.began);
        if took < QUICK {
            return Ok(());
        }
        if took >= WALL_TIME || self.used(took) >= CPU_TIME {
            let text = format!("the calls of the request took {} ms", took.as_millis());
            return Err(Error::exhausted(text).hint("send fewer calls at a time"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use nacre_clock::ManualClock;

    use super::*;

    #[test]
    fn calls_may_begin_until_it_is_used_up() {
        let clock = ManualClock::at(1);
        let allowance = Allowance::new(&clock);
        for _ in 0..4 {
            allowance.check().unwrap();
            clock.advance(CPU_TIME / 4);
        }
        allowance.check().unwrap_err();
    }
}
