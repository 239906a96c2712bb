//! Sends random requests to `programs/class/lock_manager.brados` and searches for violations. A
//! violation is a pair of granted locks that exclude each other, a transaction that waits for
//! nothing, a cycle of waiting transactions, or a report of a deadlock where there is none.
//!
//! `NACRE_SEEDS=n` tries n times as many seeds; `NACRE_SEED=s` tries only the seed `s`.

mod support;

use std::collections::{BTreeMap, BTreeSet};

use nacre_brados::Value;
use nacre_calls::OutputRows;
use nacre_clock::Random;
use nacre_conformance::SeedCases;

use support::Subject;

const PROGRAM: &str = include_str!("../../../programs/class/lock_manager.brados");
const CASES: SeedCases = SeedCases {
    file: "tests/lock_manager_seeds.txt",
    text: include_str!("lock_manager_seeds.txt"),
};
const RUNS: u64 = 20;
const REQUESTS: usize = 150;
const XIDS: [&str; 5] = ["t1", "t2", "t3", "t4", "t5"];
const RESOURCES: [&str; 3] = ["a", "b", "c"];
const MODES: [&str; 2] = ["shared", "exclusive"];

/// Who holds and who waits, in order, of each resource: transaction and mode.
#[derive(Debug, Default, Clone)]
struct Locks(BTreeMap<String, (Vec<Claim>, Vec<Claim>)>);

type Claim = (String, String);

fn exclude(one: &Claim, other: &Claim) -> bool {
    one.0 != other.0 && (one.1 == "exclusive" || other.1 == "exclusive")
}

fn text(value: &Value) -> String {
    match value {
        Value::Bytes(bytes) => String::from_utf8(bytes.clone()).unwrap(),
        other => panic!("{other} is no text"),
    }
}

fn ask(subject: &Subject, method: &str, row: &[&str]) -> Vec<OutputRows> {
    let row: Vec<_> = row.iter().map(|text| Value::text(text)).collect();
    subject.call(method, &row).unwrap_or_else(|error| panic!("{method}: {error}"))
}

/// The last two columns of an output's rows.
fn claims(reply: &[OutputRows], output: &str) -> Vec<Claim> {
    let rows = reply.iter().filter(|(name, _)| name == output).flat_map(|(_, rows)| rows);
    rows.map(|row| (text(&row[row.len() - 2]), text(&row[row.len() - 1]))).collect()
}

impl Locks {
    fn read(subject: &Subject) -> Self {
        let of = |resource: &str| {
            let reply = ask(subject, "locks", &[resource]);
            (resource.to_owned(), (claims(&reply, "held"), claims(&reply, "queued")))
        };
        Self(RESOURCES.into_iter().map(of).collect())
    }

    /// For each waiter of a resource, in queue order, the transactions that it waits for.
    fn blockers(&self, resource: &str) -> Vec<(String, BTreeSet<String>)> {
        let (holders, line) = &self.0[resource];
        let holds = |claim: &Claim| holders.iter().any(|(xid, _)| *xid == claim.0);
        let of = |(at, waiter): (usize, &Claim)| {
            let ahead = line
                .iter()
                .enumerate()
                .filter(|(other_at, other)| !holds(waiter) && (*other_at < at || holds(other)));
            let others = holders.iter().chain(ahead.map(|(_, other)| other));
            let blocking = others.filter(|other| exclude(waiter, other));
            (waiter.0.clone(), blocking.map(|(xid, _)| xid.clone()).collect())
        };
        line.iter().enumerate().map(of).collect()
    }

    /// Whether some wait for each other.
    fn has_circle(&self) -> bool {
        let mut waiting: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (xid, blockers) in RESOURCES.iter().flat_map(|resource| self.blockers(resource)) {
            waiting.entry(xid).or_default().extend(blockers);
        }
        // A transaction that waits for no other waiting transaction is removed, until there is
        // none.
        while let Some(free) = waiting
            .iter()
            .find(|(_, blockers)| !blockers.iter().any(|xid| waiting.contains_key(xid)))
            .map(|(xid, _)| xid.clone())
        {
            waiting.remove(&free);
        }
        !waiting.is_empty()
    }

    fn check(&self, trace: &str) {
        for resource in RESOURCES {
            let holders = &self.0[resource].0;
            let excluded =
                holders.iter().any(|one| holders.iter().any(|other| exclude(one, other)));
            assert!(!excluded, "{holders:?} hold {resource}:\n{trace}");
            for (xid, blockers) in self.blockers(resource) {
                assert!(!blockers.is_empty(), "{xid} waits for nothing:\n{trace}");
            }
        }
        assert!(!self.has_circle(), "a circle waits:\n{trace}{self:?}");
    }

    /// These, if what is asked for waited last.
    fn with_waiter(&self, resource: &str, claim: Claim) -> Self {
        let mut with = self.clone();
        with.0.get_mut(resource).unwrap().1.push(claim);
        with
    }
}

/// Runs one seed. Returns how many requests had each status.
fn run(seed: u64, told: &mut BTreeMap<String, usize>) {
    let mut random = Random::seeded(seed);
    let subject = Subject::new(PROGRAM);
    let mut trace = format!("seed {seed}\n");
    for _ in 0..REQUESTS {
        let [xid, resource] = [&XIDS[..], &RESOURCES].map(|words| *random.pick(words).unwrap());
        let mode = *random.pick(&MODES).unwrap();
        let before = Locks::read(&subject);
        if random.one_in(6) {
            trace.push_str(&format!("release {xid}\n"));
            ask(&subject, "release", &[xid]);
        } else {
            let reply = ask(&subject, "lock", &[xid, resource, mode]);
            let status = text(&reply[0].1[0][0]);
            trace.push_str(&format!("lock {xid} {resource} {mode}: {status}\n"));
            if status == "deadlock" {
                let waiting = before.with_waiter(resource, (xid.to_owned(), mode.to_owned()));
                assert!(waiting.has_circle(), "there is no circle:\n{trace}{before:?}");
            }
            *told.entry(status).or_default() += 1;
        }
        Locks::read(&subject).check(&trace);
    }
}

#[test]
fn the_lock_manager_excludes_conflicts_and_reports_deadlocks() {
    let mut told = BTreeMap::new();
    let runs = CASES.each(RUNS, |seed| run(seed, &mut told));
    for status in ["granted", "waiting", "deadlock"] {
        assert!(
            told.get(status).is_some_and(|count| *count >= runs),
            "{status}: too few, {told:?}"
        );
    }
}
