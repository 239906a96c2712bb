//! Decides how a node becomes the authority of a state machine (for logs: CORFU, section 3.2.2).
//!
//! 1. Claim: propose the record that follows the stored one. The proposal names this node as the
//!    authority and contains a random number. If another proposal was first, this node adopts the
//!    stored record. The random number shows whose proposal it was, even if two processes use the
//!    same node name.
//! 2. Recover the state, as the kind of state machine defines it ([`Recovery`]).
//! 3. Serve.

use nacre_object::NodeName;

use super::recovery::{Recovery, Step};
use crate::record::Record;

/// What a takeover asks its caller to do. The parameters are the kind's record, command and state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TakeoverCommand<R, C, F> {
    /// Read the stored record.
    ReadRecord,
    /// Propose this record.
    Propose(R),
    /// Carry out a command of the recovery.
    Recover(C),
    /// Done: serve by the claimed record, from the state that was found.
    Serve {
        /// The record that was claimed.
        record: R,
        /// The state.
        found: F,
    },
    /// Done: another record was first.
    Adopt(R),
}

/// The result of a command. The parameters are the kind's record and event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TakeoverEvent<R, E> {
    /// The stored record.
    Record(R),
    /// The proposal was accepted.
    Proposed,
    /// The proposal was refused, or no reply came.
    NotProposed,
    /// The result of a command of the recovery.
    Recovery(E),
}

/// The commands of a takeover with the recovery `K`.
pub type CommandsOf<K> =
    Vec<TakeoverCommand<<K as Recovery>::Record, <K as Recovery>::Command, <K as Recovery>::Found>>;

#[derive(Debug)]
enum State<K: Recovery> {
    /// Looking for the record to succeed.
    Reading,
    /// A claim was proposed and has no reply yet.
    Claiming(K::Record),
    /// The claim is stored.
    Recovering {
        claimed: K::Record,
        recovery: K,
    },
    Done,
}

/// One attempt of a node to become the authority.
#[derive(Debug)]
pub struct TakeoverCore<K: Recovery> {
    node: NodeName,
    /// A random number that tells this claim from that of another process with the same node name.
    claim: u64,
    /// The takeover replaces a record of this epoch or an older one. It adopts a later record.
    replaces: u64,
    state: State<K>,
}

impl<K: Recovery> TakeoverCore<K> {
    /// A takeover by `node`. If a record with an epoch later than `replaces` is stored, another
    /// attempt was first; this node then adopts that record. The caller draws `claim` at random, so
    /// that no other attempt has the same number.
    pub fn new(node: NodeName, replaces: u64, claim: u64) -> Self {
        Self { node, claim, replaces, state: State::Reading }
    }

    /// What to do first.
    pub fn start(&self) -> CommandsOf<K> {
        vec![TakeoverCommand::ReadRecord]
    }

    /// Takes an event and returns the next commands. Late or repeated events are harmless.
    pub fn handle(&mut self, event: TakeoverEvent<K::Record, K::Event>) -> CommandsOf<K> {
        match event {
            TakeoverEvent::Record(stored) => self.learn(stored),
            TakeoverEvent::Proposed => match std::mem::replace(&mut self.state, State::Done) {
                State::Claiming(claimed) => self.begin(claimed),
                other => {
                    self.state = other;
                    vec![]
                }
            },
            TakeoverEvent::NotProposed => vec![TakeoverCommand::ReadRecord],
            TakeoverEvent::Recovery(event) => match &mut self.state {
                State::Recovering { recovery, .. } => {
                    let steps = recovery.handle(event);
                    self.follow(steps)
                }
                _ => vec![],
            },
        }
    }

    /// The recovery, while it runs.
    pub fn recovery(&self) -> Option<&K> {
        match &self.state {
            State::Recovering { recovery, .. } => Some(recovery),
            _ => None,
        }
    }

    fn learn(&mut self, stored: K::Record) -> CommandsOf<K> {
        match std::mem::replace(&mut self.state, State::Done) {
            State::Reading if stored.epoch() <= self.replaces => self.claim(&stored),
            State::Claiming(claimed) if stored.epoch() < claimed.epoch() => self.claim(&stored),
            // The claim without a reply was accepted after all.
            State::Claiming(claimed) if stored == claimed => self.begin(claimed),
            State::Reading | State::Claiming(_) => vec![TakeoverCommand::Adopt(stored)],
            State::Recovering { claimed, .. } if stored.authority() != claimed.authority() => {
                vec![TakeoverCommand::Adopt(stored)]
            }
            State::Recovering { claimed, mut recovery } => {
                let steps = recovery.claim_stands();
                self.state = State::Recovering { claimed, recovery };
                self.follow(steps)
            }
            State::Done => vec![],
        }
    }

    fn claim(&mut self, stored: &K::Record) -> CommandsOf<K> {
        let claimed = stored.claimed_by(self.node.clone(), self.claim);
        self.state = State::Claiming(claimed.clone());
        vec![TakeoverCommand::Propose(claimed)]
    }

