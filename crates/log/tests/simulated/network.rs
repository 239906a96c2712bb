//! Messages on their way: each takes its time. In a storm some are lost, some arrive twice, some
//! are overtaken; whoever is paused hears nothing, not even its own timers, until it goes on; and
//! clocks jump, so that timers ring early or late.

use std::collections::{BTreeMap, BTreeSet};

use nacre_clock::Random;

use super::{Answer, Ask, Chronicle, Party};

/// After so long without an answer an asker takes it that there is none. Answers and repeated
/// questions may take longer.
const PATIENCE: u64 = 60;

#[derive(Debug, Clone)]
pub struct Delivery {
    pub from: Party,
    /// Which of the asker's questions it is.
    pub id: u64,
    pub ask: Ask,
    /// `None` on the way there.
    pub answer: Option<Answer>,
}

impl Delivery {
    fn to(&self) -> Party {
        if self.answer.is_none() { self.ask.to() } else { self.from }
    }

    fn is_timer(&self) -> bool {
        self.answer == Some(Answer::Silence)
    }
}

#[derive(Default)]
pub struct Network {
    pub is_stormy: bool,
    pub now: u64,
    sent: u64,
    /// By time of arrival, and by order of sending for those of one time.
    under_way: BTreeMap<(u64, u64), Delivery>,
    /// Questions that were answered, or given up: whoever asked hears one answer.
    settled: BTreeSet<(Party, u64)>,
    /// Who stands still, and until when.
    paused: BTreeMap<Party, u64>,
    /// The latest message each has got.
    latest: BTreeMap<Party, u64>,
}

impl Network {
    pub fn send(
        &mut self,
        random: &mut Random,
        told: &mut Chronicle,
        from: Party,
        id: u64,
        ask: Ask,
    ) {
        let question = Delivery { from, id, ask, answer: None };
        let timer = Delivery { answer: Some(Answer::Silence), ..question.clone() };
        if self.is_stormy && random.one_in(12) {
            told.note("question lost");
        } else {
            self.put(random, question.clone());
        }
        if self.is_stormy && random.one_in(12) {
            told.note("question repeated");
            self.put(random, question);
        }
        self.put_after(PATIENCE, timer);
    }

    pub fn reply(&mut self, random: &mut Random, told: &mut Chronicle, answer: Delivery) {
        if self.is_stormy && random.one_in(12) {
            told.note("answer lost");
        } else {
            self.put(random, answer);
        }
    }

    fn put(&mut self, random: &mut Random, delivery: Delivery) {
        // Mostly quick; sometimes so slow that nobody waits for it any more.
        let is_slow = self.is_stormy && random.one_in(10);
        let delay = 1 + random.below(if is_slow { 5 * PATIENCE } else { 10 });
        self.put_after(delay, delivery);
    }

    fn put_after(&mut self, delay: u64, delivery: Delivery) {
        self.sent += 1;
        self.under_way.insert((self.now + delay, self.sent), delivery);
    }

    /// Stops the world of one party for a while; then it goes on where it was.
    pub fn pause(&mut self, party: Party, time: u64) {
        self.paused.insert(party, self.now + time);
    }

    /// Lets everybody go on.
    pub fn resume_all(&mut self) {
        self.paused.clear();
    }

    /// A party's clock jumps by so much: what it waits for seems to take so much longer or shorter.
    pub fn jump_clock(&mut self, party: Party, by: i64) {
        let all = std::mem::take(&mut self.under_way);
        for ((time, sequence), delivery) in all {
            let is_its_timer = delivery.is_timer() && delivery.from == party;
            let jumped = time.saturating_add_signed(-by).max(self.now);
            self.under_way.insert((if is_its_timer { jumped } else { time }, sequence), delivery);
        }
    }

    /// The next message to arrive anywhere.
    pub fn next(&mut self, told: &mut Chronicle) -> Option<Delivery> {
        while let Some(((time, sequence), delivery)) = self.under_way.pop_first() {
            self.now = time;
            let to = delivery.to();
            if let Some(until) = self.paused.get(&to).copied() {
                if until > time {
                    self.under_way.insert((until, sequence), delivery);
                    continue;
                }
                self.paused.remove(&to);
            }
            let is_heard =
                delivery.answer.is_none() || self.settled.insert((delivery.from, delivery.id));
            if !is_heard {
                if !delivery.is_timer() {
                    told.note("answer after its asker gave up");
                }
                continue;
            }
            if !delivery.is_timer() {
                let latest = self.latest.entry(to).or_default();
                if sequence < *latest {
                    told.note("message overtaken");
                }
                *latest = (*latest).max(sequence);
            }
            return Some(delivery);
        }
        None
    }
}
