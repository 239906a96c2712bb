//! `Controller`: a state machine that takes events and returns commands.

use std::collections::BTreeSet;

use nacre_object::{Error, Result};

use super::{Followed, Move, Record, Wanted};
use crate::limits::MAX_SWITCHES;
use crate::model::{Header, ObjectMatch, Operations, SourceMatch, Span, SwitchName};
use crate::switch::{Order, OrderAnswer, Placed, SwitchRules, Term};

/// The result of storing a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stored {
    /// The record is stored durably.
    Yes,
    /// Another record is stored, so there is another controller.
    Refused,
}

/// An event that the runtime passes to the controller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ControllerEvent {
    /// The stored record was read. The first record is empty.
    Loaded(Record),
    /// Storing a record has succeeded or was refused.
    Stored {
        /// The term of the record.
        term: Term,
        /// The result.
        outcome: Stored,
    },
    /// A switch has answered an order.
    Answered {
        /// The term of the order.
        term: Term,
        /// The switch.
        switch: SwitchName,
        /// The order.
        order: Order,
        /// The answer.
        answer: OrderAnswer,
    },
    /// The runtime has moved bytes and located the newest bytes with [`super::newest`].
    Gathered {
        /// The term of the update.
        term: Term,
        /// Where the newest bytes of objects are.
        placed: Vec<Placed>,
    },
    /// A switch has started and has no rules.
    Joined(SwitchName),
    /// Time has passed. The controller repeats what has not been answered yet.
    Tick,
}

/// What the runtime must do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ControllerCommand {
    /// Read the stored record.
    Load,
    /// Store a record if the stored record has the term `expected` (compare and swap).
    Store {
        /// The term of the record to replace.
        expected: Term,
        /// The record.
        record: Record,
    },
    /// Give a switch an order.
    Order {
        /// The switch.
        switch: SwitchName,
        /// The term of the update.
        term: Term,
        /// The order.
        order: Order,
    },
    /// Move bytes. Then locate the newest bytes of the objects that may be away from home.
    Gather {
        /// The term of the update.
        term: Term,
        /// The bytes to move.
        moves: Vec<Move>,
        /// The objects that may be away from home, with the possible destinations.
        followed: Vec<Followed>,
    },
    /// All switches have the rules of this term.
    Updated(Term),
    /// Stop this controller: another one is in charge.
    Deposed,
}

/// A step of an update.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    Loading,
    Idle,
    Storing,
    Quiescing,
    Draining,
    Gathering,
    Installing(Vec<Placed>),
    Resuming,
    Deposed,
}

/// Changes the rules of switches, one update at a time.
#[derive(Debug)]
pub struct Controller {
    /// The record that is stored or being stored.
    record: Record,
    /// The term of the record that `record` replaces.
    before: Term,
    /// The IO that the update concerns.
    concerned: Vec<Header>,
    step: Step,
    /// The switches that have not completed the step yet.
    missing: BTreeSet<SwitchName>,
    /// Whether a switch has restarted since this update began.
    has_joined: bool,
}

impl Controller {
    /// Starts a controller. Also returns the first commands.
    pub fn new() -> (Self, Vec<ControllerCommand>) {
        let controller = Self {
            record: Record::default(),
            before: Term::default(),
            concerned: vec![],
            step: Step::Loading,
            missing: BTreeSet::new(),
            has_joined: false,
        };
        (controller, vec![ControllerCommand::Load])
    }

    /// The record that is stored or being stored.
    pub fn record(&self) -> &Record {
        &self.record
    }

    /// Begins an update.
    ///
    /// # Errors
    /// `Conflict` while another update is running; `Unavailable` if this controller is not in
    /// charge; `Exhausted` if there are more than [`MAX_SWITCHES`] switches, or if the rules do not
    /// fit into a switch.
    pub fn begin(&mut self, wanted: Wanted) -> Result<Vec<ControllerCommand>> {
        match self.step {
            Step::Idle => {}
            Step::Loading | Step::Deposed => {
                return Err(
                    Error::unavailable("this controller is not in charge").hint("try again")
                );
            }
            _ => {
                return Err(Error::conflict("another update is running").hint("try again later"));
            }
        }
        if wanted.rules.len() > MAX_SWITCHES {
            return Err(Error::exhausted(format!(
                "an update changes more than {MAX_SWITCHES} switches"
            ))
            .hint("change fewer switches in one update"));
        }
        let next = self.record.next(wanted)?;
        self.concerned = self.record.concerned(&next);
        Ok(self.store(next))
    }

    /// Processes an event, and returns the resulting commands. A late or repeated event does no
    /// harm.
    pub fn handle(&mut self, event: ControllerEvent) -> Vec<ControllerCommand> {
        match event {
            ControllerEvent::Loaded(record) => match self.step {
                Step::Loading => {
                    self.record = record;
                    self.start_over()
                }
                _ => vec![],
            },
            ControllerEvent::Stored { term, outcome } => self.stored(term, outcome),
            ControllerEvent::Answered { term, switch, order, answer } => {
                self.answered(term, &switch, &order, answer)
            }
            ControllerEvent::Gathered { term, placed } => {
                match term == self.record.term && self.step == Step::Gathering {
                    true => self.enter(Step::Installing(placed)),
                    false => vec![],
                }
            }
            ControllerEvent::Joined(switch) => self.joined(&switch),
            ControllerEvent::Tick => self.act(),
        }
    }

