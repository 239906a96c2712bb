//! Keeps one node's process running: starts it, waits for its end, and restarts it after a pause.

use std::io::Write;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use nacre::{ClusterFile, NodeEntry};
use nacre_clock::{Clock, SystemClock};
use nacre_object::{Error, Result};
use nacre_wire::limits::DRAIN_TIMEOUT;
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time;

use super::absence::Absence;
use super::complaints::Complaints;
use super::node_events::NodeEvents;
use super::parse_ready;
use super::supervised_node::{History, NodeEnd, NodeState, SupervisedNode};
use crate::log_tail::LogTail;
use crate::membership::LEAVE_TIMEOUT;
use crate::node_lock::PATIENCE;
use crate::scrape_targets::ScrapeTargets;

/// The first pause before a dead node is started again.
const RESTART_PAUSE_MIN: Duration = Duration::from_millis(100);
/// The longest pause. A node that cannot start must not keep a core busy.
const RESTART_PAUSE_MAX: Duration = Duration::from_secs(5);
/// How long a node may take to finish after SIGTERM; then the supervisor kills it. In this time the
/// node leaves the registry, ends its sessions and closes its engine.
const STOP_GRACE: Duration = Duration::from_secs(15);
/// The part of [`STOP_GRACE`] for closing the engine: the engine syncs its writes, or disconnects
/// from Ceph.
const CLOSE_TIME: Duration = Duration::from_secs(4);

const _: () = assert!(
    LEAVE_TIMEOUT.as_millis() + DRAIN_TIMEOUT.as_millis() + CLOSE_TIME.as_millis()
        <= STOP_GRACE.as_millis()
);
// After a supervisor was killed, its nodes finish by themselves, and the next supervisor starts new
// processes. A new process must wait for the node's lock until the old one has finished.
const _: () = assert!(STOP_GRACE.as_millis() <= PATIENCE.as_millis());

#[derive(Debug)]
pub(super) enum Order {
    Kill { hold: bool },
    Resume,
    Stop,
}

/// The supervisor's handle of the task that keeps a node.
#[derive(Debug)]
pub(super) struct NodeTask {
    pub node: NodeEntry,
    pub orders: mpsc::Sender<Order>,
    pub state: watch::Receiver<NodeState>,
    history: Arc<History>,
    /// The part of the node's log since the supervisor started.
    pub log: LogTail,
    pub handle: JoinHandle<()>,
}

impl NodeTask {
    pub fn start(cluster: &ClusterFile, node: &NodeEntry, plan: ChildPlan) -> Self {
        let (orders, inbox) = mpsc::channel(4);
        let (set_state, state) = watch::channel(NodeState::Starting);
        let history = Arc::<History>::default();
        let log = LogTail::from_now(plan.log.clone());
        let runner = NodeRunner {
            plan,
            state: set_state,
            history: Arc::clone(&history),
            clock: SystemClock::default(),
            absence: Absence::new(cluster.clone(), node.clone()),
            complaints: Complaints::default(),
            events: NodeEvents::start(cluster, node),
            has_served: false,
            is_told_of: false,
        };
        let handle = tokio::spawn(runner.keep_running(inbox));
        Self { node: node.clone(), orders, state, history, log, handle }
    }

    pub fn supervised(&self) -> SupervisedNode {
        let (state, history) = (self.state.clone(), Arc::clone(&self.history));
        SupervisedNode { name: self.node.name.clone(), state, history }
    }

    pub async fn order(&self, order: Order) -> Result<()> {
        let gone = |_| Error::unavailable(format!("{} was stopped", self.node.name));
        self.orders.send(order).await.map_err(gone)
    }
}

/// What is needed to start a node's process.
#[derive(Debug)]
pub(super) struct ChildPlan {
    pub program: PathBuf,
    pub folder: PathBuf,
    pub log: PathBuf,
    pub name: String,
    pub metrics_port: u16,
    pub targets: Arc<ScrapeTargets>,
}

