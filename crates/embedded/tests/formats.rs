//! Folders that earlier releases left, and folders of releases to come.

mod support;

use std::path::{Path, PathBuf};
use std::process::Command;

use nacre_clock::Random;
use nacre_embedded::EmbeddedEngine;
use nacre_object::ErrorKind;
use support::contents::{Contents, make_former_store, make_store, scrub};
use support::power::{Fault, Plan, PowerDisk};
use support::{append, copy_open_folder, object, options, submit};
use tempfile::TempDir;

/// Stores as [`make_former_store`] made them in each format and a kill left them. Never change them.
const FORMER_SAMPLES: [&str; 2] = [SAMPLE_FORMAT_1, SAMPLE_FORMAT_2];
/// As [`make_store`] made them. Add one of the next format beside them, made by
/// `NACRE_WRITE_SAMPLE=PATH cargo test -p nacre-embedded --test formats`.
const SAMPLES: [&str; 3] = [SAMPLE_FORMAT_3, SAMPLE_FORMAT_4, SAMPLE_FORMAT_5];
/// Of release 0.1, with fjall's tables.
const SAMPLE_FORMAT_1: &str = "tests/samples/format-1.tar.gz";
const SAMPLE_FORMAT_2: &str = "tests/samples/format-2.tar.gz";
const SAMPLE_FORMAT_3: &str = "tests/samples/format-3.tar.gz";
const SAMPLE_FORMAT_4: &str = "tests/samples/format-4.tar.gz";
const SAMPLE_FORMAT_5: &str = "tests/samples/format-5.tar.gz";

fn tar(arguments: &[&str], folder: &Path) {
    let status = Command::new("tar").args(arguments).arg("-C").arg(folder).arg(".").status();
    assert!(status.unwrap().success(), "tar {arguments:?}");
}

fn unpack(sample: &str) -> TempDir {
    let folder = TempDir::new().unwrap();
    tar(&["--extract", "--gzip", "--file", sample], folder.path());
    folder
}

#[tokio::test]
async fn samples_of_all_formats_open_read_right_and_go_on() {
    let (fresh, former) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let engine = make_store(fresh.path()).await;
    if let Some(path) = std::env::var_os("NACRE_WRITE_SAMPLE").map(PathBuf::from) {
        let left = TempDir::new().unwrap();
        copy_open_folder(fresh.path(), left.path());
        tar(&["--create", "--gzip", "--sparse", "--file", path.to_str().unwrap()], left.path());
        return;
    }
    let contents = Contents::of(&engine).await.without_times();
    for sample in SAMPLES {
        opens_reads_right_and_goes_on(sample, &contents).await;
    }
    let former = make_former_store(former.path()).await;
    let contents = Contents::of(&former).await.without_times();
    for sample in FORMER_SAMPLES {
        opens_reads_right_and_goes_on(sample, &contents).await;
    }
}

async fn opens_reads_right_and_goes_on(sample: &str, contents: &Contents) {
    let folder = unpack(sample);
    for _ in 0..2 {
        let engine = EmbeddedEngine::open(options(folder.path())).unwrap();
        assert!(contents.compare(&engine).await.is_empty(), "{sample}");
        assert_eq!(scrub(&engine), [], "{sample}");
        submit(&engine, &object("{t}/all-0"), vec![append("")]).await.unwrap();
        engine.close();
    }
    assert!(!folder.path().join("tables").exists(), "{sample}");
    assert_eq!(format_of(&folder.path().join("MANIFEST")), 5, "{sample}");
}

/// Of the calls that change something while a store of an earlier format is opened, one of so many is tried.
const CALLS_APART: usize = 9;

