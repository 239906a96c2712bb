//! Tests of the guarantees of placement, on random sets of targets.

use std::collections::BTreeMap;

use nacre_clock::Random;
use nacre_object::{ObjectName, PoolName, TargetName};
use nacre_placement::{Placement, Target};

const KEYS: usize = 20_000;
const SETS: u64 = 10;
/// The largest accepted distance of a count from its expected value, in standard deviations. A
/// greater distance practically never happens by chance.
const DEVIATIONS: f64 = 5.0;

fn pool() -> PoolName {
    PoolName::new("data").unwrap()
}

fn target(name: impl std::fmt::Display, weight: f64) -> Target {
    Target { name: TargetName::new(name.to_string()).unwrap(), weight }
}

/// Makes 2 to 12 targets whose weights differ by a factor of up to ten.
fn random_targets(random: &mut Random) -> Vec<Target> {
    let name = random.next_u64();
    (0..2 + random.below(11))
        .map(|i| target(format!("{name:x}.{i}"), 0.5 + random.below(450) as f64 / 100.0))
        .collect()
}

fn placement(targets: &[Target]) -> Placement {
    Placement::new(targets.to_vec()).unwrap()
}

/// Where each key is.
fn located(placement: &Placement) -> Vec<&TargetName> {
    (0..KEYS).map(|i| placement.locate(&pool(), &format!("object-{i}"))).collect()
}

fn assert_share(what: &str, count: usize, of: usize, share: f64) {
    let expected = of as f64 * share;
    let deviation = (of as f64 * share * (1.0 - share)).sqrt();
    let off = (count as f64 - expected).abs() / deviation;
    assert!(off < DEVIATIONS, "{what}: {count} of {of}, expected {expected:.0}");
}

#[test]
fn objects_are_spread_by_weight() {
    let mut random = Random::seeded(1);
    for _ in 0..SETS {
        let targets = random_targets(&mut random);
        let total: f64 = targets.iter().map(|target| target.weight).sum();
        let mut counts = BTreeMap::new();
        let placement = placement(&targets);
        for name in located(&placement) {
            *counts.entry(name).or_insert(0) += 1;
        }
        for target in &targets {
            assert_share(target.name.as_str(), counts[&target.name], KEYS, target.weight / total);
        }
    }
}

#[test]
fn a_new_target_receives_its_share_and_moves_no_other_object() {
    let mut random = Random::seeded(2);
    for _ in 0..SETS {
        let mut targets = random_targets(&mut random);
        let before = placement(&targets);
        let new = target("new", 1.0 + random.below(5) as f64);
        targets.insert(random.below(targets.len() as u64) as usize, new.clone());
        let after = placement(&targets);

        let moves = located(&before).into_iter().zip(located(&after));
        let moved: Vec<_> = moves.filter(|(old, now)| old != now).collect();
        assert!(moved.iter().all(|(_, now)| **now == new.name), "something else moved");
        let total: f64 = targets.iter().map(|target| target.weight).sum();
        assert_share("moved", moved.len(), KEYS, new.weight / total);
    }
}

#[test]
fn a_lost_target_moves_only_its_own_objects() {
    let mut random = Random::seeded(3);
    for _ in 0..SETS {
        let mut targets = random_targets(&mut random);
        let before = placement(&targets);
        let gone = targets.remove(random.below(targets.len() as u64) as usize);
        let after = placement(&targets);
        let total: f64 = targets.iter().map(|target| target.weight).sum();

        let mut taken = BTreeMap::new();
        let mut moved = 0;
        for (old, now) in located(&before).into_iter().zip(located(&after)) {
            if *old == gone.name {
                *taken.entry(now).or_insert(0) += 1;
                moved += 1;
            } else {
                assert_eq!(old, now, "an object moved without need");
            }
        }
        for target in targets.iter().filter(|_| moved > 0) {
            let count = taken.get(&target.name).copied().unwrap_or(0);
            if targets.len() > 1 {
                assert_share("taken over", count, moved, target.weight / total);
            }
        }
    }
}

#[test]
fn raising_a_weight_only_moves_objects_to_that_target() {
    let mut random = Random::seeded(4);
    for _ in 0..SETS {
        let mut targets = random_targets(&mut random);
        let before = placement(&targets);
        let raised = random.below(targets.len() as u64) as usize;
        targets[raised].weight *= 1.5;
        let after = placement(&targets);
        for (old, now) in located(&before).into_iter().zip(located(&after)) {
            assert!(old == now || *now == targets[raised].name, "an object moved elsewhere");
        }
    }
}

#[test]
fn the_order_of_targets_and_the_unit_of_weights_do_not_matter() {
    let mut random = Random::seeded(5);
    for _ in 0..SETS {
        let mut targets = random_targets(&mut random);
        let before = placement(&targets);
        targets.reverse();
        // A power of two: the weights stay exactly in proportion.
        targets.iter_mut().for_each(|target| target.weight *= 1024.0);
        assert_eq!(located(&before), located(&placement(&targets)));
    }
}

#[test]
fn pools_are_placed_independently() {
    let placement = placement(&[target("a", 1.0), target("b", 1.0), target("c", 1.0)]);
    let other = PoolName::new("other").unwrap();
    let same = (0..KEYS)
        .map(|i| format!("object-{i}"))
        .filter(|key| placement.locate(&pool(), key) == placement.locate(&other, key))
        .count();
    assert_share("on the same target in both pools", same, KEYS, 1.0 / 3.0);
}

#[test]
fn objects_with_one_tag_share_a_target() {
    let placement = placement(&[target("a", 1.0), target("b", 2.0), target("c", 3.0)]);
    let locate = |name: String| placement.locate_object(&pool(), &ObjectName::new(name).unwrap());
    for tag in 0..100 {
        let first = locate(format!("{{{tag}}}"));
        for i in 0..20 {
            assert_eq!(first, locate(format!("log-{i}/{{{tag}}}.{i}")));
        }
    }
}
