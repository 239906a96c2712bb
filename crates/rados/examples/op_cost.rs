//! Benchmark: the cost of an operation through the engine, on a running cluster. Usage: `op_cost
//! CONF`, where `CONF` is the cluster's configuration file.
//!
//! Prints operations a second and microseconds for each operation, with one and with 32 operations
//! in flight.

use std::sync::Arc;

use futures::StreamExt;
use nacre_clock::{Clock, SystemClock};
use nacre_conformance::TestClasses;
use nacre_conformance::ops::{append, call, map_get, map_set, write};
use nacre_object::{ObjectId, Op, Request, Store};
use nacre_rados::{RadosEngine, RadosOptions};

/// Objects that operations are spread over.
const OBJECTS: usize = 64;
/// Bytes of one operation.
const BYTES: usize = 128;

/// An op, made from its number.
type Make = fn(usize) -> Op;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let conf = std::env::args().nth(1).ok_or("usage: op_cost CONF")?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
    let options: RadosOptions = format!("ceph:{conf}").parse()?;
    let engine = RadosEngine::connect(options, Arc::new(TestClasses), clock.clone()).await?;
    let kinds: [(&str, Make); 5] = [
        ("write", |_| write(0, vec![b'x'; BYTES])),
        ("map-set", |i| map_set([(format!("k{}", i % 100), vec![b'x'; BYTES])])),
        ("map-get", |i| map_get([format!("k{}", i % 100)])),
        ("append", |_| append(vec![b'x'; BYTES])),
        ("call", |_| call("count", "")),
    ];
    for (name, make) in kinds {
        for (depth, count) in [(1, 2_000), (32, 20_000)] {
            let start = clock.now_micros();
            let requests = (0..count).map(|i| {
                let object: ObjectId = format!("cost/{name}-{}", i % OBJECTS).parse()?;
                Request::new(object, vec![make(i)])
            });
            let requests: Vec<Request> = requests.collect::<Result<_, _>>()?;
            let mut running = futures::stream::iter(requests)
                .map(|request| engine.submit(request))
                .buffer_unordered(depth);
            let mut refused = 0;
            while let Some(reply) = running.next().await {
                refused += usize::from(reply.is_err());
            }
            let micros = (clock.now_micros() - start) as f64;
            let (rate, each) = (count as f64 / micros * 1e6, micros / count as f64 * depth as f64);
            println!("{name} depth {depth}: {rate:.0}/s, {each:.0} us each, {refused} refused");
        }
    }
    Ok(())
}
