//! A storage target: an engine with the layers above it, or the reason why the target cannot serve.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::cache::NodeCache;
use crate::classes::ClassService;
use crate::device_limit::{DeviceLimitLayer, DeviceLimits};
use crate::io_path::{own_path, served_path, switched_path};
use crate::osd_targets::OsdTargets;
use crate::routes::{NodeSwitch, Onward, RoutedLocations};
use nacre::{ClusterFile, NodeEntry, TargetFolder};
use nacre_clock::Clock;
use nacre_embedded::{EmbeddedEngine, Options};
use nacre_object::{Error, ErrorKind, Result, Stack};
use nacre_placement::{PlacedTarget, Placement, Target};
use nacre_rados::{RadosEngine, RadosOptions};
use nacre_slo::{NodeSlo, OneTarget};
use nacre_wire::limits::REQUEST_DEADLINE;

use super::refused_target::RefusedTarget;
use super::slo::CompactionPace;

/// A gateway reports after this time that the Ceph cluster does not answer. Clients of the gateway
/// wait longer than this, so they get the report.
const OPERATION_TIMEOUT: Duration = Duration::from_secs(28);

const _: () = assert!(OPERATION_TIMEOUT.as_secs() < REQUEST_DEADLINE.as_secs());

/// A node's share of the objects, or its connection to the system that keeps them.
pub(super) struct StorageTarget {
    /// The engine that keeps objects in this process, if it does.
    pub embedded: Option<EmbeddedEngine>,
    /// The engine on Ceph, if a Ceph cluster stores the objects.
    pub rados: Option<RadosEngine>,
    /// Why the target does not serve from its folder; `None` if it serves. A target that does not
    /// serve has no engine.
    pub refusal: Option<Error>,
    /// The layer's state that orders requests before the engine, if there is an engine.
    pub slo: Option<Arc<NodeSlo>>,
    /// The switch that sends requests elsewhere, if the target serves.
    pub switch: Option<Arc<NodeSwitch>>,
    /// The caches of reads, if the target serves.
    pub caches: Option<Arc<NodeCache>>,
    /// The limits of the simulated devices, if the target serves.
    pub limits: Option<Arc<DeviceLimits>>,
    /// The layers for this process's own requests.
    own: Onward,
    target: Target,
}

impl StorageTarget {
    /// Opens the engine that the cluster's file names. If the folder belongs to another target or
    /// is damaged, the target has no engine and answers every request with the reason.
    ///
    /// # Errors
    /// `Unavailable` if the system that keeps the data does not answer; `Invalid` if the file names
    /// an unknown engine.
    pub async fn open(
        cluster: &ClusterFile,
        entry: &NodeEntry,
        classes: &ClassService,
        clock: &Arc<dyn Clock>,
    ) -> Result<Self> {
        let target = Target { name: entry.target()?, weight: entry.weight };
        let Some(engine) = cluster.engine() else {
            let folder = TargetFolder::of(cluster, entry);
            if let Some(refusal) = folder.refusal() {
                return Ok(Self::refused(target, refusal));
            }
            let data = cluster.data(entry);
            let slo = NodeSlo::ordered_by(
                OneTarget(target.name.clone()),
                Arc::clone(clock),
                Arc::new(classes.orders()),
            );
            let pace = Arc::new(CompactionPace::new(Arc::clone(&slo)));
            let options =
                Options { pace, ..Options::new(data.clone(), classes.host(), Arc::clone(clock)) };
            let engine = match EmbeddedEngine::open(options) {
                Ok(engine) => engine,
                Err(error) => {
                    return Ok(Self::refused(target, unopened(&entry.name, &data, &error)));
                }
            };
            folder.opened(cluster)?;
            let limits = DeviceLimits::new(OneTarget(target.name.clone()), Arc::clone(clock));
            let (device, limits) = limited(Stack::new(engine.clone()), limits);
            let caches = NodeCache::new(target.name.clone(), Arc::clone(&slo))?;
            let own = Onward {
                usual: own_path(device.clone(), classes, &slo, Some(&caches)),
                past_cache: own_path(device, classes, &slo, None),
            };
            let locations = RoutedLocations::of(cluster, entry)?;
            let routes = classes.routes();
            let switch =
                NodeSwitch::open(own.clone(), locations, routes, Arc::clone(clock)).await?;
            let (embedded, rados, refusal, slo) = (Some(engine), None, None, Some(slo));
            let (switch, caches) = (Some(Arc::new(switch)), Some(caches));
            return Ok(Self { embedded, rados, refusal, slo, switch, caches, limits, own, target });
        };
        let options = RadosOptions { operation_timeout: OPERATION_TIMEOUT, ..engine.parse()? };
        let engine = RadosEngine::connect(options, classes.host(), Arc::clone(clock)).await?;
        let osds = OsdTargets::new(engine.clone(), Arc::clone(clock));
        let orders = Arc::new(classes.orders());
        let slo = NodeSlo::ordered_by(osds.clone(), Arc::clone(clock), orders);
        let limits = DeviceLimits::new(osds.clone(), Arc::clone(clock));
        let (device, limits) = limited(Stack::new(engine.clone()), limits);
        let caches =
            NodeCache::of_gateway(target.name.clone(), Arc::clone(&slo), Arc::clone(clock))?;
        let own = Onward {
            usual: own_path(device.clone(), classes, &slo, Some(&caches)),
            past_cache: own_path(device, classes, &slo, None),
        };
        let locations = RoutedLocations::in_rados(entry, osds)?;
        let routes = classes.routes();
        let switch = NodeSwitch::open(own.clone(), locations, routes, Arc::clone(clock)).await?;
        let (embedded, rados, refusal, slo) = (None, Some(engine), None, Some(slo));
        let (switch, caches) = (Some(Arc::new(switch)), Some(caches));
        Ok(Self { embedded, rados, refusal, slo, switch, caches, limits, own, target })
    }

