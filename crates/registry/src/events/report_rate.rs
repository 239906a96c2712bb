//! Decides when to report repeated occurrences, at a limited rate. This module does no IO.
//!
//! A failing program fails often, and a denied client tries again. The first occurrence at a site
//! (for example at a line of a program) is reported at once. Further occurrences within a window of
//! time are counted, and reported together when the window ends.
//!
//! **Invariant:** every occurrence is counted in a report, unless more than [`MAX_SITES`] sites
//! have occurrences within one window.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

/// The usual window: each site is reported at most once in this time. It is for occurrences that
/// only admitted entities can cause.
pub(crate) const WINDOW: Duration = Duration::from_secs(1);
/// Sites counted at the same time. Occurrences at further sites are dropped until some window ends.
const MAX_SITES: usize = 1024;

/// Something that happens at a site, again and again.
pub(crate) trait Sited: Clone + Send + 'static {
    /// The site. Occurrences with equal sites count as repetitions.
    type Site: Clone + Eq + Hash + Send;

    /// Where it happened.
    fn site(&self) -> &Self::Site;
}

/// Something with how often it happened; of several, the last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Report<T> {
    pub(crate) what: T,
    pub(crate) count: u64,
}

#[derive(Debug)]
struct Window<T> {
    ends: Duration,
    /// The last occurrence since the last report, and the number of occurrences since then.
    unreported: Option<Report<T>>,
}

/// The windows of the sites where something happened lately.
#[derive(Debug)]
pub(crate) struct ReportRate<T: Sited> {
    window: Duration,
    windows: HashMap<T::Site, Window<T>>,
}

impl<T: Sited> ReportRate<T> {
    /// One report a site in so much time.
    pub(crate) fn new(window: Duration) -> Self {
        Self { window, windows: HashMap::new() }
    }

    /// Takes what happened; returns what to report at once.
    pub(crate) fn happened(&mut self, what: T, now: Duration) -> Option<Report<T>> {
        if let Some(window) = self.windows.get_mut(what.site()) {
            let count = window.unreported.take().map_or(0, |report| report.count) + 1;
            window.unreported = Some(Report { what, count });
            return None;
        }
        if self.windows.len() >= MAX_SITES {
            return None;
        }
        self.windows
            .insert(what.site().clone(), Window { ends: now + self.window, unreported: None });
        Some(Report { what, count: 1 })
    }

    /// Returns the reports of sites whose window has ended. Forgets a site that had no occurrence
    /// in its window.
    pub(crate) fn due(&mut self, now: Duration) -> Vec<Report<T>> {
        let mut reports = Vec::new();
        let length = self.window;
        self.windows.retain(|_, window| {
            if window.ends > now {
                return true;
            }
            window.ends = now + length;
            reports.extend(window.unreported.clone());
            window.unreported.take().is_some()
        });
        reports
    }

    /// When the next window ends.
    pub(crate) fn next_due(&self) -> Option<Duration> {
        self.windows.values().map(|window| window.ends).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::{ProgramFault, ProgramSite};
    use crate::programs::ProgramKind;
    use nacre_clock::Random;
    use nacre_object::ProgramName;

    fn fault(line: u32) -> ProgramFault {
        let name = ProgramName::new("p").unwrap();
        let site = ProgramSite { kind: ProgramKind::Class, name, version: 1, line: Some(line) };
        ProgramFault { site, text: "oh".into() }
    }

    #[test]
    fn a_site_is_reported_once_a_window_and_no_fault_is_lost() {
        for seed in 0..100 {
            let mut random = Random::seeded(seed);
            let (mut rate, mut now) = (ReportRate::new(WINDOW), Duration::ZERO);
            let mut reported_at: HashMap<u32, Vec<Duration>> = HashMap::new();
            let (mut happened, mut reported) = (0, 0);
            let mut note = |report: Report<ProgramFault>, now| {
                reported += report.count;
                reported_at.entry(report.what.site.line.unwrap()).or_default().push(now);
            };
            for _ in 0..500 {
                now += Duration::from_millis(random.below(300));
                rate.due(now).into_iter().for_each(|report| note(report, now));
                happened += 1;
                if let Some(report) = rate.happened(fault(random.below(3) as u32), now) {
                    note(report, now);
                }
            }
            while let Some(next) = rate.next_due() {
                rate.due(next).into_iter().for_each(|report| note(report, next));
            }
            assert_eq!(reported, happened, "seed {seed}");
            for times in reported_at.values() {
                assert!(times.windows(2).all(|pair| pair[1] - pair[0] >= WINDOW), "seed {seed}");
            }
        }
    }
}
