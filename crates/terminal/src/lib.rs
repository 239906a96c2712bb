//! What the commands `nacre` and `nacre-bench` share.
//!
//! - `out`: results on standard output, as text or JSON; notes on standard error;
//! - `failure`: errors and exit statuses;
//! - `usage`: errors of a command line that cannot be understood;
//! - `signals`: SIGINT and SIGTERM;
//! - `reader`: whether the output still has a reader;
//! - `input`, `engine`: arguments that several commands take.

pub mod engine;
pub mod failure;
pub mod input;
pub mod out;
pub mod reader;
pub mod signals;
pub mod usage;
