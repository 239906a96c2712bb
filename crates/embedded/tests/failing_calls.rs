//! Makes every file-system call that changes the disk fail once, one call after the other. The
//! calls are those for the engine's own files and for its tables. Acknowledged data must still be
//! there, and the error must say what to do.

mod support;

use std::sync::atomic::Ordering;

use nacre_embedded::EmbeddedEngine;
use nacre_object::{Error, ErrorKind};
use support::contents::scrub;
use support::ledger::{Ledger, check_object, transaction};
use support::power::{Fault, Plan, PowerDisk};
use support::{append, object, options, submit};

const WRITERS: usize = 2;
/// Enough for several segments, memtables and a compaction.
const TRANSACTIONS: u64 = 6;

/// Opens a store, writes to it and closes it. Returns the errors. A writer stops at its first
/// error.
async fn write(disk: &PowerDisk, ledger: &Ledger) -> Vec<Error> {
    let engine = match EmbeddedEngine::open(options(&disk.store())) {
        Ok(engine) => engine,
        Err(error) => return vec![error],
    };
    let mut errors = Vec::new();
    for (writer, acknowledged) in ledger.writers.iter().enumerate() {
        for n in 0..TRANSACTIONS {
            if let Err(error) = submit(&engine, &Ledger::object(writer), transaction(n)).await {
                errors.push(error);
                break;
            }
            acknowledged.written.store(n + 1, Ordering::SeqCst);
        }
        // Data that is read must survive, even the data of a failed write.
        let seen = check_object(&engine, writer).await;
        acknowledged.seen.store(seen, Ordering::SeqCst);
    }
    engine.close();
    errors
}

/// Runs the workload again and again. The first run makes its first call fail, the second run its
/// second call, and so on, until a run ends before its call fails. Returns how many calls failed.
async fn fail_each(fault: Fault, is_lasting: bool, expected: &[ErrorKind]) -> u64 {
    for first in 1.. {
        let (disk, ledger) = (PowerDisk::mount(), Ledger::new(WRITERS));
        let last = if is_lasting { u64::MAX } else { first };
        disk.plan(Plan { fault, first, last });
        let errors = write(&disk, &ledger).await;
        if !disk.met_fault() {
            assert!(errors.is_empty(), "{errors:?}");
            return first - 1;
        }
        for error in errors {
            assert!(expected.contains(&error.kind()), "call {first}: {error}");
        }
        disk.heal();
        let engine = EmbeddedEngine::open(options(&disk.store()))
            .unwrap_or_else(|error| panic!("after call {first}: {error}"));
        ledger.check(&engine).await;
        assert_eq!(scrub(&engine), [], "after call {first}");
        submit(&engine, &object("late"), vec![append("x")]).await.unwrap();
    }
    unreachable!("a run ends")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disk_call_that_fails_once_gives_unavailable_and_loses_nothing() {
    let calls = fail_each(Fault::Io, false, &[ErrorKind::Unavailable]).await;
    println!("{calls} calls failed, each once");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disk_that_keeps_failing_gives_unavailable_and_loses_nothing() {
    let calls = fail_each(Fault::Io, true, &[ErrorKind::Unavailable]).await;
    println!("the disk failed from each of {calls} calls on");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_short_write_is_continued() {
    let calls = fail_each(Fault::Short, false, &[]).await;
    println!("{calls} calls, each write of them cut short once");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disk_that_becomes_full_at_any_call_loses_nothing() {
    // `Unavailable` is possible too: tables that meet a full disk although space is reserved for
    // them stop for good.
    let expected = [ErrorKind::Exhausted, ErrorKind::Unavailable];
    let calls = fail_each(Fault::Full, true, &expected).await;
    println!("the disk was full from each of {calls} calls on");
}
