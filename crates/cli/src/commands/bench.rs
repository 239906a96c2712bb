//! `nacre bench`: figures beside their baselines.

use std::path::PathBuf;
use std::time::Duration;

use nacre_bench::{Bench, DEFAULT_SCALE_OBJECTS, DEFAULT_SCALE_POOL_GIB, Figure, Setup};
use nacre_object::Result;
use tokio::sync::OnceCell;

use super::up::this_program;
use crate::engine::Engine;
use crate::out::{Out, note};
use crate::signals::unless_interrupted;

/// What `nacre bench` can be told
#[derive(Debug, clap::Args)]
pub struct BenchArguments {
    /// What to measure; everything if nothing is named
    #[arg(value_name = "NAME", value_parser = parse)]
    benches: Vec<Bench>,
    /// Measure on a Ceph cluster, `ceph:/path/ceph.conf[?user=NAME&pool=NAME]`, what can be measured there
    #[arg(long, default_value_t = Engine::Embedded)]
    engine: Engine,
    /// How long each side is measured in a round
    #[arg(long, default_value_t = 2.0, value_parser = seconds, value_name = "SECONDS")]
    seconds: f64,
    /// How often each side is measured; the medians count
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=100))]
    rounds: u16,
    /// Measure only figures whose names hold this, as in "4096 B"
    #[arg(long, default_value = "", hide_default_value = true, value_name = "TEXT")]
    only: String,
    /// Measure the disk of this folder
    #[arg(long, default_value = ".", value_name = "DIR")]
    folder: PathBuf,
    /// Objects that `scale` grows a pool to
    #[arg(long, default_value_t = DEFAULT_SCALE_OBJECTS,
          value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    objects: u64,
    /// Size that `scale` grows a pool to
    #[arg(long, default_value_t = DEFAULT_SCALE_POOL_GIB, value_name = "GIB",
          value_parser = clap::value_parser!(u64).range(1..=1024))]
    pool_gib: u64,
}

fn parse(text: &str) -> Result<Bench> {
    text.parse()
}

pub(super) fn seconds(text: &str) -> std::result::Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.05..=3600.0).contains(&seconds) => Ok(seconds),
        _ => Err("give 0.05 to 3600".to_owned()),
    }
}

/// Runs benches until they are done or interrupted.
pub async fn run(arguments: BenchArguments, out: Out) -> Result<()> {
    let ceph = match &arguments.engine {
        Engine::Embedded => None,
        Engine::Ceph(entry) => Some(entry.parse()?),
    };
    let all = if ceph.is_some() { Bench::ON_CEPH.to_vec() } else { Bench::ALL.to_vec() };
    let setup = Setup {
        ceph,
        in_process: OnceCell::new(),
        folder: arguments.folder,
        program: this_program()?,
        span: Duration::from_secs_f64(arguments.seconds),
        rounds: arguments.rounds.into(),
        only: arguments.only,
        objects: arguments.objects,
        pool_bytes: arguments.pool_gib << 30,
    };
    let benches = match arguments.benches.is_empty() {
        true => all,
        false => arguments.benches,
    };
    let outcome = unless_interrupted(measure(&benches, &setup, out)).await;
    setup.close().await;
    outcome
}

async fn measure(benches: &[Bench], setup: &Setup, out: Out) -> Result<()> {
    for bench in benches {
        note(&format!(
            "measuring {} ({} times {:?} a side)",
            bench.name(),
            setup.rounds,
            setup.span
        ));
        let mut printed = Ok(());
        let report = &mut |figure: Figure| {
            let shown = out.show(&figure, || line(&figure));
            if shown.is_err() {
                printed = shown;
            }
        };
        nacre_bench::run(*bench, setup, report).await?;
        printed?;
    }
    Ok(())
}

/// A figure for people.
fn line(figure: &Figure) -> String {
    let aim = match figure.aim {
        Some(aim) if figure.is_met() => format!("  (aim {aim}: met)"),
        Some(aim) => format!("  (aim {aim}: not met)"),
        None => String::new(),
    };
    format!(
        "{} {}: {} {}, {:.2} of {} ({}){aim}",
        figure.bench,
        figure.figure,
        number(figure.ours),
        figure.unit,
        figure.ratio,
        figure.baseline_name,
        number(figure.baseline),
    )
}

fn number(value: f64) -> String {
    if value >= 100.0 { format!("{value:.0}") } else { format!("{value:.2}") }
}
