//! Runs a cluster's nodes as child processes of this one and starts those that die again.
//!
//! One keeper task per node: it starts the process, waits until it says `ready` on its standard
//! output, then waits for its end or an order. A node that dies unasked is started again after a
//! pause that doubles up to a bound; a held one stays down until it is resumed.
//!
//! **Invariants:** one supervisor per cluster folder (a lock file, freed by the kernel with the
//! process); a node never outlives its supervisor (it finishes when its standard input, a pipe from
//! here, ends), so nothing is left behind on SIGKILL either.

use std::fs::{File, OpenOptions};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use nacre::{ClusterFile, NodeEntry};
use nacre_clock::{Clock, SystemClock};
use nacre_object::{Error, Result};
use nacre_telemetry::Counter;
use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time;

use crate::metrics::{Metrics, MetricsEndpoint, MetricsListener};
use crate::scrape_targets::ScrapeTargets;

/// What a node prints on standard output once it serves, before where its metrics are.
const READY: &str = "ready";
/// What the supervisor is called among the processes that tell metrics.
const SUPERVISOR: &str = "supervisor";
/// The first pause before a dead node is started again.
const RESTART_PAUSE_MIN: Duration = Duration::from_millis(100);
/// The longest: a node that cannot start must not keep a core busy.
const RESTART_PAUSE_MAX: Duration = Duration::from_secs(5);
/// A node has this long to finish after SIGTERM before it is killed.
const STOP_GRACE: Duration = Duration::from_secs(10);
/// Lines of a node's log shown when it cannot start.
const LOG_TAIL_LINES: usize = 12;

/// How a node is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeState {
    /// Started, not ready yet.
    Starting,
    /// It serves.
    Up {
        /// Its process.
        pid: u32,
    },
    /// It ended and will be started again.
    Down {
        /// How it ended.
        reason: String,
    },
    /// It is kept down until it is resumed.
    Held,
    /// It was asked to stop and did.
    Stopped,
}

#[derive(Debug)]
enum Order {
    Kill { hold: bool },
    Resume,
    Stop,
}

/// The line a node prints on standard output once it serves.
pub fn ready_line(metrics: SocketAddr) -> String {
    format!("{READY} {metrics}")
}

/// Where the metrics are of the node that printed this line; `None` if it says something else.
fn parse_ready(line: &str) -> Option<SocketAddr> {
    line.strip_prefix(READY)?.trim_start().parse().ok()
}

/// A node as its supervisor knows it.
#[derive(Debug, Clone)]
pub struct KeptNode {
    name: String,
    state: watch::Receiver<NodeState>,
    restarts: Arc<Counter>,
}

impl KeptNode {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether it serves.
    pub fn is_up(&self) -> bool {
        matches!(*self.state.borrow(), NodeState::Up { .. })
    }

    /// How often it was started after it had ended unasked.
    pub fn restarts(&self) -> u64 {
        self.restarts.get()
    }
}

#[derive(Debug)]
struct Keeper {
    node: NodeEntry,
    orders: mpsc::Sender<Order>,
    state: watch::Receiver<NodeState>,
    restarts: Arc<Counter>,
    task: JoinHandle<()>,
}

/// The nodes of one cluster, as child processes.
#[derive(Debug)]
pub struct Supervisor {
    cluster: ClusterFile,
    keepers: Vec<Keeper>,
    targets: Arc<ScrapeTargets>,
    _metrics: MetricsEndpoint,
    /// Held for the lock on it.
    _lock: File,
}

impl Supervisor {
    /// Starts every node with `program node …` and returns when all of them serve. Metrics are on
    /// loopback ports from `metrics_port` on, first its own, or on any that are free if it is 0.
    ///
    /// # Errors
    /// `Unavailable` if another process runs the cluster, or a node does not start: then with the
    /// end of its log, and everything started is stopped.
    pub async fn start(cluster: ClusterFile, program: &Path, metrics_port: u16) -> Result<Self> {
        let lock = lock_folder(cluster.folder())?;
        let listener = MetricsListener::bind(metrics_port).await?;
        let targets = Arc::new(ScrapeTargets::new(cluster.folder()));
        targets.set(SUPERVISOR, listener.address())?;
        let mut next_port = metrics_port;
        let mut plan = |node: &NodeEntry| {
            next_port = if metrics_port == 0 { 0 } else { next_port.saturating_add(1) };
            ChildPlan {
                program: program.to_owned(),
                folder: cluster.folder().to_owned(),
                log: log_path(&cluster, node),
                name: node.name.clone(),
                metrics_port: next_port,
                targets: Arc::clone(&targets),
            }
        };
        let keepers: Vec<_> =
            cluster.nodes().iter().map(|node| Keeper::start(node.clone(), plan(node))).collect();
        let mut metrics = Metrics::of_process(SystemClock::default().now_micros());
        metrics.supervisor(keepers.iter().map(Keeper::kept).collect());
        let _metrics = listener.serve(metrics);
        let mut supervisor = Self { cluster, keepers, targets, _metrics, _lock: lock };
        match supervisor.all_up().await {
            Ok(()) => Ok(supervisor),
            Err(error) => {
                supervisor.stop().await;
                Err(error)
            }
        }
    }

