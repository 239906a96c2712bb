//! Receivers forget senders, and dead letters are sent again.

mod support;

use nacre_brados::Value;
use nacre_channels::{DeadLetters, Pace, resend};
use nacre_conformance::faults::{Fault, Operation};
use nacre_object::{EntityName, ErrorKind, Op, Request, TenantName};
use nacre_registry::{Entities, Entity, Grant};

use support::{PACE, Process, World, calls, submit, until};

const FORGETFUL: Pace = Pace { forget_every: 8, ..PACE };

fn letters(numbers: &[u64]) -> DeadLetters {
    DeadLetters::Numbered(numbers.iter().copied().collect())
}

async fn resend_from(
    process: &Process,
    object: &str,
    letters: &DeadLetters,
) -> Result<u64, ErrorKind> {
    let outcome = resend(&*process.store, &object.parse().unwrap(), letters).await;
    outcome.map_err(|error| error.kind())
}

async fn open(process: &Process, object: &str) {
    process.relay(object, "open", &[Value::Int(1)]).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn senders_that_have_settled_are_forgotten_and_can_still_send() {
    let world = World::new();
    let process = world.start(1, FORGETFUL, false);
    for round in 0..3 {
        for sender in 0..50 {
            process.pass(&format!("s{sender}"), "b", round * 50 + sender).await.unwrap();
        }
    }
    for sender in 0..50 {
        world.until_empty(&format!("data/s{sender}")).await;
    }
    let mut numbers = world.numbers("data/b").await;
    numbers.sort_unstable();
    assert_eq!(numbers, (0..150).collect::<Vec<_>>());
    until(async || world.notes("data/b").await <= 8).await;
    assert!(world.generation("data/b").await > 0);
}

#[tokio::test(start_paused = true)]
async fn senders_whose_messages_wait_are_remembered() {
    let world = World::new();
    let process = world.start(1, FORGETFUL, false);
    // Delivered, and not settled.
    process.faults.follow(Box::new(|operation| match operation {
        Operation::Submit(request) if calls(request, "settle") => Some(Fault::FailBefore),
        _ => None,
    }));
    for sender in 0..30 {
        process.pass(&format!("s{sender}"), "b", sender).await.unwrap();
    }
    until(async || world.numbers("data/b").await.len() == 30).await;
    assert_eq!(world.notes("data/b").await, 30);
    process.faults.heal();
    for sender in 0..30 {
        world.until_empty(&format!("data/s{sender}")).await;
    }
    assert_eq!(world.numbers("data/b").await.len(), 30);
}

#[tokio::test(start_paused = true)]
async fn a_message_in_flight_is_refused_if_its_sender_was_forgotten() {
    let world = World::new();
    let (slow, quick) = (world.process(1), world.start(2, FORGETFUL, false));
    // One courier has looked at the message, and is slow to deliver it.
    slow.faults.follow(Box::new(|operation| match operation {
        Operation::Submit(request) if calls(request, "accept") => Some(Fault::Hold),
        _ => None,
    }));
    slow.pass("a", "b", 0).await.unwrap();
    slow.faults.wait_until_held(1).await;
    // Another courier delivers and settles it, and the receiver forgets the sender.
    quick.courier.look_at(&"data/a".parse().unwrap());
    world.until_empty("data/a").await;
    for sender in 1..8 {
        quick.pass(&format!("s{sender}"), "b", sender).await.unwrap();
    }
    until(async || world.notes("data/b").await == 0).await;
    slow.faults.heal();
    slow.faults.release(1);
    slow.pass("a", "b", 8).await.unwrap();
    world.until_empty("data/a").await;
    assert_eq!(world.numbers("data/b").await, (0..=8).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn senders_that_were_removed_are_forgotten() {
    let world = World::new();
    let process = world.start(1, FORGETFUL, false);
    for sender in 0..7 {
        let object = format!("s{sender}");
        process.pass(&object, "b", sender).await.unwrap();
        world.until_empty(&format!("data/{object}")).await;
        submit(&world.memory, &format!("data/{object}"), vec![Op::Remove]).await.unwrap();
    }
    assert_eq!(world.notes("data/b").await, 7);
    process.pass("last", "b", 7).await.unwrap();
    until(async || world.notes("data/b").await == 0).await;
}

#[tokio::test(start_paused = true)]
async fn a_dead_letter_is_delivered_once_when_it_is_sent_again() {
    let world = World::new();
    let process = world.process(1);
    for number in [-1, 2, -3, 4] {
        process.pass("a", "b", number).await.unwrap();
    }
    world.until_empty("data/a").await;
    assert_eq!(world.numbers("data/b").await, [2, 4]);
    // The receiver refuses the message again.
    assert_eq!(resend_from(&process, "data/a", &DeadLetters::All).await, Ok(2));
    until(async || process.courier.stats().dead == 4).await;
    let dead = world.outbox("data/a").await.dead;
    assert_eq!(dead.iter().map(|dead| dead.message.number).collect::<Vec<_>>(), [1, 3]);
    open(&process, "data/b").await;
    assert_eq!(resend_from(&process, "data/a", &letters(&[3])).await, Ok(1));
    assert_eq!(resend_from(&process, "data/a", &letters(&[3])).await, Err(ErrorKind::NotFound));
    world.until_empty("data/a").await;
    assert_eq!(resend_from(&process, "data/a", &DeadLetters::All).await, Ok(1));
    world.until_empty("data/a").await;
    assert_eq!(world.numbers("data/b").await, [2, 4, -3, -1]);
    assert!(world.outbox("data/a").await.dead.is_empty());
    until(async || {
        let events = process.maps.events().recent(100).await.unwrap();
        events
            .iter()
            .any(|event| event.text == "local has 1 dead letters of data/a delivered again")
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_dead_letter_that_waits_again_outlives_its_process() {
    let world = World::new();
    let dying = world.process(1);
    dying.pass("a", "b", -1).await.unwrap();
    until(async || dying.courier.stats().dead == 1).await;
    open(&dying, "data/b").await;
    // Its mark is gone by now.
    until(async || world.marks().await == 0).await;
    let is_look = |request: &Request| {
        let is_range = |op: &Op| matches!(op, Op::MapRange { prefix, .. } if &prefix[..] == b"^");
        request.ops.len() == 2 && request.ops.iter().any(is_range)
    };
    dying.faults.follow(Box::new(move |operation| match operation {
        Operation::Submit(request) if is_look(request) => Some(Fault::FailBefore),
        _ => None,
    }));
    resend_from(&dying, "data/a", &DeadLetters::All).await.unwrap();
    drop(dying);
    assert_eq!(world.outbox("data/a").await.resent.len(), 1);
    assert!(world.marks().await > 0);
    let _other = world.process(2);
    world.until_empty("data/a").await;
    assert_eq!(world.numbers("data/b").await, [-1]);
}

#[tokio::test(start_paused = true)]
async fn a_dead_letter_is_resent_on_behalf_of_its_original_sender() {
    let world = World::new();
    let process = world.process(1);
    let entities = Entities::new(process.maps.clone());
    let alice = EntityName::new("alice").unwrap();
    let entity = |grant: &str| Entity {
        tenant: TenantName::standard(),
        fingerprint: [7; 32],
        grants: [grant.parse::<Grant>().unwrap()].into_iter().collect(),
        created_at_micros: 1,
    };
    let added = entities.add(&alice, &entity("x pool=data class=relay method=pass")).await;
    process.entities.reached(added.unwrap()).await.unwrap();
    process.pass_as("alice", "a", "b", 1).await.unwrap();
    until(async || process.courier.stats().dead == 1).await;
    // An entity with all rights has the message delivered again, but alice still may not.
    resend_from(&process, "data/a", &DeadLetters::All).await.unwrap();
    until(async || process.courier.stats().dead == 2).await;
    let granted = entities.change(&alice, |alice| {
        alice.grants = entity("x pool=data class=relay").grants;
        Ok(())
    });
    let granted = granted.await;
    process.entities.reached(granted.unwrap()).await.unwrap();
    resend_from(&process, "data/a", &DeadLetters::All).await.unwrap();
    world.until_empty("data/a").await;
    assert_eq!(world.numbers("data/b").await, [1]);
}
