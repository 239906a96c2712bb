//! A simulated client that does one operation after another. Mostly it appends; sometimes it reads,
//! fills or trims known positions, or asks for the tail.

use nacre_clock::Random;
use nacre_conformance::Chronicle;
use nacre_conformance::histories::{Cell, LogAnswer, LogCall};
use nacre_host::Authority;
use nacre_log::core::{AppendCommand, AppendCore, AppendEvent, Grant, ReadBack};
use nacre_log::view::View;

use super::host::Asks;
use super::probe::{Probe, ProbeKind, Wish};
use super::{Answer, Ask, ENOENT, EROFS, ESPIPE, HOSTS, Sabotage, node_number};

pub struct Client {
    n: usize,
    left: usize,
    next_id: u64,
    first_id_of_this_life: u64,
    view: View,
    task: Option<Task>,
    /// Why the stored view is being read.
    wanted: Wanted,
    /// One past the greatest position it has heard of.
    seen: u64,
    /// The sequencer of the client's view has issued all positions below this.
    issued_below: u64,
    /// Whether all hosts have the same name. Then a name does not select a host, so each client
    /// always calls the same one.
    is_of_one_name: bool,
    sabotage: Option<Sabotage>,
}

enum Task {
    Append { core: AppendCore, record: u64 },
    Probe(Probe),
    Tail,
}

#[derive(Debug, Clone, Copy)]
enum Wanted {
    /// A view later than this, for a refused operation.
    LaterThan(u64),
    /// For a position that was handed out under that view.
    AtLeast(Grant),
    /// To check that the sequencer that reported this tail, under this epoch, is still in charge.
    Tail { tail: u64, epoch: u64 },
    /// The stored view, whatever its epoch.
    Any,
}

/// What a client does next.
pub enum Turn {
    Ask(Asks),
    /// What it was doing is done.
    Done(LogAnswer),
    /// It will never know.
    Unknown,
    /// What it was doing had no effect and never will.
    Refused,
}

impl Client {
    pub fn new(
        n: usize,
        left: usize,
        view: View,
        is_of_one_name: bool,
        sabotage: Option<Sabotage>,
    ) -> Self {
        Self {
            n,
            left,
            next_id: 0,
            first_id_of_this_life: 0,
            view,
            task: None,
            wanted: Wanted::Any,
            seen: 0,
            issued_below: 0,
            is_of_one_name,
            sabotage,
        }
    }

    /// What a crash leaves: the things it still has to do.
    pub fn forget(&mut self) {
        self.first_id_of_this_life = self.next_id + 1;
        self.task = None;
        self.wanted = Wanted::Any;
    }

    /// Chooses what to do next, if anything is left.
    pub fn next_call(&mut self, random: &mut Random) -> Option<LogCall> {
        self.left = self.left.checked_sub(1)?;
        let record = (self.n * 1000 + self.left) as u64;
        // Choose a position near the tail that this client knows. Holes are there, and positions
        // that other clients append meanwhile.
        let position = (self.seen + 4).saturating_sub(random.below(12));
        let choice = if self.seen == 0 { 19 } else { random.below(20) };
        let (kind, call) = match choice {
            0..3 => (ProbeKind::Read, LogCall::Read(position)),
            3..6 => (ProbeKind::Fill, LogCall::Fill(position)),
            6 => (ProbeKind::Trim, LogCall::Trim(position)),
            7 => {
                self.task = Some(Task::Tail);
                return Some(LogCall::Tail);
            }
            _ => {
                self.task = Some(Task::Append { core: AppendCore::default(), record });
                return Some(LogCall::Append(record));
            }
        };
        self.task = Some(Task::Probe(Probe::new(kind, position)));
        Some(call)
    }

    /// Starts what was chosen.
    pub fn start(&mut self) -> Turn {
        match &self.task {
            Some(Task::Probe(probe)) if !self.must_be_issued(probe) => {
                let wish = probe.start(&self.view);
                self.grant(wish)
            }
            _ => self.ask_sequencer(),
        }
    }

    /// Whether the client must ask the sequencer first. A position that was not issued may still
    /// move to another object.
    fn must_be_issued(&self, probe: &Probe) -> bool {
        probe.changes()
            && probe.position() >= self.issued_below
            && self.sabotage != Some(Sabotage::UnissuedFilled)
    }

    fn ask(&mut self, ask: Ask) -> Turn {
        self.next_id += 1;
        Turn::Ask(vec![(self.next_id, ask)])
    }

    fn ask_sequencer(&mut self) -> Turn {
        let epoch = self.view.epoch();
        let Some(sequencer) = self.view.sequencer() else {
            return self.ask(Ask::Recover { host: self.n % HOSTS, epoch });
        };
        let host = self.host_of(sequencer);
        match self.task {
            Some(Task::Tail | Task::Probe(_)) => self.ask(Ask::Tail { host, epoch }),
            _ => self.ask(Ask::Next { host, epoch }),
        }
    }

