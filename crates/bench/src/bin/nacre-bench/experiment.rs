//! `nacre-bench experiment`: measures or simulates figures of papers (Brados, Mantle, Malacology
//! and the thesis on SLOs), and draws them.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nacre_bench::{PaperFigure, PaperReport, Setup};
use nacre_clock::{Clock, SystemClock};
use nacre_experiments::{
    CephFsEffort, CephFsFigure, CephFsReport, Effort, Experiment, FigureChart, MeasuredFinding,
    Measurement, RecordedBuild, Report, SimulatedFigure, SimulatedReport, Site, StoredReport, plot,
};
use nacre_object::{Error, Result};
use nacre_terminal::engine::Engine;
use nacre_terminal::input::{read_text, seconds};
use nacre_terminal::out::{Out, note, utc};
use nacre_terminal::signals::unless_interrupted;
use serde_json::json;

use crate::measure::nacre_beside_this;

/// How long each point is measured in a round by default.
const DEFAULT_SECONDS: f64 = 0.2;
/// The file of a simulated figure's report.
const SIMULATED: &str = "simulated.json";
/// The file of its report with clients that do a recorded build.
const RECORDED: &str = "recorded.json";
/// The file of a report that was measured on nodes.
const EMBEDDED: &str = "embedded.json";
/// The file of a report that was measured on nodes whose data is in Ceph.
const CEPH: &str = "ceph.json";
/// The file of its report on CephFS.
const CEPHFS: &str = "cephfs.json";

/// Which figure to measure or simulate, and on what.
#[derive(Debug, clap::Args)]
pub struct ExperimentArguments {
    /// The figure: the name of a folder in `experiments/`, such as brados-5-random-reads
    #[arg(value_name = "NAME", value_parser = parse)]
    figure: Figure,
    /// The engine to measure: `embedded` (nacre's own), or a Ceph cluster:
    /// `ceph:/path/ceph.conf[?user=NAME&pool=NAME]`
    #[arg(long, default_value_t = Engine::Embedded)]
    engine: Engine,
    /// With the engine `embedded`: measure the disk of this folder [default: .]
    #[arg(long, value_name = "DIR")]
    folder: Option<PathBuf>,
    /// The folder for the results: NAME/ENGINE.json and NAME/ENGINE.svg, or for simulated figures
    /// NAME/simulated.json and charts
    #[arg(long, default_value = "experiments", value_name = "DIR")]
    out: PathBuf,
    /// Measure a figure of balancing on CephFS, sroute-7-tail, sroute-8-replicas or
    /// sroute-10-caches on Ceph, or with --on-nodes a figure of the
    /// thesis on Ceph, in Ceph clusters that this script starts: the path of scripts/ceph-cluster
    #[arg(long, conflicts_with = "engine", value_name = "SCRIPT")]
    ceph_cluster: Option<PathBuf>,
    /// With --ceph-cluster: run one of every N operations that the Mantle paper ran
    #[arg(long, default_value_t = 20, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    scale_down: u32,
    /// Simulate a figure of compilations with a real build, which scripts/record-build has recorded
    /// in this file
    #[arg(long, conflicts_with_all = ["engine", "folder", "ceph_cluster"], value_name = "FILE")]
    build: Option<PathBuf>,
    /// Measure a figure of the thesis on SLOs on nodes whose disks are slowed down, as root; without
    /// this option it is simulated
    #[arg(long, conflicts_with_all = ["engine", "build"])]
    on_nodes: bool,
    /// Seconds to measure each point in a round [default: 0.2]
    #[arg(long, value_parser = seconds, value_name = "SECONDS")]
    seconds: Option<f64>,
    /// Number of rounds. Each round measures every point, and the medians are drawn
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=100))]
    rounds: u16,
    /// Add a remark about the device or the machine to the report
    #[arg(long, value_name = "TEXT")]
    remark: Option<String>,
    /// Draw the stored reports in --out again, and measure nothing
    #[arg(long, conflicts_with_all = ["engine", "folder", "ceph_cluster", "seconds", "rounds", "remark"])]
    redraw: bool,
}