impl ChildPlan {
    fn spawn(&self) -> std::io::Result<Child> {
        let log = nacre_files::open_options().create(true).append(true).open(&self.log)?;
        Command::new(&self.program)
            .args(["node", "--supervised", "--name", &self.name, "--cluster"])
            .arg(&self.folder)
            .args(["--metrics-port", &self.metrics_port.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            // Ctrl-C on the terminal must reach only the supervisor, which then stops the nodes.
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
    }
}

/// What the runner does next.
enum Next {
    /// Start the node again. It ended for this reason.
    Restart(String, Asked),
    Hold,
    Finish,
}

/// Whether a node ended because the supervisor was ordered to kill it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asked {
    Yes,
    No,
}

/// Keeps the process of one node running. One task of the supervisor runs it.
#[derive(Debug)]
struct NodeRunner {
    plan: ChildPlan,
    state: watch::Sender<NodeState>,
    history: Arc<History>,
    clock: SystemClock,
    absence: Absence,
    complaints: Complaints,
    events: NodeEvents,
    /// Whether the node has ever served. Before that, the caller that starts the supervisor gets
    /// the error.
    has_served: bool,
    /// Whether the supervisor has reported that the node does not serve.
    is_told_of: bool,
}

impl NodeRunner {
    async fn keep_running(mut self, mut orders: mpsc::Receiver<Order>) {
        let mut pause = RESTART_PAUSE_MIN;
        loop {
            self.state.send_replace(NodeState::Starting);
            let next = match self.plan.spawn() {
                Ok(child) => self.run(child, &mut orders).await,
                Err(error) => {
                    let program = self.plan.program.display();
                    Next::Restart(format!("cannot run {program}: {error}"), Asked::No)
                }
            };
            let served = matches!(*self.state.borrow(), NodeState::Up { .. });
            pause = if served { RESTART_PAUSE_MIN } else { (pause * 2).min(RESTART_PAUSE_MAX) };
            match served {
                true => self.absence.is_over(),
                false => self.absence.start_failed(),
            }
            let go_on = match next {
                Next::Finish => false,
                Next::Hold => {
                    self.events.ended("killed, to stay down", self.clock.monotonic());
                    self.state.send_replace(NodeState::HeldDown);
                    wait_for_resume(&mut orders).await
                }
                Next::Restart(reason, asked) => {
                    self.ended(reason, asked, pause);
                    let go_on = pause_or_stop(pause, &mut orders, self.absence.tell()).await;
                    self.history.restarts.add(go_on.into());
                    go_on
                }
            };
            if !go_on {
                self.state.send_replace(NodeState::Stopped);
                return;
            }
        }
    }

    /// Follows one process from its start to its end.
    async fn run(&mut self, mut child: Child, orders: &mut mpsc::Receiver<Order>) -> Next {
        let log = LogTail::from_now(self.plan.log.clone());
        let pid = child.id().unwrap_or_default();
        // Take the pipe, because `wait` would close it. Keep it open, because the node finishes
        // when the pipe closes.
        let _lifeline = child.stdin.take();
        let mut ready = child.stdout.take().map(|out| BufReader::new(out).lines());
        let (mut asked, mut hold) = (Asked::No, false);
        loop {
            tokio::select! {
                ended = child.wait() => {
                    return match ended {
                        _ if hold => Next::Hold,
                        Ok(status) => Next::Restart(log.cause(status), asked),
                        Err(error) => Next::Restart(error.to_string(), asked),
                    };
                }
                line = next_line(&mut ready) => match line {
                    Some(line) => self.said(&line, pid),
                    None => ready = None,
                },
                order = orders.recv() => match order {
                    Some(Order::Kill { hold: stay }) => {
                        (asked, hold) = (Asked::Yes, stay);
                        // The process may have ended just now; `wait` notices both.
                        let _ = child.start_kill();
                    }
                    Some(Order::Resume) => {}
                    Some(Order::Stop) | None => {
                        terminate(&mut child, orders).await;
                        return Next::Finish;
                    }
                },
            }
        }
    }

