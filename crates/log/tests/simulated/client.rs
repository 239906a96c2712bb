//! A client that appends its records one after the other.

use nacre_clock::Random;
use nacre_log::core::{AppendCommand, AppendCore, AppendEvent, Grant, ReadBack};
use nacre_log::view::View;

use super::{Answer, Ask, HOSTS, node_number};

const EROFS: i32 = -30;
const ESPIPE: i32 = -29;
const ERANGE: i32 = -34;

pub struct Client {
    n: usize,
    left: usize,
    record: u64,
    next_id: u64,
    view: View,
    core: Option<AppendCore>,
    /// The epoch later than which a view is wanted before the append goes on.
    wanted: Option<Wanted>,
    /// The greatest position acknowledged to anybody before this append began.
    pub floor: Option<u64>,
}

#[derive(Clone, Copy)]
enum Wanted {
    /// For a refused operation.
    LaterThan(u64),
    /// For a position that was handed out under that view.
    AtLeast(Grant),
    /// Whatever there is.
    Any,
}

type Done = Option<(u64, u64)>;
type Asks = Vec<(u64, Ask)>;

impl Client {
    pub fn new(n: usize, records: usize, view: View) -> Self {
        Self {
            n,
            left: records,
            record: 0,
            next_id: 0,
            view,
            core: None,
            wanted: None,
            floor: None,
        }
    }

    /// Starts the next append, if one is left.
    pub fn start(&mut self, greatest: Option<u64>) -> Asks {
        if self.left == 0 {
            return vec![];
        }
        self.left -= 1;
        self.record = (self.n * 1000 + self.left) as u64;
        self.floor = greatest;
        self.core = Some(AppendCore::default());
        self.take_token()
    }

    fn ask(&mut self, ask: Ask) -> Asks {
        self.next_id += 1;
        vec![(self.next_id, ask)]
    }

    fn take_token(&mut self) -> Asks {
        match self.view.sequencer() {
            Some(sequencer) => {
                let (host, epoch) = (node_number(&sequencer.node), self.view.epoch());
                self.ask(Ask::Next { host, epoch })
            }
            None => self.ask(Ask::Recover { host: self.n % HOSTS, epoch: self.view.epoch() }),
        }
    }

    fn look(&mut self, wanted: Wanted) -> Asks {
        self.wanted = Some(wanted);
        self.ask(Ask::ReadView)
    }

    pub fn hear(&mut self, _: u64, ask: &Ask, answer: Answer, random: &mut Random) -> (Asks, Done) {
        match (ask, answer) {
            (Ask::Next { .. }, Answer::Granted { position, epoch }) => {
                let grant = Grant { first: position, count: 1, epoch };
                if epoch > self.view.epoch() {
                    return (self.look(Wanted::AtLeast(grant)), None);
                }
                self.use_token(grant)
            }
            // Have it replaced, by itself or another; then look.
            (Ask::Next { .. }, _) => {
                let host = random.below(HOSTS as u64) as usize;
                let epoch = self.view.epoch();
                (self.ask(Ask::Recover { host, epoch }), None)
            }
            (Ask::Recover { .. }, _) => (self.look(Wanted::Any), None),
            (Ask::ReadView, Answer::View(view)) => self.learn(view),
            (Ask::ReadView, _) => (self.ask(Ask::ReadView), None),
            (ask, answer) => {
                let event = event_of(ask, &answer, self.record);
                self.handle(event)
            }
        }
    }

    fn learn(&mut self, view: View) -> (Asks, Done) {
        if view.epoch() > self.view.epoch() {
            self.view = view;
        }
        match self.wanted.take() {
            Some(Wanted::LaterThan(epoch)) if self.view.epoch() <= epoch => {
                (self.look(Wanted::LaterThan(epoch)), None)
            }
            Some(Wanted::LaterThan(_)) => {
                let (epoch, sequencer) = (self.view.epoch(), self.sequencer());
                self.handle(AppendEvent::View { epoch, sequencer })
            }
            Some(Wanted::AtLeast(grant)) if self.view.epoch() < grant.epoch => {
                (self.look(Wanted::AtLeast(grant)), None)
            }
            Some(Wanted::AtLeast(grant)) => self.use_token(grant),
            Some(Wanted::Any) | None => (self.take_token(), None),
        }
    }

    fn sequencer(&self) -> u64 {
        self.view.sequencer().map_or(0, |sequencer| sequencer.epoch)
    }

    fn use_token(&mut self, grant: Grant) -> (Asks, Done) {
        if grant.is_void_in(&self.view) {
            return (self.take_token(), None);
        }
        let (epoch, sequencer) = (self.view.epoch(), self.sequencer());
        self.handle(AppendEvent::Token { position: grant.first, epoch, sequencer })
    }

    fn handle(&mut self, event: AppendEvent) -> (Asks, Done) {
        let command = self.core.as_mut().expect("an append is under way").handle(event);
        let record = self.record;
        match command {
            AppendCommand::TakeToken => (self.take_token(), None),
            AppendCommand::Done { position } => (vec![], Some((record, position))),
            AppendCommand::Lost { position } => panic!("nobody trims {position}"),
            AppendCommand::Refresh { epoch } => (self.look(Wanted::LaterThan(epoch)), None),
            AppendCommand::Write { position, epoch } => {
                self.on_object(position, |object| Ask::Write { object, epoch, position, record })
            }
            AppendCommand::Read { position, epoch } => {
                self.on_object(position, |object| Ask::Read { object, epoch, position })
            }
        }
    }

    fn on_object(
        &mut self,
        position: u64,
        ask: impl FnOnce(nacre_object::ObjectId) -> Ask,
    ) -> (Asks, Done) {
        match self.view.place(position).and_then(|place| self.view.object(place)) {
            Some(object) => (self.ask(ask(object)), None),
            // The range it was in was cut before it: what may be there is not part of the log.
            None => self.handle_without_object(),
        }
    }

    fn handle_without_object(&mut self) -> (Asks, Done) {
        let other = AppendEvent::Holds(ReadBack::Other);
        let command = self.core.as_mut().unwrap().handle(other);
        assert_eq!(command, AppendCommand::TakeToken);
        (self.take_token(), None)
    }
}

fn event_of(ask: &Ask, answer: &Answer, record: u64) -> AppendEvent {
    match (ask, answer) {
        (_, Answer::Silence) => AppendEvent::NoAnswer,
        (_, Answer::Status(ESPIPE)) => AppendEvent::Stale,
        (Ask::Write { .. }, Answer::Status(0)) => AppendEvent::Accepted,
        (Ask::Write { .. }, Answer::Status(EROFS)) => AppendEvent::Taken,
        (Ask::Read { .. }, Answer::Data(found)) if *found == record => {
            AppendEvent::Holds(ReadBack::Mine)
        }
        (Ask::Read { .. }, Answer::Status(ERANGE)) => AppendEvent::Holds(ReadBack::Unwritten),
        (Ask::Read { .. }, Answer::Data(_) | Answer::Status(_)) => {
            AppendEvent::Holds(ReadBack::Other)
        }
        (ask, answer) => panic!("{answer:?} to {ask:?}"),
    }
}
