//! `nacre brados profile` and `tune`: they choose the layout of a program for the engine at hand.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nacre::{Cluster, ClusterFile};
use nacre_node::Layouts;
use nacre_object::{ClassName, Error, Result};
use nacre_tuner::{
    Derived, Effort, OwnEngine, Profile, Tried, Tuned, Workload, tune as choose, workload_of,
};

use super::brados_counts;
use crate::engine::Engine;
use crate::input::{read_text, seconds};
use crate::out::{Out, note, table};
use crate::signals::unless_interrupted;

/// How long each transaction of a profile is measured, unless somebody says otherwise.
const PROBE_SECONDS: f64 = 0.3;

/// The engine at hand, and what is known of it
#[derive(Debug, clap::Args)]
pub struct At {
    /// The engine to measure: `embedded` (nacre's own), or a Ceph cluster:
    /// `ceph:/path/ceph.conf[?user=NAME&pool=NAME]`
    #[arg(long, default_value_t = Engine::Embedded)]
    engine: Engine,
    /// With the engine `embedded`: measure the disk of this folder
    #[arg(long, default_value = ".", value_name = "DIR")]
    folder: PathBuf,
    /// The file with the engine's profile, its costs, which `nacre brados profile` writes
    #[arg(long, default_value = "brados-profile.json", value_name = "FILE")]
    profile: PathBuf,
}

/// The arguments of `nacre brados profile`
#[derive(Debug, clap::Args)]
pub struct ProfileArguments {
    #[command(flatten)]
    at: At,
    /// Seconds to measure each of about 150 kinds of transactions
    #[arg(long, default_value_t = PROBE_SECONDS, value_parser = seconds, value_name = "SECONDS")]
    seconds: f64,
}

/// The arguments of `nacre brados tune`
#[derive(Debug, clap::Args)]
pub struct TuneArguments {
    /// The program; `-` is standard input
    file: PathBuf,
    /// The workload: a file that says how often each method is called; `programs/workloads/` has
    /// examples
    #[arg(long, value_name = "FILE", required_unless_present = "observed")]
    workload: Option<PathBuf>,
    /// Use the calls that the running cluster has counted for this class as the workload. FILE must
    /// be the source of the class
    #[arg(long, value_name = "CLASS", conflicts_with = "workload")]
    observed: Option<ClassName>,
    #[command(flatten)]
    at: At,
    /// Measure every layout, not only the best few; the output then shows how much the choice gains
    #[arg(long)]
    sweep: bool,
    /// Seconds to measure each layout in a round
    #[arg(long, default_value_t = 1.0, value_parser = seconds, value_name = "SECONDS")]
    seconds: f64,
    /// Number of rounds. Each layout is measured in each round, and its median is used
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=100))]
    rounds: u16,
}

impl TuneArguments {
    /// Whether a running cluster is asked.
    pub fn asks_a_cluster(&self) -> bool {
        self.observed.is_some()
    }
}

impl At {
    async fn open(&self) -> Result<OwnEngine> {
        match &self.engine {
            Engine::Embedded => OwnEngine::embedded(&self.folder),
            Engine::Ceph(entry) => OwnEngine::on_ceph(entry.parse()?).await,
        }
    }

    /// Measures the engine and keeps the profile.
    async fn measure(&self, engine: &OwnEngine, seconds: f64) -> Result<Profile> {
        note(&format!("measuring {}", engine.fingerprint()));
        let progress = &mut |share: f64| note(&format!("  {:.0} %", share * 100.0));
        let fingerprint = engine.fingerprint().clone();
        let span = Duration::from_secs_f64(seconds);
        let profile = Profile::measure(engine.bench(), fingerprint, span, progress).await?;
        write(&self.profile, &profile.to_json()?)?;
        Ok(profile)
    }

    /// The profile that is kept, or a new one if there is none.
    async fn known(&self, engine: &OwnEngine) -> Result<Profile> {
        if !self.profile.exists() {
            return self.measure(engine, PROBE_SECONDS).await;
        }
        let profile = Profile::from_json(&read_text(&self.profile)?)?;
        if profile.engine != *engine.fingerprint() {
            let what = format!(
                "{} is the profile of another engine: {}",
                self.profile.display(),
                profile.engine
            );
            return Err(Error::invalid(what).hint(format!(
                "this is {}: measure it with `nacre brados profile`, or name its profile with --profile",
                engine.fingerprint()
            )));
        }
        Ok(profile)
    }
}

/// Measures an engine.
pub async fn profile(arguments: ProfileArguments, out: Out) -> Result<()> {
    let work = async {
        let engine = arguments.at.open().await?;
        let profile = arguments.at.measure(&engine, arguments.seconds).await?;
        let path = arguments.at.profile.display();
        out.show(&profile, || format!("the profile of {} is in {path}", profile.engine))
    };
    unless_interrupted(work).await
}

