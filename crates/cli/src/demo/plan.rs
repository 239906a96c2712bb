//! Chooses how many records a demo appends if the user gives no number: as many as take about 45
//! seconds on this machine.
//!
//! The demo measures the rate during the first appends, before the first fault. This module has no
//! side effects.

use std::time::Duration;

/// How long the rate is measured.
pub const MEASURED: Duration = Duration::from_secs(4);
/// How long the appends take at the measured rate. The faults, and the recovery from them, take
/// some seconds more.
const APPENDING: Duration = Duration::from_secs(40);
/// The least number of records, however slow the machine is. A quarter is then 500 records, so each
/// of at most 256 writers appends in each quarter.
const MIN_RECORDS: usize = 2_000;

/// How many of `available` records to append, if `acknowledged` of them were within `elapsed`.
pub fn records_to_append(acknowledged: usize, elapsed: Duration, available: usize) -> usize {
    let rate = acknowledged as f64 / elapsed.as_secs_f64().max(f64::EPSILON);
    let planned = (rate * APPENDING.as_secs_f64()) as usize;
    planned.max(MIN_RECORDS).min(available)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_records_follows_the_rate_within_its_bounds() {
        let planned = |acknowledged| records_to_append(acknowledged, MEASURED, 200_000);
        assert_eq!(planned(3_000), 30_000);
        assert_eq!(planned(60_000), 200_000, "there are no more");
        assert_eq!(planned(0), MIN_RECORDS, "something must be seen");
        assert_eq!(records_to_append(5, MEASURED, 20), 20);
    }

    #[test]
    fn the_first_fault_comes_after_the_append_rate_is_measured() {
        for acknowledged in [1, 100, 10_000, 49_999] {
            let total = records_to_append(acknowledged, MEASURED, 200_000);
            assert!(acknowledged < total / 4, "{acknowledged} of {total}");
        }
    }
}
