//! The log that a node's process writes to standard error. Each line is a JSON document for log
//! collectors; on a terminal, each line is formatted for a person.
//!
//! `{"time", "level", "node", "message", …}`: `time` is UTC with microseconds. Further fields
//! depend on the message. `trace_id` is present if the message belongs to a traced request.

use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use nacre_clock::Clock;
use nacre_telemetry::Trace;
use serde_json::{Map, Value};

/// How much a message matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// It is as it should be.
    Info,
    /// Somebody should look at it.
    Error,
}

impl Level {
    fn as_str(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Error => "error",
        }
    }
}

/// The log of one node. Cheap to clone.
#[derive(Debug, Clone)]
pub struct NodeLog {
    node: String,
    clock: Arc<dyn Clock>,
}

impl NodeLog {
    /// The log of this node.
    pub fn new(node: &str, clock: Arc<dyn Clock>) -> Self {
        Self { node: node.to_owned(), clock }
    }

    /// Says something.
    pub fn say(&self, level: Level, message: &str, fields: &[(&str, Value)]) {
        let line = match io::stderr().is_terminal() {
            true => format!("{}: {message}", self.node),
            false => self.line(level, message, fields),
        };
        // Standard error may be closed. That must not stop the node.
        let _ = writeln!(io::stderr(), "{line}");
    }

    /// A message as JSON.
    fn line(&self, level: Level, message: &str, fields: &[(&str, Value)]) -> String {
        let moment = UNIX_EPOCH + Duration::from_micros(self.clock.now_micros());
        let mut line = Map::new();
        line.insert("time".into(), humantime::format_rfc3339_micros(moment).to_string().into());
        line.insert("level".into(), level.as_str().into());
        line.insert("node".into(), self.node.as_str().into());
        line.insert("message".into(), message.into());
        if let Some(trace) = Trace::current() {
            line.insert("trace_id".into(), trace.id().to_string().into());
        }
        line.extend(fields.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
        Value::Object(line).to_string()
    }
}

/// The message of the last error in some lines of a log.
pub(crate) fn last_error(log: &str) -> Option<String> {
    log.lines().rev().find_map(|line| {
        let line: Value = serde_json::from_str(line).ok()?;
        let is_error = line.get("level")?.as_str()? == Level::Error.as_str();
        is_error.then(|| line.get("message")?.as_str().map(str::to_owned)).flatten()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use nacre_clock::ManualClock;

    #[test]
    fn a_log_line_is_one_json_document_with_its_time_and_its_own_fields() {
        let log = NodeLog::new("storage.0", Arc::new(ManualClock::at(1_000_001)));
        let line = log.line(Level::Error, "two\nlines", &[("kind", "stale".into())]);
        assert_eq!(line.lines().count(), 1);
        let line: Value = serde_json::from_str(&line).unwrap();
        let expected = serde_json::json!({
            "time": "1970-01-01T00:00:01.000001Z", "level": "error", "node": "storage.0",
            "message": "two\nlines", "kind": "stale",
        });
        assert_eq!(line, expected);
        assert_eq!(last_error(&format!("{line}\n")).as_deref(), Some("two\nlines"));
    }
}
