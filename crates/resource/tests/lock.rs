//! The lock service of the standard library.

use std::sync::Arc;

use nacre_clock::{Clock, SystemClock};
use nacre_object::{ErrorKind, Result};
use nacre_resource::{FileType, MethodCall};
use serde_json::{Value, json};

/// Locks, and the time as their authority sees it.
struct Locks {
    file_type: FileType,
    clock: Arc<dyn Clock>,
    state: Value,
    now_seconds: u64,
}

impl Locks {
    fn new() -> Self {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
        let source = include_str!("../../../programs/filetype/lock.lua");
        let file_type = FileType::compile("filetype/lock", 1, source, &clock).unwrap();
        let state = file_type.initial(&clock).unwrap();
        Self { file_type, clock, state, now_seconds: 1000 }
    }

    fn call(&mut self, client: &str, method: &str, input: Value) -> Result<Value> {
        let now_micros = self.now_seconds * 1_000_000;
        let call = MethodCall { method, input: &input, client, tenant: "standard", now_micros };
        let outcome = self.file_type.call(&call, &self.state, &self.clock)?;
        if let Some(state) = outcome.state {
            self.state = state;
        }
        Ok(outcome.output)
    }

    fn acquire(&mut self, client: &str) -> Result<u64> {
        let granted = self.call(client, "acquire", json!({ "name": "backup", "seconds": 10 }))?;
        Ok(granted["token"].as_f64().unwrap() as u64)
    }
}

#[test]
fn a_lock_has_one_holder_until_it_expires() {
    let mut locks = Locks::new();
    assert_eq!(locks.acquire("alice").unwrap(), 1);
    let refused = locks.acquire("bob").unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Conflict);
    assert!(refused.to_string().contains("alice holds backup for 10.0 s more"), "{refused}");
    locks.now_seconds += 10;
    assert_eq!(locks.acquire("bob").unwrap(), 2, "the token is greater than all before");
    let holder = locks.call("carol", "holder", json!({ "name": "backup" })).unwrap();
    assert_eq!((&holder["client"], &holder["token"]), (&json!("bob"), &json!(2)));
}

#[test]
fn only_the_holder_renews_and_releases_a_lock() {
    let mut locks = Locks::new();
    let renewal = json!({ "name": "backup", "seconds": 10 });
    locks.acquire("alice").unwrap();
    locks.now_seconds += 9;
    assert_eq!(locks.call("alice", "renew", renewal.clone()).unwrap(), json!({ "token": 1 }));
    locks.now_seconds += 9;
    assert!(locks.acquire("bob").is_err(), "it was renewed");
    let lock = json!({ "name": "backup" });
    assert_eq!(locks.call("bob", "release", lock.clone()).unwrap(), json!(false));
    locks.now_seconds += 1;
    let late = locks.call("alice", "renew", renewal).unwrap_err();
    assert_eq!(late.kind(), ErrorKind::NotFound, "{late}");
    assert_eq!(locks.acquire("bob").unwrap(), 2);
    assert_eq!(locks.call("alice", "release", lock.clone()).unwrap(), json!(false));
    assert_eq!(locks.call("bob", "release", lock.clone()).unwrap(), json!(true));
    assert_eq!(locks.call("carol", "holder", lock).unwrap(), Value::Null);
}

#[test]
fn an_invalid_call_of_a_lock_is_refused_and_changes_nothing() {
    let mut locks = Locks::new();
    let before = locks.state.clone();
    for input in [
        Value::Null,
        json!({}),
        json!({ "name": "", "seconds": 1 }),
        json!({ "name": "x".repeat(257), "seconds": 1 }),
        json!({ "name": "a" }),
        json!({ "name": "a", "seconds": 0 }),
        json!({ "name": "a", "seconds": 3601 }),
        json!({ "name": 7, "seconds": 1 }),
    ] {
        let refused = locks.call("alice", "acquire", input.clone()).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Invalid, "{input}: {refused}");
    }
    assert_eq!(locks.state, before);
}

#[test]
fn expired_locks_free_their_space() {
    let mut locks = Locks::new();
    for number in 0..50 {
        let lock = json!({ "name": format!("lock-{number}"), "seconds": 1 });
        locks.call("alice", "acquire", lock).unwrap();
    }
    locks.now_seconds += 1;
    locks.acquire("bob").unwrap();
    assert_eq!(locks.state["locks"].as_object().unwrap().len(), 1);
}
