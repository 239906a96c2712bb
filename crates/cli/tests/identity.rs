//! Entities, grants and certificates, with real nodes and the command, as a person would use them.

mod common;

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use common::person::Person;
use common::{NACRE, RunningCluster, suspend};
use nacre::{Cluster, ErrorKind};
use rustix::process::{Signal, kill_process};

const COUNTER: &str = include_str!("../../../programs/class/counter.lua");

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn an_entity_does_what_it_was_granted_and_nothing_else() {
    let cluster = RunningCluster::start_tls();
    let alice = Person::add(&cluster, "alice", &["rw pool=data prefix=alice/", "rw map=conf"]);
    assert_eq!(mode(&alice.identity), 0o600);
    assert_eq!(mode(&cluster.folder().join("tls/authority.key")), 0o600);
    assert!(!cluster.folder().join("run/storage.0.sock").exists(), "TLS only");

    alice.run(&["object", "append", "data/alice/a", "hello"]);
    assert_eq!(alice.run(&["object", "get", "data/alice/a"]), "hello");
    alice.run(&["map", "set", "conf", "colour=red"]);
    assert!(alice.run(&["map", "get", "conf"]).contains("red"));

    let said = alice.is_denied(&["object", "append", "data/bob/a", "x"]);
    assert!(said.contains("alice may not write data/bob/a"), "{said}");
    assert!(said.contains("nacre entity grant alice 'w pool=data prefix=bob/a'"), "{said}");
    alice.is_denied(&["map", "set", "other", "k=v"]);
    alice.is_denied(&["entity", "list"]);
    alice.is_denied(&["entity", "grant", "alice", "admin"]);
    alice.is_denied(&["pool", "create", "mine"]);
    alice.is_denied(&["events"]);
    assert!(!alice.is_denied(&["status"]).contains("down"), "they serve");
    let told = alice.is_denied(&["status", "--json"]);
    assert_eq!((told.matches("\"up\":null").count(), told.matches("\"up\":").count()), (3, 3));
    alice.is_denied(&["object", "get", "nacre.system/map/entities"]);

    let admin = Person {
        home: tempfile::tempdir().unwrap(),
        identity: cluster.folder().join("tls/admin.json"),
    };
    let events = admin.run(&["events"]);
    assert!(events.contains("alice may not write data/bob/a"), "{events}");
    assert!(events.contains("alice may not administrate"), "{events}");
    assert!(admin.run(&["entity", "list"]).contains("rw pool=data prefix=alice/; rw map=conf"));
    assert!(admin.run(&["status"]).matches(" up ").count() == 3);
}

#[test]
fn an_entity_works_with_programs_and_logs_it_was_granted() {
    let cluster = RunningCluster::start_tls();
    let grants =
        ["rw program=class/counter", "x pool=data class=counter prefix=visits", "rw log=mine"];
    let dev = Person::add(&cluster, "dev", &grants);
    std::fs::write(dev.home.path().join("counter.lua"), COUNTER).unwrap();
    let put = dev.run(&["program", "put", "class/counter", "counter.lua", "--activate"]);
    assert_eq!(put, "class/counter version 1, active on every node\n");
    let call = ["class", "call", "data/visits", "counter", "add", "--input", "5"];
    assert_eq!(dev.run(&call), "5\n");
    dev.is_denied(&["class", "call", "data/other", "counter", "add", "--input", "5"]);
    dev.is_denied(&["object", "get", "data/visits"]);
    dev.is_denied(&["program", "put", "class/another", "counter.lua"]);
    let events = cluster.run(&["events"]);
    assert!(events.contains("class/counter version 1 is active"), "{events}");

    cluster.run(&["log", "create", "mine"]);
    cluster.run(&["log", "create", "theirs"]);
    std::fs::write(dev.home.path().join("lines"), "one\ntwo\n").unwrap();
    dev.run(&["log", "append", "mine", "lines"]);
    assert!(dev.run(&["log", "read", "mine"]).contains("two"));
    dev.is_denied(&["log", "read", "theirs"]);
    let reader = Person::add(&cluster, "reader", &["r log=mine"]);
    assert!(reader.run(&["log", "read", "mine"]).contains("two"));
    std::fs::write(reader.home.path().join("lines"), "three\n").unwrap();
    reader.is_denied(&["log", "append", "mine", "lines"]);
    reader.is_denied(&["log", "seal", "mine"]);
    // A reader does not even need a live sequencer: it finds the end in the log's objects.
    let sequencer = suspend(cluster.pid_of("meta.0").unwrap());
    assert!(reader.run(&["log", "read", "mine"]).contains("two"));
    kill_process(sequencer, Signal::CONT).unwrap();
}

