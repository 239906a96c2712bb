//! Decides which clients may use the state of one resource: events and the time in, commands out.

use std::time::Duration;

use super::granted::Granted;
use super::recent_requests::RecentRequests;
use crate::limits::{ALONE, MAX_CONSIDERED, MAX_KEEP, MAX_WAITING};
use crate::policy::{Ask, Asker, Mode, Policy, Terms, Time, Verdict, Wish};

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A client asks for a capability or for one operation. `ticket` identifies the request.
    Asked {
        /// The request.
        ticket: u64,
        /// The client that asks.
        asker: Asker,
        /// What the client asks for.
        wish: Wish,
        /// The number of the grant, if the client gets one. It is greater than any number that this
        /// client has used.
        number: u64,
    },
    /// The client no longer waits for the answer to its request.
    Withdrawn {
        /// The request.
        ticket: u64,
    },
    /// A holder polls the authority, which renews its lease.
    Heard {
        /// The holder.
        client: u64,
        /// Its grant.
        number: u64,
        /// What it has done by the grant.
        operations: u64,
        /// The number of the last report that the authority had asked of the holder.
        answered: u64,
    },
    /// A holder has ended its grant.
    Returned {
        /// The holder.
        client: u64,
        /// Its grant.
        number: u64,
        /// What it has done by the grant.
        operations: u64,
    },
    /// Time has passed.
    Tick,
}

/// What the caller must do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// Tell a client that it has a grant.
    Grant {
        /// Its request.
        ticket: u64,
        /// The number of the grant.
        number: u64,
        /// What it holds.
        mode: Mode,
        /// On which terms.
        terms: Terms,
    },
    /// Do the one operation that a client asked for, now.
    Serve {
        /// Its request.
        ticket: u64,
        /// How long the client shall use round trips.
        again: Duration,
    },
    /// Refuse a late request: a later request of the same client has been answered.
    Refuse {
        /// The request.
        ticket: u64,
    },
    /// Tell a client to ask again later: too many clients wait.
    Busy {
        /// Its request.
        ticket: u64,
    },
    /// Tell a holder that its grant is revoked.
    Revoke {
        /// The holder.
        client: u64,
    },
    /// A holder has not returned its grant in time. The caller must fence off all holders, and
    /// recover the state without their help. This authority ends; the next one serves the waiting
    /// clients.
    Evict {
        /// The holder.
        client: u64,
    },
}

/// A report that the authority has asked of a holder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Question {
    client: u64,
    number: u64,
    question: u64,
}

#[derive(Debug)]
struct Waiting {
    ticket: u64,
    asker: Asker,
    wish: Wish,
    number: u64,
    since: Time,
}

/// Decides which clients may use the state of one resource.
///
/// An authority exists only in memory. Its successor first fences off all holders, and then starts
/// without grants.
#[derive(Debug, Default)]
pub struct Authority {
    grants: Vec<Granted>,
    /// The waiting requests, in order of arrival.
    waiting: Vec<Waiting>,
    recent: RecentRequests,
    /// While this is not 0, the authority grants no capability.
    bars: usize,
    /// Whether this authority has evicted a holder. If so, it no longer serves any client.
    has_ended: bool,
}

impl Authority {
    /// Whether one operation of this client can be done at once. It can if no client holds the
    /// capability or waits for it. Reads the clock only if another client sent the last request.
    pub fn passes(&mut self, client: u64, now: impl FnOnce() -> Time) -> bool {
        let passes = self.is_free();
        if passes && !self.recent.is_sole(client) {
            self.recent.note(now(), client, Wish::Write);
        }
        passes
    }

    /// Whether no client holds a capability or waits for one.
    pub fn is_free(&self) -> bool {
        self.grants.is_empty() && self.waiting.is_empty() && !self.has_ended
    }

    /// The grants that have not been returned.
    pub fn grants(&self) -> &[Granted] {
        &self.grants
    }

    /// The grant of this client and number, unless it has ended.
    pub fn granted(&self, client: u64, number: u64) -> Option<&Granted> {
        self.grants.iter().find(|granted| granted.is_of(client, number))
    }

    /// When [`Event::Tick`] is due, if nothing else happens.
    pub fn due_at(&self) -> Option<Time> {
        self.grants.iter().filter_map(Granted::due_at).min()
    }

