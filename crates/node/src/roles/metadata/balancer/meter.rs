//! `Meter`: measures the load of a node's units, and the resources that the node itself uses.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use nacre_balance::{RankLoad, Unit, UnitCounters};
use nacre_object::TenantName;

use super::units::{UnitUse, Units};
use crate::metrics::ProcessStat;

/// Measures a node and its units, from sample to sample.
#[derive(Debug)]
pub(super) struct Meter {
    serves: Units,
    units: HashMap<String, MeteredUnit>,
    /// When the last sample was taken, and what the process had used by then.
    last: Option<(Duration, ProcessStat)>,
    /// CPU use in percent, between the last two samples.
    cpu_percent: f64,
    requests_per_second: f64,
}

#[derive(Debug)]
struct MeteredUnit {
    counters: UnitCounters,
    /// The latest counters from the unit's host.
    seen: UnitUse,
}

impl Meter {
    pub fn new(serves: Units) -> Self {
        let (units, last, cpu_percent, requests_per_second) = Default::default();
        Self { serves, units, last, cpu_percent, requests_per_second }
    }

    /// Takes a sample. `now` is a reading of a monotonic clock.
    pub fn sample(&mut self, now: Duration) {
        let uses = self.serves.uses();
        let mut questions = 0;
        let names: HashSet<_> = uses.iter().map(|used| used.name.as_str()).collect();
        self.units.retain(|name, _| names.contains(name.as_str()));
        for used in uses {
            // Requests before the first sample may be old, so they do not count.
            let unit = self.units.entry(used.name.clone()).or_insert_with(|| MeteredUnit {
                counters: UnitCounters::default(),
                seen: used.clone(),
            });
            let reads = used.reads.saturating_sub(unit.seen.reads);
            let writes = used.writes.saturating_sub(unit.seen.writes);
            unit.counters.reads.add(now, reads as f64);
            unit.counters.writes.add(now, writes as f64);
            unit.seen = used;
            questions += reads + writes;
        }
        let Some(stat) = ProcessStat::read() else { return };
        if let Some((then, before)) = &self.last {
            let seconds = now.saturating_sub(*then).as_secs_f64();
            if seconds > 0.0 {
                let used = stat.processor_seconds - before.processor_seconds;
                self.cpu_percent = 100.0 * used / seconds;
                self.requests_per_second = questions as f64 / seconds;
            }
        }
        self.last = Some((now, stat));
    }

    /// The units of the node, by name.
    pub fn units(&self, now: Duration) -> Vec<Unit> {
        let unit = |(name, unit): (&String, &MeteredUnit)| Unit {
            name: name.clone(),
            kind: unit.seen.kind.clone(),
            tenant: TenantName::standard().to_string(),
            rates: unit.counters.rates(now),
        };
        let mut units: Vec<_> = self.units.iter().map(unit).collect();
        units.sort_by(|one, other| one.name.cmp(&other.name));
        units
    }

    /// The metrics for the heartbeat of a node whose units have this load in all.
    pub fn rank_load(&self, node: &str, load: f64) -> RankLoad {
        let resident = self.last.as_ref().map_or(0, |(_, stat)| stat.resident_bytes);
        let memory = rustix::system::sysinfo();
        let total = memory.totalram as f64 * f64::from(memory.mem_unit);
        RankLoad {
            node: node.to_owned(),
            auth: load,
            all: load,
            cpu: self.cpu_percent,
            mem: if total > 0.0 { 100.0 * resident as f64 / total } else { 0.0 },
            queue: self.serves.waiting() as f64,
            requests: self.requests_per_second,
            ..RankLoad::default()
        }
    }
}
