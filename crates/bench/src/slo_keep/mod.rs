//! `slo-keep`: whether tenants get the latency that they were promised while another tenant sends
//! far more than it asked for.
//!
//! Three tenants are promised the latencies of the thesis, scaled to this machine's speed. Two of
//! them send what they asked for; the third writes as hard as it can. The bench compares several
//! ways to serve this load, its *sides*. It measures them in turns:
//!
//! - promises are enforced;
//! - nothing is enforced: nodes pass requests on as they come;
//! - on Ceph also without nacre, with each of the two queues that an OSD can have.
//!
//! The targets have slow disks of their own ([`SlowTargets`]), and rounds with much stolen time do
//! not count ([`quiet_rounds`]).

mod figures;
mod load;
mod quiet_rounds;
mod tally;
mod tenants;

use std::time::Duration;

use nacre_clock::{Clock, SystemClock};
use nacre_object::{PoolName, Result};
use nacre_rados::PlainClient;
use nacre_terminal::out::note;

use self::figures::Measured;
use self::load::{WriteTarget, WriteTargets, play};
use self::quiet_rounds::{QuietRounds, quiet_rounds};
use self::tenants::{Promises, TENANTS};
use crate::bench::Setup;
use crate::figure::Figure;
use crate::load::in_turn;
use crate::slow_targets::{OpQueue, OwnCeph, SlowTargets, objects};

/// How many objects each tenant has on each target, in the order of [`TENANTS`].
const OBJECTS: [usize; TENANTS.len()] = [4, 4, 16];
/// The RADOS namespace of the objects that are written without nacre.
const STOCK: &str = "stock";
/// How long restarted OSDs may take until they serve.
const READY_PATIENCE: Duration = Duration::from_secs(60);
/// The pause between two tries to write to restarted OSDs.
const READY_PAUSE: Duration = Duration::from_millis(200);

/// A way of serving the tenants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    /// nacre serves them, and enforces promises.
    Enforced,
    /// nacre serves them, and enforces nothing.
    Unenforced,
    /// Ceph serves them without nacre.
    Stock(OpQueue),
}

impl Side {
    const EMBEDDED: [Self; 2] = [Self::Enforced, Self::Unenforced];
    /// Sides with the same queue in the OSDs are neighbours, because a change of the queue needs a
    /// restart of the OSDs.
    const ON_CEPH: [Self; 4] =
        [Self::Enforced, Self::Unenforced, Self::Stock(OpQueue::Wpq), Self::Stock(OpQueue::Mclock)];

    fn name(self) -> &'static str {
        match self {
            Self::Enforced => "promises enforced",
            Self::Unenforced => "not enforced",
            Self::Stock(OpQueue::Wpq) => "stock Ceph, wpq",
            Self::Stock(OpQueue::Mclock) => "stock Ceph, mclock_scheduler",
        }
    }

    /// The queue of operations in the OSDs on this side. On nacre's sides it is `wpq`.
    fn op_queue(self) -> OpQueue {
        match self {
            Self::Stock(queue) => queue,
            Self::Enforced | Self::Unenforced => OpQueue::Wpq,
        }
    }
}

pub(crate) async fn run(setup: &Setup, report: &mut dyn FnMut(Figure)) -> Result<()> {
    let bed = Bed::new(SlowTargets::start(setup).await?).await?;
    let measured = bed.measure(setup, &Side::EMBEDDED).await?;
    bed.slow.stop().await;
    measured.report("slo-keep", report);
    Ok(())
}

/// Runs the same measurement on a separate Ceph cluster, and restarts its OSDs with other settings.
pub(crate) async fn run_on_ceph(setup: &Setup, report: &mut dyn FnMut(Figure)) -> Result<()> {
    let bed = Bed::new(SlowTargets::start_on_ceph(setup).await?).await?;
    let measured = bed.measure(setup, &Side::ON_CEPH).await?;
    bed.slow.stop().await;
    measured.report("slo-keep on Ceph", report);
    Ok(())
}

/// A running cluster with admitted tenants, on which the bench measures.
struct Bed {
    slow: SlowTargets,
    promises: Promises,
    /// The objects that the tenants write through nacre.
    places: WriteTargets,
    /// On Ceph, the objects that the tenants write without nacre.
    stock: Option<WriteTargets>,
}

