//! Reads the part of a node's log that was written since its process started. The supervisor quotes
//! this part when a node failed to start.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use crate::node_log::last_error;

/// How many lines of a log are shown if it holds no error.
const SHOWN_LINES: usize = 12;
/// How many bytes at the end of the log are read. The log can be long, because the supervisor
/// starts a failing node again and again.
const MAX_BYTES: u64 = 64 * 1024;

/// The end of a log, from a moment on.
#[derive(Debug)]
pub(crate) struct LogTail {
    path: PathBuf,
    from: u64,
}

impl LogTail {
    /// Follows the log from its present end on.
    pub fn from_now(path: PathBuf) -> Self {
        let from = std::fs::metadata(&path).map_or(0, |log| log.len());
        Self { path, from }
    }

    /// The log.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Says why the node ended: the error in its log. If the log has no error, this is `how` (how
    /// the process ended), followed by the last lines of the log.
    pub fn why_it_ended(&self, how: &str) -> String {
        let text = self.read().unwrap_or_default();
        last_error(&text).unwrap_or_else(|| {
            let lines: Vec<_> = text.lines().collect();
            let shown = match lines.len() {
                0 => &["it has logged nothing: is there room on the disk?"],
                count => &lines[count.saturating_sub(SHOWN_LINES)..],
            };
            [&[how], shown].concat().join("\n")
        })
    }

    /// The cause in one line, for readers who can also look into the log.
    pub fn cause(&self, status: ExitStatus) -> String {
        // A signal or an order to stop explains the end better than anything in the log.
        let said = match status.code() {
            None => None,
            Some(0) => Some("it was told to stop".to_owned()),
            Some(_) => last_error(&self.read().unwrap_or_default()),
        };
        let cause = said.unwrap_or_else(|| status.to_string());
        cause.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    fn read(&self) -> std::io::Result<String> {
        let mut log = File::open(&self.path)?;
        let length = log.metadata()?.len();
        log.seek(SeekFrom::Start(self.from.max(length.saturating_sub(MAX_BYTES))))?;
        let mut text = Vec::new();
        log.take(MAX_BYTES).read_to_end(&mut text)?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;

    #[test]
    fn a_cause_is_one_line_and_quotes_the_log_only_if_the_node_failed() {
        let folder = tempfile::tempdir().unwrap();
        let tail = LogTail::from_now(folder.path().join("log"));
        let failed = ExitStatus::from_raw(1 << 8);
        assert_eq!(tail.cause(failed), "exit status: 1");
        std::fs::write(tail.path(), r#"{"level":"error","message":"no\nkey"}"#).unwrap();
        assert_eq!(tail.cause(failed), "no key");
        assert_eq!(tail.cause(ExitStatus::from_raw(0)), "it was told to stop");
        assert_eq!(tail.cause(ExitStatus::from_raw(9)), "signal: 9 (SIGKILL)");
    }

    #[test]
    fn a_log_tail_begins_at_the_start_of_the_node_and_prefers_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        std::fs::write(&path, "{\"level\":\"error\",\"message\":\"long ago\"}\n").unwrap();
        let tail = LogTail::from_now(path.clone());
        let silent = "aborted\nit has logged nothing: is there room on the disk?";
        assert_eq!(tail.why_it_ended("aborted"), silent);
        let say = |line: &str| {
            let text = std::fs::read_to_string(&path).unwrap();
            std::fs::write(&path, format!("{text}{line}\n")).unwrap();
        };
        say("librados: assert");
        assert_eq!(tail.why_it_ended("aborted"), "aborted\nlibrados: assert");
        say("{\"level\":\"error\",\"message\":\"no key\"}");
        say("{\"level\":\"info\",\"message\":\"stopping\"}");
        assert_eq!(tail.why_it_ended("exit status: 1"), "no key");
    }
}
