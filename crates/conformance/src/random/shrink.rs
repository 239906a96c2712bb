//! Runs all random steps of a seed. After a failure, looks for a few steps that reproduce it, and
//! prints how to run them again.

use super::comparison::Comparison;
use super::generator::{Generator, Step};
use crate::suite::Subject;

/// How many steps run between two comparisons of all contents.
const STEPS_PER_CHECK: usize = 20;
/// The most runs to shorten a failing list of steps. After these the list is short enough to read.
const MAX_SHRINK_RUNS: usize = 400;

/// The seeds to try: `count` of them, times `NACRE_SEEDS` if that environment variable is set. If
/// `NACRE_SEED` is set, only that seed.
#[expect(clippy::disallowed_methods, reason = "a person chooses the seeds of a test run")]
pub fn seeds(count: u64) -> std::ops::Range<u64> {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    match number("NACRE_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..count * number("NACRE_SEEDS").unwrap_or(1),
    }
}

/// Applies this many random steps to a store and to the model, and compares the two after each
/// step.
///
/// # Panics
/// If the store and the model disagree. The message says where, lists a few steps that reproduce
/// the disagreement, and says how to run them again.
pub async fn compare(subject: &Subject, seed: u64, steps: usize) {
    let mut generator = Generator::new(seed, subject.store().capabilities());
    let steps: Vec<_> = (0..steps).map(|_| generator.step()).collect();
    let mut runs = Runs { subject, seed, count: 0 };
    let Err(failure) = runs.run(&steps).await else { return };
    let (steps, failure) = runs.shrink(steps, failure).await;
    let printed: Vec<_> = steps.iter().map(|step| format!("    {step}\n")).collect();
    panic!(
        "seed {seed} fails; {} steps suffice:\n{}{failure}\nagain: NACRE_SEED={seed} cargo test",
        steps.len(),
        printed.concat()
    );
}

/// Runs parts of one seed's steps. Each run has objects of its own.
struct Runs<'a> {
    subject: &'a Subject,
    seed: u64,
    count: usize,
}

impl Runs<'_> {
    async fn run(&mut self, steps: &[Step]) -> Result<(), String> {
        let tag = format!("seed-{}-{}", self.seed, self.count);
        self.count += 1;
        let mut comparison = Comparison::new(&tag);
        for (i, step) in steps.iter().enumerate() {
            comparison
                .apply(self.subject, step)
                .await
                .map_err(|text| format!("step {}: {text}", i + 1))?;
            if (i + 1) % STEPS_PER_CHECK == 0 || i + 1 == steps.len() {
                let checked = comparison.check(self.subject).await;
                checked.map_err(|text| format!("after step {}: {text}", i + 1))?;
            }
        }
        Ok(())
    }

    /// Drops ever smaller groups of steps as long as the rest still fails, and then single ops.
    async fn shrink(&mut self, mut steps: Vec<Step>, mut failure: String) -> (Vec<Step>, String) {
        let mut part = steps.len().div_ceil(2);
        while part > 0 {
            let mut start = 0;
            while start < steps.len() {
                let mut fewer = steps.clone();
                fewer.drain(start..(start + part).min(steps.len()));
                match self.fails(&fewer).await {
                    Some(text) => (steps, failure) = (fewer, text),
                    None => start += part,
                }
            }
            part /= 2;
        }
        for step in (0..steps.len()).rev() {
            // The first op stays: a transaction has at least one.
            for op in (1..steps[step].ops.len()).rev() {
                let mut fewer = steps.clone();
                fewer[step].ops.remove(op);
                if let Some(text) = self.fails(&fewer).await {
                    (steps, failure) = (fewer, text);
                }
            }
        }
        (steps, failure)
    }

    async fn fails(&mut self, steps: &[Step]) -> Option<String> {
        if self.count > MAX_SHRINK_RUNS || steps.is_empty() {
            return None;
        }
        self.run(steps).await.err()
    }
}