impl Bed {
    /// Admits the tenants.
    async fn new(slow: SlowTargets) -> Result<Self> {
        let promises = Promises::make(&slow.client, &slow.profiles).await?;
        tell(&promises);
        let mut places = WriteTargets::default();
        for ((tenant, of_each), places) in TENANTS.iter().zip(OBJECTS).zip(&mut places) {
            // Each tenant has sessions of its own, so tenants do not wait for one another before
            // their requests reach a node.
            let own = slow.cluster.client().await?;
            for object in objects(&slow.targets, tenant.name, tenant.name, of_each).await? {
                places.push(WriteTarget::Nacre(own.object(&object).await?));
            }
        }
        let stock = match &slow.ceph {
            None => None,
            Some(ceph) => Some(stock_places(&slow, ceph).await?),
        };
        Ok(Self { slow, promises, places, stock })
    }

    /// Measures all sides, in turns, until there are enough rounds with little stolen time.
    async fn measure(&self, setup: &Setup, sides: &[Side]) -> Result<Measured> {
        let QuietRounds { kept, discarded } = quiet_rounds(setup.rounds, async |round| {
            let mut tallies = vec![];
            for side in in_turn(round, sides.to_vec()) {
                note(&format!("round {}: {}", round + 1, side.name()));
                let places = self.turn_to(side).await?;
                tallies.push((side, play(places, self.promises.rates, setup.span).await?));
            }
            Ok(tallies)
        })
        .await?;
        let mut measured = Measured::new(self.promises, sides, discarded);
        kept.into_iter().for_each(|tallies| measured.add(tallies));
        Ok(measured)
    }

    /// Makes the cluster serve as on this side. Returns the objects that the tenants write there.
    async fn turn_to(&self, side: Side) -> Result<&WriteTargets> {
        self.slow.client.slos().enforce(side == Side::Enforced).await?;
        let Some((ceph, stock)) = self.slow.ceph.as_ref().zip(self.stock.as_ref()) else {
            return Ok(&self.places);
        };
        if tokio::task::block_in_place(|| ceph.queue_as(side.op_queue()))? {
            wait_until_ready(stock).await?;
            wait_until_ready(&self.places).await?;
        }
        match side {
            Side::Stock(_) => Ok(stock),
            Side::Enforced | Side::Unenforced => Ok(&self.places),
        }
    }
}

/// The objects on Ceph that the tenants write without nacre.
async fn stock_places(slow: &SlowTargets, ceph: &OwnCeph) -> Result<WriteTargets> {
    // A pool of nacre is a RADOS namespace, in which objects have the same names as in nacre. So
    // with a pool of this name, nacre can tell which OSD serves an object that is written without
    // nacre.
    slow.client.create_pool(&PoolName::new(STOCK)?).await?;
    let mut places = WriteTargets::default();
    for ((tenant, of_each), places) in TENANTS.iter().zip(OBJECTS).zip(&mut places) {
        let own = PlainClient::connect(ceph.options(), STOCK).await?;
        let objects = objects(&slow.targets, STOCK, tenant.name, of_each).await?;
        let names = objects.into_iter().map(|object| object.name.to_string());
        places.extend(names.map(|name| WriteTarget::Rados(own.clone(), name)));
    }
    Ok(places)
}

fn tell(promises: &Promises) {
    let told = TENANTS.iter().zip(promises.rates).map(|(tenant, rate)| {
        let millis = promises.slo_seconds(tenant) * 1e3;
        format!(
            "{}: {millis:.0} ms for {rate:.0} writes of {} B a second",
            tenant.name, tenant.bytes
        )
    });
    note(&format!(
        "admitted; all SLOs are {:.2} times those of the thesis: {}",
        promises.scale,
        told.collect::<Vec<_>>().join("; ")
    ));
}

/// Waits until every object can be written.
async fn wait_until_ready(places: &WriteTargets) -> Result<()> {
    let clock = SystemClock::default();
    let deadline = clock.monotonic() + READY_PATIENCE;
    for place in places.iter().flatten() {
        while let Err(error) = place.write(bytes::Bytes::from_static(b"ready")).await {
            if clock.monotonic() >= deadline {
                return Err(error);
            }
            tokio::time::sleep(READY_PAUSE).await;
        }
    }
    Ok(())
}
