//! `propagate`: how long it takes to activate a program on 120 subscribers, from the request until
//! the last subscriber runs the program. Each subscriber has its own sessions over sockets, and
//! compiles the program as a node does.

use std::sync::Arc;
use std::time::Duration;

use futures::future::try_join_all;
use nacre::{Cluster, ProgramId, ProgramKind};
use nacre_class::ClassRuntime;
use nacre_clock::{Clock, SystemClock};
use nacre_experiments::{FigureChart, MeasuredFinding, Spread};
use nacre_object::{Error, NodeName, Result};
use nacre_program::{Budget, Interface};
use nacre_rados::RadosOptions;
use nacre_registry::{ClassHook, Hook, Hooks, LiveProgram, SourceError, Subscriber};
use tokio::sync::mpsc;

use crate::bench::Setup;
use crate::figure::{Better, Figure};
use crate::paper_figure::Drawn;
use crate::scratch::{self, ScratchCluster};

const SUBSCRIBERS: usize = 120;
const TARGETS: usize = 1;
const GATEWAYS: usize = 3;
/// The least number of activations, whatever `--rounds` says: percentiles need many.
const MIN_ACTIVATIONS: u64 = 20;
const CLASS: &str = "policy";
/// If a version is not live on every subscriber after this time, the bench fails.
const PATIENCE: Duration = Duration::from_secs(30);
/// Between looks at the subscribers' reports.
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// What is aimed at, in milliseconds.
const AIM_P90_MILLIS: f64 = 10.0;
const AIM_WORST_MILLIS: f64 = 50.0;
/// The times in the Malacology paper for 120 subscribers ("Cluster-wide interface update latency").
/// The paper measured 120 OSDs on 12 servers. Its times do not include the commit.
const PAPER: &str = "the Malacology paper";
const PAPER_P90_MILLIS: f64 = 54.0;
const PAPER_WORST_MILLIS: f64 = 194.0;

/// Updates of one round. Five rounds have 1,000 updates, as in the figure of the Malacology paper.
const UPDATES_OF_A_ROUND: u64 = 200;
/// The times in the Malacology paper for 3 OSDs on hard disks, and for the commit of an update.
const PAPER_FEW: usize = 3;
const PAPER_FEW_P90_MILLIS: f64 = 37.0;
const PAPER_FEW_WORST_MILLIS: f64 = 255.0;
const PAPER_COMMIT_MILLIS: f64 = 222.0;
/// Points of a drawn distribution.
const DRAWN: usize = 100;

/// The measured times of some updates, in milliseconds and sorted.
struct Updates {
    /// For each update and subscriber, the time from the request until the version is live there.
    live: Vec<f64>,
    /// From the request until the update is committed.
    commits: Vec<f64>,
}

impl Updates {
    fn of(mut live: Vec<f64>, mut commits: Vec<f64>) -> Self {
        live.sort_by(f64::total_cmp);
        commits.sort_by(f64::total_cmp);
        Self { live, commits }
    }
}

/// Tells when a version became live.
struct Telling {
    hook: ClassHook,
    clock: Arc<dyn Clock>,
    live: mpsc::UnboundedSender<(u64, Duration)>,
}

impl Hook for Telling {
    fn kind(&self) -> ProgramKind {
        ProgramKind::Class
    }

    fn interface(&self) -> &'static Interface {
        self.hook.interface()
    }

    fn check(&self, program: &ProgramId, source: &str) -> std::result::Result<(), SourceError> {
        self.hook.check(program, source)
    }

    fn install(&self, program: &LiveProgram) -> Result<()> {
        self.hook.install(program)?;
        // Nobody listens any more once the bench is over.
        let _ = self.live.send((program.version, self.clock.monotonic()));
        Ok(())
    }

    fn uninstall(&self, program: &ProgramId) -> Result<()> {
        self.hook.uninstall(program)
    }
}

pub(crate) async fn run(setup: &Setup, report: &mut dyn FnMut(Figure)) -> Result<()> {
    let folder = scratch::folder(&setup.folder)?;
    let cluster = ScratchCluster::start(folder.path(), TARGETS, &setup.program).await?;
    measure(&cluster, setup, "", (AIM_P90_MILLIS, AIM_WORST_MILLIS), report).await?;
    cluster.stop().await;
    Ok(())
}

