//! A bit flipped in any file the engine writes, its tables' files included: what is read is right or
//! `Corrupt`, the rest goes on serving, and a scrub says whose the damage is.

mod support;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use nacre_clock::Random;
use nacre_conformance::seeds;
use nacre_embedded::EmbeddedEngine;
use nacre_object::ErrorKind;
use support::contents::{Contents, make_store, scrub};
use support::{append, copy_folder, copy_open_folder, object, options, submit};
use tempfile::TempDir;

/// Flips tried in each file of a store; `NACRE_SEEDS=n` tries them n times.
const FLIPS_A_FILE: usize = 3;
/// Copies of an open store, of some milliseconds each, of which one has to have a mark.
const MAX_COPIES: usize = 1000;

/// What came of a flipped bit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    /// Nobody met it.
    Harmless,
    /// A scrub met it; all answers are right.
    Found,
    /// Some objects cannot be read.
    Unreadable,
    /// The store does not open.
    Refused,
}

/// Every file below a folder, relative to it, by name.
fn files(root: &Path) -> Vec<PathBuf> {
    let (mut folders, mut files) = (vec![root.to_path_buf()], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                files.push(path.strip_prefix(root).unwrap().to_path_buf());
            }
        }
    }
    files.sort();
    files
}

/// Flips a bit of a file, mostly one that is used; answers where.
fn flip(path: &Path, random: &mut Random) -> usize {
    let mut bytes = std::fs::read(path).unwrap();
    if bytes.is_empty() {
        bytes.push(0);
    }
    let used: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at] != 0).collect();
    let at = match random.pick(&used) {
        Some(at) if !random.one_in(10) => *at,
        _ => random.below(bytes.len() as u64) as usize,
    };
    bytes[at] ^= 1 << random.below(8);
    std::fs::write(path, bytes).unwrap();
    at
}

/// Opens a damaged store, reads all of it, scrubs it and writes to it.
async fn inspect(folder: &Path, contents: &Contents) -> Outcome {
    let engine = match EmbeddedEngine::open(options(folder)) {
        Ok(engine) => engine,
        Err(error) => {
            assert!(matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::Unsupported), "{error}");
            return Outcome::Refused;
        }
    };
    let unreadable = contents.compare(&engine).await;
    let damages = scrub(&engine);
    let named: BTreeSet<String> = damages.iter().flat_map(|damage| damage.object.clone()).collect();
    let lost_names = damages.iter().any(|damage| damage.place.starts_with("names of objects"));
    assert!(
        lost_names || unreadable.is_subset(&named),
        "unreadable {unreadable:?}, but a scrub names {damages:#?}"
    );
    for damage in &damages {
        println!("    {damage:?}");
    }
    // What is not damaged goes on being written as well.
    match submit(&engine, &object("late"), vec![append("x")]).await {
        Ok(_) => {}
        Err(error) => assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}"),
    }
    engine.close();
    match (unreadable.is_empty(), damages.is_empty()) {
        (true, true) => Outcome::Harmless,
        (true, false) => Outcome::Found,
        (false, _) => Outcome::Unreadable,
    }
}

async fn flip_everywhere(folder: &Path, contents: &Contents, seed: u64) -> [usize; 4] {
    let mut random = Random::seeded(seed);
    let mut outcomes = [0; 4];
    for file in files(folder) {
        for _ in 0..FLIPS_A_FILE {
            let copy = TempDir::new().unwrap();
            copy_folder(folder, copy.path());
            let at = flip(&copy.path().join(&file), &mut random);
            println!("seed {seed}: byte {at} of {}", file.display());
            let outcome = inspect(copy.path(), contents).await;
            println!("    {outcome:?}");
            outcomes[outcome as usize] += 1;
        }
    }
    println!("{outcomes:?}: harmless, found by a scrub only, unreadable, refused to open");
    outcomes
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flipped_bit_in_any_file_of_a_closed_store_is_never_a_wrong_answer() {
    for seed in seeds(1) {
        let folder = TempDir::new().unwrap();
        let engine = make_store(folder.path()).await;
        let contents = Contents::of(&engine).await;
        engine.close();
        let [.., unreadable, refused] = flip_everywhere(folder.path(), &contents, seed).await;
        assert!(unreadable > 0 && refused > 0);
    }
}

fn copied(open_folder: &Path) -> TempDir {
    let copy = TempDir::new().unwrap();
    copy_open_folder(open_folder, copy.path());
    copy
}

/// Whether the journal in a folder says of its last group that it is synced.
fn marks_its_last_group(folder: &Path) -> bool {
    let files = std::fs::read_dir(folder.join("journal")).unwrap();
    let journal: Vec<u8> =
        files.flat_map(|entry| std::fs::read(entry.unwrap().path()).unwrap()).collect();
    let last_of = |magic: &[u8]| {
        let blocks = journal.chunks(512).filter(|block| block.starts_with(magic));
        blocks.map(|block| u64::from_le_bytes(block[16..24].try_into().unwrap())).max()
    };
    last_of(b"NMRK") == last_of(b"NGRP")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flipped_bit_in_any_file_of_a_killed_store_is_never_a_wrong_answer() {
    for seed in seeds(1) {
        let folder = TempDir::new().unwrap();
        let engine = make_store(folder.path()).await;
        let contents = Contents::of(&engine).await;
        // What a kill leaves once nothing is written any more.
        let mut copies = (0..MAX_COPIES).map(|_| copied(folder.path()));
        let left = copies.find(|left| marks_its_last_group(left.path()));
        let left = left.expect("a mark comes a moment after the last group");
        engine.close();
        let [.., refused] = flip_everywhere(left.path(), &contents, seed).await;
        assert!(refused > 0);
    }
}

#[tokio::test]
async fn a_scrub_of_a_well_store_finds_nothing() {
    let folder = TempDir::new().unwrap();
    let engine = make_store(folder.path()).await;
    assert_eq!(scrub(&engine), []);
    engine.close();
    let engine = EmbeddedEngine::open(options(folder.path())).unwrap();
    assert_eq!(scrub(&engine), []);
}
