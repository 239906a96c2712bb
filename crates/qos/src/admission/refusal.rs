//! Why a candidate was refused, and what would fit.

use std::fmt;

use nacre_object::{Result, TenantName};

use super::check::Check;
use super::program::{Promises, Stochastic, USABLE, solve};
use super::{Admission, Candidate};
use crate::ArrivalCurve;
use crate::calculus::meets;
use crate::limits::MAX_SLO_SECONDS;

/// The number of steps in the search for a longer SLO or a lower rate that fits. The result is
/// exact to a hundredth.
const SEARCH_STEPS: usize = 10;

/// A tenant that would miss its promise.
#[derive(Debug, Clone, PartialEq)]
pub struct Miss {
    /// The tenant.
    pub tenant: TenantName,
    /// The latency that the tenant was promised or asks for.
    pub slo_seconds: f64,
    /// The latency bound that the tenant would have; `None` if there is no bound.
    pub latency_seconds: Option<f64>,
    /// How likely a longer latency would be, if the promise is stochastic.
    pub stochastic: Option<LikelyMiss>,
    /// The queue that takes most of the latency, if requests pass several one after the other.
    pub mostly_at: Option<String>,
}

/// For a stochastic promise: how many requests may take longer than promised, and how many could.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LikelyMiss {
    /// The fraction of requests that may take longer.
    pub violation: f64,
    /// The fraction of requests that could take longer.
    pub probability: f64,
}

/// A queue that would have more work than it can do.
#[derive(Debug, Clone, PartialEq)]
pub struct Overload {
    /// The queue.
    pub queue: String,
    /// The average work a second that all tenants bring to the queue, in seconds.
    pub rate: f64,
}

/// Another way to serve the candidate, for example with its objects on a further target.
#[derive(Debug, Clone, PartialEq)]
pub struct Alternative {
    /// A description for people: "with its objects also on target 2".
    pub what: String,
    /// The candidate as it would be then.
    pub candidate: Candidate,
}

/// Smaller promises that would be admitted. Each of them was checked.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Fit {
    /// A longer SLO.
    pub slo_seconds: Option<f64>,
    /// The fraction of the requested rate that would fit, if the same requests came less often.
    pub rate_share: Option<f64>,
    /// The alternatives that fit.
    pub alternatives: Vec<String>,
}

/// Why a candidate is refused.
#[derive(Debug, Clone, PartialEq)]
pub struct Refusal {
    /// The candidate's tenant.
    pub tenant: TenantName,
    /// The latency that the tenant asked for.
    pub slo_seconds: f64,
    /// The fraction of its requests that may take longer, if it asked for a stochastic promise.
    pub violation: Option<f64>,
    /// The tenants that would miss their promise even with the token buckets that make the longest
    /// overrun as short as possible.
    pub misses: Vec<Miss>,
    /// The queues that would have more work than they can do.
    pub overloads: Vec<Overload>,
    /// Smaller promises that would fit.
    pub fit: Fit,
}

impl Admission {
    /// Says why this candidate is refused; `None` if it is not refused. `alternatives` are other
    /// ways to serve it, and the refusal names those that fit.
    ///
    /// # Errors
    /// As [`Admission::admit`], also for a malformed alternative.
    pub fn refusal(
        &self,
        candidate: &Candidate,
        alternatives: &[Alternative],
    ) -> Result<Option<Refusal>> {
        if self.fits(candidate)? {
            return Ok(None);
        }
        let mut fitting = vec![];
        for alternative in alternatives {
            if self.fits(&alternative.candidate)? {
                fitting.push(alternative.what.clone());
            }
        }
        let fit = Fit {
            slo_seconds: self.fitting_slo(candidate),
            rate_share: self.fitting_rate(candidate),
            alternatives: fitting,
        };
        Ok(Some(Refusal {
            tenant: candidate.tenant.clone(),
            slo_seconds: candidate.slo_seconds,
            violation: candidate.violation,
            misses: self.misses(candidate),
            overloads: self.overloads(candidate),
            fit,
        }))
    }

    fn misses(&self, candidate: &Candidate) -> Vec<Miss> {
        let group = self.group(candidate);
        let members = self.members(candidate, &group);
        let tried = Stochastic::tried(&members);
        // The choice in the middle gives bursts some weight, but less than rates.
        let stochastic = tried[tried.len() / 2];
        let Some(buckets) = solve(&self.queues, &members, Promises::Overrun, stochastic) else {
            return members.iter().map(|member| miss(member, None, 1.0, None)).collect();
        };
        let check = Check::new(&self.queues, &members, &buckets);
        let outcomes = members.iter().zip(check.latencies()).zip(check.probabilities());
        let outcomes = outcomes.zip(check.slowest_queues());
        let missed = outcomes.filter_map(|(((member, latency), probability), slowest)| {
            let queue = slowest.map(|queue| self.queues[queue].name.clone());
            let is_missed = !meets(latency, member.slo_seconds);
            is_missed.then(|| miss(member, latency, probability, queue))
        });
        missed.collect()
    }