/// Chooses a layout. Calls `cluster` only if the workload is observed on the running cluster.
pub async fn tune(
    arguments: TuneArguments,
    cluster: impl Fn() -> Result<ClusterFile>,
    out: Out,
) -> Result<()> {
    // Read standard input before signals are handled, because a blocking read would delay the
    // reaction to a signal.
    let source = read_text(&arguments.file)?;
    let workload = arguments.workload.as_deref().map(read_workload).transpose()?;
    unless_interrupted(choose_and_tell(arguments, &source, workload, cluster, out)).await
}

fn read_workload(path: &Path) -> Result<Workload> {
    Workload::parse(&read_text(path)?)
        .map_err(|error| Error::invalid(format!("{} is no workload: {error}", path.display())))
}

async fn choose_and_tell(
    arguments: TuneArguments,
    source: &str,
    workload: Option<Workload>,
    cluster: impl Fn() -> Result<ClusterFile>,
    out: Out,
) -> Result<()> {
    let workload = match (workload, &arguments.observed) {
        (Some(workload), _) => workload,
        (None, Some(class)) => observed(class, source, &cluster()?).await?,
        (None, None) => {
            return Err(Error::invalid("no workload is given")
                .hint("give --workload FILE or --observed CLASS"));
        }
    };
    let engine = arguments.at.open().await?;
    let profile = arguments.at.known(&engine).await?;
    let effort = Effort {
        span: Duration::from_secs_f64(arguments.seconds),
        rounds: arguments.rounds.into(),
        sweep: arguments.sweep,
    };
    let progress = &mut |layout: &nacre_brados::Layout| note(&format!("measuring {layout}"));
    let tuned = choose(engine.bench(), source, &workload, &profile, effort, progress).await?;
    out.show(&tuned, || told(&tuned))
}

/// Derives a workload from the counted calls of a class. Prints the workload and the assumptions
/// made.
async fn observed(class: &ClassName, source: &str, file: &ClusterFile) -> Result<Workload> {
    let compiled =
        nacre_brados::compile(source).map_err(|errors| Error::invalid(errors.to_string()))?;
    let seen = brados_counts::counted(file).await?.remove(class.as_str()).unwrap_or_default();
    let objects = Layouts::of(&Cluster::reach(file)?).census(class).await?;
    let Derived { workload, assumed } = workload_of(&compiled, &seen, objects)?;
    note(&format!("observed:\n{workload}assumed: {}", assumed.join("; ")));
    Ok(workload)
}

/// The result for people: the layouts from best to worst, the chosen one, and the choice of the
/// built-in rules.
fn told(tuned: &Tuned) -> String {
    let mut order: Vec<usize> = (0..tuned.tried.len()).collect();
    let rate = |at: usize| tuned.tried[at].measured.unwrap_or(0.0);
    order.sort_by(|a, b| {
        let predicted = |at: &usize| tuned.tried[*at].predicted;
        rate(*b).total_cmp(&rate(*a)).then(predicted(b).total_cmp(&predicted(a)))
    });
    let row = |at: &usize| {
        let Tried { layout, predicted, measured, p99_micros } = &tuned.tried[*at];
        let number =
            |value: &Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.0}"));
        let regret =
            tuned.regret(*at).map_or("-".to_owned(), |regret| format!("{:.0} %", regret * 100.0));
        vec![
            layout.clone(),
            format!("{predicted:.0}"),
            number(measured),
            number(p99_micros),
            regret,
        ]
    };
    let rows: Vec<_> = order.iter().map(row).collect();
    let header = ["LAYOUT", "PREDICTED/S", "MEASURED/S", "P99 US", "REGRET"];
    let mut lines = vec![table(&header, &rows), String::new()];
    let chosen = tuned.chosen();
    lines.push(format!("chosen: {} ({:.0}/s)", chosen.layout, rate(tuned.chosen)));
    for (rule, at) in &tuned.rules {
        let layout = &tuned.tried[*at].layout;
        let compared = match tuned.tried[*at].measured {
            None => "not measured (--sweep does)".to_owned(),
            Some(_) if *at == tuned.chosen => "the same".to_owned(),
            Some(by_rule) => {
                format!("{:.2} of the chosen one's rate", by_rule / rate(tuned.chosen))
            }
        };
        lines.push(format!("{rule}: {layout}, {compared}"));
    }
    lines.join("\n")
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).map_err(|error| {
        Error::unavailable(format!("cannot write {}: {error}", path.display()))
            .hint("name another file with --profile")
    })
}
