//! When appends were issued and acknowledged, and what that says about service.

use std::time::Duration;

use hdrhistogram::Histogram;

/// The longest latency that the histogram distinguishes. An append gives up long before.
const MAX_LATENCY_MICROS: u64 = 600_000_000;

/// One acknowledged append. Times are since the start of the run.
#[derive(Debug, Clone, Copy)]
pub struct Ack {
    /// Which record, by its place in the input.
    pub record: usize,
    /// Where it is in the log.
    pub position: u64,
    /// When it was issued.
    pub issued: Duration,
    /// When it was acknowledged.
    pub acked: Duration,
}

/// Latencies of a set of appends, in seconds.
#[derive(Debug, Clone, Copy, serde::Serialize)]
pub struct Latency {
    /// Half were faster.
    pub seconds_p50: f64,
    /// 99 of 100 were faster.
    pub seconds_p99: f64,
    /// 999 of 1000 were faster.
    pub seconds_p999: f64,
    /// None was slower.
    pub seconds_max: f64,
}

impl Latency {
    /// Of some acks; all zero if there are none.
    pub fn of<'a>(acks: impl Iterator<Item = &'a Ack>) -> Self {
        let mut micros = Histogram::<u64>::new_with_max(MAX_LATENCY_MICROS, 3)
            .expect("3 significant digits are supported");
        for ack in acks {
            let took = ack.acked.saturating_sub(ack.issued);
            micros.saturating_record(u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
        }
        let seconds = |micros: u64| micros as f64 / 1e6;
        Self {
            seconds_p50: seconds(micros.value_at_quantile(0.5)),
            seconds_p99: seconds(micros.value_at_quantile(0.99)),
            seconds_p999: seconds(micros.value_at_quantile(0.999)),
            seconds_max: seconds(micros.max()),
        }
    }
}

/// The longest time in `from..until` without an acknowledged append.
///
/// `acked` holds the times of all acknowledgements in ascending order. The time from `from` to the
/// first acknowledgement counts, and so does the time from the last one to `until`.
pub fn longest_silence(acked: &[Duration], from: Duration, until: Duration) -> Duration {
    let start = acked.partition_point(|&at| at < from);
    let end = acked.partition_point(|&at| at < until);
    let mut longest = Duration::ZERO;
    let mut last = from;
    for &at in acked[start..end].iter().chain([&until]) {
        longest = longest.max(at.saturating_sub(last));
        last = at;
    }
    longest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn percentiles_are_those_of_the_latencies_of_appends() {
        let ack = |n: u64| Ack { record: 0, position: 0, issued: ms(5), acked: ms(5 + n) };
        let acks: Vec<_> = (1..=100).map(ack).collect();
        let latency = Latency::of(acks.iter());
        let near = |seconds: f64, expected: f64| (seconds / expected - 1.0).abs() < 0.001;
        assert!(near(latency.seconds_p50, 0.050), "{latency:?}");
        assert!(near(latency.seconds_p99, 0.099), "{latency:?}");
        assert!(near(latency.seconds_max, 0.100), "{latency:?}");
    }

    #[test]
    fn a_silence_is_measured_from_the_fault_and_to_the_end() {
        let acked: Vec<_> = [1, 2, 3, 10, 11, 20].map(ms).to_vec();
        assert_eq!(longest_silence(&acked, ms(3), ms(12)), ms(7));
        assert_eq!(longest_silence(&acked, ms(5), ms(12)), ms(5), "not before the fault");
        assert_eq!(longest_silence(&acked, ms(11), ms(18)), ms(7), "silent to the end");
        assert_eq!(longest_silence(&[], ms(0), ms(4)), ms(4));
    }
}
