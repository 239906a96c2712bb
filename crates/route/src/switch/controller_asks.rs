//! Handles rules that send IO to the controller: the switch holds the IO until it has a rule that
//! says where the IO goes.
//!
//! The switch asks the controller once for each IO. The IO keeps its position in the queue of its
//! object, and is not in flight. So the switch can install the rules that the controller makes about
//! it. Then the switch plans the IO again by these rules.

use std::time::Duration;

use nacre_object::{Error, ObjectId, Op, Result};

use super::core::refuse;
use super::message::RefusedIo;
use super::waiting::{Arrival, AskedController};
use super::{Command, ControllerAsk, IoId, Switch};
use crate::limits::MAX_CONTROLLER_WAIT;
use crate::model::{Destination, Touch, touches};

impl Switch {
    /// The questions to the controller about an IO, one for each part of it that a rule sends there.
    pub(super) fn controller_asks(&self, arrival: &Arrival) -> Result<Vec<ControllerAsk>> {
        if !self.has_controller_rules {
            return Ok(vec![]);
        }
        let mut asks: Vec<ControllerAsk> = vec![];
        for touch in asking_touches(arrival) {
            for segment in self.table.route(&arrival.io_of(touch))? {
                let rule = segment.rule.and_then(|id| Some((id, self.table.get(id)?)));
                let Some((id, rule)) = rule else { continue };
                let Destination::Controller(ask) = rule.destination else { continue };
                let io = arrival.io_of(Touch { span: segment.span, ..touch });
                let application = rule.application.clone();
                let ask = ControllerAsk { application, rule: id, ask, io };
                if !asks.contains(&ask) {
                    asks.push(ask);
                }
            }
        }
        Ok(asks)
    }

    /// Holds an IO until the controller has made rules about it. Fails the IO if the controller has
    /// made none, or does not answer in time.
    pub(super) fn ask_controller(
        &mut self,
        now: Duration,
        arrival: Arrival,
        asks: Vec<ControllerAsk>,
    ) -> Vec<Command> {
        let (io, object) = (arrival.io, arrival.request.header.object.clone());
        let fail = |error: Error| vec![refuse(io, error.on(&object))];
        match arrival.controller {
            AskedController::No => {
                let until = now.saturating_add(MAX_CONTROLLER_WAIT);
                let controller = AskedController::Until(until);
                let mut commands = self.hold(Arrival { controller, ..arrival });
                if commands.is_empty() {
                    commands.push(Command::AskController { io, asks });
                }
                commands
            }
            AskedController::Until(until) if now < until => self.hold(arrival),
            AskedController::Until(_) => fail(
                Error::unavailable("a rule sends this IO to the controller, which does not answer")
                    .hint("try again, and see the controller: nacre route applications"),
            ),
            AskedController::Answered => {
                let name = asks.first().map_or(String::new(), |ask| ask.application.to_string());
                let text = format!(
                    "a rule of {name} sends this IO to the controller, and the program there has made no other rule for it"
                );
                fail(Error::unavailable(text).hint(
                    "see what the program told: nacre route applications; or stop it: nacre route stop APPLICATION",
                ))
            }
        }
    }

    /// Lets an IO go on by the rules that the switch has now.
    pub(super) fn controller_answered(
        &mut self,
        now: Duration,
        io: IoId,
        object: &ObjectId,
        answer: Result<(), RefusedIo>,
    ) -> Vec<Command> {
        let Some(arrival) = self.waiting.get_mut(object, io) else { return vec![] };
        let mut commands = vec![];
        match answer {
            Ok(()) => arrival.controller = AskedController::Answered,
            Err(RefusedIo(error)) => {
                self.waiting.remove(object, io);
                commands.push(refuse(io, error.on(object)));
            }
        }
        commands.extend(self.release(now, object));
        commands
    }
}

/// The parts of an IO about which rules may send it to the controller. A request that goes to its
/// object regardless of the rules waits for the controller too, but not the runtime's own one that
/// brings bytes home: a lone `stat`.
fn asking_touches(arrival: &Arrival) -> Vec<Touch> {
    match (arrival.homeward, arrival.request.ops.as_slice()) {
        (None, _) => arrival.touches.clone(),
        (Some(_), [Op::Stat]) => vec![],
        (Some(_), _) => touches(&arrival.request),
    }
}
