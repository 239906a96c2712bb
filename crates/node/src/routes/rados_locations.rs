//! `RadosLocations`: where a gateway to Ceph stores routed bytes.
//!
//! RADOS computes the OSDs of an object from the object's name. So the gateway chooses the name of
//! the object that keeps routed bytes: `{N}POOL/NAME` with the smallest number `N` for which the
//! object's primary OSD fits the destination.
//!
//! | destination | the primary OSD of the object that keeps the bytes |
//! | --- | --- |
//! | `target osd.N` | that OSD |
//! | `pool nacre.routed` | any but the primary OSD of the object that the client named |
//! | `object nacre.routed/named/X` | that of `named/X` |
//!
//! The primary OSD of a name changes when OSDs come and go. So the switch notes the chosen object,
//! not the destination of the rule: it always finds bytes that were written before such a change.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nacre_object::{Error, NodeName, ObjectId, ObjectName, PoolName, Result, TargetName};
use nacre_route::{Destination, NAMED_OBJECTS};
use nacre_slo::{Located, TargetOf};

use super::routed_locations::{RoutedLocation, no_destination, no_target};
use crate::osd_targets::OsdTargets;

/// How many names are tried at most. If an OSD is the primary of one in a thousand placement
/// groups, the probability that none of these names leads there is 10^-7.
const MAX_TRIES: u32 = 16_384;
/// How many names are tried for an OSD that is not the home. Even if one OSD is the primary of nine
/// in ten placement groups, the probability that all names lead there is 10^-12.
const MAX_TRIES_FOR_ANOTHER: u32 = 256;
/// The object with the record of the rules that are in force.
const RECORD: &str = "record";

/// Computes which object keeps routed bytes in RADOS.
#[derive(Debug)]
pub(super) struct RadosLocations {
    own: TargetName,
    nodes: BTreeMap<TargetName, NodeName>,
    pool: PoolName,
    osds: OsdTargets,
    /// Whether a task asks for a primary OSD that was not known.
    is_asking: Arc<AtomicBool>,
}

impl RadosLocations {
    pub(super) fn new(own: TargetName, node: NodeName, pool: PoolName, osds: OsdTargets) -> Self {
        let nodes = [(own.clone(), node)].into();
        Self { own, nodes, pool, osds, is_asking: Arc::default() }
    }

    pub(super) fn own(&self) -> &TargetName {
        &self.own
    }

    pub(super) fn nodes(&self) -> &BTreeMap<TargetName, NodeName> {
        &self.nodes
    }

    pub(super) fn record(&self) -> Result<ObjectId> {
        Ok(ObjectId::new(self.pool.clone(), ObjectName::new(RECORD)?))
    }

    pub(super) async fn targets(&self) -> Result<Vec<TargetName>> {
        self.osds.osds().await
    }

    /// The primary OSD of an object, if it is known without asking. If not, a task asks for it, so
    /// that it is known for later requests: one task at a time, because each asks the monitors.
    pub(super) fn known_primary(&self, object: &ObjectId) -> Option<TargetName> {
        let asked = match self.osds.target_of(object) {
            Located::At(target) => return Some(target),
            Located::Ask(asked) => asked,
        };
        if !self.is_asking.swap(true, Ordering::Relaxed) {
            let is_asking = Arc::clone(&self.is_asking);
            tokio::spawn(async move {
                // If Ceph does not answer, a later request asks again.
                let _ = asked.await;
                is_asking.store(false, Ordering::Relaxed);
            });
        }
        None
    }

    /// The primary OSD of an object.
    ///
    /// # Errors
    /// `Unavailable` if Ceph does not answer.
    pub(super) async fn primary(&self, object: &ObjectId) -> Result<TargetName> {
        match self.osds.target_of(object) {
            Located::At(target) => Ok(target),
            Located::Ask(asked) => asked.await,
        }
    }

    pub(super) async fn choose(
        &self,
        home: &ObjectId,
        to: &Destination,
    ) -> Result<Option<Destination>> {
        let primary = match to {
            Destination::Target(_) | Destination::Pool(_) => self.primary(home).await?,
            _ => return Ok(None),
        };
        let fits = |osd: &TargetName| match to {
            Destination::Target(target) => osd == target,
            _ => *osd != primary,
        };
        let most = match to {
            Destination::Target(_) if fits(&primary) => return Ok(Some(Destination::Home)),
            Destination::Target(osd) if self.osds.serves_nothing(&self.pool, osd) => 0,
            Destination::Target(_) => MAX_TRIES,
            _ => MAX_TRIES_FOR_ANOTHER,
        };
        for number in 0..most {
            let object = self.numbered(home, number)?;
            if fits(&self.primary(&object).await?) {
                return Ok(Some(Destination::Object(object)));
            }
        }
        match to {
            Destination::Target(osd) => Err(Error::unavailable(format!(
                "a rule sends these bytes to {osd}, which serves no objects at present"
            ))
            .hint(
                "see `ceph osd tree`, and remove the rule if the OSD stays away: nacre route rm",
            )),
            // The cluster has a single OSD.
            _ => Ok(Some(Destination::Home)),
        }
    }

    fn numbered(&self, home: &ObjectId, number: u32) -> Result<ObjectId> {
        let name = ObjectName::new(format!("{{{number}}}{home}"))?;
        Ok(ObjectId::new(self.pool.clone(), name))
    }

    pub(super) fn place(&self, to: &Destination) -> Result<Option<RoutedLocation>> {
        let location = |object: &ObjectId| {
            let node = self.nodes.get(&self.own).cloned().ok_or_else(|| no_target(&self.own))?;
            Ok(RoutedLocation { object: object.clone(), node })
        };
        match to {
            Destination::Home | Destination::Scatter(_) => Ok(None),
            Destination::Object(object) => location(object).map(Some),
            other => Err(no_destination(other)),
        }
    }

    pub(super) fn destination(&self, object: &ObjectId) -> Option<Destination> {
        let name = object.name.as_str();
        let is_numbered = || {
            let (number, home) = name.strip_prefix('{')?.split_once('}')?;
            number.parse::<u32>().ok()?;
            home.parse::<ObjectId>().ok()
        };
        let is_its = name.starts_with(NAMED_OBJECTS) || is_numbered().is_some();
        is_its.then(|| Destination::Object(object.clone()))
    }
}
