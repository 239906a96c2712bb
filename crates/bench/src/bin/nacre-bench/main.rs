//! The `nacre-bench` command: measures nacre against the software that people would use instead,
//! and draws figures.
//!
//! Exit status: 0 for success, 1 for a failure, 2 for wrong arguments, 130 or 143 if SIGINT or
//! SIGTERM ended it early. Results go to standard output, with `--json` as one JSON document a
//! line. Everything else goes to standard error.

mod experiment;
mod measure;
mod plot;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use nacre_object::Result;
use nacre_terminal::out::Out;
use nacre_terminal::{failure, usage};

/// The allocator of the `nacre` command, so that both sides of a figure have the same one.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Measure nacre and the software that people would use instead (the baseline), in one run
#[derive(Debug, Parser)]
#[command(name = "nacre-bench", version, args_conflicts_with_subcommands = true)]
struct Arguments {
    #[command(flatten)]
    measure: measure::MeasureArguments,
    /// Print JSON, one document a line
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Measure or simulate a figure of one of the papers that nacre is built on, and draw it
    Experiment(experiment::ExperimentArguments),
    /// Draw numbers in JSON, such as the output of `nacre-bench --json`, as SVG
    Plot(plot::PlotArguments),
}

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return usage::tell(&error),
    };
    // A measurement makes clusters, in this process or in those it starts.
    if !matches!(arguments.command, Some(Command::Plot(_))) {
        nacre_files::restrict_process();
    }
    let out = Out::new(arguments.json);
    failure::run(out, || run(arguments, out))
}

async fn run(arguments: Arguments, out: Out) -> Result<()> {
    match arguments.command {
        None => measure::run(arguments.measure, out).await,
        Some(Command::Experiment(experiment)) => experiment::run(experiment, out).await,
        Some(Command::Plot(plot)) => plot::run(&plot, out),
    }
}
