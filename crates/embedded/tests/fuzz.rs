//! Changes the files of stores at random. A store must then open and answer, or report the damage.

mod support;

use std::panic;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use nacre_clock::{Clock, SystemClock};
use nacre_conformance::peak_memory_kib;
use nacre_embedded::EmbeddedEngine;
use nacre_fuzz::fuzz_slow;
use nacre_object::ErrorKind;
use support::contents::{Contents, make_store, scrub_whatever_there_is};
use support::{append, copy_folder, copy_open_folder, object, options, submit};
use tempfile::TempDir;

/// Opening and reading a store takes some 50 ms.
const SHORT_RUN: u64 = 60;
/// An input is so many bytes for each change.
const CHANGE_BYTES: usize = 8;
/// Changes made at most.
const MAX_CHANGES: usize = 16;
/// No store of these takes longer, however busy the machine.
const MAX_TIME: Duration = Duration::from_secs(60);
/// No store of these needs more: all its files are some megabytes.
const MAX_PEAK_KIB: u64 = 1024 * 1024;

/// Every file below a folder, by name.
fn files(root: &Path) -> Vec<PathBuf> {
    let (mut folders, mut files) = (vec![root.to_path_buf()], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { folders.push(path) } else { files.push(path) }
        }
    }
    files.sort();
    files
}

/// Changes one file below `root`. The bytes of `change` are: the file, the kind of change, two
/// bytes for the position (in 65,536ths of the file's used length), two bytes for the number of
/// bytes, and the new byte.
fn change(root: &Path, change: &[u8]) {
    let files = files(root);
    let path = &files[usize::from(change[0]) % files.len()];
    let mut bytes = std::fs::read(path).unwrap();
    let used = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    let place = usize::from(u16::from_le_bytes([change[2], change[3]]));
    let at = used * place / (1 << 16);
    let length = usize::from(u16::from_le_bytes([change[4], change[5]]));
    let end = (at + length).min(bytes.len());
    let value = change[6];
    match change[1] % 10 {
        0 if at < bytes.len() => bytes[at] ^= value,
        1 => bytes[at..end].fill(value),
        2 => bytes.truncate(at),
        3 => drop(bytes.drain(at..end)),
        4 => drop(bytes.splice(at..at, std::iter::repeat_n(value, length))),
        5 => {
            let again = bytes[at..end].to_vec();
            bytes.extend(again);
        }
        6 => {
            let again = bytes[..used - at].to_vec();
            bytes[at..used].copy_from_slice(&again);
        }
        7 => return std::fs::remove_file(path).unwrap(),
        8 => bytes = std::fs::read(&files[usize::from(value) % files.len()]).unwrap(),
        _ => bytes.resize(bytes.len() + length * 64, value),
    }
    std::fs::write(path, bytes).unwrap();
}

/// Opens a store, reads everything in it, scrubs it and writes to it. Returns whether it opened.
async fn inspect(folder: &Path, contents: &Contents) -> bool {
    let engine = match EmbeddedEngine::open(options(folder)) {
        Ok(engine) => engine,
        Err(error) => {
            assert!(is_damage(error.kind()), "{error}");
            return false;
        }
    };
    contents.ask_again(&engine).await;
    scrub_whatever_there_is(&engine);
    if let Err(error) = submit(&engine, &object("late"), vec![append("x")]).await {
        assert!(is_damage(error.kind()), "{error}");
    }
    engine.close();
    true
}

/// Whether a damaged folder may give this kind of error.
fn is_damage(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::Corrupt | ErrorKind::Unsupported)
}

#[test]
fn fuzz_folders_of_stores() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    // Panics on the threads of shards and the committer count as well.
    let panics = Arc::new(AtomicUsize::new(0));
    let (counted, hook) = (panics.clone(), panic::take_hook());
    panic::set_hook(Box::new(move |info| {
        counted.fetch_add(1, Ordering::Relaxed);
        hook(info);
    }));
    let clock = SystemClock::default();
    let whole = TempDir::new().unwrap();
    let (contents, killed) = runtime.block_on(async {
        let engine = make_store(whole.path()).await;
        let contents = Contents::of(&engine).await;
        // Nothing is written any more, so the copy equals what a kill leaves.
        let killed = TempDir::new().unwrap();
        copy_open_folder(whole.path(), killed.path());
        engine.close();
        (contents, killed)
    });
    // The first byte chooses the store; then a bit that is flipped, a file that ends early.
    let samples = [vec![0], vec![1], vec![1, 0, 4, 0, 255, 0, 0, 255, 0]];
    let manifest_dir = env!("CARGO_MANIFEST_DIR");
    fuzz_slow(manifest_dir, "folders", SHORT_RUN, &samples, |input| {
        let Some((store, changes)) = input.split_first() else { return false };
        let copy = TempDir::new().unwrap();
        let store = if store % 2 == 0 { &whole } else { &killed };
        copy_folder(store.path(), copy.path());
        let changes = changes.chunks_exact(CHANGE_BYTES).take(MAX_CHANGES);
        changes.for_each(|bytes| change(copy.path(), bytes));
        let started = clock.monotonic();
        let opened = runtime.block_on(inspect(copy.path(), &contents));
        assert!(clock.monotonic() - started < MAX_TIME, "it hung");
        assert_eq!(panics.load(Ordering::Relaxed), 0, "a thread panicked");
        assert!(peak_memory_kib() < MAX_PEAK_KIB, "{} KiB at the peak", peak_memory_kib());
        opened
    });
}