    fn overloads(&self, candidate: &Candidate) -> Vec<Overload> {
        let rate_at = |queue: usize| {
            let flows = |tenant: &Candidate| {
                let own = tenant.flows.iter().filter(|flow| flow.queue == queue);
                own.map(|flow| flow.curve.least_rate()).sum::<f64>()
            };
            let present = self.tenants.iter().map(|admitted| flows(&admitted.candidate));
            present.sum::<f64>() + flows(candidate)
        };
        let own = candidate.flows.iter().map(|flow| (flow.queue, rate_at(flow.queue)));
        own.filter(|(_, rate)| *rate > USABLE)
            .map(|(queue, rate)| Overload { queue: self.queues[queue].name.clone(), rate })
            .collect()
    }

    fn is_fitting(&self, candidate: &Candidate) -> bool {
        self.fitting(candidate, &self.group(candidate)).is_some()
    }

    /// A longer SLO with which the candidate fits.
    fn fitting_slo(&self, candidate: &Candidate) -> Option<f64> {
        let with = |slo_seconds: f64| Candidate { slo_seconds, ..candidate.clone() };
        let (mut low, mut high) = (candidate.slo_seconds, candidate.slo_seconds);
        while !self.is_fitting(&with(high)) {
            (low, high) = (high, high * 2.0);
            if high > MAX_SLO_SECONDS {
                return None;
            }
        }
        for _ in 0..SEARCH_STEPS {
            let middle = f64::midpoint(low, high);
            match self.is_fitting(&with(middle)) {
                true => high = middle,
                false => low = middle,
            }
        }
        Some(high)
    }

    /// The fraction of its rate with which the candidate fits.
    fn fitting_rate(&self, candidate: &Candidate) -> Option<f64> {
        let (mut low, mut high) = (0.0, 1.0);
        for _ in 0..SEARCH_STEPS {
            let middle = f64::midpoint(low, high);
            match slower(candidate, middle).is_some_and(|slower| self.is_fitting(&slower)) {
                true => low = middle,
                false => high = middle,
            }
        }
        (low > 0.0).then_some(low)
    }
}

fn miss(
    member: &Candidate,
    latency_seconds: Option<f64>,
    probability: f64,
    mostly_at: Option<String>,
) -> Miss {
    Miss {
        tenant: member.tenant.clone(),
        slo_seconds: member.slo_seconds,
        latency_seconds,
        stochastic: member.violation.map(|violation| LikelyMiss { violation, probability }),
        mostly_at,
    }
}

/// The candidate with its rates multiplied by `share`.
fn slower(candidate: &Candidate, share: f64) -> Option<Candidate> {
    let mut slower = candidate.clone();
    for flow in &mut slower.flows {
        let mut lines = flow.curve.lines().to_vec();
        for line in &mut lines {
            line.rate *= share;
        }
        flow.curve = ArrivalCurve::lower_envelope(&lines).ok()?;
    }
    Some(slower)
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is refused with {} by ", self.tenant, Milliseconds(self.slo_seconds))?;
        match self.violation {
            None => write!(f, "the deterministic bound")?,
            Some(violation) => write!(f, "the stochastic bound for a violation of {violation}")?,
        }
        for Overload { queue, rate } in &self.overloads {
            write!(f, "; {queue} would have {:.1}% of the work that it can do", rate * 100.0)?;
        }
        for Miss { tenant, slo_seconds, latency_seconds, stochastic, mostly_at } in &self.misses {
            write!(f, "; {tenant} would miss its {}", Milliseconds(*slo_seconds))?;
            if let Some(LikelyMiss { violation, probability }) = stochastic {
                let probability = *probability;
                write!(f, " with a probability of {probability:.2e}, and {violation} may")?;
            } else if let Some(latency) = latency_seconds {
                write!(f, " by {}", Milliseconds(latency - slo_seconds))?;
            } else {
                write!(f, " without bound")?;
            }
            if let Some(queue) = mostly_at {
                write!(f, ", mostly at {queue}")?;
            }
        }
        let mut fits = vec![];
        if let Some(slo) = self.fit.slo_seconds {
            let (fitting, asked) = (Milliseconds(slo), Milliseconds(self.slo_seconds));
            fits.push(format!("{fitting} instead of {asked}"));
        }
        if let Some(share) = self.fit.rate_share {
            fits.push(format!("{:.1}% of its rate", share * 100.0));
        }
        fits.extend(self.fit.alternatives.iter().cloned());
        match fits.is_empty() {
            true => write!(f, "; nothing that was tried would fit"),
            false => write!(f, "; what would fit: {}", fits.join(", or ")),
        }
    }
}

/// Seconds, shown in milliseconds.
struct Milliseconds(f64);

impl fmt::Display for Milliseconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let milliseconds = self.0 * 1e3;
        match milliseconds {
            1e3.. => write!(f, "{milliseconds:.0} ms"),
            10.0..1e3 => write!(f, "{milliseconds:.1} ms"),
            _ => write!(f, "{milliseconds:.3} ms"),
        }
    }
}
