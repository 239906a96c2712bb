//! A node that hosts the log's sequencer, recovers it and lays the log out anew now and then.

use std::collections::BTreeMap;

use nacre_log::core::{RecoveryCommand, RecoveryCore, RecoveryEvent, SequencerCore, TokenRefusal};
use nacre_log::view::{Place, View};

use super::{Answer, Ask, Placement, node};

const ESPIPE: i32 = -29;
/// After so many positions a sequencer opens a new range at its tail.
const TOKENS_PER_RANGE: u64 = 30;

pub struct Host {
    n: usize,
    pub is_alive: bool,
    /// Tells answers to what it asked before it died from answers to what it asks now.
    next_id: u64,
    first_id_of_this_life: u64,
    known: View,
    serving: Option<SequencerCore>,
    recovery: Option<RecoveryCore>,
    /// Which place each question of the recovery is about.
    places: BTreeMap<u64, Place>,
    /// A cut that is being proposed: its question, and the objects still to be sealed.
    cut: Option<Cut>,
}

struct Cut {
    draft: View,
    unsealed: usize,
    proposed: Option<View>,
}

impl Host {
    pub fn new(n: usize, known: View) -> Self {
        Self {
            n,
            is_alive: true,
            next_id: 0,
            first_id_of_this_life: 0,
            known,
            serving: None,
            recovery: None,
            places: BTreeMap::new(),
            cut: None,
        }
    }

    pub fn forget(&mut self) {
        self.first_id_of_this_life = self.next_id;
        self.serving = None;
        self.recovery = None;
        self.places.clear();
        self.cut = None;
    }

    fn id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id - 1
    }

    /// A position, if it serves; `None` while it is dead.
    pub fn next(&mut self, epoch: u64) -> Option<Answer> {
        if !self.is_alive {
            return None;
        }
        let Some(core) = &mut self.serving else { return Some(Answer::Refused) };
        Some(match core.next(epoch, 1) {
            Ok(grant) => Answer::Granted { position: grant.first, epoch: grant.epoch },
            Err(TokenRefusal::Stale | TokenRefusal::Full) => Answer::Refused,
            Err(TokenRefusal::Behind) => {
                self.serving = None;
                Answer::Refused
            }
        })
    }

    /// Starts a recovery, or a new layout if it serves already.
    pub fn recover(&mut self, epoch: u64) -> (Option<Answer>, Vec<(u64, Ask)>) {
        if !self.is_alive {
            return (None, vec![]);
        }
        let mut asks = vec![];
        if self.serving.is_some() {
            asks = self.start_cut();
        } else if self.recovery.is_none() {
            let core = RecoveryCore::new(node(self.n), epoch);
            let commands = core.start();
            self.recovery = Some(core);
            asks = self.carry_out(commands);
        }
        (Some(Answer::Refused), asks)
    }

    pub fn hear(&mut self, id: u64, ask: &Ask, answer: Answer) -> Vec<(u64, Ask)> {
        if !self.is_alive || id < self.first_id_of_this_life {
            return vec![];
        }
        if self.cut.is_some() && self.serving.is_some() {
            return self.hear_of_cut(ask, answer);
        }
        let place = self.places.remove(&id);
        let Some(core) = &mut self.recovery else { return vec![] };
        let event = match (ask, answer) {
            (Ask::ReadView, Answer::View(view)) => RecoveryEvent::View(view),
            (Ask::ReadView, _) => return self.carry_out(vec![RecoveryCommand::ReadView]),
            (Ask::Propose(_), Answer::Proposed(true)) => RecoveryEvent::Proposed,
            (Ask::Propose(_), _) => RecoveryEvent::NotProposed,
            (Ask::Seal { .. }, Answer::Maximum(found)) => {
                RecoveryEvent::Sealed(place.unwrap(), found)
            }
            (Ask::Seal { .. }, Answer::Status(ESPIPE)) => {
                RecoveryEvent::AlreadySealed(place.unwrap())
            }
            (Ask::Maximum { .. }, Answer::Maximum(found)) => {
                RecoveryEvent::Maximum(place.unwrap(), found)
            }
            (Ask::Seal { .. } | Ask::Maximum { .. }, _) => RecoveryEvent::NoAnswer(place.unwrap()),
            // Of a question it asked while it served.
            _ => return vec![],
        };
        let commands = core.handle(event);
        self.carry_out(commands)
    }

    fn carry_out(&mut self, commands: Vec<RecoveryCommand>) -> Vec<(u64, Ask)> {
        let mut asks = vec![];
        for command in commands {
            let id = self.id();
            match command {
                RecoveryCommand::ReadView => asks.push((id, Ask::ReadView)),
                RecoveryCommand::Propose(view) => asks.push((id, Ask::Propose(view))),
                RecoveryCommand::Seal { view, place } => {
                    self.places.insert(id, place);
                    let object = view.object(place).unwrap();
                    asks.push((id, Ask::Seal { object, epoch: view.epoch() }));
                }
                RecoveryCommand::AskMaximum { view, place } => {
                    self.places.insert(id, place);
                    asks.push((id, Ask::Maximum { object: view.object(place).unwrap() }));
                }
                RecoveryCommand::Serve { view, tail } => {
                    self.known = view.clone();
                    self.serving = Some(SequencerCore::new(view, tail));
                    self.recovery = None;
                }
                RecoveryCommand::Adopt(view) => {
                    self.known = view;
                    self.recovery = None;
                }
            }
        }
        asks
    }

    /// Opens a new range at the tail: seals its objects, holds the tail, proposes.
    fn start_cut(&mut self) -> Vec<(u64, Ask)> {
        let Some(core) = &self.serving else { return vec![] };
        let view = core.view().clone();
        let is_due = core.tail_now() - view.last_range().first >= TOKENS_PER_RANGE;
        if self.cut.is_some() || !is_due {
            return vec![];
        }
        let Ok(draft) = view.cut(core.tail_now(), view.layout(), &Placement, &[]) else {
            return vec![];
        };
        let epoch = draft.epoch();
        let objects: Vec<_> =
            draft.last_range().stripe_places(0).map(|place| draft.object(place).unwrap()).collect();
        self.cut = Some(Cut { draft, unsealed: objects.len(), proposed: None });
        objects.into_iter().map(|object| (self.id(), Ask::Seal { object, epoch })).collect()
    }

    fn hear_of_cut(&mut self, ask: &Ask, answer: Answer) -> Vec<(u64, Ask)> {
        let (cut, core) = (self.cut.as_mut().unwrap(), self.serving.as_mut().unwrap());
        match (ask, answer) {
            (Ask::Seal { .. }, Answer::Maximum(_) | Answer::Status(ESPIPE)) => {
                cut.unsealed -= 1;
                if cut.unsealed > 0 {
                    return vec![];
                }
                let tail = core.hold();
                let layout = cut.draft.layout();
                let view = core.view().cut(tail, layout, &Placement, &[]).unwrap();
                cut.proposed = Some(view.clone());
                vec![(self.id(), Ask::Propose(view))]
            }
            (Ask::Propose(view), Answer::Proposed(true)) => {
                if !core.serve(view.clone()) {
                    self.serving = None;
                }
                self.cut = None;
                vec![]
            }
            // In doubt about the view: serve no more, recovery will decide.
            (Ask::Propose(_), _) => {
                self.serving = None;
                self.cut = None;
                vec![]
            }
            (Ask::Seal { .. }, _) => {
                self.cut = None;
                vec![]
            }
            _ => vec![],
        }
    }
}
