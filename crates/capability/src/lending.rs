//! `Lending`: an [`Authority`], its policy, the requests that wait, and their answers.
//!
//! A state machine that grants capabilities on its state owns one `Lending`. It passes events in,
//! and carries out the commands that `Lending` returns. It stores each answer here, and the task
//! that waits for the answer fetches it.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::policy::{BestEffort, Policies, Policy, Time};
use crate::{Authority, Command, Event, Question};

/// The authority of a state machine's capabilities, and the requests that wait. `W` is what the
/// machine stores for a waiting request, and `A` is the type of answers.
#[derive(Debug)]
pub struct Lending<W, A> {
    authority: Authority,
    policies: Arc<dyn Policies>,
    /// The policy that decides, and its name. Without a name it is
    /// [`BestEffort`].
    policy: Arc<dyn Policy>,
    policy_name: Option<String>,
    /// The version of the policy that last decided about all grants. `None` if another policy was
    /// chosen since.
    considered_by: Option<u64>,
    next_ticket: u64,
    waiting: BTreeMap<u64, W>,
    /// Answers that nobody has fetched yet.
    answers: BTreeMap<u64, A>,
    /// Whether the holder must be evicted.
    is_overdue: bool,
}

impl<W, A> Lending<W, A> {
    /// Begins without grants. Without a name, the policy is [`BestEffort`].
    pub fn by(policies: Arc<dyn Policies>, policy_name: Option<&str>) -> Self {
        let policy = policy_of(&*policies, policy_name);
        Self {
            authority: Authority::default(),
            considered_by: Some(policy.version()),
            policies,
            policy,
            policy_name: policy_name.map(str::to_owned),
            next_ticket: 0,
            waiting: BTreeMap::new(),
            answers: BTreeMap::new(),
            is_overdue: false,
        }
    }

    /// Uses another policy from now on.
    pub fn go_by(&mut self, policy_name: Option<&str>) {
        if self.policy_name.as_deref() != policy_name {
            self.policy = policy_of(&*self.policies, policy_name);
            (self.policy_name, self.considered_by) = (policy_name.map(str::to_owned), None);
        }
    }

    /// Who holds what.
    pub fn authority(&self) -> &Authority {
        &self.authority
    }

    /// Whether a client holds a capability, or is being evicted.
    pub fn is_lent(&self) -> bool {
        self.is_overdue || !self.authority.grants().is_empty()
    }

    /// Whether a holder did not return its grant in time and must be evicted. Until the eviction,
    /// the machine serves no client.
    pub fn is_overdue(&self) -> bool {
        self.is_overdue
    }

    /// See [`Authority::passes`].
    pub fn passes(&mut self, client: u64, now: impl FnOnce() -> Time) -> bool {
        self.authority.passes(client, now)
    }

    /// Stores a request before the authority gets it. Returns the request's ticket.
    pub fn keep(&mut self, waiting: W) -> u64 {
        self.next_ticket += 1;
        self.waiting.insert(self.next_ticket, waiting);
        self.next_ticket
    }

    /// A request that has no answer yet.
    pub fn waiting(&self, ticket: u64) -> Option<&W> {
        self.waiting.get(&ticket)
    }

    /// Stores the answer to a request, if a task waits for it.
    pub fn answer(&mut self, ticket: u64, answer: A) {
        if self.waiting.remove(&ticket).is_some() {
            self.answers.insert(ticket, answer);
        }
    }

    /// Removes and returns the answer to a request.
    pub fn fetch(&mut self, ticket: u64) -> Option<A> {
        self.answers.remove(&ticket)
    }

    /// Forgets a request that waits. Returns whether it was still waiting.
    pub fn forget(&mut self, ticket: u64) -> bool {
        self.waiting.remove(&ticket).is_some()
    }

    /// Hands an event to the authority. Returns the commands that the machine must carry out.
    pub fn handle(&mut self, now: Time, event: Event) -> Vec<Command> {
        let commands = self.authority.handle(now, event, &*self.policy);
        self.note(commands)
    }

    /// Asks each holder for a report.
    pub fn question(&mut self, now: Time) -> Vec<Question> {
        self.authority.question(now)
    }

    /// Whether the holders have sent these reports.
    pub fn is_answered(&self, questions: &[Question]) -> bool {
        questions.iter().all(|question| self.authority.is_answered(*question))
    }

    /// Revokes all grants, and grants nothing until [`Lending::unbar`].
    pub fn bar(&mut self, now: Time) -> Vec<Command> {
        let commands = self.authority.bar(now);
        self.note(commands)
    }

    /// Ends what [`Lending::bar`] began.
    pub fn unbar(&mut self) {
        self.authority.unbar();
    }

    /// Revokes all grants.
    pub fn revoke(&mut self, now: Time) -> Vec<Command> {
        let commands = self.bar(now);
        self.unbar();
        commands
    }

    /// Considers all grants anew if the policy has changed.
    pub fn reconsider(&mut self, now: Time) -> Vec<Command> {
        let version = Some(self.policy.version());
        if self.considered_by == version {
            return vec![];
        }
        self.considered_by = version;
        let commands = self.authority.reconsider(now, &*self.policy);
        self.note(commands)
    }

    /// Whether a holder's poll must be answered at once: its grant is revoked or has ended, or the
    /// authority asks the holder for a report.
    pub fn has_news(&self, client: u64, number: u64, answered: u64) -> bool {
        let granted = self.authority.granted(client, number);
        granted.is_none_or(|granted| granted.is_revoked() || granted.asked() > answered)
    }

    /// Takes note of evictions.
    fn note(&mut self, commands: Vec<Command>) -> Vec<Command> {
        self.is_overdue |= commands.iter().any(|it| matches!(it, Command::Evict { .. }));
        commands
    }
}

fn policy_of(policies: &dyn Policies, name: Option<&str>) -> Arc<dyn Policy> {
    name.map_or_else(|| Arc::new(BestEffort) as Arc<dyn Policy>, |name| policies.named(name))
}
