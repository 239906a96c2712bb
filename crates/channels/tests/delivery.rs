//! Messages that are sent are delivered once.

mod support;

use futures::StreamExt;
use nacre_conformance::faults::{Fault, Operation};
use nacre_object::{Op, Request, Watch, WatchEvent};

use support::{PACE, World, call, calls, submit, until};

/// Whether a request is a courier's read of messages.
fn is_look(request: &Request) -> bool {
    let is_range = |op: &Op| matches!(op, Op::MapRange { prefix, .. } if &prefix[..] == b">");
    request.ops.iter().any(is_range)
}

/// A plan in which requests of one kind meet a fault.
fn on(
    mut is_meant: impl FnMut(&Request) -> bool + Send + 'static,
    fault: Fault,
) -> nacre_conformance::faults::FaultPlan {
    Box::new(move |operation| match operation {
        Operation::Submit(request) if is_meant(request) => Some(fault),
        _ => None,
    })
}

#[tokio::test(start_paused = true)]
async fn a_call_reaches_the_other_object_after_the_request() {
    let world = World::new();
    let process = world.process(1);
    for number in 0..300 {
        process.pass("a", "b", number).await.unwrap();
    }
    world.until_empty("data/a").await;
    assert_eq!(world.numbers("data/b").await, (0..300).collect::<Vec<_>>());
    assert_eq!(process.courier.stats().calls, 300);
}

#[tokio::test(start_paused = true)]
async fn an_object_can_send_to_itself_and_in_a_circle() {
    let world = World::new();
    let process = world.process(1);
    process.pass("a", "a", 1).await.unwrap();
    process.pass("a", "b", 2).await.unwrap();
    process.pass("b", "a", 3).await.unwrap();
    world.until_empty("data/a").await;
    world.until_empty("data/b").await;
    let mut own = world.numbers("data/a").await;
    own.sort_unstable();
    assert_eq!((own, world.numbers("data/b").await), (vec![1, 3], vec![2]));
}

#[tokio::test(start_paused = true)]
async fn watchers_get_a_sent_notification() {
    let world = World::new();
    let process = world.process(1);
    let object = "data/a".parse().unwrap();
    let mut watch = world.memory.watch(&object).await.unwrap();
    process.relay("data/a", "tell", &[nacre_brados::Value::text("news")]).await.unwrap();
    let told = async {
        while let Some(event) = watch.next().await {
            if let WatchEvent::Notified { payload } = event {
                return payload;
            }
        }
        panic!("the watch ended");
    };
    assert_eq!(told.await, "news");
}

#[tokio::test(start_paused = true)]
async fn dropping_the_last_reference_removes_the_object() {
    let world = World::new();
    let process = world.process(1);
    process.refs("data/a", "get_ref", "x").await.unwrap();
    process.refs("data/a", "get_ref", "y").await.unwrap();
    process.refs("data/a", "put_ref", "x").await.unwrap();
    process.refs("data/a", "put_ref", "y").await.unwrap();
    until(async || !world.exists("data/a").await).await;
    process.refs("data/a", "get_ref", "x").await.unwrap();
    assert!(world.exists("data/a").await, "it is made anew");
}

#[tokio::test(start_paused = true)]
async fn an_object_that_changes_before_it_is_removed_stays() {
    let world = World::new();
    let process = world.process(1);
    process.faults.follow(on(|request| calls(request, "remove"), Fault::Hold));
    process.refs("data/a", "get_ref", "x").await.unwrap();
    process.refs("data/a", "put_ref", "x").await.unwrap();
    process.faults.wait_until_held(1).await;
    process.refs("data/a", "get_ref", "y").await.unwrap();
    process.faults.heal();
    process.faults.release(1);
    until(async || process.courier.stats().removals == 1).await;
    let held = call(&world.memory, "data/a", "refs", "list", &[nacre_brados::Value::Nil]).await;
    assert_eq!(nacre_brados::shown_reply(&held.unwrap()), "held('y')");
    assert!(world.outbox("data/a").await.waiting.is_empty(), "the message was taken back");
    process.refs("data/a", "put_ref", "y").await.unwrap();
    until(async || !world.exists("data/a").await).await;
}

