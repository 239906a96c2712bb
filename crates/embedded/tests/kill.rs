//! A process killed under load, on the real disk.

mod support;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::Ordering;

use nacre_clock::Random;
use nacre_conformance::seeds;
use nacre_embedded::EmbeddedEngine;
use support::ledger::{Ledger, transaction};
use support::{options, submit};
use tempfile::TempDir;

const WRITERS: usize = 8;
/// Lives of one store: each ends with a kill.
const LIVES: u64 = 5;
/// Stores. `NACRE_SEEDS=n` makes n times as many: 1,000 kills with 100.
const STORES: u64 = 2;
/// The most lines that a child process prints before the test kills it. The number is random, so
/// some children are killed while they open their store.
const MAX_LINES: u64 = 300;
/// The environment variable that tells the child process that it is one, and where its store is.
const CHILD_FOLDER: &str = "NACRE_TEST_KILLED_CHILD_FOLDER";

/// Not a test of its own: the child process that the test below starts and kills. It prints
/// `acknowledged writer n` when a writer's n-th transaction is acknowledged, and `seen writer n`
/// when a read finds n transactions of a writer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[expect(clippy::disallowed_methods, reason = "the test below tells its child by the environment")]
async fn child() {
    let Some(folder) = std::env::var_os(CHILD_FOLDER) else { return };
    let engine = EmbeddedEngine::open(options(Path::new(&folder))).unwrap();
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let engine = engine.clone();
            tokio::spawn(async move {
                let mut n = support::ledger::check_object(&engine, writer).await;
                while submit(&engine, &Ledger::object(writer), transaction(n)).await.is_ok() {
                    n += 1;
                    println!("acknowledged {writer} {n}");
                }
            })
        })
        .collect();
    for writer in 0..WRITERS {
        let engine = engine.clone();
        tokio::spawn(async move {
            let mut last = 0;
            loop {
                let seen = support::ledger::count(&engine, writer).await.unwrap_or(0);
                if seen > last {
                    println!("seen {writer} {seen}");
                }
                last = seen;
                tokio::task::yield_now().await;
            }
        });
    }
    for writer in writers {
        writer.await.unwrap();
    }
}

fn start_child(folder: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child", "--nocapture", "--test-threads=1"])
        .env(CHILD_FOLDER, folder)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Parses a line of the child: `acknowledged` or `seen`, the writer, and its number of
/// transactions.
fn parse(line: &str) -> Option<(&str, usize, u64)> {
    // The test harness prints the name of the test at the start of the first line.
    let at = line.rfind("acknowledged ").or_else(|| line.rfind("seen "))?;
    let mut words = line[at..].split(' ');
    Some((words.next()?, words.next()?.parse().ok()?, words.next()?.parse().ok()?))
}

/// Records the lines of the child, and kills it after `kill_after` lines. Returns the number of
/// lines.
fn follow(child: &mut Child, ledger: &Ledger, kill_after: u64) -> u64 {
    if kill_after == 0 {
        child.kill().unwrap();
    }
    let mut heard = 0;
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    // The kill may cut the last line off; ignore it then.
    while lines.read_line(&mut line).is_ok_and(|bytes| bytes > 0) && line.ends_with('\n') {
        if let Some((what, writer, n)) = parse(line.trim_end()) {
            let writer = &ledger.writers[writer];
            let known = if what == "seen" { &writer.seen } else { &writer.written };
            known.fetch_max(n, Ordering::SeqCst);
            heard += 1;
            if heard == kill_after {
                child.kill().unwrap();
            }
        }
        line.clear();
    }
    child.wait().unwrap();
    heard
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_process_loses_nothing_it_acknowledged() {
    let mut kills = 0;
    for seed in seeds(STORES) {
        let mut random = Random::seeded(seed);
        let folder = TempDir::new().unwrap();
        let ledger = Ledger::new(WRITERS);
        for life in 0..LIVES {
            let mut child = start_child(folder.path());
            let kill_after = if random.one_in(8) { 0 } else { 1 + random.below(MAX_LINES) };
            let heard = follow(&mut child, &ledger, kill_after);
            assert!(heard >= kill_after, "seed {seed}, life {life}: the child ended by itself");
            let engine = EmbeddedEngine::open(options(folder.path())).unwrap();
            // The child may have acknowledged more than it printed.
            check_at_least(&engine, &ledger).await;
            kills += 1;
        }
    }
    println!("{kills} kills");
}

async fn check_at_least(engine: &EmbeddedEngine, ledger: &Ledger) {
    for (writer, acknowledged) in ledger.writers.iter().enumerate() {
        let found = support::ledger::check_object(engine, writer).await;
        let heard = acknowledged.written.load(Ordering::SeqCst);
        let seen = acknowledged.seen.load(Ordering::SeqCst);
        assert!(found >= heard, "writer {writer}: {heard} acknowledged, {found} found");
        assert!(found >= seen, "writer {writer}: {seen} seen, {found} found");
        acknowledged.written.store(found, Ordering::SeqCst);
    }
}
