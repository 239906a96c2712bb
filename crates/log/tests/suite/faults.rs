//! Tests of the log when nodes and targets fail. At the end of every case, the checker compares the
//! whole log with the acknowledged records.

use std::time::Duration;

use crate::bed;
use crate::support::checker::Checker;
use crate::support::{Cluster, node, of_slots, question_about, target, until};
use bytes::Bytes;
use futures::StreamExt;
use futures::future::join_all;
use nacre_clock::Random;
use nacre_conformance::Fault;
use nacre_conformance::faults::{FaultOdds, Operation, scripted, seeded};
use nacre_log::{Entry, Log, LogEnv, LogName, Patience, SequencerCaller, SequencerHost};
use nacre_object::{ErrorKind, Op};
use tokio::time::timeout;

/// How long a writer waits for one append before it starts the next at the same time.
const WRITER_PATIENCE: Duration = Duration::from_millis(20);

/// Tasks that append until they are stopped. If the fate of a record is unknown, its task continues
/// with the next record.
pub struct Writers {
    stop: tokio::sync::watch::Sender<bool>,
    tasks: Vec<tokio::task::JoinHandle<()>>,
}

impl Writers {
    pub fn start(cluster: &Cluster, checker: &Checker, count: usize) -> Self {
        let stop = tokio::sync::watch::Sender::new(false);
        let tasks = (0..count).map(|writer| {
            let (env, checker, stopped) = (cluster.env.clone(), checker.clone(), stop.subscribe());
            tokio::spawn(async move {
                let log = Log::open(env, LogName::new("l").unwrap()).await.unwrap();
                let mut pending = vec![];
                for n in 0.. {
                    if *stopped.borrow() {
                        break;
                    }
                    let (log, checker) = (log.clone(), checker.clone());
                    let record = format!("{writer}:{n}");
                    let mut append =
                        tokio::spawn(async move { checker.append(&log, record).await });
                    if timeout(WRITER_PATIENCE, &mut append).await.is_err() {
                        pending.push(append);
                    }
                    // Time stands still while anybody is busy: let it pass.
                    tokio::time::sleep(Duration::from_micros(500)).await;
                }
                for append in pending {
                    append.await.unwrap();
                }
            })
        });
        Self { tasks: tasks.collect(), stop }
    }

    pub async fn stop(self) {
        self.stop.send_replace(true);
        for task in join_all(self.tasks).await {
            task.unwrap();
        }
    }
}

/// Waits until so many more records were acknowledged.
pub async fn more(checker: &Checker, count: usize) {
    let before = checker.acknowledged();
    let progress = until("more records", async || checker.acknowledged() >= before + count);
    timeout(Duration::from_secs(120), progress).await.expect("nothing is appended any more");
}

/// Fails the calls of one method on the log's objects.
pub fn on_method(
    method: &'static str,
    fault: Fault,
    times: usize,
) -> nacre_conformance::faults::FaultPlan {
    let mut left = times;
    Box::new(move |operation| {
        let Operation::Submit(request) = operation else { return None };
        let is_it = matches!(&request.ops[..], [Op::Call(call)] if call.method.as_str() == method);
        (is_it && left > 0).then(|| {
            left -= 1;
            fault
        })
    })
}

#[tokio::test(start_paused = true)]
async fn a_killed_sequencer_is_replaced_and_nothing_is_lost() {
    let cluster = Cluster::new(3, 3).await;
    let log = cluster.create("l", of_slots(50)).await;
    let checker = Checker::default();
    let writers = Writers::start(&cluster, &checker, 6);
    for _ in 0..4 {
        more(&checker, 60).await;
        let sequencer = cluster.sequencer_of(&log).await;
        cluster.kill_node(sequencer);
        more(&checker, 60).await;
        cluster.start_node(sequencer);
    }
    writers.stop().await;
    assert_eq!(checker.unknown(), 0);
    checker.check(&log).await;
    assert_eq!(log.view().sequencer().map(|s| s.epoch > 4), Some(true));
}

#[tokio::test(start_paused = true)]
async fn a_node_that_comes_back_empty_recovers_before_it_serves() {
    let cluster = Cluster::new(3, 1).await;
    let log = cluster.create("l", of_slots(50)).await;
    let checker = Checker::default();
    let writers = Writers::start(&cluster, &checker, 4);
    for _ in 0..3 {
        more(&checker, 50).await;
        cluster.start_node(0);
    }
    more(&checker, 50).await;
    writers.stop().await;
    checker.check(&log).await;
    assert_eq!(log.tail().await.unwrap() as usize, checker.check(&log).await.len());
}

