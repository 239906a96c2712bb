//! A simulated network, over which the parties of a simulation (clients, nodes) send their
//! messages.
//!
//! Each message takes time. In a *storm* some messages are lost, some arrive twice, and some arrive
//! after later ones. A paused party receives nothing, not even its own timers; when it resumes, it
//! receives everything at once. If a party's clock jumps, its timers fire early or late. All of
//! this follows from the seed of the [`Random`] that is passed in, so the same seed always gives
//! the same trace.

use std::collections::{BTreeMap, BTreeSet};

use nacre_clock::Random;

/// How long a party waits for the answer to a request before it gives up. In a storm, the answer
/// may still arrive later.
pub const PATIENCE: u64 = 60;
/// A message usually takes less than this.
const USUAL_DELAY: u64 = 10;
/// In a storm, one message in this many is lost, and one in this many is repeated.
const LOST_ONE_IN: u64 = 12;
/// In a storm, one message in this many is slow. Its sender has often given up before the answer
/// arrives.
const SLOW_ONE_IN: u64 = 10;

/// Records an event of the network by its name, which is one of [`NOTES`].
pub type Note<'a> = &'a mut dyn FnMut(&'static str);

/// Every name that is given to a [`Note`].
pub const NOTES: [&str; 5] = [
    "question lost",
    "answer lost",
    "question repeated",
    "message overtaken",
    "answer after its asker gave up",
];

/// The direction of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Leg<Answer> {
    /// A request, which goes from the sender to the receiver.
    Question,
    /// The answer to a request, which goes back to its sender.
    Answer(Answer),
    /// Tells the sender of a request that it has waited for [`PATIENCE`].
    Timeout,
}

/// A message that arrives.
#[derive(Debug, Clone)]
pub struct Delivery<Party, Ask, Answer> {
    /// The sender of the request.
    pub from: Party,
    /// The receiver of the request.
    pub to: Party,
    /// The number of the request among those of its sender.
    pub id: u64,
    /// The request.
    pub ask: Ask,
    /// The direction of the message.
    pub leg: Leg<Answer>,
}

impl<Party: Copy, Ask, Answer> Delivery<Party, Ask, Answer> {
    fn receiver(&self) -> Party {
        match self.leg {
            Leg::Question => self.to,
            Leg::Answer(_) | Leg::Timeout => self.from,
        }
    }

    fn is_timer(&self) -> bool {
        matches!(self.leg, Leg::Timeout)
    }
}

/// The simulated network, with the messages in flight.
#[derive(Debug)]
pub struct Network<Party, Ask, Answer> {
    /// Whether there is a storm.
    pub is_stormy: bool,
    now: u64,
    sent: u64,
    /// The messages in flight, by the time of arrival and then by the order of sending.
    under_way: BTreeMap<(u64, u64), Delivery<Party, Ask, Answer>>,
    /// Requests that were answered or given up. Their senders get no further answer.
    settled: BTreeSet<(Party, u64)>,
    /// The paused parties, and until when each is paused.
    paused: BTreeMap<Party, u64>,
    /// The time of the latest message to each party.
    latest: BTreeMap<Party, u64>,
}

impl<Party, Ask, Answer> Default for Network<Party, Ask, Answer> {
    fn default() -> Self {
        Self {
            is_stormy: false,
            now: 0,
            sent: 0,
            under_way: BTreeMap::new(),
            settled: BTreeSet::new(),
            paused: BTreeMap::new(),
            latest: BTreeMap::new(),
        }
    }
}

impl<Party: Copy + Ord, Ask: Clone, Answer: Clone> Network<Party, Ask, Answer> {
    /// The simulated time.
    pub fn now(&self) -> u64 {
        self.now
    }

