//! Folders of targets on a real file system: made, lost, forgotten.

use std::fs;
use std::path::Path;

use nacre_object::ErrorKind;
use tempfile::TempDir;

use super::TargetFolder;
use crate::cluster_file::{ClusterFile, FolderLock};

/// A cluster of two targets, both of which hold a store.
fn running() -> (TempDir, ClusterFile) {
    let scratch = TempDir::new().unwrap();
    let cluster = ClusterFile::create(scratch.path(), 2).unwrap();
    for target in ["storage.0", "storage.1"] {
        open(&cluster, target);
    }
    (scratch, cluster)
}

fn folder(cluster: &ClusterFile, target: &str) -> TargetFolder {
    TargetFolder::of(cluster, cluster.node(target).unwrap())
}

/// Does what a node does: compares the identities, opens the engine, and records that it was
/// opened.
fn open(cluster: &ClusterFile, target: &str) {
    assert_eq!(refusal(cluster, target), None);
    fs::write(cluster.folder().join(target).join("MANIFEST"), "").unwrap();
    folder(cluster, target).opened(cluster).unwrap();
}

fn refusal(cluster: &ClusterFile, target: &str) -> Option<String> {
    folder(cluster, target).refusal().map(|error| error.to_string())
}

fn read(folder: &Path) -> ClusterFile {
    ClusterFile::read(folder).unwrap()
}

#[test]
fn a_target_is_refused_without_its_folder_and_serves_when_the_folder_is_back() {
    let (scratch, cluster) = running();
    let (own, away) = (scratch.path().join("storage.1"), scratch.path().join("away"));
    fs::rename(&own, &away).unwrap();
    let lost = folder(&cluster, "storage.1").refusal().unwrap();
    assert_eq!(lost.kind(), ErrorKind::Unavailable);
    assert!(lost.message().contains("storage.1 does not serve"), "{lost}");
    assert!(lost.hint_text().unwrap().contains("nacre node forget storage.1"), "{lost}");
    assert!(!own.exists(), "the look itself makes nothing");
    assert_eq!(refusal(&cluster, "storage.0"), None);
    fs::create_dir(&own).unwrap();
    assert!(refusal(&cluster, "storage.1").is_some(), "an empty folder is a lost one");
    fs::remove_dir(&own).unwrap();
    fs::rename(&away, &own).unwrap();
    assert_eq!(refusal(&cluster, "storage.1"), None);
}

#[test]
fn swapped_folders_are_refused_with_the_names_of_their_targets() {
    let (scratch, cluster) = running();
    let path = |name: &str| scratch.path().join(name);
    for (from, to) in [("storage.0", "x"), ("storage.1", "storage.0"), ("x", "storage.1")] {
        fs::rename(path(from), path(to)).unwrap();
    }
    assert!(refusal(&cluster, "storage.0").unwrap().contains("storage.1 of this cluster"));
    assert!(refusal(&cluster, "storage.1").unwrap().contains("storage.0 of this cluster"));
}

#[test]
fn a_folder_whose_identity_is_lost_is_refused_until_the_identity_is_written_as_the_hint_says() {
    let (scratch, cluster) = running();
    let path = scratch.path().join("storage.0/target.json");
    fs::remove_file(scratch.path().join("storage.0/target.json.copy")).unwrap();
    fs::remove_file(&path).unwrap();
    let refused = folder(&cluster, "storage.0").refusal().unwrap();
    let text = refused.hint_text().unwrap();
    fs::write(&path, &text[text.find('{').unwrap()..]).unwrap();
    assert_eq!(refusal(&cluster, "storage.0"), None);
}

#[test]
fn a_forgotten_target_starts_empty_and_its_former_folder_is_refused() {
    let (scratch, cluster) = running();
    let (own, away) = (scratch.path().join("storage.1"), scratch.path().join("away"));
    let lock = FolderLock::take(scratch.path()).unwrap();
    let forget = || read(scratch.path()).forget_target("storage.1", &lock);
    assert_eq!(forget().unwrap_err().kind(), ErrorKind::Invalid, "it is in order");
    fs::rename(&own, &away).unwrap();
    let former = cluster.node("storage.1").unwrap().id;
    forget().unwrap();
    let cluster = read(scratch.path());
    assert_ne!(cluster.node("storage.1").unwrap().id, former);
    assert_eq!(refusal(&cluster, "storage.1"), None);
    assert_eq!(refusal(&cluster, "storage.0"), None);
    fs::remove_dir_all(&own).unwrap();
    fs::rename(&away, &own).unwrap();
    assert!(refusal(&cluster, "storage.1").unwrap().contains("which was forgotten"));
    let refused = forget().unwrap_err();
    assert!(refused.message().contains("holds data"), "{refused}");
    assert!(own.join("MANIFEST").exists());
}

#[test]
fn a_crash_between_the_identities_and_the_cluster_file_can_be_repeated() {
    let scratch = TempDir::new().unwrap();
    ClusterFile::create(scratch.path(), 2).unwrap();
    fs::remove_file(scratch.path().join("cluster.json")).unwrap();
    let again = ClusterFile::create(scratch.path(), 2).unwrap();
    for target in ["storage.0", "storage.1"] {
        assert_eq!(refusal(&again, target), None);
    }
}

#[test]
fn a_lost_cluster_file_is_refused_and_restored_from_a_target() {
    let (scratch, cluster) = running();
    let path = scratch.path().join("cluster.json");
    let text = fs::read(&path).unwrap();
    fs::remove_file(&path).unwrap();
    let refused = ClusterFile::read(scratch.path()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Corrupt);
    assert!(refused.message().contains("storage.0, storage.1"), "{refused}");
    let copy = scratch.path().join("storage.0/cluster.json");
    assert!(refused.hint_text().unwrap().contains(&format!("cp {}", copy.display())), "{refused}");
    assert_eq!(ClusterFile::create(scratch.path(), 2).unwrap_err().kind(), ErrorKind::Corrupt);
    fs::copy(copy, &path).unwrap();
    assert_eq!(fs::read(&path).unwrap(), text);
    assert_eq!(read(scratch.path()).nodes(), cluster.nodes());
}
