//! A simulated host of the counter: it takes the counter over, and then serves as its authority.

use std::collections::BTreeMap;
use std::time::Duration;

use nacre_capability::limits::LEASE;
use nacre_capability::{Asker, Authority, Command, Event, Policy, Time, Wish};
use nacre_conformance::Chronicle;
use nacre_conformance::network::Delivery;

use super::{Answer, Ask, Party, Sabotage, Told};

type Question = Delivery<Party, Ask, Answer>;

/// A host. Time is counted in milliseconds.
#[derive(Debug)]
pub struct Host {
    pub is_alive: bool,
    policy: Box<dyn Policy>,
    serving: Option<Serving>,
    /// The epoch of the seal that is under way.
    pub sealing: Option<u64>,
    /// The latest epoch it has heard of.
    known: u64,
    sabotage: Option<Sabotage>,
}

#[derive(Debug)]
struct Serving {
    epoch: u64,
    tail: u64,
    authority: Authority,
    next_ticket: u64,
    waiting: BTreeMap<u64, (Question, Time)>,
    /// Whether a holder must be evicted. If so, this authority has ended.
    is_overdue: bool,
}

/// What a host does.
#[derive(Debug)]
pub enum Act {
    Reply(Question, Answer),
    Seal(u64),
    /// A holder under this epoch is evicted.
    Evicted(u64),
}

impl Host {
    pub fn new(policy: Box<dyn Policy>, sabotage: Option<Sabotage>) -> Self {
        Self { is_alive: true, policy, serving: None, sealing: None, known: 0, sabotage }
    }

    pub fn crash(&mut self) {
        (self.serving, self.sealing) = (None, None);
    }

    pub fn epoch(&self) -> Option<u64> {
        self.serving.as_ref().map(|serving| serving.epoch)
    }

    pub fn serve(&mut self, now: Time, question: Question, told: &mut Chronicle) -> Vec<Act> {
        if let Ask::Acquire { epoch, .. } = question.ask
            && self.epoch().is_some_and(|own| own < epoch)
        {
            told.note("host learnt that another is in charge");
            self.serving = None;
        }
        let Some(serving) = &mut self.serving else {
            let mut acts = vec![Act::Reply(question, Answer::Refused)];
            acts.extend(self.seal());
            return acts;
        };
        match question.ask {
            Ask::Acquire { client, number, returned, .. } => {
                let mut acts = vec![];
                if let Some(returned) = returned {
                    acts.extend(self.take_back(now, returned, told));
                }
                acts.extend(self.acquire(now, client, number, question, told));
                acts
            }
            Ask::Hold { told: holder, .. } => {
                let Told { client, number, next, operations } = holder;
                let stands = serving.authority.granted(client, number).is_some();
                if stands {
                    serving.tail = serving.tail.max(next);
                }
                let heard = Event::Heard { client, number, operations, answered: 0 };
                let mut acts = self.handle(now, heard, told);
                let granted = self.serving.as_ref().and_then(|serving| {
                    serving.authority.granted(client, number).map(|granted| granted.is_revoked())
                });
                let answer = match granted {
                    Some(false) => Answer::Stands { lease: LEASE.as_millis() as u64 },
                    Some(true) | None => Answer::Ended,
                };
                acts.push(Act::Reply(question, answer));
                acts
            }
            Ask::Return { told: returned, .. } => {
                let mut acts = self.take_back(now, returned, told);
                acts.push(Act::Reply(question, Answer::Ended));
                acts
            }
            _ => unreachable!("this is not for a host"),
        }
    }

    fn acquire(
        &mut self,
        now: Time,
        client: u64,
        number: u64,
        question: Question,
        told: &mut Chronicle,
    ) -> Vec<Act> {
        let Some(serving) = &mut self.serving else { return vec![] };
        serving.next_ticket += 1;
        let ticket = serving.next_ticket;
        // A client that asks again no longer waits for its former request.
        let former = |(_, (waiting, _)): &(&u64, &(Question, Time))| waiting.from == question.from;
        let former: Vec<_> = serving.waiting.iter().filter(former).map(|(at, _)| *at).collect();
        serving.waiting.insert(ticket, (question, now));
        let mut acts = vec![];
        for ticket in former {
            if let Some(serving) = &mut self.serving {
                serving.waiting.remove(&ticket);
            }
            acts.extend(self.handle(now, Event::Withdrawn { ticket }, told));
        }
        let asker = Asker { client, entity: "e".into(), tenant: format!("t{}", client % 3).into() };
        let asked = Event::Asked { ticket, asker, wish: Wish::Exclusive, number };
        acts.extend(self.handle(now, asked, told));
        acts
    }