#[tokio::test(start_paused = true)]
async fn another_process_delivers_the_messages_of_a_dead_process() {
    let world = World::new();
    let dying = world.process(1);
    dying.faults.follow(on(is_look, Fault::FailBefore));
    for number in 0..3 {
        dying.pass("a", "b", number).await.unwrap();
    }
    drop(dying);
    assert_eq!(world.outbox("data/a").await.waiting.len(), 3);
    assert!(world.marks().await > 0);
    let _other = world.process(2);
    world.until_empty("data/a").await;
    assert_eq!(world.numbers("data/b").await, [0, 1, 2]);
    until(async || world.marks().await == 0).await;
}

#[tokio::test(start_paused = true)]
async fn a_delivered_but_unsettled_message_is_not_delivered_again() {
    let world = World::new();
    let dying = world.process(1);
    dying.faults.follow(on(|request| calls(request, "settle"), Fault::FailBefore));
    for number in 0..3 {
        dying.pass("a", "b", number).await.unwrap();
    }
    until(async || world.numbers("data/b").await.len() == 3).await;
    drop(dying);
    assert_eq!(world.outbox("data/a").await.waiting.len(), 3);
    let _other = world.process(2);
    world.until_empty("data/a").await;
    assert_eq!(world.numbers("data/b").await, [0, 1, 2]);
}

#[tokio::test(start_paused = true)]
async fn a_delivery_whose_answer_is_lost_is_not_made_twice() {
    let world = World::new();
    let process = world.process(1);
    let mut lost = 0;
    let is_lost = move |request: &Request| {
        lost += usize::from(calls(request, "accept"));
        calls(request, "accept") && lost % 2 == 1
    };
    process.faults.follow(on(is_lost, Fault::FailAfter));
    for number in 0..20 {
        process.pass("a", "b", number).await.unwrap();
    }
    world.until_empty("data/a").await;
    assert_eq!(world.numbers("data/b").await, (0..20).collect::<Vec<_>>());
    assert!(process.courier.stats().failures > 0, "answers were lost");
}

#[tokio::test(start_paused = true)]
async fn two_couriers_deliver_a_message_only_once() {
    let world = World::new();
    let (one, other) = (world.process(1), world.process(2));
    // The first courier delivers and does not settle; the second finds the same messages.
    one.faults.follow(on(|request| calls(request, "settle"), Fault::Hold));
    for number in 0..10 {
        one.pass("a", "b", number).await.unwrap();
    }
    one.faults.wait_until_held(1).await;
    for number in 10..20 {
        other.pass("a", "b", number).await.unwrap();
    }
    world.until_empty("data/a").await;
    one.faults.heal();
    one.faults.release(100);
    one.pass("a", "b", 20).await.unwrap();
    world.until_empty("data/a").await;
    assert_eq!(world.numbers("data/b").await, (0..=20).collect::<Vec<_>>());
    assert!(one.courier.stats().calls > 0 && other.courier.stats().calls > 0);
}

#[tokio::test(start_paused = true)]
async fn an_object_that_is_made_again_is_a_new_sender() {
    let world = World::new();
    let process = world.process(1);
    for number in 0..3 {
        process.pass("a", "b", number).await.unwrap();
    }
    world.until_empty("data/a").await;
    submit(&world.memory, "data/a", vec![Op::Remove]).await.unwrap();
    for number in 3..5 {
        process.pass("a", "b", number).await.unwrap();
    }
    world.until_empty("data/a").await;
    assert_eq!(world.numbers("data/b").await, [0, 1, 2, 3, 4]);
}

