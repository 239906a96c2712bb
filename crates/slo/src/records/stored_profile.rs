//! The measured profile of a target, as the map `slo` stores it.

use nacre_qos::scheduler::{Commits, DeviceLimits, KindLimits};
use nacre_qos::{IoKind, Profile};
use serde::{Deserialize, Serialize};

use crate::limits::{SYSTEM_BURST_SECONDS, USABLE_BANDWIDTH};

/// The measured profile of a target, and the conditions of the measurement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoredProfile {
    /// Bandwidth by size: the lower end of the 95% confidence interval, reduced by a margin.
    pub profile: Profile,
    /// How many requests may be outstanding at the target. The profile was measured with this many.
    pub outstanding: DeviceLimits,
    /// How the target makes writes durable.
    #[serde(default, skip_serializing_if = "Commits::are_single")]
    pub commits: Commits,
    /// The engine and the release with which the profile was measured.
    pub fingerprint: String,
    /// The largest half-width of a confidence interval, as a fraction of its mean.
    pub uncertainty: f64,
    /// When it was measured: microseconds since 1970, UTC.
    pub measured_at_micros: u64,
}

impl StoredProfile {
    /// Computes from samples the bandwidth that admission relies on: the lower end of the 95%
    /// confidence interval, reduced by a fifth. Also returns the half-width of the interval, as a
    /// fraction of the mean.
    pub fn usable_bandwidth(samples: &[f64]) -> (f64, f64) {
        /// Student's t for 95% and four degrees of freedom: five samples.
        const STUDENT_T: f64 = 2.776;
        /// The result is at least this fraction of the mean, even if the samples differ a lot.
        const LEAST_PART: f64 = 0.1;
        let count = samples.len().max(1) as f64;
        let mean = samples.iter().sum::<f64>() / count;
        let squares = samples.iter().map(|sample| (sample - mean).powi(2)).sum::<f64>();
        let deviation = (squares / (count - 1.0).max(1.0)).sqrt();
        let half_width = STUDENT_T * deviation / count.sqrt();
        // If the samples differ a lot, the interval reaches below 0.
        let low = (mean - half_width).max(mean * LEAST_PART);
        (low * USABLE_BANDWIDTH, half_width / mean)
    }

    /// How long earlier requests, and nacre's own requests, can keep the target busy before it
    /// serves a new request.
    ///
    /// The work of `n` requests with `b` bytes in all is at most `n * work(smallest) + b * (the
    /// most work for one more byte)`. [`Commits::blocking_seconds`] adds the wait for a group of
    /// writes.
    pub fn blocking_seconds(&self) -> f64 {
        let of_kind = |kind: IoKind| {
            let KindLimits { requests, bytes } = self.outstanding.of(kind);
            let work = |row: &nacre_qos::ProfileRow| self.profile.work_seconds(kind, row.bytes);
            let Some((first, last)) = self.profile.rows().first().zip(self.profile.rows().last())
            else {
                return 0.0;
            };
            let least = work(first);
            let per_byte = |row| (work(row) - least).max(0.0) / row.bytes as f64;
            let most_per_byte = self.profile.rows().iter().map(per_byte).fold(0.0, f64::max);
            // The last request may exceed the limit in bytes.
            let bytes = bytes.saturating_add(last.bytes);
            requests as f64 * least + bytes as f64 * most_per_byte
        };
        let [reads, writes] = IoKind::ALL.map(of_kind);
        self.commits.blocking_seconds(reads, writes) + SYSTEM_BURST_SECONDS
    }
}

#[cfg(test)]
mod tests {
    use nacre_qos::ProfileRow;

    use super::*;

    fn stored(rows: Vec<ProfileRow>) -> StoredProfile {
        let kind = KindLimits { requests: 4, bytes: 8000 };
        StoredProfile {
            profile: Profile::new(rows).unwrap(),
            outstanding: DeviceLimits { reads: kind, writes: kind },
            commits: Commits::Singly,
            fingerprint: String::new(),
            uncertainty: 0.0,
            measured_at_micros: 0,
        }
    }

    #[test]
    fn the_blocking_time_covers_every_mix_of_sizes_that_may_be_outstanding() {
        let row = |bytes, bandwidth| ProfileRow {
            bytes,
            read_bytes_per_second: bandwidth,
            write_bytes_per_second: bandwidth,
        };
        // 1,000 bytes take one second, and 4,000 bytes take two.
        let stored = stored(vec![row(1000, 1000.0), row(4000, 2000.0)]);
        let blocking = stored.blocking_seconds();
        // The same numbers of reads and of writes are outstanding.
        for (small, large) in [(4, 0), (1, 2), (2, 2), (0, 3)] {
            let work = 2.0 * (f64::from(small) + f64::from(large) * 2.0);
            assert!(blocking >= work, "{small} and {large} take {work} s, not {blocking} s");
        }
        assert!(blocking < 16.0, "{blocking}");
    }

    #[test]
    fn a_request_may_wait_for_one_group_more_if_writes_are_committed_in_groups() {
        let row =
            ProfileRow { bytes: 1000, read_bytes_per_second: 1e6, write_bytes_per_second: 1e5 };
        let singly = stored(vec![row]);
        let in_groups = StoredProfile { commits: Commits::InGroups, ..singly.clone() };
        let own_group = in_groups.blocking_seconds() - singly.blocking_seconds();
        // Four writes of 10 ms.
        assert!((own_group - 0.04).abs() < 1e-9, "{own_group}");
    }

    #[test]
    fn a_profile_without_commits_means_that_each_write_is_committed_by_itself() {
        let row =
            ProfileRow { bytes: 1000, read_bytes_per_second: 1e6, write_bytes_per_second: 1e5 };
        let mut value = serde_json::to_value(stored(vec![row])).unwrap();
        value.as_object_mut().unwrap().remove("commits");
        let read: StoredProfile = serde_json::from_value(value).unwrap();
        assert_eq!(read.commits, Commits::Singly);
    }

    #[test]
    fn the_usable_bandwidth_is_below_the_confidence_interval() {
        let (same, none) = StoredProfile::usable_bandwidth(&[100.0; 5]);
        assert_eq!((same, none), (80.0, 0.0));
        let (spread, part) = StoredProfile::usable_bandwidth(&[90.0, 95.0, 100.0, 105.0, 110.0]);
        assert!(spread < 80.0 && spread > 60.0, "{spread}");
        assert!((part - 0.098).abs() < 0.001, "{part}");
    }
}
