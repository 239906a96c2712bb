//! A simulated node that hosts the log's sequencer. It carries out the commands of the cores one at
//! a time, as the real host does.

use std::collections::{BTreeMap, BTreeSet};

use nacre_conformance::Chronicle;
use nacre_host::core::{CommandsOf, TakeoverCommand, TakeoverCore, TakeoverEvent};
use nacre_host::{EpochRefusal, Machine};
use nacre_log::core::{RecoveryCommand, RecoveryCore, RecoveryEvent, SequencerCore, TokenRefusal};
use nacre_log::view::{EntryLocation, View};
use nacre_object::NodeName;

use super::{Answer, Ask, ESPIPE, HOSTS, Placement, Sabotage};

pub type Asks = Vec<(u64, Ask)>;

pub struct Host {
    n: usize,
    name: NodeName,
    pub is_alive: bool,
    next_id: u64,
    /// The first request id after the host's last crash. Answers to earlier requests are dropped.
    first_id_of_this_life: u64,
    serving: Option<SequencerCore>,
    job: Option<Job>,
    /// Which place each question is about, if it is about one.
    places: BTreeMap<u64, EntryLocation>,
    sabotage: Option<Sabotage>,
}

/// What changes or reads the view.
enum Job {
    /// Read the view. If it names this node, serve. If this node already serves, continue with the
    /// view that was read.
    Look,
    Recover(TakeoverCore<RecoveryCore>),
    Change(Change),
}

/// A change of the view: its new objects are sealed, then it is proposed.
struct Change {
    kind: Kind,
    draft: View,
    /// The questions by which its objects are being sealed.
    unsealed: BTreeSet<u64>,
    proposed: Option<View>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// One more stripe. If the outcome is unknown, the host goes on with the old view: each
    /// position of the old view has the same object in the new one.
    Extend,
    /// A new range from the tail on. If the outcome is unknown, the host stops serving.
    Cut,
}

impl Host {
    pub fn new(n: usize, name: NodeName, sabotage: Option<Sabotage>) -> Self {
        Self {
            n,
            name,
            is_alive: true,
            next_id: 0,
            first_id_of_this_life: 0,
            serving: None,
            job: None,
            places: BTreeMap::new(),
            sabotage,
        }
    }

    /// What a crash leaves: nothing.
    pub fn forget(&mut self) {
        self.first_id_of_this_life = self.next_id;
        self.serving = None;
        self.job = None;
        self.places.clear();
    }

    fn ask(&mut self, ask: Ask) -> Asks {
        self.next_id += 1;
        vec![(self.next_id - 1, ask)]
    }

    fn ask_about(&mut self, place: EntryLocation, ask: Ask) -> Asks {
        self.places.insert(self.next_id, place);
        self.ask(ask)
    }

    /// The epoch by which its sequencer was installed, if it serves.
    pub fn serves_since(&self) -> Option<u64> {
        self.serving.as_ref().map(|core| core.serving().authority().epoch)
    }

    /// Answers a question; `None` while it is dead.
    pub fn serve(&mut self, ask: &Ask, told: &mut Chronicle) -> (Option<Answer>, Asks) {
        if !self.is_alive {
            return (None, vec![]);
        }
        match ask {
            Ask::Recover { epoch, .. } => (Some(Answer::Refused), self.recover(*epoch)),
            _ if self.serving.is_none() => (Some(Answer::Refused), self.look()),
            Ask::Next { epoch, .. } => {
                let core = self.serving.as_mut().expect("it serves");
                let granted = core.next(*epoch, 1);
                let is_short = core.is_running_short();
                let asks = if is_short { self.change(Kind::Extend) } else { vec![] };
                match granted {
                    Ok(grant) => {
                        let (position, epoch) = (grant.first, grant.epoch);
                        (Some(Answer::Granted { position, epoch }), asks)
                    }
                    Err(refusal) => self.refuse(refusal, asks, told),
                }
            }
            Ask::Tail { epoch, .. } => {
                let core = self.serving.as_ref().expect("it serves");
                match core.tail(*epoch) {
                    Ok(tail) => (Some(Answer::Tail { tail, epoch: core.view().epoch() }), vec![]),
                    Err(refusal) => self.refuse(TokenRefusal::Epoch(refusal), vec![], told),
                }
            }
            other => panic!("{other:?} is not for a host"),
        }
    }