#[tokio::test(start_paused = true)]
async fn a_busy_object_is_marked_once_and_an_idle_one_loses_its_mark() {
    let world = World::new();
    let process = world.process(1);
    let marked = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let count = marked.clone();
    let is_mark = move |request: &Request| {
        let is_mark = request.header.object.to_string().starts_with("nacre.system/channels/")
            && request.ops.iter().any(|op| matches!(op, Op::MapSet { .. }));
        count.fetch_add(usize::from(is_mark), std::sync::atomic::Ordering::SeqCst);
        false
    };
    process.faults.follow(on(is_mark, Fault::FailBefore));
    for number in 0..50 {
        process.pass("a", "b", number).await.unwrap();
    }
    assert_eq!(marked.load(std::sync::atomic::Ordering::SeqCst), 1);
    assert_eq!(world.marks().await, 1);
    until(async || world.marks().await == 0).await;
    process.pass("a", "b", 50).await.unwrap();
    assert_eq!(world.marks().await, 1);
    world.until_empty("data/a").await;
    assert_eq!(world.numbers("data/b").await.len(), 51);
}

/// Whether a request is about a ledger.
fn is_of_ledger(request: &Request) -> bool {
    request.header.object.to_string().starts_with("nacre.system/channels/")
}

#[tokio::test(start_paused = true)]
async fn a_sweep_keeps_a_mark_until_its_process_has_the_answer() {
    let world = World::new();
    for is_alone in [false, true] {
        let dying = world.start(1, PACE, is_alone);
        let is_mark = |request: &Request| {
            is_of_ledger(request) && matches!(request.ops[..], [Op::MapSet { .. }])
        };
        dying.faults.follow(on(is_mark, Fault::HoldReply));
        let sweeps = async {
            dying.faults.wait_until_held(1).await;
            tokio::time::sleep(4 * PACE.sweep_every).await;
            assert_eq!(world.marks().await, 1);
            dying.faults.follow(on(is_look, Fault::FailBefore));
            dying.faults.release(1);
        };
        let (passed, ()) = tokio::join!(dying.pass("a", "b", i64::from(is_alone)), sweeps);
        passed.unwrap();
        drop(dying);
        let other = world.start(2, PACE, true);
        world.until_empty("data/a").await;
        until(async || world.marks().await == 0).await;
        drop(other);
    }
    assert_eq!(world.numbers("data/b").await, [0, 1]);
}

#[tokio::test(start_paused = true)]
async fn the_trusted_one_of_two_marks_made_at_once_stays() {
    let world = World::new();
    let process = world.process(1);
    let mut marks = 0;
    let is_first_mark = move |request: &Request| {
        let is_mark = is_of_ledger(request) && matches!(request.ops[..], [Op::MapSet { .. }]);
        marks += usize::from(is_mark);
        is_mark && marks == 1
    };
    // The second mark is stored last, and the answer for the first one comes last.
    process.faults.follow(on(is_first_mark, Fault::HoldReply));
    let later = async {
        process.faults.wait_until_held(1).await;
        process.pass("a", "b", 1).await.unwrap();
        process.faults.release(1);
    };
    let (first, ()) = tokio::join!(process.pass("a", "b", 0), later);
    first.unwrap();
    let begun = tokio::time::Instant::now();
    for number in 2.. {
        if begun.elapsed() > PACE.trusted_for / 2 {
            break;
        }
        process.pass("a", "b", number).await.unwrap();
        world.until_empty("data/a").await;
        tokio::time::sleep(PACE.sweep_every / 2).await;
        assert!(world.marks().await > 0, "number {number} was sent and nothing says so");
    }
    assert_eq!(world.marks().await, 1, "the other is not needed");
    process.faults.follow(on(is_look, Fault::FailBefore));
    process.pass("a", "b", 100).await.unwrap();
    drop(process);
    let _other = world.process(2);
    world.until_empty("data/a").await;
}

#[tokio::test(start_paused = true)]
async fn a_mark_stays_although_another_process_alone_serves_its_ledger() {
    let world = World::new();
    let [one, two] = world.one_for_each_target();
    for number in 0..2 * PACE.sweep_every.as_secs() as i64 {
        one.pass("a", "b", number).await.unwrap();
        world.until_empty("data/a").await;
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        assert_eq!(world.marks().await, 1);
    }
    drop(one);
    until(async || world.marks().await == 0).await;
    drop(two);
}