    fn host_of(&self, sequencer: &Authority) -> usize {
        if self.is_of_one_name { self.n % HOSTS } else { node_number(&sequencer.node) }
    }

    fn look(&mut self, wanted: Wanted) -> Turn {
        self.wanted = wanted;
        self.ask(Ask::ReadView)
    }

    pub fn hear(
        &mut self,
        id: u64,
        ask: &Ask,
        answer: Answer,
        random: &mut Random,
        told: &mut Chronicle,
    ) -> Turn {
        if id < self.first_id_of_this_life {
            return Turn::Ask(vec![]);
        }
        match (ask, answer) {
            (Ask::Next { .. }, Answer::Granted { position, epoch }) => {
                self.seen = self.seen.max(position + 1);
                let grant = Grant { first: position, count: 1, epoch };
                if epoch > self.view.epoch() {
                    return self.look(Wanted::AtLeast(grant));
                }
                self.use_token(grant, told)
            }
            (Ask::Tail { .. }, Answer::Tail { tail, epoch }) => {
                self.look(Wanted::Tail { tail, epoch })
            }
            // Have it replaced, by itself or another; then look.
            (Ask::Next { .. } | Ask::Tail { .. }, _) => {
                let any = random.below(HOSTS as u64) as usize;
                let host = if self.is_of_one_name { self.n % HOSTS } else { any };
                let epoch = self.view.epoch();
                self.ask(Ask::Recover { host, epoch })
            }
            (Ask::Recover { .. }, _) => self.look(Wanted::Any),
            (Ask::ReadView, Answer::View(view)) => self.learn(view, told),
            (Ask::ReadView, _) => self.ask(Ask::ReadView),
            (ask, answer) => self.hear_of_object(ask, &answer, told),
        }
    }

    fn hear_tail(&mut self, tail: u64, epoch: u64, told: &mut Chronicle) -> Turn {
        if self.sequencer() > epoch {
            // A sequencer deposed since may not know of later appends.
            told.note("tail of a deposed sequencer asked for again");
            return self.ask_sequencer();
        }
        self.seen = self.seen.max(tail);
        let Some(Task::Probe(probe)) = &self.task else {
            return Turn::Done(LogAnswer::Tail(tail));
        };
        self.issued_below = self.issued_below.max(tail);
        match probe.position() {
            position if position < tail => self.start(),
            position if position > tail => Turn::Refused,
            // The tail is taken for it.
            _ => {
                told.note("tail taken to be filled");
                let sequencer = self.view.sequencer().expect("it told the tail");
                let (host, epoch) = (self.host_of(sequencer), self.view.epoch());
                self.ask(Ask::Next { host, epoch })
            }
        }
    }

    fn hear_of_object(&mut self, ask: &Ask, answer: &Answer, told: &mut Chronicle) -> Turn {
        match &mut self.task {
            Some(Task::Probe(probe)) => {
                match (ask, answer) {
                    (Ask::Fill { .. }, Answer::Status(0)) => told.note("hole filled"),
                    (Ask::Fill { .. }, Answer::Status(EROFS)) => {
                        told.note("fill lost against data");
                    }
                    _ => {}
                }
                let wish = probe.hear(answer, &self.view, self.sabotage);
                self.grant(wish)
            }
            Some(Task::Append { record, .. }) => {
                let event = event_of(ask, answer, *record);
                self.handle(event, told)
            }
            _ => Turn::Ask(vec![]),
        }
    }

    fn learn(&mut self, view: View, told: &mut Chronicle) -> Turn {
        if view.epoch() > self.view.epoch() {
            if view.sequencer() != self.view.sequencer() {
                // The new sequencer issues unwritten positions of its predecessor again.
                self.issued_below = 0;
            }
            self.view = view;
        }
        if let Wanted::Tail { tail, epoch } = self.wanted {
            self.wanted = Wanted::Any;
            return self.hear_tail(tail, epoch, told);
        }
        if let Some(Task::Probe(probe)) = &mut self.task {
            if probe.changes() && !probe.has_found() {
                return self.start();
            }
            let (wish, again) = probe.learn(&self.view);
            if again {
                told.note("probe looked again in a later view");
            }
            return self.grant(wish);
        }
        match std::mem::replace(&mut self.wanted, Wanted::Any) {
            Wanted::LaterThan(epoch) if self.view.epoch() <= epoch => {
                self.look(Wanted::LaterThan(epoch))
            }
            Wanted::LaterThan(_) => {
                let (epoch, sequencer) = (self.view.epoch(), self.sequencer());
                self.handle(AppendEvent::View { epoch, sequencer }, told)
            }
            Wanted::AtLeast(grant) if self.view.epoch() < grant.epoch => {
                self.look(Wanted::AtLeast(grant))
            }
            Wanted::AtLeast(grant) => self.use_token(grant, told),
            Wanted::Tail { .. } | Wanted::Any => self.ask_sequencer(),
        }
    }

