//! Benchmark of the engine's byte streams and maps: many small writes, and reads of 1 MiB. Each run
//! measures a raw file beside them for comparison:
//!
//! ```text
//! cargo run --release -p nacre-embedded --example layout [-- SECONDS [FOLDER [FIGURE]]]
//! ```
//!
//! Each writer is a task that waits until its write is durable before it sends the next. The raw
//! file is preallocated and has no format. Its writes are collected into groups, and each group is
//! written and synced at once. Two ways to do that are measured: a thread of its own commits all
//! groups, or one of the waiting tasks commits for the others.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use bytes::Bytes;
use nacre_clock::{Clock, Random, SystemClock};
use nacre_embedded::{EmbeddedEngine, Options};
use nacre_object::{MapEntry, NoClasses, ObjectId, Op, OpResult, Request, Store};
use tokio::sync::oneshot;

const WRITERS: usize = 64;
/// Times each figure is measured; the median counts.
const ROUNDS: usize = 3;
const SMALL: usize = 128;
const BLOCK: usize = 4096;
const LARGE: usize = 1024 * 1024;
/// Bytes of the streams that are read.
const STREAM: usize = 16 * LARGE;
/// Length of the raw file; writing starts over at its end.
const RAW_BYTES: usize = 64 * LARGE;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let seconds = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(3.0);
    let base = arguments.next().unwrap_or_else(|| ".".to_owned());
    let only = arguments.next().unwrap_or_default();
    let folder = tempfile::TempDir::new_in(base).expect("the folder can be written");
    let bench = Bench { clock: SystemClock::default(), span: Duration::from_secs_f64(seconds) };
    let runtime = tokio::runtime::Runtime::new().expect("threads can be started");

    println!("{WRITERS} waiting writers, {ROUNDS} times {seconds} s each, medians\n");
    println!(
        "{:<26} {:>22} {:>22} {:>22}",
        "writes/s (CPU us each)", "ours", "raw, thread", "raw, leader"
    );
    for (name, size, op) in writes().into_iter().filter(|(name, ..)| name.contains(&only)) {
        // The figures are measured in turns, because a shared machine is not equally fast in each
        // second.
        let mut figures = [(); 3].map(|()| Vec::new());
        for round in 0..ROUNDS {
            let store = folder.path().join(format!("{name} {round}"));
            figures[0].push(bench.ours(&runtime, &store, op));
            std::fs::remove_dir_all(store).expect("the engine has let go of it");
            figures[1].push(bench.raw_by_thread(&runtime, folder.path(), size));
            figures[2].push(bench.raw_by_leader(folder.path(), size));
        }
        let [ours, thread, leader] = figures.map(median);
        let cell = |figure: Figure| format!("{:.0} ({:.1})", figure.rate, figure.cpu_micros);
        println!(
            "{name:<26} {:>22} {:>22} {:>22}   {:.2} of thread, {:.2} of leader",
            cell(ours),
            cell(thread),
            cell(leader),
            ours.rate / thread.rate,
            ours.rate / leader.rate
        );
    }

    println!("\n{:<34} {:>10} {:>10}", "reads of 1 MiB, microseconds", "first", "again");
    let (first, again) = bench.raw_reads(folder.path());
    println!("{:<34} {first:>10.0} {again:>10.0}", "raw file");
    for (name, piece) in [
        ("stream of 128 B appends", SMALL),
        ("stream of 4 KiB appends", BLOCK),
        ("stream of 1 MiB writes", LARGE),
    ] {
        let (first, again) = bench.reads(&runtime, &folder.path().join(name), piece);
        println!("{name:<34} {first:>10.0} {again:>10.0}");
    }
}

/// What came of one run.
#[derive(Debug, Clone, Copy)]
struct Figure {
    /// Writes a second.
    rate: f64,
    /// CPU time of the whole process for one write, waiting tasks included.
    cpu_micros: f64,
}

fn median(mut figures: Vec<Figure>) -> Figure {
    figures.sort_by(|a, b| a.rate.total_cmp(&b.rate));
    figures[figures.len() / 2]
}

/// CPU time this process has used, in microseconds.
fn cpu_micros() -> f64 {
    /// `/proc` counts in ticks of 10 ms on every Linux there is.
    const TICK_MICROS: f64 = 10_000.0;
    let stat = std::fs::read_to_string("/proc/self/stat").expect("Linux has it");
    let (_, fields) = stat.rsplit_once(") ").expect("the name is in parentheses");
    let ticks =
        fields.split(' ').skip(11).take(2).map(|field| field.parse::<f64>().expect("ticks"));
    ticks.sum::<f64>() * TICK_MICROS
}

type MakeOp = fn(writer: usize, n: u64) -> Op;

