//! `Figure`: one measured number beside its baseline.

use serde::Serialize;

/// Which way is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Better {
    /// Rates.
    Higher,
    /// Latencies, memory.
    Lower,
}

/// A figure as `nacre-bench --json` prints it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Figure {
    /// The bench it belongs to.
    pub bench: &'static str,
    /// What was measured, with its parameters.
    pub figure: String,
    /// Of both numbers.
    pub unit: &'static str,
    /// Ours: the median of the rounds.
    pub ours: f64,
    /// The value of the baseline, measured in the same run. The name of the baseline says so if the
    /// value is a published number.
    pub baseline: f64,
    /// What that is.
    pub baseline_name: String,
    /// Above 1 ours is better.
    pub ratio: f64,
    /// The ratio aimed at, if there is an aim.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aim: Option<f64>,
}

impl Figure {
    /// A figure; its ratio is above 1 if `ours` is the better one.
    pub fn new(
        (bench, figure, unit): (&'static str, impl Into<String>, &'static str),
        better: Better,
        ours: f64,
        (baseline_name, baseline): (impl Into<String>, f64),
    ) -> Self {
        let ratio = match better {
            Better::Higher => ours / baseline,
            Better::Lower => baseline / ours,
        };
        let (figure, baseline_name) = (figure.into(), baseline_name.into());
        Self { bench, figure, unit, ours, baseline, baseline_name, ratio, aim: None }
    }

    /// The same with the ratio that is aimed at.
    pub fn aiming_at(self, ratio: f64) -> Self {
        Self { aim: Some(ratio), ..self }
    }

    /// The figure for people, on one line.
    pub fn line(&self) -> String {
        let aim = match self.aim {
            Some(aim) if self.is_met() => format!("  (aim {aim}: met)"),
            Some(aim) => format!("  (aim {aim}: not met)"),
            None => String::new(),
        };
        format!(
            "{} {}: {} {}, {:.2} of {} ({}){aim}",
            self.bench,
            self.figure,
            number(self.ours),
            self.unit,
            self.ratio,
            self.baseline_name,
            number(self.baseline),
        )
    }

    /// Whether there is no aim, or it is met.
    pub fn is_met(&self) -> bool {
        self.aim.is_none_or(|aim| self.ratio >= aim)
    }
}

fn number(value: f64) -> String {
    if value >= 100.0 { format!("{value:.0}") } else { format!("{value:.2}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_above_one_is_better_whatever_the_unit() {
        let rate = Figure::new(("b", "f", "ops/s"), Better::Higher, 20.0, ("other", 10.0));
        let latency = Figure::new(("b", "f", "s"), Better::Lower, 10.0, ("other", 20.0));
        assert_eq!((rate.ratio, latency.ratio), (2.0, 2.0));
        assert!(rate.clone().aiming_at(2.0).is_met() && !rate.aiming_at(2.1).is_met());
    }
}
