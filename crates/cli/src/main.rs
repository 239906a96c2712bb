//! The `nacre` command.
fn main() {}
