//! `Lending`: an [`Authority`] together with the waiting questions, their answers, and the policy
//! that decides.
//!
//! A state machine whose state clients may hold owns one `Lending`. The machine hands events in and
//! carries out the commands that come back. It puts each answer here, and the task that waits for
//! the answer fetches it.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::policy::{BestEffort, Policies, Policy, Time};
use crate::{Authority, Command, Event, Question};

/// The holders of a machine's capabilities, and the clients that wait. `W` is what the machine
/// keeps of a question that waits, and `A` is the type of answers.
#[derive(Debug)]
pub struct Lending<W, A> {
    authority: Authority,
    policies: Arc<dyn Policies>,
    /// The policy that decides, and its name. Without a name it is
    /// [`BestEffort`].
    policy: Arc<dyn Policy>,
    policy_name: Option<String>,
    /// The version of the policy by which the grants were last considered. `None` if the policy has
    /// changed since.
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

    /// Has another policy decide from now on.
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

    /// Whether somebody holds something, or is being evicted.
    pub fn is_lent(&self) -> bool {
        self.is_overdue || !self.authority.grants().is_empty()
    }

    /// Whether a holder did not return its grant in time and must be evicted. The machine serves no
    /// client until then.
    pub fn is_overdue(&self) -> bool {
        self.is_overdue
    }

    /// See [`Authority::passes`].
    pub fn passes(&mut self, client: u64, now: impl FnOnce() -> Time) -> bool {
        self.authority.passes(client, now)
    }

    /// Keeps a question that is about to be handed to the authority. Returns the question's ticket.
    pub fn keep(&mut self, waiting: W) -> u64 {
        self.next_ticket += 1;
        self.waiting.insert(self.next_ticket, waiting);
        self.next_ticket
    }

    /// A question that has no answer yet.
    pub fn waiting(&self, ticket: u64) -> Option<&W> {
        self.waiting.get(&ticket)
    }

    /// Answers a question, if somebody waits for that.
    pub fn answer(&mut self, ticket: u64, answer: A) {
        if self.waiting.remove(&ticket).is_some() {
            self.answers.insert(ticket, answer);
        }
    }

    /// The answer to a question, once.
    pub fn fetch(&mut self, ticket: u64) -> Option<A> {
        self.answers.remove(&ticket)
    }

    /// Whether the question was still waiting.
    pub fn forget(&mut self, ticket: u64) -> bool {
        self.waiting.remove(&ticket).is_some()
    }

    /// Hands an event to the authority. Returns the commands that the machine must carry out.
    pub fn handle(&mut self, now: Time, event: Event) -> Vec<Command> {
        let commands = self.authority.handle(now, event, &*self.policy);
        self.note(commands)
    }

    /// Puts a question to each holder.
    pub fn question(&mut self, now: Time) -> Vec<Question> {
        self.authority.question(now)
    }

    /// Whether holders have answered.
    pub fn is_answered(&self, questions: &[Question]) -> bool {
        questions.iter().all(|question| self.authority.is_answered(*question))
    }

    /// Grants nothing until [`Lending::unbar`], and revokes what is granted.
    pub fn bar(&mut self, now: Time) -> Vec<Command> {
        let commands = self.authority.bar(now);
        self.note(commands)
    }

    /// Ends what [`Lending::bar`] began.
    pub fn unbar(&mut self) {
        self.authority.unbar();
    }

    /// Revokes what is granted.
    pub fn revoke(&mut self, now: Time) -> Vec<Command> {
        let commands = self.bar(now);
        self.unbar();
        commands
    }

    /// Has what is granted considered anew if the policy has changed.
    pub fn reconsider(&mut self, now: Time) -> Vec<Command> {
        let version = Some(self.policy.version());
        if self.considered_by == version {
            return vec![];
        }
        self.considered_by = version;
        let commands = self.authority.reconsider(now, &*self.policy);
        self.note(commands)
    }

    /// Whether a holder's question for news must be answered at once, because its grant is revoked
    /// or has ended, or because the authority asks it something.
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
