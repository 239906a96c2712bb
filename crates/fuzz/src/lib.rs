//! A fuzzer for parsers of bytes from outside. Tests of other crates use it.
//!
//! A *target* is a function of bytes. It must end without a panic for any bytes, and returns
//! whether it accepted them. Its corpus is the folder `corpus/TARGET` of the crate under test. It
//! holds valid samples, and every input that ever made the target fail. A run tries each of these,
//! then mutations of them. Inputs that the target accepts are mutated further, so that a run gets
//! past the first bytes of a format.
//!
//! By default a run is short and always the same. `NACRE_FUZZ_SECONDS=n` runs for n seconds from a
//! new seed, which it prints. `NACRE_FUZZ_SEED=s` repeats the run with the seed `s`. An input that
//! makes the target fail is written to the corpus: fix the parser, and check the input in.
//! `NACRE_FUZZ_SAVE=1` writes the samples that a target comes with to its corpus.

mod corpus;
mod mutate;
mod run;

pub use run::{fuzz, fuzz_slow};