#[tokio::test(start_paused = true)]
async fn one_of_two_concurrent_recoveries_wins_and_the_other_node_adopts_it() {
    let cluster = Cluster::new(3, 4).await;
    let log = cluster.create("l", of_slots(50)).await;
    for n in 0..20 {
        log.append(format!("{n}")).await.unwrap();
    }
    cluster.kill_node(cluster.sequencer_of(&log).await);
    let view = log.view();
    let epoch = view.epoch();
    let recover = async |n: usize| {
        let answer = cluster.ask(n, "recover", &view, &[]).await.unwrap();
        u64::from_le_bytes(answer[..].try_into().unwrap())
    };
    let live: Vec<_> = (0..4).filter(|n| *n != sequencer_number(&log)).collect();
    let epochs = join_all(live.iter().map(|n| recover(*n))).await;
    assert_eq!(epochs, [epoch + 1; 3]);
    assert_eq!(log.append("next").await.unwrap(), 20);
    assert_eq!(cluster.open("l").await.view().epoch(), epoch + 1);
}

/// Two processes on one store may claim to be the same node. Nothing prevents that.
#[tokio::test(start_paused = true)]
async fn two_hosts_of_one_name_do_not_serve_from_one_epoch() {
    let cluster = Cluster::new(3, 1).await;
    let log = cluster.create("l", of_slots(50)).await;
    let hosts = [(); 2].map(|()| SequencerHost::new(node(0), cluster.env.clone()));
    cluster.system.follow(on_method("commit", Fault::Hold, 2));
    let question = question_about(&log.view());
    let recover = |host: &SequencerHost| {
        let (host, question) = (host.clone(), Bytes::from(question.clone()));
        tokio::spawn(async move {
            host.handle(SequencerCaller::local(), "recover", question).await.unwrap()
        })
    };
    let recovering = hosts.each_ref().map(recover);
    // Both have read the view, and claim.
    cluster.system.wait_until_held(2).await;
    cluster.system.release(2);
    let mut epochs = vec![];
    for epoch in recovering {
        epochs.push(u64::from_le_bytes(epoch.await.unwrap()[..].try_into().unwrap()));
    }
    assert_ne!(epochs[0], epochs[1]);
    let checker = Checker::default();
    for n in 0..5 {
        checker.append(&log, format!("{n}")).await;
    }
    checker.check(&log).await;
}

