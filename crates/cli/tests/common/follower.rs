//! A command that runs beside the test and prints lines.

use std::io::{BufRead, BufReader, Lines};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};

use nacre_conformance::wait::within_deadline_blocking;

/// Such a command; killed when dropped.
pub struct Follower {
    what: String,
    child: Child,
    lines: Option<Lines<BufReader<ChildStdout>>>,
}

impl Follower {
    pub fn start(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { what: format!("{command:?}"), child, lines: Some(lines) }
    }

    /// The next line it prints.
    pub fn next_line(&mut self) -> String {
        let mut lines = self.lines.take().expect("somebody reads it");
        let what = format!("a line of {}", self.what);
        let (line, lines) = within_deadline_blocking(&what, || (lines.next(), lines));
        self.lines = Some(lines);
        line.unwrap_or_else(|| panic!("{} ended", self.what)).unwrap()
    }

    /// Closes the pipe it prints to, and answers how it ended.
    pub fn end_without_reader(mut self) -> ExitStatus {
        drop(self.lines.take());
        self.ended()
    }

    /// Waits for its end.
    pub fn ended(&mut self) -> ExitStatus {
        let mut status = None;
        nacre_conformance::wait::eventually_blocking(&format!("the end of {}", self.what), || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        status.expect("it has ended")
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
