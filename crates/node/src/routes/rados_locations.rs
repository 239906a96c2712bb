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
//!
//! A copy for reads at `osd.N` is in an object `{M}copy:osd.N/POOL/NAME` in the same way. No pool has
//! a colon in its name, so no object with routed bytes has such a name.
//!
//! The state of `POOL/NAME` at a [snapshot](super::snapshots) `S` is kept in `kept:S/POOL/NAME`, and
//! `kept-notes:POOL/NAME` says under which names there is one. On which OSDs they are does not matter.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nacre_object::limits::MAX_OBJECT_NAME_BYTES;
use nacre_object::{
    Error, NodeName, ObjectId, ObjectName, PoolName, Result, SnapshotName, TargetName,
};
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
const COPY: &str = "copy:";
/// What the names of all objects begin with that belong to snapshots.
pub(super) const KEPT_NAMES: &str = "kept";
const KEPT_COPY: &str = "kept:";
const KEPT_NOTES: &str = "kept-notes:";
/// The object with the record of the rules that are in force.
const RECORD: &str = "record";

/// What an object of the pool keeps for snapshots.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum KeptIn {
    /// The state of an object under a name.
    Copy(SnapshotName, ObjectId),
    /// The notes of an object.
    Notes(ObjectId),
}

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
        let found = self.first_that(&home.to_string(), most, fits).await?;
        match (found, to) {
            (Some(object), _) => Ok(Some(Destination::Object(object))),
            (None, Destination::Target(osd)) => Err(serves_nothing(osd)),
            // The cluster has a single OSD.
            (None, _) => Ok(Some(Destination::Home)),
        }
    }

    /// The object with the name `{N}REST` and the smallest number whose primary OSD fits.
    async fn first_that(
        &self,
        rest: &str,
        most: u32,
        fits: impl Fn(&TargetName) -> bool,
    ) -> Result<Option<ObjectId>> {
        for number in 0..most {
            let name = ObjectName::new(format!("{{{number}}}{rest}"))?;
            let object = ObjectId::new(self.pool.clone(), name);
            if fits(&self.primary(&object).await?) {
                return Ok(Some(object));
            }
        }
        Ok(None)
    }

    /// Which object keeps the copy of the object `home` at an OSD.
    pub(super) async fn copy(&self, home: &ObjectId, osd: &TargetName) -> Result<RoutedLocation> {
        let most = if self.osds.serves_nothing(&self.pool, osd) { 0 } else { MAX_TRIES };
        let rest = format!("{COPY}{osd}/{home}");
        let found = self.first_that(&rest, most, |primary| primary == osd).await?;
        self.location(&found.ok_or_else(|| serves_nothing(osd))?)
    }

    /// The object and the OSD whose copy an object of the pool stores, if it stores one.
    pub(super) fn copied_in(&self, object: &ObjectId) -> Option<(ObjectId, TargetName)> {
        let (_, rest) = numbered(&object.name).filter(|_| object.pool == self.pool)?;
        let (osd, home) = rest.strip_prefix(COPY)?.split_once('/')?;
        Some((home.parse().ok()?, TargetName::new(osd).ok()?))
    }

    /// The object that keeps the state of an object under a name.
    pub(super) fn kept_copy(&self, object: &ObjectId, name: &SnapshotName) -> Result<ObjectId> {
        self.kept(object, format!("{KEPT_COPY}{name}/{object}"))
    }

    /// The object with the notes of another one.
    pub(super) fn kept_notes(&self, object: &ObjectId) -> Result<ObjectId> {
        self.kept(object, format!("{KEPT_NOTES}{object}"))
    }

    fn kept(&self, object: &ObjectId, name: String) -> Result<ObjectId> {
        let length = name.len();
        let name = ObjectName::new(name).map_err(|_| {
            Error::invalid("the name of the object is too long for a rule that keeps snapshots")
                .on(object)
                .hint(format!(
                    "choose a name that is shorter by {} bytes",
                    length.saturating_sub(MAX_OBJECT_NAME_BYTES)
                ))
        })?;
        Ok(ObjectId::new(self.pool.clone(), name))
    }

    /// What an object of the pool keeps for snapshots, if it keeps something.
    pub(super) fn kept_in(&self, object: &ObjectId) -> Option<KeptIn> {
        (object.pool == self.pool).then(|| kept_in(object.name.as_str())).flatten()
    }

    /// The place of an object of the pool. The gateway itself reaches it.
    fn location(&self, object: &ObjectId) -> Result<RoutedLocation> {
        let node = self.nodes.get(&self.own).cloned().ok_or_else(|| no_target(&self.own))?;
        Ok(RoutedLocation { object: object.clone(), node })
    }

    pub(super) fn place(&self, to: &Destination) -> Result<Option<RoutedLocation>> {
        match to {
            // A scattered read that did not go to a copy goes home. So does a read that bypasses the
            // cache.
            Destination::Home
            | Destination::Scatter(_)
            | Destination::Bypass(_)
            | Destination::Snapshots(_) => Ok(None),
            Destination::Object(object) => self.location(object).map(Some),
            other => Err(no_destination(other)),
        }
    }

    pub(super) fn destination(&self, object: &ObjectId) -> Option<Destination> {
        let is_named = object.name.as_str().starts_with(NAMED_OBJECTS);
        let is_numbered =
            || numbered(&object.name).is_some_and(|(_, home)| home.parse::<ObjectId>().is_ok());
        (is_named || is_numbered()).then(|| Destination::Object(object.clone()))
    }
}

fn kept_in(name: &str) -> Option<KeptIn> {
    if let Some(object) = name.strip_prefix(KEPT_NOTES) {
        return Some(KeptIn::Notes(object.parse().ok()?));
    }
    let (name, object) = name.strip_prefix(KEPT_COPY)?.split_once('/')?;
    Some(KeptIn::Copy(name.parse().ok()?, object.parse().ok()?))
}

/// The number of a chosen name, and the rest of it.
fn numbered(name: &ObjectName) -> Option<(u32, &str)> {
    let (number, rest) = name.as_str().strip_prefix('{')?.split_once('}')?;
    Some((number.parse().ok()?, rest))
}

fn serves_nothing(osd: &TargetName) -> Error {
    Error::unavailable(format!("a rule names {osd}, which serves no objects at present"))
        .hint("see `ceph osd tree`, and remove the rule if the OSD stays away: nacre route rm")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_kept_states_are_understood_and_others_are_not_taken_for_such() {
        let object: ObjectId = "data/a/b".parse().unwrap();
        let (monday, of) = ("monday".parse().unwrap(), object.clone());
        assert_eq!(kept_in(&format!("{KEPT_COPY}monday/{object}")), Some(KeptIn::Copy(monday, of)));
        assert_eq!(kept_in(&format!("{KEPT_NOTES}{object}")), Some(KeptIn::Notes(object)));
        for other in ["{0}data/a", "{3}copy:osd.1/data/a", "record", "named/kept", "kept", "kept:x"]
        {
            assert_eq!(kept_in(other), None, "{other}");
        }
        assert!([KEPT_COPY, KEPT_NOTES].iter().all(|kind| kind.starts_with(KEPT_NAMES)));
    }
}
