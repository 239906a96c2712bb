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
const LIVES: u64 = 4;
/// Says to a child that it is one, and where its store is.
const CHILD_FOLDER: &str = "NACRE_TEST_KILLED_CHILD_FOLDER";

/// Not a test of its own: what a child of the test below does until it is killed. It prints
/// `writer n` for each transaction acknowledged.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
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

/// Takes in what a child says it acknowledged; kills it after `kill_after` of them.
fn follow(child: &mut Child, ledger: &Ledger, kill_after: u64) -> u64 {
    let mut heard = 0;
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        // The last line may be cut off.
        let Ok(line) = line else { break };
        let numbers = line.rsplit_once("acknowledged ").map(|(_, numbers)| numbers.to_owned());
        let Some((writer, n)) = numbers.as_deref().and_then(|text| text.split_once(' ')) else {
            continue;
        };
        let (Ok(writer), Ok(n)) = (writer.parse::<usize>(), n.parse()) else { continue };
        ledger.writers[writer].written.store(n, Ordering::SeqCst);
        heard += 1;
        if heard == kill_after {
            child.kill().unwrap();
        }
    }
    child.wait().unwrap();
    heard
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_process_loses_nothing_it_acknowledged() {
    for seed in seeds(2) {
        let mut random = Random::seeded(seed);
        let folder = TempDir::new().unwrap();
        let ledger = Ledger::new(WRITERS);
        for life in 0..LIVES {
            let mut child = start_child(folder.path());
            let kill_after = 1 + random.below(1500);
            let heard = follow(&mut child, &ledger, kill_after);
            assert!(heard >= kill_after, "seed {seed}, life {life}: the child ended by itself");
            let engine = EmbeddedEngine::open(options(folder.path())).unwrap();
            // The child may have acknowledged more than it came to print.
            check_at_least(&engine, &ledger).await;
        }
    }
}

async fn check_at_least(engine: &EmbeddedEngine, ledger: &Ledger) {
    for (writer, acknowledged) in ledger.writers.iter().enumerate() {
        let found = support::ledger::check_object(engine, writer).await;
        let heard = acknowledged.written.load(Ordering::SeqCst);
        assert!(found >= heard, "writer {writer}: {heard} acknowledged, {found} found");
        acknowledged.written.store(found, Ordering::SeqCst);
    }
}
