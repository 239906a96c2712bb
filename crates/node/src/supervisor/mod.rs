//! Runs a cluster's nodes as child processes, and restarts nodes that die.
//!
//! Each node has one task. The task starts the process, and waits until it writes `ready`
//! to its standard output. Then the task waits until the process ends or an order arrives. If a
//! node dies without an order, its task restarts it after a pause, which doubles up to a bound. A
//! node that was killed with `hold` stays down until it is resumed.
//!
//! The task reports why its node ended: on standard error, each reason at most once a minute, and
//! by the service `supervisor`. If a node repeatedly fails to start, the supervisor marks it as
//! down in the cluster's maps, so that no process waits for it.
//!
//! **Invariants:** There is one supervisor for each cluster folder; the kernel frees its lock file
//! when the process ends. A node never outlives its supervisor for long: its standard input is a
//! pipe from the supervisor, and it finishes when that pipe closes. So even SIGKILL of the
//! supervisor leaves no node behind.

mod absence;
mod complaints;
mod node_events;
mod node_task;
mod privacy;
mod service;
mod supervised_node;

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use nacre::{ClusterFile, FolderLock, NodeEntry};
use nacre_clock::{Clock, SystemClock};
use nacre_object::{Error, Result};

pub use service::supervised_nodes;
pub use supervised_node::{NodeEnd, NodeState, SupervisedNode, SupervisedReport};

use self::node_task::{ChildPlan, NodeTask, Order};
use self::service::{Answering, answer};
use crate::metrics::{Metrics, MetricsEndpoint, MetricsListener};
use crate::scrape_targets::ScrapeTargets;

/// The first word of the line that a node prints once it serves. The address of the node's metrics
/// follows.
const READY: &str = "ready";
/// The supervisor's name in the list of processes with metrics.
const SUPERVISOR: &str = "supervisor";

/// The line a node prints on standard output once it serves.
pub fn ready_line(metrics: SocketAddr) -> String {
    format!("{READY} {metrics}")
}

/// The address of the metrics in a node's ready line; `None` for any other line.
fn parse_ready(line: &str) -> Option<SocketAddr> {
    line.strip_prefix(READY)?.trim_start().parse().ok()
}

/// The nodes of one cluster, as child processes.
#[derive(Debug)]
pub struct Supervisor {
    cluster: ClusterFile,
    tasks: Vec<NodeTask>,
    targets: Arc<ScrapeTargets>,
    /// Until it is stopped.
    answering: Option<Answering>,
    _metrics: MetricsEndpoint,
    /// Until everything has ended.
    _lock: FolderLock,
}

impl Supervisor {
    /// Starts every node with `program node …` and returns when all of them serve. Metrics are
    /// served on consecutive loopback ports: the supervisor's on `metrics_port`, then one for each
    /// node. If `metrics_port` is 0, the ports are any free ones.
    ///
    /// # Errors
    /// `Unavailable` if another process runs the cluster, or if a node does not start. In the
    /// second case the error quotes the node's log, and all started nodes are stopped.
    pub async fn start(cluster: ClusterFile, program: &Path, metrics_port: u16) -> Result<Self> {
        let [first, second] = [(); 2].map(|()| std::future::pending());
        let started = Self::start_unless(cluster, program, metrics_port, first, second).await?;
        started.ok_or_else(|| Error::unavailable("the start was interrupted"))
    }