#[test]
fn only_an_entity_with_the_right_to_delete_removes_a_log() {
    let cluster = RunningCluster::start_tls();
    let writer = Person::add(&cluster, "writer", &["rw log=orders"]);
    let producer = Person::add(&cluster, "producer", &["a log=orders"]);
    // Creating the first log also puts the program of its class.
    cluster.run(&["log", "create", "orders"]);
    std::fs::write(producer.home.path().join("lines"), "one\ntwo\n").unwrap();
    producer.run(&["log", "append", "orders", "lines"]);
    assert_eq!(writer.run(&["log", "read", "orders"]), "one\ntwo\n");
    let said = producer.is_denied(&["log", "read", "orders"]);
    assert!(said.contains("producer may not read the log orders"), "{said}");
    assert!(said.contains("nacre entity grant producer 'r log=orders'"), "{said}");
    producer.is_denied(&["log", "trim", "orders", "0"]);
    producer.is_denied(&["log", "fill", "orders", "2"]);
    // A producer may seal, because it must be able to continue after a sequencer has died.
    producer.run(&["log", "seal", "orders"]);

    let said = writer.is_denied(&["log", "rm", "orders"]);
    assert!(said.contains("nacre entity grant writer 'd log=orders'"), "{said}");
    assert_eq!(writer.run(&["log", "read", "orders"]), "one\ntwo\n", "nothing is lost");
    let remover = Person::add(&cluster, "remover", &["d log=orders"]);
    remover.is_denied(&["log", "read", "orders"]);
    remover.run(&["log", "rm", "orders"]);
    assert!(!writer.try_run(&["log", "read", "orders"]).0);
    writer.run(&["log", "create", "orders"]);
    producer.run(&["log", "append", "orders", "lines"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_reaches_open_sessions_by_the_time_the_command_returns() {
    let cluster = RunningCluster::start_tls();
    let alice = Person::add(&cluster, "alice", &["rw pool=data"]);
    let bob = Person::add(&cluster, "bob", &["rw pool=data"]);
    let connect = async |person: &Person| {
        let cluster = Cluster::connect_as(&person.identity).await.unwrap();
        cluster.pool("data").await.unwrap().object("shared").unwrap()
    };
    let (hers, his) = (connect(&alice).await, connect(&bob).await);
    hers.append("a").await.unwrap();
    his.append("b").await.unwrap();

    cluster.run(&["entity", "ungrant", "alice", "rw pool=data"]);
    let error = hers.append("a").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
    cluster.run(&["entity", "grant", "alice", "rw pool=data"]);
    hers.append("a").await.unwrap();

    cluster.run(&["entity", "revoke", "alice"]);
    let error = hers.append("a").await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Denied | ErrorKind::Unavailable), "{error}");
    assert!(alice.is_denied(&["object", "stat", "data/shared"]).contains("no longer"));
    // A new entity of the same name is another entity, so the old identity file gives no access.
    let again = Person::add(&cluster, "alice", &["rw pool=data"]);
    again.run(&["object", "stat", "data/shared"]);
    alice.is_denied(&["object", "stat", "data/shared"]);
    // Nobody else noticed any of it.
    his.append("b").await.unwrap();
    assert_eq!(his.read(0, 100).await.unwrap(), "abab");
}

#[test]
fn grants_outlive_the_processes_of_the_cluster() {
    let mut cluster = RunningCluster::start_tls();
    let alice = Person::add(&cluster, "alice", &["rw pool=data"]);
    alice.run(&["object", "append", "data/a", "x"]);
    assert!(cluster.stop());
    let (worked, said) = alice.try_run(&["status"]);
    assert!(!worked && said.contains("no node answers at 127.0.0.2:"), "{said}");
    let again = RunningCluster::start_in(cluster.folder());
    assert_eq!(alice.run(&["object", "get", "data/a"]), "x");
    alice.is_denied(&["entity", "list"]);
    let (_, said) = again.fails(&["entity", "revoke", "nobody"]);
    assert!(said.contains("no entity nobody"), "{said}");
}

#[test]
fn a_change_of_entities_names_the_nodes_that_have_not_confirmed_it() {
    let cluster = RunningCluster::start_tls();
    Person::add(&cluster, "alice", &["r pool=data"]);
    // This node keeps no objects, so the map can be changed without it.
    let stopped = suspend(cluster.pid_of("meta.0").unwrap());
    let (status, said) = cluster.fails(&["entity", "grant", "alice", "w pool=data"]);
    assert_eq!(status, 1);
    assert!(said.contains("have not confirmed it: meta.0"), "{said}");
    assert!(!said.contains("storage.0"), "{said}");
    kill_process(stopped, Signal::CONT).unwrap();
    let granted = cluster.run(&["entity", "grant", "alice", "w pool=data"]);
    assert_eq!(granted, "alice: in force on every node\n");
}

#[test]
fn another_user_of_the_machine_is_refused_at_the_socket() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root can act as another user");
        return;
    }
    let cluster = RunningCluster::start();
    cluster.run_with_input(&["object", "append", "data/a"], "x");
    // Even where the file system lets them through.
    let program = tempfile::tempdir().unwrap();
    let nacre = program.path().join("nacre");
    std::fs::copy(NACRE, &nacre).unwrap();
    let open = |path: &Path| std::fs::set_permissions(path, PermissionsExt::from_mode(0o777));
    open(program.path()).unwrap();
    let nobody = |arguments: &[&str]| {
        let mut command = Command::new(&nacre);
        command.args(arguments).env("NACRE_CLUSTER", cluster.folder()).uid(65534).gid(65534);
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        String::from_utf8(output.stderr).unwrap().to_lowercase()
    };
    let is_denied = || {
        for arguments in [&["status"][..], &["object", "get", "data/a"]] {
            let said = nobody(arguments);
            assert!(said.contains("permission denied"), "{said}");
            assert!(said.contains("as the user who runs the cluster"), "{said}");
        }
    };
    // First the folder's mode keeps other users out, then the modes of the sockets, and at last
    // only the nodes.
    is_denied();
    open(cluster.folder()).unwrap();
    open(&cluster.folder().join("run")).unwrap();
    open(&cluster.folder().join("cluster.json")).unwrap();
    is_denied();
    for node in ["storage.0", "storage.1", "storage.2", "meta.0"] {
        open(&cluster.folder().join(format!("run/{node}.sock"))).unwrap();
    }
    is_denied();
    assert_eq!(cluster.run(&["object", "get", "data/a"]), "x");
}

