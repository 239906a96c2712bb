//! Tests of clients with an old view. Such a client looks for positions on their old objects. A new
//! layout seals no old object, so no object refuses the client. The client must notice by itself
//! that its view is old.

use std::time::Duration;

use super::faults::on_method;
use crate::bed;
use crate::support::{Cluster, node, of_slots};
use bytes::Bytes;
use futures::StreamExt;
use futures::future::join_all;
use nacre_brados::Value;
use nacre_calls::{decode_reply, encode_request};
use nacre_conformance::wait::within_deadline;
use nacre_conformance::{Fault, FaultyStore};
use nacre_log::view::Layout;
use nacre_log::{BRADOS_CLASS, Entry, Log, LogOptions, Reconfiguration};
use nacre_object::{
    ClassCall, ClassName, ErrorKind, MethodName, ObjectId, Op, OpResult, Request, Result,
};
use tokio::task::JoinHandle;

fn data(text: &'static str) -> Entry {
    Entry::Data(Bytes::from_static(text.as_bytes()))
}

/// Opens a new range at the tail.
async fn lay_out_anew(log: &Log) {
    let layout = Some(Layout { width: 2, slots: 7 });
    log.reconfigure(Reconfiguration::Relayout { layout, avoid: vec![] }).await.unwrap();
}

/// Returns two handles of a log that has a record at 0 and, in another range, a record at 1. The
/// second handle does not know the second range.
async fn log_with_stale_handle(cluster: &Cluster) -> (Log, Log) {
    let log = cluster.create("l", of_slots(100)).await;
    log.append("first").await.unwrap();
    let stale = cluster.open("l").await;
    let epoch = stale.view().epoch();
    lay_out_anew(&log).await;
    assert_eq!(log.append("second").await.unwrap(), 1);
    assert_eq!(stale.view().epoch(), epoch, "it must still be stale, or this tests nothing");
    (log, stale)
}

#[tokio::test(start_paused = true)]
async fn a_stale_reader_finds_all_acknowledged_records() {
    let cluster = Cluster::new(3, 1).await;
    let (_log, stale) = log_with_stale_handle(&cluster).await;
    assert_eq!(stale.read(1).await.unwrap(), data("second"));
}

#[tokio::test(start_paused = true)]
async fn a_stale_follower_fills_nothing_that_is_written() {
    let cluster = Cluster::new(3, 1).await;
    let (log, stale) = log_with_stale_handle(&cluster).await;
    let followed: Vec<_> = stale.follow(0).take(2).collect().await;
    let entries: Vec<_> = followed.into_iter().map(|entry| entry.unwrap().1).collect();
    assert_eq!(entries, [data("first"), data("second")]);
    assert_eq!(log.read(1).await.unwrap(), data("second"));
}

#[tokio::test(start_paused = true)]
async fn a_stale_fill_or_trim_takes_effect_where_the_position_is() {
    let cluster = Cluster::new(3, 1).await;
    let (log, stale) = log_with_stale_handle(&cluster).await;
    assert_eq!(stale.fill(1).await.map_err(|error| error.kind()), Err(ErrorKind::Exists));
    let cluster = Cluster::new(3, 1).await;
    let (other, stale) = log_with_stale_handle(&cluster).await;
    stale.trim(1).await.unwrap();
    assert_eq!(other.read(1).await.unwrap(), Entry::Trimmed);
    assert_eq!(log.read(1).await.unwrap(), data("second"));
}

/// Returns two handles of one log, and an append in flight. The second handle got position 2 for
/// its record `slow`, and a target delays the write. Since then the first handle has sealed the
/// log, so 2 is the tail again.
async fn log_with_deposed_append(
    cluster: &Cluster,
) -> (Log, Log, JoinHandle<Result<u64>>, &FaultyStore) {
    let log = cluster.create("l", of_slots(100)).await;
    let old = cluster.open("l").await;
    old.append("zero").await.unwrap();
    old.append("one").await.unwrap();
    let target = cluster.target(cluster.target_of_position(&old, 2));
    target.follow(on_method(bed::WRITES, Fault::Hold, 1));
    let slow = tokio::spawn({
        let old = old.clone();
        async move { old.append("slow").await }
    });
    target.wait_until_held(1).await;
    assert_eq!(log.seal().await.unwrap(), 2);
    (log, old, slow, target)
}

