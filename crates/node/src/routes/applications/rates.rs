//! Makes rates of what the switches have counted at two times.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use nacre_object::{NodeName, TargetName};
use nacre_route::{ObjectLoad, TargetLoad, TenantLoad};

use super::super::statistics::{Counted, Statistics, StatisticsByTarget};

/// The most tenants of a target that a program gets.
const MAX_TENANTS: usize = 16;
/// The most objects that a program gets.
const MAX_OBJECTS: usize = 256;
/// Requests counted for a shorter time than this give no rate.
const LEAST_SECONDS: f64 = 0.05;

/// What the switches have counted, by node and target. On Ceph, every gateway counts the requests
/// to every OSD.
pub(super) type Snapshot = BTreeMap<NodeName, StatisticsByTarget>;

/// The counts of one node for one target: at the time before, if it counted then, and now.
type Counts<'a> = (Option<&'a Statistics>, &'a Statistics);

/// The counts for each target that some node has counted.
fn counts<'a>(before: &'a Snapshot, after: &'a Snapshot) -> BTreeMap<&'a str, Vec<Counts<'a>>> {
    let mut by_target: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for (node, counted) in after {
        let former = before.get(node);
        for (target, now) in counted {
            let then = former.and_then(|former| former.get(target));
            by_target.entry(target.as_str()).or_default().push((then, now));
        }
    }
    by_target
}

/// The loads of all targets between two snapshots.
pub(super) fn target_loads(
    targets: &[TargetName],
    before: &Snapshot,
    after: &Snapshot,
) -> Vec<TargetLoad> {
    let mut names: Vec<_> = targets.iter().collect();
    names.sort();
    let counts = counts(before, after);
    let load = |name: &TargetName| {
        let mut load = TargetLoad { name: name.to_string(), ..TargetLoad::default() };
        for (then, now) in counts.get(name.as_str()).into_iter().flatten() {
            let seconds = period(*then, now);
            let then = then.filter(|_| seconds.is_some());
            let rate = |now: u64, then: Option<u64>| rate(now, then, seconds);
            load.answers = true;
            load.reads += rate(now.reads, then.map(|then| then.reads));
            load.writes += rate(now.writes, then.map(|then| then.writes));
            load.routed_bytes += now.routed_bytes;
            for tenant in tenants(then, now) {
                add_tenant(&mut load.tenants, tenant);
            }
        }
        load.requests = load.reads + load.writes;
        busiest_first(&mut load.tenants, |load| load.reads + load.writes, |load| &load.name);
        load.tenants.truncate(MAX_TENANTS);
        load
    };
    names.into_iter().map(load).collect()
}

fn add_tenant(loads: &mut Vec<TenantLoad>, load: TenantLoad) {
    match loads.iter_mut().find(|known| known.name == load.name) {
        None => loads.push(load),
        Some(known) => {
            known.reads += load.reads;
            known.writes += load.writes;
        }
    }
}

/// The time between two counts of a switch; `None` if its node has restarted between them.
fn period(then: Option<&Statistics>, now: &Statistics) -> Option<f64> {
    let seconds = now.at_seconds - then?.at_seconds;
    (seconds >= LEAST_SECONDS).then_some(seconds)
}

fn rate(now: u64, then: Option<u64>, seconds: Option<f64>) -> f64 {
    match (then, seconds) {
        (Some(then), Some(seconds)) => now.saturating_sub(then) as f64 / seconds,
        _ => 0.0,
    }
}

/// Reads and writes a second of one key, since it was last read or since it is counted.
fn rates_of(one: &Counted, then: Option<&Statistics>, before: &[Counted], now: f64) -> (f64, f64) {
    let is_same =
        |other: &&Counted| other.name == one.name && other.since_seconds == one.since_seconds;
    let (reads, writes, from) = match (before.iter().find(is_same), then) {
        (Some(known), Some(then)) => (known.reads, known.writes, then.at_seconds),
        _ => (0, 0, one.since_seconds),
    };
    let seconds = (now - from).max(LEAST_SECONDS);
    let per_second = |count: u64| count as f64 / seconds;
    (per_second(one.reads.saturating_sub(reads)), per_second(one.writes.saturating_sub(writes)))
}

