//! The sequencer's exclusive capability: a client that is alone with its log issues the positions
//! itself.
//!
//! 1. A client asks for positions and for the capability. It gets both, or only positions. Or it
//!    waits until the client that holds the capability (the *holder*) returns its grant.
//! 2. The holder issues positions up to the end of the view that its grant names, under the epoch
//!    of that view. It polls the sequencer regularly, and each poll reports its tail.
//! 3. The holder returns the grant with its tail, and the sequencer continues from there.
//! 4. A holder that does not return its grant in time is evicted: the node claims, seals and
//!    recovers the log, as after the death of its sequencer. Objects then refuse the holder's
//!    writes, because these have an old epoch.
//!
//! **Invariant:** the sequencer accepts a tail only from the holder of the current grant, so the
//! tail never goes back.

use std::time::Duration;

use nacre_capability::limits::LEASE;
use nacre_capability::{Asker, Command, Event, Question, Time, Wish};
use nacre_host::EpochRefusal;

use super::sequencer::{Grant, SequencerCore, TokenRefusal};

/// What a client wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// The client.
    pub asker: Asker,
    /// Whether it wants the capability as well, under this number.
    pub number: Option<u64>,
    /// How many positions.
    pub count: u32,
    /// The epoch of its view.
    pub epoch: u64,
}

/// What a holder tells of its grant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Returned {
    /// The holder.
    pub client: u64,
    /// The grant.
    pub number: u64,
    /// One past the last position it issued.
    pub tail: u64,
    /// How many it issued.
    pub operations: u64,
}

/// What a client gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// Positions, and how long it is to ask for nothing else.
    Positions(Grant, Duration),
    /// Positions and the capability.
    Lent(Grant, Lent),
    /// No position is left with an object.
    Full,
    /// Its epoch does not fit.
    Epoch(EpochRefusal),
    /// A later request of the client was answered.
    Late,
    /// Too many wait.
    Busy,
}

/// The capability, as its holder hears of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lent {
    /// The holder.
    pub client: u64,
    /// The number of the grant.
    pub number: u64,
    /// One past the last position that the holder may issue.
    pub end: u64,
    /// The lease, counted from before the holder sent its request.
    pub lease: Duration,
    /// How many positions the holder may issue.
    pub operations: Option<u64>,
}

/// What a holder hears that its grant stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct News {
    /// The lease, counted from before the holder sent its request.
    pub lease: Duration,
    /// One past the last position that the holder may issue under the view of `epoch`.
    pub end: u64,
    /// The epoch.
    pub epoch: u64,
    /// The number of the sequencer's last request for the holder's tail.
    pub asked: u64,
    /// Whether somebody follows the tail.
    pub is_followed: bool,
}

/// A request that has no answer yet.
#[derive(Debug)]
pub(super) struct Waiting {
    wanted: Wanted,
    since: Time,
}

/// Who holds a sequencer's capability, and who waits.
pub(super) type Lending = nacre_capability::Lending<Waiting, Answer>;

impl SequencerCore {
    /// Whether a client holds the capability, or is being evicted.
    pub fn is_lent(&self) -> bool {
        self.lending.is_lent()
    }

    /// Whether the holder must be evicted because it did not return its grant in time. The
    /// sequencer then serves no client.
    pub fn is_overdue(&self) -> bool {
        self.lending.is_overdue()
    }

    /// When [`SequencerCore::tick`] is due.
    pub fn due_at(&self) -> Option<Time> {
        self.lending.authority().due_at()
    }

    /// Issues positions at once to a client that does not want the capability. Refuses if another
    /// client holds the capability or waits for it. Reads the clock only if another client sent the
    /// last request.
    ///
    /// # Errors
    /// See [`TokenRefusal`].
    pub fn next_at_once(
        &mut self,
        epoch: u64,
        count: u32,
        client: u64,
        now: impl FnOnce() -> Time,
    ) -> Result<Grant, TokenRefusal> {
        if !self.lending.passes(client, now) {
            return Err(TokenRefusal::Lent);
        }
        self.next(epoch, count)
    }

    /// Takes a request. Returns its ticket, with which [`SequencerCore::fetch`] finds the answer,
    /// now or later.
    pub fn ask(&mut self, now: Time, wanted: Wanted) -> u64 {
        let wish = if wanted.number.is_some() { Wish::Exclusive } else { Wish::Write };
        let (asker, number) = (wanted.asker.clone(), wanted.number.unwrap_or_default());
        let ticket = self.lending.keep(Waiting { wanted, since: now });
        self.handle(now, Event::Asked { ticket, asker, wish, number });
        ticket
    }

    /// Removes and returns the answer to a request.
    pub fn fetch(&mut self, ticket: u64) -> Option<Answer> {
        self.lending.fetch(ticket)
    }

    /// Forgets a request whose client no longer waits for the answer. If the answer was a grant,
    /// the grant is void, because the client never learnt of it.
    pub fn withdraw(&mut self, now: Time, ticket: u64) {
        if self.lending.forget(ticket) {
            self.handle(now, Event::Withdrawn { ticket });
        }
        if let Some(Answer::Lent(_, lent)) = self.lending.fetch(ticket) {
            let Lent { client, number, .. } = lent;
            self.handle(now, Event::Returned { client, number, operations: 0 });
        }
    }