/// Measures the same as `run`, but a Ceph cluster keeps the programs and maps. Each of three nodes
/// serves a third of the subscribers.
pub(crate) async fn run_on_ceph(
    setup: &Setup,
    options: &RadosOptions,
    report: &mut dyn FnMut(Figure),
) -> Result<()> {
    let folder = scratch::folder(&setup.folder)?;
    let cluster =
        ScratchCluster::start_gateways(folder.path(), options, GATEWAYS, &setup.program).await?;
    let aims = (PAPER_P90_MILLIS, PAPER_WORST_MILLIS);
    measure(&cluster, setup, " on Ceph", aims, report).await?;
    cluster.stop().await;
    Ok(())
}

async fn measure(
    cluster: &ScratchCluster,
    setup: &Setup,
    place: &str,
    (aim_p90, aim_worst): (f64, f64),
    report: &mut dyn FnMut(Figure),
) -> Result<()> {
    let updates = MIN_ACTIVATIONS.max(setup.rounds as u64);
    let Updates { live, .. } = observe(cluster, SUBSCRIBERS, updates).await?;
    let p90 = live[live.len() * 9 / 10];
    let worst = live[live.len() - 1];
    for (what, ours, paper, aim) in
        [("p90", p90, PAPER_P90_MILLIS, aim_p90), ("worst", worst, PAPER_WORST_MILLIS, aim_worst)]
    {
        let name = format!("activation to {SUBSCRIBERS} live subscribers{place}, {what}");
        let figure = Figure::new(("propagate", name, "ms"), Better::Lower, ours, (PAPER, paper));
        report(figure.aiming_at(paper / aim));
    }
    Ok(())
}

/// The figure of the Malacology paper: with 120 subscribers, or with three.
pub(crate) async fn measure_figure(setup: &Setup, is_few: bool) -> Result<Drawn> {
    let (subscribers, p90, worst) = match is_few {
        true => (PAPER_FEW, PAPER_FEW_P90_MILLIS, PAPER_FEW_WORST_MILLIS),
        false => (SUBSCRIBERS, PAPER_P90_MILLIS, PAPER_WORST_MILLIS),
    };
    let folder = scratch::folder(&setup.folder)?;
    let cluster = ScratchCluster::start(folder.path(), TARGETS, &setup.program).await?;
    let updates = observe(&cluster, subscribers, UPDATES_OF_A_ROUND * setup.rounds as u64).await?;
    cluster.stop().await;
    Ok(draw(&updates, subscribers, (p90, worst)))
}

fn draw(updates: &Updates, subscribers: usize, (p90, worst): (f64, f64)) -> Drawn {
    let at = |sorted: &[f64], percent: usize| sorted[(sorted.len() - 1) * percent / 100];
    let mut chart = FigureChart::new(
        "distribution",
        &format!("Updates of an interface reach {subscribers} subscribers"),
        ("milliseconds", "percent", "from the request until"),
    );
    for (name, sorted) in
        [("a subscriber has it", &updates.live), ("it is committed", &updates.commits)]
    {
        for percent in 0..=DRAWN {
            chart.push(at(sorted, percent), percent as f64, name);
        }
    }
    let finding = |what: &str, paper: Option<f64>, sorted: &[f64], percent: usize| {
        MeasuredFinding::new(what, "ms", paper, Spread::exactly(vec![at(sorted, percent)]))
    };
    let Updates { live, commits } = updates;
    let findings = vec![
        finding("90th percentile until a subscriber has it", Some(p90), live, 90),
        finding("longest until a subscriber has it", Some(worst), live, 100),
        finding("median until a subscriber has it", None, live, 50),
        finding("median until it is committed", Some(PAPER_COMMIT_MILLIS), commits, 50),
        finding("longest until it is committed", None, commits, 100),
    ];
    Drawn { findings, charts: vec![chart] }
}

