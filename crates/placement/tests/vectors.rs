//! Placements that must never change: a cluster finds its objects by them.
//!
//! `placements.txt` was computed by `placements.py`, an independent implementation of the
//! definition. A line is the targets as `name=weight,…`, a pool, an object name, and where it is.

use nacre_object::{ObjectId, TargetName};
use nacre_placement::{Placement, Target};

#[test]
fn known_objects_are_where_they_always_were() {
    let lines: Vec<_> =
        include_str!("placements.txt").lines().filter(|line| !line.starts_with('#')).collect();
    assert!(lines.len() > 500, "only {} lines", lines.len());
    for line in lines {
        let fields: Vec<_> = line.split('\t').collect();
        let [targets, pool, name, expected] = fields[..] else { panic!("{line:?}") };
        let targets = targets.split(',').map(|target| {
            let (name, weight) = target.split_once('=').expect("name=weight");
            Target { name: TargetName::new(name).unwrap(), weight: weight.parse().unwrap() }
        });
        let placement = Placement::new(targets.collect()).unwrap();
        let id = ObjectId::new(pool.parse().unwrap(), name.parse().unwrap());
        assert_eq!(placement.locate_object(&id.pool, &id.name).as_str(), expected, "{line}");
    }
}
