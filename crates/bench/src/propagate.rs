//! `propagate`: from the request to activate a program until it is live with 120 subscribers, each
//! with sessions of its own over sockets, each compiling it as a node does.

use std::sync::Arc;
use std::time::Duration;

use futures::future::try_join_all;
use nacre::{Cluster, ProgramId, ProgramKind};
use nacre_class::ClassRuntime;
use nacre_clock::{Clock, SystemClock};
use nacre_object::{Error, NodeName, Result};
use nacre_program::{Budget, Interface};
use nacre_rados::RadosOptions;
use nacre_registry::{ClassHook, Hook, Hooks, LiveProgram, SourceError, Subscriber};
use tokio::sync::mpsc;

use crate::bench::Setup;
use crate::figure::{Better, Figure};
use crate::scratch::{self, ScratchCluster};

const SUBSCRIBERS: usize = 120;
const TARGETS: usize = 1;
const GATEWAYS: usize = 3;
/// Activations that are measured, whatever was asked for: percentiles need them.
const MIN_ACTIVATIONS: u64 = 20;
const CLASS: &str = "policy";
/// A version that is not live everywhere after this never will be.
const PATIENCE: Duration = Duration::from_secs(30);
/// Between looks at the subscribers' reports.
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// What is aimed at, in milliseconds.
const AIM_P90_MILLIS: f64 = 10.0;
const AIM_WORST_MILLIS: f64 = 50.0;
/// What the Malacology paper measured for 120 subscribers ("Cluster-wide interface update latency":
/// 120 OSDs on 12 servers, without the commit).
const PAPER: &str = "the Malacology paper";
const PAPER_P90_MILLIS: f64 = 54.0;
const PAPER_WORST_MILLIS: f64 = 194.0;

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

/// The same where Ceph keeps programs and maps, through three nodes of nacre's, each with a third of the
/// subscribers.
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
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
    let client = cluster.client().await?;
    let (tell, mut live) = mpsc::unbounded_channel();
    let subscribers = (0..SUBSCRIBERS).map(|n| subscribe(cluster, n, &clock, tell.clone()));
    let subscribers = try_join_all(subscribers).await?;
    try_join_all(subscribers.iter().map(|(_, subscriber)| subscriber.ready())).await?;

    let mut millis = Vec::new();
    for round in 0..MIN_ACTIVATIONS.max(setup.rounds as u64) {
        let waited = activate(&client, round, &clock, &mut live).await?;
        // The first finds every connection cold.
        if round > 0 {
            millis.extend(waited);
        }
    }
    drop(subscribers);
    millis.sort_by(f64::total_cmp);
    let p90 = millis[millis.len() * 9 / 10];
    let worst = millis[millis.len() - 1];
    for (what, ours, paper, aim) in
        [("p90", p90, PAPER_P90_MILLIS, aim_p90), ("worst", worst, PAPER_WORST_MILLIS, aim_worst)]
    {
        let name = format!("activation to {SUBSCRIBERS} live subscribers{place}, {what}");
        let figure = Figure::new(("propagate", name, "ms"), Better::Lower, ours, (PAPER, paper));
        report(figure.aiming_at(paper / aim));
    }
    Ok(())
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

/// Activates a new version; how long each subscriber took, in milliseconds.
async fn activate(
    client: &Cluster,
    round: u64,
    clock: &Arc<dyn Clock>,
    live: &mut mpsc::UnboundedReceiver<(u64, Duration)>,
) -> Result<Vec<f64>> {
    let program = ProgramId::new(ProgramKind::Class, CLASS.parse()?);
    let source = format!(
        "function rank(input, output) output:append('{round}') end objclass.register(rank)"
    );
    let version = client.programs().put(&program, &source).await?;
    let begin = clock.monotonic();
    client.programs().activate(&program, version).await?;
    let mut millis = Vec::with_capacity(SUBSCRIBERS);
    while millis.len() < SUBSCRIBERS {
        let told = tokio::time::timeout(PATIENCE, live.recv()).await;
        let Ok(Some((told_version, at))) = told else {
            let text = format!("version {version} is live with {} subscribers", millis.len());
            return Err(Error::unavailable(text));
        };
        if told_version == version {
            millis.push(at.saturating_sub(begin).as_secs_f64() * 1e3);
        }
    }
    // What follows from it, the reports of all subscribers, belongs to this round.
    let reported = tokio::time::timeout(PATIENCE, reported(client, &program, version)).await;
    reported.map_err(|_| Error::unavailable("not every subscriber reports"))??;
    Ok(millis)
}

/// Waits until every subscriber has reported the version live.
async fn reported(client: &Cluster, program: &ProgramId, version: u64) -> Result<()> {
    loop {
        let statuses = client.programs().status(program).await?;
        if statuses.iter().filter(|status| status.live == Some(version)).count() >= SUBSCRIBERS {
            return Ok(());
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}
