//! A line on the terminal that shows how far the appends are. Nothing is shown if standard error is
//! not a terminal.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};

use super::writers::Work;
use crate::out;

/// How often the line is written anew.
const PERIOD: Duration = Duration::from_millis(250);
/// Back to the start of the line, which is erased.
const ERASE: &str = "\r\x1b[K";

/// Where progress is shown.
#[derive(Debug, Clone, Copy)]
pub struct Progress {
    is_terminal: bool,
}

impl Progress {
    /// Shows progress if standard error is a terminal.
    pub fn new() -> Self {
        Self { is_terminal: io::stderr().is_terminal() }
    }

    /// Says something on a line of its own.
    pub fn note(self, text: &str) {
        self.write(ERASE);
        out::note(text);
    }

    /// Says how far the work is, again and again. It never returns.
    pub async fn follow<T>(self, work: &Work) -> T {
        let mut ticks = interval(PERIOD);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let started = work.now();
        loop {
            ticks.tick().await;
            let (count, total) = (*work.acknowledged().borrow(), work.total());
            let seconds = (work.now() - started).as_secs_f64();
            let rate = count as f64 / seconds.max(f64::EPSILON);
            self.write(&format!("{ERASE}{count} of {total} records, {rate:.0} records/s"));
        }
    }

    fn write(self, text: &str) {
        if self.is_terminal {
            let mut terminal = io::stderr().lock();
            // Nobody may be reading; that must not stop the work.
            let _ = terminal.write_all(text.as_bytes()).and_then(|()| terminal.flush());
        }
    }
}