impl ExperimentArguments {
    fn folder(&self) -> PathBuf {
        self.folder.clone().unwrap_or_else(|| ".".into())
    }

    fn span(&self) -> Duration {
        Duration::from_secs_f64(self.seconds.unwrap_or(DEFAULT_SECONDS))
    }
}

/// A figure by how it is made.
#[derive(Debug, Clone, Copy)]
enum Figure {
    Measured(Experiment),
    Simulated(SimulatedFigure),
    OnNodes(PaperFigure),
}

impl Figure {
    fn name(self) -> &'static str {
        match self {
            Self::Measured(experiment) => experiment.name(),
            Self::Simulated(figure) => figure.name(),
            Self::OnNodes(figure) => figure.name(),
        }
    }

    /// The same figure, measured on nodes.
    fn on_nodes(self) -> Result<Self> {
        self.name().parse().map(Self::OnNodes).map_err(|_: Error| {
            let text = format!("{} is not measured on nodes with slow disks", self.name());
            Error::invalid(text).hint("leave out --on-nodes")
        })
    }
}

fn parse(text: &str) -> Result<Figure> {
    if let Ok(figure) = text.parse() {
        return Ok(Figure::Simulated(figure));
    }
    if let Ok(figure) = text.parse() {
        return Ok(Figure::OnNodes(figure));
    }
    text.parse().map(Figure::Measured).map_err(|error: Error| {
        let measured = Experiment::ALL.map(Experiment::name);
        let simulated = SimulatedFigure::ALL.map(SimulatedFigure::name);
        let on_nodes = PaperFigure::ALL.map(PaperFigure::name);
        let mut names = [&measured[..], &simulated[..]].concat();
        // Figures of the thesis are both simulated and measured.
        names.extend(on_nodes.into_iter().filter(|name| !simulated.contains(name)));
        error.hint(format!("choose one of {}", names.join(", ")))
    })
}

/// Measures or simulates, and draws, until it is done or interrupted.
pub async fn run(arguments: ExperimentArguments, out: Out) -> Result<()> {
    let folder = arguments.out.join(arguments.figure.name());
    let figure = match arguments.on_nodes {
        true => arguments.figure.on_nodes()?,
        false => arguments.figure,
    };
    match figure {
        Figure::Measured(_) if arguments.redraw => redraw(&folder, out),
        Figure::Simulated(_) if arguments.redraw => {
            for kept in [SIMULATED, RECORDED].map(|file| folder.join(file)) {
                if kept.ends_with(SIMULATED) || kept.exists() {
                    let report = SimulatedReport::from_json(&read_text(&kept)?)?;
                    draw_simulated(&report, &folder, out)?;
                }
            }
            redraw_on_nodes(&folder, out)?;
            let on_cephfs = folder.join(CEPHFS);
            match on_cephfs.exists() {
                true => {
                    draw_on_cephfs(&CephFsReport::from_json(&read_text(&on_cephfs)?)?, &folder, out)
                }
                false => Ok(()),
            }
        }
        Figure::OnNodes(_) if arguments.redraw => match redraw_on_nodes(&folder, out)? {
            true => Ok(()),
            false => Err(Error::not_found("no report is stored")
                .on(folder.display())
                .hint("measure the figure first: leave out --redraw")),
        },
        Figure::OnNodes(figure) => {
            let is_elsewhere = matches!(arguments.engine, Engine::Ceph(_))
                || (arguments.ceph_cluster.is_some() && !figure.is_for_ceph())
                || arguments.build.is_some();
            if is_elsewhere {
                let text = format!("{} is measured on nodes of its own", figure.name());
                return Err(
                    Error::invalid(text).hint("leave out --engine, --ceph-cluster and --build")
                );
            }
            unless_interrupted(measure_on_nodes(figure, arguments, &folder, out)).await
        }
        Figure::Measured(_) if arguments.ceph_cluster.is_some() || arguments.build.is_some() => {
            Err(Error::invalid("--ceph-cluster and --build need a figure of balancing"))
        }
        Figure::Measured(experiment) => {
            unless_interrupted(measure_and_draw(experiment, arguments, &folder, out)).await
        }
        Figure::Simulated(_) if matches!(arguments.engine, Engine::Ceph(_)) => {
            Err(Error::invalid("a simulated figure is not measured on an engine")
                .hint("leave --engine out"))
        }
        Figure::Simulated(_)
            if arguments.ceph_cluster.is_some()
                && (arguments.folder.is_some() || arguments.seconds.is_some()) =>
        {
            Err(Error::invalid("a figure on CephFS has neither --folder nor --seconds")
                .hint("say how much work to do with --scale-down"))
        }
        Figure::Simulated(figure) if let Some(script) = arguments.ceph_cluster => {
            let rounds = arguments.rounds.into();
            let effort = CephFsEffort { script, rounds, scale_down: arguments.scale_down };
            let figure = CephFsFigure::of(figure)?;
            let measuring = measure_on_cephfs(figure, effort, arguments.remark, &folder, out);
            unless_interrupted(measuring).await
        }
        Figure::Simulated(figure) => {
            let build = arguments.build.map(|path| RecordedBuild::from_json(&read_text(&path)?));
            let simulating = simulate_and_draw(figure, build.transpose()?, &folder, out);
            unless_interrupted(simulating).await
        }
    }
}

