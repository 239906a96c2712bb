//! When the layout of a running class is to be chosen anew: pure.
//!
//! Calls are counted ([`nacre_class::CallsSeen`]) and gathered into windows. A window that is long enough
//! is compared with what the present layout was last judged by: if the mix has drifted, or the engine is
//! another, what each layout would take is estimated. If the best saves so much that, over a horizon, it
//! comes to several times what rewriting the objects takes, it is measured beside the present one; if it
//! does so by that as well, it is proposed, and where that is allowed adopted.
//!
//! **Invariants.** Nothing is adopted that was not allowed, or of which nobody knows what rewriting the objects
//! takes, nor proposed that was not measured. A mix is judged once for each layout: as long as it stays, so does
//! what was said of it. After a change the class rests, each time twice as long if it changes again soon after,
//! so changes become rare however the mix goes to and fro.

mod mix;
mod proposal;
#[cfg(test)]
mod tests;

use nacre_class::CallsSeen;
use serde::{Deserialize, Serialize};

pub use self::mix::Mix;
pub use self::proposal::{Estimate, Measured, Predicted, Proposal, Reason};
use crate::fingerprint::Fingerprint;

const MICROS_PER_SECOND: u64 = 1_000_000;
/// The longest rest, in rests: from an hour some weeks.
const MAX_RESTS: u64 = 512;

/// On which terms a layout is chosen anew.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Terms {
    /// Requests of a window: fewer say little about the mix.
    pub requests: u64,
    /// Seconds of a window: what lasts shorter is a passing burst.
    pub seconds: u64,
    /// How far a mix must have drifted, as [`Mix::distance`].
    pub drift: f64,
    /// The least share of the time that must be saved: less is not told from the prediction's noise.
    pub gain: f64,
    /// How many times the cost of rewriting must be saved …
    pub margin: f64,
    /// … within so many seconds.
    pub horizon_seconds: u64,
    /// Seconds in which nothing is adopted after a change.
    pub rest_seconds: u64,
}

impl Default for Terms {
    fn default() -> Self {
        Self {
            requests: 10_000,
            seconds: 600,
            drift: 0.15,
            gain: 0.15,
            margin: 3.0,
            horizon_seconds: 24 * 3600,
            rest_seconds: 3600,
        }
    }
}

/// What is kept of a class from one process to the next.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Standing {
    /// What the present layout was judged by, if it was.
    pub basis: Option<Basis>,
    /// The layout that is proposed instead, if one is.
    pub proposal: Option<Proposal>,
    /// Nothing is adopted before: microseconds since 1970, UTC.
    pub rest_until_micros: u64,
    /// How long the last rest was.
    pub rested_seconds: u64,
}

/// What a layout was judged by.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Basis {
    /// What the class was asked.
    pub mix: Mix,
    /// On which engine.
    pub engine: Fingerprint,
}

/// What happens.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// So much was asked since this was last said.
    Counted(CallsSeen),
    /// The engine is this one.
    Engine(Fingerprint),
    /// What was to be estimated takes this, or cannot be estimated.
    Estimated(Option<Estimate>),
    /// What was to be measured takes this, or cannot be measured now.
    Measured(Option<Measured>),
    /// Whether the layout may be changed without asking.
    Allowed(bool),
    /// Somebody has changed the layout.
    Moved,
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq)]
pub enum Command {
    /// Estimate what each layout takes for this, and answer [`Event::Estimated`].
    Estimate(CallsSeen),
    /// Measure the two layouts for this, and answer [`Event::Measured`].
    Measure(CallsSeen, Proposal),
    /// Tell people.
    Propose(Proposal),
    /// Tell people that what was predicted is not what was measured; what may be proposed is no longer.
    Refute(Proposal),
    /// What was proposed is no longer worth it.
    Withdraw,
    /// Change the layout.
    Adopt(Proposal),
}

/// The decisions about one class.
#[derive(Debug, Clone, PartialEq)]
pub struct Rechooser {
    terms: Terms,
    standing: Standing,
    is_allowed: bool,
    engine: Option<Fingerprint>,
    window: Option<Window>,
    /// When it was last said what was asked: what is said next was asked since.
    told_at_micros: Option<u64>,
    estimating: Option<Estimating>,
    measuring: Option<Measuring>,
}

/// Calls, and since when.
#[derive(Debug, Clone, PartialEq)]
struct Window {
    since_micros: u64,
    seen: CallsSeen,
}

/// What is being estimated.
#[derive(Debug, Clone, PartialEq)]
struct Estimating {
    seen: CallsSeen,
    basis: Basis,
    requests_per_second: f64,
    reason: Reason,
}

/// What is being measured.
#[derive(Debug, Clone, PartialEq)]
struct Measuring {
    basis: Basis,
    proposal: Proposal,
}

impl Rechooser {
    /// Goes on from where a class stands.
    pub fn new(terms: Terms, standing: Standing) -> Self {
        Self {
            terms,
            standing,
            is_allowed: false,
            engine: None,
            window: None,
            told_at_micros: None,
            estimating: None,
            measuring: None,
        }
    }

    /// Where the class stands, to be kept.
    pub fn standing(&self) -> &Standing {
        &self.standing
    }

