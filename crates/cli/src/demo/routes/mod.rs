//! `nacre demo --routes`: one target is overloaded, and its writes go to other targets until the
//! burst is over.
//!
//! 1. A stock gRPC client, started before any rule exists, writes and reads objects of one target.
//!    All targets have the same limits.
//! 2. The load rises above the limit of the target, and falls again. The demo shows the latencies
//!    of each second.
//! 3. The demo repeats this with the tail-latency application, which sends writes to other targets.
//!    During the burst it kills a node that holds such routed bytes.
//! 4. After the burst the routed bytes return to their usual target, and the rules are removed.
//!    Every read must have returned the last acknowledged write.

mod load;
mod report;
mod stock_client;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use nacre::{Cluster, ClusterFile, ProgramId, ProgramKind, RoleName, Sessions};
use nacre_clock::{Clock, SystemClock};
use nacre_node::{RouteMap, RouteStatus, STORAGE_SERVICE, StartedApplication, Supervisor};
use nacre_object::{Error, Locate, ObjectId, Result, TargetName};
use nacre_route::{ROUTED_POOL, Setting};
use tokio::time::{sleep, timeout};

use self::load::{Load, Served};
use self::report::{RouteReport, Second};
use self::stock_client::StockClient;
use crate::commands::route::statuses;
use crate::out::{Out, note};

/// Storage targets.
pub(super) const TARGETS: usize = 3;
const POOL: &str = "data";
/// The name of the tail-latency application and of its program.
const TAIL: &str = "tail";
const TAIL_SOURCE: &str = include_str!("../../../../../programs/control/tail.lua");
/// Objects of the target that is overloaded.
const OBJECTS: usize = 24;
/// How many of these objects have their bytes routed to the node that is killed.
const OBJECTS_OF_VICTIM: usize = 8;
/// What a target serves a second.
const DEVICE_RATE: u64 = 150;
/// What the client asks for a second as usual, and in the burst.
const USUAL_RATE: u32 = 50;
const BURST_RATE: u32 = 250;
/// A step that takes longer is a failed demo.
const STEP_DEADLINE: Duration = Duration::from_secs(90);
const NODE_TIMEOUT: Duration = Duration::from_secs(5);
/// How often the demo asks the switches for their status.
const REST: Duration = Duration::from_millis(100);

/// How long each part takes, in seconds.
#[derive(Debug, Clone, Copy)]
struct Times {
    usual: u64,
    burst: u64,
    after: u64,
}

const LONG: Times = Times { usual: 6, burst: 14, after: 6 };
const SHORT: Times = Times { usual: 4, burst: 7, after: 3 };

/// Where everything is.
struct Stage {
    file: ClusterFile,
    sessions: Sessions,
    map: RouteMap,
    /// The target that is overloaded.
    home: TargetName,
    /// The node that keeps routed bytes and is killed.
    victim: TargetName,
}

/// Plays the demo on a cluster that runs.
pub(super) async fn play(supervisor: &Supervisor, is_quick: bool, out: Out) -> Result<()> {
    let times = if is_quick { SHORT } else { LONG };
    let file = supervisor.cluster();
    let cluster = Cluster::connect(file.folder()).await?;
    cluster.create_default_pools().await?;
    let stage = Stage::new(file, &cluster)?;
    let names = stage.objects(&cluster)?;
    let entry = file.node(stage.home.as_str())?;
    let socket = file.endpoint(entry)?.path().map(std::path::Path::to_owned);
    let socket = socket.ok_or_else(|| {
        Error::unsupported("the node of the overloaded target has no Unix socket")
    })?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
    let load = Load::prepare(StockClient::new(socket), &names, Arc::clone(&clock)).await?;
    stage.limit(DEVICE_RATE).await?;

    note(&format!(
        "a stock gRPC client asks {} for {USUAL_RATE}, then {BURST_RATE} requests a second; a target serves {DEVICE_RATE}",
        stage.home
    ));
    let without = stage.phase(&load, times, None).await?.0;
    stage.start_tail(&cluster).await?;
    note("once more, with routing: the writes of an overloaded target go to other targets");
    let (with, routed_bytes) = stage.phase(&load, times, Some(supervisor)).await?;
    let began = clock.monotonic();
    stage.until("all bytes are home and the rules gone", is_home).await?;
    let home_after = clock.monotonic().saturating_sub(began);
    load.read_all().await?;
    let report = RouteReport {
        device_requests_per_second: DEVICE_RATE,
        burst_seconds: (times.usual, times.usual + times.burst),
        without_routing: Second::all(&without),
        with_routing: Second::all(&with),
        killed: stage.victim.to_string(),
        routed_bytes,
        home_after_seconds: home_after.as_secs_f64() + times.after as f64,
        acknowledged_writes: load.writes(),
        verified_reads: load.verified(),
    };
    out.show(&report, || report.text())
}