/// Has every file and folder in a folder, and it, survive a power cut.
fn sync(folder: &Path) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sync(&path);
        } else {
            std::fs::File::open(path).unwrap().sync_all().unwrap();
        }
    }
    std::fs::File::open(folder).unwrap().sync_all().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_of_an_earlier_format_outlives_a_power_cut_or_failure_in_its_upgrade() {
    let (former, fresh) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let contents = Contents::of(&make_former_store(former.path()).await).await.without_times();
    outlives_a_fault_in_its_upgrade(SAMPLE_FORMAT_1, &contents).await;
    let contents = Contents::of(&make_store(fresh.path()).await).await.without_times();
    outlives_a_fault_in_its_upgrade(SAMPLE_FORMAT_4, &contents).await;
}

async fn outlives_a_fault_in_its_upgrade(sample: &str, contents: &Contents) {
    let seed = nacre_conformance::seeds(1).next().unwrap();
    for fault in [Fault::Power, Fault::Io] {
        let mut random = Random::seeded(seed);
        let mut tried = 0;
        for first in (1 + seed % CALLS_APART as u64..).step_by(CALLS_APART) {
            let mut disk = PowerDisk::mount();
            std::fs::create_dir_all(disk.store()).unwrap();
            tar(&["--extract", "--gzip", "--file", sample], &disk.store());
            sync(&disk.folder());
            disk.plan(Plan { fault, first, last: u64::MAX });
            if let Ok(engine) = EmbeddedEngine::open(options(&disk.store())) {
                engine.close();
            }
            let met = disk.met_fault();
            disk.cut(random.below(9), &mut random);
            let engine = EmbeddedEngine::open(options(&disk.store()))
                .unwrap_or_else(|error| panic!("seed {seed}, {fault:?} at {first}: {error}"));
            let differences = contents.compare(&engine).await;
            assert!(differences.is_empty(), "seed {seed}, {fault:?} at {first}");
            assert_eq!(scrub(&engine), [], "seed {seed}, {fault:?} at {first}");
            engine.close();
            tried += 1;
            if !met {
                break;
            }
        }
        assert!(tried > 5, "{tried} calls");
        println!("{sample}, {fault:?}: one call in {CALLS_APART}, {tried} calls");
    }
}

/// The format number of a manifest is behind its magic.
fn format_of(manifest: &Path) -> u32 {
    u32::from_le_bytes(std::fs::read(manifest).unwrap()[8..12].try_into().unwrap())
}

/// A checksum of all of it ends a manifest.
fn set_format(manifest: &Path, format: u32) {
    let mut bytes = std::fs::read(manifest).unwrap();
    let end = bytes.len() - 4;
    bytes[8..12].copy_from_slice(&format.to_le_bytes());
    let crc = crc32c::crc32c(&bytes[..end]).to_le_bytes();
    bytes[end..].copy_from_slice(&crc);
    std::fs::write(manifest, bytes).unwrap();
}

#[test]
fn a_folder_of_a_later_format_is_refused_with_what_to_do_and_left_as_it_is() {
    let folder = unpack(SAMPLE_FORMAT_5);
    let manifest = folder.path().join("MANIFEST");
    set_format(&manifest, 6);
    let refused = EmbeddedEngine::open(options(folder.path())).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unsupported, "{refused}");
    assert!(refused.hint_text().unwrap().contains("use that one"), "{refused}");
    set_format(&manifest, 5);
    EmbeddedEngine::open(options(folder.path())).unwrap();
}

#[test]
fn a_folder_whose_tables_are_of_another_format_is_refused_with_what_to_do_and_left_as_it_is() {
    let folder = unpack(SAMPLE_FORMAT_1);
    let version = folder.path().join("tables/version");
    let known = std::fs::read(&version).unwrap();
    std::fs::write(&version, b"FJL\x04").unwrap();
    let refused = EmbeddedEngine::open(options(folder.path())).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unsupported, "{refused}");
    assert!(refused.hint_text().unwrap().contains("release"), "{refused}");

    std::fs::write(&version, known).unwrap();
    EmbeddedEngine::open(options(folder.path())).unwrap();
}