    fn begin(&mut self, claimed: K::Record) -> CommandsOf<K> {
        let mut recovery = K::new(claimed.clone());
        let steps = recovery.start();
        self.state = State::Recovering { claimed, recovery };
        self.follow(steps)
    }

    fn follow(&mut self, steps: Vec<Step<K::Command, K::Found>>) -> CommandsOf<K> {
        steps.into_iter().filter_map(|step| self.command(step)).collect()
    }

    fn command(
        &mut self,
        step: Step<K::Command, K::Found>,
    ) -> Option<TakeoverCommand<K::Record, K::Command, K::Found>> {
        Some(match step {
            Step::Do(command) => TakeoverCommand::Recover(command),
            Step::CheckClaim => TakeoverCommand::ReadRecord,
            Step::Serve(found) => match std::mem::replace(&mut self.state, State::Done) {
                State::Recovering { claimed, .. } => {
                    TakeoverCommand::Serve { record: claimed, found }
                }
                _ => return None,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Count, CountRecovery, node};

    type Core = TakeoverCore<CountRecovery>;
    type Event = TakeoverEvent<Count, u64>;

    fn core(claim: u64) -> Core {
        Core::new(node("b"), 1, claim)
    }

    /// Drives the takeover of `stored` to its claim, and returns the claim.
    fn claimed(core: &mut Core, stored: &Count) -> Count {
        assert_eq!(core.start(), [TakeoverCommand::ReadRecord]);
        let commands = core.handle(Event::Record(stored.clone()));
        let claim = stored.claimed_by(node("b"), core.claim);
        assert_eq!(commands, [TakeoverCommand::Propose(claim.clone())]);
        claim
    }

    /// What begins a recovery.
    fn seal(claim: &Count) -> CommandsOf<CountRecovery> {
        vec![TakeoverCommand::Recover(claim.epoch())]
    }

    #[test]
    fn a_takeover_claims_then_recovers_then_serves() {
        let mut core = core(1);
        let claim = claimed(&mut core, &Count::first("c"));
        assert_eq!(core.handle(Event::Proposed), seal(&claim));
        let served = core.handle(Event::Recovery(14));
        assert_eq!(served, [TakeoverCommand::Serve { record: claim, found: 14 }]);
        assert_eq!(core.handle(Event::Recovery(15)), [], "late events are harmless");
    }

    #[test]
    fn the_loser_of_a_claim_adopts_the_winners_record() {
        let (mut core, stored) = (core(1), Count::first("c"));
        claimed(&mut core, &stored);
        assert_eq!(core.handle(Event::NotProposed), [TakeoverCommand::ReadRecord]);
        let winner = stored.claimed_by(node("c"), 2);
        let adopted = core.handle(Event::Record(winner.clone()));
        assert_eq!(adopted, [TakeoverCommand::Adopt(winner)]);
    }

    #[test]
    fn one_of_two_nodes_with_one_name_serves_when_both_claim_at_once() {
        let stored = Count::first("c");
        let [mut winner, mut loser] = [core(1), core(2)];
        let claim = claimed(&mut winner, &stored);
        claimed(&mut loser, &stored);
        assert_eq!(winner.handle(Event::Proposed), seal(&claim));
        loser.handle(Event::NotProposed);
        let adopted = loser.handle(Event::Record(claim.clone()));
        assert_eq!(adopted, [TakeoverCommand::Adopt(claim)]);
    }

    #[test]
    fn a_claim_without_an_answer_is_recognised_or_repeated() {
        let (mut core, stored) = (core(1), Count::first("c"));
        let claim = claimed(&mut core, &stored);
        core.handle(Event::NotProposed);
        let again = core.handle(Event::Record(stored));
        assert_eq!(again, [TakeoverCommand::Propose(claim.clone())]);
        core.handle(Event::NotProposed);
        assert_eq!(core.handle(Event::Record(claim.clone())), seal(&claim));
    }

    #[test]
    fn a_later_record_than_the_one_to_replace_is_adopted_at_once() {
        let stored = Count::first("c").claimed_by(node("c"), 2);
        let adopted = core(1).handle(Event::Record(stored.clone()));
        assert_eq!(adopted, [TakeoverCommand::Adopt(stored)]);
    }

    #[test]
    fn a_recovery_in_doubt_ends_if_another_node_has_claimed_since() {
        let mut core = core(1);
        let claim = claimed(&mut core, &Count::first("c"));
        core.handle(Event::Proposed);
        assert_eq!(
            core.handle(Event::Recovery(CountRecovery::IN_DOUBT)),
            [TakeoverCommand::ReadRecord]
        );
        assert_eq!(core.handle(Event::Record(claim.clone())), seal(&claim));
        core.handle(Event::Recovery(CountRecovery::IN_DOUBT));
        let other = claim.claimed_by(node("c"), 2);
        let adopted = core.handle(Event::Record(other.clone()));
        assert_eq!(adopted, [TakeoverCommand::Adopt(other)]);
    }
}
