//! Benchmark: the cost of recording, in nanoseconds. It measures a counter and a histogram as one
//! request uses them, the check for a trace in untraced work, and a span of traced work. `cargo run
//! --release -p nacre-telemetry --example record_cost`

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use nacre_clock::{Clock, Random, SystemClock};
use nacre_telemetry::{Counter, Durations, OpenSpan, Spans};

const REQUESTS: u64 = 20_000_000;

fn main() {
    let clock = SystemClock::default();
    let (counter, durations) = (Counter::default(), Durations::default());
    let nanos = |spent: Duration| spent.as_nanos() as f64 / REQUESTS as f64;
    let begin = clock.monotonic();
    for request in 0..REQUESTS {
        black_box(&counter).add(1);
        black_box(&durations).record_duration(Duration::from_nanos(black_box(request)));
    }
    println!("counter and histogram: {:.1} ns", nanos(clock.monotonic() - begin));
    let begin = clock.monotonic();
    for _ in 0..REQUESTS {
        black_box(clock.monotonic());
    }
    println!("a clock reading: {:.1} ns", nanos(clock.monotonic() - begin));
    let begin = clock.monotonic();
    for _ in 0..REQUESTS {
        black_box(OpenSpan::here("part"));
    }
    println!("a border, untraced: {:.1} ns", nanos(clock.monotonic() - begin));
    let spans = Spans::new(Arc::new(clock.clone()), Random::seeded(1));
    let trace = spans.begin("whole").trace();
    let begin = clock.monotonic();
    for _ in 0..REQUESTS {
        black_box(trace.begin("part"));
    }
    println!("a span: {:.1} ns", nanos(clock.monotonic() - begin));
}
