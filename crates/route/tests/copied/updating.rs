//! Updates of copies, and copies in the making that catch up with them.
//!
//! Updates of one object take turns. A copy in the making takes a turn when it begins and when it
//! ends.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use nacre_object::{Op, Request};
use nacre_route::{
    CopyData, CopyTag, CopyUpdate, CopyWrite, MadeCopy, MakeFailure, Making, Missed, Span, Take,
    Update, UpdateEnd, UpdateFailure,
};

use super::process::{Asked, MakingCopy, Waiting, home, object_id};
use super::world::{Question, World};
use super::{Answer, Ask, AtHome, BLOCK_BYTES, Change, HomeAnswer, Party, Sabotage, copy_node_of};

/// A copy in the making ends only when no more blocks than this are left.
const LAST_BLOCKS: u64 = 1;

/// What waits for its turn.
pub enum Turn {
    Update(Box<Question>, Change),
    /// A copy in the making begins.
    Begin(usize),
    /// It ends, if it has not missed too much.
    End(usize),
}

/// An update that has its turn.
struct InFlight {
    question: Question,
    update: Update,
    take: Take,
    copies: Vec<CopyUpdate>,
    answer: Option<HomeAnswer>,
}

/// The updates in flight, and what waits for them.
#[derive(Default)]
pub struct Updating {
    /// The objects that something has a turn at, with those that wait.
    turns: BTreeMap<usize, VecDeque<Turn>>,
    in_flight: BTreeMap<usize, InFlight>,
    /// For each copy the updates that it gets, in order. The first one is on its way.
    lanes: BTreeMap<CopyTag, VecDeque<CopyUpdate>>,
}

impl Updating {
    pub fn is_in_flight(&self, object: usize) -> bool {
        self.in_flight.contains_key(&object)
    }
}

impl MakingCopy {
    pub fn new(making: Making, object: usize) -> Self {
        Self {
            making,
            object,
            stat: None,
            left: VecDeque::new(),
            number: 0,
            version: 0,
            is_at_end: false,
            has_turn: false,
        }
    }
}

fn update_of(object: usize, change: Change) -> Update {
    let op = match change {
        Change::Write { block, count, value } => {
            let data = Bytes::from(value.to_be_bytes().repeat(count as usize));
            Op::Write { offset: block * BLOCK_BYTES, data }
        }
        Change::Zero { block, count } => {
            Op::Zero { offset: block * BLOCK_BYTES, length: count * BLOCK_BYTES }
        }
        Change::Truncate { .. } => panic!("no update"),
    };
    Update::of(&Request::new(object_id(object), vec![op]).unwrap()).unwrap()
}

impl World {
    pub fn take_turn(&mut self, object: usize, turn: Turn) {
        match self.process.updating.turns.get_mut(&object) {
            Some(waiting) => waiting.push_back(turn),
            None => {
                self.process.updating.turns.insert(object, VecDeque::new());
                self.has_turn(object, turn);
            }
        }
    }

    fn end_turn(&mut self, object: usize) {
        let waiting = self.process.updating.turns.get_mut(&object).expect("somebody has the turn");
        match waiting.pop_front() {
            Some(next) => self.has_turn(object, next),
            None => drop(self.process.updating.turns.remove(&object)),
        }
    }

    fn has_turn(&mut self, object: usize, turn: Turn) {
        match turn {
            Turn::Update(question, change) => self.begin_update(object, *question, change),
            Turn::Begin(number) => {
                self.process.makings.get_mut(&number).expect("it waits").has_turn = true;
                self.ask_home(Waiting::Make(number), AtHome::Stat(object));
            }
            Turn::End(number) => {
                self.process.makings.get_mut(&number).expect("it waits").has_turn = true;
                self.catch_up(number);
            }
        }
    }

    fn begin_update(&mut self, object: usize, question: Question, change: Change) {
        let update = update_of(object, change);
        let take = *self.random.pick(&[Take::All, Take::Quorum]).unwrap();
        let mut in_flight = InFlight { question, update, take, copies: vec![], answer: None };
        if self.sabotage != Some(Sabotage::UpdateToldLate) {
            self.tell_update(object, &mut in_flight);
        }
        self.process.updating.in_flight.insert(object, in_flight);
        self.ask_home(Waiting::Update(object), AtHome::Change(object, change));
    }

