//! `Stage`: the cluster on which the demo plays, its targets, and what the demo does to them.
//!
//! The targets are storage nodes, or on Ceph the OSDs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use nacre::{Cluster, ClusterFile, NodeEntry, ProgramId, ProgramKind, RoleName, Sessions};
use nacre_node::{
    RouteMap, RouteStatus, STORAGE_SERVICE, SloTargets, StartedApplication, Supervisor,
};
use nacre_object::{Error, ErrorKind, Locate, ObjectId, Result, TargetName};
use nacre_route::{ROUTED_POOL, Setting};
use tokio::time::{sleep, timeout};

use super::load::{Load, Served};
use super::{DEVICE_RATE, OBJECTS, POOL, Plan, STEP_DEADLINE, TAIL, TAIL_SOURCE, USUAL_RATE};
use crate::commands::route::statuses;
use crate::demo::dev_ceph::DevCeph;
use crate::out::note;

const NODE_TIMEOUT: Duration = Duration::from_secs(5);
/// How often the demo asks for a state that it waits for.
const REST: Duration = Duration::from_millis(100);
/// Object names that are tried to find the objects of the demo.
const MAX_TRIED_NAMES: usize = 4096;
/// Names for routed bytes that a gateway tries, at most.
const MAX_ROUTED_NAMES: usize = 256;
/// Reads that clients make while an OSD is down, before the demo starts it again.
const READS_WITHOUT_OSD: u64 = 50;

/// Where everything is.
pub(super) struct Stage<'a> {
    supervisor: &'a Supervisor,
    file: ClusterFile,
    sessions: Sessions,
    map: RouteMap,
    located: SloTargets,
    /// The Ceph cluster that keeps the data; `None` if the nodes do.
    ceph: Option<DevCeph>,
    plan: Plan,
    targets: Vec<TargetName>,
    /// The target that is overloaded.
    pub home: TargetName,
    /// The target that keeps routed bytes and is killed.
    victim: TargetName,
}

/// What the client has seen.
pub(super) struct Phase {
    pub served: Vec<Served>,
    /// The second in which the burst ended.
    pub burst_end: u64,
}

/// What was killed in a burst.
pub(super) struct Killed {
    /// The names of the processes.
    pub names: Vec<String>,
    /// The bytes that other targets stored before.
    pub routed_bytes: u64,
}

impl<'a> Stage<'a> {
    pub async fn new(
        supervisor: &'a Supervisor,
        cluster: &Cluster,
        ceph: Option<DevCeph>,
        plan: Plan,
    ) -> Result<Self> {
        let file = supervisor.cluster();
        let located = SloTargets::new(file, cluster)?;
        // The demo must not kill the target that keeps the rules: while it is down, no rule could
        // change. On Ceph it must not overload it either: a new rule would wait in its queue.
        let (targets, rules) = match &ceph {
            None => (cluster.store().targets(), "nacre.system/map/routes".to_owned()),
            Some(_) => {
                let of_each = located.objects(&POOL.parse()?, "any", 1).await?;
                (of_each.into_keys().collect(), format!("{ROUTED_POOL}/record"))
            }
        };
        let keeper = located.locate(&rules.parse()?).await?;
        let mut others = targets.iter().filter(|target| **target != keeper).cloned();
        let (Some(home), Some(victim)) = (others.next(), others.next()) else {
            return Err(Error::not_found("the cluster has too few targets for this demo").hint(
                "a Ceph cluster needs three OSDs: scripts/ceph-cluster up --osds 3 --size 2",
            ));
        };
        Ok(Self {
            supervisor,
            file: file.clone(),
            sessions: Sessions::new(file)?,
            map: RouteMap::new(cluster.maps().clone()),
            located,
            ceph,
            plan,
            targets,
            home,
            victim,
        })
    }

