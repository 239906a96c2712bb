//! A client whose view is old looks where positions used to be. Laying the log out anew seals
//! nothing, so no object refuses it: it must find out by itself.

mod support;

use bytes::Bytes;
use futures::StreamExt;
use nacre_conformance::Fault;
use nacre_conformance::faults::Operation;
use nacre_log::view::Layout;
use nacre_log::{Entry, Log, Reconfiguration};
use nacre_object::{ErrorKind, Op};
use support::{Cluster, native};

fn data(text: &'static str) -> Entry {
    Entry::Data(Bytes::from_static(text.as_bytes()))
}

fn is_write(ops: &[Op]) -> bool {
    matches!(ops, [Op::Call(call)] if call.method.as_str() == "write_batch")
}

/// Opens a new range at the tail.
async fn lay_out_anew(log: &Log) {
    let layout = Some(Layout { width: 2, slots: 7 });
    log.reconfigure(Reconfiguration::Relayout { layout, avoid: vec![] }).await.unwrap();
}

/// A log with a record at 0 and, in a range of its own, one at 1; and a handle that does not know.
async fn log_with_stale_handle(cluster: &Cluster) -> (Log, Log) {
    let log = cluster.create("l", native(100)).await;
    log.append("first").await.unwrap();
    let stale = cluster.open("l").await;
    let epoch = stale.view().epoch();
    lay_out_anew(&log).await;
    assert_eq!(log.append("second").await.unwrap(), 1);
    assert_eq!(stale.view().epoch(), epoch, "it must still be stale, or this tests nothing");
    (log, stale)
}

#[tokio::test(start_paused = true)]
async fn a_stale_reader_finds_what_was_acknowledged() {
    let cluster = Cluster::new(3, 1);
    let (_log, stale) = log_with_stale_handle(&cluster).await;
    assert_eq!(stale.read(1).await.unwrap(), data("second"));
}

#[tokio::test(start_paused = true)]
async fn a_stale_follower_fills_nothing_that_is_written() {
    let cluster = Cluster::new(3, 1);
    let (log, stale) = log_with_stale_handle(&cluster).await;
    let followed: Vec<_> = stale.follow(0).take(2).collect().await;
    let entries: Vec<_> = followed.into_iter().map(|entry| entry.unwrap().1).collect();
    assert_eq!(entries, [data("first"), data("second")]);
    assert_eq!(log.read(1).await.unwrap(), data("second"));
}

#[tokio::test(start_paused = true)]
async fn a_stale_fill_or_trim_takes_effect_where_the_position_is() {
    let cluster = Cluster::new(3, 1);
    let (log, stale) = log_with_stale_handle(&cluster).await;
    assert_eq!(stale.fill(1).await.map_err(|error| error.kind()), Err(ErrorKind::Exists));
    let cluster = Cluster::new(3, 1);
    let (other, stale) = log_with_stale_handle(&cluster).await;
    stale.trim(1).await.unwrap();
    assert_eq!(other.read(1).await.unwrap(), Entry::Trimmed);
    assert_eq!(log.read(1).await.unwrap(), data("second"));
}

#[tokio::test(start_paused = true)]
async fn a_position_issued_again_by_another_sequencer_is_looked_for_anew() {
    let cluster = Cluster::new(3, 2);
    let log = cluster.create("l", native(100)).await;
    let old = cluster.open("l").await;
    old.append("zero").await.unwrap();
    old.append("one").await.unwrap();
    // The old handle takes position 2, and its write does not get there.
    let target = &cluster.targets[&support::target(cluster.target_of_position(&old, 2))];
    let mut fault = Some(Fault::Hold);
    target.follow(Box::new(move |operation| match operation {
        Operation::Submit(request) if is_write(&request.ops) => fault.take(),
        _ => None,
    }));
    let slow = tokio::spawn({
        let old = old.clone();
        async move { old.append("slow").await }
    });
    target.wait_until_held(1).await;
    assert_eq!(log.seal().await.unwrap(), 2);
    // It learns of the new sequencer, and not of the layout that follows.
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
