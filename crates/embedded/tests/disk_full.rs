//! A disk that is really full: a small file system of its own, filled to the brim.

mod support;

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use nacre_clock::SystemClock;
use nacre_conformance::{SmallDisk, TestClasses};
use nacre_embedded::{DEFAULT_RESERVE_BYTES, EmbeddedEngine, Options};
use nacre_object::{ErrorKind, Op, OpResult};
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

/// Fills the disk with objects of this size; answers how many there are room for.
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

        // Also after opening it again, full as it is.
        engine.close();
        let engine = open(&path);
        check(&engine, (0..count).step_by(count / 50 + 1), size).await;

        for n in (0..count).filter(|n| n % 10 != 0) {
            submit(&engine, &object(n), vec![Op::Remove]).await.unwrap();
        }
        // Space comes free in the background.
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