    fn take_back(&mut self, now: Time, returned: Told, told: &mut Chronicle) -> Vec<Act> {
        let Some(serving) = &mut self.serving else { return vec![] };
        let Told { client, number, next, operations } = returned;
        if serving.authority.granted(client, number).is_none() {
            return vec![];
        }
        if self.sabotage != Some(Sabotage::TailForgotten) {
            serving.tail = serving.tail.max(next);
        }
        self.handle(now, Event::Returned { client, number, operations }, told)
    }

    pub fn tick(&mut self, now: Time, told: &mut Chronicle) -> Vec<Act> {
        if !self.is_alive {
            return vec![];
        }
        let mut acts = self.handle(now, Event::Tick, told);
        if let Some(serving) = self.serving.as_ref().filter(|serving| serving.is_overdue) {
            self.known = self.known.max(serving.epoch);
            acts.extend(self.seal());
        }
        acts
    }

    fn handle(&mut self, now: Time, event: Event, told: &mut Chronicle) -> Vec<Act> {
        let Some(serving) = &mut self.serving else { return vec![] };
        let commands = serving.authority.handle(now, event, &*self.policy);
        let mut acts = vec![];
        for command in commands {
            match command {
                Command::Grant { ticket, terms, .. } => {
                    told.note("granted");
                    let Some((question, since)) = serving.waiting.remove(&ticket) else { continue };
                    let lease = (LEASE + now.saturating_sub(since)).as_millis() as u64;
                    let (next, epoch) = (serving.tail, serving.epoch);
                    let quota = terms.operations;
                    acts.push(Act::Reply(question, Answer::Lent { next, epoch, lease, quota }));
                }
                Command::Serve { ticket, .. } => {
                    told.note("served by a round trip");
                    let Some((question, _)) = serving.waiting.remove(&ticket) else { continue };
                    let (position, epoch) = (serving.tail, serving.epoch);
                    serving.tail += 1;
                    acts.push(Act::Reply(question, Answer::Position { position, epoch }));
                }
                Command::Refuse { ticket } | Command::Busy { ticket } => {
                    told.note("answer to an earlier question refused");
                    let Some((question, _)) = serving.waiting.remove(&ticket) else { continue };
                    acts.push(Act::Reply(question, Answer::Refused));
                }
                Command::Revoke { .. } => told.note("revoked"),
                Command::Evict { .. } => {
                    told.note("evicted");
                    serving.is_overdue = true;
                    acts.push(Act::Evicted(serving.epoch));
                }
            }
        }
        acts
    }

    fn seal(&mut self) -> Option<Act> {
        if self.sealing.is_some() {
            return None;
        }
        let epoch = self.known + 1;
        self.sealing = Some(epoch);
        Some(Act::Seal(epoch))
    }

    /// Handles the result of a seal. The host whose seal came first serves.
    pub fn hear(&mut self, answer: Answer) {
        self.sealing = None;
        let Answer::Sealed { epoch, is_ours, tail } = answer else { return };
        self.known = self.known.max(epoch);
        if is_ours {
            let (authority, next_ticket, waiting, is_overdue) = Default::default();
            self.serving =
                Some(Serving { epoch, tail, authority, next_ticket, waiting, is_overdue });
        } else if self.epoch().is_some_and(|own| own < epoch) {
            self.serving = None;
        }
    }
}

/// So that a holder keeps its grant for some time.
#[derive(Debug)]
pub struct Lasting(pub nacre_capability::Terms);

impl Policy for Lasting {
    fn grant(&self, ask: &nacre_capability::Ask<'_>) -> nacre_capability::Verdict {
        use nacre_capability::Verdict;
        if ask.waiting > 1 { Verdict::RoundTrip(Duration::ZERO) } else { Verdict::Grant(self.0) }
    }

    fn turn(&self, waiting: &[nacre_capability::Ask<'_>]) -> usize {
        waiting.len() - 1
    }
}