    /// Takes a holder's report of its tail. `answered` is the number of the last request for the
    /// tail that the holder has received. Returns whether the holder's grant is still valid.
    pub fn hear(&mut self, now: Time, told: Returned, answered: u64) -> bool {
        let Returned { client, number, operations, .. } = told;
        if self.lending.authority().granted(client, number).is_none() {
            return false;
        }
        self.advance(told.tail);
        self.handle(now, Event::Heard { client, number, operations, answered });
        self.reconsider(now);
        true
    }

    /// Takes the grant back from its holder.
    pub fn take_back(&mut self, now: Time, returned: Returned) {
        let Returned { client, number, operations, tail } = returned;
        if self.lending.authority().granted(client, number).is_some() {
            self.advance(tail);
            self.handle(now, Event::Returned { client, number, operations });
        }
    }

    /// The answer to a holder's poll that arrived at `received`: a renewed lease, and how far the
    /// holder may issue positions. `None` if the holder's grant is revoked or has ended.
    pub fn news(&mut self, now: Time, received: Time, told: Returned) -> Option<News> {
        let Returned { client, number, operations, .. } = told;
        // As of now: the lease begins anew.
        let heard = Event::Heard { client, number, operations, answered: 0 };
        self.handle(now, heard);
        let (end, epoch) = (self.limit, self.view().epoch());
        let granted = self.lending.authority().granted(client, number)?;
        let lease = LEASE + now.saturating_sub(received);
        let asked = granted.asked();
        (!granted.is_revoked()).then_some(News { lease, end, epoch, asked, is_followed: false })
    }

    /// Whether a holder's poll must be answered at once. It must if the holder's grant is revoked
    /// or has ended, or if the sequencer asks for the holder's tail.
    pub fn has_news(&self, client: u64, number: u64, answered: u64) -> bool {
        self.lending.has_news(client, number, answered)
    }

    /// Asks the holder for its tail.
    pub fn question_holder(&mut self, now: Time) -> Vec<Question> {
        self.lending.question(now)
    }

    /// Whether the holder has answered.
    pub fn is_answered(&self, questions: &[Question]) -> bool {
        self.lending.is_answered(questions)
    }

    /// Lends nothing until [`SequencerCore::unbar`], and revokes what is lent.
    pub fn bar(&mut self, now: Time) {
        let commands = self.lending.bar(now);
        self.carry_out(now, commands);
    }

    /// Ends what [`SequencerCore::bar`] began.
    pub fn unbar(&mut self) {
        self.lending.unbar();
    }

    /// Does what is due.
    pub fn tick(&mut self, now: Time) {
        self.handle(now, Event::Tick);
    }

    /// Has what is lent considered anew if the policy has changed.
    fn reconsider(&mut self, now: Time) {
        let commands = self.lending.reconsider(now);
        self.carry_out(now, commands);
    }

    fn advance(&mut self, tail: u64) {
        self.tail = self.tail.max(tail.min(self.view().end()));
    }

    fn handle(&mut self, now: Time, event: Event) {
        let commands = self.lending.handle(now, event);
        self.carry_out(now, commands);
    }

    fn carry_out(&mut self, now: Time, commands: Vec<Command>) {
        for command in commands {
            match command {
                Command::Grant { ticket, number, terms, .. } => {
                    self.lend(now, ticket, number, terms.operations);
                }
                Command::Serve { ticket, again } => self.serve_ticket(ticket, again),
                Command::Refuse { ticket } => self.lending.answer(ticket, Answer::Late),
                Command::Busy { ticket } => self.lending.answer(ticket, Answer::Busy),
                // Nothing to do here. Two tasks act when they next look at the sequencer: one
                // answers the holder's poll, the other evicts the holder.
                Command::Revoke { .. } | Command::Evict { .. } => {}
            }
        }
    }

    fn serve_ticket(&mut self, ticket: u64, again: Duration) {
        let Some(Waiting { wanted, .. }) = self.lending.waiting(ticket) else { return };
        let (epoch, count) = (wanted.epoch, wanted.count);
        let answer = match self.next(epoch, count) {
            Ok(grant) => Answer::Positions(grant, again),
            Err(TokenRefusal::Epoch(refusal)) => Answer::Epoch(refusal),
            Err(TokenRefusal::Full | TokenRefusal::Lent) => Answer::Full,
        };
        self.lending.answer(ticket, answer);
    }

    /// Lends the positions from the tail on. This sequencer's tail stays until the holder reports
    /// its own.
    fn lend(&mut self, now: Time, ticket: u64, number: u64, operations: Option<u64>) {
        let Some(Waiting { wanted, since }) = self.lending.waiting(ticket) else { return };
        let (client, epoch, since) = (wanted.asker.client, wanted.epoch, *since);
        let quota = operations.unwrap_or(u64::MAX).max(1);
        let left = self.limit.saturating_sub(self.tail).min(quota);
        let count = u64::from(wanted.count.clamp(1, crate::limits::MAX_TOKENS)).min(left) as u32;
        let refusal = match self.check(epoch) {
            Err(refusal) => Some(Answer::Epoch(refusal)),
            Ok(()) if count == 0 => Some(Answer::Full),
            Ok(()) => None,
        };
        if let Some(refusal) = refusal {
            self.lending.answer(ticket, refusal);
            return self.handle(now, Event::Returned { client, number, operations: 0 });
        }
        let grant = Grant { first: self.tail, count, epoch: self.view().epoch() };
        let lease = LEASE + now.saturating_sub(since);
        let lent = Lent { client, number, end: self.limit, lease, operations };
        self.lending.answer(ticket, Answer::Lent(grant, lent));
    }
}