fn tenants(then: Option<&Statistics>, now: &Statistics) -> Vec<TenantLoad> {
    let Some(then) = then else { return vec![] };
    let load = |one: &Counted| {
        let (reads, writes) = rates_of(one, Some(then), &then.tenants, now.at_seconds);
        TenantLoad { name: one.name.clone(), reads, writes }
    };
    now.tenants.iter().map(load).collect()
}

/// The loads of the objects that the switches have counted, the busiest first.
pub(super) fn object_loads(before: &Snapshot, after: &Snapshot) -> Vec<ObjectLoad> {
    let mut loads: BTreeMap<(String, String), ObjectLoad> = BTreeMap::new();
    for (target, counts) in counts(before, after) {
        for (then, now) in counts {
            let Some(then) = then.filter(|then| period(Some(then), now).is_some()) else {
                continue;
            };
            for one in &now.objects {
                let (reads, writes) = rates_of(one, Some(then), &then.objects, now.at_seconds);
                let unchanged = (now.at_seconds - one.changed_seconds).max(0.0);
                let key = (target.to_owned(), one.name.clone());
                let load = loads.entry(key).or_insert_with(|| ObjectLoad {
                    object: one.name.clone(),
                    target: target.to_owned(),
                    reads: 0.0,
                    writes: 0.0,
                    read_only_seconds: unchanged,
                });
                load.reads += reads;
                load.writes += writes;
                load.read_only_seconds = load.read_only_seconds.min(unchanged);
            }
        }
    }
    let mut loads: Vec<_> = loads.into_values().collect();
    busiest_first(&mut loads, |load| load.reads + load.writes, |load| &load.object);
    loads.truncate(MAX_OBJECTS);
    loads
}

fn busiest_first<T>(loads: &mut [T], rate: impl Fn(&T) -> f64, name: impl Fn(&T) -> &String) {
    // The name makes the order the same each time.
    loads.sort_by_cached_key(|load| (Reverse(rate(load).to_bits()), name(load).clone()));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(name: &str, reads: u64, since_seconds: f64) -> Counted {
        Counted {
            name: name.to_owned(),
            reads,
            since_seconds,
            changed_seconds: since_seconds,
            ..Counted::default()
        }
    }

    fn snapshot(at_seconds: f64, writes: u64, objects: Vec<Counted>) -> Snapshot {
        let statistics = Statistics { at_seconds, writes, objects, ..Statistics::default() };
        [("node".parse().unwrap(), [("a".to_owned(), statistics)].into())].into()
    }

    fn targets() -> Vec<TargetName> {
        ["b", "a"].map(|name| name.parse().unwrap()).into()
    }

    #[test]
    fn rates_are_the_differences_of_two_counts() {
        let loads =
            target_loads(&targets(), &snapshot(10.0, 100, vec![]), &snapshot(12.0, 150, vec![]));
        assert_eq!((loads[0].name.as_str(), loads[0].answers, loads[0].writes), ("a", true, 25.0));
        assert_eq!((loads[1].name.as_str(), loads[1].answers), ("b", false));
    }

    #[test]
    fn a_node_that_has_restarted_has_no_rates_yet() {
        let loads =
            target_loads(&targets(), &snapshot(100.0, 1000, vec![]), &snapshot(3.0, 70, vec![]));
        assert_eq!((loads[0].answers, loads[0].requests), (true, 0.0));
    }

    #[test]
    fn an_object_counted_anew_has_the_rate_since_then() {
        let before =
            snapshot(10.0, 0, vec![counted("data/x", 900, 2.0), counted("data/y", 50, 1.0)]);
        let after =
            snapshot(12.0, 0, vec![counted("data/x", 10, 11.0), counted("data/y", 90, 1.0)]);
        let loads = object_loads(&before, &after);
        let shown: Vec<_> = loads.iter().map(|load| (load.object.as_str(), load.reads)).collect();
        assert_eq!(shown, [("data/y", 20.0), ("data/x", 10.0)], "the busiest first");
        assert_eq!(loads[0].read_only_seconds, 11.0);
    }
}
