//! The whole system in one process.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;

use bytes::Bytes;
use nacre::{Change, Entry, ErrorKind, LogOptions, ProgramId};
use nacre_node::LocalCluster;
use tempfile::TempDir;

async fn open(folder: &TempDir) -> LocalCluster {
    LocalCluster::embedded(folder.path().join("cluster")).await.unwrap()
}

const ECHO: &str = "function echo(i, o) o:append(i:str()) end objclass.register(echo, 'readonly')";

#[tokio::test(flavor = "multi_thread")]
async fn objects_programs_maps_and_logs_survive_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let echo: ProgramId = "class/echo".parse().unwrap();
    let map = "settings".parse().unwrap();
    {
        let cluster = open(&folder).await;
        let object = cluster.pool("data").await.unwrap().object("a").unwrap();
        object.append("kept").await.unwrap();
        let version = cluster.programs().put(&echo, ECHO).await.unwrap();
        cluster.programs().activate(&echo, version).await.unwrap();
        assert_eq!(object.call("echo", "echo", "x").await.unwrap().output, "x");
        cluster.maps().commit(&map, 0, vec![Change::set("k", "v")]).await.unwrap();
        let log = cluster.create_log("l", LogOptions::default()).await.unwrap();
        assert_eq!(log.append("one").await.unwrap(), 0);
    }
    let cluster = open(&folder).await;
    let object = cluster.pool("data").await.unwrap().object("a").unwrap();
    assert_eq!(object.read(0, 100).await.unwrap(), "kept");
    assert_eq!(object.call("echo", "echo", "y").await.unwrap().output, "y");
    assert_eq!(cluster.maps().entry(&map, "k").await.unwrap(), (1, Some(Bytes::from("v"))));
    let log = cluster.log("l").await.unwrap();
    assert_eq!(log.append("two").await.unwrap(), 1);
    let read = log.read_range(0, 10).await.unwrap();
    let entries: Vec<_> = read.into_iter().map(|slot| slot.entry).collect();
    let data = |text| Some(Entry::Data(Bytes::from(text)));
    assert_eq!(entries, vec![data("one"), data("two")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_names_an_old_version_is_stale() {
    let folder = tempfile::tempdir().unwrap();
    let cluster = open(&folder).await;
    let echo: ProgramId = "class/echo".parse().unwrap();
    let object = cluster.pool("data").await.unwrap().object("a").unwrap();
    object.create(true).await.unwrap();
    let call = |version| nacre::ClassCall {
        class: "echo".parse().unwrap(),
        method: "echo".parse().unwrap(),
        version,
        input: Bytes::from("x"),
    };
    for version in 1..=2 {
        let source = format!("{ECHO} -- {version}");
        assert_eq!(cluster.programs().put(&echo, &source).await.unwrap(), version);
        cluster.programs().activate(&echo, version).await.unwrap();
        // This process may not have loaded the new version yet. A call that names the version waits
        // until it has.
        assert_eq!(object.call_version(call(Some(version))).await.unwrap().output, "x");
    }
    let stale = object.call_version(call(Some(1))).await.unwrap_err();
    assert_eq!(stale.kind(), ErrorKind::Stale, "{stale}");
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_of_a_class_without_its_source_fail_and_other_calls_do_not() {
    let folder = tempfile::tempdir().unwrap();
    let cluster = open(&folder).await;
    let lost: ProgramId = "class/lost".parse().unwrap();
    cluster.programs().put(&lost, ECHO).await.unwrap();
    let digest = cluster.programs().show(&lost, None).await.unwrap().digest;
    let source = format!("nacre.system/program/{digest}").parse().unwrap();
    cluster.object(&source).await.unwrap().remove().await.unwrap();
    cluster.programs().activate(&lost, 1).await.unwrap();
    let object = cluster.pool("data").await.unwrap().object("a").unwrap();
    object.create(true).await.unwrap();
    let absent = object.call("absent", "echo", "x").await.unwrap_err();
    assert_eq!(absent.kind(), ErrorKind::Unsupported, "{absent}");
    let late = object.call("lost", "echo", "x").await.unwrap_err();
    assert_eq!(late.kind(), ErrorKind::Unavailable, "{late}");
    assert!(late.message().contains("class/lost"), "{late}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_source_is_listed_unless_this_release_contains_it() {
    let folder = tempfile::tempdir().unwrap();
    let cluster = open(&folder).await;
    let echo: ProgramId = "class/echo".parse().unwrap();
    let version = cluster.programs().put(&echo, ECHO).await.unwrap();
    cluster.programs().activate(&echo, version).await.unwrap();
    cluster.create_log("l", LogOptions::default()).await.unwrap();
    assert_eq!(cluster.lost_sources().await.unwrap(), []);
    for program in [&echo, &nacre::log_program()] {
        let digest = cluster.programs().show(program, None).await.unwrap().digest;
        let source = format!("nacre.system/program/{digest}").parse().unwrap();
        cluster.object(&source).await.unwrap().remove().await.unwrap();
    }
    assert_eq!(cluster.lost_sources().await.unwrap(), [(echo.clone(), version)]);
    assert!(cluster.programs().show(&nacre::log_program(), None).await.is_ok());
    assert_eq!(cluster.programs().put(&echo, ECHO).await.unwrap(), version);
    assert_eq!(cluster.lost_sources().await.unwrap(), []);

    let programs = nacre::Maps::object(&"programs".parse().unwrap());
    cluster.object(&programs).await.unwrap().remove().await.unwrap();
    assert_eq!(cluster.programs().active(&nacre::log_program()).await.unwrap(), None);
    assert_eq!(cluster.lost_sources().await.unwrap(), []);
    let active = cluster.programs().active(&nacre::log_program()).await.unwrap();
    assert!(active.is_some(), "a stored log is of this class");
    assert_eq!(cluster.programs().active(&echo).await.unwrap(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pool_must_be_created_and_can_be_removed_only_when_empty() {
    let folder = tempfile::tempdir().unwrap();
    let cluster = open(&folder).await;
    assert_eq!(cluster.pool("mine").await.unwrap_err().kind(), ErrorKind::NotFound);
    let mine = "mine".parse().unwrap();
    cluster.create_pool(&mine).await.unwrap();
    let object = cluster.pool("mine").await.unwrap().object("a").unwrap();
    object.append("x").await.unwrap();
    assert_eq!(cluster.remove_pool(&mine).await.unwrap_err().kind(), ErrorKind::Conflict);
    object.remove().await.unwrap();
    cluster.remove_pool(&mine).await.unwrap();
    assert!(!cluster.pools().await.unwrap().contains(&mine));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_that_was_open_to_other_users_becomes_private() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
    let cluster = LocalCluster::embedded(folder.path()).await.unwrap();
    cluster.close().await;
    assert_eq!(folder.path().metadata().unwrap().permissions().mode() & 0o777, 0o700);
}

#[tokio::test(flavor = "multi_thread")]
async fn only_one_process_can_open_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    let _first = open(&folder).await;
    let second = LocalCluster::embedded(folder.path().join("cluster")).await.unwrap_err();
    assert_eq!(second.kind(), ErrorKind::Unavailable, "{second}");
}