/// Asserts that only the owner has access to the files and folders in a folder. Returns their
/// number.
fn assert_private(folder: &Path) -> usize {
    let mut count = 1;
    assert_eq!(mode(folder), 0o700, "{}", folder.display());
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        // A file may be removed while it is looked at.
        let Ok(metadata) = std::fs::symlink_metadata(&path) else { continue };
        if metadata.is_dir() {
            count += assert_private(&path);
        } else {
            count += 1;
            assert_eq!(metadata.permissions().mode() & 0o777, 0o600, "{}", path.display());
        }
    }
    count
}

#[test]
fn everything_that_a_cluster_makes_is_for_its_owner_alone_whatever_the_umask_is() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path().join("made/by-nacre");
    let without_umask = |arguments: &[&str]| {
        let mut command = Command::new("sh");
        command.args(["-c", r#"umask 000; exec "$0" "$@""#, NACRE]).args(arguments);
        command.arg("--cluster").arg(&folder);
        command
    };
    let listen = ["init", "--targets", "2", "--listen", "127.0.0.2:0"];
    let made = without_umask(&listen).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    assert_eq!(mode(&scratch.path().join("made")), 0o700);
    let mut cluster = RunningCluster::start_by(&folder, without_umask(&["up", "--json"]));
    cluster.run_with_input(&["object", "put", "data/a"], &"x".repeat(100_000));
    cluster.run(&["log", "create", "l"]);
    cluster.run_with_input(&["log", "append", "l"], "one\n");
    let counted = assert_private(&folder);
    assert!(counted > 40, "only {counted} files and folders were looked at");
    assert!(cluster.stop());
    assert_private(&folder);
}

#[test]
fn an_address_outside_this_machine_requires_keys() {
    let folder = tempfile::tempdir().unwrap();
    let init = |arguments: &[&str]| {
        let mut command = Command::new(NACRE);
        let command = command.arg("init").args(arguments).arg("--cluster").arg(folder.path());
        let output = command.output().unwrap();
        (output.status.success(), String::from_utf8(output.stderr).unwrap())
    };
    let (made, said) = init(&["--listen", "0.0.0.0:7000"]);
    assert!(!made && said.contains("by which clients reach"), "{said}");
    assert!(!folder.path().join("cluster.json").exists());
    let (made, said) = init(&[]);
    assert!(made, "{said}");
    let keys = Command::new(NACRE)
        .args(["entity", "add", "alice", "--cluster"])
        .arg(folder.path())
        .current_dir(folder.path())
        .output()
        .unwrap();
    let said = String::from_utf8(keys.stderr).unwrap();
    assert!(!keys.status.success() && said.contains("nacre init --listen"), "{said}");
    assert!(!folder.path().join("alice.json").exists());
}
