//! Handles rules that send IO to a waypoint: before an IO goes there, the waypoint must admit it.
//!
//! A waypoint may hold IO for long, so the IO is not in flight meanwhile. It keeps its position in
//! the queue of its object, and the switch can change its rules. Once the waypoint has admitted the
//! IO, the switch plans the IO again and sends it to the waypoint, which returns it as new IO from
//! its layer. This new IO belongs to the first one, which is in flight until the new one is done. So
//! the waypoint does not hold IO that comes from another waypoint.

use std::time::Duration;

use nacre_object::{Error, ObjectId, Op, Result};

use super::core::refuse;
use super::message::RefusedIo;
use super::waiting::Arrival;
use super::{Command, IoId, Switch, WaypointAsk};
use crate::limits::MAX_WAYPOINT_WAIT;
use crate::model::{Destination, LayerName, Operation, RuleId, Touch, touches};

/// How long after the waypoint itself the switch gives up an IO.
const GRACE: Duration = Duration::from_secs(2);

/// How far an IO is with the waypoints of its rules.
#[derive(Debug, Clone, Default)]
pub struct Admission {
    /// The waypoint that has to admit it, and when the IO fails.
    waits: Option<(LayerName, Duration)>,
    /// The waypoints that have admitted it.
    admitted: Vec<LayerName>,
}

impl Switch {
    /// The question to a waypoint, unless it has admitted the IO.
    pub(super) fn waypoint_ask(
        &self,
        arrival: &Arrival,
        rule: Option<RuleId>,
        destination: Option<&Destination>,
    ) -> Option<WaypointAsk> {
        let (Some(rule), Some(Destination::Waypoint(layer))) = (rule, destination) else {
            return None;
        };
        if arrival.via.is_some() || arrival.admission.admitted.contains(layer) {
            return None;
        }
        let all = touches(&arrival.request);
        let of = |operation: Operation| all.iter().find(|touch| touch.operation == operation);
        let touch = of(Operation::Write).or_else(|| of(Operation::Read)).copied()?;
        let bytes = arrival.request.ops.iter().map(|op| match op {
            Op::Read { length, .. } => *length,
            op => op.payload_bytes() as u64,
        });
        let (layer, io) = (layer.clone(), arrival.io_of(touch));
        Some(WaypointAsk { layer, rule, io, bytes: bytes.fold(0, u64::saturating_add) })
    }

    /// The waypoint to which rules send the reads and writes of a request that goes to its object
    /// regardless of other rules.
    ///
    /// # Errors
    /// `Unsupported` if rules send only some of the bytes there, or to different waypoints.
    pub(super) fn waypoint_of_whole(
        &self,
        arrival: &Arrival,
    ) -> Result<Option<(RuleId, LayerName)>> {
        // The runtime's own request that brings bytes home is a lone `stat`.
        if !self.has_waypoint_rules || matches!(arrival.request.ops.as_slice(), [Op::Stat]) {
            return Ok(None);
        }
        let mut found: Option<(RuleId, LayerName)> = None;
        let is_of_bytes = |touch: &Touch| {
            touch.span.is_some() && matches!(touch.operation, Operation::Read | Operation::Write)
        };
        for touch in touches(&arrival.request).into_iter().filter(is_of_bytes) {
            let segments = self.table.route(&arrival.io_of(touch))?;
            let waypoint = |rule: Option<RuleId>| match &self.table.get(rule?)?.destination {
                Destination::Waypoint(layer) => Some((rule?, layer.clone())),
                _ => None,
            };
            let first = segments.first().and_then(|segment| waypoint(segment.rule));
            let layer = |one: &Option<(RuleId, LayerName)>| one.as_ref().map(|(_, l)| l.clone());
            let is_split = segments.iter().any(|one| layer(&waypoint(one.rule)) != layer(&first));
            let is_other = found.is_some() && first.is_some() && layer(&found) != layer(&first);
            if is_split || is_other {
                return Err(Error::unsupported(
                    "rules send a part of this request through a waypoint, and the rest not",
                )
                .on(&arrival.request.header.object)
                .hint("send one request for each range of bytes"));
            }
            found = found.or(first);
        }
        Ok(found)
    }

    /// Holds an IO until a waypoint has admitted it.
    pub(super) fn ask_waypoint(
        &mut self,
        now: Duration,
        mut arrival: Arrival,
        ask: WaypointAsk,
    ) -> Vec<Command> {
        let (io, object) = (arrival.io, arrival.request.header.object.clone());
        match &arrival.admission.waits {
            Some((layer, until)) if *layer == ask.layer && now < *until => self.hold(arrival),
            Some((layer, _)) if *layer == ask.layer => {
                let text = format!("the waypoint {layer} has not let this IO go on in time");
                let error = Error::unavailable(text).on(&object);
                vec![refuse(io, error.hint("try again, and see the waypoint: nacre route status"))]
            }
            _ => {
                let until = now.saturating_add(MAX_WAYPOINT_WAIT).saturating_add(GRACE);
                arrival.admission.waits = Some((ask.layer.clone(), until));
                let mut commands = self.hold(arrival);
                if commands.is_empty() {
                    commands.push(Command::AskWaypoint { io, ask });
                }
                commands
            }
        }
    }

    /// Sends an IO to the waypoint that has admitted it, or refuses it.
    pub(super) fn waypoint_answered(
        &mut self,
        now: Duration,
        io: IoId,
        object: &ObjectId,
        layer: LayerName,
        answer: Result<(), RefusedIo>,
    ) -> Vec<Command> {
        let Some(arrival) = self.waiting.get_mut(object, io) else { return vec![] };
        let is_awaited =
            arrival.admission.waits.as_ref().is_some_and(|(awaited, _)| *awaited == layer);
        if !is_awaited {
            return vec![];
        }
        let mut commands = vec![];
        match answer {
            Ok(()) => {
                arrival.admission.waits = None;
                arrival.admission.admitted.push(layer);
            }
            Err(RefusedIo(error)) => {
                self.waiting.remove(object, io);
                commands.push(refuse(io, error.on(object)));
            }
        }
        commands.extend(self.release(now, object));
        commands
    }
}