#[tokio::test(start_paused = true)]
async fn a_stale_client_looks_up_a_reissued_position_anew() {
    let cluster = Cluster::new(3, 2).await;
    let (log, old, slow, target) = log_with_deposed_append(&cluster).await;
    // The old handle learns of the new sequencer, but not of the layout that follows.
    assert_eq!(old.read(0).await.unwrap(), data("zero"));
    let epoch = old.view().epoch();
    lay_out_anew(&log).await;
    assert_eq!(log.append("two").await.unwrap(), 2);
    assert_eq!(old.view().epoch(), epoch, "it must still be stale, or this tests nothing");
    assert_eq!(old.read(2).await.unwrap(), data("two"));
    target.release(1);
    assert_eq!(slow.await.unwrap().unwrap(), 3);
    assert_eq!(log.read(3).await.unwrap(), data("slow"));
}

/// If another caller is already reading the view, a caller waits for that read. It may get a view
/// from before its own request.
#[tokio::test(start_paused = true)]
async fn a_view_read_for_an_earlier_request_is_not_final() {
    let cluster = Cluster::new(3, 2).await;
    let (log, old, slow, target) = log_with_deposed_append(&cluster).await;
    let read = |position| {
        let old = old.clone();
        tokio::spawn(async move { old.read(position).await.unwrap() })
    };
    cluster.system.follow(on_method("get", Fault::HoldReply, 1));
    let first = read(0);
    cluster.system.wait_until_held(1).await;
    lay_out_anew(&log).await;
    assert_eq!(log.append("two").await.unwrap(), 2);
    let second = read(2);
    // Until it waits, too.
    tokio::time::sleep(Duration::from_millis(1)).await;
    cluster.system.release(1);
    assert_eq!(first.await.unwrap(), data("zero"));
    assert_eq!(second.await.unwrap(), data("two"));
    target.release(1);
    assert_eq!(slow.await.unwrap().unwrap(), 3);
}

/// A regression case that the simulation found: a fill or trim of the tail was lost when a new
/// layout moved the tail's position to another object.
#[tokio::test(start_paused = true)]
async fn a_fill_or_trim_of_the_tail_stays_when_the_log_is_laid_out_anew() {
    let cluster = Cluster::new(3, 1).await;
    let log = cluster.create("l", of_slots(100)).await;
    log.append("first").await.unwrap();
    log.fill(1).await.unwrap();
    lay_out_anew(&log).await;
    assert_eq!(log.append("second").await.unwrap(), 2);
    assert_eq!(log.read(1).await.unwrap(), Entry::Filled);
    log.trim(3).await.unwrap();
    lay_out_anew(&log).await;
    assert_eq!(log.append("third").await.unwrap(), 4);
    assert_eq!(log.read(3).await.unwrap(), Entry::Trimmed);
}

/// A new sequencer issues the unwritten positions of its lost predecessor again. A follower that
/// waits for such a position must not fill it, because the next client to get the position will
/// write it.
#[tokio::test(start_paused = true)]
async fn a_follower_does_not_fill_positions_that_are_not_issued_any_more() {
    let cluster = Cluster::new(3, 2).await;
    let log = cluster.create("l", of_slots(100)).await;
    log.append("zero").await.unwrap();
    let slow = cluster.open("l").await;
    let target = cluster.target(cluster.target_of_position(&log, 1));
    target.follow(on_method(bed::WRITES, Fault::Hold, 1));
    let appending = tokio::spawn(async move { slow.append("slow").await });
    target.wait_until_held(1).await;
    let mut follow = cluster.open("l").await.follow(0);
    assert_eq!(
        within_deadline("what is told next", follow.next()).await.unwrap().unwrap(),
        (0, data("zero"))
    );
    // The follower has seen the hole at 1. Then the log is recovered, and 1 is the tail again.
    let waiting = tokio::spawn(async move {
        within_deadline("what is told next", follow.next()).await.unwrap().unwrap()
    });
    tokio::task::yield_now().await;
    assert_eq!(log.seal().await.unwrap(), 1);
    tokio::time::sleep(10 * nacre_log::Patience::default().hole).await;
    assert_eq!(log.tail().await.unwrap(), 1, "nobody was given position 1");
    lay_out_anew(&log).await;
    assert_eq!(log.append("one").await.unwrap(), 1);
    assert_eq!(waiting.await.unwrap(), (1, data("one")));
    target.release(1);
    assert_eq!(appending.await.unwrap().unwrap(), 2);
}