    /// The cluster it runs.
    pub fn cluster(&self) -> &ClusterFile {
        &self.cluster
    }

    /// Where the metrics of all of them are.
    pub fn scrape_targets(&self) -> &ScrapeTargets {
        &self.targets
    }

    /// Every node with its state.
    pub fn states(&self) -> Vec<(String, NodeState)> {
        let state = |keeper: &Keeper| (keeper.node.name.clone(), keeper.state.borrow().clone());
        self.keepers.iter().map(state).collect()
    }

    /// Ends a node with SIGKILL and returns when it is gone. With `hold` it stays down.
    ///
    /// # Errors
    /// `NotFound` for an unknown node, `Unavailable` if it is not up.
    pub async fn kill(&self, name: &str, hold: bool) -> Result<()> {
        let keeper = self.keeper(name)?;
        let NodeState::Up { pid } = *keeper.state.borrow() else {
            return Err(Error::unavailable(format!("{name} is not up")));
        };
        let mut state = keeper.state.clone();
        keeper.order(Order::Kill { hold }).await?;
        let gone = |state: &NodeState| *state != NodeState::Up { pid };
        state.wait_for(gone).await.map_err(|_| Error::unavailable("the supervisor stops"))?;
        Ok(())
    }

    /// Starts a held node and returns when it serves.
    ///
    /// # Errors
    /// `NotFound` for an unknown node, `Unavailable` if it does not come up.
    pub async fn resume(&self, name: &str) -> Result<()> {
        self.keeper(name)?.order(Order::Resume).await?;
        self.up(name).await
    }

    /// Waits until a node serves.
    ///
    /// # Errors
    /// `NotFound` for an unknown node, `Unavailable` if it is stopped.
    pub async fn up(&self, name: &str) -> Result<()> {
        let mut state = self.keeper(name)?.state.clone();
        let settled = |s: &NodeState| matches!(s, NodeState::Up { .. } | NodeState::Stopped);
        match state.wait_for(settled).await.as_deref() {
            Ok(NodeState::Up { .. }) => Ok(()),
            _ => Err(Error::unavailable(format!("{name} was stopped"))),
        }
    }

    /// Asks every node to finish, kills those that do not, and returns when all are gone.
    pub async fn stop(&mut self) {
        for keeper in &self.keepers {
            // A keeper that is gone has nothing left to stop.
            let _ = keeper.orders.send(Order::Stop).await;
        }
        for keeper in &mut self.keepers {
            let _ = (&mut keeper.task).await;
        }
    }

    fn keeper(&self, name: &str) -> Result<&Keeper> {
        self.cluster.node(name)?;
        let found = self.keepers.iter().find(|keeper| keeper.node.name == name);
        found.ok_or_else(|| Error::not_found(format!("no node {name:?}")))
    }

    /// Waits for the first start of every node; a node that ends before it was ready is an error.
    async fn all_up(&self) -> Result<()> {
        for keeper in &self.keepers {
            let mut state = keeper.state.clone();
            let settled = state.wait_for(|state| *state != NodeState::Starting).await;
            if let Ok(NodeState::Down { reason }) = settled.as_deref() {
                let log = log_path(&self.cluster, &keeper.node);
                return Err(Error::unavailable(format!(
                    "{} did not start ({reason}); its log {} ends:\n{}",
                    keeper.node.name,
                    log.display(),
                    tail(&log)
                )));
            }
        }
        Ok(())
    }
}

impl Keeper {
    fn start(node: NodeEntry, child: ChildPlan) -> Self {
        let (orders, inbox) = mpsc::channel(4);
        let (set_state, state) = watch::channel(NodeState::Starting);
        let restarts = Arc::<Counter>::default();
        let task = tokio::spawn(keep(child, inbox, set_state, restarts.clone()));
        Self { node, orders, state, restarts, task }
    }

    fn kept(&self) -> KeptNode {
        let (state, restarts) = (self.state.clone(), Arc::clone(&self.restarts));
        KeptNode { name: self.node.name.clone(), state, restarts }
    }

    async fn order(&self, order: Order) -> Result<()> {
        let gone = |_| Error::unavailable(format!("{} was stopped", self.node.name));
        self.orders.send(order).await.map_err(gone)
    }
}

/// What is needed to start a node's process.
#[derive(Debug)]
struct ChildPlan {
    program: PathBuf,
    folder: PathBuf,
    log: PathBuf,
    name: String,
    metrics_port: u16,
    targets: Arc<ScrapeTargets>,
}

