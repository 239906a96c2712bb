//! `nacre demo --routes`: one target is overloaded, and its writes go to other targets until the
//! burst is over.
//!
//! 1. A stock gRPC client, started before any rule exists, writes and reads objects of one target.
//!    All targets have the same limits.
//! 2. The load rises above the limit of the target, and falls again. The demo shows the latencies
//!    of each second.
//! 3. The demo repeats this with the tail-latency application, which sends writes to other targets.
//!    During the burst it kills a target that holds such routed bytes. On Ceph it then also kills the
//!    gateway that routes.
//! 4. After the burst the routed bytes return to their usual target, and the rules are removed.
//!    Every read must have returned the last acknowledged write.

mod load;
mod report;
mod stage;
mod stock_client;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use nacre::Cluster;
use nacre_clock::{Clock, SystemClock};
use nacre_node::Supervisor;
use nacre_object::{Error, Result};

use self::load::Load;
use self::report::{RouteReport, Second};
use self::stage::{Killed, Stage};
use self::stock_client::StockClient;
use super::dev_ceph::DevCeph;
use crate::out::{Out, note};

/// Storage targets, if nodes keep the data.
pub(super) const TARGETS: usize = 3;
/// Gateways to Ceph, where the targets are OSDs. Each gateway simulates the devices of OSDs for
/// itself, so all IO must pass one gateway.
pub(super) const GATEWAYS: usize = 1;
const POOL: &str = "data";
/// The name of the tail-latency application and of its program.
const TAIL: &str = "tail";
const TAIL_SOURCE: &str = include_str!("../../../../../programs/control/tail.lua");
/// Objects of the target that is overloaded.
const OBJECTS: usize = 24;
/// What a target serves a second.
const DEVICE_RATE: u64 = 150;
/// What the client asks for a second as usual.
const USUAL_RATE: u32 = 50;
/// A step that takes longer is a failed demo.
const STEP_DEADLINE: Duration = Duration::from_secs(90);

/// What the client does. Times are in seconds.
#[derive(Debug, Clone, Copy)]
struct Plan {
    usual: u64,
    burst: u64,
    after: u64,
    /// What the client asks for a second in the burst.
    burst_rate: u32,
    /// How many objects have their bytes routed to the target that is killed.
    objects_of_victim: usize,
}

const LONG: Plan =
    Plan { usual: 6, burst: 14, after: 6, burst_rate: 250, objects_of_victim: OBJECTS / 3 };
const SHORT: Plan = Plan { usual: 4, burst: 7, after: 3, ..LONG };
/// On Ceph two other OSDs store the routed bytes, half each. Neither is overloaded by them. The burst
/// lasts longer than the faults.
const LONG_ON_CEPH: Plan =
    Plan { burst: 30, burst_rate: 200, objects_of_victim: OBJECTS / 2, ..LONG };
const SHORT_ON_CEPH: Plan = Plan { usual: 4, burst: 7, after: 3, ..LONG_ON_CEPH };

/// Plays the demo on a cluster that runs, whose data is in `ceph` if that is a Ceph cluster.
pub(super) async fn play(
    supervisor: &Supervisor,
    ceph: Option<DevCeph>,
    is_quick: bool,
    out: Out,
) -> Result<()> {
    let plan = match (&ceph, is_quick) {
        (None, false) => LONG,
        (None, true) => SHORT,
        (Some(_), false) => LONG_ON_CEPH,
        (Some(_), true) => SHORT_ON_CEPH,
    };
    let cluster = Cluster::connect(supervisor.cluster().folder()).await?;
    cluster.create_default_pools().await?;
    let stage = Stage::new(supervisor, &cluster, ceph, plan).await?;
    stage.stop_tail().await?;
    let names = stage.objects().await?;
    let entry = stage.entry()?;
    let socket = supervisor.cluster().endpoint(entry)?.path().map(Path::to_owned);
    let socket =
        socket.ok_or_else(|| Error::unsupported(format!("{} has no Unix socket", entry.name)))?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
    let load = Load::prepare(StockClient::new(socket), &names, Arc::clone(&clock)).await?;
    stage.limit_all().await?;

    note(&format!(
        "a stock gRPC client asks {} for {USUAL_RATE}, then {} requests a second; a target serves {DEVICE_RATE}, \
         simulated by {}",
        stage.home,
        plan.burst_rate,
        stage.device()
    ));
    let without = stage.phase(&load).await?;
    stage.start_tail(&cluster).await?;
    note("once more, with routing: the writes of an overloaded target go to other targets");
    let (with, Killed { names, routed_bytes }) = stage.phase_with_faults(&load).await?;
    let began = clock.monotonic();
    stage.until_home().await?;
    let home_after = clock.monotonic().saturating_sub(began);
    stage.stop_tail().await?;
    load.read_all().await?;
    let report = RouteReport {
        overloaded: stage.home.to_string(),
        limited_by: stage.device(),
        device_requests_per_second: DEVICE_RATE,
        burst_seconds: (plan.usual, without.burst_end),
        burst_end_with_routing: with.burst_end,
        without_routing: Second::all(&without.served),
        with_routing: Second::all(&with.served),
        killed: names.join(" and "),
        routed_bytes,
        home_after_seconds: home_after.as_secs_f64() + plan.after as f64,
        acknowledged_writes: load.writes(),
        verified_reads: load.verified(),
    };
    out.show(&report, || report.text())
}
