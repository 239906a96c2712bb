//! Two-phase commit, by which switches agree on where bytes are (sRoute paper, section 3.5, figure
//! 4a).
//!
//! 1. The switch that handles a write asks its peers to hold IO on the bytes.
//! 2. It writes the bytes.
//! 3. It tells the peers where the bytes are now.
//! 4. When all peers have confirmed, it answers the write.
//!
//! If the switch dies meanwhile, its peers hold IO on the bytes until the controller has located
//! them.

use std::collections::BTreeSet;
use std::time::Duration;

use nacre_object::Error;

use super::core::refuse;
use super::in_flight::{Agreement, Flying, Stage};
use super::waiting::Arrival;
use super::{Command, IoId, PeerAnswer, PeerQuestion, Placed, Stamp, Switch, Term};
use crate::limits::{MAX_AGREEMENT_ATTEMPTS, MAX_RULES};
use crate::model::{Operation, Span, SwitchName, Touch};

/// A change of these bytes, for [`conflict`](super::waiting::conflict).
fn change_of(span: Span) -> Touch {
    Touch { operation: Operation::Write, span: Some(span) }
}

impl Switch {
    /// Asks the peers to hold IO on the bytes that an IO changes.
    pub(super) fn begin_agreement(&mut self, io: IoId, spans: Vec<Span>) -> Vec<Command> {
        self.counter += 1;
        let id = Stamp { counter: self.counter, switch: self.name.clone() };
        let missing = self.peers.iter().cloned().collect();
        if let Some(flying) = self.in_flight.get_mut(io) {
            let stage = Stage::Preparing;
            flying.agreement = Some(Agreement { id, spans, stage, missing, silences: 0 });
        }
        self.ask_missing(io)
    }

    /// Asks the peers whose answer is missing.
    fn ask_missing(&mut self, io: IoId) -> Vec<Command> {
        let counter = self.counter;
        let Some(flying) = self.in_flight.get_mut(io) else { return vec![] };
        let Some(question) = question_of(flying, counter) else { return vec![] };
        let Some(agreement) = &flying.agreement else { return vec![] };
        let ask = |peer: &SwitchName| Command::AskPeer {
            peer: peer.clone(),
            agreement: agreement.id.clone(),
            question: question.clone(),
        };
        agreement.missing.iter().map(ask).collect()
    }

    /// Whether this switch has promised another switch to hold this IO.
    pub(super) fn is_promised(&self, arrival: &Arrival) -> bool {
        let object = &arrival.request.header.object;
        let is_over = |(on, spans): &(_, Vec<Span>)| {
            let touches: Vec<_> = spans.iter().map(|span| change_of(*span)).collect();
            on == object && super::waiting::conflict(&touches, &arrival.touches)
        };
        self.prepared.values().any(is_over)
    }

    pub(super) fn peer_asked(
        &mut self,
        now: Duration,
        ticket: u64,
        id: &Stamp,
        question: PeerQuestion,
    ) -> Vec<Command> {
        self.counter = self.counter.max(id.counter);
        let mut commands = vec![];
        let answer = match question {
            PeerQuestion::Prepare { term, object, spans } => self.prepare(id, term, object, spans),
            PeerQuestion::Commit { placed, counter } => {
                self.counter = self.counter.max(counter);
                // If this switch has restarted since `Prepare`, it does not know the agreement.
                // Then the controller tells it where the bytes are.
                if let Some((object, _)) = self.prepared.remove(id) {
                    self.place(&placed);
                    commands = self.release(now, &object);
                }
                PeerAnswer::Done
            }
            PeerQuestion::Abort => {
                if let Some((object, _)) = self.prepared.remove(id) {
                    commands = self.release(now, &object);
                }
                PeerAnswer::Done
            }
            PeerQuestion::IsLive => match self.has_ended(id) {
                true => PeerAnswer::Ended,
                false => PeerAnswer::Done,
            },
        };
        commands.push(Command::AnswerPeer { ticket, answer });
        commands
    }

