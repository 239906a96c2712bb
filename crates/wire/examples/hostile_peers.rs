//! Benchmark: what well-behaved clients notice while others misbehave. It measures the latency of
//! single requests over a Unix socket, alone and beside each kind of attack. Server, attacker and
//! client are separate processes.
//!
//! `cargo run --release -p nacre-wire --example hostile_peers [-- SECONDS]`
//!
//! Each attack is compared with a case `spin`, in which as many threads are busy but do not touch
//! the server. This separates the effect of the attack from that of the busy processor.

use std::error::Error;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use nacre_clock::{Clock, Random, SystemClock};
use nacre_object::NodeName;
use nacre_wire::{Caller, Endpoint, Listener, Server, Service, Session, SessionOptions};

const DEADLINE: Duration = Duration::from_secs(30);
const REQUEST_BYTES: usize = 160;
/// Connections of the attacks that hold many.
const MANY: usize = 2000;
/// Calls that the flooding client keeps in flight.
const FLOOD_DEPTH: usize = 4096;
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

const ATTACKS: [&str; 6] = ["none", "spin", "noise", "idle", "unread", "flood"];

struct Echo;

#[async_trait]
impl Service for Echo {
    async fn ask(&self, _: &Caller, method: &str, input: Bytes) -> nacre_object::Result<Bytes> {
        match method {
            "large" => Ok(Bytes::from(vec![0; 1 << 20])),
            _ => Ok(input),
        }
    }
}

type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["serve", socket] => runtime()?.block_on(serve(socket)),
        ["attack", kind, socket] => attack(kind, socket),
        [] => compare(Duration::from_secs(3)),
        [seconds] => compare(Duration::from_secs(seconds.parse()?)),
        _ => Err("usage: hostile_peers [SECONDS]".into()),
    }
}

fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build()
}

async fn serve(socket: &str) -> Outcome<()> {
    let listener = Listener::bind(&Endpoint::unix(socket)?).await?;
    let server = Server::builder(NodeName::new("node")?, 1).service("echo", Arc::new(Echo)).build();
    println!("ready");
    server.serve(listener, std::future::pending()).await?;
    Ok(())
}

/// A process of this program; ended when dropped.
struct Process(Child);

impl Process {
    /// Starts it and waits until it says that it is ready.
    fn start(arguments: &[&str]) -> Outcome<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(arguments)
            .stdout(Stdio::piped())
            .spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().ok_or("no output")?).read_line(&mut line)?;
        Ok(Self(child))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn compare(duration: Duration) -> Outcome<()> {
    let folder = std::env::temp_dir().join(format!("nacre-hostile-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let socket = folder.join("node.sock").display().to_string();
    let measured = measure_all(&socket, duration);
    std::fs::remove_dir_all(&folder)?;
    measured
}

fn measure_all(socket: &str, duration: Duration) -> Outcome<()> {
    let _server = Process::start(&["serve", socket])?;
    println!(
        "{:8} {:>10} {:>10} {:>10} {:>10}",
        "attack", "requests/s", "p50 µs", "p99 µs", "max µs"
    );
    for kind in ATTACKS {
        let _attacker = Process::start(&["attack", kind, socket])?;
        let mut latencies = runtime()?.block_on(measure(socket, duration))?;
        latencies.sort_unstable();
        let at =
            |share: f64| latencies[((latencies.len() - 1) as f64 * share) as usize].as_micros();
        let rate = latencies.len() as f64 / duration.as_secs_f64();
        println!("{kind:8} {rate:>10.0} {:>10} {:>10} {:>10}", at(0.5), at(0.99), at(1.0));
    }
    Ok(())
}

/// The latencies of a client with one request in flight, on a connection made during the attack.
async fn measure(socket: &str, duration: Duration) -> Outcome<Vec<Duration>> {
    let session = Session::connect(Endpoint::unix(socket)?, SessionOptions::default()).await?;
    let clock = SystemClock::default();
    let input = Bytes::from(vec![b'x'; REQUEST_BYTES]);
    let (started, mut latencies) = (clock.monotonic(), Vec::new());
    while clock.monotonic() - started < duration {
        let before = clock.monotonic();
        session.ask("echo", "echo", input.clone(), DEADLINE).await?;
        latencies.push(clock.monotonic() - before);
    }
    Ok(latencies)
}

/// Misbehaves until it is killed.
fn attack(kind: &str, socket: &str) -> Outcome<()> {
    match kind {
        "none" => ready(),
        "spin" => {
            ready();
            let mut random = Random::seeded(1);
            while random.next_u64() != 0 {}
        }
        "noise" => {
            ready();
            noise(socket);
        }
        "idle" => idle(socket),
        "unread" => runtime()?.block_on(unread(socket))?,
        "flood" => runtime()?.block_on(flood(socket))?,
        _ => return Err(format!("no attack {kind}").into()),
    }
    loop {
        std::thread::park();
    }
}

fn ready() {
    println!("ready");
}

/// Connects, says something senseless and goes, over and over.
fn noise(socket: &str) {
    let mut random = Random::seeded(2);
    loop {
        let Ok(mut stream) = UnixStream::connect(socket) else { continue };
        let bytes: Vec<u8> = (0..random.below(5000)).map(|_| random.next_u64() as u8).collect();
        let _ = stream.write_all(PREFACE);
        let _ = stream.write_all(&bytes);
    }
}

/// Holds thousands of connections that only begin to send something, and replaces those that the
/// server closes.
fn idle(socket: &str) {
    let mut held = std::collections::VecDeque::new();
    let mut said = false;
    loop {
        if let Ok(mut stream) = UnixStream::connect(socket) {
            let _ = stream.write_all(b"P");
            held.push_back(stream);
        }
        if held.len() > MANY {
            held.pop_front();
            if !said {
                ready();
                said = true;
            }
        }
    }
}

/// Requests more than a gigabyte, and then stops its own process, so that it reads nothing of the
/// answer.
async fn unread(socket: &str) -> Outcome<()> {
    let session = Session::connect(Endpoint::unix(socket)?, SessionOptions::default()).await?;
    for _ in 0..FLOOD_DEPTH {
        let session = session.clone();
        tokio::spawn(async move { session.ask("echo", "large", Bytes::new(), DEADLINE).await });
    }
    session.ask("echo", "large", Bytes::new(), DEADLINE).await?;
    ready();
    let own = rustix::process::getpid();
    rustix::process::kill_process(own, rustix::process::Signal::STOP)?;
    Ok(())
}

/// Keeps as many calls in flight as a client may.
async fn flood(socket: &str) -> Outcome<()> {
    let session = Session::connect(Endpoint::unix(socket)?, SessionOptions::default()).await?;
    for _ in 0..FLOOD_DEPTH {
        let session = session.clone();
        tokio::spawn(async move {
            let input = Bytes::from(vec![b'x'; REQUEST_BYTES]);
            while session.ask("echo", "echo", input.clone(), DEADLINE).await.is_ok() {}
        });
    }
    ready();
    std::future::pending().await
}