    fn refused(target: Target, refusal: Error) -> Self {
        let own = Onward::uncached(Stack::new(RefusedTarget::new(refusal.clone())));
        let (embedded, rados, refusal, slo) = (None, None, Some(refusal), None);
        let (switch, caches, limits) = (None, None, None);
        Self { embedded, rados, refusal, slo, switch, caches, limits, own, target }
    }

    /// The layers for other processes' requests to this node. Such requests reach only the objects
    /// that the node's target holds; on Ceph every node serves every object.
    pub fn served(&self, placement: &Placement) -> Stack {
        match self.rados {
            Some(_) => self.switched(self.own.clone()),
            None => {
                let served = |path| served_path(path, self.target.name.clone(), placement.clone());
                self.switched(self.own.clone().map(served))
            }
        }
    }

    /// This target, as a part for [`Cluster::assemble`](nacre::Cluster::assemble).
    pub fn placed(&self) -> PlacedTarget {
        let stack = self.switched(self.own.clone());
        PlacedTarget { target: self.target.clone(), stack }
    }

    fn switched(&self, onward: Onward) -> Stack {
        match (&self.switch, &self.slo) {
            (Some(switch), Some(slo)) => switched_path(onward, switch, slo),
            _ => onward.usual,
        }
    }
}

/// An engine behind simulated devices, and the limits of these devices.
fn limited(engine: Stack, limits: DeviceLimits) -> (Stack, Option<Arc<DeviceLimits>>) {
    let limits = Arc::new(limits);
    let device = engine.wrapped_by(|next| DeviceLimitLayer::new(next, Arc::clone(&limits)));
    (device, Some(limits))
}

/// The error of every request to a target if its folder cannot be opened. The node starts
/// nevertheless, because one damaged target must not stop the other targets.
fn unopened(name: &str, folder: &Path, error: &Error) -> Error {
    let folder = folder.display();
    let hint = match error.kind() {
        ErrorKind::Corrupt => format!(
            "stop the cluster; `nacre salvage {folder} --to NEW` then saves what can be read, and `nacre \
             scrub --offline {folder}` says what is damaged; or restore the folder from a copy"
        ),
        ErrorKind::Denied => {
            format!("let the user who runs the node read and write all of {folder}")
        }
        _ => error
            .hint_text()
            .unwrap_or("see to the disk; the other nodes serve meanwhile")
            .to_owned(),
    };
    let place = error.object().map(|place| format!("{place}: ")).unwrap_or_default();
    let reason = format!("its folder {folder} cannot be opened: {place}{}", error.message());
    Error::unavailable(format!("{name} does not serve: {reason}")).hint(hint)
}