    fn refuse(
        &mut self,
        refusal: TokenRefusal,
        mut asks: Asks,
        told: &mut Chronicle,
    ) -> (Option<Answer>, Asks) {
        if refusal == TokenRefusal::Epoch(EpochRefusal::Behind) {
            told.note("sequencer learnt that it is behind");
            asks.extend(self.look());
        }
        (Some(Answer::Refused), asks)
    }

    fn look(&mut self) -> Asks {
        if self.job.is_some() {
            return vec![];
        }
        self.job = Some(Job::Look);
        self.ask(Ask::ReadView)
    }

    /// Becomes the sequencer in place of this epoch's.
    fn recover(&mut self, epoch: u64) -> Asks {
        if self.job.is_some() || self.serves_since() > Some(epoch) {
            return vec![];
        }
        self.start_recovery(epoch)
    }

    /// A claim that no other host makes, and no other incarnation of this host.
    fn next_claim(&self) -> u64 {
        match self.sabotage {
            Some(Sabotage::ClaimsAlike) => 1,
            _ => self.next_id * HOSTS as u64 + self.n as u64 + 1,
        }
    }

    /// Whether a view names this host, or another host of the same name.
    fn is_named(&self, view: &View) -> bool {
        view.sequencer().is_some_and(|sequencer| sequencer.node == self.name)
    }

    fn start_recovery(&mut self, replaces: u64) -> Asks {
        let core = TakeoverCore::new(self.name.clone(), replaces, self.next_claim());
        let commands = core.start();
        self.job = Some(Job::Recover(core));
        let mut nothing = Chronicle::default();
        self.carry_out(commands, &mut nothing)
    }

    pub fn hear(&mut self, id: u64, ask: &Ask, answer: Answer, told: &mut Chronicle) -> Asks {
        if !self.is_alive || id < self.first_id_of_this_life {
            return vec![];
        }
        let place = self.places.remove(&id);
        match &self.job {
            Some(Job::Look) => self.hear_of_look(answer),
            Some(Job::Recover(_)) => self.hear_of_recovery(place, ask, answer, told),
            Some(Job::Change(_)) => self.hear_of_change(id, ask, answer, told),
            None => vec![],
        }
    }

    fn hear_of_look(&mut self, answer: Answer) -> Asks {
        self.job = None;
        let Answer::View(view) = answer else { return vec![] };
        if let Some(core) = &mut self.serving {
            if !core.serve(view) {
                self.serving = None;
            }
            return vec![];
        }
        if self.is_named(&view) { self.start_recovery(view.epoch()) } else { vec![] }
    }

