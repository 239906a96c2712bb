//! A failing disk stops all writes; a full disk only delays them.

mod support;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use nacre_clock::Random;
use nacre_conformance::ops::call;
use nacre_conformance::wait::eventually;
use nacre_embedded::DEFAULT_RESERVE_BYTES;
use nacre_object::{ErrorKind, MapEntry, ObjectId, Op, OpResult, PoolName, Result};
use support::ledger::Ledger;
use support::{Plan, SimDisk, answer, append, copy_folder, object, open_on, read_all, submit};
use tempfile::TempDir;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_sync_poisons_the_engine_and_nothing_acknowledged_is_lost() {
    for fail_from in [1, 2, 3, 5, 8, 13, 40] {
        let (folder, disk, ledger) = (TempDir::new().unwrap(), SimDisk::default(), Ledger::new(6));
        let engine = open_on(&disk, folder.path()).unwrap();
        let (syncs, ..) = disk.counts();
        disk.set(Plan { fail_syncs_from: Some(syncs + fail_from), ..Plan::default() });

        let errors = ledger.run(Arc::new(engine.clone())).await;
        assert_eq!(errors, vec![ErrorKind::Unavailable; 6], "sync {fail_from}");
        assert!(engine.failure().is_some());
        // The disk works again, but it may have dropped data. So there are no writes until the
        // store is opened again.
        disk.set(Plan::default());
        let write = submit(&engine, &object("late"), vec![append("x")]).await;
        assert_eq!(write.unwrap_err().kind(), ErrorKind::Unavailable);
        ledger.check(&engine).await;
        engine.close();

        let engine = open_on(&disk, folder.path()).unwrap();
        ledger.check(&engine).await;
        submit(&engine, &object("late"), vec![append("x")]).await.unwrap();
    }
}

