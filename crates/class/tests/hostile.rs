//! Runs every script in `hostile/`. Each script must end within twice its budget, with the outcome
//! that its first line states, and leave its object unchanged. The same thread must then serve the
//! next call.

mod support;

use bytes::Bytes;
use nacre_clock::{Clock, SystemClock};
use nacre_conformance::{HostileScript, hostile_scripts};
use nacre_object::{ErrorKind, Op};
use support::{Node, small_budget};

#[test]
fn hostile_scripts_end_in_time_and_leave_their_object_unchanged() {
    let node = Node::with_budget(small_budget());
    // Measure CPU time, as the budget does, because a busy machine may stop a thread for longer.
    let clock = SystemClock::default();
    let time = || clock.thread_time().expect("this system tells a thread's time");
    node.submit("o", vec![Op::WriteFull { data: Bytes::from_static(b"as it was") }]).unwrap();
    for HostileScript { name, source, expected } in hostile_scripts() {
        let before = time();
        let outcome = match node.eval("o", &source, "h", b"") {
            Ok(reply) => format!("status {}", reply.status),
            Err(error) => error.kind().to_string(),
        };
        let took = time() - before;
        assert_eq!(outcome, expected, "{name}");
        assert!(took <= 2 * small_budget().time, "{name} took {took:?}");
        assert_eq!(&node.read("o").unwrap()[..], b"as it was", "{name}");
        assert_eq!(node.body("o", "output:append(('ok'):rep(2))"), (0, "okok".into()), "{name}");
    }
}

#[test]
fn hostile_programs_are_refused_or_fail_their_own_calls_only() {
    let node = Node::with_budget(small_budget());
    node.install("good", 1, "function m() return 7 end objclass.register(m)").unwrap();
    for HostileScript { name, source, .. } in hostile_scripts() {
        let installed = node.install("bad", 1, &source);
        let loads_forever =
            ["endless_loop_while_loading", "overwrite_string_rep", "register_forever"];
        assert_eq!(installed.is_err(), loads_forever.contains(&name.as_str()), "{name}");
        if let Err(error) = installed {
            assert_eq!(error.kind(), ErrorKind::Invalid, "{name}: {error}");
        }
        assert_eq!(node.method("o", "good", "m", "").unwrap().status, 7, "{name}");
    }
}
