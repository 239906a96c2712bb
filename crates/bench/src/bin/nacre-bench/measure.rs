//! `nacre-bench NAME`: figures beside their baselines.

use std::path::PathBuf;
use std::time::Duration;

use nacre_bench::{Bench, DEFAULT_SCALE_OBJECTS, DEFAULT_SCALE_POOL_GIB, Figure, Setup};
use nacre_object::{Error, Result};
use nacre_terminal::engine::Engine;
use nacre_terminal::input::seconds;
use nacre_terminal::out::{Out, note};
use nacre_terminal::signals::unless_interrupted;
use tokio::sync::OnceCell;

/// Which benches to run, and how long.
#[derive(Debug, clap::Args)]
pub struct MeasureArguments {
    /// The benches to run (default: all)
    #[arg(value_name = "NAME", value_parser = parse)]
    benches: Vec<Bench>,
    /// The engine to measure: `embedded` (nacre's own), or a Ceph cluster:
    /// `ceph:/path/ceph.conf[?user=NAME&pool=NAME]`. Only some benches run on Ceph
    #[arg(long, default_value_t = Engine::Embedded)]
    engine: Engine,
    /// The repository's scripts/ceph-cluster; with --engine, `slo-keep`, `slo-admit`, `route-caches`,
    /// `route-replicas` and `route-tail` start Ceph clusters of their own by it
    #[arg(long, value_name = "PROGRAM")]
    ceph_cluster: Option<PathBuf>,
    /// Seconds to measure each side (nacre, and its baseline) in a round
    #[arg(long, default_value_t = 2.0, value_parser = seconds, value_name = "SECONDS")]
    seconds: f64,
    /// Number of rounds. Each round measures both sides, and the medians are reported
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=100))]
    rounds: u16,
    /// Measure only figures whose names contain this text, such as "4096 B"
    #[arg(long, default_value = "", hide_default_value = true, value_name = "TEXT")]
    only: String,
    /// Measure the disk of this folder: the benches create scratch folders in it
    #[arg(long, default_value = ".", value_name = "DIR")]
    folder: PathBuf,
    /// Number of objects with which the bench `scale` fills a pool
    #[arg(long, default_value_t = DEFAULT_SCALE_OBJECTS,
          value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    objects: u64,
    /// Size to which the bench `scale` fills a pool, in GiB
    #[arg(long, default_value_t = DEFAULT_SCALE_POOL_GIB, value_name = "GIB",
          value_parser = clap::value_parser!(u64).range(1..=1024))]
    pool_gib: u64,
}

fn parse(text: &str) -> Result<Bench> {
    text.parse()
}

/// Finds the `nacre` command, which the benches start as nodes. It is in the folder of this
/// program, because Cargo builds both into the same folder.
///
/// # Errors
/// `NotFound` if that folder has no `nacre` command.
pub(crate) fn nacre_beside_this() -> Result<PathBuf> {
    let this = std::env::current_exe()
        .map_err(|error| Error::unavailable(format!("cannot find this program's file: {error}")))?;
    let nacre = this.with_file_name("nacre");
    match nacre.is_file() {
        true => Ok(nacre),
        false => Err(Error::not_found(format!("there is no {}", nacre.display()))
            .hint("build both commands into one folder: `make build-bench`")),
    }
}

/// Runs benches until they are done or interrupted.
pub async fn run(arguments: MeasureArguments, out: Out) -> Result<()> {
    let ceph = match &arguments.engine {
        Engine::Embedded => None,
        Engine::Ceph(entry) => Some(entry.parse()?),
    };
    let all = if ceph.is_some() { Bench::ON_CEPH.to_vec() } else { Bench::ALL.to_vec() };
    let setup = Setup {
        ceph,
        ceph_cluster: arguments.ceph_cluster,
        in_process: OnceCell::new(),
        folder: arguments.folder,
        program: nacre_beside_this()?,
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
            let shown = out.show(&figure, || figure.line());
            if shown.is_err() {
                printed = shown;
            }
        };
        nacre_bench::run(*bench, setup, report).await?;
        printed?;
    }
    Ok(())
}
