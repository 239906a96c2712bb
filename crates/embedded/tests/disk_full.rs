//! Tests on a really full disk: a small file system that is filled to its last byte.

mod support;

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use nacre_clock::SystemClock;
use nacre_conformance::wait::eventually;
use nacre_conformance::{SmallDisk, TestClasses};
use nacre_embedded::{DEFAULT_RESERVE_BYTES, EmbeddedEngine, Options};
use nacre_object::{ErrorKind, Op, OpResult};
use support::contents::scrub;
use support::{answer, append, object, read_all, submit};
use tempfile::TempDir;

const MIB: u64 = 1024 * 1024;
/// The whole file system: the engine's default reserve and about as much again.
const DISK_BYTES: u64 = DEFAULT_RESERVE_BYTES + 112 * MIB;

fn open(path: &Path) -> EmbeddedEngine {
    let clock = Arc::new(SystemClock::default());
    let mut options = Options::new(path, Arc::new(TestClasses), clock);
    options.segment_bytes = 4 * MIB as u32;
    EmbeddedEngine::open(options).unwrap()
}

fn content(n: usize, size: usize) -> Bytes {
    (0..size).map(|i| (n * 7 + i) as u8).collect::<Vec<_>>().into()
}

/// Fills the disk with objects of this size; returns how many there are room for.
async fn fill(engine: &EmbeddedEngine, size: usize) -> usize {
    for n in 0.. {
        let write = submit(engine, &object(n), vec![append(content(n, size))]).await;
        if let Err(error) = write {
            assert_eq!(error.kind(), ErrorKind::Exhausted, "{error}");
            return n;
        }
    }
    unreachable!("the disk is finite")
}

async fn check(engine: &EmbeddedEngine, objects: impl Iterator<Item = usize>, size: usize) {
    for n in objects {
        let found = answer(engine, &object(n), read_all()).await.unwrap();
        assert!(found == OpResult::Data(content(n, size)), "object {n}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_loses_nothing_and_works_again_once_there_is_room() {
    let folder = TempDir::new().unwrap();
    let Some(_disk) = SmallDisk::mount(folder.path(), DISK_BYTES) else { return };
    for size in [512 * 1024, 3000, 300] {
        let path = folder.path().join("store");
        let engine = open(&path);
        let count = fill(&engine, size).await;
        println!("{count} objects of {size} bytes fit: {:?}", engine.stats());
        assert!((count * size) as u64 > DISK_BYTES / 20);
        check(&engine, (0..count).step_by(count / 50 + 1), size).await;
        assert_eq!(engine.failure(), None);

        // The same holds after opening the store again on the full disk.
        engine.close();
        let engine = open(&path);
        check(&engine, (0..count).step_by(count / 50 + 1), size).await;

        for n in (0..count).filter(|n| n % 10 != 0) {
            submit(&engine, &object(n), vec![Op::Remove]).await.unwrap();
        }
        // Background upkeep frees the space.
        let late = object("late");
        while let Err(error) = submit(&engine, &late, vec![append("x")]).await {
            assert_eq!(error.kind(), ErrorKind::Exhausted, "{error}");
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        check(&engine, (0..count).step_by(10), size).await;
        assert_eq!(engine.failure(), None);
        engine.close();
        std::fs::remove_dir_all(&path).unwrap();
    }
}

/// A store that reaches its reserve, and writes its tables, after some MiB.
fn open_small(path: &Path) -> EmbeddedEngine {
    let clock = Arc::new(SystemClock::default());
    let mut options = Options::new(path, Arc::new(TestClasses), clock);
    options.segment_bytes = MIB as u32;
    options.memtable_bytes = MIB;
    options.reserve_bytes = 8 * MIB;
    EmbeddedEngine::open(options).unwrap()
}

/// Writes to a file until the disk has no byte left.
fn write_until_full(file: &mut File) {
    for size in [64 * 1024, 4096, 1] {
        let zeros = vec![0; size];
        while file.write(&zeros).is_ok_and(|written| written == size) {}
    }
}

/// Removes an object, if the journal has room for that.
async fn is_removed(engine: &EmbeddedEngine, n: usize) -> bool {
    let removed = submit(engine, &object(n), vec![Op::Remove]).await;
    let refused = removed.err().map(|error| error.kind());
    assert!(refused.is_none_or(|kind| kind == ErrorKind::Exhausted), "{refused:?}");
    refused.is_none()
}

/// Removes objects until the engine cannot flush its tables. Meanwhile, another file on the same
/// disk takes each byte that is freed. Returns how many objects were removed.
async fn remove_on_a_full_disk(engine: &EmbeddedEngine, count: usize, foreign: &mut File) -> usize {
    let mut removed = 0;
    eventually("the tables meet the full disk", async || {
        write_until_full(foreign);
        for _ in 0..100 {
            if removed < count / 2 && is_removed(engine, removed).await {
                removed += 1;
            }
        }
        engine.failure().is_some() || engine.stats().tables_wait_for_room
    })
    .await;
    removed
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_engine_whose_tables_met_a_full_disk_goes_on_by_itself_once_there_is_room() {
    const OBJECT_BYTES: usize = 3000;
    let folder = TempDir::new().unwrap();
    let Some(_disk) = SmallDisk::mount(folder.path(), 48 * MIB) else { return };
    let (path, foreign_path) = (folder.path().join("store"), folder.path().join("foreign"));
    let engine = open_small(&path);
    let count = fill(&engine, OBJECT_BYTES).await;
    let mut foreign = File::create(&foreign_path).unwrap();
    let mut removed = remove_on_a_full_disk(&engine, count, &mut foreign).await;
    assert_eq!(engine.failure(), None);
    // Reads go on.
    check(&engine, (removed..count).step_by(97), OBJECT_BYTES).await;
    let late = object("late");
    let error = submit(&engine, &late, vec![append("x")]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Exhausted);
    assert!(error.to_string().contains("nacre object rm"), "{error}");

    std::fs::remove_file(&foreign_path).unwrap();
    drop(foreign);
    // The engine's own objects fill the disk: some of them have to go.
    eventually("removals are accepted", async || {
        while removed < count / 2 && is_removed(&engine, removed).await {
            removed += 1;
        }
        removed == count / 2
    })
    .await;
    let accepted = async || submit(&engine, &late, vec![append("x")]).await.is_ok();
    eventually("a write is accepted again", accepted).await;
    let checkpoints = engine.stats().checkpoints;
    eventually("the tables are written again", async || {
        let _ = submit(&engine, &object("more"), vec![append(content(0, OBJECT_BYTES))]).await;
        engine.stats().checkpoints > checkpoints
    })
    .await;
    assert_eq!(engine.failure(), None);
    engine.close();
    let engine = open_small(&path);
    check(&engine, removed..count, OBJECT_BYTES).await;
    assert_eq!(scrub(&engine), []);
}
