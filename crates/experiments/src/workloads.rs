//! The workloads of the Mantle paper, as jobs for the simulator's clients. The same seed always
//! gives the same jobs.

use nacre_balance::{Job, JobStep, UnitGroup};
use nacre_clock::Random;

/// A client that no rank slows down creates a file in this time.
pub(crate) const CREATE_SECONDS: f64 = 1e-3;
/// Files that each client creates, in the Mantle paper.
const FILES: f64 = 100_000.0;
/// In the Mantle paper a directory is divided into eight fragments when it has this many entries.
pub(crate) const ENTRIES_BEFORE_FRAGMENTS: f64 = 50_000.0;
const FRAGMENTS: usize = 8;
/// The directory before that.
const WHOLE: &str = "dir.whole";
/// A client is slower or faster than the mean by at most this share.
const VARIATION: f64 = 0.03;
/// Clients begin within so many seconds.
const BEGIN_WITHIN_SECONDS: f64 = 2.0;

/// The top directories of the Linux source, each with its share of a compilation's operations in
/// percent. In the Mantle paper, `arch`, `kernel`, `fs` and `mm` are the busiest.
const DIRECTORIES: [(&str, u64); 12] = [
    ("arch", 20),
    ("block", 2),
    ("crypto", 3),
    ("drivers", 12),
    ("fs", 18),
    ("include", 6),
    ("init", 1),
    ("ipc", 1),
    ("kernel", 18),
    ("lib", 3),
    ("mm", 13),
    ("net", 3),
];
/// The first steps of a compilation unpack the source.
pub(crate) const UNTAR_STEPS: usize = DIRECTORIES.len();
/// Operations of a client that untars, compiles and links, and the time of one.
const UNTAR: (f64, f64) = (20_000.0, 3e-3);
const COMPILE: (f64, f64) = (160_000.0, 1.5e-3);
const LINK: (f64, f64) = (40_000.0, 1e-3);
/// Operations on one directory before a compiling client turns to the next.
const STRETCH: f64 = 2000.0;
/// A compilation reads as much as it writes.
const COMPILE_READS_SHARE: f64 = 0.5;
/// Linking lists directories, and writes what it makes.
const LINK_READS_SHARE: f64 = 0.3;

/// Clients with their units.
#[derive(Debug, Clone)]
pub(crate) struct Workload {
    pub units: Vec<UnitGroup>,
    pub jobs: Vec<Job>,
    /// How many clients use a unit.
    pub clients_per_unit: f64,
}

/// Clients that create files in one directory, which is fragmented on the way.
pub(crate) fn shared_directory(clients: usize, seed: u64) -> Workload {
    let mut random = Random::seeded(seed);
    let fragments: Vec<_> = (0..FRAGMENTS).map(|at| format!("dir.{at}")).collect();
    let early = ENTRIES_BEFORE_FRAGMENTS / clients as f64;
    let job = |_| {
        let (begins_at_seconds, pace) = variation(&mut random);
        let step = |units: Vec<String>, writes: f64| JobStep {
            units,
            writes,
            think_seconds: CREATE_SECONDS * pace,
            ..JobStep::default()
        };
        let steps = vec![step(vec![WHOLE.into()], early), step(fragments.clone(), FILES - early)];
        Job { begins_at_seconds, steps }
    };
    let jobs = (0..clients).map(job).collect();
    let units = vec![units(WHOLE, 1, Some("dir")), units("dir", FRAGMENTS, Some("dir"))];
    Workload { units, jobs, clients_per_unit: clients as f64 }
}

/// Clients that create files, each in a directory of its own.
pub(crate) fn separate_directories(clients: usize, seed: u64) -> Workload {
    let mut random = Random::seeded(seed);
    let name = |client: usize| format!("client{client}");
    let job = |client| {
        let (begins_at_seconds, pace) = variation(&mut random);
        let step = JobStep {
            units: vec![name(client)],
            writes: FILES,
            think_seconds: CREATE_SECONDS * pace,
            ..JobStep::default()
        };
        Job { begins_at_seconds, steps: vec![step] }
    };
    let jobs = (0..clients).map(job).collect();
    let units = (0..clients).map(|client| units(&name(client), 1, None)).collect();
    Workload { units, jobs, clients_per_unit: 1.0 }
}

/// The same workload with the units assigned to the ranks in turn.
pub(crate) fn dealt_out(mut workload: Workload) -> Workload {
    workload.units.iter_mut().for_each(|units| units.first_rank = None);
    workload
}

