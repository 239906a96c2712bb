//! Tests rules that send IO through waypoints, on a cluster of real processes. The test kills some of
//! them.

mod common;

use std::path::{Path, PathBuf};

use bytes::Bytes;
use common::routes::{Workers, cluster, number, places, put, rules, status, wait_until_home};
use common::{RunningCluster, kill, shipped};
use nacre::{Cluster, Error, ErrorKind, Object};
use nacre_clock::Random;
use nacre_conformance::wait::eventually_blocking;
use serde_json::Value;
use tokio::time::Instant;

const SCRAMBLED: &str = "application s on every\n  * rw data/r* -> waypoint scramble\n";
/// More than one request holds, so that a put needs several.
const LARGE: usize = 9 * 1024 * 1024 + 5;

fn activate_shipped(cluster: &RunningCluster, name: &str) {
    let (program, file) = (format!("waypoint/{name}"), shipped(&format!("waypoint/{name}.lua")));
    cluster.run(&["program", "put", &program, &file, "--activate"]);
}

fn activate(cluster: &RunningCluster, folder: &Path, name: &str, source: &str) {
    let file = folder.join("program.lua");
    std::fs::write(&file, source).unwrap();
    let program = format!("waypoint/{name}");
    cluster.run(&["program", "put", &program, file.to_str().unwrap(), "--activate"]);
}

/// What the switch of a target says of a waypoint.
fn waypoint(cluster: &RunningCluster, target: &str, name: &str) -> Option<Value> {
    let status = status(cluster, target)?;
    let all = status["waypoints"].as_array()?.iter();
    all.clone().find(|one| one["name"] == name).cloned()
}

fn count(cluster: &RunningCluster, target: &str, name: &str, what: &str) -> u64 {
    number(waypoint(cluster, target, name).as_ref(), what).unwrap_or(0)
}

async fn object(client: &Cluster, name: &str) -> Object {
    client.object(&name.parse().unwrap()).await.unwrap()
}

/// The files below a folder that contain some bytes.
fn files_with(folder: &Path, wanted: &[u8]) -> Vec<PathBuf> {
    let mut found = vec![];
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(files_with(&path, wanted));
        } else if let Ok(bytes) = std::fs::read(&path)
            && bytes.windows(wanted.len()).any(|part| part == wanted)
        {
            found.push(path);
        }
    }
    found
}