    /// Whether an agreement that this switch began is over. The switch cannot know this about
    /// agreements from before its restart, and returns false.
    fn has_ended(&self, id: &Stamp) -> bool {
        let is_of_this_start =
            self.installed.is_some_and(|installed| id.counter >= installed.first_counter());
        is_of_this_start
            && !self.aborted.contains_key(id)
            && self.in_flight.of_agreement(id).is_none()
    }

    fn prepare(
        &mut self,
        id: &Stamp,
        term: Term,
        object: nacre_object::ObjectId,
        spans: Vec<Span>,
    ) -> PeerAnswer {
        if self.installed != Some(term) {
            return PeerAnswer::NotNow;
        }
        let touches: Vec<_> = spans.iter().map(|span| change_of(*span)).collect();
        let is_in_the_way = |other: &Flying| {
            let is_change = other.arrival.touches.iter().any(|touch| touch.operation.is_change());
            // When two agreements overlap, the older one continues and the other starts again.
            let gives_way = other
                .agreement
                .as_ref()
                .is_some_and(|own| own.stage == Stage::Preparing && *id < own.id);
            is_change && !gives_way && other.is_in_the_way_of(&touches, None)
        };
        if self.in_flight.on(&object).any(is_in_the_way) {
            return PeerAnswer::NotNow;
        }
        let promised: usize = self.prepared.values().map(|(_, spans)| 2 * spans.len()).sum();
        if self.table.len() + promised + 2 * spans.len() + 2 > MAX_RULES {
            return PeerAnswer::NotNow;
        }
        self.prepared.insert(id.clone(), (object, spans));
        PeerAnswer::Prepared { counter: self.counter }
    }

    pub(super) fn peer_answered(
        &mut self,
        now: Duration,
        peer: SwitchName,
        id: &Stamp,
        question: PeerQuestion,
        answer: Option<PeerAnswer>,
    ) -> Vec<Command> {
        match question {
            PeerQuestion::IsLive if answer == Some(PeerAnswer::Ended) => {
                // A delayed message of an agreement that had ended made this switch hold the bytes
                // again.
                let Some((object, _)) = self.prepared.remove(id) else { return vec![] };
                self.release(now, &object)
            }
            PeerQuestion::IsLive => vec![],
            PeerQuestion::Abort => {
                if answer.is_some()
                    && let Some(missing) = self.aborted.get_mut(id)
                {
                    missing.remove(&peer);
                    if missing.is_empty() {
                        self.aborted.remove(id);
                    }
                }
                vec![]
            }
            PeerQuestion::Prepare { .. } => self.prepare_answered(now, &peer, id, answer),
            PeerQuestion::Commit { .. } => {
                let Some(io) = self.in_flight.of_agreement(id) else { return vec![] };
                match answer.is_some() && self.heard(io, &peer, Stage::Committing) {
                    true => self.finish(now, io),
                    false => vec![],
                }
            }
        }
    }

    fn prepare_answered(
        &mut self,
        now: Duration,
        peer: &SwitchName,
        id: &Stamp,
        answer: Option<PeerAnswer>,
    ) -> Vec<Command> {
        let Some(io) = self.in_flight.of_agreement(id) else { return vec![] };
        match answer {
            Some(PeerAnswer::Prepared { counter }) => {
                self.counter = self.counter.max(counter);
                if !self.heard(io, peer, Stage::Preparing) {
                    return vec![];
                }
                if let Some(agreement) = self.agreement_mut(io) {
                    agreement.stage = Stage::Writing;
                }
                self.send(now, io)
            }
            None => {
                let silences = self.agreement_mut(io).map_or(0, |agreement| {
                    agreement.silences += u32::from(agreement.stage == Stage::Preparing);
                    agreement.silences
                });
                match silences > MAX_AGREEMENT_ATTEMPTS {
                    true => self.give_up(now, io),
                    false => vec![],
                }
            }
            Some(_) => self.give_up(now, io),
        }
    }

    fn agreement_mut(&mut self, io: IoId) -> Option<&mut Agreement> {
        self.in_flight.get_mut(io).and_then(|flying| flying.agreement.as_mut())
    }

