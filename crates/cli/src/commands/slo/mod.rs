//! `nacre slo …`: which tail latency tenants can be promised.

mod bound;
mod curve;
mod input;
mod place;

use clap::Subcommand;
use nacre_object::Result;

use crate::out::Out;

/// Find out which tail latency tenants can be promised (docs/slo.md)
#[derive(Debug, Subcommand)]
pub enum SloCommand {
    /// Show the most work that a recorded trace asks of each target, in time spans of any length
    Curve(curve::CurveArguments),
    /// Show the longest latency of tenants that share targets, with the token buckets that they have
    Bound(bound::BoundArguments),
    /// Find a target for each of some tenants, so that all of them keep their latency
    Place(place::PlaceArguments),
}

/// Runs one of them.
pub fn run(command: SloCommand, out: Out) -> Result<()> {
    match command {
        SloCommand::Curve(arguments) => curve::curve(&arguments, out),
        SloCommand::Bound(arguments) => bound::bound(&arguments, out),
        SloCommand::Place(arguments) => place::place(&arguments, out),
    }
}

/// Seconds, shown in milliseconds.
fn milliseconds(seconds: f64) -> String {
    format!("{:.3} ms", seconds * 1e3)
}

/// A latency bound.
fn latency(seconds: Option<f64>) -> String {
    seconds.map_or_else(|| "no bound".to_owned(), milliseconds)
}
