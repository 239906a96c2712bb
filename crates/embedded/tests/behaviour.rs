//! Tests of what the engine promises beyond the suite that every store passes.

mod support;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use nacre_clock::Random;
use nacre_conformance::wait::eventually;
use nacre_embedded::{EmbeddedEngine, Stats};
use nacre_object::limits::MAX_SNAPSHOT_ENTRIES;
use nacre_object::{ErrorKind, ObjectName, Op, OpResult, SnapshotName};
use support::contents::scrub;
use support::{SimDisk, answer, append, object, open_on, options, read_all, submit};
use tempfile::TempDir;

const KIB: usize = 1024;

fn content(n: usize, size: usize) -> Bytes {
    (0..size).map(|i| (n * 13 + i * 7) as u8).collect::<Vec<_>>().into()
}

/// Waits for the background to bring about something.
async fn until(engine: &EmbeddedEngine, reached: impl Fn(&Stats) -> bool) {
    eventually("the background's work shows in the statistics", async || reached(&engine.stats()))
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn segments_that_are_mostly_dead_are_emptied_while_readers_see_right_data() {
    let folder = TempDir::new().unwrap();
    let engine = EmbeddedEngine::open(options(folder.path())).unwrap();
    const OBJECTS: usize = 400;
    for n in 0..OBJECTS {
        submit(&engine, &object(n), vec![append(content(n, 8 * KIB))]).await.unwrap();
    }
    let stop = Arc::new(AtomicBool::new(false));
    let reader = tokio::spawn({
        let (engine, stop) = (engine.clone(), stop.clone());
        async move {
            while !stop.load(Ordering::Relaxed) {
                for n in (0..OBJECTS).step_by(5) {
                    let found = answer(&engine, &object(n), read_all()).await.unwrap();
                    assert!(found == OpResult::Data(content(n, 8 * KIB)), "object {n}");
                }
            }
        }
    });
    let before = engine.stats();
    for n in (0..OBJECTS).filter(|n| n % 5 != 0) {
        submit(&engine, &object(n), vec![Op::Remove]).await.unwrap();
    }
    let kept = (OBJECTS / 5 * 8 * KIB) as u64;
    until(&engine, |now| now.live_bytes == kept && now.segments < before.segments / 2).await;
    assert!(engine.stats().relocated_bytes > 0);
    stop.store(true, Ordering::Relaxed);
    reader.await.unwrap();

    engine.close();
    let engine = EmbeddedEngine::open(options(folder.path())).unwrap();
    assert_eq!(engine.stats().live_bytes, kept);
    for n in (0..OBJECTS).step_by(5) {
        let found = answer(&engine, &object(n), read_all()).await.unwrap();
        assert!(found == OpResult::Data(content(n, 8 * KIB)), "object {n}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_scrub_during_writes_finds_no_damage() {
    let folder = TempDir::new().unwrap();
    let engine = EmbeddedEngine::open(options(folder.path())).unwrap();
    // The scrub passes these entries before it comes to the counts of live bytes.
    let entry = |n: usize| nacre_object::MapEntry {
        key: n.to_string().into_bytes().into(),
        value: content(n, 10),
    };
    let entries = (0..1000).map(entry).collect();
    submit(&engine, &object("a"), vec![Op::MapSet { entries }]).await.unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let writer = tokio::spawn({
        let (engine, stop) = (engine.clone(), stop.clone());
        async move {
            for n in 0.. {
                if stop.load(Ordering::Relaxed) {
                    return n;
                }
                let value = content(n, 4 * KIB);
                let entries = vec![nacre_object::MapEntry { key: "k".into(), value }];
                submit(&engine, &object(n % 3), vec![Op::MapSet { entries }]).await.unwrap();
            }
            unreachable!("it is stopped")
        }
    });
    until(&engine, |now| now.live_bytes > 0).await;
    for _ in 0..200 {
        assert_eq!(scrub(&engine), []);
        tokio::task::yield_now().await;
    }
    stop.store(true, Ordering::Relaxed);
    assert!(writer.await.unwrap() > 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_value_of_several_payloads_is_moved_and_counted_once() {
    const LENGTH: usize = 200 * KIB;
    const OBJECTS: usize = 40;
    let folder = TempDir::new().unwrap();
    let mut options = options(folder.path());
    options.segment_bytes = 1024 * 1024;
    let engine = EmbeddedEngine::open(options.clone()).unwrap();
    let entry = |n: usize| nacre_object::MapEntry { key: "k".into(), value: content(n, LENGTH) };
    for n in 0..OBJECTS {
        let set = Op::MapSet { entries: vec![entry(n)] };
        submit(&engine, &object(n), vec![set]).await.unwrap();
    }
    for n in (0..OBJECTS).filter(|n| n % 5 != 0) {
        submit(&engine, &object(n), vec![Op::Remove]).await.unwrap();
    }
    let kept = (OBJECTS / 5 * LENGTH) as u64;
    until(&engine, |now| now.relocated_bytes >= kept / 2).await;
    assert_eq!(scrub(&engine), []);
    engine.close();
    let engine = EmbeddedEngine::open(options).unwrap();
    assert_eq!(engine.stats().live_bytes, kept);
    for n in (0..OBJECTS).step_by(5) {
        let get = Op::MapGet { keys: vec!["k".into()] };
        let found = answer(&engine, &object(n), get).await.unwrap();
        assert!(found == OpResult::Values(vec![Some(content(n, LENGTH))]), "object {n}");
        submit(&engine, &object(n), vec![Op::Remove]).await.unwrap();
    }
    // All segments are freed except the one that is being written. So the count of live bytes was
    // exact: a count above 0 keeps a segment from being freed.
    until(&engine, |now| now.live_bytes == 0 && now.segments <= 2).await;
}

#[tokio::test]
async fn snapshots_and_clones_share_payloads_and_outlive_the_original() {
    let folder = TempDir::new().unwrap();
    let engine = EmbeddedEngine::open(options(folder.path())).unwrap();
    let (id, snapshot) = (object("{t}/original"), SnapshotName::new("s").unwrap());
    let data = content(1, 600 * KIB);
    submit(&engine, &id, vec![append(data.clone())]).await.unwrap();
    let written = engine.stats().journal_bytes;
    let take = Op::SnapshotCreate { snapshot: snapshot.clone() };
    submit(&engine, &id, vec![take]).await.unwrap();
    // So many clones that some belong to the other shard.
    for n in 0..6 {
        let source = ObjectName::new("{t}/original").unwrap();
        let clone = Op::CloneFrom { source, snapshot: snapshot.clone() };
        submit(&engine, &object(format!("{{t}}/clone-{n}")), vec![clone]).await.unwrap();
    }
    let copied = engine.stats().journal_bytes - written;
    assert!(copied < 100 * KIB as u64, "{copied} bytes written for seven copies");

    submit(&engine, &id, vec![Op::Remove]).await.unwrap();
    submit(&engine, &id, vec![Op::SnapshotRemove { snapshot }]).await.unwrap();
    for n in 0..6 {
        let clone = object(format!("{{t}}/clone-{n}"));
        assert!(answer(&engine, &clone, read_all()).await.unwrap() == OpResult::Data(data.clone()));
        submit(&engine, &clone, vec![Op::Remove]).await.unwrap();
    }
    until(&engine, |now| now.live_bytes == 0).await;
}

#[tokio::test]
async fn the_ops_of_a_transaction_share_one_bound_on_copies() {
    const ENTRIES: usize = 3000;
    let folder = TempDir::new().unwrap();
    let engine = EmbeddedEngine::open(options(folder.path())).unwrap();
    let (id, snapshot) = (object("a"), SnapshotName::new("s").unwrap());
    let entry =
        |n: usize| nacre_object::MapEntry { key: format!("{n:04}").into(), value: "v".into() };
    let set = Op::MapSet { entries: (0..ENTRIES).map(entry).collect() };
    let take = Op::SnapshotCreate { snapshot: snapshot.clone() };
    submit(&engine, &id, vec![set, take]).await.unwrap();

    let most = MAX_SNAPSHOT_ENTRIES / ENTRIES;
    let rollbacks = |count| vec![Op::Rollback { snapshot: snapshot.clone() }; count];
    submit(&engine, &id, rollbacks(most)).await.unwrap();
    let error = submit(&engine, &id, rollbacks(most + 1)).await.unwrap_err();
    assert_eq!((error.kind(), error.operation()), (ErrorKind::Exhausted, Some("rollback")));
}

#[tokio::test]
async fn an_object_can_be_rolled_back_to_every_snapshot() {
    let folder = TempDir::new().unwrap();
    let engine = EmbeddedEngine::open(options(folder.path())).unwrap();
    let (id, snapshot) = (object("a"), SnapshotName::new("s").unwrap());
    // The tail, of 20 bytes, is copied as two extents.
    let stream = [append(content(0, 64 * KIB - 10)), append(content(1, 20))];
    submit(&engine, &id, stream.to_vec()).await.unwrap();
    let keys: Vec<usize> = (0..MAX_SNAPSHOT_ENTRIES - 2).collect();
    let entry =
        |n: &usize| nacre_object::MapEntry { key: format!("{n:05}").into(), value: "v".into() };
    for keys in keys.chunks(10_000) {
        let entries = keys.iter().map(entry).collect();
        submit(&engine, &id, vec![Op::MapSet { entries }]).await.unwrap();
    }
    let take = || vec![Op::SnapshotCreate { snapshot: snapshot.clone() }];
    let error = submit(&engine, &id, take()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Exhausted, "{error}");
    let remove = Op::MapRemove { keys: vec!["00000".into()] };
    submit(&engine, &id, vec![remove]).await.unwrap();
    submit(&engine, &id, take()).await.unwrap();
    submit(&engine, &id, vec![Op::Rollback { snapshot: snapshot.clone() }]).await.unwrap();
}

#[tokio::test]
async fn removing_a_large_object_is_one_small_transaction() {
    let folder = TempDir::new().unwrap();
    let engine = EmbeddedEngine::open(options(folder.path())).unwrap();
    let id = object("a");
    for part in 0..20 {
        let entry = |n: usize| nacre_object::MapEntry {
            key: format!("{part}/{n:04}").into(),
            value: content(n, 1100),
        };
        let entries = (0..500).map(entry).collect();
        submit(&engine, &id, vec![Op::MapSet { entries }]).await.unwrap();
    }
    until(&engine, |now| now.live_bytes == 10_000 * 1100).await;
    let written = engine.stats().journal_bytes;
    submit(&engine, &id, vec![Op::Remove]).await.unwrap();
    assert!(engine.stats().journal_bytes - written < 64 * KIB as u64);
    assert_eq!(answer(&engine, &id, Op::Stat).await.unwrap_err().kind(), ErrorKind::NotFound);
    until(&engine, |now| now.live_bytes == 0).await;
}

#[tokio::test]
async fn large_payloads_are_written_once() {
    let folder = TempDir::new().unwrap();
    let engine = EmbeddedEngine::open(options(folder.path())).unwrap();
    let before = engine.stats().journal_bytes;
    submit(&engine, &object("a"), vec![append(content(1, 4 * KIB * KIB))]).await.unwrap();
    let written = engine.stats().journal_bytes - before;
    assert!(written < (4 * KIB + 64) as u64 * KIB as u64, "{written} bytes");
    engine.close();
    let files = std::fs::read_dir(folder.path().join("tree").join("tables")).unwrap();
    let bytes: u64 = files.map(|file| file.unwrap().metadata().unwrap().len()).sum();
    assert!((1..64 * KIB as u64).contains(&bytes), "{bytes} bytes of it went to the tables");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_neither_waits_for_a_sync_nor_sees_unsynced_changes() {
    let (folder, disk) = (TempDir::new().unwrap(), SimDisk::default());
    let engine = open_on(&disk, folder.path()).unwrap();
    let id = object("a");
    submit(&engine, &id, vec![append("old")]).await.unwrap();

    let held = disk.hold_syncs();
    let write = tokio::spawn({
        let (engine, id) = (engine.clone(), id.clone());
        async move { submit(&engine, &id, vec![append("new")]).await }
    });
    held.wait_for_one().await;
    for _ in 0..10 {
        let found = answer(&engine, &id, read_all()).await.unwrap();
        assert_eq!(found, OpResult::Data(Bytes::from_static(b"old")));
    }
    assert!(!write.is_finished());
    drop(held);
    write.await.unwrap().unwrap();
    let found = answer(&engine, &id, read_all()).await.unwrap();
    assert_eq!(found, OpResult::Data(Bytes::from_static(b"oldnew")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refusal_that_depends_on_an_unsynced_change_waits_for_its_sync() {
    let (folder, disk) = (TempDir::new().unwrap(), SimDisk::default());
    let engine = open_on(&disk, folder.path()).unwrap();
    let id = object("a");
    let held = disk.hold_syncs();
    // This request occupies the shard, so that the next two run as one batch.
    let first = tokio::spawn({
        let (engine, id) = (engine.clone(), id.clone());
        async move { submit(&engine, &id, vec![append("x")]).await }
    });
    held.wait_for_one().await;
    let other = ObjectName::new("b").unwrap();
    let other = (0..).map(|n| object(format!("{other}{n}")));
    let pairs: Vec<_> = other
        .take(4)
        .map(|id| {
            let create = |engine: EmbeddedEngine, id| async move {
                submit(&engine, &id, vec![Op::Create { exclusive: true }]).await
            };
            (
                tokio::spawn(create(engine.clone(), id.clone())),
                tokio::spawn(create(engine.clone(), id)),
            )
        })
        .collect();
    tokio::time::sleep(Duration::from_millis(50)).await;
    // In each pair one request creates the object and the other is refused. Neither may get its
    // reply before the sync.
    assert!(pairs.iter().all(|(a, b)| !a.is_finished() && !b.is_finished()));
    drop(held);
    first.await.unwrap().unwrap();
    for (a, b) in pairs {
        let outcomes = [a.await.unwrap(), b.await.unwrap()];
        assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), 1);
    }
    assert_eq!(engine.stats().failures, 4, "refusals that had to wait count like others");
}

/// Flips a bit of the file of tables that `needle` is in.
fn damage_tables(folder: &Path, needle: &[u8]) {
    for file in std::fs::read_dir(folder.join("tree").join("tables")).unwrap() {
        let path = file.unwrap().path();
        let mut bytes = std::fs::read(&path).unwrap();
        if let Some(at) = bytes.windows(needle.len()).position(|part| part == needle) {
            bytes[at] ^= 1;
            return std::fs::write(&path, bytes).unwrap();
        }
    }
    panic!("no file of tables has it");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn segments_are_freed_even_if_a_removed_entry_is_damaged() {
    let folder = TempDir::new().unwrap();
    let open = || {
        let mut options = options(folder.path());
        // A merge of the tables must not meet the damage, because that would stop the tables for
        // good.
        options.memtable_bytes = 256 * KIB as u64;
        EmbeddedEngine::open(options).unwrap()
    };
    let mut random = Random::seeded(1);
    let mut value = || Bytes::from((0..300).map(|_| random.below(256) as u8).collect::<Vec<_>>());
    let values: Vec<_> = (0..200).map(|_| value()).collect();
    let entry = |(n, value): (usize, &Bytes)| nacre_object::MapEntry {
        key: format!("{n:03}").into(),
        value: value.clone(),
    };
    let entries = values.iter().enumerate().map(entry).collect();
    let engine = open();
    let before = table_files(folder.path());
    submit(&engine, &object("a"), vec![Op::MapSet { entries }]).await.unwrap();
    // An idle engine has it in a file of tables soon.
    eventually("another file of tables", async || table_files(folder.path()) != before).await;
    engine.close();
    // The removal itself looks at fewer entries than this; upkeep meets the damage.
    damage_tables(folder.path(), &values[150][..200]);

    let engine = open();
    submit(&engine, &object("a"), vec![Op::Remove]).await.unwrap();
    until(&engine, |now| now.upkeep_failures > 0).await;
    let failure = engine.upkeep_failure().unwrap();
    assert!(failure.contains("checksum"), "{failure}");
    for n in 0..8 {
        submit(&engine, &object(n), vec![append(content(n, 60 * KIB))]).await.unwrap();
        submit(&engine, &object(n), vec![Op::Remove]).await.unwrap();
    }
    until(&engine, |now| now.segments_freed >= 6).await;
    assert_eq!(engine.failure(), None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn checkpoints_are_made_while_a_large_node_is_reclaimed() {
    // The removal of this many entries seals the memtable twelve times. A flush may write up to
    // four sealed memtables at once, so the removal makes at least two checkpoints.
    const ENTRIES: usize = 12_000;
    let (folder, disk) = (TempDir::new().unwrap(), SimDisk::default());
    let engine = open_on(&disk, folder.path()).unwrap();
    let id = object("a");
    let entry = |n: usize| nacre_object::MapEntry {
        key: [format!("{n:05}").into_bytes(), vec![b'k'; 4000]].concat().into(),
        value: content(n, 1100),
    };
    for first in (0..ENTRIES).step_by(1000) {
        let entries = (first..first + 1000).map(entry).collect();
        submit(&engine, &id, vec![Op::MapSet { entries }]).await.unwrap();
    }
    until(&engine, |now| now.live_bytes == (ENTRIES * 1100) as u64).await;
    // On a nearly full disk the engine makes checkpoints more often.
    disk.set_free_bytes(Some(1000));
    eventually("a write is refused", async || {
        submit(&engine, &object("b"), vec![append("x")]).await.is_err()
    })
    .await;
    let before = engine.stats();
    submit(&engine, &id, vec![Op::Remove]).await.unwrap();
    until(&engine, |now| now.live_bytes < (ENTRIES * 1100 / 100) as u64).await;
    let now = engine.stats();
    assert!(now.journal_bytes - before.journal_bytes > 20 * (KIB * KIB) as u64);
    let made = now.checkpoints - before.checkpoints;
    assert!(made >= 2, "{made} checkpoints");
}

#[tokio::test]
async fn a_store_of_many_segments_is_opened_with_few_files_at_a_time() {
    const OBJECTS: usize = 100;
    let (folder, disk) = (TempDir::new().unwrap(), SimDisk::default());
    let engine = open_on(&disk, folder.path()).unwrap();
    for n in 0..OBJECTS {
        submit(&engine, &object(n), vec![append(content(n, 60 * KIB))]).await.unwrap();
    }
    assert!(engine.stats().segments >= OBJECTS as u64);
    engine.close();

    let disk = disk.copy();
    let engine = open_on(&disk, folder.path()).unwrap();
    assert!(disk.most_open() < 10, "{} files were open at once", disk.most_open());
    for n in 0..OBJECTS {
        let found = answer(&engine, &object(n), read_all()).await.unwrap();
        assert!(found == OpResult::Data(content(n, 60 * KIB)), "object {n}");
    }
}

/// Files of tables in a store's folder.
fn table_files(folder: &Path) -> usize {
    std::fs::read_dir(folder.join("tree").join("tables")).unwrap().count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_engine_flushes_a_memtable_that_is_large_enough_for_a_file() {
    let folder = TempDir::new().unwrap();
    let mut options = options(folder.path());
    options.memtable_bytes = 4 * 1024 * KIB as u64;
    let engine = EmbeddedEngine::open(options).unwrap();
    let before = table_files(folder.path());
    // A quarter of the memtable's bound.
    for n in 0..2 * KIB {
        submit(&engine, &object(n), vec![append(content(n, KIB / 2))]).await.unwrap();
    }
    eventually("another file of tables", async || table_files(folder.path()) != before).await;
    let found = answer(&engine, &object(7), read_all()).await.unwrap();
    assert_eq!(found, OpResult::Data(content(7, KIB / 2)));
    engine.close();
}

/// More ops than a request may have that runs on the caller's thread.
const MANY_OPS: usize = 20;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn transactions_of_an_object_run_in_request_order_on_any_thread() {
    let folder = TempDir::new().unwrap();
    let engine = EmbeddedEngine::open(options(folder.path())).unwrap();
    let tasks: Vec<_> = (0..8)
        .map(|n| {
            let (engine, id) = (engine.clone(), object(format!("o{n}")));
            tokio::spawn(async move {
                let mut random = Random::seeded(n);
                let mut expected: Vec<u32> = Vec::new();
                for _ in 0..40 {
                    let lengths = (0..10).map(|_| 1 + random.below(3) as usize / 2 * MANY_OPS);
                    let asked = lengths.map(|ops| {
                        let start = expected.len() as u32;
                        let ops: Vec<_> = (start..).take(ops).collect();
                        expected.extend(&ops);
                        let ops =
                            ops.iter().map(|n| append(Bytes::copy_from_slice(&n.to_le_bytes())));
                        submit(&engine, &id, ops.collect())
                    });
                    // Send all requests in this order, before any is answered.
                    let answers = futures::future::join_all(asked.collect::<Vec<_>>()).await;
                    assert!(answers.iter().all(Result::is_ok));
                }
                let stream: Vec<u8> = expected.iter().flat_map(|n| n.to_le_bytes()).collect();
                let found = answer(&engine, &id, read_all()).await.unwrap();
                assert!(found == OpResult::Data(stream.into()), "o{n}");
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
}

#[tokio::test]
async fn a_callers_thread_does_not_block_while_the_disk_is_stalled() {
    let (folder, disk) = (TempDir::new().unwrap(), SimDisk::default());
    let engine = open_on(&disk, folder.path()).unwrap();
    submit(&engine, &object("old"), vec![append("old")]).await.unwrap();
    let held = disk.hold_syncs();
    // More than the journal takes before a sync.
    let writes: Vec<_> = (0..400)
        .map(|n| {
            let (engine, id) = (engine.clone(), object(format!("o{n}")));
            tokio::spawn(
                async move { submit(&engine, &id, vec![append(content(n, 32 * KIB))]).await },
            )
        })
        .collect();
    held.wait_for_one().await;
    // This runtime has one thread. If a request blocked it, nothing could release the disk.
    eventually("a request is queued", async || engine.stats().queued > 0).await;
    let found = answer(&engine, &object("old"), read_all()).await.unwrap();
    assert_eq!(found, OpResult::Data(Bytes::from_static(b"old")));
    drop(held);
    for write in writes {
        write.await.unwrap().unwrap();
    }
}
