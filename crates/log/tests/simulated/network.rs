//! Messages on their way: each takes its time; in a storm some are lost and some arrive twice.

use std::collections::{BTreeMap, BTreeSet};

use nacre_clock::Random;

use super::{Answer, Ask, Party};

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

#[derive(Default)]
pub struct Network {
    pub is_stormy: bool,
    now: u64,
    sent: u64,
    /// By time of arrival, and by order of sending for those of one time.
    under_way: BTreeMap<(u64, u64), Delivery>,
    /// Questions that were answered, or given up: whoever asked hears one answer.
    settled: BTreeSet<(Party, u64)>,
}

impl Network {
    pub fn send(&mut self, random: &mut Random, from: Party, id: u64, ask: Ask) {
        let question = Delivery { from, id, ask, answer: None };
        let silence = Delivery { answer: Some(Answer::Silence), ..question.clone() };
        if !(self.is_stormy && random.one_in(12)) {
            self.put(random, question.clone());
        }
        if self.is_stormy && random.one_in(12) {
            self.put(random, question);
        }
        self.put_after(PATIENCE, silence);
    }

    pub fn reply(&mut self, random: &mut Random, from: Party, id: u64, ask: Ask, answer: Answer) {
        if !(self.is_stormy && random.one_in(12)) {
            self.put(random, Delivery { from, id, ask, answer: Some(answer) });
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

    /// The next message to arrive anywhere.
    pub fn next(&mut self) -> Option<Delivery> {
        while let Some(((time, _), delivery)) = self.under_way.pop_first() {
            self.now = time;
            let is_heard =
                delivery.answer.is_none() || self.settled.insert((delivery.from, delivery.id));
            if is_heard {
                return Some(delivery);
            }
        }
        None
    }
}
