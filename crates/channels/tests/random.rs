//! Random runs: objects send to each other while answers are lost, processes die, and receivers
//! forget senders. The test checks:
//!
//! - a message of an acknowledged request is received once, in order, or becomes a dead letter;
//! - a message of an unanswered request is received at most once;
//! - a dead letter is received once when it is sent again.

mod support;

use std::collections::BTreeMap;

use futures::future::join_all;
use nacre_brados::Value;
use nacre_channels::{DeadLetters, Pace, resend};
use nacre_clock::Random;
use nacre_conformance::SeedCases;
use nacre_conformance::faults::{FaultOdds, seeded};
use nacre_object::ErrorKind;

use support::sabotage::Sabotage;
use support::{PACE, Process, World, comes_to_be};

const CASES: SeedCases =
    SeedCases { file: "tests/random_seeds.txt", text: include_str!("random_seeds.txt") };
/// Seeds within which a planted bug must be found.
const SEEDS_TO_FIND_A_BUG: u64 = 200;
const OBJECTS: [&str; 4] = ["a", "b", "c", "d"];
const STEPS: i64 = 150;
const ODDS: FaultOdds = FaultOdds { fail_before: 12, fail_after: 12, lose_event: 0 };
/// One in so many numbers is refused by its receiver at first.
const REFUSED_ODDS: u64 = 8;
/// Receivers forget all the time.
const FORGETFUL: Pace = Pace { forget_every: 2, ..PACE };

/// The numbers sent from one object to another, in order, each with whether its request was
/// acknowledged.
type Sent = BTreeMap<(&'static str, &'static str), Vec<(i64, bool)>>;

/// How many times each of the events that the run is about happened.
#[derive(Debug, Default)]
struct Seen {
    acknowledged: u64,
    unknown: u64,
    deaths: u64,
    failures: u64,
    refused: u64,
    resent: u64,
    forgotten: u64,
}

impl Seen {
    fn add(&mut self, other: &Self) {
        self.acknowledged += other.acknowledged;
        self.unknown += other.unknown;
        self.deaths += other.deaths;
        self.failures += other.failures;
        self.refused += other.refused;
        self.resent += other.resent;
        self.forgotten += other.forgotten;
    }
}

struct Run {
    world: World,
    random: Random,
    sabotage: Option<Sabotage>,
    processes: Vec<Process>,
    sent: Sent,
    seen: Seen,
}

fn path(object: &str) -> String {
    format!("data/{object}")
}

impl Run {
    fn new(seed: u64, sabotage: Option<Sabotage>) -> Self {
        let (world, random) = (World::new(), Random::seeded(seed));
        let (processes, sent, seen) = (vec![], Sent::new(), Seen::default());
        let mut run = Self { world, random, sabotage, processes, sent, seen };
        run.begin();
        run.begin();
        run
    }

    fn begin(&mut self) {
        let process = self.world.far_process(self.random.next_u64(), FORGETFUL, self.sabotage);
        process.faults.follow(seeded(self.random.next_u64(), ODDS));
        self.processes.push(process);
    }

    /// A process dies, wherever it is, and another begins.
    fn replace(&mut self) {
        let at = self.random.below(self.processes.len() as u64) as usize;
        let dead = self.processes.swap_remove(at);
        self.seen.failures += dead.courier.stats().failures;
        self.seen.deaths += 1;
        drop(dead);
        self.begin();
    }

    /// Makes one object send `number` to another object, or to two at once. Each call gets a
    /// greater number than the last.
    async fn send(&mut self, number: i64) -> Result<(), String> {
        let from = *self.random.pick(&OBJECTS).unwrap();
        let first = self.random.below(OBJECTS.len() as u64) as usize;
        let both = [OBJECTS[first], OBJECTS[(first + 1) % OBJECTS.len()]];
        let receivers = &both[..if self.random.one_in(4) { 2 } else { 1 }];
        let number = if self.random.one_in(REFUSED_ODDS) { -number } else { number };
        let process = self.random.pick(&self.processes).unwrap();
        let sending = receivers.iter().map(|to| process.pass(from, to, number));
        for (outcome, to) in join_all(sending).await.into_iter().zip(receivers) {
            let is_acknowledged = match outcome {
                Ok(()) => true,
                Err(error) if error.kind() == ErrorKind::Unavailable => false,
                Err(error) => return Err(error.to_string()),
            };
            match is_acknowledged {
                true => self.seen.acknowledged += 1,
                false => self.seen.unknown += 1,
            }
            self.sent.entry((from, *to)).or_default().push((number, is_acknowledged));
        }
        Ok(())
    }