    /// Asks each holder to report how many operations it has done. If a holder does not answer
    /// within [`LEASE`](crate::limits::LEASE), the authority revokes its grant.
    pub fn question(&mut self, now: Time) -> Vec<Question> {
        let ask = |granted: &mut Granted| Question {
            client: granted.asker.client,
            number: granted.number,
            question: granted.ask(now),
        };
        self.grants.iter_mut().map(ask).collect()
    }

    /// Whether the holder has sent the report, or need not because its grant has ended.
    pub fn is_answered(&self, asked: Question) -> bool {
        let granted = self.granted(asked.client, asked.number);
        granted.is_none_or(|granted| granted.answered >= asked.question)
    }

    /// Revokes all grants, and grants nothing until [`Authority::unbar`].
    pub fn bar(&mut self, now: Time) -> Vec<Command> {
        self.bars += 1;
        self.grants.iter_mut().for_each(|granted| granted.limit(now, Duration::ZERO));
        self.tick(now)
    }

    /// Ends what [`Authority::bar`] began.
    pub fn unbar(&mut self) {
        self.bars = self.bars.saturating_sub(1);
    }

    /// Call this after the policy has changed. The new policy decides about each grant. If the
    /// policy refuses a grant, the authority revokes it; otherwise the grant continues on the new
    /// terms. A new limit on the number of operations applies only to the holder's next grant.
    pub fn reconsider(&mut self, now: Time, policy: &dyn Policy) -> Vec<Command> {
        let (waiting, recent) = (self.waiting.len(), &self.recent);
        for granted in &mut self.grants {
            let asker = granted.asker.clone();
            let ask = Ask {
                asker: &asker,
                wish: granted.mode.wish(),
                waited: Duration::ZERO,
                alone: recent.alone(now, asker.client, granted.mode.wish()),
                waiting,
                operations: recent.operations(&asker.tenant),
            };
            match verdict(policy, &ask) {
                Verdict::Grant(terms) => granted.terms = terms,
                Verdict::RoundTrip(_) => granted.limit(now, Duration::ZERO),
            }
        }
        self.limit_grants(now, policy);
        self.tick(now)
    }

    /// Takes an event and returns the next commands. Late or repeated events are harmless.
    pub fn handle(&mut self, now: Time, event: Event, policy: &dyn Policy) -> Vec<Command> {
        match event {
            Event::Asked { ticket, asker, wish, number } => {
                let asked = Waiting { ticket, asker, wish, number, since: now };
                self.asked(now, asked, policy)
            }
            Event::Withdrawn { ticket } => {
                self.waiting.retain(|waiting| waiting.ticket != ticket);
                vec![]
            }
            Event::Heard { client, number, operations, answered } => {
                let heard = self.grants.iter_mut().find(|granted| granted.is_of(client, number));
                if let Some(granted) = heard {
                    granted.hear(now, operations, answered);
                }
                self.tick(now)
            }
            Event::Returned { client, number, operations } => {
                self.end(client, number, operations);
                self.serve_waiting(now, policy)
            }
            Event::Tick => self.tick(now),
        }
    }

    fn asked(&mut self, now: Time, asked: Waiting, policy: &dyn Policy) -> Vec<Command> {
        let (client, ticket) = (asked.asker.client, asked.ticket);
        self.recent.note(now, client, asked.wish);
        let own = self.grants.iter().find(|granted| client != 0 && granted.asker.client == client);
        if let (Some(own), true) = (own, asked.wish.mode().is_some()) {
            let number = own.number;
            if asked.number <= number {
                return vec![Command::Refuse { ticket }];
            }
            // The client was never told of that grant, or it would have returned the grant first.
            self.end(client, number, 0);
        }
        if self.waiting.len() >= MAX_WAITING {
            return vec![Command::Busy { ticket }];
        }
        self.waiting.push(asked);
        self.serve_waiting(now, policy)
    }

    fn end(&mut self, client: u64, number: u64, operations: u64) {
        let Some(at) = self.grants.iter().position(|granted| granted.is_of(client, number)) else {
            return;
        };
        let ended = self.grants.swap_remove(at);
        self.recent.used(&ended.asker.tenant, operations.max(ended.operations));
    }