fn sequencer_number(log: &Log) -> usize {
    let name = log.view().sequencer().unwrap().node.to_string();
    name.strip_prefix("node").unwrap().parse().unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_deposed_sequencer_that_lives_on_cannot_do_harm() {
    let cluster = Cluster::new(3, 2).await;
    let log = cluster.create("l", of_slots(50)).await;
    log.append("first").await.unwrap();
    // A client that reaches only the old sequencer, and does not learn of the new view.
    let old = sequencer_number(&log);
    let stale = cluster.open("l").await;
    stale.append("second").await.unwrap();
    cluster.ask(1 - old, "recover", &log.view(), &[]).await.unwrap();
    let checker = Checker::default();
    assert_eq!(checker.append(&cluster.open("l").await, "third".into()).await, Some(2));
    // The old one still hands out 2; the objects refuse it.
    assert_eq!(checker.append(&stale, "fourth".into()).await, Some(3));
    assert_eq!(stale.view().epoch(), log.view().epoch() + 1);
    log.trim(0).await.unwrap();
    log.trim(1).await.unwrap();
    checker.check(&log).await;
}

#[tokio::test(start_paused = true)]
async fn a_sequencer_does_not_serve_before_every_object_is_sealed() {
    let cluster = Cluster::new(3, 2).await;
    let log = cluster.create("l", of_slots(50)).await;
    for n in 0..9 {
        log.append(format!("{n}")).await.unwrap();
    }
    let dead = cluster.target_of_position(&log, 8);
    cluster.kill_node(sequencer_number(&log));
    cluster.kill_target(dead);
    // The last record, at 8, is on the dead target. So recovery cannot learn from the objects that
    // the tail is 9.
    let other = cluster.open("l").await;
    let tail = other.tail().await;
    assert_eq!(tail.unwrap_err().kind(), ErrorKind::Unavailable);
    cluster.revive_target(dead);
    assert_eq!(other.tail().await.unwrap(), 9);
    assert_eq!(log.append("next").await.unwrap(), 9);
}

#[tokio::test(start_paused = true)]
async fn a_new_layout_avoids_a_dead_target_whose_positions_return_with_it() {
    let cluster = Cluster::new(3, 2).await;
    let log = cluster.create("l", of_slots(200)).await;
    let checker = Checker::default();
    let writers = Writers::start(&cluster, &checker, 6);
    more(&checker, 100).await;
    let dead = cluster.target_of_position(&log, 0);
    cluster.kill_target(dead);
    more(&checker, 200).await;
    // Writers avoid the dead target before the layout does. They do not wait for the layout.
    let mut view = cluster.open("l").await.view();
    while view.ranges().len() == 1 {
        more(&checker, 10).await;
        view = cluster.open("l").await.view();
    }
    assert_eq!(view.ranges().len(), 2);
    let used = view.current_targets(&*cluster.env.placement);
    assert!(!used.contains(&target(dead)) && used.len() == 2, "{used:?}");
    let patience = Patience { operation: Duration::from_millis(100), ..Patience::default() };
    let impatient = LogEnv { patience, ..cluster.env.clone() };
    let impatient = Log::open(impatient, log.name().clone()).await.unwrap();
    let read = impatient.read(0).await.map_err(|error| error.kind());
    assert_eq!(read, Err(ErrorKind::Unavailable));
    cluster.revive_target(dead);
    assert!(matches!(log.read(0).await, Ok(Entry::Data(_))));
    more(&checker, 50).await;
    writers.stop().await;
    assert_eq!(checker.unknown(), 0, "every record in doubt was settled when the target returned");
    checker.check(&log).await;
}

#[tokio::test(start_paused = true)]
async fn a_target_that_is_back_is_used_by_the_next_stripe() {
    let cluster = Cluster::new(3, 1).await;
    let log = cluster.create("l", of_slots(20)).await;
    let checker = Checker::default();
    let writers = Writers::start(&cluster, &checker, 4);
    more(&checker, 20).await;
    cluster.kill_target(1);
    more(&checker, 100).await;
    cluster.revive_target(1);
    let targets = async || {
        let view = cluster.open("l").await.view();
        view.current_targets(&*cluster.env.placement).len()
    };
    until("three targets are used", async || targets().await == 3).await;
    writers.stop().await;
    checker.check(&log).await;
}

#[tokio::test(start_paused = true)]
async fn records_avoid_a_dead_target_even_without_a_new_view() {
    let cluster = Cluster::new(3, 1).await;
    let log = cluster.create("l", of_slots(1000)).await;
    let checker = Checker::default();
    let writers = Writers::start(&cluster, &checker, 4);
    more(&checker, 50).await;
    // The view is stored on a separate target. That target is dead too, so no new view can be
    // stored.
    cluster.system.follow(nacre_conformance::faults::unreachable());
    cluster.kill_target(2);
    more(&checker, 200).await;
    cluster.revive_target(2);
    cluster.system.heal();
    more(&checker, 50).await;
    writers.stop().await;
    checker.check(&log).await;
}

#[tokio::test(start_paused = true)]
async fn a_write_in_doubt_appears_exactly_once() {
    for fault in [Fault::FailAfter, Fault::FailBefore] {
        let cluster = Cluster::new(1, 1).await;
        let log = cluster.create("l", of_slots(100)).await;
        log.append("first").await.unwrap();
        for times in 1..4 {
            let target = cluster.target(0);
            target.follow(on_method(bed::WRITES, fault, times));
            let record = format!("{fault:?} {times}");
            let position = log.append(&record).await.unwrap();
            assert_eq!(log.read(position).await.unwrap(), Entry::Data(record.into()));
            target.heal();
        }
        let entries = records_of(&log).await;
        let unique: std::collections::HashSet<_> = entries.iter().collect();
        assert_eq!((entries.len(), unique.len()), (4, 4), "{fault:?}: {entries:?}");
    }
}

/// The records of a log, in order.
pub async fn records_of(log: &Log) -> Vec<Bytes> {
    let tail = log.tail().await.unwrap() as usize;
    let all: Vec<_> = log.follow(0).take(tail).collect().await;
    all.into_iter()
        .filter_map(|entry| match entry.unwrap().1 {
            Entry::Data(data) => Some(data),
            Entry::Filled | Entry::Trimmed | Entry::Lost => None,
        })
        .collect()
}

#[tokio::test(start_paused = true)]
async fn a_write_in_doubt_across_a_recovery_appears_exactly_once() {
    for is_written in [true, false] {
        let cluster = Cluster::new(1, 2).await;
        let log = cluster.create("l", of_slots(100)).await;
        log.append("first").await.unwrap();
        let target = cluster.target(0);
        let fault = if is_written { Fault::HoldReply } else { Fault::Hold };
        target.follow(on_method(bed::WRITES, fault, 1));
        let appending = {
            let log = log.clone();
            tokio::spawn(async move { log.append("slow").await })
        };
        target.wait_until_held(1).await;
        cluster.kill_node(sequencer_number(&log));
        let other = cluster.open("l").await;
        let next = other.append("next").await.unwrap();
        assert_eq!(next, if is_written { 2 } else { 1 });
        // The client's call times out. It sends the write again, and learns of the new epoch.
        let position = appending.await.unwrap().unwrap();
        target.release(1);
        assert_eq!(other.read(position).await.unwrap(), Entry::Data("slow".into()));
        let entries = records_of(&log).await;
        assert_eq!(entries.len(), 3, "{entries:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_record_whose_target_stays_away_is_reported_as_unknown() {
    let patience = Patience { append: Duration::from_secs(3), ..Patience::default() };
    let cluster = Cluster::patient(1, 1, patience).await;
    let log = cluster.create("l", of_slots(100)).await;
    log.append("first").await.unwrap();
    cluster.kill_target(0);
    let error = log.append("lost").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.message().contains("may be in the log, at 1"), "{error}");
    cluster.revive_target(0);
    assert_eq!(log.append("later").await.unwrap(), 2);
}

#[tokio::test(start_paused = true)]
async fn an_append_without_any_sequencer_says_that_nothing_was_written() {
    let patience = Patience { append: Duration::from_secs(3), ..Patience::default() };
    let cluster = Cluster::patient(3, 1, patience).await;
    let log = cluster.create("l", of_slots(100)).await;
    log.append("first").await.unwrap();
    cluster.kill_node(0);
    let error = log.append("lost").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(!error.message().contains("may be in the log"), "{error}");
    cluster.start_node(0);
    assert_eq!(log.append("later").await.unwrap(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_client_with_an_old_view_is_refused_and_reads_the_new_view() {
    let cluster = Cluster::new(3, 1).await;
    let log = cluster.create("l", of_slots(100)).await;
    let old = cluster.open("l").await;
    old.append("a").await.unwrap();
    assert_eq!(log.seal().await.unwrap(), 1);
    let epoch = log.view().epoch();
    assert!(old.view().epoch() < epoch);
    assert_eq!(old.append("b").await.unwrap(), 1);
    assert_eq!(old.view().epoch(), epoch);
    assert_eq!(log.seal().await.unwrap(), 2);
    assert_eq!(old.read(0).await.unwrap(), Entry::Data("a".into()));
    assert_eq!(log.seal().await.unwrap(), 2);
    old.trim(0).await.unwrap();
    assert_eq!(log.seal().await.unwrap(), 2);
    old.trim_to(1).await.unwrap();
    assert_eq!(log.seal().await.unwrap(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_proposal_whose_answer_is_lost_is_recognised() {
    let cluster = Cluster::new(3, 2).await;
    let log = cluster.create("l", of_slots(100)).await;
    log.append("a").await.unwrap();
    let lost = [None, Some(Fault::FailAfter), Some(Fault::FailAfter)];
    cluster.system.follow(scripted(lost));
    cluster.kill_node(sequencer_number(&log));
    assert_eq!(log.append("b").await.unwrap(), 1);
}

/// A random mix of all faults: lost requests and replies on every target, killed and restarted
/// sequencers, dead targets, seals, holes and followers.
#[tokio::test(start_paused = true)]
async fn every_acknowledged_record_is_in_the_log_once_under_random_faults() {
    for seed in crate::bed::seeds(8) {
        println!("seed {seed}: NACRE_SEED={seed} runs it alone");
        torture(seed).await;
    }
}

async fn torture(seed: u64) {
    let mut random = Random::seeded(seed);
    let cluster = Cluster::new(3, 3).await;
    let log = cluster.create("l", of_slots(10 + random.below(40) as u32)).await;
    let odds = FaultOdds { fail_before: 40, fail_after: 40, lose_event: 0 };
    let shaky = |n: usize, random: &mut Random| {
        cluster.target(n).follow(seeded(random.next_u64(), odds));
    };
    (0..3).for_each(|n| shaky(n, &mut random));
    let checker = Checker::default();
    let writers = Writers::start(&cluster, &checker, 5);
    let follower = tokio::spawn(log.follow(0).take(150).map(|item| item.is_ok()).count());
    for _ in 0..8 {
        more(&checker, 30).await;
        let n = random.below(3) as usize;
        match random.below(4) {
            0 => cluster.kill_node(n),
            1 => {
                // If a recovery needs the target, no append ends until the target is back.
                cluster.kill_target(n);
                let _stuck = timeout(Duration::from_secs(3), more(&checker, 10)).await;
                shaky(n, &mut random);
            }
            2 => {
                let _busy = log.seal().await;
            }
            _ => {}
        }
        cluster.start_node(n);
    }
    writers.stop().await;
    follower.await.unwrap();
    (0..3).for_each(|n| cluster.revive_target(n));
    checker.check(&log).await;
}