/// Does the same to both objects, of which only the first passes a waypoint, and compares all that a
/// client sees.
async fn compare(seed: u64, encoded: &Object, plain: &Object) {
    let mut random = Random::seeded(seed);
    let data = |random: &mut Random| {
        let length = random.below(3000) as usize;
        Bytes::from((0..length).map(|_| random.below(256) as u8).collect::<Vec<_>>())
    };
    for _ in 0..40 {
        let (offset, length) = (random.below(9000), 1 + random.below(5000));
        let data = data(&mut random);
        let kind = random.below(8);
        let mut answers = vec![];
        for object in [encoded, plain] {
            let answer = match kind {
                0 | 1 => object.write(offset, data.clone()).await.map(|()| Bytes::new()),
                2 => object.append(data.clone()).await.map(|at| at.to_string().into()),
                3 => object.truncate(offset).await.map(|()| Bytes::new()),
                4 => object.zero(offset, length).await.map(|()| Bytes::new()),
                5 if offset < 1000 => object.write_full(data.clone()).await.map(|()| Bytes::new()),
                6 if offset < 1000 => object.remove().await.map(|()| Bytes::new()),
                _ => object.read(offset, length).await,
            };
            answers.push(answer.map_err(|error| error.kind()));
            answers.push(object.read(0, 20_000).await.map_err(|error| error.kind()));
            let size = object.stat().await.map(|stat| stat.size.to_string().into());
            answers.push(size.map_err(|error| error.kind()));
        }
        let (of_encoded, of_plain) = answers.split_at(3);
        assert!(of_encoded == of_plain, "seed {seed}: op {kind} at {offset}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_read_their_own_bytes_and_the_stored_ones_are_encoded() {
    let (folder, cluster) = cluster();
    let folder = folder.path();
    let (names, home, away) = places(&cluster, 5).await;
    let client = Cluster::connect(cluster.folder()).await.unwrap();
    let paths: Vec<_> = names.iter().map(|name| format!("data/{name}")).collect();
    cluster.run_with_input(&["object", "put", &paths[4], "-"], "was here before the rule");
    let file = rules(folder, SCRAMBLED);
    let (_, said) = cluster.fails(&["route", "put", file.to_str().unwrap()]);
    assert!(said.contains("nacre program put waypoint/scramble FILE"), "{said}");
    activate_shipped(&cluster, "scramble");
    put(&cluster, folder, SCRAMBLED);

    let [encoded, plain] = [&paths[0], "data/plain"];
    compare(7, &object(&client, encoded).await, &object(&client, plain).await).await;
    // The same with bytes that lie elsewhere.
    let follow = format!("{SCRAMBLED}  layer:scramble w data/r* -> target {away} follow\n");
    put(&cluster, folder, &follow);
    compare(8, &object(&client, encoded).await, &object(&client, plain).await).await;
    // The first write leaves a gap, so it goes home as a whole. The second one goes elsewhere.
    for _ in 0..2 {
        cluster.run_with_input(&["object", "write", &paths[1], "--offset", "3", "-"], "elsewhere");
    }
    assert!(number(status(&cluster, &home).as_ref(), "routed_bytes") > Some(0));
    assert_eq!(cluster.run(&["object", "get", &paths[1]]), "\0\0\0elsewhere");
    let ways = cluster.run(&["route", "trace", "r", &paths[1], "0..20"]);
    assert!(ways.contains(&away) && ways.contains("through scramble@1: reads follow"), "{ways}");
    put(&cluster, folder, SCRAMBLED);
    wait_until_home(&cluster, &home);
    assert_eq!(cluster.run(&["object", "get", &paths[1]]), "\0\0\0elsewhere");
    let ways = cluster.run(&["route", "trace", "w", &paths[1]]);
    assert!(ways.contains(&format!("{home} (home)")) && ways.contains("scramble@1"), "{ways}");

    // An object that had bytes keeps them, until it is replaced.
    let old = &paths[4];
    assert_eq!(cluster.run(&["object", "get", old]), "was here before the rule");
    cluster.run_with_input(&["object", "write", old, "--offset", "0", "-"], "is");
    assert_eq!(cluster.run(&["object", "get", old]), "iss here before the rule");
    let old = object(&client, old).await;
    assert!(old.attribute("nacre.waypoint").await.is_err());
    old.write_full("new").await.unwrap();
    let mark = old.attribute("nacre.waypoint").await.unwrap();
    assert!(mark.starts_with(b"scramble@1 "), "{mark:?}");
    let denied = old.set_attribute("nacre.waypoint", "x").await.unwrap_err();
    assert_eq!(denied.kind(), ErrorKind::Denied);

    // A large put has several requests.
    let large: Vec<u8> = (0..LARGE).map(|at| (at / 3) as u8).collect();
    let file = folder.join("large");
    std::fs::write(&file, &large).unwrap();
    cluster.run(&["object", "put", &paths[2], file.to_str().unwrap()]);
    let got = cluster.command(&["object", "get", &paths[2]]).output().unwrap();
    assert!(got.status.success() && got.stdout == large);
    snapshots_are_decoded(&object(&client, &paths[1]).await).await;
    at_rest(&cluster, &client, &home, &names[3]).await;
    refusals(&cluster, folder, &paths[1]);

    // Without the rule the bytes are read as they are stored, and with it as before.
    cluster.run(&["route", "rm", "s", "--force"]);
    let raw = object(&client, &paths[1]).await.read(0, 100).await.unwrap();
    assert!(raw.len() == 12 && raw != "\0\0\0elsewhere", "{raw:?}");
    assert!(cluster.run(&["events"]).contains("objects that stay encoded"));
    put(&cluster, folder, SCRAMBLED);
    assert_eq!(cluster.run(&["object", "get", &paths[1]]), "\0\0\0elsewhere");
    assert!(count(&cluster, &home, "scramble", "passed") > 0);
    assert_eq!(count(&cluster, &home, "scramble", "faults"), 0);
}

async fn snapshots_are_decoded(object: &Object) {
    let name: nacre_object::SnapshotName = "s".parse().unwrap();
    object.snapshot(name.clone()).await.unwrap();
    object.write(0, "xyz").await.unwrap();
    assert_eq!(object.at(name.clone()).read(0, 100).await.unwrap(), "\0\0\0elsewhere");
    assert_eq!(object.read(0, 100).await.unwrap(), "xyzelsewhere");
    object.rollback(name).await.unwrap();
    assert_eq!(object.read(2, 5).await.unwrap(), "\0else");
}

/// No file of the home has the bytes of a client, also after the home was killed and has started.
async fn at_rest(cluster: &RunningCluster, client: &Cluster, home: &str, name: &str) {
    let secret = Bytes::from("a secret that nobody finds on a disk; ".repeat(400));
    let public = Bytes::from("a text that everybody finds on a disk; ".repeat(400));
    object(client, &format!("data/{name}")).await.write(0, secret.clone()).await.unwrap();
    let open = (0..).map(|number| format!("data/open{number}"));
    let at_home = |name: &String| client.locate(&name.parse().unwrap()).as_str() == home;
    let open = open.into_iter().find(at_home).unwrap();
    object(client, &open).await.write(0, public.clone()).await.unwrap();
    cluster.kill_node(home);
    eventually_blocking("the home is back", || status(cluster, home).is_some());
    let read = object(client, &format!("data/{name}")).await.read(0, 1 << 20).await.unwrap();
    assert!(read == secret);
    let part = |text: &Bytes| text.slice(..38);
    assert!(!files_with(cluster.folder(), &part(&public)).is_empty(), "the search finds bytes");
    let found = files_with(cluster.folder(), &part(&secret));
    assert!(found.is_empty(), "{found:?}");
}

/// What would see or leave bytes in the wrong encoding.
fn refusals(cluster: &RunningCluster, folder: &Path, object: &str) {
    cluster.run(&["program", "put", "class/counter", &shipped("class/counter.lua"), "--activate"]);
    let (_, said) = cluster.fails(&["class", "call", object, "counter", "add", "--input", "1"]);
    assert!(said.contains("a method would see encoded bytes"), "{said}");
    let (_, said) = cluster.fails(&["route", "rm", "s"]);
    assert!(said.contains("objects that stay encoded"), "{said}");
    assert!(said.contains("--force"), "{said}");
    let text = "application s on every\n  * rw data/other* -> waypoint scramble\n";
    let file = rules(folder, text);
    let (_, said) = cluster.fails(&["route", "put", file.to_str().unwrap()]);
    assert!(said.contains("objects that stay encoded"), "{said}");
    let text =
        "application s2 on every\n  * r data/r0* -> home\n  * r data/q* -> waypoint scramble\n";
    let file = rules(folder, text);
    let (_, said) = cluster.fails(&["route", "check", file.to_str().unwrap()]);
    assert!(said.contains("all reads and writes of the object must pass it"), "{said}");
    let (_, said) = cluster.fails(&["program", "rm", "waypoint/scramble", "--force"]);
    assert!(said.contains("is a waypoint of rules of the application s"), "{said}");
    let source = std::fs::read_to_string(shipped("waypoint/scramble.lua")).unwrap();
    let other = folder.join("other.lua");
    std::fs::write(&other, source.replace("0x5f3759df", "0x12345678")).unwrap();
    let arguments = ["program", "put", "waypoint/scramble", other.to_str().unwrap(), "--activate"];
    let (_, said) = cluster.fails(&arguments);
    assert!(said.contains("could not decode them"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_acknowledged_write_is_lost_while_nodes_are_killed_and_rules_behind_a_waypoint_change() {
    let (folder, cluster) = cluster();
    let (names, home, away) = places(&cluster, 4).await;
    activate_shipped(&cluster, "scramble");
    put(&cluster, folder.path(), SCRAMBLED);
    let workers = Workers::start(&cluster, &names).await;
    let steps = workers.while_they_work(move |workers| {
        workers.more_rounds("the workers work");
        let follow =
            format!("{SCRAMBLED}  layer:scramble w data/r* 1KiB.. -> target {away} follow\n");
        put(&cluster, folder.path(), &follow);
        let routed = || number(status(&cluster, &home).as_ref(), "routed_bytes");
        eventually_blocking("writes go elsewhere", || routed() > Some(0));
        workers.more_rounds("the workers go on with bytes elsewhere");
        kill(cluster.pid_of(&away).unwrap());
        workers.more_rounds("the workers go on after a node with routed bytes was killed");
        kill(cluster.pid_of(&home).unwrap());
        workers.more_rounds("the workers go on after the home was killed");
        put(&cluster, folder.path(), SCRAMBLED);
        wait_until_home(&cluster, &home);
        kill(cluster.pid_of(&home).unwrap());
        workers.more_rounds("the workers go on after the home was killed again");
        (folder, cluster)
    });
    drop(steps.await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failing_waypoint_fails_only_its_own_io_and_is_reported_once() {
    let (folder, cluster) = cluster();
    let (names, home, _) = places(&cluster, 1).await;
    let client = Cluster::connect(cluster.folder()).await.unwrap();
    // Bytes of the value 200 are lost at this offset only, which the dry run does not try.
    let source = "function encode(offset, bytes)\n  if offset == 7000 then\n    \
                  buffer.writeu8(bytes, 0, 0)\n  end\n  if offset == 8000 then error(\"no idea\") end\nend\n\
                  function decode() end\n";
    activate(&cluster, folder.path(), "faulty", source);
    put(&cluster, folder.path(), "application f on every\n  * rw data/r* -> waypoint faulty\n");
    let object = object(&client, &format!("data/{}", names[0])).await;
    object.write(0, vec![200_u8; 9000]).await.unwrap();
    let lost = object.write(7000, vec![200_u8; 10]).await.unwrap_err();
    assert!(lost.to_string().contains("`decode` does not undo `encode` at offset 7000"), "{lost}");
    for _ in 0..3 {
        let failed = object.write(8000, vec![1_u8; 10]).await.unwrap_err();
        let site = failed.fault().cloned().unwrap_or_else(|| panic!("{failed}"));
        assert_eq!((site.program.as_str(), site.line), ("waypoint/faulty", Some(5)), "{failed}");
    }
    assert!(object.read(0, 9000).await.unwrap() == vec![200_u8; 9000], "no failed write is stored");
    object.write(1, "other IO goes on").await.unwrap();
    eventually_blocking("the failure is reported", || {
        cluster.run(&["events"]).contains("waypoint/faulty@1 line 5")
    });
    assert_eq!(cluster.run(&["events"]).matches("no idea").count(), 1);
    assert_eq!(count(&cluster, &home, "faulty", "faults"), 4);
    let status = cluster.run(&["route", "status"]);
    assert!(status.contains("4 failed because the program failed"), "{status}");
}

/// Writes objects at the same time.
async fn write_all(
    client: &Cluster,
    names: &[String],
) -> Vec<tokio::task::JoinHandle<Result<(), Error>>> {
    let mut tasks = vec![];
    for name in names {
        let object = object(client, &format!("data/{name}")).await;
        tasks.push(tokio::spawn(async move { object.write(0, "abc").await }));
    }
    tasks
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waypoint_keeps_its_rate_and_rules_change_while_io_waits() {
    /// The cost that the program lets go on each second, at once, and the IOs that wait.
    const RATE: f64 = 0.5;
    const BURST: u64 = 3;
    const QUEUE: u64 = 6;
    let (folder, cluster) = cluster();
    let (names, home, _) = places(&cluster, 20).await;
    let client = Cluster::connect(cluster.folder()).await.unwrap();
    let source = format!(
        "limit = {{ rate = {RATE}, burst = {BURST}, queue = {QUEUE} }}\n\
         function price() return 1 end\n"
    );
    let began = Instant::now();
    activate(&cluster, folder.path(), "slow", &source);
    put(&cluster, folder.path(), "application l on every\n  * w data/r* -> waypoint slow\n");
    let counted = |what: &str| count(&cluster, &home, "slow", what);
    let tasks = write_all(&client, &names).await;
    eventually_blocking("the queue is full, and all other IO has gone on or was refused", || {
        counted("passed") + counted("waiting") + counted("refused") == names.len() as u64
    });
    let (passed, refused) = (counted("passed"), counted("refused"));
    let promised = BURST as f64 + RATE * began.elapsed().as_secs_f64();
    assert!(passed >= BURST && passed as f64 <= promised, "{passed} of {promised} at most");
    assert!(refused >= 1 && passed + refused + QUEUE >= names.len() as u64, "{passed} {refused}");
    // Reads do not match the rule.
    assert_eq!(
        object(&client, "data/plain").await.read(0, 9).await.unwrap_err().kind(),
        ErrorKind::NotFound
    );
    let waiting = counted("waiting");
    assert!(waiting >= 1, "some IO waits");
    cluster.run(&["route", "rm", "l"]);
    let (mut done, mut exhausted) = (0, 0);
    for task in tasks {
        match task.await.unwrap() {
            Ok(()) => done += 1,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Exhausted, "{error}");
                assert!(
                    error.to_string().contains("queue of the waypoint slow is full"),
                    "{error}"
                );
                exhausted += 1;
            }
        }
    }
    assert_eq!((done, exhausted), (names.len() as u64 - refused, refused));
    let released = counted("passed") as f64;
    let promised = BURST as f64 + RATE * began.elapsed().as_secs_f64();
    assert!(released <= promised, "the others went home without the waypoint");
}