/// Clients that untar, compile and link the Linux source, each in a tree of its own.
pub(crate) fn compilation(clients: usize, seed: u64) -> Workload {
    let mut random = Random::seeded(seed);
    let jobs = (0..clients).map(|client| compiling(client, &mut random)).collect();
    let units = (0..clients)
        .flat_map(|client| DIRECTORIES.map(|(name, _)| units(&directory(client, name), 1, None)));
    Workload { units: units.collect(), jobs, clients_per_unit: 1.0 }
}

fn compiling(client: usize, random: &mut Random) -> Job {
    let (begins_at_seconds, pace) = variation(random);
    let step = |name: &str, operations: f64, reads_share: f64, seconds: f64| JobStep {
        units: vec![directory(client, name)],
        reads: operations * reads_share,
        writes: operations * (1.0 - reads_share),
        think_seconds: seconds * pace,
    };
    // The directories are unpacked one after another.
    let untar = DIRECTORIES.map(|(name, share)| {
        let operations = UNTAR.0 * share as f64 / 100.0;
        step(name, operations, 0.0, UNTAR.1)
    });
    let mut steps = untar.to_vec();
    let stretches = (COMPILE.0 / STRETCH) as u64;
    for _ in 0..stretches {
        steps.push(step(drawn(random), STRETCH, COMPILE_READS_SHARE, COMPILE.1));
    }
    let all = DIRECTORIES.map(|(name, _)| directory(client, name));
    let link = step("arch", LINK.0, LINK_READS_SHARE, LINK.1);
    steps.push(JobStep { units: all.to_vec(), ..link });
    Job { begins_at_seconds, steps }
}

/// A directory by its share of a compilation.
fn drawn(random: &mut Random) -> &'static str {
    let mut left = random.below(100);
    for (name, share) in DIRECTORIES {
        match left.checked_sub(share) {
            Some(rest) => left = rest,
            None => return name,
        }
    }
    unreachable!("the shares are 100")
}

const _: () = {
    let (mut at, mut sum) = (0, 0);
    while at < DIRECTORIES.len() {
        sum += DIRECTORIES[at].1;
        at += 1;
    }
    assert!(sum == 100);
};

/// Draws two random values for a client: the second at which it begins, and the factor by which its
/// operations are slower or faster than the mean.
pub(crate) fn variation(random: &mut Random) -> (f64, f64) {
    let mut share = || random.below(1 << 20) as f64 / f64::from(1 << 20);
    (share() * BEGIN_WITHIN_SECONDS, 1.0 + VARIATION * (2.0 * share() - 1.0))
}

fn directory(client: usize, name: &str) -> String {
    format!("client{client}/{name}")
}

/// Units that begin on the first rank.
pub(crate) fn units(name: &str, count: usize, directory: Option<&str>) -> UnitGroup {
    UnitGroup {
        name: name.to_owned(),
        count,
        kind: "directory".to_owned(),
        first_rank: Some(0),
        directory: directory.map(str::to_owned),
        ..UnitGroup::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operations(job: &Job) -> f64 {
        job.steps.iter().map(|step| step.reads + step.writes).sum()
    }

    #[test]
    fn the_same_seed_gives_the_same_jobs_and_another_seed_others() {
        assert_eq!(compilation(3, 7).jobs, compilation(3, 7).jobs);
        assert_ne!(compilation(3, 7).jobs, compilation(3, 8).jobs);
    }

    #[test]
    fn every_client_has_the_same_number_of_operations() {
        let per_client = UNTAR.0 + COMPILE.0 + LINK.0;
        for (workload, expected) in
            [(shared_directory(4, 1), FILES), (compilation(3, 1), per_client)]
        {
            for job in &workload.jobs {
                assert!((operations(job) - expected).abs() < 1e-6, "{}", operations(job));
            }
        }
    }

    #[test]
    fn hot_directories_have_the_most_operations_of_a_compilation() {
        let job = &compilation(1, 1).jobs[0];
        let of = |name: &str| {
            let unit = directory(0, name);
            job.steps
                .iter()
                .filter(|step| step.units == [unit.clone()])
                .map(|it| it.writes)
                .sum::<f64>()
        };
        for hot in ["arch", "kernel", "fs", "mm"] {
            assert!(of(hot) > of("net"), "{hot}");
        }
    }
}
