//! Requests that must not bypass a re-encoding waypoint, and the one that is repeated because it
//! needs its object for itself.

use std::sync::Arc;

use nacre_object::{Error, ErrorKind, ObjectId, Op, Reply, Request, Result, Stack};
use nacre_route::limits::MAX_WAYPOINTS_OF_AN_IO;
use nacre_route::{Destination, Io, LayerName, Operation, RuleTable, Span, Touch, touches};

use super::passing::Coder;
use crate::routes::NodeSwitch;

/// The operation in the error of [`needs_object`].
const ALONE: &str = "waypoint-alone";

/// The error of a write that must have its object for itself. The switch then runs it so.
pub(super) fn needs_object() -> Error {
    Error::conflict("this request must have the object for itself").during(ALONE).hint("try again")
}

pub(super) fn is_needs_object(error: &Error) -> bool {
    error.kind() == ErrorKind::Conflict && error.operation() == Some(ALONE)
}

/// Whether an op puts bytes into the stream of its object.
fn writes_bytes(op: &Op) -> bool {
    matches!(op, Op::Write { .. } | Op::WriteFull { .. } | Op::Append { .. })
}

/// The waypoints that a part of a request passes, in order; `None` if there are none.
fn waypoints_on_the_way(
    table: &RuleTable,
    request: &Request,
    touch: Touch,
) -> Option<Vec<LayerName>> {
    let mut passed: Vec<LayerName> = vec![];
    while passed.len() < MAX_WAYPOINTS_OF_AN_IO {
        let io = Io::of(&request.header, passed.last().cloned(), None, touch);
        let segments = table.route(&io).ok()?;
        let next =
            segments.iter().find_map(|segment| match &table.get(segment.rule?)?.destination {
                Destination::Waypoint(layer) => Some(layer.clone()),
                _ => None,
            });
        match next {
            Some(layer) => passed.push(layer),
            None => break,
        }
    }
    (!passed.is_empty()).then_some(passed)
}

impl NodeSwitch {
    /// Runs a single write while waypoints are used. If a waypoint must fill a gap before it, nothing
    /// else may happen to the object meanwhile.
    pub(in crate::routes) async fn write(
        self: &Arc<Self>,
        next: Stack,
        request: Request,
    ) -> Result<Reply> {
        match self.run(next.clone(), request.clone(), None).await {
            Err(error) if is_needs_object(&error) => {
                self.run(next, request, Some(Span::WHOLE)).await
            }
            ended => ended,
        }
    }

    /// A waypoint on the way of an object's IO that re-encodes, or that may do so because it is not live
    /// yet.
    pub(in crate::routes) fn encoding_waypoint(&self, object: &ObjectId) -> Option<LayerName> {
        let waypoints = self.programs().waypoints();
        let encodes = |name: &str| waypoints.kind(name).is_none_or(|kind| kind.encodes);
        self.waypoints_of(object).into_iter().find(|layer| encodes(layer.as_str()))
    }

    /// Refuses a request on an object of which a rule keeps snapshots and which another rule sends
    /// through a re-encoding waypoint. A read at a kept snapshot could not be decoded.
    ///
    /// # Errors
    /// `Unsupported`.
    pub(in crate::routes) fn check_kept_as_stored(&self, request: &Request) -> Result<()> {
        let object = &request.header.object;
        match self.encoding_waypoint(object) {
            None => Ok(()),
            Some(layer) => Err(Error::unsupported(format!(
                "a rule keeps snapshots of this object, and another sends it through the waypoint {layer}, which re-encodes it"
            ))
            .on(object)
            .hint("remove one of the two rules: nacre route rm APPLICATION")),
        }
    }

    /// Refuses to collect the parts of a large put beside an object that passes a re-encoding
    /// waypoint: the object would take over bytes that are not encoded. The client then writes the
    /// parts into the object itself.
    ///
    /// # Errors
    /// `Unsupported`.
    pub(in crate::routes) fn check_staging(&self, request: &Request) -> Result<()> {
        let staging = &request.header.object;
        let Some(name) = nacre::staged_object(&staging.name) else { return Ok(()) };
        if !request.ops.iter().any(writes_bytes) {
            return Ok(());
        }
        let Ok(name) = name.parse() else { return Ok(()) };
        let object = ObjectId::new(staging.pool.clone(), name);
        match self.encoding_waypoint(&object) {
            None => Ok(()),
            Some(layer) => Err(Error::unsupported(format!(
                "a rule sends {object} through the waypoint {layer}, which does not see the parts of this put"
            ))
            .on(staging)
            .hint("write the parts into the object itself, one after the other")),
        }
    }

    /// The re-encoding waypoint that reads of a request pass.
    pub(super) async fn coder_of_reads(&self, request: &Request) -> Result<Option<Coder>> {
        let layers = {
            let core = self.core();
            let reads = touches(request).into_iter();
            let mut reads = reads.filter(|touch| touch.operation == Operation::Read);
            reads.find_map(|touch| waypoints_on_the_way(core.table(), request, touch))
        };
        for layer in layers.unwrap_or_default() {
            let program = self.programs().waypoints().until_live(&layer).await?;
            if program.kind().encodes {
                return Coder::of(&layer, program).map(Some);
            }
        }
        Ok(None)
    }
}
