//! Priorities of SLOs: a tenant with a shorter SLO is served first.

/// The priority of each SLO: the first is 0, and equal SLOs have equal priorities.
pub fn priorities(slos: &[f64]) -> Vec<usize> {
    let mut distinct = slos.to_vec();
    distinct.sort_by(f64::total_cmp);
    distinct.dedup_by(|one, other| one.total_cmp(other).is_eq());
    let before = |slo: f64| distinct.partition_point(|other| other.total_cmp(&slo).is_lt());
    slos.iter().map(|slo| before(*slo)).collect()
}