    /// Like [`Supervisor::start`], but stops when `interrupted` completes. It then stops the
    /// started nodes, or kills them when `hurried` completes, too, and returns `None`. A caller
    /// must not drop this future: the folder would be unlocked while nodes are still ending.
    ///
    /// # Errors
    /// As [`Supervisor::start`].
    pub async fn start_unless(
        cluster: ClusterFile,
        program: &Path,
        metrics_port: u16,
        interrupted: impl Future<Output = ()>,
        hurried: impl Future<Output = ()>,
    ) -> Result<Option<Self>> {
        let lock = FolderLock::take(cluster.folder())?;
        let run_folder = cluster.run_folder()?;
        privacy::tighten(&cluster);
        let listener = MetricsListener::bind(metrics_port).await?;
        let targets = Arc::new(ScrapeTargets::new(cluster.folder()));
        targets.set(SUPERVISOR, listener.address())?;
        let mut next_port = metrics_port;
        let mut plan = |node: &NodeEntry| {
            next_port = if metrics_port == 0 { 0 } else { next_port.saturating_add(1) };
            ChildPlan {
                program: program.to_owned(),
                folder: cluster.folder().to_owned(),
                log: run_folder.join(format!("{}.log", node.name)),
                name: node.name.clone(),
                metrics_port: next_port,
                targets: Arc::clone(&targets),
            }
        };
        let tasks: Vec<_> = cluster
            .nodes()
            .iter()
            .map(|node| NodeTask::start(&cluster, node, plan(node)))
            .collect();
        let mut metrics = Metrics::of_process(SystemClock::default().now_micros());
        let nodes: Vec<_> = tasks.iter().map(NodeTask::supervised).collect();
        metrics.supervisor(nodes.clone());
        let _metrics = listener.serve(metrics);
        let answering = None;
        let mut supervisor = Self { cluster, tasks, targets, answering, _metrics, _lock: lock };
        let begun = tokio::select! {
            begun = supervisor.begin(nodes) => begun.map(|()| true),
            () = interrupted => Ok(false),
        };
        if let Ok(true) = begun {
            return Ok(Some(supervisor));
        }
        supervisor.stop_unless_hurried(hurried).await;
        begun.map(|_| None)
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
        let state = |task: &NodeTask| (task.node.name.clone(), task.state.borrow().clone());
        self.tasks.iter().map(state).collect()
    }

    /// Kills a node with SIGKILL and returns when it is gone. With `hold` the node stays down.
    ///
    /// # Errors
    /// `NotFound` for an unknown node, `Unavailable` if it is not up.
    pub async fn kill(&self, name: &str, hold: bool) -> Result<()> {
        let task = self.task(name)?;
        let NodeState::Up { pid } = *task.state.borrow() else {
            return Err(Error::unavailable(format!("node {name} does not run"))
                .hint("see why: nacre status"));
        };
        let mut state = task.state.clone();
        task.order(Order::Kill { hold }).await?;
        let gone = |state: &NodeState| *state != NodeState::Up { pid };
        state.wait_for(gone).await.map_err(|_| Error::unavailable("the supervisor is stopping"))?;
        Ok(())
    }

    /// Starts a node that was killed with `hold`, and returns when the node serves.
    ///
    /// # Errors
    /// `NotFound` for an unknown node, `Unavailable` if it does not start.
    pub async fn resume(&self, name: &str) -> Result<()> {
        self.task(name)?.order(Order::Resume).await?;
        self.up(name).await
    }

    /// Waits until a node serves.
    ///
    /// # Errors
    /// `NotFound` for an unknown node, `Unavailable` if it is stopped.
    pub async fn up(&self, name: &str) -> Result<()> {
        let mut state = self.task(name)?.state.clone();
        let settled = |s: &NodeState| matches!(s, NodeState::Up { .. } | NodeState::Stopped);
        match state.wait_for(settled).await.as_deref() {
            Ok(NodeState::Up { .. }) => Ok(()),
            _ => Err(Error::unavailable(format!("{name} was stopped"))),
        }
    }

    /// Asks every node to finish, kills nodes that do not, and returns when all have ended.
    pub async fn stop(&mut self) {
        self.stop_unless_hurried(std::future::pending()).await;
    }

