//! What the demo prints at the end.

use std::time::Duration;

use serde::Serialize;

use super::steady::{Served, Steady, at};
use crate::out::table;

/// The whole demo.
#[derive(Debug, Serialize)]
pub(super) struct SloReport {
    /// Why the third tenant was refused.
    pub refusal: String,
    /// Without and with enforcement.
    pub phases: Vec<Phase>,
}

/// A phase.
#[derive(Debug, Serialize)]
pub(super) struct Phase {
    pub is_enforced: bool,
    pub tenants: Vec<TenantInPhase>,
    /// What the tenant without a promise wrote.
    pub bulk_bytes_per_second: f64,
}

/// What a tenant saw in a phase.
#[derive(Debug, Serialize)]
pub(super) struct TenantInPhase {
    pub tenant: &'static str,
    pub slo_seconds: f64,
    pub requests: usize,
    /// Requests that took longer than promised.
    pub violations: usize,
    pub seconds_p50: f64,
    pub seconds_p99: f64,
    pub seconds_p999: f64,
    pub seconds_max: f64,
}

impl TenantInPhase {
    pub fn of(tenant: &Steady, served: &[Served]) -> Self {
        let mut latencies: Vec<_> = served.iter().map(|served| served.latency).collect();
        latencies.sort_unstable();
        let slo = Duration::from_secs_f64(tenant.promise.slo_seconds);
        let seconds = |part| at(&latencies, part).as_secs_f64();
        Self {
            tenant: tenant.name,
            slo_seconds: tenant.promise.slo_seconds,
            requests: latencies.len(),
            violations: latencies.iter().filter(|latency| **latency > slo).count(),
            seconds_p50: seconds(0.5),
            seconds_p99: seconds(0.99),
            seconds_p999: seconds(0.999),
            seconds_max: seconds(1.0),
        }
    }

    fn is_kept(&self) -> bool {
        self.requests > 0 && self.seconds_p99 <= self.slo_seconds
    }
}

impl SloReport {
    /// Whether every promise was kept while promises were enforced.
    pub fn holds(&self) -> bool {
        let mut enforced = self.phases.iter().filter(|phase| phase.is_enforced);
        enforced.all(|phase| phase.tenants.iter().all(TenantInPhase::is_kept))
    }

    fn count(&self, is_enforced: bool, of: fn(&TenantInPhase) -> usize) -> usize {
        let phases = self.phases.iter().filter(|phase| phase.is_enforced == is_enforced);
        phases.flat_map(|phase| &phase.tenants).map(of).sum()
    }

    pub fn text(&self) -> String {
        let mut rows = vec![];
        for phase in &self.phases {
            let millis = |seconds: f64| format!("{:.1}", seconds * 1e3);
            rows.extend(phase.tenants.iter().map(|tenant| {
                vec![
                    if phase.is_enforced { "on" } else { "off" }.to_owned(),
                    tenant.tenant.to_owned(),
                    millis(tenant.slo_seconds),
                    millis(tenant.seconds_p50),
                    millis(tenant.seconds_p99),
                    millis(tenant.seconds_p999),
                    millis(tenant.seconds_max),
                    tenant.requests.to_string(),
                    tenant.violations.to_string(),
                    format!("{:.0}", phase.bulk_bytes_per_second / 1e6),
                ]
            }));
        }
        let header = [
            "enforcement",
            "tenant",
            "promised p99 ms",
            "p50",
            "p99",
            "p99.9",
            "max",
            "requests",
            "violations",
            "bulk MB/s",
        ];
        let word = if self.holds() { "verified" } else { "NOT verified" };
        let violations_off = self.count(false, |tenant| tenant.violations);
        let remark = match violations_off {
            0 => {
                "promises held without enforcement, too: on this machine, the burst was too small to show more\n"
            }
            _ => "",
        };
        format!(
            "{}\n\n{remark}{word}: {} requests; {} violations with enforcement off, {} with it on; every p99 within its promise \
             with it on: {}",
            table(&header, &rows),
            self.count(false, |tenant| tenant.requests)
                + self.count(true, |tenant| tenant.requests),
            violations_off,
            self.count(true, |tenant| tenant.violations),
            if self.holds() { "yes" } else { "no" },
        )
    }
}