    /// Records the answer of a peer. Returns whether it was the last missing one.
    fn heard(&mut self, io: IoId, peer: &SwitchName, stage: Stage) -> bool {
        self.agreement_mut(io).is_some_and(|agreement| {
            agreement.stage == stage
                && agreement.missing.remove(peer)
                && agreement.missing.is_empty()
        })
    }

    /// Ends an agreement that a peer refused. The switch begins the IO again later, up to
    /// [`MAX_AGREEMENT_ATTEMPTS`] times.
    fn give_up(&mut self, now: Duration, io: IoId) -> Vec<Command> {
        if self.agreement_mut(io).is_none_or(|agreement| agreement.stage != Stage::Preparing) {
            return vec![];
        }
        let Some(flying) = self.in_flight.remove(io) else { return vec![] };
        let mut commands = self.abort(flying.agreement);
        let mut arrival = flying.arrival;
        let object = arrival.request.header.object.clone();
        arrival.attempts += 1;
        if arrival.attempts > MAX_AGREEMENT_ATTEMPTS {
            let error = Error::unavailable("the switches cannot agree on where these bytes are");
            commands.push(refuse(io, error.on(&object).hint("try again")));
            commands.extend(self.release(now, &object));
        } else {
            // At the next tick, this IO goes on before later IO.
            self.waiting.push_front(arrival);
            commands.extend(self.drained());
        }
        commands
    }

    /// Tells all peers that an agreement has failed.
    pub(super) fn abort(&mut self, agreement: Option<Agreement>) -> Vec<Command> {
        let Some(Agreement { id, .. }) = agreement else { return vec![] };
        self.aborted.insert(id.clone(), self.peers.iter().cloned().collect());
        let tell = |peer: &SwitchName| Command::AskPeer {
            peer: peer.clone(),
            agreement: id.clone(),
            question: PeerQuestion::Abort,
        };
        self.peers.iter().map(tell).collect()
    }

    /// Tells the peers where the bytes of an IO are now, or that the write failed.
    pub(super) fn end_agreement(
        &mut self,
        now: Duration,
        io: IoId,
        placed: Vec<Placed>,
    ) -> Vec<Command> {
        let peers = self.peers.iter().cloned().collect();
        let Some(agreement) = self.agreement_mut(io) else { return vec![] };
        if placed.is_empty() {
            let ended = Some(agreement.clone());
            let mut commands = self.abort(ended);
            commands.extend(self.finish(now, io));
            return commands;
        }
        agreement.stage = Stage::Committing;
        agreement.missing = peers;
        self.ask_missing(io)
    }

    /// Repeats all questions that peers have not answered.
    pub(super) fn remind_peers(&mut self) -> Vec<Command> {
        let under_way = self.in_flight.iter().filter(|flying| flying.agreement.is_some());
        let ios: BTreeSet<IoId> = under_way.map(|flying| flying.arrival.io).collect();
        let mut commands: Vec<_> = ios.into_iter().flat_map(|io| self.ask_missing(io)).collect();
        for (id, missing) in &self.aborted {
            commands.extend(missing.iter().map(|peer| Command::AskPeer {
                peer: peer.clone(),
                agreement: id.clone(),
                question: PeerQuestion::Abort,
            }));
        }
        commands.extend(self.prepared.keys().map(|id| Command::AskPeer {
            peer: id.switch.clone(),
            agreement: id.clone(),
            question: PeerQuestion::IsLive,
        }));
        commands
    }
}

/// The question to peers at the present stage of an agreement.
fn question_of(flying: &Flying, counter: u64) -> Option<PeerQuestion> {
    let agreement = flying.agreement.as_ref()?;
    let object = flying.arrival.request.header.object.clone();
    match agreement.stage {
        Stage::Preparing => {
            let spans = agreement.spans.clone();
            Some(PeerQuestion::Prepare { term: flying.term, object, spans })
        }
        Stage::Writing => None,
        Stage::Committing => {
            let done = flying.sent.iter().filter(|sent| sent.is_done());
            let placed = done.flat_map(|sent| sent.follows.iter().cloned()).collect();
            Some(PeerQuestion::Commit { placed, counter })
        }
    }
}