    /// Has dead letters of some object delivered again, where they are refused again.
    async fn resend(&mut self) -> Result<(), String> {
        let object = path(self.random.pick(&OBJECTS).unwrap()).parse().unwrap();
        let process = self.random.pick(&self.processes).unwrap();
        match resend(&*process.store, &object, &DeadLetters::All).await {
            Ok(count) => self.seen.resent += count,
            // Unanswered, not made yet, or another one's answer was lost.
            Err(error) if matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::NotFound) => {}
            Err(error) => return Err(error.to_string()),
        }
        Ok(())
    }

    async fn run(mut self) -> Result<Seen, String> {
        for number in 1..=STEPS {
            match self.random.below(12) {
                0 => self.replace(),
                1 if self.random.one_in(4) => tokio::time::sleep(2 * PACE.sweep_every).await,
                1 => tokio::time::sleep(PACE.first_retry).await,
                2 => self.resend().await?,
                _ => self.send(number).await?,
            }
        }
        for process in &self.processes {
            process.faults.heal();
        }
        self.settle().await?;
        self.check_refused().await?;
        self.open_all().await?;
        self.settle().await?;
        self.check().await?;
        Ok(self.seen)
    }

    /// Waits until nothing is on its way.
    async fn settle(&self) -> Result<(), String> {
        for object in OBJECTS {
            if !comes_to_be(async || self.world.is_empty(&path(object)).await).await {
                return Err(format!("what {object} sent is never delivered"));
            }
        }
        Ok(())
    }

    /// Whether the messages that nobody took are there.
    async fn check_refused(&mut self) -> Result<(), String> {
        for from in OBJECTS {
            let dead = self.world.outbox(&path(from)).await.dead;
            let numbers: Vec<_> = dead.iter().map(|dead| dead.message.row[4].clone()).collect();
            self.seen.refused += numbers.len() as u64;
            let sent: Vec<_> = self
                .sent
                .iter()
                .filter(|(way, _)| way.0 == from)
                .flat_map(|(_, sent)| sent)
                .collect();
            for number in &numbers {
                let is_refused =
                    |(sent, _): &&(i64, bool)| *sent < 0 && Value::Int(*sent) == *number;
                if !sent.iter().copied().any(|one| is_refused(&one)) {
                    return Err(format!("{from}: {number} is a dead letter: {dead:?}"));
                }
            }
            for (number, is_acknowledged) in sent {
                if *number < 0 && *is_acknowledged && !numbers.contains(&Value::Int(*number)) {
                    return Err(format!("{from}: {number} is no dead letter"));
                }
            }
        }
        Ok(())
    }

    /// What was refused is not any more, and is sent again.
    async fn open_all(&mut self) -> Result<(), String> {
        let process = &self.processes[0];
        for object in OBJECTS {
            let opened = process.relay(&path(object), "open", &[Value::Int(1)]).await;
            opened.map_err(|error| error.to_string())?;
        }
        for object in OBJECTS {
            let object = path(object).parse().unwrap();
            let resent = resend(&*process.store, &object, &DeadLetters::All).await;
            self.seen.resent += resent.map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    async fn check(&mut self) -> Result<(), String> {
        for to in OBJECTS {
            let received = self.world.received(&path(to)).await;
            for from in OBJECTS {
                let of_sender = received.iter().filter(|(sender, _)| sender == from);
                let got: Vec<_> = of_sender.map(|(_, number)| *number).collect();
                let sent = self.sent.get(&(from, to)).cloned().unwrap_or_default();
                check_way(&got, &sent).map_err(|error| format!("{from} to {to}: {error}"))?;
            }
            let dead = self.world.outbox(&path(to)).await.dead;
            if !dead.is_empty() {
                return Err(format!("{to}: {dead:?}"));
            }
            self.seen.forgotten += self.world.generation(&path(to)).await;
        }
        Ok(())
    }
}

/// Checks that what was received is what was sent, once and in order.
fn check_way(got: &[i64], sent: &[(i64, bool)]) -> Result<(), String> {
    // Sent one after another with rising numbers, so in order is rising; what was refused came later.
    let (refused, taken): (Vec<i64>, Vec<i64>) =
        got.iter().copied().partition(|number| *number < 0);
    if !taken.is_sorted_by(|a, b| a < b) || !refused.is_sorted_by(|a, b| a > b) {
        return Err(format!("out of order or twice: {got:?}"));
    }
    for (number, is_acknowledged) in sent {
        if *is_acknowledged && !got.contains(number) {
            return Err(format!("{number} is lost"));
        }
    }
    match got.iter().find(|number| !sent.iter().any(|(other, _)| other == *number)) {
        Some(number) => Err(format!("nobody sent {number}")),
        None => Ok(()),
    }
}

fn run(seed: u64, sabotage: Option<Sabotage>) -> Result<Seen, String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(async { Run::new(seed, sabotage).run().await })
}

#[test]
fn every_message_is_received_once_and_in_order() {
    let mut total = Seen::default();
    CASES.each(30, |seed| total.add(&run(seed, None).unwrap_or_else(|error| panic!("{error}"))));
    println!("{total:?}");
    let Seen { acknowledged, unknown, deaths, failures, refused, resent, forgotten } = total;
    let all = [acknowledged, unknown, deaths, failures, refused, resent, forgotten];
    assert!(all.iter().all(|count| *count > 0), "{total:?}");
}

#[test]
fn every_planted_bug_is_found() {
    for sabotage in Sabotage::ALL {
        let found = (0..SEEDS_TO_FIND_A_BUG)
            .find_map(|seed| run(seed, Some(sabotage)).err().map(|error| (seed, error)));
        let Some((seed, error)) = found else { panic!("nobody notices {sabotage:?}") };
        println!("{sabotage:?}: seed {seed}: {error}");
    }
}
