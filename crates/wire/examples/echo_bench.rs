//! Benchmark: how many requests a session carries. A service echoes its input; client and server
//! run in one process, over a Unix socket and over loopback TCP.
//!
//! `cargo run --release -p nacre-wire --example echo_bench [-- SECONDS [CLIENTS [DEPTH [BYTES]]]]`
//!
//! Prints three figures, first with many requests in flight and then with one: the requests per
//! second, the microseconds of CPU per request (client and server together), and the latency.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use nacre_clock::{Clock, SystemClock};
use nacre_object::NodeName;
use nacre_wire::{Caller, Endpoint, Listener, Server, Service, Session, SessionOptions};

const DEADLINE: Duration = Duration::from_secs(10);

struct Echo;

#[async_trait]
impl Service for Echo {
    async fn ask(&self, _: &Caller, _: &str, input: Bytes) -> nacre_object::Result<Bytes> {
        Ok(input)
    }
}

/// What is measured.
struct Load {
    clients: usize,
    depth: usize,
    bytes: usize,
    duration: Duration,
}

fn main() -> Result<(), Box<dyn Error>> {
    let numbers: Result<Vec<usize>, _> =
        std::env::args().skip(1).map(|text| text.parse()).collect();
    let numbers = numbers?;
    let number = |index: usize, default| numbers.get(index).copied().unwrap_or(default);
    let duration = Duration::from_secs(number(0, 5) as u64);
    let full =
        Load { clients: number(1, 4), depth: number(2, 256), bytes: number(3, 160), duration };
    let one = Load { clients: 1, depth: 1, ..full };

    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let single = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    for place in ["unix:/tmp/nacre-echo-bench.sock", "127.0.0.1:0"] {
        let kind = place.split(':').next().unwrap_or_default();
        runtime.block_on(measure(&format!("{kind}, all cores"), place.parse()?, &full))?;
        runtime.block_on(measure(&format!("{kind}, all cores"), place.parse()?, &one))?;
        single.block_on(measure(&format!("{kind}, one core"), place.parse()?, &one))?;
    }
    Ok(())
}

async fn measure(name: &str, endpoint: Endpoint, load: &Load) -> Result<(), Box<dyn Error>> {
    let listener = Listener::bind(&endpoint).await?;
    let endpoint = listener.endpoints().remove(0);
    let server =
        Server::builder(NodeName::new("bench")?, 1).service("echo", Arc::new(Echo)).build();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let serving = tokio::spawn(async move {
        let stopped = async {
            let _ = stopped.await;
        };
        server.serve(listener, stopped).await
    });

    let mut sessions = Vec::new();
    for _ in 0..load.clients {
        sessions.push(Session::connect(endpoint.clone(), SessionOptions::default()).await?);
    }
    let clock = SystemClock::default();
    let (cpu, started) = (cpu_seconds()?, clock.monotonic());
    let requests = run(&sessions, load).await?;
    let (cpu, elapsed) = (cpu_seconds()? - cpu, clock.monotonic() - started);

    let seconds = elapsed.as_secs_f64();
    let per_second = requests as f64 / seconds;
    let in_flight = load.clients * load.depth;
    println!(
        "{name}: {in_flight} in flight, {} bytes: {per_second:.0} requests/s, \
         {:.2} us of CPU each, {:.1} us each way and back",
        load.bytes,
        cpu * 1e6 / requests as f64,
        in_flight as f64 / per_second * 1e6,
    );
    drop(sessions);
    let _ = stop.send(());
    serving.await??;
    Ok(())
}

/// Keeps every session busy; the requests that were answered.
async fn run(sessions: &[Session], load: &Load) -> Result<u64, Box<dyn Error>> {
    let stop = Arc::new(AtomicBool::new(false));
    let requests = Arc::new(AtomicU64::new(0));
    let mut callers = tokio::task::JoinSet::new();
    for session in sessions {
        for _ in 0..load.depth {
            let (session, stop, requests) = (session.clone(), stop.clone(), requests.clone());
            let input = Bytes::from(vec![7; load.bytes]);
            callers.spawn(async move {
                let mut answered = 0;
                while !stop.load(Ordering::Relaxed) {
                    let output = session.ask("echo", "say", input.clone(), DEADLINE).await?;
                    assert_eq!(output.len(), input.len());
                    answered += 1;
                }
                requests.fetch_add(answered, Ordering::Relaxed);
                Ok::<(), nacre_object::Error>(())
            });
        }
    }
    tokio::time::sleep(load.duration).await;
    stop.store(true, Ordering::Relaxed);
    while let Some(caller) = callers.join_next().await {
        caller??;
    }
    Ok(requests.load(Ordering::Relaxed))
}

/// CPU time of this process so far, user and system.
fn cpu_seconds() -> Result<f64, Box<dyn Error>> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    // Fields 14 and 15 of /proc/self/stat are the CPU times, in ticks of 1/100 s. Field 2 is the
    // process name in parentheses, which may contain spaces. So count the fields after the last
    // `)`.
    let (_, rest) = stat.rsplit_once(')').ok_or("no name in /proc/self/stat")?;
    let ticks: f64 =
        rest.split_whitespace().skip(11).take(2).map(|t| t.parse::<f64>().unwrap_or(0.0)).sum();
    Ok(ticks / 100.0)
}