/// The epoch is old.
const ESPIPE: i64 = -29;
/// The position is taken, or trimmed.
const EROFS: i64 = -30;

/// The status with which an object answers a late seal or write, or 0 if the object accepts it. The
/// request is encoded as the object's class expects.
async fn late_status(
    cluster: &Cluster,
    object: &ObjectId,
    class: &ClassName,
    (method, epoch): (&str, u64),
) -> i64 {
    let speaks_rows = class.as_str() == BRADOS_CLASS;
    let number = |number: u64| match speaks_rows {
        true => encode_request(&[Value::Int(number as i64)]),
        false => number.to_le_bytes().to_vec(),
    };
    let mut input = number(epoch);
    if method == "write" {
        input.extend(number(0));
        match speaks_rows {
            true => input.extend(encode_request(&[Value::text("late")])),
            false => input.extend(b"late"),
        }
    }
    let (class, method) = (class.clone(), MethodName::new(method).unwrap());
    let call = Op::Call(ClassCall { class, method, version: None, input: input.into() });
    let request = Request::new(object.clone(), vec![call]).unwrap();
    match cluster.env.store.submit(request).await {
        Err(refused) => refused.status().into(),
        Ok(_) if !speaks_rows => 0,
        Ok(reply) => match &reply.results[0] {
            OpResult::Called(reply) => match decode_reply(&reply.output).unwrap()[0].1[0][0] {
                Value::Int(status) => status,
                ref other => panic!("{other:?} is no status"),
            },
            other => panic!("a call answered {other:?}"),
        },
    }
}

/// A deposed sequencer may still seal, and a slow writer may still write, long after everything was
/// trimmed.
#[tokio::test(start_paused = true)]
async fn a_late_seal_or_write_brings_no_forgotten_object_back() {
    for options in [of_slots(4), LogOptions { slots: 4, ..LogOptions::default() }] {
        let cluster = Cluster::new(3, 1).await;
        let log = cluster.create("l", options).await;
        for n in 0..24 {
            log.append(format!("{n}")).await.unwrap();
        }
        let view = log.view();
        let object = view.object(view.place(0).unwrap()).unwrap();
        log.trim_to(20).await.unwrap();
        let latest = cluster.open("l").await.view().epoch();
        for epoch in [view.epoch(), latest, latest + 100] {
            // The object may accept the seal. It must still refuse the write.
            let _sealed = late_status(&cluster, &object, view.class(), ("seal", epoch)).await;
            let status = late_status(&cluster, &object, view.class(), ("write", epoch)).await;
            assert!([ESPIPE, EROFS].contains(&status), "{status} to a write at {epoch}");
        }
        assert_eq!(log.read(0).await.unwrap(), Entry::Trimmed);
        assert_eq!(log.seal().await.unwrap(), 24);
        assert_eq!(log.append("next").await.unwrap(), 24);
    }
}

#[tokio::test(start_paused = true)]
async fn one_of_two_proposals_is_stale_and_no_proposal_skips_an_epoch() {
    let cluster = Cluster::new(3, 1).await;
    let log = cluster.create("l", of_slots(100)).await;
    log.append("a").await.unwrap();
    let views = &cluster.env.views;
    let view = views.current(log.name()).await.unwrap().unwrap();
    let rivals = [view.claimed_by(node(7), 1), view.claimed_by(node(8), 2)];
    let outcomes = join_all(rivals.iter().map(|rival| views.propose(rival))).await;
    let stale =
        |result: &Result<()>| result.as_ref().is_err_and(|error| error.kind() == ErrorKind::Stale);
    assert_eq!(outcomes.iter().filter(|result| result.is_ok()).count(), 1);
    assert_eq!(outcomes.iter().filter(|result| stale(result)).count(), 1);
    let skipping = rivals[0].claimed_by(node(7), 1).claimed_by(node(7), 1);
    assert_eq!(views.propose(&skipping).await.unwrap_err().kind(), ErrorKind::Invalid);
    // Views of nodes that do not exist harm nobody for long.
    assert_eq!(cluster.open("l").await.append("b").await.unwrap(), 1);
}