    /// Like [`Supervisor::stop`], but kills all remaining nodes when `hurried` completes.
    pub async fn stop_unless_hurried(&mut self, hurried: impl Future<Output = ()>) {
        self.order_all(|| Order::Stop).await;
        let is_hurried = tokio::select! {
            () = self.all_gone() => false,
            () = hurried => true,
        };
        if is_hurried {
            self.order_all(|| Order::Kill { hold: false }).await;
            self.all_gone().await;
        }
        if let Some(answering) = self.answering.take() {
            answering.stop().await;
        }
    }

    async fn order_all(&self, order: impl Fn() -> Order) {
        for task in &self.tasks {
            // If this fails, the task has ended, and its node with it.
            let _ = task.orders.send(order()).await;
        }
    }

    /// Waits until no task is left.
    async fn all_gone(&mut self) {
        for task in &mut self.tasks {
            if !task.handle.is_finished() {
                let _ = (&mut task.handle).await;
            }
        }
    }

    fn task(&self, name: &str) -> Result<&NodeTask> {
        self.cluster.node(name)?;
        let found = self.tasks.iter().find(|task| task.node.name == name);
        found.ok_or_else(|| {
            Error::not_found(format!("the cluster has no node {name:?}"))
                .hint("list the nodes: nacre status")
        })
    }

    async fn begin(&mut self, nodes: Vec<SupervisedNode>) -> Result<()> {
        self.answering = Some(answer(&self.cluster, nodes).await?);
        self.all_up().await
    }

    /// Waits for the first start of every node. It is an error if a node ends before it was ready.
    async fn all_up(&self) -> Result<()> {
        for task in &self.tasks {
            let mut state = task.state.clone();
            let settled = state.wait_for(|state| *state != NodeState::Starting).await;
            if let Ok(NodeState::Down { reason, .. }) = settled.as_deref() {
                let why = task.log.why_it_ended(reason);
                let text = format!("{} did not start: {why}", task.node.name);
                let log = task.log.path().display();
                return Err(Error::unavailable(text).hint(format!("its log is {log}")));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::time::Duration;

    use super::*;

    /// The pause between checks of the files that a node has written.
    const LOOK_AGAIN: Duration = Duration::from_millis(5);

    /// Longer than this takes on a busy machine.
    const DEADLINE: Duration = Duration::from_secs(120);

    /// A node that never serves, and takes some time to end. It reports its start and its end in
    /// files `began.PID` and `ended.PID` in its own folder.
    const SLOW_NODE: &str = r#"#!/bin/sh
trap 'kill $!; sleep 0.1; : > "${0%/*}/ended.$$"; exit 0' TERM
sleep 600 &
: > "${0%/*}/began.$$"
while :; do wait; done
"#;

    fn pids(folder: &Path, what: &str) -> Vec<String> {
        let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
        let names = names.map(|name| name.into_string().unwrap());
        let mut pids: Vec<_> =
            names.filter_map(|name| name.strip_prefix(what).map(str::to_owned)).collect();
        pids.sort();
        pids
    }

    #[tokio::test]
    async fn an_interrupted_start_returns_once_every_node_has_ended_by_itself() {
        let [folder, programs] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let program = programs.path().join("node");
        fs::write(&program, SLOW_NODE).unwrap();
        fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
        let cluster = ClusterFile::create(folder.path(), 2).unwrap();
        let count = cluster.nodes().len();
        let all_began = async {
            while pids(programs.path(), "began.").len() < count {
                tokio::time::sleep(LOOK_AGAIN).await;
            }
        };
        let never = std::future::pending();
        let started = Supervisor::start_unless(cluster, &program, 0, all_began, never);
        let started = tokio::time::timeout(DEADLINE, started).await;
        assert!(started.expect("every node begins, and ends").unwrap().is_none());
        let began = pids(programs.path(), "began.");
        assert_eq!(pids(programs.path(), "ended."), began, "none was killed");
        assert!(began.iter().all(|pid| !Path::new("/proc").join(pid).exists()));
        assert!(FolderLock::take(folder.path()).is_ok(), "the next may start");
    }
}