fn is_home(all: &[RouteStatus]) -> bool {
    let is_home =
        |one: &RouteStatus| one.rules.is_empty() && one.routed_bytes == 0 && one.in_doubt == 0;
    all.len() == TARGETS && all.iter().all(is_home)
}

impl Stage {
    /// Starts the tail-latency application, which notices the burst within a second.
    async fn start_tail(&self, cluster: &Cluster) -> Result<()> {
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

    fn new(file: &ClusterFile, cluster: &Cluster) -> Result<Self> {
        // The demo must not kill the node that keeps the map of rules. There is only one copy of
        // the map, so no rule could change while that node is down.
        let keeper = cluster.locate(&"nacre.system/map/routes".parse()?);
        let mut others = cluster.store().targets().into_iter().filter(|target| *target != keeper);
        let (Some(home), Some(victim)) = (others.next(), others.next()) else {
            return Err(Error::not_found("the cluster has too few targets for this demo"));
        };
        let map = RouteMap::new(cluster.maps().clone());
        Ok(Self { file: file.clone(), sessions: Sessions::new(file)?, map, home, victim })
    }

    /// Objects of the target that is overloaded; bytes of some go to the victim.
    fn objects(&self, cluster: &Cluster) -> Result<Vec<String>> {
        let (mut of_victim, mut others) = (vec![], vec![]);
        for number in 0.. {
            let name = format!("demo.{number}");
            let object: ObjectId = format!("{POOL}/{name}").parse()?;
            if cluster.locate(&object) != self.home {
                continue;
            }
            let keeper = cluster.locate(&format!("{ROUTED_POOL}/spread/{object}").parse()?);
            let (list, most) = match keeper == self.victim {
                true => (&mut of_victim, OBJECTS_OF_VICTIM),
                false => (&mut others, OBJECTS - OBJECTS_OF_VICTIM),
            };
            if list.len() < most {
                list.push(name);
            }
            if of_victim.len() + others.len() == OBJECTS {
                break;
            }
        }
        Ok(others.into_iter().chain(of_victim).collect())
    }

    /// Makes each target as slow as a device that serves so many requests a second.
    async fn limit(&self, per_second: u64) -> Result<()> {
        for node in self.file.with_role(RoleName::Storage) {
            let input = Bytes::from(per_second.to_string());
            let session = self.sessions.session(&node.name)?;
            session.ask(STORAGE_SERVICE, "limit", input, NODE_TIMEOUT).await?;
        }
        Ok(())
    }

    /// Runs the usual load, a burst, and the usual load again.
    ///
    /// If there is a `supervisor`, also kills the node of another target, the victim, during the
    /// burst: once the overloaded target has sent bytes to other targets. Returns how many bytes
    /// other targets stored at that time.
    async fn phase(
        &self,
        load: &Arc<Load>,
        times: Times,
        supervisor: Option<&Supervisor>,
    ) -> Result<(Vec<Served>, u64)> {
        let shifted = |mut served: Vec<Served>, seconds: u64| {
            served.iter_mut().for_each(|one| one.due += Duration::from_secs(seconds));
            served
        };
        let seconds = Duration::from_secs;
        let mut all = load.run(USUAL_RATE, seconds(times.usual)).await?;
        let burst = load.run(BURST_RATE, seconds(times.burst));
        let (burst, routed_bytes) = match supervisor {
            None => (burst.await?, 0),
            Some(supervisor) => tokio::try_join!(burst, self.kill_victim(supervisor))?,
        };
        all.extend(shifted(burst, times.usual));
        let after = load.run(USUAL_RATE, seconds(times.after)).await?;
        all.extend(shifted(after, times.usual + times.burst));
        Ok((all, routed_bytes))
    }

    /// Kills the victim when bytes lie elsewhere, and waits until the supervisor has started it
    /// again.
    async fn kill_victim(&self, supervisor: &Supervisor) -> Result<u64> {
        let is_of_home = |one: &&RouteStatus| one.target == self.home.as_str();
        let routed = |all: &[RouteStatus]| {
            all.iter().find(is_of_home).is_some_and(|one| one.routed_objects >= OBJECTS / 2)
        };
        let all = self.until("the overloaded target sends writes elsewhere", routed).await?;
        let bytes = all.iter().find(is_of_home).map_or(0, |one| one.routed_bytes);
        note(&format!("{bytes} bytes are on other targets; killing {}", self.victim));
        supervisor.kill(self.victim.as_str(), false).await?;
        supervisor.up(self.victim.as_str()).await?;
        // The new process must get the same limit as the former one.
        let session = self.sessions.session(self.victim.as_str())?;
        let input = Bytes::from(DEVICE_RATE.to_string());
        session.ask(STORAGE_SERVICE, "limit", input, NODE_TIMEOUT).await?;
        note(&format!("{} serves again", self.victim));
        Ok(bytes)
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
        let late = |_| {
            let limit = STEP_DEADLINE.as_secs();
            Error::unavailable(format!("within {limit} s it did not happen that {what}"))
        };
        timeout(STEP_DEADLINE, looking).await.map_err(late)?
    }
}