    /// Takes note of what happened, at this time (microseconds since 1970, UTC).
    pub fn handle(&mut self, now_micros: u64, event: Event) -> Vec<Command> {
        match event {
            Event::Counted(seen) => self.counted(now_micros, &seen),
            Event::Engine(engine) => {
                self.engine = Some(engine);
                vec![]
            }
            Event::Estimated(estimate) => self.estimated(estimate),
            Event::Measured(measured) => self.measured(now_micros, measured),
            Event::Allowed(is_allowed) => {
                self.is_allowed = is_allowed;
                self.adopt_if_allowed(now_micros)
            }
            Event::Moved => {
                self.rest(now_micros);
                vec![]
            }
        }
    }

    fn counted(&mut self, now: u64, seen: &CallsSeen) -> Vec<Command> {
        let since_micros = self.told_at_micros.replace(now).unwrap_or(now);
        let window =
            self.window.get_or_insert_with(|| Window { since_micros, seen: CallsSeen::default() });
        window.seen.extend(seen);
        let micros = now.saturating_sub(window.since_micros);
        let is_long_enough = micros >= self.terms.seconds.max(1) * MICROS_PER_SECOND
            && window.seen.requests() >= self.terms.requests.max(1);
        let Some(engine) = self.engine.clone().filter(|_| is_long_enough && !self.is_judging())
        else {
            return vec![];
        };
        let Some(Window { seen, .. }) = self.window.take() else { return vec![] };
        let basis = Basis { mix: Mix::of(&seen), engine };
        let Some(reason) = self.reason(&basis) else { return self.adopt_if_allowed(now) };
        let requests_per_second = seen.requests() as f64 * MICROS_PER_SECOND as f64 / micros as f64;
        let estimating = Estimating { seen: seen.clone(), basis, requests_per_second, reason };
        self.estimating = Some(estimating);
        vec![Command::Estimate(seen)]
    }

    fn is_judging(&self) -> bool {
        self.estimating.is_some() || self.measuring.is_some()
    }

    /// Why the layout is to be judged anew, if it is.
    fn reason(&self, now: &Basis) -> Option<Reason> {
        let Some(basis) = &self.standing.basis else { return Some(Reason::NeverJudged) };
        if basis.engine != now.engine {
            return Some(Reason::Engine(basis.engine.to_string()));
        }
        let drift = basis.mix.distance(&now.mix);
        (drift >= self.terms.drift).then_some(Reason::Mix(drift))
    }

    fn estimated(&mut self, estimate: Option<Estimate>) -> Vec<Command> {
        // What cannot be estimated is not judged: the next window tries again.
        let (Some(estimating), Some(estimate)) = (self.estimating.take(), estimate) else {
            return vec![];
        };
        let Estimating { seen, basis, requests_per_second, reason } = estimating;
        let proposal = Proposal { estimate, requests_per_second, reason, measured: None };
        if !proposal.is_worth_it(&self.terms) {
            self.standing.basis = Some(basis);
            return self.standing.proposal.take().map(|_| Command::Withdraw).into_iter().collect();
        }
        self.measuring = Some(Measuring { basis, proposal: proposal.clone() });
        vec![Command::Measure(seen, proposal)]
    }

    fn measured(&mut self, now: u64, measured: Option<Measured>) -> Vec<Command> {
        // Nor is what cannot be measured.
        let (Some(measuring), Some(measured)) = (self.measuring.take(), measured) else {
            return vec![];
        };
        let Measuring { basis, proposal } = measuring;
        let proposal = Proposal { measured: Some(measured), ..proposal };
        self.standing.basis = Some(basis);
        if !proposal.is_worth_it(&self.terms) {
            self.standing.proposal = None;
            return vec![Command::Refute(proposal)];
        }
        self.standing.proposal = Some(proposal.clone());
        let adopted = self.adopt_if_allowed(now);
        if adopted.is_empty() { vec![Command::Propose(proposal)] } else { adopted }
    }

    fn adopt_if_allowed(&mut self, now: u64) -> Vec<Command> {
        // What was proposed before is no longer adopted once it is judged anew.
        if !self.is_allowed || self.is_judging() || now < self.standing.rest_until_micros {
            return vec![];
        }
        // What is not certain is left to people.
        let is_certain = |proposal: &mut Proposal| proposal.is_certain();
        let Some(proposal) = self.standing.proposal.take_if(is_certain) else { return vec![] };
        self.rest(now);
        vec![Command::Adopt(proposal)]
    }

    fn rest(&mut self, now: u64) {
        let standing = &mut self.standing;
        let shortest = self.terms.rest_seconds;
        let again_until = standing.rested_seconds.saturating_mul(MICROS_PER_SECOND);
        let is_soon = now < standing.rest_until_micros.saturating_add(again_until);
        let seconds = match is_soon {
            true => (2 * standing.rested_seconds).min(MAX_RESTS.saturating_mul(shortest)),
            false => 0,
        };
        standing.rested_seconds = seconds.max(shortest);
        let micros = standing.rested_seconds.saturating_mul(MICROS_PER_SECOND);
        standing.rest_until_micros = now.saturating_add(micros);
        (standing.proposal, standing.basis) = (None, None);
        self.window = None;
        // What is estimated or measured meanwhile is of the layout before.
        (self.estimating, self.measuring) = (None, None);
    }
}