fn writes() -> [(&'static str, usize, MakeOp); 7] {
    fn data(size: usize) -> Bytes {
        Bytes::from(vec![7; size])
    }
    fn rewrite(n: u64, block: usize) -> Op {
        let start = n as usize * SMALL / block * block;
        let end = (n as usize + 1) * SMALL;
        Op::Write { offset: start as u64, data: data(end - start) }
    }
    fn entry(n: u64, size: usize) -> Op {
        let key = Bytes::copy_from_slice(&n.to_be_bytes());
        Op::MapSet { entries: vec![MapEntry { key, value: data(size) }] }
    }
    [
        ("append 128 B", SMALL, |_, _| Op::Append { data: data(SMALL) }),
        // The cost of an append to a stream that is kept in blocks of a fixed size: it rewrites the
        // filled part of the last block.
        ("128 B, fixed 4 KiB blocks", SMALL, |_, n| rewrite(n, BLOCK)),
        ("128 B, fixed 64 KiB blocks", SMALL, |_, n| rewrite(n, 16 * BLOCK)),
        ("map_set 128 B", SMALL, |_, n| entry(n, SMALL)),
        ("append 4 KiB", BLOCK, |_, _| Op::Append { data: data(BLOCK) }),
        ("overwrite 4 KiB of 4 MiB", BLOCK, |writer, n| {
            let block = Random::seeded(n * WRITERS as u64 + writer as u64).below(1024);
            Op::Write { offset: block * BLOCK as u64, data: data(BLOCK) }
        }),
        ("map_set 4 KiB", BLOCK, |_, n| entry(n, BLOCK)),
    ]
}

struct Bench {
    clock: SystemClock,
    span: Duration,
}

impl Bench {
    fn open(&self, folder: &Path) -> EmbeddedEngine {
        let clock = Arc::new(SystemClock::default());
        EmbeddedEngine::open(Options::new(folder, Arc::new(NoClasses), clock)).expect("it opens")
    }

    /// Transactions of the engine a second.
    #[expect(clippy::disallowed_methods, reason = "an example reads its own settings")]
    fn ours(&self, runtime: &tokio::runtime::Runtime, folder: &Path, op: MakeOp) -> Figure {
        let engine = self.open(folder);
        let (done, stop) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let started = self.clock.monotonic();
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let (engine, done, stop) = (engine.clone(), done.clone(), stop.clone());
                runtime.spawn(async move {
                    let object: ObjectId = format!("bench/{writer}").parse().expect("a name");
                    for n in 0.. {
                        if stop.load(Ordering::Relaxed) {
                            return;
                        }
                        let request = Request::new(object.clone(), vec![op(writer, n)]);
                        engine.submit(request.expect("well formed")).await.expect("it works");
                        done.fetch_add(1, Ordering::Relaxed);
                    }
                })
            })
            .collect();
        let figure = self.stop_after_span(&done, &stop, started);
        runtime.block_on(async {
            for writer in writers {
                writer.await.expect("no writer panics");
            }
        });
        if std::env::var("VERBOSE").is_ok() {
            let stats = engine.stats();
            println!("{stats:?} {:.1} a group", stats.transactions as f64 / stats.groups as f64);
        }
        engine.close();
        figure
    }

    fn stop_after_span(&self, done: &AtomicU64, stop: &AtomicBool, started: Duration) -> Figure {
        let cpu = cpu_micros();
        let (guard, never) = (Mutex::new(()), Condvar::new());
        drop(never.wait_timeout(guard.lock().expect("unshared"), self.span));
        let done = done.load(Ordering::Relaxed) as f64;
        let rate = done / (self.clock.monotonic() - started).as_secs_f64();
        let cpu_micros = (cpu_micros() - cpu) / done;
        stop.store(true, Ordering::Relaxed);
        Figure { rate, cpu_micros }
    }

    /// Writes to a raw file for one second: a thread commits the writes of waiting tasks.
    fn raw_by_thread(
        &self,
        runtime: &tokio::runtime::Runtime,
        folder: &Path,
        size: usize,
    ) -> Figure {
        type Waiting = (Vec<u8>, Option<oneshot::Sender<()>>);
        let (sender, receiver) = std::sync::mpsc::channel::<Waiting>();
        let file = raw_file(folder);
        let committer = std::thread::spawn(move || {
            let mut offset = 0;
            let mut group = Vec::new();
            while let Ok(first) = receiver.recv() {
                let mut waiting: Vec<Waiting> = vec![first];
                waiting.extend(receiver.try_iter());
                group.clear();
                waiting.iter().for_each(|(data, _)| group.extend_from_slice(data));
                write_and_sync(&file, &mut offset, &group);
                for (_, reply) in waiting {
                    reply.map(|reply| reply.send(()));
                }
            }
        });
        let (done, stop) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let started = self.clock.monotonic();
        let writers: Vec<_> = (0..WRITERS)
            .map(|_| {
                let (sender, done, stop) = (sender.clone(), done.clone(), stop.clone());
                runtime.spawn(async move {
                    while !stop.load(Ordering::Relaxed) {
                        let (reply, answer) = oneshot::channel();
                        sender.send((vec![7; size], Some(reply))).expect("it listens");
                        answer.await.expect("it answers");
                        done.fetch_add(1, Ordering::Relaxed);
                    }
                })
            })
            .collect();
        let figure = self.stop_after_span(&done, &stop, started);
        runtime.block_on(async {
            for writer in writers {
                writer.await.expect("no writer panics");
            }
        });
        drop(sender);
        committer.join().expect("it ends");
        figure
    }

    /// Writes to a raw file for one second: of the threads that wait, one commits for all.
    fn raw_by_leader(&self, folder: &Path, size: usize) -> Figure {
        #[derive(Default)]
        struct State {
            filling: Vec<u8>,
            group: u64,
            durable: u64,
            offset: usize,
            led: bool,
        }
        let shared = Arc::new((
            Mutex::new(State { group: 1, ..State::default() }),
            Condvar::new(),
            raw_file(folder),
        ));
        let (done, stop) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let started = self.clock.monotonic();
        let writers: Vec<_> = (0..WRITERS)
            .map(|_| {
                let (shared, done, stop) = (shared.clone(), done.clone(), stop.clone());
                std::thread::spawn(move || {
                    let (state, synced, file) = &*shared;
                    while !stop.load(Ordering::Relaxed) {
                        let data = vec![7; size];
                        let mut state_now = state.lock().expect("no panic");
                        state_now.filling.extend_from_slice(&data);
                        let group = state_now.group;
                        while state_now.durable < group {
                            if state_now.led {
                                state_now = synced.wait(state_now).expect("no panic");
                                continue;
                            }
                            state_now.led = true;
                            let bytes = std::mem::take(&mut state_now.filling);
                            let (number, mut offset) = (state_now.group, state_now.offset);
                            state_now.group += 1;
                            drop(state_now);
                            write_and_sync(file, &mut offset, &bytes);
                            state_now = state.lock().expect("no panic");
                            state_now.offset = offset;
                            state_now.durable = number;
                            state_now.led = false;
                            synced.notify_all();
                        }
                        drop(state_now);
                        done.fetch_add(1, Ordering::Relaxed);
                    }
                })
            })
            .collect();
        let figure = self.stop_after_span(&done, &stop, started);
        writers.into_iter().for_each(|writer| writer.join().expect("no writer panics"));
        figure
    }

    /// Microseconds for 1 MiB of a stream: after opening the store, and again.
    fn reads(&self, runtime: &tokio::runtime::Runtime, folder: &Path, piece: usize) -> (f64, f64) {
        let object: ObjectId = "bench/stream".parse().expect("a name");
        let engine = self.open(folder);
        runtime.block_on(async {
            // Append to two streams in turn, because a real store also has many growing streams.
            let other: ObjectId = "bench/other".parse().expect("a name");
            let ops_at_once = (256 * 1024 / piece).clamp(1, 512);
            for _ in 0..STREAM / piece / ops_at_once {
                for object in [&object, &other] {
                    let ops = vec![Op::Append { data: Bytes::from(vec![7; piece]) }; ops_at_once];
                    let request = Request::new(object.clone(), ops).expect("well formed");
                    engine.submit(request).await.expect("it works");
                }
            }
        });
        engine.close();
        let engine = self.open(folder);
        let read_all = || {
            let started = self.clock.monotonic();
            for offset in (0..STREAM).step_by(LARGE) {
                let op = Op::Read { offset: offset as u64, length: LARGE as u64 };
                let request = Request::new(object.clone(), vec![op]).expect("well formed");
                let reply = runtime.block_on(engine.submit(request)).expect("it works");
                assert!(matches!(&reply.results[0], OpResult::Data(data) if data.len() == LARGE));
            }
            (self.clock.monotonic() - started).as_secs_f64() * 1e6 / (STREAM / LARGE) as f64
        };
        (read_all(), read_all())
    }

    fn raw_reads(&self, folder: &Path) -> (f64, f64) {
        let file = raw_file(folder);
        let read_all = || {
            let started = self.clock.monotonic();
            for offset in (0..STREAM).step_by(LARGE) {
                let mut data = vec![0; LARGE];
                file.read_exact_at(&mut data, offset as u64).expect("it can be read");
            }
            (self.clock.monotonic() - started).as_secs_f64() * 1e6 / (STREAM / LARGE) as f64
        };
        (read_all(), read_all())
    }
}

/// A file whose blocks have all been written.
fn raw_file(folder: &Path) -> File {
    let path = folder.join("raw");
    let file = OpenOptions::new().create(true).truncate(true).read(true).write(true).open(path);
    let file = file.expect("the folder can be written");
    for offset in (0..RAW_BYTES).step_by(LARGE) {
        file.write_all_at(&vec![0; LARGE], offset as u64).expect("there is room");
    }
    file.sync_all().expect("it can be synced");
    file
}

fn write_and_sync(file: &File, offset: &mut usize, group: &[u8]) {
    if *offset + group.len() > RAW_BYTES {
        *offset = 0;
    }
    file.write_all_at(group, *offset as u64).expect("there is room");
    file.sync_data().expect("it can be synced");
    *offset += group.len();
}
