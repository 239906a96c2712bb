//! Which right on a log a call on one of its objects takes.

use nacre_object::{ClassName, MethodName, ObjectId};

use super::grant::Right;

/// The pool in which logs are kept that a grant can name.
const LOG_POOL: &str = "log";
/// The classes of a log's objects, and how the names of those in Brados begin.
const LOG_CLASSES: [&str; 2] = ["log", "log_native"];
const BRADOS_LOG_CLASSES: &str = "log_brados";
/// What a reader of a log may call on its objects: a hole must not stop a reader for ever, so filling is part
/// of reading. Classes in Brados have batches of a method by its name and `.batch`.
const READING: [&str; 7] =
    ["read", "read_batch", "read.batch", "max_position", "fill", "fill_batch", "fill.batch"];
/// What a producer may call.
const APPENDING: [&str; 3] = ["write", "write_batch", "write.batch"];

/// The log that a call is about, if a class of logs is called on an object of a log: `log/NAME/…` of the pool of
/// logs.
pub(super) fn log_called<'a>(class: &ClassName, object: &'a ObjectId) -> Option<&'a str> {
    let class = class.as_str();
    let is_of_logs = LOG_CLASSES.contains(&class) || class.starts_with(BRADOS_LOG_CLASSES);
    let rest = object.name.as_str().strip_prefix("log/")?;
    let (log, _) = rest.split_once('/')?;
    (is_of_logs && object.pool.as_str() == LOG_POOL).then_some(log)
}

/// The right that calling a method takes.
pub(super) fn right_to_call(method: &MethodName) -> Right {
    match method.as_str() {
        method if READING.contains(&method) => Right::Read,
        method if APPENDING.contains(&method) => Right::Append,
        _ => Right::Write,
    }
}
