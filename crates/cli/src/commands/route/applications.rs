//! `nacre route start` and `applications`: control programs that make rules.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::join_all;
use nacre::{Cluster, ClusterFile, NodeEntry, ProgramId, ProgramKind, RoleName, Sessions};
use nacre_clock::{Clock, SystemClock};
use nacre_node::{
    ApplicationReport, ControllerReport, ROUTE_SERVICE, RouteMap, StartedApplication,
};
use nacre_object::{ApplicationName, Error, ProgramName, Result};
use nacre_route::{ControlProgram, Settings};
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::wait::WaitArgument;
use crate::listing::{Limit, Listing};
use crate::out::{Out, note, printable};

/// How long a node may take to answer.
const NODE_TIMEOUT: Duration = Duration::from_secs(2);
/// The pause between two requests to the nodes.
const ASK_AGAIN: Duration = Duration::from_millis(50);

/// The most characters of an error or an event in a table; JSON has all of them.
const MAX_CELL_CHARACTERS: usize = 100;
/// How late a run may be before a table shows it.
const LATE_SECONDS: f64 = 5.0;

/// How an application is started
#[derive(Debug, clap::Args)]
pub struct StartArguments {
    /// The application, whose rules the program makes
    application: ApplicationName,
    /// The control program (default: the one with the name of the application)
    #[arg(long)]
    program: Option<String>,
    /// A setting of the program. May be repeated; all other settings have their defaults
    #[arg(long = "set", value_name = "NAME=VALUE")]
    settings: Vec<String>,
    /// Seconds between two runs of the program
    #[arg(long, default_value_t = 1.0, value_name = "SECONDS")]
    every: f64,
    #[command(flatten)]
    wait: WaitArgument,
}

/// Starts an application, or gives it other settings. Waits until its program has run with them.
///
/// # Errors
/// `NotFound` if the program is not active; `Invalid` for a wrong setting; `Unavailable` if the
/// program does not run in time; the error of the program if its first run fails.
pub(super) async fn start(
    arguments: &StartArguments,
    file: &ClusterFile,
    cluster: &Cluster,
    map: &RouteMap,
    out: Out,
) -> Result<()> {
    let name = &arguments.application;
    let program = arguments.program.as_deref().unwrap_or(name.as_str());
    let program = ProgramName::new(program.strip_prefix("control/").unwrap_or(program))?;
    let settings = settings(arguments, &active(cluster, &program).await?)?;
    let started = StartedApplication { program, settings, every_seconds: arguments.every };
    let epoch = map.start(name, &started).await?;
    if let Some(patience) = arguments.wait.patience() {
        let until = Instant::now() + patience;
        let report = first_run(name, epoch, &Sessions::new(file)?, file, until).await?;
        if let Some(problem) = report.problem {
            return Err(Error::unavailable(format!("the application has started, but {problem}"))
                .on(name)
                .hint("see how its next runs end: nacre route applications"));
        }
    }
    let is_running = arguments.wait.patience().is_some();
    out.show(&json!({ "epoch": epoch, "is_running": is_running }), || {
        let state = if is_running { "running" } else { "stored" };
        format!("epoch {epoch}, {state}")
    })
}

/// The active version of a control program.
async fn active(cluster: &Cluster, program: &ProgramName) -> Result<ControlProgram> {
    let id = ProgramId::new(ProgramKind::Control, program.clone());
    let version = cluster.programs().active(&id).await?.ok_or_else(|| {
        Error::not_found(format!("{id} has no active version"))
            .hint(format!("put and activate one: nacre program put {id} FILE --activate"))
    })?;
    let shown = cluster.programs().show(&id, Some(version)).await?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
    ControlProgram::compile(&id.to_string(), version, shown.source.as_str(), &clock)
}

fn settings(arguments: &StartArguments, program: &ControlProgram) -> Result<Settings> {
    let mut settings = Settings::new();
    for text in &arguments.settings {
        let (name, value) = text.split_once('=').ok_or_else(|| {
            Error::invalid(format!("{text:?} is no setting")).hint("write --set NAME=VALUE")
        })?;
        settings.insert(name.to_owned(), program.parse_setting(name, value)?);
    }
    program.settings(&settings)?;
    Ok(settings)
}

