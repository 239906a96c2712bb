//! Translates a job of the simulator into operations on files that a client of CephFS can do.
//!
//! A write creates a file. A read opens a file that the client created in the same directory. A
//! step that reads in several directories lists each of them first, as a linker does.

use std::collections::BTreeMap;

use nacre_balance::{Job, JobStep, UnitGroup};

/// An operation on a directory, given by its path below the root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Operation {
    Create(String),
    Open(String),
    List(String),
}

/// The directories of some units: fragments of one directory share it.
#[derive(Debug)]
pub(super) struct Directories {
    of_unit: BTreeMap<String, String>,
}

impl Directories {
    /// Those of a workload's units.
    pub fn of(units: &[UnitGroup]) -> Self {
        let mut of_unit = BTreeMap::new();
        for group in units {
            let directory = |unit: &str| group.directory.clone().unwrap_or_else(|| unit.to_owned());
            of_unit.insert(group.name.clone(), directory(&group.name));
            for member in 0..group.count {
                let unit = format!("{}.{member}", group.name);
                let directory = directory(&unit);
                of_unit.insert(unit, directory);
            }
        }
        Self { of_unit }
    }

    /// A step's directories, each once.
    fn of_step(&self, step: &JobStep) -> Vec<String> {
        let mut directories: Vec<String> = vec![];
        for unit in &step.units {
            let directory = self.of_unit.get(unit).unwrap_or(unit);
            if !directories.contains(directory) {
                directories.push(directory.clone());
            }
        }
        directories
    }
}

/// All directories in which some jobs work, each once and in order.
pub(super) fn directories_of(jobs: &[Job], directories: &Directories) -> Vec<String> {
    let steps = jobs.iter().flat_map(|job| &job.steps);
    let mut all: Vec<_> = steps.flat_map(|step| directories.of_step(step)).collect();
    all.sort();
    all.dedup();
    all
}

/// Translates the steps of a job into operations, but keeps only one of every `scale_down`
/// operations. A fraction that is left over in one step counts in the next.
pub(super) fn operations_of(
    job: &Job,
    directories: &Directories,
    scale_down: u32,
) -> Vec<Vec<Operation>> {
    let (mut writes_due, mut reads_due) = (0.0, 0.0);
    let mut steps = vec![];
    for step in &job.steps {
        writes_due += step.writes / f64::from(scale_down);
        reads_due += step.reads / f64::from(scale_down);
        let (writes, reads) = (writes_due.round(), reads_due.round());
        writes_due -= writes;
        reads_due -= reads;
        steps.push(operations_of_step(&directories.of_step(step), writes as u64, reads as u64));
    }
    steps
}

/// Reads are interleaved evenly with writes; operations go to the directories in round robin.
fn operations_of_step(directories: &[String], writes: u64, reads: u64) -> Vec<Operation> {
    let mut operations = vec![];
    if reads > 0 && directories.len() > 1 {
        operations.extend(directories.iter().cloned().map(Operation::List));
    }
    let all = writes + reads;
    for at in 0..all {
        let directory = directories[at as usize % directories.len()].clone();
        let is_read = (at + 1) * reads / all > at * reads / all;
        let operation = if is_read { Operation::Open } else { Operation::Create };
        operations.push(operation(directory));
    }
    operations
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workloads::{compilation, shared_directory};

    fn counts(steps: &[Vec<Operation>]) -> (usize, usize, usize) {
        let count = |of: fn(&Operation) -> bool| steps.iter().flatten().filter(|it| of(it)).count();
        (
            count(|it| matches!(it, Operation::Create(_))),
            count(|it| matches!(it, Operation::Open(_))),
            count(|it| matches!(it, Operation::List(_))),
        )
    }

    #[test]
    fn a_job_that_is_scaled_down_has_its_share_of_operations() {
        let workload = shared_directory(4, 1);
        let directories = Directories::of(&workload.units);
        for job in &workload.jobs {
            assert_eq!(counts(&operations_of(job, &directories, 20)), (5000, 0, 0));
        }
        let workload = compilation(1, 1);
        let directories = Directories::of(&workload.units);
        let steps = operations_of(&workload.jobs[0], &directories, 100);
        // The whole job unpacks with 20,000 writes, and compiles with 160,000 operations, half of
        // them reads. It links with 40,000 operations, 30 % of them reads. A hundredth of these
        // remains.
        assert_eq!(counts(&steps), (200 + 800 + 280, 800 + 120, 12));
    }

    #[test]
    fn all_fragments_of_a_directory_count_as_one_directory() {
        let workload = shared_directory(2, 1);
        let directories = Directories::of(&workload.units);
        assert_eq!(directories_of(&workload.jobs, &directories), ["dir"]);
    }

    #[test]
    fn reads_are_spread_among_writes() {
        let operations = operations_of_step(&["a".to_owned()], 2, 2);
        let is_read: Vec<_> =
            operations.iter().map(|it| matches!(it, Operation::Open(_))).collect();
        assert_eq!(is_read, [false, true, false, true]);
    }
}
