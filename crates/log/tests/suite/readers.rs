//! Tests of clients with only the right to read. A dead sequencer does not stop such clients, and
//! they never depose a living one.

use crate::support::reader::env_of_reader;
use std::ops::Range;

use crate::support::{Cluster, of_slots, target};
use futures::StreamExt;
use nacre_conformance::wait::within_deadline;
use nacre_log::{Entry, Log, LogName, LogOptions, Reconfiguration};
use nacre_object::ErrorKind;

async fn reader_of(cluster: &Cluster, log: &str) -> Log {
    Log::open(env_of_reader(cluster, log), LogName::new(log).unwrap()).await.unwrap()
}

/// The records of a log, up to the tail that this client gets.
async fn read_all(log: &Log) -> Vec<String> {
    let mut records = vec![];
    let tail = log.tail().await.unwrap();
    while (records.len() as u64) < tail {
        for slot in log.read_range(records.len() as u64, 1000).await.unwrap() {
            match slot.entry {
                Some(Entry::Data(data)) => records.push(String::from_utf8(data.into()).unwrap()),
                other => panic!("{other:?} at {}", slot.position),
            }
        }
    }
    records
}

#[tokio::test(start_paused = true)]
async fn a_reader_deposes_no_sequencer() {
    let cluster = Cluster::new(3, 2).await;
    let log = cluster.filled("l", 10).await;
    let reader = reader_of(&cluster, "l").await;
    let sequencer = log.view().sequencer().cloned();
    assert_eq!(reader.seal().await.unwrap_err().kind(), ErrorKind::Denied);
    assert_eq!(read_all(&reader).await.len(), 10);
    assert_eq!(log.append("next").await.unwrap(), 10);
    assert_eq!(cluster.open("l").await.view().sequencer().cloned(), sequencer);
}

#[tokio::test(start_paused = true)]
async fn a_reader_finds_all_entries_when_the_sequencer_is_dead() {
    let cluster = Cluster::new(3, 2).await;
    let log = cluster.filled("l", 30).await;
    let records: Vec<_> = (0..30).map(|record| format!("record {record}")).collect();
    let (open_before, epoch) =
        (reader_of(&cluster, "l").await, cluster.open("l").await.view().epoch());
    cluster.kill_node(cluster.sequencer_of(&log).await);
    for reader in [open_before, reader_of(&cluster, "l").await] {
        assert_eq!(reader.tail().await.unwrap(), 30);
        assert_eq!(read_all(&reader).await, records);
        let followed: Vec<_> = reader.follow(0).take(30).collect().await;
        assert!(followed.iter().all(Result::is_ok), "{followed:?}");
    }
    assert_eq!(cluster.open("l").await.view().epoch(), epoch, "nobody was deposed");
    // A client that may write has the sequencer replaced. Then readers find the new one.
    assert_eq!(log.append("next").await.unwrap(), 30);
    assert_eq!(reader_of(&cluster, "l").await.tail().await.unwrap(), 31);
}

#[tokio::test(start_paused = true)]
async fn a_reader_without_a_sequencer_gets_past_positions_that_were_never_written() {
    let cluster = Cluster::new(3, 1).await;
    let log = cluster.filled("l", 3).await;
    assert_eq!(log.take_positions(2).await.unwrap(), 3..5);
    log.append("behind").await.unwrap();
    cluster.kill_node(0);
    let followed: Vec<_> = reader_of(&cluster, "l").await.follow(3).take(3).collect().await;
    let entries: Vec<_> = followed.into_iter().map(|entry| entry.unwrap().1).collect();
    assert_eq!(entries, [Entry::Filled, Entry::Filled, Entry::Data("behind".into())]);
}

#[tokio::test(start_paused = true)]
async fn a_log_that_never_had_a_sequencer_is_empty_to_a_reader() {
    let cluster = Cluster::new(3, 1).await;
    cluster.create("l", of_slots(4)).await;
    let reader = reader_of(&cluster, "l").await;
    assert_eq!(reader.tail().await.unwrap(), 0);
    assert_eq!(reader.read_range(0, 10).await.unwrap(), []);
    assert_eq!(reader.read(0).await.unwrap_err().kind(), ErrorKind::NotFound);
}

#[tokio::test(start_paused = true)]
async fn a_reader_gets_an_error_not_a_lower_tail_while_a_target_is_away() {
    let cluster = Cluster::new(3, 1).await;
    let log = cluster.filled("l", 9).await;
    cluster.kill_node(0);
    let away = cluster.target_of_position(&log, 8);
    cluster.kill_target(away);
    let reader = reader_of(&cluster, "l").await;
    assert_eq!(reader.tail().await.unwrap_err().kind(), ErrorKind::Unavailable);
    cluster.revive_target(away);
    assert_eq!(reader.tail().await.unwrap(), 9);
}

#[tokio::test(start_paused = true)]
async fn a_reader_gets_all_entries_before_a_target_that_stays_away() {
    let cluster = Cluster::new(2, 1).await;
    let options = LogOptions { width: Some(1), ..of_slots(200) };
    let log = cluster.create("l", options).await;
    let append = async |records: Range<u64>| {
        for record in records {
            log.append(format!("record {record}")).await.unwrap();
        }
    };
    append(0..300).await;
    let first = cluster.target_of_position(&log, 0);
    let relayout = Reconfiguration::Relayout { layout: None, avoid: vec![target(first)] };
    log.reconfigure(relayout).await.unwrap();
    append(300..400).await;
    cluster.kill_target(cluster.target_of_position(&log, 300));
    assert_eq!(log.read_range(0, 1000).await.unwrap().len(), 300);
    let followed: Vec<_> = cluster.open("l").await.follow(0).take(301).collect().await;
    let (last, read) = followed.split_last().unwrap();
    assert!(read.iter().all(Result::is_ok), "{read:?}");
    assert_eq!(last.as_ref().unwrap_err().kind(), ErrorKind::Unavailable);
}

#[tokio::test(start_paused = true)]
async fn a_follower_sees_records_appended_after_its_sequencer_was_deposed() {
    let cluster = Cluster::new(3, 2).await;
    let log = cluster.filled("l", 1).await;
    let follower = cluster.open("l").await;
    let mut follow = follower.follow(0);
    within_deadline("what is told next", follow.next()).await.unwrap().unwrap();
    let waiting =
        tokio::spawn(
            async move { within_deadline("what is told next", follow.next()).await.unwrap() },
        );
    let old = cluster.sequencer_of(&log).await;
    cluster.ask(1 - old, "recover", &log.view(), &[]).await.unwrap();
    // The writer knows the new sequencer, so nobody sends the old sequencer another request.
    assert_eq!(cluster.open("l").await.append("next").await.unwrap(), 1);
    assert_eq!(waiting.await.unwrap().unwrap(), (1, Entry::Data("next".into())));
}