/// One of the next thirty syncs fails, and all after it.
fn fail_syncs_from_some_on(disk: &SimDisk, random: &mut Random) {
    let (syncs, ..) = disk.counts();
    let fail_syncs_from = Some(syncs + 1 + random.below(30));
    disk.set(Plan { fail_syncs_from, ..Plan::default() });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_sync_and_a_crash_lose_no_acknowledged_transaction() {
    for seed in 0..6 {
        let mut random = Random::seeded(seed);
        let (folder, disk, ledger) = (TempDir::new().unwrap(), SimDisk::default(), Ledger::new(6));
        let engine = open_on(&disk, folder.path()).unwrap();
        fail_syncs_from_some_on(&disk, &mut random);
        ledger.run(Arc::new(engine.clone())).await;
        let survivor = disk.crash(&mut random);
        engine.close();
        let engine = open_on(&survivor, folder.path()).unwrap();
        ledger.check(&engine).await;
    }
}

/// Cuts the power while an engine is open on `disk` and `folder`. Returns the disk and the folder
/// with the data that survives.
fn cut_power(disk: &SimDisk, folder: &Path, random: &mut Random) -> (SimDisk, TempDir) {
    let (survivor, tables) = (disk.crash(random), TempDir::new().unwrap());
    copy_folder(folder, tables.path());
    (survivor, tables)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn data_read_after_a_failed_sync_survives_a_power_cut() {
    let mut replayed = 0;
    for seed in 0..12 {
        let mut random = Random::seeded(seed);
        let (folder, disk, ledger) = (TempDir::new().unwrap(), SimDisk::default(), Ledger::new(6));
        let engine = open_on(&disk, folder.path()).unwrap();
        fail_syncs_from_some_on(&disk, &mut random);
        ledger.run(Arc::new(engine.clone())).await;
        engine.close();

        disk.set(Plan::default());
        let engine = open_on(&disk, folder.path()).unwrap();
        replayed += engine.stats().replayed;
        ledger.check(&engine).await;
        let (survivor, tables) = cut_power(&disk, folder.path(), &mut random);
        engine.close();
        let engine = open_on(&survivor, tables.path())
            .unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        ledger.check(&engine).await;
    }
    assert!(replayed > 0, "no write was there whose sync had failed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn data_read_after_a_kill_between_write_and_sync_survives_a_power_cut() {
    // So long that it spans sectors, and so short that the tables hold it.
    let data = Bytes::from(vec![b'n'; 900]);
    for seed in 0..6 {
        let mut random = Random::seeded(seed);
        let (folder, disk, id) = (TempDir::new().unwrap(), SimDisk::default(), object("a"));
        let engine = open_on(&disk, folder.path()).unwrap();
        let held = disk.hold_syncs();
        let write = tokio::spawn({
            let (engine, id, data) = (engine.clone(), id.clone(), data.clone());
            async move { submit(&engine, &id, vec![append(data)]).await }
        });
        let is_written = |(path, _): &(PathBuf, usize)| {
            let content = disk.content(path.to_str().unwrap());
            content.windows(data.len()).any(|part| part == data)
        };
        let is_there = async || disk.files(".segment").iter().any(is_written);
        eventually("the write reaches its file", is_there).await;
        // The state after a kill: the content of the kernel's memory.
        let (killed, tables) = (disk.copy(), TempDir::new().unwrap());
        copy_folder(folder.path(), tables.path());
        drop(held);
        write.await.unwrap().unwrap();
        engine.close();

        let engine = open_on(&killed, tables.path()).unwrap();
        assert_eq!(engine.stats().replayed, 1);
        let seen = answer(&engine, &id, read_all()).await.unwrap();
        assert_eq!(seen, OpResult::Data(data.clone()));
        let (survivor, tables) = cut_power(&killed, tables.path(), &mut random);
        engine.close();
        let engine = open_on(&survivor, tables.path())
            .unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        assert_eq!(answer(&engine, &id, read_all()).await.unwrap(), seen, "seed {seed}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_write_poisons_the_engine() {
    for fail in [1, 2, 7, 20] {
        let (folder, disk, ledger) = (TempDir::new().unwrap(), SimDisk::default(), Ledger::new(6));
        let engine = open_on(&disk, folder.path()).unwrap();
        let (_, writes, _) = disk.counts();
        // All later writes fail too. If only one failed, that could be a write of zeros ahead of
        // the journal, whose failure does no harm.
        disk.set(Plan { fail_write: Some(writes + fail), ..Plan::default() });
        let errors = ledger.run(Arc::new(engine.clone())).await;
        assert!(!errors.is_empty());
        ledger.check(&engine).await;
        engine.close();
        disk.set(Plan::default());
        ledger.check(&open_on(&disk, folder.path()).unwrap()).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_journal_that_cannot_grow_refuses_writes_until_it_can() {
    for first in 1..8 {
        let (folder, disk, ledger) = (TempDir::new().unwrap(), SimDisk::default(), Ledger::new(4));
        let engine = open_on(&disk, folder.path()).unwrap();
        let (.., allocations) = disk.counts();
        let full_for_allocations = Some((allocations + first, u64::MAX));
        disk.set(Plan { full_for_allocations, ..Plan::default() });

        let errors = ledger.run(Arc::new(engine.clone())).await;
        assert_eq!(errors, vec![ErrorKind::Exhausted; 4], "allocation {first}");
        assert_eq!(engine.failure(), None);
        let before = ledger.check(&engine).await;

        disk.set(Plan::default());
        for writer in 0..4 {
            let n = support::ledger::check_object(&engine, writer).await;
            let ops = support::ledger::transaction(n);
            submit(&engine, &Ledger::object(writer), ops).await.unwrap();
        }
        assert_eq!(ledger.check(&engine).await, before + 4);
        engine.close();
        let engine = open_on(&disk, folder.path()).unwrap();
        assert_eq!(ledger.check(&engine).await, before + 4);
    }
}

#[tokio::test]
async fn a_nearly_full_disk_allows_removals_and_refuses_growth() {
    let (folder, disk) = (TempDir::new().unwrap(), SimDisk::default());
    let engine = open_on(&disk, folder.path()).unwrap();
    let id = object("a");
    let value = Bytes::from(vec![1; 5000]);
    submit(&engine, &id, vec![append(value.clone())]).await.unwrap();
    let kept = object("kept");
    submit(&engine, &kept, vec![append("x")]).await.unwrap();

    disk.set_free_bytes(Some(DEFAULT_RESERVE_BYTES / 2 - 1));
    // A look at the disk is believed for some milliseconds.
    eventually("a write is refused", async || {
        submit(&engine, &object("b"), vec![append("x")]).await.is_err()
    })
    .await;
    let error = submit(&engine, &id, vec![append("x")]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Exhausted);
    assert!(error.hint_text().is_some());
    assert_eq!(answer(&engine, &id, read_all()).await.unwrap(), OpResult::Data(value));
    let refused = [
        (&object("new"), Op::Truncate { size: 0 }),
        (&id, Op::Zero { offset: 100, length: 1 }),
        (&id, call("append", "x")),
        (&object("new"), call("append", "x")),
    ];
    for (id, op) in refused {
        let error = submit(&engine, id, vec![op.clone()]).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Exhausted, "{op:?}");
    }
    submit(&engine, &id, vec![Op::Truncate { size: 3000 }]).await.unwrap();
    submit(&engine, &id, vec![Op::Zero { offset: 0, length: 3000 }]).await.unwrap();
    submit(&engine, &id, vec![call("size", "")]).await.unwrap();
    submit(&engine, &id, vec![call("remove", "")]).await.unwrap();
    submit(&engine, &kept, vec![Op::Remove]).await.unwrap();

    disk.set_free_bytes(None);
    submit(&engine, &id, vec![append("x")]).await.unwrap();
}

/// Sealing a log is a small call, and removing it commits to a map. If these were refused on a full
/// disk, no log could be removed to free space.
#[tokio::test]
async fn small_calls_and_the_systems_pool_may_use_part_of_the_reserve() {
    let (folder, disk) = (TempDir::new().unwrap(), SimDisk::default());
    let engine = open_on(&disk, folder.path()).unwrap();
    let map = ObjectId::new(PoolName::system(), "map/m".parse().unwrap());
    let write = async |id: &ObjectId| submit(&engine, id, vec![append("x")]).await.map(drop);
    let call_with = async |id: &ObjectId, bytes: usize| {
        submit(&engine, id, vec![call("append", "x".repeat(bytes))]).await.map(drop)
    };
    let exhausted = |done: Result<()>| done.unwrap_err().kind() == ErrorKind::Exhausted;
    disk.set_free_bytes(Some(DEFAULT_RESERVE_BYTES - 1));
    // A look at the disk is believed for some milliseconds.
    eventually("a write is refused", async || write(&object("a")).await.is_err()).await;
    disk.set_free_bytes(Some(DEFAULT_RESERVE_BYTES / 4 * 3));
    assert!(exhausted(call_with(&object("a"), 2000).await));
    call_with(&object("a"), 10).await.unwrap();
    call_with(&object("new"), 10).await.unwrap();

    disk.set_free_bytes(Some(DEFAULT_RESERVE_BYTES / 2));
    assert!(exhausted(write(&object("a")).await));
    assert!(exhausted(call_with(&object("a"), 10).await));
    write(&map).await.unwrap();
    call_with(&map, 2000).await.unwrap();

    disk.set_free_bytes(Some(DEFAULT_RESERVE_BYTES / 2 - 1));
    assert!(exhausted(write(&map).await));
    assert!(exhausted(call_with(&map, 10).await));
}

/// Without a merge of all files the removed entries would stay in the tables, because only new
/// writes cause other merges.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn removed_entries_leave_the_tables_when_disk_space_is_short() {
    let (folder, disk) = (TempDir::new().unwrap(), SimDisk::default());
    let entry = |n: u32| MapEntry { key: format!("{n:06}").into(), value: vec![7; 100].into() };
    let entries: Vec<_> = (0..5000).map(entry).collect();
    let keys = entries.iter().map(|entry| entry.key.clone()).collect();
    // Closed, an engine writes what it has to a file.
    let table_bytes = async |op: Op| {
        let engine = open_on(&disk, folder.path()).unwrap();
        submit(&engine, &object("a"), vec![op]).await.unwrap();
        engine.close();
        let engine = open_on(&disk, folder.path()).unwrap();
        let bytes = engine.stats().table_bytes;
        engine.close();
        bytes
    };
    let full = table_bytes(Op::MapSet { entries }).await;
    assert!(table_bytes(Op::MapRemove { keys }).await > full);

    disk.set_free_bytes(Some(DEFAULT_RESERVE_BYTES - 1));
    let engine = open_on(&disk, folder.path()).unwrap();
    eventually("the tables have shrunk", async || engine.stats().table_bytes <= full / 10).await;
    let range = Op::MapRange { after: "".into(), prefix: "".into(), limit: 10 };
    let OpResult::Range(range) = answer(&engine, &object("a"), range).await.unwrap() else {
        unreachable!("a range is answered with one")
    };
    assert!(range.entries.is_empty(), "{range:?}");
    assert_eq!(engine.failure(), None);
}

#[tokio::test]
async fn a_directory_can_be_opened_by_one_engine_only() {
    let (folder, disk) = (TempDir::new().unwrap(), SimDisk::default());
    let engine = open_on(&disk, folder.path()).unwrap();
    let second = open_on(&disk, folder.path()).unwrap_err();
    assert_eq!(second.kind(), ErrorKind::Unavailable);
    assert!(second.to_string().contains(&folder.path().display().to_string()), "{second}");
    engine.close();
    let again = open_on(&disk, folder.path()).unwrap();
    assert_eq!(
        submit(&engine, &object("a"), vec![append("x")]).await.unwrap_err().kind(),
        ErrorKind::Unavailable
    );
    submit(&again, &object("a"), vec![append("x")]).await.unwrap();
}