    fn hear_of_recovery(
        &mut self,
        place: Option<EntryLocation>,
        ask: &Ask,
        answer: Answer,
        told: &mut Chronicle,
    ) -> Asks {
        let Some(Job::Recover(core)) = &mut self.job else { return vec![] };
        let event = match (ask, answer, place) {
            (Ask::ReadView, Answer::View(view), _) => TakeoverEvent::Record(view),
            (Ask::ReadView, _, _) => return self.ask(Ask::ReadView),
            (Ask::Propose(_), Answer::Proposed(true), _) => TakeoverEvent::Proposed,
            (Ask::Propose(_), _, _) => TakeoverEvent::NotProposed,
            (_, Answer::Maximum(found), Some(place)) if matches!(ask, Ask::Seal { .. }) => {
                TakeoverEvent::Recovery(RecoveryEvent::Sealed(place, found))
            }
            (_, Answer::Maximum(found), Some(place)) => {
                TakeoverEvent::Recovery(RecoveryEvent::Maximum(place, found))
            }
            (Ask::Seal { .. }, Answer::Status(ESPIPE), Some(place)) => {
                told.note("seal met a seal");
                TakeoverEvent::Recovery(RecoveryEvent::AlreadySealed(place))
            }
            (_, _, Some(place)) => TakeoverEvent::Recovery(RecoveryEvent::NoAnswer(place)),
            // Of a question it asked in another job.
            (_, _, None) => return vec![],
        };
        let was_claiming = matches!((&event, ask), (TakeoverEvent::Record(_), Ask::ReadView));
        let commands = core.handle(event.clone());
        let is_sealing = commands.first().is_some_and(is_seal);
        if was_claiming && is_sealing {
            told.note("claim in doubt was recognised");
        }
        let is_of_object = matches!(
            event,
            TakeoverEvent::Recovery(RecoveryEvent::Sealed(..) | RecoveryEvent::Maximum(..))
        );
        if is_sealing && is_of_object {
            told.note("recovery went back a stripe");
        }
        self.carry_out(commands, told)
    }

    fn carry_out(&mut self, commands: CommandsOf<RecoveryCore>, told: &mut Chronicle) -> Asks {
        let mut asks = vec![];
        let seals = commands.iter().filter(|command| is_seal(command)).count();
        for command in commands {
            asks.extend(match command {
                TakeoverCommand::ReadRecord => self.ask(Ask::ReadView),
                TakeoverCommand::Propose(view) => self.ask(Ask::Propose(view)),
                TakeoverCommand::Recover(RecoveryCommand::Seal { view, place }) => {
                    let object = view.object(place).expect("a place of the view");
                    self.ask_about(place, Ask::Seal { object, epoch: view.epoch() })
                }
                TakeoverCommand::Recover(RecoveryCommand::AskMaximum { view, place }) => {
                    let object = view.object(place).expect("a place of the view");
                    self.ask_about(place, Ask::Maximum { object })
                }
                TakeoverCommand::Serve { record: view, found: mut tail } => {
                    if self.sabotage == Some(Sabotage::WrongTail) {
                        tail = tail.saturating_sub(1).max(view.lowest_tail());
                    }
                    self.serving = Some(SequencerCore::new(view, tail));
                    self.job = None;
                    vec![]
                }
                TakeoverCommand::Adopt(view) => {
                    told.note("recovery raced: another view was first");
                    if self.is_named(&view) && self.serving.is_none() {
                        told.note("recovery raced with a host of its name");
                    }
                    self.adopt(view)
                }
            });
        }
        if self.sabotage == Some(Sabotage::ServesBeforeFrozen) && seals > 1 {
            self.serve_early(&mut asks, told);
        }
        asks
    }

    /// A planted bug: the host waits for the answer of one object only, and takes all other objects
    /// of the stripe as sealed and empty.
    fn serve_early(&mut self, asks: &mut Asks, told: &mut Chronicle) {
        for (id, _) in asks.split_off(1) {
            let (Some(place), Some(Job::Recover(core))) = (self.places.remove(&id), &mut self.job)
            else {
                continue;
            };
            let commands = core.handle(TakeoverEvent::Recovery(RecoveryEvent::Sealed(place, None)));
            asks.extend(self.carry_out(commands, told));
        }
    }

    fn adopt(&mut self, view: View) -> Asks {
        self.job = None;
        let is_named = self.is_named(&view);
        let epoch = view.epoch();
        let serves = self.serving.as_mut().is_some_and(|core| core.serve(view));
        if serves || !is_named {
            if !serves {
                self.serving = None;
            }
            return vec![];
        }
        // An earlier process of this node made that claim, and its counter is gone.
        self.serving = None;
        self.start_recovery(epoch)
    }

    /// Has it lay the log out anew from its tail on.
    pub fn lay_out_anew(&mut self) -> Asks {
        self.change(Kind::Cut)
    }

