//! A run of one target.

use std::env;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Duration;

use nacre_clock::{Clock, Random, SystemClock};

use crate::corpus::Corpus;
use crate::mutate::mutate;

/// How many mutations a short run tries. Most targets need about a second for them.
const SHORT_RUN: u64 = 20_000;
/// The most inputs that are mutated: the corpus, and inputs that the target accepted lately.
const MAX_POOL: usize = 4096;

/// How long a run goes on.
enum Length {
    Inputs(u64),
    Time(Duration),
}

/// Fuzzes a target. First calls `parse` with `samples` and with the corpus of `target` in the crate
/// at `manifest_dir`, then with mutations of them. `parse` returns whether it accepted the input.
///
/// # Panics
/// If `parse` panics. The input has been written to the corpus then.
pub fn fuzz(
    manifest_dir: &str,
    target: &str,
    samples: &[Vec<u8>],
    parse: impl FnMut(&[u8]) -> bool,
) {
    fuzz_slow(manifest_dir, target, SHORT_RUN, samples, parse);
}

/// As [`fuzz`], for a slow target: a short run tries only `short_run` inputs.
///
/// # Panics
/// As [`fuzz`].
#[expect(clippy::disallowed_methods, reason = "a person says whether samples are kept")]
pub fn fuzz_slow(
    manifest_dir: &str,
    target: &str,
    short_run: u64,
    samples: &[Vec<u8>],
    mut parse: impl FnMut(&[u8]) -> bool,
) {
    let corpus = Corpus::of(manifest_dir, target);
    if env::var_os("NACRE_FUZZ_SAVE").is_some() {
        samples.iter().for_each(|sample| drop(corpus.write("sample", sample)));
    }
    let mut pool: Vec<Vec<u8>> = samples.to_vec();
    pool.push(Vec::new());
    for sample in samples {
        assert!(parse(sample), "{target}: a sample is not accepted: {sample:02x?}");
    }
    for (name, input) in corpus.read() {
        eprintln!("{target}: {name}");
        parse(&input);
        pool.push(input);
    }

    let (seed, length) = plan(short_run);
    let (clock, mut random) = (SystemClock::default(), Random::seeded(seed));
    let (started, protected) = (clock.monotonic(), pool.len());
    let (mut tried, mut accepted) = (0_u64, 0_u64);
    loop {
        let over = match length {
            Length::Inputs(inputs) => tried >= inputs,
            Length::Time(time) => clock.monotonic() - started >= time,
        };
        if over {
            break;
        }
        let pick = |random: &mut Random| random.below(pool.len() as u64) as usize;
        let (one, other) = (pick(&mut random), pick(&mut random));
        let input = mutate(&pool[one], &pool[other], &mut random);
        tried += 1;
        match catch_unwind(AssertUnwindSafe(|| parse(&input))) {
            Ok(true) => {
                accepted += 1;
                keep(&mut pool, protected, input, &mut random);
            }
            Ok(false) => {}
            Err(panic) => {
                let path = corpus.write("crash", &input);
                eprintln!("{target}: seed {seed}, input {tried}: kept as {}", path.display());
                resume_unwind(panic);
            }
        }
    }
    println!("{target}: seed {seed}, {tried} inputs, {accepted} made sense");
}

#[expect(clippy::disallowed_methods, reason = "a person chooses the length of a fuzz run")]
fn plan(short_run: u64) -> (u64, Length) {
    let number = |name| env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    match number("NACRE_FUZZ_SECONDS") {
        Some(seconds) => {
            let seed = number("NACRE_FUZZ_SEED");
            let seed = seed.unwrap_or_else(|| Random::from_system().next_u64());
            (seed, Length::Time(Duration::from_secs(seconds)))
        }
        None => (number("NACRE_FUZZ_SEED").unwrap_or(1), Length::Inputs(short_run)),
    }
}

/// Adds an input to the pool of inputs to mutate. If the pool is full, replaces a random input that
/// was added before.
fn keep(pool: &mut Vec<Vec<u8>>, protected: usize, input: Vec<u8>, random: &mut Random) {
    if pool.len() < MAX_POOL.max(protected + 1) {
        pool.push(input);
    } else {
        let added = (pool.len() - protected) as u64;
        pool[protected + random.below(added) as usize] = input;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A parser with a mistake that random bytes do not find: two correct fields before it.
    fn mistaken(input: &[u8]) -> bool {
        let Some(rest) = input.strip_prefix(b"nacre") else { return false };
        let Some((length, body)) = rest.split_first() else { return false };
        body.first().is_some_and(|_| body[usize::from(*length % 8)] < 255)
    }

    #[test]
    fn a_bug_is_found_and_its_input_is_kept() {
        let folder = env::temp_dir().join(format!("nacre-fuzz-{}", std::process::id()));
        let manifest_dir = folder.display().to_string();
        let samples = [b"nacre\x01ab".to_vec()];
        let run = || fuzz(&manifest_dir, "mistaken", &samples, mistaken);
        assert!(catch_unwind(run).is_err(), "the mistake is found");
        let kept = Corpus::of(&manifest_dir, "mistaken").read();
        assert_eq!(kept.len(), 1);
        assert!(catch_unwind(|| mistaken(&kept[0].1)).is_err(), "the input repeats it");
        std::fs::remove_dir_all(folder).unwrap();
    }
}
