//! A layout that is proposed for a running class, and why.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::Terms;

/// What a layout is predicted to take.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Predicted {
    /// The layout, as a program names it.
    pub layout: String,
    /// Seconds a request.
    pub seconds: f64,
}

/// What the present layout takes, what the best would, and what it takes to get there.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The layout as it is.
    pub present: Predicted,
    /// The plainest of those that are as good as the best.
    pub best: Predicted,
    /// Seconds to rewrite all objects.
    pub rewrite_seconds: f64,
    /// The rows they have together, if those could be counted: else what rewriting takes is a guess.
    pub rows: Option<u64>,
}

/// Why a layout was judged anew.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    /// It never was.
    NeverJudged,
    /// So much is asked otherwise than before.
    Mix(f64),
    /// It was judged on this engine, which is no longer the one.
    Engine(String),
}

/// What the two layouts took when they were measured beside each other, in seconds a request.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// The present one.
    pub present_seconds: f64,
    /// The one that is predicted to be the best.
    pub best_seconds: f64,
}

/// A layout to change to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Proposal {
    /// What it is expected to bring, and to cost.
    pub estimate: Estimate,
    /// Requests a second, as observed.
    pub requests_per_second: f64,
    /// What made it be judged.
    pub reason: Reason,
    /// What it was measured to bring, if it was.
    pub measured: Option<Measured>,
}

impl Proposal {
    /// Whether nothing in it is a guess: nobody need look at it before it is adopted.
    pub fn is_certain(&self) -> bool {
        self.measured.is_some() && self.estimate.rows.is_some()
    }

    /// What is known best of the two layouts: measured, or else predicted.
    fn known(&self) -> Measured {
        let Estimate { present, best, .. } = &self.estimate;
        let predicted = Measured { present_seconds: present.seconds, best_seconds: best.seconds };
        self.measured.unwrap_or(predicted)
    }

    /// The share of the time that is saved.
    pub fn gain(&self) -> f64 {
        let Measured { present_seconds, best_seconds } = self.known();
        1.0 - best_seconds / present_seconds
    }

    /// Seconds of requests that are saved in each second.
    pub fn saved_per_second(&self) -> f64 {
        let Measured { present_seconds, best_seconds } = self.known();
        self.requests_per_second * (present_seconds - best_seconds)
    }

    /// Whether the saving is no noise, and comes to enough times the cost.
    pub fn is_worth_it(&self, terms: &Terms) -> bool {
        let Estimate { present, best, rewrite_seconds, .. } = &self.estimate;
        let saved = self.saved_per_second() * terms.horizon_seconds as f64;
        best.layout != present.layout
            && self.gain() >= terms.gain
            && saved >= terms.margin * rewrite_seconds
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NeverJudged => f.write_str("its layout was never judged by what it is asked"),
            Self::Mix(drift) => {
                write!(f, "{:.0} % is asked otherwise than when it was judged", drift * 100.0)
            }
            Self::Engine(engine) => write!(f, "it was judged on another engine, {engine}"),
        }
    }
}

impl fmt::Display for Proposal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Estimate { present, best, rewrite_seconds, rows } = &self.estimate;
        let guess = if rows.is_none() { " or more: their rows could not be counted" } else { "" };
        let micros = |seconds: f64| seconds * 1e6;
        write!(
            f,
            "{} instead of {}: {:.0} us a request instead of {:.0} are predicted",
            best.layout,
            present.layout,
            micros(best.seconds),
            micros(present.seconds),
        )?;
        if let Some(Measured { present_seconds, best_seconds }) = self.measured {
            let (best, present) = (micros(best_seconds), micros(present_seconds));
            write!(f, ", {best:.0} instead of {present:.0} measured")?;
        }
        write!(
            f,
            ", at {:.0} requests/s; rewriting the objects takes {rewrite_seconds:.0} s{guess}; {}",
            self.requests_per_second, self.reason,
        )
    }
}