    fn tell_update(&mut self, object: usize, in_flight: &mut InFlight) {
        let copies = &mut self.process.copies;
        in_flight.copies = copies.update_began(&object_id(object), &in_flight.update);
    }

    pub fn update_done_at_home(&mut self, object: usize, answer: HomeAnswer) {
        let mut in_flight =
            self.process.updating.in_flight.remove(&object).expect("it is in flight");
        if self.sabotage == Some(Sabotage::UpdateToldLate) {
            self.tell_update(object, &mut in_flight);
        }
        in_flight.answer = Some(answer);
        let copies = in_flight.copies.clone();
        self.process.updating.in_flight.insert(object, in_flight);
        for copy in copies {
            if self.sabotage == Some(Sabotage::SentIsConfirmed) {
                self.process.copies.update_confirmed(&copy);
            }
            let lane = self.process.updating.lanes.entry(copy.write.tag).or_default();
            lane.push_back(copy.clone());
            if lane.len() == 1 {
                self.send_update(copy);
            }
        }
        self.end_update(object);
    }

    fn send_update(&mut self, copy: CopyUpdate) {
        let to = Party::CopyNode(copy_node_of(&copy.target));
        let id = self.send(Party::Switch, to, Ask::Piece(copy.write.clone()));
        self.process.asked.insert(id, Asked::Update(copy));
    }

    pub fn update_answered(&mut self, copy: &CopyUpdate, answer: &Answer) {
        let object = (0..super::OBJECTS).find(|at| object_id(*at) == copy.write.home).unwrap();
        let (id, now) = (object_id(object), self.now());
        let tag = copy.write.tag;
        let why = match answer {
            Answer::Stored => {
                self.told.note("update applied by a copy");
                let was_current = self.process.copies.is_current(&id, &home(), &copy.target);
                self.process.copies.update_confirmed(copy);
                let is_current = self.process.copies.is_current(&id, &home(), &copy.target);
                if is_current && !was_current {
                    self.told.note("copy rejoined late");
                }
                let lane = self.process.updating.lanes.get_mut(&tag).expect("it was on its way");
                lane.pop_front();
                match lane.front().cloned() {
                    Some(next) => self.send_update(next),
                    None => drop(self.process.updating.lanes.remove(&tag)),
                }
                return self.end_update(object);
            }
            Answer::Refused => {
                self.told.note("update refused by a copy");
                UpdateFailure::Lost
            }
            _ => {
                self.told.note("target did not answer an update");
                UpdateFailure::Target
            }
        };
        for failed in self.process.updating.lanes.remove(&tag).unwrap_or_default() {
            self.process.copies.update_failed(now, &failed, why);
        }
        self.end_update(object);
    }

    /// Ends the update in flight of an object, if it may end.
    fn end_update(&mut self, object: usize) {
        let id = object_id(object);
        let Some(in_flight) = self.process.updating.in_flight.get(&object) else { return };
        if in_flight.answer.is_none() || !self.process.copies.may_end(&id, in_flight.take) {
            return;
        }
        let InFlight { question, update, copies, answer, .. } =
            self.process.updating.in_flight.remove(&object).expect("it is there");
        let answer = answer.expect("the home has answered");
        let end = match copies.is_empty() {
            true => UpdateEnd::OnlyAtHome { version: answer.version },
            false => UpdateEnd::Done(answer.stat),
        };
        self.process.copies.update_ended(&id, &update, end);
        let is_behind =
            |copy: &&CopyUpdate| !self.process.copies.is_current(&id, &home(), &copy.target);
        let is_on_its_way =
            |copy: &&CopyUpdate| self.process.updating.lanes.contains_key(&copy.write.tag);
        if copies.iter().filter(is_behind).any(|copy| is_on_its_way(&copy)) {
            self.told.note("update ended with a copy behind");
        }
        self.reply(question, Answer::Changed { version: answer.version });
        self.end_turn(object);
    }

