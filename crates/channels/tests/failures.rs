//! Messages that cannot be delivered, or only later, or not for the entity that sent them.

mod support;

use nacre_brados::Value;
use nacre_channels::{DeadLetters, resend};
use nacre_conformance::faults::{Fault, Operation};
use nacre_object::{EntityName, ErrorKind, ObjectId, Op, TenantName};
use nacre_registry::{Entities, Entity, Grant};

use support::{Process, World, calls, set_key, submit, until};

/// Makes an object unreachable.
fn cut_off(process: &Process, object: &str) {
    let object: ObjectId = object.parse().unwrap();
    process.faults.follow(Box::new(move |operation| match operation {
        Operation::Submit(request) if request.header.object == object => Some(Fault::FailBefore),
        _ => None,
    }));
}

/// Why messages of an object were given up.
async fn reasons(world: &World, object: &str) -> Vec<String> {
    world.outbox(object).await.dead.into_iter().map(|dead| dead.reason).collect()
}

#[tokio::test(start_paused = true)]
async fn an_undeliverable_message_is_given_up_and_delays_no_other() {
    let world = World::new();
    let process = world.process(1);
    let astray = |to: &str, class: &str, method: &str| [to, class, method].map(Value::text);
    for row in [
        astray("b", "nobody", "take"),
        astray("b", "relay", "nothing"),
        astray("", "relay", "take"),
        astray("b", "two words", "take"),
        // Rows of another shape.
        astray("b", "relay", "pass"),
    ] {
        process.relay("data/a", "astray", &row).await.unwrap();
    }
    // Two rows of one key.
    process.pass("a", "b", -1).await.unwrap();
    process.pass("a", "b", 7).await.unwrap();
    world.until_empty("data/a").await;
    assert_eq!(world.numbers("data/b").await, [7]);
    let reasons = reasons(&world, "data/a").await;
    let said = ["no class nobody", "no method nothing", "object name", "class name", "row", "key"];
    assert_eq!(reasons.len(), said.len());
    for (reason, part) in reasons.iter().zip(said) {
        assert!(reason.contains(part), "{part}: {reason}");
    }
    assert_eq!(process.courier.stats().dead, said.len() as u64);
    until(async || {
        let events = process.maps.events().recent(100).await.unwrap();
        events.iter().any(|event| event.text.contains("data/a were given up"))
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_absent_receiver_delays_only_its_own_messages() {
    let world = World::new();
    let process = world.process(1);
    cut_off(&process, "data/b");
    for number in 0..5 {
        process.pass("a", "b", number).await.unwrap();
        process.pass("a", "c", number).await.unwrap();
    }
    until(async || world.outbox("data/a").await.waiting.len() == 5).await;
    assert_eq!(world.numbers("data/c").await, [0, 1, 2, 3, 4]);
    until(async || process.courier.stats().waiting == 5).await;
    process.faults.heal();
    world.until_empty("data/a").await;
    assert_eq!(world.numbers("data/b").await, [0, 1, 2, 3, 4]);
    until(async || process.courier.stats().waiting == 0).await;
}

#[tokio::test(start_paused = true)]
async fn unreadable_objects_delay_no_others() {
    // So many objects that some come after an unreadable one in its ledger.
    const SENDERS: usize = 200;
    const UNREADABLE: usize = 20;
    let world = World::new();
    let first = world.process(1);
    cut_off(&first, "data/b");
    for number in 0..SENDERS {
        first.pass(&format!("a{number}"), "b", number as i64).await.unwrap();
    }
    drop(first);
    let second = world.process(2);
    let names = (0..UNREADABLE).map(|number| format!("data/a{number}").parse().unwrap());
    let unreadable: Vec<ObjectId> = names.collect();
    second.faults.follow(Box::new(move |operation| match operation {
        Operation::Submit(request) if unreadable.contains(&request.header.object) => {
            Some(Fault::FailBefore)
        }
        _ => None,
    }));
    until(async || world.numbers("data/b").await.len() == SENDERS - UNREADABLE).await;
    second.faults.heal();
    until(async || world.numbers("data/b").await.len() == SENDERS).await;
}

#[tokio::test(start_paused = true)]
async fn a_message_that_its_receiver_does_not_accept_is_given_up_after_a_while() {
    let world = World::new();
    let process = world.process(1);
    cut_off(&process, "data/b");
    process.pass("a", "b", 1).await.unwrap();
    until(async || process.courier.stats().dead == 1).await;
    let reasons = reasons(&world, "data/a").await;
    assert!(reasons[0].starts_with("given up:"), "{reasons:?}");
    process.faults.heal();
    process.pass("a", "b", 2).await.unwrap();
    world.until_empty("data/a").await;
    assert_eq!(world.numbers("data/b").await, [2]);
}

#[tokio::test(start_paused = true)]
async fn a_sender_with_too_many_waiting_messages_is_refused() {
    let world = World::new();
    let process = world.process(1);
    cut_off(&process, "data/b");
    let burst = |n: i64| [Value::text("b"), Value::text("a"), Value::Int(n)];
    let too_many = process.relay("data/a", "burst", &burst(1025)).await.unwrap_err();
    assert_eq!(too_many.kind(), ErrorKind::Exhausted, "{too_many}");
    for _ in 0..4 {
        process.relay("data/a", "burst", &burst(1024)).await.unwrap();
    }
    let full = process.pass("a", "b", 1).await.unwrap_err();
    assert_eq!(full.kind(), ErrorKind::Exhausted, "{full}");
    process.faults.heal();
    world.until_empty("data/a").await;
    process.pass("a", "b", 1).await.unwrap();
    world.until_empty("data/a").await;
    assert_eq!(world.numbers("data/b").await.len(), 4 * 1024 + 1);
}

#[tokio::test(start_paused = true)]
async fn a_new_dead_letter_replaces_the_oldest_when_there_are_too_many() {
    let world = World::new();
    let process = world.process(1);
    let row = ["b", "nobody", "take"].map(Value::text);
    for _ in 0..70 {
        process.relay("data/a", "astray", &row).await.unwrap();
    }
    world.until_empty("data/a").await;
    let dead = world.outbox("data/a").await.dead;
    let numbers: Vec<_> = dead.iter().map(|dead| dead.message.number).collect();
    assert_eq!(numbers, (7..=70).collect::<Vec<_>>());
}

async fn add_entity(process: &Process, name: &str, grants: &[&str]) {
    let entity = Entity {
        tenant: TenantName::standard(),
        fingerprint: [7; 32],
        grants: grants.iter().map(|grant| grant.parse::<Grant>().unwrap()).collect(),
        created_at_micros: 1,
    };
    let entities = Entities::new(process.maps.clone());
    let epoch = entities.add(&EntityName::new(name).unwrap(), &entity).await.unwrap();
    process.entities.reached(epoch).await.unwrap();
}

/// Gives an entity other grants.
async fn change_grants(process: &Process, name: &str, grants: &[&str]) {
    let entities = Entities::new(process.maps.clone());
    let name = EntityName::new(name).unwrap();
    let changed = entities.change(&name, |entity| {
        entity.grants = grants.iter().map(|grant| grant.parse::<Grant>().unwrap()).collect();
        Ok(())
    });
    process.entities.reached(changed.await.unwrap()).await.unwrap();
}

/// Loses the answer to the first delivery; from then on the receiver is not reached.
fn lose_first_answer_of(process: &Process, receiver: &str) {
    let receiver: ObjectId = receiver.parse().unwrap();
    let mut is_lost = false;
    process.faults.follow(Box::new(move |operation| match operation {
        Operation::Submit(request) if request.header.object == receiver => {
            let is_first = calls(request, "accept") && !std::mem::replace(&mut is_lost, true);
            Some(if is_first { Fault::FailAfter } else { Fault::FailBefore })
        }
        _ => None,
    }));
}

const MAY_PASS: &str = "x pool=data class=relay method=pass";
const MAY_ALL: &str = "x pool=data class=relay";

#[tokio::test(start_paused = true)]
async fn a_delivered_message_is_no_dead_letter_although_its_sender_lost_the_right() {
    let world = World::new();
    let process = world.process(1);
    add_entity(&process, "alice", &[MAY_ALL]).await;
    lose_first_answer_of(&process, "data/b");
    process.pass_as("alice", "a", "b", 1).await.unwrap();
    until(async || world.exists("data/b").await).await;
    change_grants(&process, "alice", &[MAY_PASS]).await;
    let failures = process.courier.stats().failures;
    until(async || process.courier.stats().failures > failures + 1).await;
    process.faults.heal();
    world.until_empty("data/a").await;
    change_grants(&process, "alice", &[MAY_ALL]).await;
    let object = "data/a".parse().unwrap();
    assert_eq!(resend(&*process.store, &object, &DeadLetters::All).await.unwrap(), 0);
    assert_eq!(world.numbers("data/b").await, [1]);
}

#[tokio::test(start_paused = true)]
async fn a_slow_courier_cannot_deliver_a_message_that_became_a_dead_letter() {
    let world = World::new();
    let (slow, quick) = (world.process(1), world.process(2));
    add_entity(&slow, "alice", &[MAY_ALL]).await;
    slow.pass("c", "b", 0).await.unwrap();
    world.until_empty("data/c").await;
    slow.faults.follow(Box::new(|operation| match operation {
        Operation::Submit(request) if calls(request, "accept") => Some(Fault::Hold),
        _ => None,
    }));
    slow.pass_as("alice", "a", "b", 1).await.unwrap();
    slow.faults.wait_until_held(1).await;
    change_grants(&quick, "alice", &[MAY_PASS]).await;
    let object = "data/a".parse().unwrap();
    quick.courier.look_at(&object);
    world.until_empty("data/a").await;
    slow.faults.heal();
    slow.faults.release(1);
    change_grants(&quick, "alice", &[MAY_ALL]).await;
    until(async || slow.courier.stats().dead == 1).await;
    assert_eq!(world.numbers("data/b").await, [0], "it is a dead letter");
    resend(&*quick.store, &object, &DeadLetters::All).await.unwrap();
    world.until_empty("data/a").await;
    assert_eq!(world.numbers("data/b").await, [0, 1]);
}

#[tokio::test(start_paused = true)]
async fn a_delivered_message_is_no_dead_letter_although_its_mark_is_gone() {
    let world = World::new();
    let dying = world.process(1);
    lose_first_answer_of(&dying, "data/b");
    dying.pass("a", "b", 1).await.unwrap();
    until(async || world.exists("data/b").await).await;
    drop(dying);
    for ledger in 0..64 {
        let ledger = format!("nacre.system/channels/{ledger:02}");
        submit(&world.memory, &ledger, vec![Op::Remove]).await.ok();
    }
    let other = world.process(2);
    other.courier.look_at(&"data/a".parse().unwrap());
    world.until_empty("data/a").await;
    assert!(world.outbox("data/a").await.dead.is_empty());
    assert_eq!(world.numbers("data/b").await, [1]);
}

#[tokio::test(start_paused = true)]
async fn a_message_has_the_rights_of_its_sender() {
    let world = World::new();
    let process = world.process(1);
    add_entity(&process, "alice", &["x pool=data class=relay method=pass"]).await;
    add_entity(&process, "bob", &["x pool=data class=relay"]).await;
    process.pass_as("alice", "a", "b", 1).await.unwrap();
    process.pass_as("bob", "a", "b", 2).await.unwrap();
    process.pass_as("mallory", "a", "b", 3).await.unwrap();
    world.until_empty("data/a").await;
    assert_eq!(world.numbers("data/b").await, [2]);
    let reasons = reasons(&world, "data/a").await;
    assert!(reasons[0].contains("alice may not call relay.take"), "{reasons:?}");
    assert!(reasons[1].contains("mallory is no longer an entity"), "{reasons:?}");
}

#[tokio::test(start_paused = true)]
async fn messages_caused_by_a_message_have_the_rights_of_its_sender() {
    let world = World::new();
    let process = world.process(1);
    let grants = [
        "x pool=data class=relay method=forward",
        "x pool=data class=relay method=pass prefix=b",
        "x pool=data class=relay method=take prefix=b",
    ];
    add_entity(&process, "alice", &grants).await;
    // The message goes to b, which passes it on to c. There alice has no rights.
    for (way, number) in [("b", 1), ("c", 2)] {
        let row = ["b", way, "a"].map(Value::text);
        let row = [&row[..], &[Value::Int(number)]].concat();
        support::call_as(&*process.store, "alice", "data/a", "relay", "forward", &row)
            .await
            .unwrap();
    }
    world.until_empty("data/a").await;
    world.until_empty("data/b").await;
    assert!(reasons(&world, "data/a").await.is_empty());
    let reasons = reasons(&world, "data/b").await;
    assert!(reasons[0].contains("alice may not call relay.take of data/c"), "{reasons:?}");
    assert_eq!(world.numbers("data/b").await, [1]);
    assert!(!world.exists("data/c").await);
}

#[tokio::test(start_paused = true)]
async fn a_message_that_no_request_sent_is_not_delivered() {
    let world = World::new();
    let process = world.process(1);
    add_entity(&process, "alice", &["rwx pool=data prefix=a"]).await;
    process.pass_as("alice", "a", "a2", 1).await.unwrap();
    world.until_empty("data/a").await;
    // Alice writes a message into her own object which claims that the local user sent it.
    let forged = b"\x05local\x07enqueue\x05\x01\0\0\0\
        s\x01\0\0\0bs\x05\0\0\0relays\x04\0\0\0takes\x04\0\0\0evili\x09\0\0\0\0\0\0\0";
    set_key(&world.memory, "data/a", ">00000000000009", forged.to_vec()).await;
    process.courier.look_at(&"data/a".parse().unwrap());
    world.until_empty("data/a").await;
    assert!(!world.exists("data/b").await);
    let reasons = reasons(&world, "data/a").await;
    assert!(reasons[0].contains("no request of local sent this message"), "{reasons:?}");
    // If the local user did send from the object, the message counts as his.
    process.pass("a", "b", 2).await.unwrap();
    world.until_empty("data/a").await;
    assert_eq!(world.numbers("data/b").await, [2]);
}

#[tokio::test(start_paused = true)]
async fn a_malformed_message_is_given_up() {
    let world = World::new();
    let process = world.process(1);
    process.pass("a", "b", 1).await.unwrap();
    world.until_empty("data/a").await;
    set_key(&world.memory, "data/a", ">00000000000009", b"\x05lo".to_vec()).await;
    process.courier.look_at(&"data/a".parse().unwrap());
    until(async || process.courier.stats().dead == 1).await;
    world.until_empty("data/a").await;
}

/// The longest chain of messages.
const MAX_CHAIN: i64 = 256;

async fn bounce(process: &Process) {
    let row = [Value::text("b"), Value::text("a"), Value::Int(0)];
    process.relay("data/a", "bounce", &row).await.unwrap();
}

/// Makes two objects send to each other until the limit on chains stops them. Returns the dead
/// letters: the object, the number and the reason of each.
async fn stopped(world: &World) -> Vec<(&'static str, i64, String)> {
    let mut all = vec![];
    for object in ["data/a", "data/b"] {
        for letter in world.outbox(object).await.dead {
            let Some(Value::Int(number)) = letter.message.row.last() else { panic!("{letter:?}") };
            all.push((object, *number, letter.reason));
        }
    }
    all
}

#[tokio::test(start_paused = true)]
async fn objects_that_send_to_each_other_in_a_circle_are_stopped_and_nothing_is_lost() {
    let world = World::new();
    let process = world.process(1);
    bounce(&process).await;
    until(async || process.courier.stats().dead == 1).await;
    let dead = stopped(&world).await;
    let [(object, number, reason)] = &dead[..] else { panic!("{dead:?}") };
    assert_eq!((*object, *number), ("data/a", MAX_CHAIN + 1));
    assert!(
        reason
            .contains("relay.bounce of data/a sends to relay.bounce of data/b, after 256 messages"),
        "{reason}"
    );
    // Sent again, it is the first of another chain.
    let resent = resend(&*process.store, &"data/a".parse().unwrap(), &DeadLetters::All).await;
    assert_eq!(resent.unwrap(), 1);
    until(async || process.courier.stats().dead == 2).await;
    let dead = stopped(&world).await;
    assert_eq!((dead.len(), dead[0].1), (1, 2 * MAX_CHAIN + 1));
}

#[tokio::test(start_paused = true)]
async fn any_number_of_short_chains_may_pass_the_same_objects() {
    let world = World::new();
    let process = world.process(1);
    for number in 0..2 * MAX_CHAIN {
        let row = [Value::text("b"), Value::text("a"), Value::text("a"), Value::Int(number)];
        process.relay("data/a", "forward", &row).await.unwrap();
    }
    world.until_empty("data/a").await;
    world.until_empty("data/b").await;
    world.until_empty("data/a").await;
    assert!(stopped(&world).await.is_empty());
    assert_eq!(world.numbers("data/a").await, (0..2 * MAX_CHAIN).collect::<Vec<_>>());
}
