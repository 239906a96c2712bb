//! Direct traffic: requests of clients that go to a Ceph OSD without passing a gateway.
//!
//! An OSD counts the operations of all its clients. Each gateway counts the requests that it sent
//! to each OSD. From time to time a gateway reads both counts, and the difference is the direct
//! traffic.
//!
//! No queue can delay direct traffic. Instead [`NodeSlo::note_direct`](crate::NodeSlo::note_direct)
//! charges the work of this traffic to nacre's background tenant, and shows it in reports.
//! Admission counts it as work that comes before all other work ([`Slos::beside`](crate::Slos)).

use std::collections::BTreeMap;
use std::time::Duration;

use nacre_qos::{IoKind, Profile};
use serde::{Deserialize, Serialize};

/// If the direct operations are fewer than this fraction of the gateways' requests, they count as
/// 0. The counts of the OSD and of the gateways are not read at the same instant, so they always
/// differ a little.
const LEAST_PART: f64 = 0.05;
/// If there are fewer direct operations a second than this, they count as 0. Gateways send some
/// operations that they do not count as requests, such as renewals of watches.
const LEAST_OPERATIONS_PER_SECOND: f64 = 5.0;

/// The operations that one target has served since a counter started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IoCounts {
    /// Operations that only read.
    pub reads: u64,
    /// Operations that write.
    pub writes: u64,
    /// Bytes that reads returned.
    pub read_bytes: u64,
    /// Bytes that came with writes.
    pub written_bytes: u64,
}

/// The counts of one target at one time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reading {
    /// The time of the reading, on the reader's clock.
    pub at: Duration,
    /// The operations of all clients, as the target counts them.
    pub all: IoCounts,
    /// The requests that each gateway has sent to the target.
    pub by_gateway: BTreeMap<String, IoCounts>,
}

/// The direct traffic to one target.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct DirectTraffic {
    /// Operations a second.
    pub operations_per_second: f64,
    /// Bytes a second, read and written.
    pub bytes_per_second: f64,
    /// The work of these operations by the target's profile, in seconds of work a second.
    pub load: f64,
}

/// The most load that counts. A target is never without any time for other requests.
const MOST_LOAD: f64 = 0.999;

impl DirectTraffic {
    /// How many times longer the work of other requests takes beside this traffic, which leaves
    /// them only a part of the target's time.
    pub fn slowdown(&self) -> f64 {
        1.0 / (1.0 - self.load.clamp(0.0, MOST_LOAD))
    }
}

impl IoCounts {
    /// Counts an operation that moved so many bytes.
    pub fn add(&mut self, kind: IoKind, bytes: u64) {
        let (operations, moved) = match kind {
            IoKind::Read => (&mut self.reads, &mut self.read_bytes),
            IoKind::Write => (&mut self.writes, &mut self.written_bytes),
        };
        *operations += 1;
        *moved = moved.saturating_add(bytes);
    }

    fn operations(&self) -> u64 {
        self.reads + self.writes
    }

    fn and(self, other: Self) -> Self {
        Self {
            reads: self.reads + other.reads,
            writes: self.writes + other.writes,
            read_bytes: self.read_bytes + other.read_bytes,
            written_bytes: self.written_bytes + other.written_bytes,
        }
    }

    /// The operations since an earlier count; `None` if the counter has restarted in between.
    fn since(self, earlier: Self) -> Option<Self> {
        Some(Self {
            reads: self.reads.checked_sub(earlier.reads)?,
            writes: self.writes.checked_sub(earlier.writes)?,
            read_bytes: self.read_bytes.checked_sub(earlier.read_bytes)?,
            written_bytes: self.written_bytes.checked_sub(earlier.written_bytes)?,
        })
    }

    fn beyond(self, other: Self) -> Self {
        Self {
            reads: self.reads.saturating_sub(other.reads),
            writes: self.writes.saturating_sub(other.writes),
            read_bytes: self.read_bytes.saturating_sub(other.read_bytes),
            written_bytes: self.written_bytes.saturating_sub(other.written_bytes),
        }
    }

    /// The work of these operations, if each has the mean size of its kind.
    fn work_seconds(self, profile: &Profile) -> f64 {
        let work = |kind, operations: u64, bytes: u64| match operations {
            0 => 0.0,
            _ => operations as f64 * profile.work_seconds(kind, bytes / operations),
        };
        work(IoKind::Read, self.reads, self.read_bytes)
            + work(IoKind::Write, self.writes, self.written_bytes)
    }
}