    /// Handles a line of the node's standard output.
    fn said(&mut self, line: &str, pid: u32) {
        let Some(metrics) = parse_ready(line) else { return };
        let name = &self.plan.name;
        // A node also serves if the file cannot be written.
        if let Err(error) = self.plan.targets.set(name, metrics) {
            tell(&format!("{name}: {error}"));
        }
        if std::mem::take(&mut self.is_told_of) {
            tell(&format!("{name} serves again"));
        }
        self.has_served = true;
        self.events.serves();
        self.state.send_replace(NodeState::Up { pid });
    }

    /// Records why a node ended, and reports the reason to the person who runs the nodes. The
    /// supervisor will restart the node.
    fn ended(&mut self, reason: String, asked: Asked, pause: Duration) {
        let now_micros = self.clock.now_micros();
        self.history.ended(NodeEnd { at_micros: now_micros, reason: reason.clone() });
        self.events.ended(&reason, self.clock.monotonic());
        let is_news = self.has_served && asked == Asked::No;
        if is_news && self.complaints.is_due(&reason, self.clock.monotonic()) {
            let (name, log) = (&self.plan.name, self.plan.log.display());
            tell(&format!("{name} ended and is started again: {reason} (its log is {log})"));
            self.is_told_of = true;
        }
        let next_start_at_micros = now_micros + pause.as_micros() as u64;
        self.state.send_replace(NodeState::Down { reason, next_start_at_micros });
    }
}

/// Writes a line for the person who runs the nodes. Ignores errors: if standard error is closed,
/// the supervisor must go on.
pub(super) fn tell(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

async fn next_line(
    lines: &mut Option<tokio::io::Lines<BufReader<tokio::process::ChildStdout>>>,
) -> Option<String> {
    match lines {
        Some(lines) => lines.next_line().await.ok().flatten(),
        None => std::future::pending().await,
    }
}

/// Asks a node to finish. Kills it after [`STOP_GRACE`], or earlier if the supervisor orders it.
async fn terminate(child: &mut Child, orders: &mut mpsc::Receiver<Order>) {
    let pid = child.id().and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
    if let Some(pid) = pid {
        let _ = kill_process(pid, Signal::TERM);
    }
    tokio::select! {
        _ = child.wait() => return,
        () = time::sleep(STOP_GRACE) => {}
        () = ordered_to_kill(orders) => {}
    }
    let _ = child.kill().await;
}

async fn ordered_to_kill(orders: &mut mpsc::Receiver<Order>) {
    while let Some(order) = orders.recv().await {
        if matches!(order, Order::Kill { .. }) {
            return;
        }
    }
    // Nobody is left to order it.
    std::future::pending().await
}

/// Waits for the order to resume. Returns false if the order is to stop.
async fn wait_for_resume(orders: &mut mpsc::Receiver<Order>) -> bool {
    loop {
        match orders.recv().await {
            Some(Order::Resume) => return true,
            Some(Order::Kill { .. }) => {}
            Some(Order::Stop) | None => return false,
        }
    }
}

/// Runs `meanwhile` during the pause. Returns false if the supervisor orders a stop.
async fn pause_or_stop(
    pause: Duration,
    orders: &mut mpsc::Receiver<Order>,
    meanwhile: impl Future<Output = ()>,
) -> bool {
    let until = time::Instant::now() + pause;
    let stopped = async { while !matches!(orders.recv().await, Some(Order::Stop) | None) {} };
    let meanwhile = async {
        meanwhile.await;
        std::future::pending().await
    };
    tokio::select! {
        () = time::sleep_until(until) => true,
        () = stopped => false,
        () = meanwhile => true,
    }
}
