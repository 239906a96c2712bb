//! The controllers of the simulated world: they take over, change the rules, and do what their cores
//! command.

use nacre_route::{Controller, ControllerCommand, ControllerEvent, Stored};

use super::flows::name;
use super::world::{World, party};
use super::{Answer, Ask, Party};

/// The controller in charge changes the rules at one of this many of its wake-ups.
const UPDATE_ONE_IN: u64 = 12;
/// A controller that is not in charge takes over at one of this many of its wake-ups.
const TAKE_OVER_ONE_IN: u64 = 60;

impl World {
    pub(super) fn controller_woken(&mut self, at: usize) {
        let nobody = self.controllers.iter().all(Option::is_none);
        let Some(controller) = &mut self.controllers[at] else {
            if nobody || self.random.one_in(TAKE_OVER_ONE_IN) {
                let (controller, commands) = Controller::new();
                self.controllers[at] = Some(controller);
                self.control(at, commands);
            }
            return;
        };
        let mut commands = controller.handle(ControllerEvent::Tick);
        if self.random.one_in(UPDATE_ONE_IN) {
            let wanted = self.flow.next(controller.record(), &mut self.random);
            commands.extend(controller.begin(wanted).unwrap_or_default());
        }
        self.control(at, commands);
    }

    pub(super) fn controller_hears(&mut self, at: usize, to: Party, ask: Ask, answer: Answer) {
        let event = match (ask, answer) {
            (Ask::Load, Answer::Loaded(record)) => ControllerEvent::Loaded(record),
            (Ask::Keep { record, .. }, Answer::Kept(is_kept)) => {
                let outcome = if is_kept { Stored::Yes } else { Stored::Refused };
                ControllerEvent::Stored { term: record.term, outcome }
            }
            (Ask::Order { term, order }, Answer::Order(answer)) => {
                let Party::Switch(switch) = to else { panic!("orders go to switches") };
                ControllerEvent::Answered { term, switch: name(switch), order, answer }
            }
            (Ask::Gather { .. }, Answer::Gathered(placed)) => {
                let Some(controller) = &self.controllers[at] else { return };
                let term = controller.record().term;
                ControllerEvent::Gathered { term, placed }
            }
            _ => return,
        };
        self.tell_controller(at, event);
    }

    pub(super) fn tell_controller(&mut self, at: usize, event: ControllerEvent) {
        let Some(controller) = &mut self.controllers[at] else { return };
        let commands = controller.handle(event);
        self.control(at, commands);
    }

    fn control(&mut self, at: usize, commands: Vec<ControllerCommand>) {
        let from = Party::Controller(at);
        for command in commands {
            match command {
                ControllerCommand::Load => drop(self.send(from, Party::Store, Ask::Load)),
                ControllerCommand::Store { expected, record } => {
                    self.send(from, Party::Store, Ask::Keep { expected, record });
                }
                ControllerCommand::Order { switch, term, order } => {
                    self.send(from, party(&switch), Ask::Order { term, order });
                }
                ControllerCommand::Gather { moves, followed, .. } => {
                    self.send(from, Party::Store, Ask::Gather { moves, followed });
                }
                ControllerCommand::Updated(_) => self.told.note("rules updated"),
                ControllerCommand::Deposed => {
                    self.told.note("controller deposed");
                    self.controllers[at] = None;
                }
            }
        }
    }
}