    /// What makes the targets slow.
    pub fn device(&self) -> &'static str {
        match self.ceph {
            None => "its node, which delays requests before its disk gets them",
            Some(_) => "the gateway, which delays requests to an OSD before RADOS gets them",
        }
    }

    /// The node to which the client sends all requests: the overloaded target, or the gateway.
    pub fn entry(&self) -> Result<&NodeEntry> {
        match self.ceph {
            None => self.file.node(self.home.as_str()),
            Some(_) => self.gateway(),
        }
    }

    fn gateway(&self) -> Result<&NodeEntry> {
        let gateway = self.file.with_role(RoleName::Storage).next();
        gateway.ok_or_else(|| Error::not_found("the cluster has no gateway"))
    }

    /// Starts the tail-latency application, which notices the burst within a second.
    pub async fn start_tail(&self, cluster: &Cluster) -> Result<()> {
        let id = ProgramId::new(ProgramKind::Control, TAIL.parse()?);
        let version = cluster.programs().put(&id, TAIL_SOURCE).await?;
        cluster.programs().activate(&id, version).await?;
        let number = |name: &str, value| (name.to_owned(), Setting::Number(value));
        let settings = [
            ("pools".to_owned(), Setting::Text(POOL.to_owned())),
            number("recent_seconds", 1.0),
            number("average_seconds", 60.0),
            number("least_rate", f64::from(USUAL_RATE) * 1.5),
        ];
        let (program, settings) = (TAIL.parse()?, settings.into());
        let started = StartedApplication { program, settings, every_seconds: 0.25 };
        self.map.start(&TAIL.parse()?, &started).await.map(drop)
    }

    /// Stops the tail-latency application, if it runs, and waits until all bytes are home. A Ceph cluster
    /// keeps the application of an earlier demo that was interrupted.
    pub async fn stop_tail(&self) -> Result<()> {
        match self.map.stop(&TAIL.parse()?).await {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        self.until_home().await
    }

    /// Objects of the target that is overloaded; bytes of some go to the victim.
    pub async fn objects(&self) -> Result<Vec<String>> {
        let (mut of_victim, mut others) = (vec![], vec![]);
        for number in 0..MAX_TRIED_NAMES {
            let name = format!("demo.{number}");
            let object: ObjectId = format!("{POOL}/{name}").parse()?;
            if self.located.locate(&object).await? != self.home {
                continue;
            }
            let (list, most) = match self.keeper(&object).await? == self.victim {
                true => (&mut of_victim, self.plan.objects_of_victim),
                false => (&mut others, OBJECTS - self.plan.objects_of_victim),
            };
            if list.len() < most {
                list.push(name);
            }
            if of_victim.len() + others.len() == OBJECTS {
                return Ok(others.into_iter().chain(of_victim).collect());
            }
        }
        let text =
            format!("too few objects belong to {} or are routed to {}", self.home, self.victim);
        Err(Error::not_found(text).hint("use a Ceph cluster with three OSDs of the same size"))
    }

    /// The target to which the rules of the application send the bytes of an object.
    async fn keeper(&self, object: &ObjectId) -> Result<TargetName> {
        if self.ceph.is_none() {
            return self.located.locate(&format!("{ROUTED_POOL}/spread/{object}").parse()?).await;
        }
        // The gateway takes the first of these names that does not belong to the home.
        for number in 0..MAX_ROUTED_NAMES {
            let name = format!("{ROUTED_POOL}/{{{number}}}{object}").parse()?;
            let target = self.located.locate(&name).await?;
            if target != self.home {
                return Ok(target);
            }
        }
        Ok(self.home.clone())
    }

    /// Makes each target as slow as a device that serves [`DEVICE_RATE`] requests a second.
    pub async fn limit_all(&self) -> Result<()> {
        for target in &self.targets {
            self.limit(target).await?;
        }
        Ok(())
    }

    /// Limits a target. A new process must get the same limit as the former one.
    async fn limit(&self, target: &TargetName) -> Result<()> {
        let (node, input) = match self.ceph {
            None => (target.as_str(), DEVICE_RATE.to_string()),
            Some(_) => (self.gateway()?.name.as_str(), format!("{target} {DEVICE_RATE}")),
        };
        let session = self.sessions.session(node)?;
        session.ask(STORAGE_SERVICE, "limit", Bytes::from(input), NODE_TIMEOUT).await.map(drop)
    }

    /// Runs the usual load, a burst, and the usual load again.
    pub async fn phase(&self, load: &Arc<Load>) -> Result<Phase> {
        self.phase_with(load, async { Ok(()) }).await.map(|(phase, ())| phase)
    }

    /// The same, and also kills processes during the burst: once the overloaded target has sent
    /// bytes to other targets. The burst lasts until they serve again.
    pub async fn phase_with_faults(&self, load: &Arc<Load>) -> Result<(Phase, Killed)> {
        self.phase_with(load, self.kill(load)).await
    }

    async fn phase_with<T>(
        &self,
        load: &Arc<Load>,
        in_burst: impl Future<Output = Result<T>>,
    ) -> Result<(Phase, T)> {
        let shifted = |mut served: Vec<Served>, seconds: u64| {
            served.iter_mut().for_each(|one| one.due += Duration::from_secs(seconds));
            served
        };
        let (plan, seconds) = (self.plan, Duration::from_secs);
        let mut all = load.run(USUAL_RATE, seconds(plan.usual)).await?;
        let is_done = AtomicBool::new(false);
        let may_end = || is_done.load(Ordering::Relaxed);
        let burst = load.run_until(plan.burst_rate, seconds(plan.burst), may_end);
        let in_burst = async {
            let outcome = in_burst.await?;
            is_done.store(true, Ordering::Relaxed);
            Ok(outcome)
        };
        let (burst, outcome) = tokio::try_join!(burst, in_burst)?;
        let last = burst.iter().map(|one| one.due).max().unwrap_or_default();
        let burst_end = plan.usual + plan.burst.max(last.as_secs() + 1);
        all.extend(shifted(burst, plan.usual));
        let after = load.run(USUAL_RATE, seconds(plan.after)).await?;
        all.extend(shifted(after, burst_end));
        Ok((Phase { served: all, burst_end }, outcome))
    }

    /// Kills the victim when bytes lie elsewhere, and waits until it serves again. On Ceph also
    /// kills the gateway, which keeps the rules and notes where the bytes are.
    async fn kill(&self, load: &Load) -> Result<Killed> {
        let routed = |all: &[RouteStatus]| all.iter().any(|one| one.routed_objects >= OBJECTS / 2);
        let all = self.until("the overloaded target sends writes elsewhere", routed).await?;
        let routed_bytes = all.iter().map(|one| one.routed_bytes).sum();
        note(&format!("{routed_bytes} bytes are on other targets; killing {}", self.victim));
        let mut names = vec![self.victim.to_string()];
        match &self.ceph {
            None => self.kill_node(self.victim.as_str()).await?,
            Some(ceph) => {
                self.kill_osd(ceph, load).await?;
                let gateway = &self.gateway()?.name;
                note(&format!("killing {gateway}, which routes"));
                self.kill_node(gateway).await?;
                names.push(gateway.clone());
            }
        }
        Ok(Killed { names, routed_bytes })
    }

    /// Kills a node. The supervisor starts it again.
    async fn kill_node(&self, node: &str) -> Result<()> {
        self.supervisor.kill(node, false).await?;
        self.supervisor.up(node).await?;
        match self.ceph {
            None => self.limit(&self.victim).await?,
            Some(_) => self.limit_all().await?,
        }
        note(&format!("{node} serves again"));
        Ok(())
    }

    /// Kills the victim, and starts it again when clients have made progress without it.
    async fn kill_osd(&self, ceph: &DevCeph, load: &Load) -> Result<()> {
        let before = ceph.up_since(self.victim.as_str()).await?;
        ceph.kill(self.victim.as_str()).await?;
        let enough = load.verified() + READS_WITHOUT_OSD;
        let progress = async {
            while load.verified() < enough {
                sleep(REST).await;
            }
        };
        timeout(STEP_DEADLINE, progress).await.map_err(|_| late("clients read without an OSD"))?;
        ceph.start(self.victim.as_str()).await?;
        let up = async {
            loop {
                let since = ceph.up_since(self.victim.as_str()).await?;
                if since.is_some() && since != before {
                    return Ok::<_, Error>(());
                }
                sleep(REST).await;
            }
        };
        timeout(STEP_DEADLINE, up).await.map_err(|_| late("the killed OSD is up"))??;
        note(&format!("{} serves again", self.victim));
        Ok(())
    }

    /// Waits until all bytes are home and no rules are left.
    pub async fn until_home(&self) -> Result<()> {
        let nodes = self.file.with_role(RoleName::Storage).count();
        let is_home =
            |one: &RouteStatus| one.rules.is_empty() && one.routed_bytes == 0 && one.in_doubt == 0;
        let are_home = |all: &[RouteStatus]| all.len() == nodes && all.iter().all(is_home);
        self.until("all bytes are home and the rules gone", are_home).await.map(drop)
    }

    /// Waits until the status of the switches satisfies a condition, and returns that status.
    async fn until(
        &self,
        what: &str,
        is_so: impl Fn(&[RouteStatus]) -> bool,
    ) -> Result<Vec<RouteStatus>> {
        let looking = async {
            loop {
                let all = statuses(&self.file, &self.sessions).await?;
                if is_so(&all) {
                    return Ok(all);
                }
                sleep(REST).await;
            }
        };
        timeout(STEP_DEADLINE, looking).await.map_err(|_| late(what))?
    }
}

fn late(what: &str) -> Error {
    let limit = STEP_DEADLINE.as_secs();
    Error::unavailable(format!("within {limit} s it did not happen that {what}"))
}