async fn simulate_and_draw(
    figure: SimulatedFigure,
    build: Option<RecordedBuild>,
    folder: &Path,
    out: Out,
) -> Result<()> {
    note(&format!("simulating {}", figure.name()));
    let file = if build.is_some() { RECORDED } else { SIMULATED };
    let simulate = move || match build {
        Some(build) => figure.simulate_build(&build),
        None => figure.simulate(),
    };
    let simulated = tokio::task::spawn_blocking(simulate).await;
    let broken = |error| Error::unavailable(format!("the simulation failed: {error}"));
    let report = simulated.map_err(broken)??;
    fs::create_dir_all(folder).map_err(|error| unwritable(folder, &error))?;
    write(&folder.join(file), &report.to_json()?)?;
    draw_simulated(&report, folder, out)
}

/// Draws every chart of a report beside it, and shows what was found.
fn draw_simulated(report: &SimulatedReport, folder: &Path, out: Out) -> Result<()> {
    draw_charts(&report.charts, "simulated", folder)?;
    for finding in &report.findings {
        out.show(finding, || {
            let paper =
                finding.paper.map_or(String::new(), |paper| format!("; the paper: {paper}"));
            format!("{}: {} {}{paper}", finding.finding, finding.simulated, finding.unit)
        })?;
    }
    Ok(())
}

async fn measure_on_nodes(
    figure: PaperFigure,
    arguments: ExperimentArguments,
    folder: &Path,
    out: Out,
) -> Result<()> {
    note(&format!("measuring {}", figure.name()));
    let (folder_of_disk, span) = (arguments.folder(), arguments.span());
    let mut setup =
        Setup::figure(folder_of_disk, nacre_beside_this()?, span, arguments.rounds.into());
    setup.ceph_cluster = arguments.ceph_cluster;
    let file = if setup.ceph_cluster.is_some() { CEPH } else { EMBEDDED };
    let mut report = figure.measure(&setup).await?;
    record(&mut report.measurement, arguments.remark);
    fs::create_dir_all(folder).map_err(|error| unwritable(folder, &error))?;
    write(&folder.join(file), &report.to_json()?)?;
    draw_on_nodes(&report, folder, out)
}

/// Draws the stored reports of the figure again. Returns whether there are any.
fn redraw_on_nodes(folder: &Path, out: Out) -> Result<bool> {
    let mut is_drawn = false;
    for kept in [EMBEDDED, CEPH].map(|file| folder.join(file)) {
        if kept.exists() {
            draw_on_nodes(&PaperReport::from_json(&read_text(&kept)?)?, folder, out)?;
            is_drawn = true;
        }
    }
    Ok(is_drawn)
}

fn draw_on_nodes(report: &PaperReport, folder: &Path, out: Out) -> Result<()> {
    draw_charts(&report.charts, "measured", folder)?;
    show_findings(&report.findings, out)
}

