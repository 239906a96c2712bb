//! The faults that the demonstration of a log causes while writers append.

use nacre::{Cluster, Log, ProgramId, RoleName};
use nacre_node::Supervisor;
use nacre_object::{Error, ObjectId, Result};

use super::dev_ceph::DevCeph;
use super::interface::{ADDED_METHOD, Interface};
use super::log_demo::passed;
use super::writers::Work;
use super::{LOG, STEP_DEADLINE};

/// What fails, or is replaced.
#[derive(Debug, Clone, Copy)]
pub(super) enum Fault {
    /// The log's storage interface is replaced by its second version.
    Program,
    /// The process that serves the sequencer is killed.
    Sequencer,
    /// A storage target is killed, or an OSD and a monitor of Ceph.
    Target,
}

/// Causes faults in the cluster of the demo.
pub(super) struct Faults<'a> {
    pub supervisor: &'a Supervisor,
    pub interface: Interface,
    /// The Ceph cluster that stores the data; `None` if the supervisor's nodes store it.
    pub ceph: Option<&'a DevCeph>,
}

impl Faults<'_> {
    /// Causes a fault, and waits until the cluster has recovered. Returns what was done.
    pub async fn inflict(
        &self,
        fault: Fault,
        cluster: &Cluster,
        log: &Log,
        work: &Work,
    ) -> Result<String> {
        match (fault, self.ceph) {
            (Fault::Program, _) => {
                let interface = self.interface;
                let source = interface.second_source();
                let version = install(cluster, &interface.program(), &source).await?;
                self.check_revision(cluster, log).await?;
                Ok(format!("interface replaced by version {version}"))
            }
            (Fault::Sequencer, _) => {
                let node = self.sequencer(log).await?;
                self.supervisor.kill(&node, false).await?;
                self.supervisor.up(&node).await?;
                // The log has recovered when its tail is known, because finding the tail needs
                // every target.
                log.tail().await?;
                Ok(format!("sequencer {node} killed"))
            }
            (Fault::Target, Some(ceph)) => kill_daemons(ceph, log, work).await,
            (Fault::Target, None) => {
                let node = self.victim(cluster)?;
                self.supervisor.kill(&node, true).await?;
                // The target stays down until the log avoids it, or until all records are appended
                // without it.
                let avoided = tokio::select! {
                    avoided = stripes_avoid(cluster, log, &node) => avoided,
                    through = passed(work, work.total()) => through,
                };
                self.supervisor.resume(&node).await?;
                avoided.map(|()| format!("target {node} killed"))
            }
        }
    }

    /// The node that hands out the log's positions, by its name here.
    async fn sequencer(&self, log: &Log) -> Result<String> {
        let known = log.stat().await?.sequencer;
        let node = known.and_then(|known| self.supervisor.cluster().known(&known));
        let node = node.ok_or_else(|| {
            Error::not_found("no node of this cluster serves the sequencer of the demo's log")
        })?;
        Ok(node.name.clone())
    }

    /// Calls the method that only version 2 has, on an object of the log.
    async fn check_revision(&self, cluster: &Cluster, log: &Log) -> Result<()> {
        let (view, object) = (log.view(), first_object(log)?);
        let (class, interface) = (view.class().as_str(), self.interface);
        let object = cluster.object(&object).await?;
        let reply = object.call(class, ADDED_METHOD, interface.question()).await?;
        if interface.is_answer(&reply.output) {
            return Ok(());
        }
        Err(Error::corrupt(
            "the log's class still runs its first version, although the second one is active",
        ))
    }

    /// Chooses a target to kill, among those that do not keep the map with the log's view. There is
    /// only one copy of each map here. Without this map the log could not avoid the killed target,
    /// and would have to wait for it.
    fn victim(&self, cluster: &Cluster) -> Result<String> {
        let maps = [format!("nacre.system/map/log.{LOG}"), "nacre.system/map/programs".to_owned()];
        let keepers: Vec<_> = maps
            .iter()
            .map(|map| Ok(cluster.locate(&map.parse()?).to_string()))
            .collect::<Result<_>>()?;
        let mut targets = self.supervisor.cluster().with_role(RoleName::Storage);
        let victim = targets.find(|node| !keepers.contains(&node.name));
        Ok(victim
            .ok_or_else(|| {
                Error::not_found(
                    "no target can be killed: each one keeps a map that the demo needs",
                )
            })?
            .name
            .clone())
    }
}

/// The object of the log's first position.
fn first_object(log: &Log) -> Result<ObjectId> {
    let view = log.view();
    let object = view.place(0).and_then(|place| view.object(place));
    object
        .ok_or_else(|| Error::corrupt("the view of the demo's log names no object for position 0"))
}

/// Kills the OSD that serves the log's object, and the leading monitor. Starts both again when the
/// writers have made progress without them.
async fn kill_daemons(ceph: &DevCeph, log: &Log, work: &Work) -> Result<String> {
    let osd = ceph.primary(&first_object(log)?).await?;
    let monitor = ceph.leader().await?;
    ceph.kill(&osd).await?;
    ceph.kill(&monitor).await?;
    let total = work.total();
    let before = *work.acknowledged().borrow();
    passed(work, (before + total / 16).min(total)).await?;
    ceph.start(&osd).await?;
    ceph.start(&monitor).await?;
    Ok(format!("{osd} and {monitor} killed"))
}

/// Puts and activates a version of the storage interface, and waits until every node runs it.
pub(super) async fn install(cluster: &Cluster, program: &ProgramId, source: &str) -> Result<u64> {
    let programs = cluster.programs();
    let version = programs.put(program, source).await?;
    programs.activate(program, version).await?;
    programs.wait(program, version, STEP_DEADLINE).await?;
    Ok(version)
}

/// Waits until the log stores no new records on `node`. A writer notices that the node is down, and
/// changes the log's view.
async fn stripes_avoid(cluster: &Cluster, log: &Log, node: &str) -> Result<()> {
    let mut changes = cluster.maps().watch(log.name().map(), 0);
    loop {
        changes.next().await?;
        let view = cluster.log_env().views.current(log.name()).await?;
        let view = view.ok_or_else(|| Error::not_found("the demo's log has been removed"))?;
        let targets = view.current_targets(&**cluster.store());
        if targets.iter().all(|target| target.as_str() != node) {
            return Ok(());
        }
    }
}
