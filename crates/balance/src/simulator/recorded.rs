//! `Scenario::of_records`: a scenario that repeats the operations of a real cluster, from the
//! records of its ticks.
//!
//! A record has the counters of a rank's units. A counter halves every five seconds. The scenario
//! assumes that a counter is constant during a tick. Then the operations of a second replace what
//! decays in that second, so the counter gives their rate.

use std::collections::BTreeMap;

use nacre_object::{Error, Result};

use super::{CostModel, Operations, RankGroup, Scenario, TraceEvent, UnitGroup};
use crate::limits::DEFAULT_HALF_LIFE;
use crate::{NodeRecord, Unit};

/// The time from one event of a unit to the next within a tick.
const EVENT_SECONDS: f64 = 1.0;

impl Scenario {
    /// A scenario with the ranks, units and operations of recorded ticks. The records may be in any
    /// order.
    ///
    /// # Errors
    /// `Invalid` if fewer than two ticks are recorded, or no units.
    pub fn of_records(records: &[NodeRecord], costs: CostModel) -> Result<Self> {
        let tick_seconds = tick_seconds(records)?;
        let first_tick = records.iter().map(|it| it.record.tick).min().unwrap_or_default();
        let last_tick = records.iter().map(|it| it.record.tick).max().unwrap_or_default();
        let mut order: Vec<_> = records.iter().collect();
        order.sort_by_key(|it| it.record.tick);
        let mut units: BTreeMap<&str, UnitGroup> = BTreeMap::new();
        let mut events = vec![];
        for NodeRecord { record, .. } in &order {
            let from = (record.tick - first_tick) as f64 * tick_seconds;
            for unit in &record.inputs.units {
                let first_rank = Some(record.inputs.whoami);
                units.entry(&unit.name).or_insert_with(|| UnitGroup {
                    name: unit.name.clone(),
                    count: 1,
                    kind: unit.kind.clone(),
                    tenant: unit.tenant.clone(),
                    first_rank,
                    directory: None,
                });
                events.extend(arrivals(unit, from, tick_seconds));
            }
        }
        if units.is_empty() {
            return Err(Error::invalid(
                "the records name no units, so there is nothing to simulate",
            ));
        }
        let ranks = order.first().map_or(&[][..], |first| &first.record.inputs.ranks);
        let rank = |rank: &crate::RankLoad| RankGroup {
            name: rank.node.clone(),
            count: 1,
            capacity: rank.capacity,
            labels: rank.labels.clone(),
            ..RankGroup::default()
        };
        Ok(Self {
            ranks: ranks.iter().map(rank).collect(),
            units: units.into_values().collect(),
            operations: Operations::Trace(events),
            duration_seconds: (last_tick - first_tick + 1) as f64 * tick_seconds,
            tick_seconds,
            costs,
            ..Self::default()
        })
    }
}

/// The length of a tick, computed from the times of the first and the last tick.
fn tick_seconds(records: &[NodeRecord]) -> Result<f64> {
    let times = || records.iter().map(|it| (it.record.tick, it.record.at_micros));
    let ends = times().min().zip(times().max());
    ends.filter(|(first, last)| last.0 > first.0)
        .map(|(first, last)| (last.1 - first.1) as f64 / 1e6 / (last.0 - first.0) as f64)
        .ok_or_else(|| {
            Error::invalid("fewer than two ticks are recorded").hint("record at least two ticks")
        })
}

fn arrivals(unit: &Unit, from: f64, tick_seconds: f64) -> impl Iterator<Item = TraceEvent> {
    let share = std::f64::consts::LN_2 / DEFAULT_HALF_LIFE.as_secs_f64();
    let rates = &unit.rates;
    let (reads, writes) = ((rates.ird + rates.readdir) * share, rates.iwr * share);
    let count =
        if reads + writes > 0.0 { (tick_seconds / EVENT_SECONDS).ceil().max(1.0) } else { 0.0 };
    let seconds = tick_seconds / count.max(1.0);
    let name = unit.name.clone();
    (0..count as u64).map(move |at| TraceEvent {
        at_seconds: from + at as f64 * seconds,
        unit: name.clone(),
        reads: reads * seconds,
        writes: writes * seconds,
    })
}
