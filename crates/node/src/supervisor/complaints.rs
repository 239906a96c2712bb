//! Limits how often the supervisor reports why nodes ended: each reason once a minute, and only a
//! few different reasons.
//!
//! A node that cannot work ends every few seconds, mostly for the same reason. This module is pure:
//! the time is an argument.

use std::time::Duration;

/// The least time between two reports of the same reason.
const SILENCE: Duration = Duration::from_secs(60);
/// The most different reasons that are reported within [`SILENCE`]. The limit is needed because
/// some reasons contain a number that differs each time.
const MAX_REASONS: usize = 4;

/// The reasons that were reported lately, with the time of each report.
#[derive(Debug, Default)]
pub(super) struct Complaints {
    told: Vec<(String, Duration)>,
}

impl Complaints {
    /// Whether this reason must be reported now; if so, it counts as reported.
    pub fn is_due(&mut self, reason: &str, now: Duration) -> bool {
        self.told.retain(|(_, at)| now < *at + SILENCE);
        let is_new = self.told.iter().all(|(told, _)| told != reason);
        let is_due = is_new && self.told.len() < MAX_REASONS;
        if is_due {
            self.told.push((reason.to_owned(), now));
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_reported_once_a_minute_and_a_new_reason_at_once() {
        let mut complaints = Complaints::default();
        let mut told = |reason, second| complaints.is_due(reason, Duration::from_secs(second));
        let seconds = (0..130).filter(|second| told("no key", *second)).collect::<Vec<_>>();
        assert_eq!(seconds, [0, 60, 120]);
        assert!(told("no monitor", 131));
        assert!(!told("no monitor", 132) && !told("no key", 133));
    }

    #[test]
    fn only_a_few_different_reasons_are_reported_each_minute() {
        let mut complaints = Complaints::default();
        let mut told =
            |second: u64| complaints.is_due(&second.to_string(), Duration::from_secs(second));
        assert_eq!((0..60).filter(|second| told(*second)).count(), MAX_REASONS);
    }
}
