//! A simulated committer: activates, rolls back and removes programs, and also commits to the map
//! `data`.

use std::collections::BTreeMap;

use bytes::Bytes;
use nacre_clock::Random;
use nacre_conformance::Chronicle;
use nacre_conformance::histories::{MapAnswer, MapCall, Recorder, Ticket};
use nacre_object::ErrorKind;
use nacre_program::Digest;

use super::{Answer, Ask, Asks};
use crate::maps::{Change, MapState, testing};
use crate::programs::{ProgramId, ProgramRecord, VersionRecord};

/// How many times at most a commit is sent while its outcome is not known.
const MAX_ATTEMPTS: u32 = 10;
const PROGRAMS: [&str; 3] = ["class/one", "route/two", "map/three"];

pub(super) type History = Recorder<MapCall, MapAnswer>;

pub(super) struct Committer {
    n: usize,
    left: usize,
    next_id: u64,
    map: &'static str,
    task: Option<Task>,
}

enum Task {
    Read(Ticket),
    Commit { ticket: Ticket, input: Bytes, attempts: u32 },
}

impl Committer {
    pub(super) fn new(n: usize, left: usize) -> Self {
        Self { n, left, next_id: 0, map: "data", task: None }
    }

    fn ask(&mut self, method: &'static str, input: Bytes) -> Asks {
        self.next_id += 1;
        vec![(self.next_id, Ask::Call { map: self.map, method, input })]
    }

    /// Begins the next round: reads, to commit what follows from that.
    pub(super) fn start(
        &mut self,
        random: &mut Random,
        histories: &BTreeMap<&'static str, History>,
    ) -> Asks {
        if self.left == 0 {
            self.task = None;
            return vec![];
        }
        self.left -= 1;
        self.map = if random.one_in(2) { "data" } else { "programs" };
        self.read(histories)
    }

    fn read(&mut self, histories: &BTreeMap<&'static str, History>) -> Asks {
        self.task = Some(Task::Read(histories[self.map].begin(MapCall::Get)));
        self.ask("get", testing::get())
    }

    pub(super) fn hear(
        &mut self,
        answer: Option<Answer>,
        random: &mut Random,
        histories: &BTreeMap<&'static str, History>,
        told: &mut Chronicle,
    ) -> Asks {
        let history = &histories[self.map];
        match (self.task.take(), answer) {
            (Some(Task::Read(ticket)), Some(Ok(output))) => {
                let state = testing::whole(self.map, output);
                history.end(ticket, MapAnswer::Whole(state.epoch, texts(&state)));
                self.commit(&state, random, history)
            }
            (Some(Task::Read(ticket)), _) => {
                history.never_happened(ticket);
                self.read(histories)
            }
            (Some(Task::Commit { ticket, attempts, .. }), Some(Ok(output))) => {
                if attempts > 1 {
                    told.note("commit known again after a lost answer");
                }
                history.end(ticket, MapAnswer::Began(testing::epoch_begun(output)));
                self.start(random, histories)
            }
            (Some(Task::Commit { ticket, .. }), Some(Err(ErrorKind::Conflict))) => {
                told.note("commit refused: another was first");
                history.end(ticket, MapAnswer::Conflict);
                self.read(histories)
            }
            (Some(Task::Commit { ticket, input, attempts }), None) if attempts < MAX_ATTEMPTS => {
                let again = Task::Commit { ticket, input: input.clone(), attempts: attempts + 1 };
                self.task = Some(again);
                self.ask("commit", input)
            }
            (Some(Task::Commit { .. }), _) => {
                told.note("commit given up in doubt");
                self.start(random, histories)
            }
            (None, _) => vec![],
        }
    }

    fn commit(&mut self, state: &MapState, random: &mut Random, history: &History) -> Asks {
        let (key, value) = match self.map {
            "data" => (format!("k{}", random.below(3)), Bytes::from(format!("{}", self.left))),
            _ => decide(state, random),
        };
        let call = MapCall::Commit {
            expected: state.epoch,
            key: key.clone(),
            value: String::from_utf8(value.to_vec()).expect("text"),
        };
        let ticket = history.begin(call);
        let id = ((self.n as u64) << 32) + self.next_id;
        let change = Change::set(key, value);
        let input = testing::commit(self.map, state.epoch, &[change], id);
        self.task = Some(Task::Commit { ticket, input: input.clone(), attempts: 1 });
        self.ask("commit", input)
    }
}

fn texts(state: &MapState) -> BTreeMap<String, String> {
    let text = |value: &Bytes| String::from_utf8(value.to_vec()).expect("text");
    state.entries.iter().map(|(key, value)| (key.clone(), text(value))).collect()
}

/// What to do to the programs as they are, as [`Programs`](crate::Programs) does it.
fn decide(state: &MapState, random: &mut Random) -> (String, Bytes) {
    let key = *random.pick(&PROGRAMS).expect("there are some");
    let program: ProgramId = key.parse().expect("a literal");
    let stored = state.entries.get(key);
    let mut record = stored.map_or_else(ProgramRecord::default, |value| {
        ProgramRecord::parse(key, value, state.epoch).expect("its own value")
    });
    let epoch = state.epoch + 1;
    let is_rolled_back = random.one_in(4) && record.roll_back(&program, epoch).is_ok();
    if !is_rolled_back {
        if random.one_in(6) {
            record.remove(None, epoch);
        } else {
            let digest = Digest::of(random.below(8).to_string());
            let version = record.put(VersionRecord { digest, bytes: 1, created_at_micros: 0 });
            record.activate(&program, version, epoch).expect("it was put");
        }
    }
    (key.to_owned(), record.to_value())
}
