//! Tests that need virtual time, or more runs than real daemons allow.

mod lending;
mod lending_faults;
mod lost_targets;
mod planted_bugs;
mod sequencers;
mod waiting;