    fn grant(&mut self, wish: Wish) -> Turn {
        match wish {
            Wish::Ask(ask) => self.ask(ask),
            Wish::Look => self.ask(Ask::ReadView),
            Wish::Done(answer) => Turn::Done(answer),
            Wish::Refused => Turn::Refused,
        }
    }

    fn sequencer(&self) -> u64 {
        self.view.sequencer().map_or(0, |sequencer| sequencer.epoch)
    }

    fn use_token(&mut self, grant: Grant, told: &mut Chronicle) -> Turn {
        if matches!(self.task, Some(Task::Probe(_))) {
            if !grant.is_void_in(&self.view) {
                self.issued_below = self.issued_below.max(grant.first + 1);
            }
            return self.start();
        }
        if grant.is_void_in(&self.view) && self.sabotage != Some(Sabotage::VoidGrantUsed) {
            told.note("position of a void grant given up");
            return self.ask_sequencer();
        }
        let (epoch, sequencer) = (self.view.epoch(), self.sequencer());
        self.handle(AppendEvent::Token { position: grant.first, epoch, sequencer }, told)
    }

    fn handle(&mut self, mut event: AppendEvent, told: &mut Chronicle) -> Turn {
        let Some(Task::Append { core, record }) = &mut self.task else { return Turn::Ask(vec![]) };
        if self.sabotage == Some(Sabotage::TimedOutIsAbsent) && event == AppendEvent::NoAnswer {
            // The event for a position to which nothing was sent.
            event = AppendEvent::Avoided;
            *core = AppendCore::default();
            core.handle(AppendEvent::Token { position: 0, epoch: 0, sequencer: 0 });
        }
        let was_in_doubt = core.doubtful_position().is_some();
        let command = core.handle(event);
        note_append(event, command, was_in_doubt, told);
        let record = *record;
        match command {
            AppendCommand::TakeToken => self.ask_sequencer(),
            AppendCommand::Done { position } => Turn::Done(LogAnswer::At(position)),
            AppendCommand::Lost { .. } => Turn::Unknown,
            AppendCommand::Refresh { epoch } => self.look(Wanted::LaterThan(epoch)),
            AppendCommand::Write { position, epoch } => {
                let ask = |object| Ask::Write { object, epoch, position, record };
                self.on_object(position, ask, told)
            }
            AppendCommand::Read { position, epoch } => {
                self.on_object(position, |object| Ask::Read { object, epoch, position }, told)
            }
        }
    }

    fn on_object(
        &mut self,
        position: u64,
        ask: impl FnOnce(nacre_object::ObjectId) -> Ask,
        told: &mut Chronicle,
    ) -> Turn {
        match self.view.place(position).and_then(|place| self.view.object(place)) {
            Some(object) => self.ask(ask(object)),
            // A new layout has cut the range that contained the position. So the entry that the old
            // object may have there is not part of the log.
            None => self.handle(AppendEvent::Holds(ReadBack::Other), told),
        }
    }
}

fn note_append(
    event: AppendEvent,
    command: AppendCommand,
    was_in_doubt: bool,
    told: &mut Chronicle,
) {
    match (event, command) {
        (AppendEvent::NoAnswer, AppendCommand::Write { .. }) => told.note("write in doubt"),
        (AppendEvent::Stale, _) => told.note("write refused for its epoch"),
        (AppendEvent::Holds(ReadBack::Mine), _) if was_in_doubt => {
            told.note("write in doubt recognised as done");
        }
        (AppendEvent::Holds(ReadBack::Unwritten), AppendCommand::TakeToken) => {
            told.note("position given up after a new sequencer");
        }
        (AppendEvent::Holds(ReadBack::Other), AppendCommand::TakeToken) => {
            told.note("fill won against an append");
        }
        (AppendEvent::Holds(ReadBack::Trimmed), _) => told.note("trim before the append knew"),
        _ => {}
    }
}

fn event_of(ask: &Ask, answer: &Answer, record: u64) -> AppendEvent {
    match (ask, answer) {
        (_, Answer::Silence) => AppendEvent::NoAnswer,
        (_, Answer::Status(ESPIPE)) => AppendEvent::Stale,
        (Ask::Write { .. }, Answer::Status(0)) => AppendEvent::Accepted,
        // Removed, or never sealed: looking will tell.
        (Ask::Write { .. }, Answer::Status(EROFS | ENOENT)) => AppendEvent::Taken,
        (Ask::Read { .. }, Answer::Status(ENOENT)) => AppendEvent::Stale,
        (Ask::Read { .. }, Answer::Holds(cell)) => AppendEvent::Holds(match cell {
            Cell::Data(found) if *found == record => ReadBack::Mine,
            Cell::Data(_) | Cell::Filled => ReadBack::Other,
            Cell::Trimmed => ReadBack::Trimmed,
            Cell::Unwritten => ReadBack::Unwritten,
        }),
        (ask, answer) => panic!("{answer:?} to {ask:?}"),
    }
}