    fn change(&mut self, kind: Kind) -> Asks {
        let (Some(core), None, true) = (&self.serving, &self.job, self.is_alive) else {
            return vec![];
        };
        let view = core.view();
        // Objects are named by range, stripe and column, not by their first position.
        let draft = match kind {
            Kind::Extend => view.extended(1),
            Kind::Cut => view.cut(view.lowest_tail(), view.layout(), &Placement, &[]),
        };
        let Ok(draft) = draft else { return vec![] };
        let range = draft.last_range();
        let stripe = if kind == Kind::Extend { range.stripe_count() - 1 } else { 0 };
        let places: Vec<_> = range.stripe_places(stripe).collect();
        let epoch = draft.epoch();
        let objects: Vec<_> =
            places.iter().map(|place| draft.object(*place).expect("its own place")).collect();
        let asks: Asks =
            objects.into_iter().flat_map(|object| self.ask(Ask::Seal { object, epoch })).collect();
        let unsealed = asks.iter().map(|(id, _)| *id).collect();
        self.job = Some(Job::Change(Change { kind, draft, unsealed, proposed: None }));
        asks
    }

    fn hear_of_change(&mut self, id: u64, ask: &Ask, answer: Answer, told: &mut Chronicle) -> Asks {
        let (Some(Job::Change(change)), Some(core)) = (&mut self.job, &mut self.serving) else {
            self.job = None;
            return vec![];
        };
        match (ask, answer) {
            // Of an attempt that was given up.
            (Ask::Seal { .. }, _) if !change.unsealed.remove(&id) => vec![],
            (Ask::Seal { .. }, Answer::Maximum(_) | Answer::Status(ESPIPE)) => {
                if !change.unsealed.is_empty() {
                    return vec![];
                }
                let view = match change.kind {
                    Kind::Extend => core.view().extended(1),
                    Kind::Cut => {
                        core.hold();
                        core.view().cut(core.tail_now(), change.draft.layout(), &Placement, &[])
                    }
                };
                let view = view.expect("its draft was made");
                change.proposed = Some(view.clone());
                self.ask(Ask::Propose(view))
            }
            (Ask::Seal { .. }, _) => {
                self.job = None;
                vec![]
            }
            (Ask::Propose(view), Answer::Proposed(true)) => {
                told.note(match change.kind {
                    Kind::Extend => "range extended",
                    Kind::Cut => "range cut at the tail",
                });
                let view = view.clone();
                self.settle_change(view)
            }
            // It lost, or nobody knows: look.
            (Ask::Propose(_), _) => self.ask(Ask::ReadView),
            (Ask::ReadView, Answer::View(stored)) => match &change.proposed {
                Some(proposed) if stored.epoch() >= proposed.epoch() => self.settle_change(stored),
                Some(_) => self.give_change_up(told),
                None => vec![],
            },
            (Ask::ReadView, _) if change.proposed.is_some() => self.give_change_up(told),
            _ => vec![],
        }
    }

    fn settle_change(&mut self, stored: View) -> Asks {
        self.job = None;
        if !self.serving.as_mut().is_some_and(|core| core.serve(stored)) {
            self.serving = None;
        }
        vec![]
    }

    fn give_change_up(&mut self, told: &mut Chronicle) -> Asks {
        let Some(Job::Change(change)) = self.job.take() else { return vec![] };
        match (change.kind, &mut self.serving) {
            (Kind::Extend, Some(core)) => {
                let view = core.view().clone();
                assert!(core.serve(view), "its own view names it");
            }
            _ => {
                told.note("view in doubt: sequencer stepped down");
                self.serving = None;
            }
        }
        vec![]
    }
}

fn is_seal(command: &TakeoverCommand<View, RecoveryCommand, u64>) -> bool {
    matches!(command, TakeoverCommand::Recover(RecoveryCommand::Seal { .. }))
}