    /// Serves the waiting clients in the order that the policy chooses. Stops when the next client
    /// must wait until a holder returns its grant.
    fn serve_waiting(&mut self, now: Time, policy: &dyn Policy) -> Vec<Command> {
        let mut commands = vec![];
        while !self.waiting.is_empty() && !self.has_ended {
            let turn = self.turn(now, policy);
            if self.is_kept_waiting(turn) {
                self.limit_grants(now, policy);
                commands.extend(self.tick(now));
                break;
            }
            commands.push(self.serve(now, turn, policy));
        }
        commands
    }

    fn turn(&self, now: Time, policy: &dyn Policy) -> usize {
        if self.waiting.len() == 1 {
            return 0;
        }
        let considered = self.waiting.iter().take(MAX_CONSIDERED);
        let asks: Vec<_> = considered.map(|waiting| self.ask(now, waiting)).collect();
        policy.turn(&asks).min(asks.len() - 1)
    }

    fn ask<'a>(&self, now: Time, waiting: &'a Waiting) -> Ask<'a> {
        Ask {
            asker: &waiting.asker,
            wish: waiting.wish,
            waited: now.saturating_sub(waiting.since),
            alone: self.recent.alone(now, waiting.asker.client, waiting.wish),
            waiting: self.waiting.len() - 1,
            operations: self.recent.operations(&waiting.asker.tenant),
        }
    }

    fn is_kept_waiting(&self, turn: usize) -> bool {
        let wish = self.waiting[turn].wish;
        self.grants.iter().any(|granted| wish.conflicts_with(granted.mode))
    }

    /// Limits the time of every grant that keeps a client waiting, as the policy decides.
    fn limit_grants(&mut self, now: Time, policy: &dyn Policy) {
        let mut limits = vec![];
        for granted in &self.grants {
            let considered = self.waiting.iter().take(MAX_CONSIDERED);
            let kept = considered.filter(|waiting| waiting.wish.conflicts_with(granted.mode));
            let keep =
                kept.map(|waiting| policy.keep(&granted.holding(now), &self.ask(now, waiting)));
            limits.push(keep.min());
        }
        for (granted, keep) in self.grants.iter_mut().zip(limits) {
            if let Some(keep) = keep {
                granted.limit(now, keep.min(MAX_KEEP));
            }
        }
    }

    fn serve(&mut self, now: Time, turn: usize, policy: &dyn Policy) -> Command {
        let verdict = match self.waiting[turn].wish.mode() {
            Some(_) if self.bars == 0 && self.waiting[turn].asker.client != 0 => {
                verdict(policy, &self.ask(now, &self.waiting[turn]))
            }
            _ => Verdict::RoundTrip(ALONE),
        };
        let Waiting { ticket, asker, wish, number, .. } = self.waiting.remove(turn);
        match (verdict, wish.mode()) {
            (Verdict::Grant(terms), Some(mode)) => {
                self.grants.push(Granted::new(now, asker, number, mode, terms));
                Command::Grant { ticket, number, mode, terms }
            }
            (Verdict::RoundTrip(again), _) => Command::Serve { ticket, again },
            (Verdict::Grant(_), None) => Command::Serve { ticket, again: ALONE },
        }
    }

    /// Revokes grants whose time is over, and evicts holders whose lease is over.
    fn tick(&mut self, now: Time) -> Vec<Command> {
        let mut commands = vec![];
        for granted in &mut self.grants {
            if granted.due_at().is_none_or(|due_at| now < due_at) {
                continue;
            }
            let client = granted.asker.client;
            if !granted.is_revoked {
                granted.is_revoked = true;
                commands.push(Command::Revoke { client });
            }
            if now >= granted.lease_until {
                self.has_ended = true;
                commands.push(Command::Evict { client });
            }
        }
        commands
    }
}

/// Returns the policy's decision. If the policy grants a single operation, the authority does that
/// operation itself (a round trip): a grant and its return would take more messages.
fn verdict(policy: &dyn Policy, ask: &Ask<'_>) -> Verdict {
    match policy.grant(ask) {
        Verdict::Grant(Terms { operations: Some(1), .. }) => Verdict::RoundTrip(ALONE),
        verdict => verdict,
    }
}
