//! Runs a test with seeds that failed before, which are in a file beside the test.

use std::fmt::Debug;
use std::ops::Range;

use crate::{Chronicle, seeds};

/// A checked-in file of seeds, one a line. `#` begins a comment.
#[derive(Debug, Clone, Copy)]
pub struct SeedCases {
    /// The file's name, for the message that suggests adding a seed.
    pub file: &'static str,
    /// The content of the file.
    pub text: &'static str,
}

impl SeedCases {
    /// Calls `run` with each seed in the file of seeds that failed before, and then with those of
    /// [`seeds`]. Returns the number of seeds. If `run` panics, prints the seed and how to run it
    /// again.
    ///
    /// # Panics
    /// If a line of the file is not a seed.
    pub fn each(&self, count: u64, mut run: impl FnMut(u64)) -> usize {
        let mut runs = 0;
        for seed in self.seeds(count) {
            let named = Named { seed, file: self.file };
            run(seed);
            drop(named);
            runs += 1;
        }
        runs
    }

    /// Runs a simulation with the seeds of [`SeedCases::each`], and prints how often each event
    /// happened.
    ///
    /// # Panics
    /// - If a seed fails, with its error.
    /// - If a hundred seeds or more have run and an event of `must_happen` never happened.
    pub fn simulate(
        &self,
        count: u64,
        must_happen: impl IntoIterator<Item = &'static str>,
        run: impl Fn(u64) -> Result<Chronicle, String>,
    ) {
        let mut all = Chronicle::default();
        let count = self.each(count, |seed| {
            all.add(&run(seed).unwrap_or_else(|error| panic!("{error}")));
        });
        println!("{count} seeds\n{all}");
        let missing = all.missing(must_happen);
        assert!(count < 100 || missing.is_empty(), "no seed brought about: {missing:?}");
    }

    /// The seeds in the file of seeds that failed before, then those of [`seeds`]. If the
    /// environment variable `NACRE_SEED` names a seed, only that one.
    ///
    /// # Panics
    /// If a line of the file is not a seed.
    pub fn seeds(&self, count: u64) -> Vec<u64> {
        let is_alone = seeds(2).count() == 1;
        let kept = if is_alone { vec![] } else { self.kept() };
        kept.into_iter().chain(seeds(count)).collect()
    }

    fn kept(&self) -> Vec<u64> {
        let lines = self.text.lines().map(|line| line.split('#').next().unwrap_or("").trim());
        let seeds = lines.filter(|line| !line.is_empty());
        let parsed = seeds.map(|seed| {
            seed.parse().unwrap_or_else(|error| panic!("{}: {seed}: {error}", self.file))
        });
        parsed.collect()
    }
}

/// Runs a simulation with a planted bug, seed after seed, until one fails. Prints that seed.
/// `counts` says whether an error shows the bug. An error may have another cause, for example that
/// the simulation makes no progress.
///
/// # Panics
/// If no seed shows the bug.
pub fn find_planted_bug<T>(
    bug: impl Debug,
    seeds: Range<u64>,
    counts: impl Fn(&str) -> bool,
    run: impl Fn(u64) -> Result<T, String>,
) {
    let found = seeds.into_iter().find_map(|seed| {
        let error = run(seed).err()?;
        counts(&error).then_some((seed, error))
    });
    let Some((seed, error)) = found else { panic!("nobody notices {bug:?}") };
    println!("{bug:?}: seed {seed}: {}", error.lines().next().unwrap_or_default());
}

/// Prints the seed if the run panics.
struct Named {
    seed: u64,
    file: &'static str,
}

impl Drop for Named {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let Self { seed, file } = self;
            eprintln!(
                "seed {seed} fails; NACRE_SEED={seed} runs it alone; add it to {file} with its cause"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seeds_of_the_list_are_tried_first() {
        let cases = SeedCases { file: "none", text: "# head\n7 # why\n\n9\n" };
        assert_eq!(cases.kept(), [7, 9]);
    }
}