/// Activates so many versions, one after another, with so many subscribers.
async fn observe(cluster: &ScratchCluster, count: usize, updates: u64) -> Result<Updates> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
    let client = cluster.client().await?;
    let (tell, mut live) = mpsc::unbounded_channel();
    let subscribers = (0..count).map(|n| subscribe(cluster, n, &clock, tell.clone()));
    let subscribers = try_join_all(subscribers).await?;
    try_join_all(subscribers.iter().map(|(_, subscriber)| subscriber.ready())).await?;

    let (mut millis, mut commits) = (vec![], vec![]);
    // The first finds every connection cold.
    for round in 0..=updates {
        let (waited, commit) = activate(&client, round, count, &clock, &mut live).await?;
        if round > 0 {
            millis.extend(waited);
            commits.push(commit);
        }
    }
    drop(subscribers);
    Ok(Updates::of(millis, commits))
}

/// A subscriber with sessions of its own; they end with its cluster.
async fn subscribe(
    cluster: &ScratchCluster,
    number: usize,
    clock: &Arc<dyn Clock>,
    live: mpsc::UnboundedSender<(u64, Duration)>,
) -> Result<(Cluster, Subscriber)> {
    let own = cluster.client().await?;
    let clock = Arc::clone(clock);
    let runtime = Arc::new(ClassRuntime::new(Budget::default(), Arc::clone(&clock)));
    let hook = ClassHook::new(Arc::clone(&clock), vec![]).installing_into(runtime);
    let hooks = Hooks::new().with(Telling { hook, clock, live });
    let node = NodeName::new(format!("subscriber.{number}"))?;
    let subscriber = Subscriber::start(node, 1, own.programs(), hooks, &[]);
    Ok((own, subscriber))
}

/// Activates a new version; how long each subscriber took, and the commit, in milliseconds.
async fn activate(
    client: &Cluster,
    round: u64,
    subscribers: usize,
    clock: &Arc<dyn Clock>,
    live: &mut mpsc::UnboundedReceiver<(u64, Duration)>,
) -> Result<(Vec<f64>, f64)> {
    let program = ProgramId::new(ProgramKind::Class, CLASS.parse()?);
    let source = format!(
        "function rank(input, output) output:append('{round}') end objclass.register(rank)"
    );
    let version = client.programs().put(&program, &source).await?;
    let begin = clock.monotonic();
    client.programs().activate(&program, version).await?;
    let commit = clock.monotonic().saturating_sub(begin).as_secs_f64() * 1e3;
    let mut millis = Vec::with_capacity(subscribers);
    while millis.len() < subscribers {
        let told = tokio::time::timeout(PATIENCE, live.recv()).await;
        let Ok(Some((told_version, at))) = told else {
            let text = format!(
                "only {} of {subscribers} subscribers run version {version} in time",
                millis.len()
            );
            return Err(Error::unavailable(text));
        };
        if told_version == version {
            millis.push(at.saturating_sub(begin).as_secs_f64() * 1e3);
        }
    }
    // Wait for the reports of all subscribers, so that their work falls into this round.
    let reported = reported(client, &program, version, subscribers);
    let reported = tokio::time::timeout(PATIENCE, reported).await;
    reported.map_err(|_| Error::unavailable("a subscriber did not report in time"))??;
    Ok((millis, commit))
}

/// Waits until every subscriber has reported the version live.
async fn reported(
    client: &Cluster,
    program: &ProgramId,
    version: u64,
    subscribers: usize,
) -> Result<()> {
    loop {
        let statuses = client.programs().status(program).await?;
        if statuses.iter().filter(|status| status.live == Some(version)).count() >= subscribers {
            return Ok(());
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_distribution_of_times_is_drawn_from_the_shortest_to_the_longest() {
        let updates = Updates::of((1..=200).rev().map(f64::from).collect(), vec![3.0, 2.0]);
        let Drawn { findings, charts } = draw(&updates, SUBSCRIBERS, (54.0, 194.0));
        let medians: Vec<_> = findings.iter().map(|finding| finding.measured.median).collect();
        assert_eq!(medians, [180.0, 200.0, 100.0, 2.0, 3.0]);
        assert_eq!(charts[0].rows.len(), 2 * (DRAWN + 1));
    }
}
