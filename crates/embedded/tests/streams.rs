//! Tests of byte streams that are written in all sorts of ways.

mod support;

use bytes::Bytes;
use nacre_clock::Random;
use nacre_embedded::EmbeddedEngine;
use nacre_object::limits::{MAX_OBJECT_BYTES, MAX_OPS};
use nacre_object::{ErrorKind, Op, OpResult};
use support::{SimDisk, answer, append, object, open_on, options, read_all, submit};
use tempfile::TempDir;

const KIB: usize = 1024;

fn content(n: usize, size: usize) -> Bytes {
    (0..size).map(|i| (n * 13 + i * 7) as u8).collect::<Vec<_>>().into()
}

fn write(offset: usize, data: Bytes) -> Op {
    Op::Write { offset: offset as u64, data }
}

#[tokio::test]
async fn a_stream_of_small_appends_becomes_a_few_extents() {
    let folder = TempDir::new().unwrap();
    let engine = EmbeddedEngine::open(options(folder.path())).unwrap();
    let mut expected = Vec::new();
    for n in 0..200 {
        let ops: Vec<_> = (0..50).map(|i| append(content(n * 50 + i, 128))).collect();
        (0..50).for_each(|i| expected.extend_from_slice(&content(n * 50 + i, 128)));
        submit(&engine, &object("a"), ops).await.unwrap();
    }
    let length = expected.len() as u64;
    assert!(
        answer(&engine, &object("a"), read_all()).await.unwrap() == OpResult::Data(expected.into())
    );
    // All bytes except the tail are in payloads, each byte once.
    let live = engine.stats().live_bytes;
    let tail = 32 * KIB as u64;
    assert!((length - tail..=length).contains(&live), "{live}");
}

#[tokio::test]
async fn a_large_truncation_is_refused_beyond_a_bound_and_works_in_steps() {
    let folder = TempDir::new().unwrap();
    let engine = EmbeddedEngine::open(options(folder.path())).unwrap();
    let id = object("a");
    // A few more than the longest object has if it was written one KiB at a time.
    let count = MAX_OBJECT_BYTES as usize / KIB + 100;
    let places: Vec<usize> = (1..=count).map(|n| n * 512).collect();
    for places in places.chunks(MAX_OPS) {
        let writes = places.iter().map(|&place| write(place, Bytes::from_static(&[1])));
        submit(&engine, &id, writes.collect()).await.unwrap();
    }
    let truncate = |size: usize| vec![Op::Truncate { size: size as u64 }];
    let error = submit(&engine, &id, truncate(1)).await.unwrap_err();
    assert_eq!((error.kind(), error.operation()), (ErrorKind::Exhausted, Some("truncate")));
    let last = Op::Read { offset: (count * 512) as u64, length: 2 };
    assert_eq!(answer(&engine, &id, last).await.unwrap(), OpResult::Data(vec![1].into()));
    submit(&engine, &id, truncate(count * 256)).await.unwrap();
    submit(&engine, &id, truncate(1)).await.unwrap();
    assert_eq!(answer(&engine, &id, read_all()).await.unwrap(), OpResult::Data(vec![0].into()));
}

/// Applies an op to a model of a stream.
fn change(stream: &mut Vec<u8>, op: &Op) {
    match op {
        Op::Append { data } => stream.extend_from_slice(data),
        Op::Write { offset, data } => {
            let (start, end) = (*offset as usize, *offset as usize + data.len());
            stream.resize(stream.len().max(end), 0);
            stream[start..end].copy_from_slice(data);
        }
        Op::Zero { offset, length } => {
            let end = stream.len().min((offset + length) as usize);
            let start = end.min(*offset as usize);
            stream[start..end].fill(0);
        }
        Op::Truncate { size } => stream.resize(*size as usize, 0),
        _ => unreachable!("no change of a stream"),
    }
}

/// Mostly small, and so close to each other that blocks are divided many times over.
fn small_change(random: &mut Random, number: usize, stream: &[u8]) -> Op {
    let offset = random.below(stream.len() as u64 + 50);
    let length = if random.one_in(20) { random.below(9000) } else { random.below(40) + 1 };
    match random.below(200) {
        0 => Op::Truncate { size: offset.max(stream.len() as u64 / 2) },
        1..20 => Op::Zero { offset, length },
        20..60 => append(content(number, length as usize)),
        _ => write(offset as usize, content(number, length as usize)),
    }
}

#[tokio::test]
async fn many_small_changes_give_the_stream_that_a_model_gives() {
    for seed in 0..4 {
        println!("seed {seed}");
        let (mut random, disk) = (Random::seeded(seed), SimDisk::default());
        let folder = TempDir::new().unwrap();
        let mut engine = open_on(&disk, folder.path()).unwrap();
        let id = object("a");
        let mut stream = content(0, 150 * KIB).to_vec();
        submit(&engine, &id, vec![append(stream.clone())]).await.unwrap();
        for round in 0..200 {
            let ops = (0..20).map(|n| {
                let op = small_change(&mut random, round * 20 + n, &stream);
                change(&mut stream, &op);
                op
            });
            let ops = ops.collect();
            submit(&engine, &id, ops).await.unwrap();
            let [one, other] = [(); 2].map(|()| random.below(stream.len() as u64) as usize);
            let (start, end) = (one.min(other), one.max(other));
            let read = Op::Read { offset: start as u64, length: (end - start) as u64 };
            let expected = Bytes::copy_from_slice(&stream[start..end]);
            let found = answer(&engine, &id, read).await.unwrap();
            assert!(found == OpResult::Data(expected), "round {round}: {start}..{end}");
            if round % 50 == 49 {
                engine.close();
                engine = open_on(&disk, folder.path()).unwrap();
            }
        }
        assert!(answer(&engine, &id, read_all()).await.unwrap() == OpResult::Data(stream.into()));
    }
}
