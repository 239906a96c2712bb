//! How often a program's fault is reported: the pure part.
//!
//! A program that fails fails often. The first fault at a site is reported at once; those that
//! follow within the window are counted and reported together when it ends.
//!
//! **Invariant:** every fault is in some report's count, unless more sites than the bound fail at
//! the same time.

use std::collections::HashMap;
use std::time::Duration;

use super::ProgramFault;
use super::event::ProgramSite;

/// One report a site in this time.
const WINDOW: Duration = Duration::from_secs(1);
/// Sites counted at the same time; faults at further ones are left out until some window ends.
const MAX_SITES: usize = 1024;

/// A fault with how often it happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FaultReport {
    pub(super) fault: ProgramFault,
    pub(super) count: u64,
}

#[derive(Debug)]
struct Window {
    ends: Duration,
    /// The last fault since the last report, and how many there were.
    unreported: Option<FaultReport>,
}

/// The windows of the sites that failed lately.
#[derive(Debug, Default)]
pub(super) struct FaultRate {
    windows: HashMap<ProgramSite, Window>,
}

impl FaultRate {
    /// Takes a fault; answers what to report at once.
    pub(super) fn fault(&mut self, fault: ProgramFault, now: Duration) -> Option<FaultReport> {
        if let Some(window) = self.windows.get_mut(&fault.site) {
            let count = window.unreported.take().map_or(0, |report| report.count) + 1;
            window.unreported = Some(FaultReport { fault, count });
            return None;
        }
        if self.windows.len() >= MAX_SITES {
            return None;
        }
        self.windows.insert(fault.site.clone(), Window { ends: now + WINDOW, unreported: None });
        Some(FaultReport { fault, count: 1 })
    }

    /// What to report because its window ended. A site that was quiet is forgotten.
    pub(super) fn due(&mut self, now: Duration) -> Vec<FaultReport> {
        let mut reports = Vec::new();
        self.windows.retain(|_, window| {
            if window.ends > now {
                return true;
            }
            window.ends = now + WINDOW;
            reports.extend(window.unreported.clone());
            window.unreported.take().is_some()
        });
        reports
    }

    /// When the next window ends.
    pub(super) fn next_due(&self) -> Option<Duration> {
        self.windows.values().map(|window| window.ends).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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
            let (mut rate, mut now) = (FaultRate::default(), Duration::ZERO);
            let mut reported_at: HashMap<u32, Vec<Duration>> = HashMap::new();
            let (mut happened, mut reported) = (0, 0);
            let mut note = |report: FaultReport, now| {
                reported += report.count;
                reported_at.entry(report.fault.site.line.unwrap()).or_default().push(now);
            };
            for _ in 0..500 {
                now += Duration::from_millis(random.below(300));
                rate.due(now).into_iter().for_each(|report| note(report, now));
                happened += 1;
                if let Some(report) = rate.fault(fault(random.below(3) as u32), now) {
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