    /// Sends a request. Its sender gets exactly one answer or one timeout.
    pub fn send(
        &mut self,
        random: &mut Random,
        note: Note,
        (from, id): (Party, u64),
        (to, ask): (Party, Ask),
    ) {
        let question = Delivery { from, to, id, ask, leg: Leg::Question };
        let timer = Delivery { leg: Leg::Timeout, ..question.clone() };
        if self.is_stormy && random.one_in(LOST_ONE_IN) {
            note("question lost");
        } else {
            self.put(random, question.clone());
        }
        if self.is_stormy && random.one_in(LOST_ONE_IN) {
            note("question repeated");
            self.put(random, question);
        }
        self.put_after(PATIENCE, timer);
    }

    /// Sends a message of a stream, which needs no answer. It may be late. It is lost only if its
    /// whole stream is cut off.
    pub fn post(&mut self, random: &mut Random, (from, id): (Party, u64), (to, ask): (Party, Ask)) {
        self.put(random, Delivery { from, to, id, ask, leg: Leg::Question });
    }

    /// Sends the answer to a request.
    pub fn reply(
        &mut self,
        random: &mut Random,
        note: Note,
        question: Delivery<Party, Ask, Answer>,
        answer: Answer,
    ) {
        if self.is_stormy && random.one_in(LOST_ONE_IN) {
            note("answer lost");
        } else {
            self.put(random, Delivery { leg: Leg::Answer(answer), ..question });
        }
    }

    /// Wakes a party after a while, unless its clock jumps.
    pub fn wake(&mut self, party: Party, id: u64, ask: Ask, after: u64) {
        self.put_after(after, Delivery { from: party, to: party, id, ask, leg: Leg::Timeout });
    }

    fn put(&mut self, random: &mut Random, delivery: Delivery<Party, Ask, Answer>) {
        let is_slow = self.is_stormy && random.one_in(SLOW_ONE_IN);
        let delay = 1 + random.below(if is_slow { 5 * PATIENCE } else { USUAL_DELAY });
        self.put_after(delay, delivery);
    }

    fn put_after(&mut self, delay: u64, delivery: Delivery<Party, Ask, Answer>) {
        self.sent += 1;
        self.under_way.insert((self.now + delay, self.sent), delivery);
    }

    /// Pauses one party for a while. Afterwards it continues where it stopped.
    pub fn pause(&mut self, party: Party, time: u64) {
        self.paused.insert(party, self.now + time);
    }

    /// Ends all pauses.
    pub fn resume_all(&mut self) {
        self.paused.clear();
    }

    /// Makes the clock of a party jump by this much, so that its timers fire earlier or later.
    pub fn jump_clock(&mut self, party: Party, by: i64) {
        let all = std::mem::take(&mut self.under_way);
        for ((time, sequence), delivery) in all {
            let is_its_timer = delivery.is_timer() && delivery.from == party;
            let jumped = time.saturating_add_signed(-by).max(self.now);
            self.under_way.insert((if is_its_timer { jumped } else { time }, sequence), delivery);
        }
    }

    /// The message that arrives next; `None` if no message is in flight.
    pub fn next(&mut self, note: Note) -> Option<Delivery<Party, Ask, Answer>> {
        while let Some(((time, sequence), delivery)) = self.under_way.pop_first() {
            self.now = time;
            let receiver = delivery.receiver();
            if let Some(until) = self.paused.get(&receiver).copied() {
                if until > time {
                    self.under_way.insert((until, sequence), delivery);
                    continue;
                }
                self.paused.remove(&receiver);
            }
            let is_heard = matches!(delivery.leg, Leg::Question)
                || self.settled.insert((delivery.from, delivery.id));
            if !is_heard {
                if !delivery.is_timer() {
                    note("answer after its asker gave up");
                }
                continue;
            }
            if !delivery.is_timer() {
                let latest = self.latest.entry(receiver).or_default();
                if sequence < *latest {
                    note("message overtaken");
                }
                *latest = (*latest).max(sequence);
            }
            return Some(delivery);
        }
        None
    }
}