/// Waits until the controller has run the program under this epoch of the map.
async fn first_run(
    name: &ApplicationName,
    epoch: u64,
    sessions: &Sessions,
    file: &ClusterFile,
    until: Instant,
) -> Result<ApplicationReport> {
    loop {
        for (_, report) in reports(sessions, file).await {
            let application = report.applications.get(name.as_str());
            if let Some(application) = application.filter(|one| one.epoch >= epoch) {
                return Ok(application.clone());
            }
        }
        if Instant::now() >= until {
            return Err(Error::unavailable("no node has run the program yet").on(name).hint(
                "it is stored, and runs as soon as a node can: see `nacre route applications`",
            ));
        }
        sleep(ASK_AGAIN).await;
    }
}

/// What the nodes that answer say of the controller.
async fn reports<'a>(
    sessions: &Sessions,
    file: &'a ClusterFile,
) -> Vec<(&'a NodeEntry, ControllerReport)> {
    let asked = file.with_role(RoleName::Storage).map(|node: &'a NodeEntry| async move {
        let session = sessions.session(&node.name).ok()?;
        let answer = session.ask(ROUTE_SERVICE, "controller", Bytes::new(), NODE_TIMEOUT).await;
        Some((node, serde_json::from_slice(&answer.ok()?).ok()?))
    });
    join_all(asked).await.into_iter().flatten().collect()
}

/// Lists the started applications.
pub(super) async fn list(file: &ClusterFile, map: &RouteMap, out: Out) -> Result<()> {
    const HEADER: [&str; 7] =
        ["application", "program", "settings", "node", "runs", "rules", "last run"];
    let state = map.state().await?;
    let all = reports(&Sessions::new(file)?, file).await;
    // A node that was replaced may not know it yet.
    let is_controller = |(node, report): &(&NodeEntry, ControllerReport)| {
        let is_named = |own| node.node_name().is_ok_and(|name| name.as_str() == own);
        report.is_controller && state.controller().is_none_or(is_named)
    };
    let controller = all.into_iter().find(is_controller);
    let controller = controller.map(|(node, report)| (node.name.clone(), report));
    let (node, mut report) = controller.unwrap_or_default();
    if node.is_empty() && !state.started.is_empty() {
        note(
            "no node runs the programs at present; rules stay in force; see which nodes are up: nacre status",
        );
    }
    if let Some(problem) = &report.problem {
        note(&format!("{node} cannot run the programs: {}", printable(problem)));
    }
    let applications = std::mem::take(&mut report.applications);
    let rows: Vec<_> = state.started.iter().collect();
    Listing::table(out, Limit::default(), &HEADER).all(
        rows,
        |(name, started)| document(name, started, &node, &applications),
        |(name, started)| vec![row(name, started, &node, &applications)],
    )
}

fn document(
    name: &ApplicationName,
    started: &StartedApplication,
    node: &str,
    applications: &BTreeMap<String, ApplicationReport>,
) -> serde_json::Value {
    let mut document = json!({ "application": name.as_str(), "started": started });
    if let Some(report) = applications.get(name.as_str()) {
        document["node"] = node.into();
        document["report"] = json!(report);
    }
    document
}

fn row(
    name: &ApplicationName,
    started: &StartedApplication,
    node: &str,
    applications: &BTreeMap<String, ApplicationReport>,
) -> Vec<String> {
    let settings = started.settings.iter().map(|(name, value)| format!("{name}={value}"));
    let settings = printable(&settings.collect::<Vec<_>>().join(" "));
    let none = ApplicationReport::default();
    let report = applications.get(name.as_str()).unwrap_or(&none);
    let version = report.version.map(|version| format!("@{version}")).unwrap_or_default();
    let ended = match (&report.problem, report.runs) {
        (Some(problem), _) => in_short(problem),
        (None, 0) => "-".to_owned(),
        (None, _) => report.told.back().map_or("ok".to_owned(), |text| in_short(text)),
    };
    let late = lateness(report, started.every_seconds);
    let ended = late.map_or(ended.clone(), |seconds| format!("{seconds:.0} s ago: {ended}"));
    vec![
        name.to_string(),
        format!("control/{}{version}", started.program),
        settings,
        node.to_owned(),
        report.runs.to_string(),
        report.rules.to_string(),
        ended,
    ]
}

/// The beginning of a text, for a cell of a table.
fn in_short(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    let short: String = line.chars().take(MAX_CELL_CHARACTERS).collect();
    printable(&short) + if short.len() < text.len() { "…" } else { "" }
}

/// How many seconds ago a program ran last, if this is longer than it should be.
fn lateness(report: &ApplicationReport, every_seconds: f64) -> Option<f64> {
    let now = SystemClock::default().now_micros();
    let seconds = now.saturating_sub(report.ran_at_micros) as f64 / 1e6;
    (report.runs > 0 && seconds > every_seconds + LATE_SECONDS).then_some(seconds)
}
