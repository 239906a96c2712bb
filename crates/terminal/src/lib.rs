//! The parts that the commands `nacre` and `nacre-bench` share.
//!
//! - `out`: prints results on standard output, as text or JSON, and notes on standard error;
//! - `failure`: prints errors and chooses the exit status;
//! - `usage`: prints errors of a command line that cannot be parsed;
//! - `signals`: handles SIGINT and SIGTERM;
//! - `reader`: detects whether the output still has a reader;
//! - `input`, `engine`: arguments that several commands take.

pub mod engine;
pub mod failure;
pub mod input;
pub mod out;
pub mod reader;
pub mod signals;
pub mod usage;
