//! Flips bits in the journal. After a flip, the engine reports `Corrupt` or serves the right data,
//! never wrong data. (`bit_flips` does the same to every file, with fewer flips in each.)

mod support;

use std::path::Path;

use nacre_clock::Random;
use nacre_conformance::seeds;
use nacre_object::{ErrorKind, OpResult, Store};
use support::ledger::{Ledger, record, transaction};
use support::{SimDisk, answer, copy_folder, object, open_on, read_all, submit};
use tempfile::TempDir;

const WRITERS: usize = 2;
const TRANSACTIONS: u64 = 7;
/// Flips tried in a run; `NACRE_SEEDS` tries more.
const FLIPS: u64 = 120;

/// The result of opening and reading a damaged store.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Right,
    Refused,
    CorruptRead,
}

async fn write_store(disk: &SimDisk, folder: &Path) -> nacre_embedded::EmbeddedEngine {
    let engine = open_on(disk, folder).unwrap();
    for n in 0..TRANSACTIONS {
        for writer in 0..WRITERS {
            submit(&engine, &Ledger::object(writer), transaction(n)).await.unwrap();
        }
    }
    engine
}

/// Opens the store and reads all of it; panics at wrong data.
async fn inspect(disk: &SimDisk, folder: &Path) -> Outcome {
    let engine = match open_on(disk, folder) {
        Ok(engine) => engine,
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
            return Outcome::Refused;
        }
    };
    let mut outcome = Outcome::Right;
    for writer in 0..WRITERS {
        let id = Ledger::object(writer);
        let expected: Vec<u8> = (0..TRANSACTIONS).flat_map(|n| record(n).to_vec()).collect();
        match answer(&engine, &id, read_all()).await {
            Ok(OpResult::Data(data)) => assert!(data == expected, "wrong data in {id}"),
            Ok(other) => panic!("{other:?}"),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
                outcome = Outcome::CorruptRead;
            }
        }
        for n in 0..TRANSACTIONS {
            let keys = vec![format!("record/{n:08}").into()];
            match answer(&engine, &id, nacre_object::Op::MapGet { keys }).await {
                Ok(found) => assert_eq!(found, OpResult::Values(vec![Some(record(n))])),
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
                    outcome = Outcome::CorruptRead;
                }
            }
        }
    }
    outcome
}

/// Bytes of the journal to flip: all that are not zero, and some that are.
fn places(disk: &SimDisk, random: &mut Random) -> Vec<(std::path::PathBuf, usize)> {
    let mut places = Vec::new();
    for (path, length) in disk.files(".segment") {
        let used = (0..length).filter(|at| disk.byte(&path, *at) != 0 || random.one_in(500));
        places.extend(used.collect::<Vec<_>>().into_iter().map(|at| (path.clone(), at)));
    }
    places
}

async fn flip_bits(disk: &SimDisk, folder: &Path, seed: u64) -> [usize; 3] {
    let mut random = Random::seeded(seed);
    let places = places(disk, &mut random);
    let mut outcomes = [0; 3];
    for _ in 0..FLIPS {
        let (path, at) = random.pick(&places).unwrap();
        let mask = 1 << random.below(8);
        let damaged = disk.copy();
        damaged.flip(path, *at, mask);
        let copy = TempDir::new().unwrap();
        copy_folder(folder, copy.path());
        let outcome = inspect(&damaged, copy.path()).await;
        println!("seed {seed}: byte {at} of {} by {mask}: {outcome:?}", path.display());
        outcomes[outcome as usize] += 1;
    }
    outcomes
}

#[tokio::test]
async fn a_flipped_bit_in_the_journal_of_a_crashed_store_is_noticed() {
    for seed in seeds(1) {
        let (folder, disk) = (TempDir::new().unwrap(), SimDisk::default());
        let engine = write_store(&disk, folder.path()).await;
        // The folder as a killed process leaves it. There is no checkpoint, so the whole journal is
        // replayed.
        let (left, tables) = (disk.copy(), TempDir::new().unwrap());
        copy_folder(folder.path(), tables.path());
        engine.close();
        assert_eq!(inspect(&left.copy(), tables.path()).await, Outcome::Right);
        let tables_again = TempDir::new().unwrap();
        copy_folder(tables.path(), tables_again.path());
        let [right, refused, corrupt] = flip_bits(&left, tables_again.path(), seed).await;
        println!("{right} did not matter, {refused} refused to open, {corrupt} refused to read");
        assert!(refused > 0);
    }
}

#[tokio::test]
async fn a_flipped_bit_in_the_journal_of_a_closed_store_never_gives_wrong_data() {
    for seed in seeds(1) {
        let (folder, disk) = (TempDir::new().unwrap(), SimDisk::default());
        write_store(&disk, folder.path()).await.close();
        let [right, refused, corrupt] = flip_bits(&disk, folder.path(), seed).await;
        println!("{right} did not matter, {refused} refused to open, {corrupt} refused to read");
        assert!(right > 0 && corrupt > 0);
    }
}

#[tokio::test]
async fn a_missing_manifest_or_segment_is_noticed() {
    let (folder, disk) = (TempDir::new().unwrap(), SimDisk::default());
    write_store(&disk, folder.path()).await.close();
    for suffixes in [&["MANIFEST", "MANIFEST.copy"][..], &[".segment"]] {
        let damaged = disk.copy();
        for (path, _) in suffixes.iter().flat_map(|suffix| damaged.files(suffix)) {
            nacre_embedded::Disk::delete(&damaged, &path).unwrap();
        }
        let copy = TempDir::new().unwrap();
        copy_folder(folder.path(), copy.path());
        assert_ne!(inspect(&damaged, copy.path()).await, Outcome::Right, "without {suffixes:?}");
    }
    let engine = open_on(&disk, folder.path()).unwrap();
    let gone = answer(&engine, &object("nobody"), read_all()).await;
    assert_eq!(gone.unwrap_err().kind(), ErrorKind::NotFound);
    let _: &dyn Store = &engine;
}
