//! Objects that send to each other while answers are lost and processes die: every message of an
//! acknowledged request is received once, in order, and of an unanswered one at most once.

mod support;

use std::collections::BTreeMap;

use nacre_clock::Random;
use nacre_conformance::SeedCases;
use nacre_conformance::faults::{FaultOdds, seeded};
use nacre_object::ErrorKind;

use support::{PACE, Process, World};

const CASES: SeedCases =
    SeedCases { file: "tests/random_seeds.txt", text: include_str!("random_seeds.txt") };
const OBJECTS: [&str; 4] = ["a", "b", "c", "d"];
const STEPS: i64 = 150;
const ODDS: FaultOdds = FaultOdds { fail_before: 12, fail_after: 12, lose_event: 0 };

/// What was sent from one object to another, in order: numbers, and whether that was acknowledged.
type Sent = BTreeMap<(&'static str, &'static str), Vec<(i64, bool)>>;

/// How often what the run is about happened.
#[derive(Debug, Default)]
struct Seen {
    acknowledged: u64,
    unknown: u64,
    deaths: u64,
    failures: u64,
}

struct Run {
    world: World,
    random: Random,
    processes: Vec<Process>,
    sent: Sent,
    seen: Seen,
}

impl Run {
    fn new(seed: u64) -> Self {
        let (world, random) = (World::new(), Random::seeded(seed));
        let mut run =
            Self { world, random, processes: vec![], sent: Sent::new(), seen: Seen::default() };
        run.begin();
        run.begin();
        run
    }

    fn begin(&mut self) {
        let process = self.world.process(self.random.next_u64());
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

    async fn send(&mut self, number: i64) {
        let from = *self.random.pick(&OBJECTS).unwrap();
        let to = *self.random.pick(&OBJECTS).unwrap();
        let process = self.random.pick(&self.processes).unwrap();
        let is_acknowledged = match process.pass(from, to, number).await {
            Ok(()) => true,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
                false
            }
        };
        match is_acknowledged {
            true => self.seen.acknowledged += 1,
            false => self.seen.unknown += 1,
        }
        self.sent.entry((from, to)).or_default().push((number, is_acknowledged));
    }

    async fn run(mut self) -> Seen {
        for number in 0..STEPS {
            match self.random.below(10) {
                0 => self.replace(),
                1 => tokio::time::sleep(PACE.first_retry).await,
                _ => self.send(number).await,
            }
        }
        for process in &self.processes {
            process.faults.heal();
        }
        for object in OBJECTS {
            self.world.until_empty(&format!("data/{object}")).await;
        }
        self.check().await;
        self.seen
    }

    async fn check(&self) {
        for to in OBJECTS {
            let received = match self.world.exists(&format!("data/{to}")).await {
                true => self.world.received(&format!("data/{to}")).await,
                false => vec![],
            };
            for from in OBJECTS {
                let of_sender = received.iter().filter(|(sender, _)| sender == from);
                let got: Vec<_> = of_sender.map(|(_, number)| *number).collect();
                let sent = self.sent.get(&(from, to)).cloned().unwrap_or_default();
                // Sent one after another with rising numbers, so in order is rising.
                assert!(got.is_sorted_by(|a, b| a < b), "{from} to {to}: {got:?}");
                for (number, is_acknowledged) in &sent {
                    let is_there = got.contains(number);
                    assert!(is_there || !is_acknowledged, "{from} to {to}: {number} is lost");
                }
                let is_sent = |number: &i64| sent.iter().any(|(other, _)| other == number);
                assert!(got.iter().all(is_sent), "{from} to {to}: {got:?}");
            }
            let outbox = self.world.outbox(&format!("data/{to}")).await;
            assert!(outbox.dead.is_empty(), "{:?}", outbox.dead);
        }
    }
}

#[test]
fn every_message_is_received_once_and_in_order() {
    let mut total = Seen::default();
    CASES.each(30, |seed| {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        let seen = runtime.block_on(async { Run::new(seed).run().await });
        total.acknowledged += seen.acknowledged;
        total.unknown += seen.unknown;
        total.deaths += seen.deaths;
        total.failures += seen.failures;
    });
    let Seen { acknowledged, unknown, deaths, failures } = total;
    assert!(acknowledged > 0 && unknown > 0 && deaths > 0 && failures > 0, "{total:?}");
}
