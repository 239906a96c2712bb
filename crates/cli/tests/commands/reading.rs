//! Tests reading and writing of content of any size. A read sees one version of an object.

use std::fs::{File, Permissions};
use std::io::{Read, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::{Child, Output, Stdio};

use futures::{StreamExt, stream};
use nacre::{Cluster, Object};
use nacre_object::limits::{MAX_MAP_RANGE_ENTRIES, MAX_OBJECT_BYTES, MAX_REPLY_BYTES};
use nacre_object::{MapEntry, Op};
use rustix::process::{Pid, Signal, kill_process};

use crate::common::RunningCluster;

/// Far more than a command may hold of it in memory.
const LARGE: usize = 120 * 1024 * 1024;
/// What a command may take of memory, its own code included.
const MAX_PEAK_KIB: u64 = 96 * 1024;
const _: () = assert!(LARGE < MAX_OBJECT_BYTES as usize && MAX_PEAK_KIB as usize * 1024 < LARGE);

fn large_content() -> Vec<u8> {
    (0..LARGE / 8)
        .flat_map(|number| (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes())
        .collect()
}

/// Starts a command whose input and output are pipes. A pipe holds 64 KiB, so a command with more
/// output blocks until the test reads it.
fn start(cluster: &RunningCluster, arguments: &[&str]) -> Child {
    let mut command = cluster.command(arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn finish(child: Child) -> (Option<i32>, String) {
    let Output { status, stderr, .. } = child.wait_with_output().unwrap();
    (status.code(), String::from_utf8(stderr).unwrap())
}

/// Reads the first bytes that a command prints. Its first request has been answered by then.
fn begin_reading(child: &mut Child) {
    child.stdout.as_mut().unwrap().read_exact(&mut [0; 16]).unwrap();
}

fn peak_kib(child: &Child) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

async fn object(cluster: &RunningCluster, name: &str) -> Object {
    let client = Cluster::connect(cluster.folder()).await.unwrap();
    client.object(&name.parse().unwrap()).await.unwrap()
}

#[test]
fn large_content_goes_in_and_comes_out_with_little_memory() {
    let cluster = RunningCluster::start();
    let content = large_content();
    let mut put = start(&cluster, &["object", "put", "data/large", "-"]);
    let mut input = put.stdin.take().unwrap();
    input.write_all(&content).unwrap();
    // The command holds only some MiB, so it has sent the rest by now.
    let peak = peak_kib(&put);
    drop(input);
    let (status, said) = finish(put);
    assert_eq!(status, Some(0), "{said}");
    assert!(peak < MAX_PEAK_KIB, "the put took {peak} KiB");

    let mut get = start(&cluster, &["object", "get", "data/large"]);
    // Leave more output unread than fits into the pipe. Then the command still runs when the test
    // reads its memory use.
    let mut got = vec![0; LARGE - (1 << 20)];
    let mut output = get.stdout.take().unwrap();
    output.read_exact(&mut got).unwrap();
    let peak = peak_kib(&get);
    output.read_to_end(&mut got).unwrap();
    assert_eq!(finish(get).0, Some(0));
    assert!(got == content, "the content is the same");
    assert!(peak < MAX_PEAK_KIB, "the get took {peak} KiB");

    let path = cluster.folder().join("large");
    let file = path.to_str().unwrap();
    let link = cluster.folder().join("link");
    File::create(&path).unwrap().set_permissions(Permissions::from_mode(0o640)).unwrap();
    symlink(&path, &link).unwrap();
    let linked = link.to_str().unwrap();
    cluster.run(&["object", "get", "data/large", "--offset", "5", "-o", linked]);
    assert!(std::fs::read(&path).unwrap() == content[5..]);
    assert!(link.is_symlink(), "what it leads to is replaced");
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
    // Test several names, on whichever targets they are.
    File::options().write(true).open(&path).unwrap().set_len(9_000_000).unwrap();
    for name in ["data/a", "data/b{tag}", "data/c}{d", "data/e/f"] {
        cluster.run(&["object", "put", name, file]);
        assert_eq!(cluster.json(&["object", "stat", name])["size"], 9_000_000, "{name}");
    }
    let names = cluster.run(&["object", "ls", "data"]);
    assert_eq!(names, "a\nb{tag}\nc}{d\ne/f\nlarge\n", "nothing else is left");

    File::options().write(true).open(&path).unwrap().set_len(MAX_OBJECT_BYTES + 1).unwrap();
    let (status, said) = cluster.fails(&["object", "put", "data/large", file]);
    assert!(status == 1 && said.contains(&format!("more than {MAX_OBJECT_BYTES} bytes")), "{said}");
    assert_eq!(cluster.json(&["object", "stat", "data/large"])["size"], LARGE);
}

#[test]
fn an_interrupted_put_changes_nothing_and_leaves_nothing() {
    let cluster = RunningCluster::start();
    cluster.run_with_input(&["object", "put", "data/a"], "old");
    let mut put = start(&cluster, &["object", "put", "data/a", "-"]);
    put.stdin.as_mut().unwrap().write_all(&vec![1; 20 << 20]).unwrap();
    kill_process(Pid::from_raw(put.id().cast_signed()).unwrap(), Signal::INT).unwrap();
    // Its input stays open: only the signal ends it.
    let input = put.stdin.take();
    let (status, said) = finish(put);
    drop(input);
    assert_eq!(status, Some(130), "{said}");
    assert!(said.contains("holds what it held before"), "{said}");
    assert_eq!(cluster.run(&["object", "get", "data/a"]), "old");
    assert_eq!(cluster.run(&["object", "ls", "data"]), "a\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_in_parts_sees_one_version_or_ends_with_conflict() {
    let cluster = RunningCluster::start();
    let object = object(&cluster, "data/o").await;
    let entry = |n| MapEntry { key: format!("{n:050}").into(), value: "v".into() };
    let entries = (0..MAX_MAP_RANGE_ENTRIES + 10).map(entry).collect();
    object.transaction().op(Op::MapSet { entries }).commit().await.unwrap();
    let content = vec![b'x'; MAX_REPLY_BYTES + 10];
    object.put(stream::iter([Ok(content.into())])).await.unwrap();

    for reading in [&["object", "get", "data/o"][..], &["object", "map", "ls", "data/o"]] {
        for json in [&[][..], &["--json"]] {
            // In JSON the content is one document, which is printed when it is complete.
            if reading[1] == "get" && !json.is_empty() {
                continue;
            }
            let mut reader = start(&cluster, &[reading, json].concat());
            begin_reading(&mut reader);
            object.write(0, "changed").await.unwrap();
            let (status, said) = finish(reader);
            assert_eq!(status, Some(1), "{reading:?}: {said}");
            assert!(said.contains("conflict"), "{reading:?}: {said}");
            let undisturbed = cluster.run(&[reading, json].concat());
            assert!(undisturbed.len() > MAX_MAP_RANGE_ENTRIES, "{reading:?}");
        }
    }
    let pages = ["object", "map", "ls", "data/o", "--limit", "2", "--after"];
    let page = cluster.run(&[&pages[..], &[&format!("{:050}", 7)]].concat());
    assert_eq!(page.lines().count(), 3, "a header and two entries: {page}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_listing_has_every_name_that_exists_during_the_whole_listing() {
    let cluster = RunningCluster::start();
    let client = Cluster::connect(cluster.folder()).await.unwrap();
    let pool = client.pool("data").await.unwrap();
    let name = |number: u32| format!("{number:0100}");
    let create = async |number| pool.object(&name(number)).unwrap().create(true).await.unwrap();
    // A page has 1,000 names. The numbers 0, 10, 20 … are there from the beginning.
    stream::iter(0..2500).map(|number| create(number * 10)).buffer_unordered(64).count().await;

    let mut listing = start(&cluster, &["object", "ls", "data"]);
    begin_reading(&mut listing);
    for removed in [20, 20_020] {
        pool.object(&name(removed)).unwrap().remove().await.unwrap();
    }
    create(11).await;
    create(20_011).await;
    let output = listing.wait_with_output().unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    // The first bytes were read above.
    let listed: Vec<u32> = printed.lines().map(|line| line.parse().unwrap()).collect();
    let before = (0..2500).map(|number| number * 10);
    let mut expected: Vec<_> = before.filter(|number| *number != 20_020).chain([20_011]).collect();
    expected.sort_unstable();
    assert_eq!(
        listed, expected,
        "pages before the change are as they were, later ones as they are"
    );
}

#[test]
fn a_log_that_is_trimmed_while_it_is_read_ends_the_read_with_conflict() {
    let cluster = RunningCluster::start();
    cluster.run(&["log", "create", "l"]);
    let lines: String = (0..3000).map(|n| format!("{n:0200}\n")).collect();
    cluster.run_with_input(&["log", "append", "l"], &lines);
    let mut reader = start(&cluster, &["log", "read", "l"]);
    begin_reading(&mut reader);
    cluster.run(&["log", "trim", "l", "1500", "--to"]);
    let (status, said) = finish(reader);
    assert_eq!(status, Some(1), "{said}");
    assert!(said.contains("conflict") && said.contains("trimmed while it was read"), "{said}");
    let kept = &lines[1501 * 201..];
    assert_eq!(cluster.run(&["log", "read", "l"]), kept, "what was trimmed before is no conflict");

    // A record that was given up alone is left out.
    cluster.run(&["log", "trim", "l", "2000"]);
    assert_eq!(cluster.run(&["log", "read", "l"]).len(), kept.len() - 201);
}
