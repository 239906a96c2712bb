//! Throws mutated bytes at whatever parses bytes from outside.
//!
//! A target is a function of bytes that must come to an end without a panic, whatever it is given;
//! it answers whether it made sense of them. Its corpus is the folder `corpus/TARGET` of the crate
//! under test: samples that are valid, and every input that ever broke it. A run tries each of these,
//! then mutations of them; what the target accepts is mutated further, so that a run gets past the
//! first bytes of a format.
//!
//! By default a run is short and always the same. `NACRE_FUZZ_SECONDS=n` goes on for so long from a
//! seed of its own, which it prints; `NACRE_FUZZ_SEED=s` repeats one. An input that breaks the target
//! is written to the corpus: fix it, and check the file in. `NACRE_FUZZ_SAVE=1` writes the samples a
//! target brings along to its corpus.

mod corpus;
mod mutate;
mod run;

pub use run::{fuzz, fuzz_slow};