async fn measure_on_cephfs(
    figure: CephFsFigure,
    effort: CephFsEffort,
    remark: Option<String>,
    folder: &Path,
    out: Out,
) -> Result<()> {
    note(&format!("measuring {} on CephFS", figure.simulated().name()));
    let mut report = figure.measure(&effort, &mut note).await?;
    record(&mut report.measurement, remark);
    fs::create_dir_all(folder).map_err(|error| unwritable(folder, &error))?;
    write(&folder.join(CEPHFS), &report.to_json()?)?;
    draw_on_cephfs(&report, folder, out)
}

/// Draws every chart of a report beside it, and shows what was found.
fn draw_on_cephfs(report: &CephFsReport, folder: &Path, out: Out) -> Result<()> {
    draw_charts(&report.charts, "on CephFS", folder)?;
    show_findings(&report.findings, out)
}

fn show_findings(findings: &[MeasuredFinding], out: Out) -> Result<()> {
    for finding in findings {
        out.show(finding, || {
            let paper =
                finding.paper.map_or(String::new(), |paper| format!("; the paper: {paper}"));
            let measured = &finding.measured;
            let (least, most) = (measured.least, measured.most);
            let median = measured.median;
            format!("{}: {median} ({least} to {most}) {}{paper}", finding.finding, finding.unit)
        })?;
    }
    Ok(())
}

fn draw_charts(charts: &[FigureChart], how: &str, folder: &Path) -> Result<()> {
    for chart in charts {
        write(&folder.join(&chart.name).with_extension("svg"), &chart.plot(how)?)?;
    }
    Ok(())
}

/// Says that this command has just made a measurement.
fn record(measurement: &mut Measurement, remark: Option<String>) {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let now = utc(SystemClock::default().now_micros());
    measurement.record(format!("nacre-bench {}", arguments.join(" ")), now, remark);
}

async fn measure_and_draw(
    experiment: Experiment,
    arguments: ExperimentArguments,
    folder: &Path,
    out: Out,
) -> Result<()> {
    let site = match &arguments.engine {
        Engine::Embedded => Site::embedded(&arguments.folder())?,
        Engine::Ceph(entry) => Site::on_ceph(entry.parse()?).await?,
    };
    let effort = Effort { span: arguments.span(), rounds: arguments.rounds.into() };
    note(&format!("measuring {} on {}", experiment.name(), site.fingerprint()));
    let mut tenths = 0;
    let progress = &mut |share: f64| {
        if (share * 10.0) as usize > tenths {
            tenths = (share * 10.0) as usize;
            note(&format!("  {tenths}0 %"));
        }
    };
    let mut report = nacre_experiments::measure(experiment, &site, effort, progress).await?;
    record(&mut report.measurement, arguments.remark);
    fs::create_dir_all(folder).map_err(|error| unwritable(folder, &error))?;
    let json = folder.join(format!("{}.json", report.engine.engine));
    write(&json, &report.to_json()?)?;
    draw(&report, &json, out)
}

/// Draws every report in a folder.
fn redraw(folder: &Path, out: Out) -> Result<()> {
    let unreadable = |error: std::io::Error| {
        Error::not_found(format!("cannot read {}: {error}", folder.display()))
            .hint("measure the figure first, or name the folder of its report with --out")
    };
    let mut reports = vec![];
    for entry in fs::read_dir(folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        if path.extension().is_some_and(|extension| extension == "json") {
            reports.push(path);
        }
    }
    reports.sort();
    for path in reports {
        draw(&Report::from_json(&read_text(&path)?)?, &path, out)?;
    }
    Ok(())
}

/// Draws a report beside it.
fn draw(report: &Report, json: &Path, out: Out) -> Result<()> {
    let svg = json.with_extension("svg");
    write(&svg, &plot(report)?)?;
    let written = json!({ "report": json, "plot": svg });
    out.show(&written, || format!("{} and {}", json.display(), svg.display()))
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).map_err(|error| unwritable(path, &error))
}

fn unwritable(path: &Path, error: &std::io::Error) -> Error {
    Error::unavailable(format!("cannot write {}: {error}", path.display()))
        .hint("name another folder with --out")
}
