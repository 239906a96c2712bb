//! Reads folders of this and earlier releases, and refuses folders of later ones.

mod support;

use std::path::{Path, PathBuf};
use std::process::Command;

use nacre_embedded::EmbeddedEngine;
use nacre_object::ErrorKind;
use support::contents::{Contents, make_store, scrub};
use support::{append, copy_open_folder, object, options, submit};
use tempfile::TempDir;

/// A store that [`make_store`] made, as a killed process leaves it. Release 0.1.0 and all later
/// ones must read it, so never change it. Add a sample of each new format beside it, with
/// `NACRE_WRITE_SAMPLE=PATH cargo test -p nacre-embedded --test formats`.
const SAMPLE_FORMAT_1: &str = "tests/samples/format-1.tar.gz";

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
#[expect(clippy::disallowed_methods, reason = "a person has a new sample written")]
async fn the_sample_of_format_1_can_be_opened_read_and_written() {
    let fresh = TempDir::new().unwrap();
    let engine = make_store(fresh.path()).await;
    if let Some(path) = std::env::var_os("NACRE_WRITE_SAMPLE").map(PathBuf::from) {
        let left = TempDir::new().unwrap();
        copy_open_folder(fresh.path(), left.path());
        tar(&["--create", "--gzip", "--sparse", "--file", path.to_str().unwrap()], left.path());
        return;
    }
    let contents = Contents::of(&engine).await.without_times();
    let folder = unpack(SAMPLE_FORMAT_1);
    for _ in 0..2 {
        let engine = EmbeddedEngine::open(options(folder.path())).unwrap();
        assert!(contents.compare(&engine).await.is_empty());
        assert_eq!(engine.mended(), []);
        assert_eq!(scrub(&engine), []);
        submit(&engine, &object("{t}/all-0"), vec![append("")]).await.unwrap();
        engine.close();
    }
}

/// The format number of a manifest is behind its magic.
fn format_of(manifest: &Path) -> u32 {
    u32::from_le_bytes(std::fs::read(manifest).unwrap()[8..12].try_into().unwrap())
}

/// A manifest ends in a checksum of its bytes.
fn set_format(manifest: &Path, format: u32) {
    let mut bytes = std::fs::read(manifest).unwrap();
    let end = bytes.len() - 4;
    bytes[8..12].copy_from_slice(&format.to_le_bytes());
    let crc = crc32c::crc32c(&bytes[..end]).to_le_bytes();
    bytes[end..].copy_from_slice(&crc);
    std::fs::write(manifest, bytes).unwrap();
}

#[test]
fn a_folder_of_a_later_format_is_refused_with_a_hint_and_not_changed() {
    let folder = unpack(SAMPLE_FORMAT_1);
    for name in ["MANIFEST", "MANIFEST.copy"] {
        let manifest = folder.path().join(name);
        assert_eq!(format_of(&manifest), 1);
        set_format(&manifest, 2);
        let refused = EmbeddedEngine::open(options(folder.path())).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Unsupported, "{refused}");
        assert!(refused.hint_text().unwrap().contains("use that one"), "{refused}");
        set_format(&manifest, 1);
    }
    EmbeddedEngine::open(options(folder.path())).unwrap();
}
