//! Chooses requests to trace in addition to those that clients ask to trace.

use std::sync::Arc;

use nacre_clock::Random;

use crate::{Id, OpenSpan, Spans, Trace};

/// How many requests are traced, and where their spans are stored.
#[derive(Debug, Clone)]
pub struct Sampling {
    /// Remembers the spans of this process; nodes remember theirs under the same ids.
    pub spans: Arc<Spans>,
    /// One request in this many is traced; 0 counts as 1.
    pub one_in: u32,
}

impl Sampling {
    /// Makes a sampler for one task that sends requests.
    pub fn sampler(&self) -> Sampler {
        self.spans.sampler(self.one_in)
    }
}

/// Picks one request in `one_in`. A sampler belongs to one task, so it needs no synchronization: a
/// request that is not picked costs a subtraction and a branch.
#[derive(Debug)]
pub struct Sampler {
    spans: Arc<Spans>,
    random: Random,
    one_in: u32,
    left: u32,
}

impl Sampler {
    pub(crate) fn new(spans: Arc<Spans>, random: Random, one_in: u32) -> Self {
        let mut sampler = Self { spans, random, one_in: one_in.max(1), left: 0 };
        sampler.left = sampler.gap();
        sampler
    }

    /// If the sampler picks the next request, begins a trace and returns its first span. Work that
    /// runs in [`traced`](crate::traced) with that trace belongs to the trace, in every process
    /// that the request passes.
    pub fn begin(&mut self, name: &'static str) -> Option<OpenSpan> {
        Some(self.pick()?.begin(name))
    }

    /// A trace of its own for the next request, if it is picked.
    pub fn pick(&mut self) -> Option<Trace> {
        if self.left > 0 {
            self.left -= 1;
            return None;
        }
        self.left = self.gap();
        Some(self.spans.join(Id(self.random.next_u64().max(1)), Id::NONE))
    }

    /// How many requests to skip before the next picked one. The number is random each time,
    /// because requests may repeat in a regular pattern. The first number is random, too, so that
    /// many short sessions are sampled like one long session.
    fn gap(&mut self) -> u32 {
        let span = 2 * u64::from(self.one_in) - 1;
        self.random.below(span) as u32
    }
}