impl Reading {
    /// The direct traffic between an earlier reading and this one. `None` if it is unknown: the
    /// readings have the same time, or the target or a gateway started or ended in between.
    pub fn direct_since(&self, earlier: &Self, profile: &Profile) -> Option<DirectTraffic> {
        let seconds = self.at.checked_sub(earlier.at)?.as_secs_f64();
        if seconds == 0.0 || !self.by_gateway.keys().eq(earlier.by_gateway.keys()) {
            return None;
        }
        let all = self.all.since(earlier.all)?;
        let mut sent = IoCounts::default();
        for (now, before) in self.by_gateway.values().zip(earlier.by_gateway.values()) {
            sent = sent.and(now.since(*before)?);
        }
        let operations = all.operations().saturating_sub(sent.operations()) as f64;
        let is_noise = operations < LEAST_PART * sent.operations() as f64
            || operations < LEAST_OPERATIONS_PER_SECOND * seconds;
        if is_noise {
            return Some(DirectTraffic::default());
        }
        let direct = all.beyond(sent);
        Some(DirectTraffic {
            operations_per_second: operations / seconds,
            bytes_per_second: (direct.read_bytes + direct.written_bytes) as f64 / seconds,
            load: direct.work_seconds(profile) / seconds,
        })
    }
}

#[cfg(test)]
mod tests {
    use nacre_qos::ProfileRow;

    use super::*;

    /// A profile by which each operation of 1,000 bytes takes 1 ms.
    fn profile() -> Profile {
        let row =
            |bytes| ProfileRow { bytes, read_bytes_per_second: 1e6, write_bytes_per_second: 1e6 };
        Profile::new(vec![row(1_000), row(100_000)]).unwrap()
    }

    fn writes(writes: u64) -> IoCounts {
        IoCounts { writes, written_bytes: 1_000 * writes, ..IoCounts::default() }
    }

    fn reading(seconds: u64, all: u64, by_gateway: &[(&str, u64)]) -> Reading {
        let sent = by_gateway.iter().map(|(name, sent)| ((*name).to_owned(), writes(*sent)));
        Reading { at: Duration::from_secs(seconds), all: writes(all), by_gateway: sent.collect() }
    }

    #[test]
    fn operations_beyond_those_of_all_gateways_are_direct_traffic() {
        let before = reading(10, 5_000, &[("gateway.0", 100), ("gateway.1", 0)]);
        let now = reading(20, 11_000, &[("gateway.0", 1_100), ("gateway.1", 2_000)]);
        let direct = now.direct_since(&before, &profile()).unwrap();
        assert_eq!(direct.operations_per_second, 300.0);
        assert_eq!(direct.bytes_per_second, 300_000.0);
        assert!((direct.load - 0.3).abs() < 1e-9, "{direct:?}");
    }

    #[test]
    fn beside_direct_traffic_work_takes_as_long_as_the_remaining_time_makes_it() {
        let slowdown = |load| DirectTraffic { load, ..DirectTraffic::default() }.slowdown();
        assert_eq!((slowdown(0.0), slowdown(0.5), slowdown(0.75)), (1.0, 2.0, 4.0));
        assert!(slowdown(3.0).is_finite());
    }

    #[test]
    fn a_difference_within_the_noise_is_no_direct_traffic() {
        let before = reading(10, 0, &[("gateway.0", 0)]);
        let none = Some(DirectTraffic::default());
        let close = reading(20, 10_400, &[("gateway.0", 10_000)]);
        assert_eq!(close.direct_since(&before, &profile()), none, "less than a twentieth");
        let watches = reading(20, 49, &[("gateway.0", 0)]);
        assert_eq!(watches.direct_since(&before, &profile()), none, "less than 5 a second");
        let fewer = reading(20, 10, &[("gateway.0", 100)]);
        assert_eq!(fewer.direct_since(&before, &profile()), none, "some needed no operation");
    }

    #[test]
    fn direct_traffic_is_unknown_while_targets_or_gateways_start_or_end() {
        let before = reading(10, 1_000, &[("gateway.0", 500)]);
        let unknown = [
            reading(20, 10, &[("gateway.0", 600)]),
            reading(20, 2_000, &[("gateway.0", 1)]),
            reading(20, 2_000, &[("gateway.0", 600), ("gateway.1", 4)]),
            reading(20, 2_000, &[]),
            reading(10, 2_000, &[("gateway.0", 600)]),
        ];
        for now in unknown {
            assert_eq!(now.direct_since(&before, &profile()), None, "{now:?}");
        }
    }
}