    /// Goes on with a copy after an answer of the engine.
    pub fn make_from(&mut self, number: usize, answer: HomeAnswer) {
        let Some(one) = self.process.makings.get_mut(&number) else { return };
        let object = one.object;
        let Some(stat) = one.stat else {
            (one.stat, one.version) = (Some(answer.stat), answer.version);
            one.left.extend(Span::new(0, answer.stat.size));
            self.release(number);
            return self.copy_next(number);
        };
        if one.is_at_end {
            let is_it = answer.version == one.version && answer.stat.size == stat.size;
            one.stat = Some(answer.stat);
            return self.made(number, is_it.then_some(()).ok_or(MakeFailure::Changed));
        }
        let Some(span) = one.left.pop_front() else { return };
        let block = Span::new(span.start(), span.end().min(span.start() + BLOCK_BYTES)).unwrap();
        if let Some(rest) = Span::new(block.end(), span.end()) {
            one.left.push_front(rest);
        }
        if answer.data.len() as u64 != block.length() {
            return self.made(number, Err(MakeFailure::Changed));
        }
        let size = stat.size.max(answer.stat.size);
        one.stat = Some(nacre_object::ObjectStat { size, ..stat });
        self.send_piece(number, object, block.start(), answer.data);
    }

    fn send_piece(&mut self, number: usize, object: usize, offset: u64, data: Bytes) {
        let one = &self.process.makings[&number];
        let write = CopyWrite {
            home: object_id(object),
            tag: one.making.tag,
            number: one.number,
            size: one.stat.expect("the first answer has it").size,
            offset,
            data: CopyData::Bytes(data),
        };
        let to = Party::CopyNode(copy_node_of(&one.making.target));
        let id = self.send(Party::Switch, to, Ask::Piece(write));
        self.process.asked.insert(id, Asked::Piece(number));
    }

    /// Copies the next block, or ends.
    fn copy_next(&mut self, number: usize) {
        let one = &self.process.makings[&number];
        let (object, has_turn) = (one.object, one.has_turn);
        match one.left.front() {
            Some(span) => {
                let block = span.start() / BLOCK_BYTES;
                self.ask_home(Waiting::Make(number), AtHome::ReadBlock(object, block));
            }
            // An empty object.
            None if one.number == 0 => self.send_piece(number, object, 0, Bytes::new()),
            None if has_turn => self.catch_up(number),
            None => self.take_turn(object, Turn::End(number)),
        }
    }

    /// Ends a copy that has its turn, or copies what it has missed.
    fn catch_up(&mut self, number: usize) {
        let one = &self.process.makings[&number];
        let (object, making) = (one.object, one.making.clone());
        let missed_bytes = self.process.copies.missed_bytes(&making);
        let Missed { spans, version } = self.process.copies.take_missed(&making);
        let one = self.process.makings.get_mut(&number).expect("it is there");
        one.version = version.map_or(one.version, |version| one.version.max(version));
        if spans.is_empty() || self.sabotage == Some(Sabotage::MissedIgnored) {
            one.is_at_end = true;
            return self.ask_home(Waiting::Make(number), AtHome::Stat(object));
        }
        self.told.note("missed bytes copied");
        // The spans are whole blocks, of which some may lie past the end.
        let size = self.home_size(object);
        let one = self.process.makings.get_mut(&number).expect("it is there");
        one.left
            .extend(spans.iter().filter_map(|span| Span::new(span.start(), span.end().min(size))));
        if missed_bytes > LAST_BLOCKS * BLOCK_BYTES {
            self.release(number);
        }
        self.copy_next(number);
    }

    fn release(&mut self, number: usize) {
        let one = self.process.makings.get_mut(&number).expect("it is there");
        let object = one.object;
        if std::mem::take(&mut one.has_turn) {
            self.end_turn(object);
        }
    }

    /// Goes on with a copy after an answer of its target.
    pub fn piece_answered(&mut self, number: usize, answer: &Answer) {
        if !matches!(answer, Answer::Stored) {
            return self.made(number, Err(MakeFailure::Target));
        }
        let Some(one) = self.process.makings.get_mut(&number) else { return };
        one.number += 1;
        self.copy_next(number);
    }

    fn made(&mut self, number: usize, outcome: Result<(), MakeFailure>) {
        let now = self.now();
        let Some(one) = self.process.makings.get(&number) else { return };
        let is_wanted = self.process.copies.is_wanted(&one.making);
        self.told.note(match (outcome.is_ok(), is_wanted) {
            (true, true) => "copy made",
            (_, false) => "copy became useless in the making",
            (false, true) => "copy not made",
        });
        let made = || MadeCopy {
            stat: one.stat.expect("the first answer has it"),
            applied: one.number,
            stored_in: one.making.object.clone(),
        };
        let outcome = outcome.map(|()| made());
        self.process.copies.made(now, &one.making, outcome);
        self.release(number);
        self.process.makings.remove(&number);
    }
}
