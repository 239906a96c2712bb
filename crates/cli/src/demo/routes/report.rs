//! What the demo prints at the end.

use std::time::Duration;

use serde::Serialize;

use super::load::Served;
use crate::out::table;

/// The whole demo.
#[derive(Debug, Serialize)]
pub(super) struct RouteReport {
    /// The target that the client overloads.
    pub overloaded: String,
    /// What makes targets slow.
    pub limited_by: &'static str,
    /// What each target serves a second at most.
    pub device_requests_per_second: u64,
    /// The second in which the overload begins, and the second in which the burst ends.
    pub burst_seconds: (u64, u64),
    /// The second in which the burst with routing ends. It lasts until what was killed serves again.
    pub burst_end_with_routing: u64,
    pub without_routing: Vec<Second>,
    pub with_routing: Vec<Second>,
    /// What was killed while bytes lay elsewhere: a target that kept such bytes, and on Ceph then also
    /// the gateway that routed.
    pub killed: String,
    /// Bytes that lay elsewhere when the target was killed.
    pub routed_bytes: u64,
    /// How long after the burst all bytes were home and all rules gone.
    pub home_after_seconds: f64,
    pub acknowledged_writes: u64,
    pub verified_reads: u64,
}

/// What the requests that were due in one second saw.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct Second {
    pub requests: usize,
    pub seconds_p50: f64,
    pub seconds_p99: f64,
    pub seconds_max: f64,
}

impl Second {
    fn of(mut latencies: Vec<Duration>) -> Self {
        latencies.sort_unstable();
        let at = |part: f64| {
            let place = (latencies.len() as f64 * part).ceil() as usize;
            latencies.get(place.saturating_sub(1)).map_or(0.0, Duration::as_secs_f64)
        };
        let [seconds_p50, seconds_p99, seconds_max] = [0.5, 0.99, 1.0].map(at);
        Self { requests: latencies.len(), seconds_p50, seconds_p99, seconds_max }
    }

    /// Of each second of a load.
    pub fn all(served: &[Served]) -> Vec<Self> {
        let last = served.iter().map(|served| served.due.as_secs()).max();
        let seconds = 0..last.map_or(0, |last| last + 1);
        let due_in = |second| {
            let due = served.iter().filter(move |served| served.due.as_secs() == second);
            due.map(|served| served.latency).collect()
        };
        seconds.map(|second| Self::of(due_in(second))).collect()
    }
}

impl RouteReport {
    pub fn text(&self) -> String {
        let millis = |seconds: f64| format!("{:.1}", seconds * 1e3);
        let (from, to) = self.burst_seconds;
        let row = |(number, (without, with)): (usize, (&Second, &Second))| {
            let second = number as u64;
            vec![
                second.to_string(),
                if (from..to).contains(&second) { "burst" } else { "" }.to_owned(),
                without.requests.to_string(),
                millis(without.seconds_p50),
                millis(without.seconds_p99),
                millis(with.seconds_p50),
                millis(with.seconds_p99),
            ]
        };
        let longer = match self.burst_end_with_routing > to {
            true => format!(
                "with routing the burst lasted until second {}, when what was killed served again; ",
                self.burst_end_with_routing
            ),
            false => String::new(),
        };
        let rows = self.without_routing.iter().zip(&self.with_routing).enumerate().map(row);
        let header =
            ["second", "", "requests", "p50 ms without", "p99", "p50 ms with routing", "p99"];
        format!(
            "{}\n\n{longer}each target serves {} requests a second, simulated by {}; {} killed while bytes were routed ({} bytes lay elsewhere); \
             at most {:.1} s after the burst all bytes were home and the rules gone\n\nverified: {} reads returned the last \
             acknowledged write, of {} writes",
            table(&header, &rows.collect::<Vec<_>>()),
            self.device_requests_per_second,
            self.limited_by,
            self.killed,
            self.routed_bytes,
            self.home_after_seconds,
            self.verified_reads,
            self.acknowledged_writes,
        )
    }
}