impl ChildPlan {
    fn spawn(&self) -> std::io::Result<Child> {
        let log = OpenOptions::new().create(true).append(true).open(&self.log)?;
        Command::new(&self.program)
            .args(["node", "--supervised", "--name", &self.name, "--cluster"])
            .arg(&self.folder)
            .args(["--metrics-port", &self.metrics_port.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            // Ctrl-C on the terminal reaches the supervisor alone, which then stops the nodes.
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
    }
}

/// What a keeper does next.
enum Next {
    Restart(String),
    Hold,
    Finish,
}

async fn keep(
    plan: ChildPlan,
    mut orders: mpsc::Receiver<Order>,
    state: watch::Sender<NodeState>,
    restarts: Arc<Counter>,
) {
    let mut pause = RESTART_PAUSE_MIN;
    loop {
        state.send_replace(NodeState::Starting);
        let next = match plan.spawn() {
            Ok(child) => run(&plan, child, &mut orders, &state).await,
            Err(error) => Next::Restart(format!("cannot run {}: {error}", plan.program.display())),
        };
        let served = matches!(*state.borrow(), NodeState::Up { .. });
        pause = if served { RESTART_PAUSE_MIN } else { (pause * 2).min(RESTART_PAUSE_MAX) };
        let go_on = match next {
            Next::Finish => false,
            Next::Hold => {
                state.send_replace(NodeState::Held);
                wait_for_resume(&mut orders).await
            }
            Next::Restart(reason) => {
                state.send_replace(NodeState::Down { reason });
                let go_on = pause_or_stop(pause, &mut orders).await;
                restarts.add(go_on.into());
                go_on
            }
        };
        if !go_on {
            state.send_replace(NodeState::Stopped);
            return;
        }
    }
}

/// Follows one process from its start to its end.
async fn run(
    plan: &ChildPlan,
    mut child: Child,
    orders: &mut mpsc::Receiver<Order>,
    state: &watch::Sender<NodeState>,
) -> Next {
    let pid = child.id().unwrap_or_default();
    // Taken, because `wait` would close it; held, because its end is the node's order to finish.
    let _lifeline = child.stdin.take();
    let mut ready = child.stdout.take().map(|out| BufReader::new(out).lines());
    let mut hold = false;
    loop {
        tokio::select! {
            ended = child.wait() => {
                return match ended {
                    _ if hold => Next::Hold,
                    Ok(status) => Next::Restart(status.to_string()),
                    Err(error) => Next::Restart(error.to_string()),
                };
            }
            line = next_line(&mut ready) => match line {
                Some(line) => if let Some(metrics) = parse_ready(&line) {
                    // Without the file a node serves as well.
                    if let Err(error) = plan.targets.set(&plan.name, metrics) {
                        eprintln!("{}: {error}", plan.name);
                    }
                    state.send_replace(NodeState::Up { pid });
                },
                None => ready = None,
            },
            order = orders.recv() => match order {
                Some(Order::Kill { hold: stay }) => {
                    hold = stay;
                    // It may have ended just now; `wait` tells either way.
                    let _ = child.start_kill();
                }
                Some(Order::Resume) => {}
                Some(Order::Stop) | None => {
                    terminate(&mut child).await;
                    return Next::Finish;
                }
            },
        }
    }
}

async fn next_line(
    lines: &mut Option<tokio::io::Lines<BufReader<tokio::process::ChildStdout>>>,
) -> Option<String> {
    match lines {
        Some(lines) => lines.next_line().await.ok().flatten(),
        None => std::future::pending().await,
    }
}

async fn terminate(child: &mut Child) {
    let pid = child.id().and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
    if let Some(pid) = pid {
        let _ = kill_process(pid, Signal::TERM);
    }
    if time::timeout(STOP_GRACE, child.wait()).await.is_err() {
        let _ = child.kill().await;
    }
}

/// False if it is to stop instead.
async fn wait_for_resume(orders: &mut mpsc::Receiver<Order>) -> bool {
    loop {
        match orders.recv().await {
            Some(Order::Resume) => return true,
            Some(Order::Kill { .. }) => {}
            Some(Order::Stop) | None => return false,
        }
    }
}

/// False if it is to stop instead.
async fn pause_or_stop(pause: Duration, orders: &mut mpsc::Receiver<Order>) -> bool {
    let until = time::Instant::now() + pause;
    loop {
        match time::timeout_at(until, orders.recv()).await {
            Err(_) => return true,
            Ok(Some(Order::Stop) | None) => return false,
            Ok(Some(_)) => {}
        }
    }
}

fn lock_folder(folder: &Path) -> Result<File> {
    let path = folder.join("lock");
    let unusable = |error| Error::unavailable(format!("cannot open {}: {error}", path.display()));
    let file = OpenOptions::new().create(true).truncate(false).write(true).open(&path);
    let file = file.map_err(unusable)?;
    flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(|_| {
        Error::unavailable(format!("the cluster at {} is running already", folder.display()))
            .hint("see it with `nacre status`, or choose another folder with --cluster DIR")
    })?;
    Ok(file)
}

fn log_path(cluster: &ClusterFile, node: &NodeEntry) -> PathBuf {
    cluster.folder().join("run").join(format!("{}.log", node.name))
}

fn tail(log: &Path) -> String {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<_> = text.lines().collect();
    lines[lines.len().saturating_sub(LOG_TAIL_LINES)..].join("\n")
}
