//! Which right on a log a client needs for a call on one of the log's objects.

use nacre_object::{ClassCall, MethodName, ObjectId};
use nacre_registry::{CallNeed, Right};

use crate::{BRADOS_CLASS, NATIVE_CLASS, PROGRAM_CLASS};

/// The pool of logs. Grants can name only logs in this pool.
const LOG_POOL: &str = "log";
/// The methods that a client with only the right to read a log may call on the log's objects.
/// Filling is one of them, because an unfilled hole would stop a reader for ever. A Brados class
/// also has each method as a batch, under the method's name with `.batch` added.
const READING: [&str; 7] =
    ["read", "read_batch", "read.batch", "max_position", "fill", "fill_batch", "fill.batch"];
/// The methods that a client with the right to append may call.
const APPENDING: [&str; 3] = ["write", "write_batch", "write.batch"];

/// The right that a client needs to call a log class on the object `log/NAME/…` in the pool of
/// logs. Returns `None` for any other call.
pub fn log_call_rule<'a>(call: &ClassCall, object: &'a ObjectId) -> Option<CallNeed<'a>> {
    let class = call.class.as_str();
    let is_of_logs =
        [PROGRAM_CLASS, NATIVE_CLASS].contains(&class) || class.starts_with(BRADOS_CLASS);
    if !is_of_logs || object.pool.as_str() != LOG_POOL {
        return None;
    }
    let (log, _) = object.name.as_str().strip_prefix("log/")?.split_once('/')?;
    Some(CallNeed::Log { log, right: right_to_call(&call.method) })
}

fn right_to_call(method: &MethodName) -> Right {
    match method.as_str() {
        method if READING.contains(&method) => Right::Read,
        method if APPENDING.contains(&method) => Right::Append,
        _ => Right::Write,
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn right(on: &str, class: &str, method: &str) -> Option<Right> {
        let (class, method) = (class.parse().unwrap(), method.parse().unwrap());
        let call = ClassCall { class, method, version: None, input: Bytes::new() };
        match log_call_rule(&call, &on.parse().unwrap())? {
            CallNeed::Log { log, right } => {
                assert_eq!(log, "orders");
                Some(right)
            }
            CallNeed::Admin => None,
        }
    }

    const ON: &str = "log/log/orders/0.0.1{orders.0.1.0}";

    #[test]
    fn a_reader_may_read_and_fill_a_producer_may_write_and_other_calls_need_full_rights() {
        for class in ["log", "log_native", "log_brados", "log_brados_wide"] {
            for method in ["read", "read_batch", "read.batch", "fill", "fill.batch", "max_position"]
            {
                assert_eq!(right(ON, class, method), Some(Right::Read), "{class}.{method}");
            }
            for method in ["write", "write_batch", "write.batch"] {
                assert_eq!(right(ON, class, method), Some(Right::Append), "{class}.{method}");
            }
            for method in ["seal", "trim", "trim_to"] {
                assert_eq!(right(ON, class, method), Some(Right::Write), "{class}.{method}");
            }
        }
    }

    #[test]
    fn other_classes_and_objects_of_other_pools_do_not_belong_to_a_log() {
        assert_eq!(right(ON, "other", "write"), None);
        assert_eq!(right("data/log/orders/0.0.1", "log", "read"), None);
        assert_eq!(right("log/orders/0.0.1", "log", "read"), None);
        assert_eq!(right("log/log/orders", "log", "read"), None);
    }
}
