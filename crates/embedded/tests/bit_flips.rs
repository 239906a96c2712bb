//! Flips a bit in each file that the engine writes, table files included. After a flip, reads must
//! return the right data or `Corrupt`, and undamaged objects must still be served. A scrub must
//! name the damaged objects.

mod support;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nacre_clock::Random;
use nacre_conformance::seeds;
use nacre_embedded::{EmbeddedEngine, LinkedDisk, SegmentFiles, salvage};
use nacre_object::ErrorKind;
use support::contents::{Contents, make_store, scrub};
use support::{answer, append, copy_folder, copy_open_folder, object, options, read_all, submit};
use tempfile::TempDir;

/// Flips tried in each file of a store; `NACRE_SEEDS=n` tries them n times.
const FLIPS_A_FILE: usize = 3;
/// Writes that fill some segments.
const WRITES: usize = 40;
/// How many copies of an open store to make until one has a mark, which says that the last journal
/// group was synced. A copy takes some milliseconds.
const MAX_COPIES: usize = 1000;

/// The effect of a flipped bit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    /// Nothing noticed it.
    Harmless,
    /// A scrub found it, and all reads are right.
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

/// Flips a bit of a file, mostly one that is used; returns where.
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
    // Undamaged objects can still be written.
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
async fn a_flipped_bit_in_any_file_of_a_closed_store_never_gives_wrong_data() {
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

/// Whether a mark in the journal says that its last group is synced.
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
async fn a_flipped_bit_in_any_file_of_a_killed_store_never_gives_wrong_data() {
    for seed in seeds(1) {
        let folder = TempDir::new().unwrap();
        let engine = make_store(folder.path()).await;
        let contents = Contents::of(&engine).await;
        // Copy the folder as a kill would leave it.
        let mut copies = (0..MAX_COPIES).map(|_| copied(folder.path()));
        let left = copies.find(|left| marks_its_last_group(left.path()));
        let left = left.expect("a mark comes a moment after the last group");
        engine.close();
        let [.., refused] = flip_everywhere(left.path(), &contents, seed).await;
        assert!(refused > 0);
    }
}

#[tokio::test]
async fn a_scrub_of_an_undamaged_store_finds_nothing() {
    let folder = TempDir::new().unwrap();
    let engine = make_store(folder.path()).await;
    assert_eq!(scrub(&engine), []);
    engine.close();
    let engine = EmbeddedEngine::open(options(folder.path())).unwrap();
    assert_eq!(scrub(&engine), []);
}

/// Makes and closes a store that uses every feature. Returns what reads of it give.
async fn closed_store() -> (TempDir, Contents) {
    let folder = TempDir::new().unwrap();
    let engine = make_store(folder.path()).await;
    let contents = Contents::of(&engine).await;
    engine.close();
    (folder, contents)
}

/// The file that lists a store's table files.
fn list_of_tables(store: &Path) -> PathBuf {
    let current = std::fs::read(store.join("tree/current")).unwrap();
    store.join(format!("tree/v{}", u64::from_le_bytes(current[..8].try_into().unwrap())))
}

fn flip_byte(path: &Path, at: usize) {
    let mut bytes = std::fs::read(path).unwrap();
    bytes[at] ^= 1;
    std::fs::write(path, bytes).unwrap();
}

/// Salvages a store. Returns its new folder, and the places of the damage.
fn salvaged(store: &Path) -> (TempDir, Vec<String>) {
    let new = TempDir::new().unwrap();
    let salvaged = salvage(store, new.path(), SegmentFiles::Copied).unwrap();
    let places = salvaged.damages.into_iter().map(|damage| damage.place).collect();
    (new, places)
}

/// Opens a salvaged store, which must have lost nothing.
async fn check_nothing_is_lost(store: &Path, contents: &Contents) {
    let engine = EmbeddedEngine::open(options(store)).unwrap();
    assert_eq!(contents.compare(&engine).await, BTreeSet::new());
    assert_eq!(scrub(&engine), []);
    submit(&engine, &object("late"), vec![append("x")]).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_undamaged_store_is_salvaged_completely() {
    let (store, contents) = closed_store().await;
    std::fs::write(store.path().join("target.json"), "an identity").unwrap();
    let (new, places) = salvaged(store.path());
    assert_eq!(places, [] as [String; 0]);
    check_nothing_is_lost(new.path(), &contents).await;
    assert_eq!(std::fs::read(new.path().join("target.json")).unwrap(), b"an identity");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_with_both_copies_of_a_vital_file_damaged_is_salvaged_completely() {
    let (store, contents) = closed_store().await;
    let list = list_of_tables(store.path()).strip_prefix(store.path()).unwrap().to_owned();
    let vital = [
        (PathBuf::from("MANIFEST"), "MANIFEST.copy", "MANIFEST"),
        (PathBuf::from("tree/current"), "tree/list.copy", "tree"),
        (list, "tree/list.copy", "tree/v"),
    ];
    for (file, second, named) in vital {
        let copy = TempDir::new().unwrap();
        copy_folder(store.path(), copy.path());
        flip_byte(&copy.path().join(&file), 12);
        flip_byte(&copy.path().join(second), 12);
        EmbeddedEngine::open(options(copy.path())).unwrap_err();
        let (new, places) = salvaged(copy.path());
        assert!(places.iter().any(|place| place.contains(named)), "{places:?}");
        check_nothing_is_lost(new.path(), &contents).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_whose_vital_file_is_damaged_or_missing_opens_from_the_copy_and_says_so() {
    let (store, contents) = closed_store().await;
    let list = list_of_tables(store.path()).strip_prefix(store.path()).unwrap().to_owned();
    for file in [PathBuf::from("MANIFEST"), PathBuf::from("tree/current"), list] {
        let damages: [&dyn Fn(&Path); 3] =
            [&|path| flip_byte(path, 12), &|path| std::fs::write(path, "").unwrap(), &|path| {
                std::fs::remove_file(path).unwrap()
            }];
        for damage in damages {
            let copy = TempDir::new().unwrap();
            copy_folder(store.path(), copy.path());
            damage(&copy.path().join(&file));
            let (new, places) = salvaged(copy.path());
            assert!(!places.is_empty(), "{}", file.display());
            check_nothing_is_lost(new.path(), &contents).await;
            let engine = EmbeddedEngine::open(options(copy.path())).unwrap();
            assert_eq!(engine.mended().len(), 1, "{}", file.display());
            engine.close();
            check_nothing_is_lost(copy.path(), &contents).await;
            let engine = EmbeddedEngine::open(options(copy.path())).unwrap();
            assert_eq!(engine.mended(), [], "{}", file.display());
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_scrub_repairs_a_vital_file_of_an_open_store() {
    let (store, contents) = closed_store().await;
    // If `current` is damaged, the error names the list of files, `tree/v`. The two files are
    // compared with each other, so the engine cannot tell which is damaged.
    let files = [
        ("MANIFEST", "MANIFEST"),
        ("MANIFEST.copy", "MANIFEST.copy"),
        ("tree/current", "tree/v"),
        ("tree/list.copy", "tree/list.copy"),
    ];
    for (file, named) in files {
        let copy = TempDir::new().unwrap();
        copy_folder(store.path(), copy.path());
        let engine = EmbeddedEngine::open(options(copy.path())).unwrap();
        flip_byte(&copy.path().join(file), 12);
        let damages = tokio::task::block_in_place(|| scrub(&engine));
        assert_eq!(damages.len(), 1, "{file}: {damages:?}");
        assert!(damages[0].is_repaired && damages[0].place.contains(named), "{damages:?}");
        engine.close();
        check_nothing_is_lost(copy.path(), &contents).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_with_a_damaged_table_file_is_salvaged_except_for_that_files_entries() {
    let (store, contents) = closed_store().await;
    for file in files(&store.path().join("tree/tables")) {
        let copy = TempDir::new().unwrap();
        copy_folder(store.path(), copy.path());
        let path = copy.path().join("tree/tables").join(&file);
        // In the checksum of the table of contents, with which a file ends.
        let at = std::fs::metadata(&path).unwrap().len() as usize - 20;
        flip_byte(&path, at);
        EmbeddedEngine::open(options(copy.path())).unwrap_err();
        let (new, places) = salvaged(copy.path());
        assert!(places.contains(&format!("tree/tables/{}", file.display())), "{places:?}");
        let engine = EmbeddedEngine::open(options(new.path())).unwrap();
        contents.ask_again(&engine).await;
        submit(&engine, &object("late"), vec![append("x")]).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_without_tables_is_salvaged_from_its_journal() {
    let store = TempDir::new().unwrap();
    let mut large = options(store.path());
    // One segment, so that all of the journal is there.
    large.segment_bytes = 16 * 1024 * 1024;
    let engine = EmbeddedEngine::open(large).unwrap();
    for n in 0..20 {
        submit(&engine, &object(format!("o{n}")), vec![append(vec![n; 5000])]).await.unwrap();
    }
    submit(&engine, &object("o3"), vec![nacre_object::Op::Remove]).await.unwrap();
    engine.close();
    for lost in ["tree/current", "tree/list.copy", "MANIFEST", "MANIFEST.copy"] {
        std::fs::remove_file(store.path().join(lost)).unwrap();
    }
    std::fs::remove_dir_all(store.path().join("tree/tables")).unwrap();
    let (new, places) = salvaged(store.path());
    assert!(places.contains(&"MANIFEST".to_owned()), "{places:?}");
    let engine = EmbeddedEngine::open(options(new.path())).unwrap();
    for n in (0..20).filter(|n| *n != 3) {
        let found = answer(&engine, &object(format!("o{n}")), read_all()).await.unwrap();
        assert_eq!(found, nacre_object::OpResult::Data(vec![n; 5000].into()), "object {n}");
    }
    let removed = answer(&engine, &object("o3"), read_all()).await.unwrap_err();
    assert_eq!(removed.kind(), ErrorKind::NotFound);
    assert_eq!(scrub(&engine), []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_opened_through_links_never_changes_the_linked_folder() {
    let (store, contents) = closed_store().await;
    let read = |store: &Path| -> Vec<_> {
        files(store).into_iter().map(|file| std::fs::read(store.join(file)).unwrap()).collect()
    };
    let before = read(store.path());
    let new = TempDir::new().unwrap();
    salvage(store.path(), new.path(), SegmentFiles::Linked).unwrap();
    let mut linked = options(new.path());
    linked.disk = Arc::new(LinkedDisk);
    let engine = EmbeddedEngine::open(linked).unwrap();
    assert_eq!(contents.compare(&engine).await, BTreeSet::new());
    for name in (0..WRITES).map(|n| format!("late-{n}")) {
        submit(&engine, &object(name), vec![append(vec![1; 5000])]).await.unwrap();
    }
    engine.close();
    assert!(read(store.path()) == before, "a file has changed");
}

#[tokio::test]
async fn salvage_refuses_an_open_store_and_a_used_target_folder() {
    let folder = TempDir::new().unwrap();
    let engine = make_store(folder.path()).await;
    let new = TempDir::new().unwrap();
    let refused = |to: &Path| salvage(folder.path(), to, SegmentFiles::Copied).unwrap_err().kind();
    assert_eq!(refused(new.path()), ErrorKind::Unavailable);
    engine.close();
    std::fs::write(new.path().join("file"), "somebody's").unwrap();
    assert_eq!(refused(new.path()), ErrorKind::Exists);
    assert_eq!(refused(&folder.path().join("new")), ErrorKind::Invalid);
}
