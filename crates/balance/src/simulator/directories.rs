//! `Directories`: which units are fragments of one directory, and how many ranks serve each
//! directory.
//!
//! The fragments of a directory share values such as the directory's size. A rank that changes such
//! a value needs the agreement of the other ranks that serve the directory.

use std::collections::{BTreeMap, BTreeSet};

use super::scenario::UnitPlan;

/// Which units are fragments of one directory, and how many ranks serve it.
#[derive(Debug, Default)]
pub(super) struct Directories {
    /// The directory of each unit.
    of_unit: Vec<Option<usize>>,
    all: Vec<Directory>,
}

#[derive(Debug)]
struct Directory {
    /// The rank on which the directory began. It keeps the values that the fragments share.
    first_rank: usize,
    fragments: Vec<usize>,
    /// How many ranks serve its fragments.
    ranks: usize,
}

impl Directories {
    /// The directories of some units.
    pub fn new(units: &[UnitPlan<'_>]) -> Self {
        let mut numbers = BTreeMap::new();
        let mut directories = Self::default();
        for (unit, plan) in units.iter().enumerate() {
            let number = plan.group.directory.as_deref().map(|name| {
                let next = numbers.len();
                *numbers.entry(name).or_insert(next)
            });
            if let Some(number) = number {
                if number == directories.all.len() {
                    let (first_rank, fragments) = (plan.first_rank, vec![]);
                    directories.all.push(Directory { first_rank, fragments, ranks: 1 });
                }
                directories.all[number].fragments.push(unit);
            }
            directories.of_unit.push(number);
        }
        let all = &mut directories.all;
        all.iter_mut().for_each(|directory| directory.count(|unit| units[unit].first_rank));
        directories
    }

    /// A unit has moved: counts the ranks of its directory anew.
    pub fn moved(&mut self, unit: usize, rank_of: impl Fn(usize) -> usize) {
        if let Some(number) = self.of_unit[unit] {
            self.all[number].count(rank_of);
        }
    }

    /// How many other ranks must agree to an operation on a unit; 0 on the first rank of the unit's
    /// directory.
    pub fn others(&self, unit: usize, rank: usize) -> usize {
        let directory = self.of_unit[unit].map(|number| &self.all[number]);
        let remote = directory.filter(|directory| directory.first_rank != rank);
        remote.map_or(0, |directory| directory.ranks - 1)
    }
}

impl Directory {
    fn count(&mut self, rank_of: impl Fn(usize) -> usize) {
        let ranks: BTreeSet<usize> = self.fragments.iter().map(|unit| rank_of(*unit)).collect();
        self.ranks = ranks.len();
    }
}