#[tokio::test(start_paused = true)]
async fn a_message_of_a_request_that_ran_after_its_timeout_is_delivered_soon() {
    let world = World::new();
    let process = world.process(1);
    process.faults.follow(on(calls_relay, Fault::FailBefore));
    process.pass("a", "b", 7).await.unwrap_err();
    process.faults.heal();
    tokio::time::sleep(PACE.uncertain_for / 2).await;
    let row = ["b", "a"].map(nacre_brados::Value::text);
    let row = [&row[..], &[nacre_brados::Value::Int(7)]].concat();
    call(&world.memory, "data/a", "relay", "pass", &row).await.unwrap();
    let begun = tokio::time::Instant::now();
    world.until_empty("data/a").await;
    assert!(begun.elapsed() <= 2 * PACE.sweep_every, "it took {:?}", begun.elapsed());
}

fn calls_relay(request: &Request) -> bool {
    request.ops.iter().any(|op| matches!(op, Op::Call(call) if call.class.as_str() == "relay"))
}

#[tokio::test(start_paused = true)]
async fn a_mark_is_removed_if_the_reply_to_its_write_was_lost() {
    let world = World::new();
    let process = world.process(1);
    process.faults.follow(on(is_of_ledger, Fault::FailAfter));
    process.pass("a", "b", 0).await.unwrap_err();
    assert_eq!(world.marks().await, 1);
    process.faults.heal();
    let begun = tokio::time::Instant::now();
    until(async || world.marks().await == 0).await;
    assert!(begun.elapsed() < PACE.trusted_for);
}

#[tokio::test(start_paused = true)]
async fn a_request_sends_nothing_unless_its_object_is_marked() {
    let world = World::new();
    let process = world.process(1);
    process.faults.follow(on(is_of_ledger, Fault::FailBefore));
    let refused = process.pass("a", "b", 0).await.unwrap_err();
    assert_eq!(refused.kind(), nacre_object::ErrorKind::Unavailable);
    assert!(!world.exists("data/a").await);
    process
        .relay("data/a", "take", &[nacre_brados::Value::text("x"), nacre_brados::Value::Int(1)])
        .await
        .expect("what sends nothing needs no mark");
}

#[tokio::test(start_paused = true)]
async fn a_mark_of_another_process_stays_as_long_as_it_may_be_trusted() {
    let world = World::new();
    let first = world.process(1);
    first.pass("a", "b", 0).await.unwrap();
    world.until_empty("data/a").await;
    drop(first);
    let begun = tokio::time::Instant::now();
    let _other = world.process(2);
    until(async || world.marks().await == 0).await;
    assert!(begun.elapsed() >= PACE.trusted_for, "it went after {:?}", begun.elapsed());
    let first = world.process(3);
    first.pass("a", "b", 1).await.unwrap();
    world.until_empty("data/a").await;
    drop(first);
    // A process that alone serves the engine knows that no other process trusts the mark.
    let begun = tokio::time::Instant::now();
    let _alone = world.start(4, PACE, true);
    until(async || world.marks().await == 0).await;
    assert!(begun.elapsed() < PACE.trusted_for);
}

#[tokio::test(start_paused = true)]
async fn a_refused_message_becomes_a_dead_letter_even_if_settling_fails_at_first() {
    let world = World::new();
    let process = world.process(1);
    let mut settlements = 0;
    let is_first = move |request: &Request| {
        settlements += usize::from(calls(request, "settle"));
        calls(request, "settle") && settlements == 1
    };
    process.faults.follow(on(is_first, Fault::FailBefore));
    for number in [-1, 2, 3] {
        process.pass("a", "b", number).await.unwrap();
    }
    world.until_empty("data/a").await;
    assert_eq!(world.numbers("data/b").await, [2, 3]);
    let dead = world.outbox("data/a").await.dead;
    assert_eq!(dead.iter().map(|dead| dead.message.number).collect::<Vec<_>>(), [1]);
}