    /// Installs the stored rules again while the switches hold all new IO. An earlier controller
    /// may have stopped at any step, and a restarted switch does not know where its IO went. So the
    /// newest bytes must be located again.
    fn start_over(&mut self) -> Vec<ControllerCommand> {
        self.has_joined = false;
        self.concerned = vec![Header {
            source: SourceMatch::Any,
            operations: Operations::ALL,
            object: ObjectMatch::all(),
            span: Span::WHOLE,
            home: None,
        }];
        self.store(self.record.again())
    }

    fn store(&mut self, record: Record) -> Vec<ControllerCommand> {
        self.before = std::mem::replace(&mut self.record, record).term;
        self.enter(Step::Storing)
    }

    /// Begins a step, and returns its commands.
    fn enter(&mut self, step: Step) -> Vec<ControllerCommand> {
        self.step = step;
        self.missing = self.record.wanted.rules.keys().cloned().collect();
        if self.missing.is_empty() && self.order_for_all() {
            return self.step_done();
        }
        self.act()
    }

    /// Whether the step consists of one order to each switch.
    fn order_for_all(&self) -> bool {
        matches!(self.step, Step::Quiescing | Step::Draining | Step::Installing(_) | Step::Resuming)
    }

    /// Returns the commands of the present step, also when it is repeated.
    fn act(&self) -> Vec<ControllerCommand> {
        let term = self.record.term;
        match &self.step {
            Step::Loading => vec![ControllerCommand::Load],
            Step::Idle => vec![],
            Step::Deposed => vec![ControllerCommand::Deposed],
            Step::Storing => vec![ControllerCommand::Store {
                expected: self.before,
                record: self.record.clone(),
            }],
            Step::Gathering => vec![ControllerCommand::Gather {
                term,
                moves: self.record.wanted.moves.clone(),
                followed: self.record.followed.clone(),
            }],
            _ => {
                let order = |switch: &SwitchName| ControllerCommand::Order {
                    switch: switch.clone(),
                    term,
                    order: self.order_of(switch),
                };
                self.missing.iter().map(order).collect()
            }
        }
    }

    fn order_of(&self, switch: &SwitchName) -> Order {
        match &self.step {
            Step::Quiescing => Order::Quiesce(self.concerned.clone()),
            Step::Draining => Order::Drain,
            Step::Installing(placed) => {
                let rules = &self.record.wanted.rules;
                let others = rules.keys().filter(|other| *other != switch);
                Order::Install(SwitchRules {
                    insertions: rules.get(switch).cloned().unwrap_or_default(),
                    programs: self.record.wanted.programs.clone(),
                    placed: placed.clone(),
                    peers: others.cloned().collect(),
                })
            }
            _ => Order::Resume,
        }
    }

    fn stored(&mut self, term: Term, outcome: Stored) -> Vec<ControllerCommand> {
        if self.step != Step::Storing || term != self.record.term {
            return vec![];
        }
        match outcome {
            Stored::Yes => self.enter(Step::Quiescing),
            Stored::Refused => self.enter(Step::Deposed),
        }
    }

    fn answered(
        &mut self,
        term: Term,
        switch: &SwitchName,
        order: &Order,
        answer: OrderAnswer,
    ) -> Vec<ControllerCommand> {
        if term != self.record.term || self.step == Step::Deposed {
            return vec![];
        }
        let is_of_step = matches!(
            (&self.step, order),
            (Step::Quiescing, Order::Quiesce(_))
                | (Step::Draining, Order::Drain)
                | (Step::Installing(_), Order::Install(_))
                | (Step::Resuming, Order::Resume)
        );
        match answer {
            OrderAnswer::Stale(_) => self.enter(Step::Deposed),
            OrderAnswer::NotInstalled if is_of_step => self.start_over(),
            OrderAnswer::Done if is_of_step && self.missing.remove(switch) => {
                match self.missing.is_empty() {
                    true => self.step_done(),
                    false => vec![],
                }
            }
            _ => vec![],
        }
    }

    fn step_done(&mut self) -> Vec<ControllerCommand> {
        let next = match self.step {
            Step::Quiescing => Step::Draining,
            Step::Draining => Step::Gathering,
            Step::Installing(_) => Step::Resuming,
            _ => {
                self.step = Step::Idle;
                let mut commands = vec![ControllerCommand::Updated(self.record.term)];
                if self.has_joined {
                    commands.extend(self.start_over());
                }
                return commands;
            }
        };
        self.enter(next)
    }

    fn joined(&mut self, switch: &SwitchName) -> Vec<ControllerCommand> {
        if !self.record.wanted.rules.contains_key(switch) {
            return vec![];
        }
        match self.step {
            Step::Idle => self.start_over(),
            // The switch has restarted and lost the new rules, so the controller installs them
            // again after this update. If the update has not reached this step, it will install the
            // rules itself.
            Step::Resuming => {
                self.has_joined = true;
                vec![]
            }
            _ => vec![],
        }
    }
}
