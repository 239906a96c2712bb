//! A simulated client of the counter. Each of its operations takes one position. While the client
//! holds the capability, it issues positions itself; otherwise it asks the authority for them.

use std::time::Duration;

use nacre_capability::{Holder, Over, Time};
use nacre_clock::Random;
use nacre_conformance::Chronicle;

use super::{Answer, Ask, HOSTS, Sabotage, Told};

pub struct Client {
    n: usize,
    /// Counts the client's crashes: after a crash it acts as a new client.
    life: u64,
    left: u64,
    /// Counts the positions it has used: no two uses are alike.
    serial: u64,
    host: usize,
    number: u64,
    /// The latest epoch it knows there is.
    known: u64,
    /// When each attempt was sent, by its clock.
    sent: Time,
    lent: Option<Lent>,
    unreturned: Option<Told>,
    writing: Option<Ask>,
    pub is_acquiring: bool,
    pub acknowledged: Vec<(u64, u64)>,
    sabotage: Option<Sabotage>,
}

struct Lent {
    holder: Holder,
    next: u64,
    epoch: u64,
}

impl Client {
    pub fn new(n: usize, left: u64, sabotage: Option<Sabotage>) -> Self {
        Self {
            n,
            life: 0,
            left,
            serial: 0,
            host: 0,
            number: 0,
            known: 0,
            sent: Time::ZERO,
            lent: None,
            unreturned: None,
            writing: None,
            is_acquiring: false,
            acknowledged: vec![],
            sabotage,
        }
    }

    fn id(&self) -> u64 {
        self.life * 100 + self.n as u64 + 1
    }

    pub fn is_done(&self) -> bool {
        self.left == 0
    }

    /// The epoch of the client's grant, if it has one.
    pub fn holds_under(&self) -> Option<u64> {
        self.lent.as_ref().map(|lent| lent.epoch)
    }

    /// The client forgets everything. Its last operation may have happened.
    pub fn crash(&mut self) {
        let (life, left) = (self.life + 1, self.left);
        let acknowledged = std::mem::take(&mut self.acknowledged);
        *self = Self { life, acknowledged, ..Self::new(self.n, left, self.sabotage) };
    }

    /// Returns the client's next request, if any. The second value says whether the client issued a
    /// position itself.
    pub fn go_on(&mut self, now: Time, told: &mut Chronicle) -> (Option<Ask>, bool) {
        if let Some(writing) = &self.writing {
            return (Some(writing.clone()), false);
        }
        if self.left == 0 || self.is_acquiring {
            return (None, false);
        }
        if let Some(lent) = &mut self.lent {
            let clock = match self.sabotage {
                Some(Sabotage::LeaseIgnored) => Time::ZERO,
                _ => now,
            };
            match lent.holder.take(clock, 1) {
                Ok(_) => {
                    told.note("operation by a grant");
                    let (position, epoch) = (lent.next, lent.epoch);
                    lent.next += 1;
                    return (Some(self.write(position, epoch)), true);
                }
                Err(Over::Lease) => told.note("lease over"),
                Err(Over::Quota) => told.note("quota used up"),
                Err(Over::Ended) => {}
            }
        }
        let returned = self.end();
        if returned.is_some() {
            told.note("returned with a question");
        }
        self.number += 1;
        (self.sent, self.is_acquiring) = (now, true);
        let (host, client, number, epoch) = (self.host, self.id(), self.number, self.known);
        (Some(Ask::Acquire { host, client, number, returned, epoch }), false)
    }

    fn write(&mut self, position: u64, epoch: u64) -> Ask {
        self.serial += 1;
        let operation = self.id() * 100_000 + self.serial;
        let ask = Ask::Write { epoch, position, operation };
        self.writing = Some(ask.clone());
        ask
    }

    /// The client's poll of its authority, with a report of its grant.
    pub fn report(&self) -> Option<Ask> {
        let told = self.lent.as_ref().map(|lent| self.told(lent))?;
        Some(Ask::Hold { host: self.host, told })
    }

    fn told(&self, lent: &Lent) -> Told {
        let (number, operations) = (lent.holder.number(), lent.holder.operations());
        Told { client: self.id(), number, next: lent.next, operations }
    }

    fn end(&mut self) -> Option<Told> {
        let Some(lent) = &mut self.lent else { return self.unreturned };
        let goes_on = self.sabotage == Some(Sabotage::ReturnedStillUsed);
        if !goes_on {
            lent.holder.end();
        }
        let (number, operations, next) =
            (lent.holder.number(), lent.holder.operations(), lent.next);
        if !goes_on {
            self.lent = None;
        }
        self.unreturned = Some(Told { client: self.id(), number, next, operations });
        self.unreturned
    }

    /// Handles an answer. Returns the request that the client sends next.
    pub fn hear(
        &mut self,
        sent: Time,
        ask: &Ask,
        answer: Answer,
        random: &mut Random,
        told: &mut Chronicle,
    ) -> Option<Ask> {
        match (ask, answer) {
            (Ask::Acquire { client, number, .. }, answer) => {
                let is_last = *client == self.id() && *number == self.number;
                if is_last && self.is_acquiring {
                    self.acquired(answer, random);
                }
                None
            }
            (Ask::Hold { told: of, .. }, Answer::Stands { lease }) => {
                let id = self.id();
                let lent = self
                    .lent
                    .as_mut()
                    .filter(|lent| of.client == id && lent.holder.number() == of.number)?;
                lent.holder.renew(sent, Duration::from_millis(lease));
                None
            }
            (Ask::Hold { told: of, host }, Answer::Ended) => {
                let lent = self.lent.as_ref()?;
                let is_it = of.client == self.id() && lent.holder.number() == of.number;
                let told = is_it.then(|| self.end())??;
                Some(Ask::Return { host: *host, told })
            }
            (Ask::Write { position, operation, epoch }, answer) => {
                let is_it = matches!(&self.writing, Some(Ask::Write { operation: own, position: at, .. })
                    if own == operation && at == position);
                if is_it {
                    self.wrote(*epoch, *position, *operation, answer, told);
                }
                None
            }
            _ => None,
        }
    }

    fn acquired(&mut self, answer: Answer, random: &mut Random) {
        self.is_acquiring = false;
        match answer {
            Answer::Lent { next, epoch, lease, quota } => {
                self.unreturned = None;
                let lease = Duration::from_millis(lease);
                let holder = Holder::new(self.number, self.sent, lease, quota);
                self.lent = Some(Lent { holder, next, epoch });
                // From now on the client ignores authorities of earlier epochs, because they do not
                // know the grant.
                self.known = self.known.max(epoch);
            }
            Answer::Position { position, epoch } => {
                self.unreturned = None;
                self.known = self.known.max(epoch);
                self.write(position, epoch);
            }
            // Perhaps another host serves.
            _ => self.host = random.below(HOSTS as u64) as usize,
        }
    }

    fn wrote(
        &mut self,
        epoch: u64,
        position: u64,
        operation: u64,
        answer: Answer,
        told: &mut Chronicle,
    ) {
        match answer {
            Answer::Written => {
                self.writing = None;
                self.acknowledged.push((position, operation));
                self.left -= 1;
            }
            Answer::Stale => {
                told.note("late operation refused");
                // Another authority is in charge, so the client gives up the position and the
                // grant.
                (self.writing, self.lent) = (None, None);
                self.known = self.known.max(epoch + 1);
            }
            _ => {}
        }
    }
}
