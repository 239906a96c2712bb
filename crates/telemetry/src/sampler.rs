//! Chooses which requests are traced although no client asked for it.

use std::sync::Arc;

use nacre_clock::Random;

use crate::{Id, OpenSpan, Spans, Trace};

/// That one request in so many is traced, and where what is found out is remembered.
#[derive(Debug, Clone)]
pub struct Sampling {
    /// Remembers the spans of this process; nodes remember theirs under the same ids.
    pub spans: Arc<Spans>,
    /// One in how many; 0 is taken for 1.
    pub one_in: u32,
}

impl Sampling {
    /// What picks, for one of those who send requests.
    pub fn sampler(&self) -> Sampler {
        self.spans.sampler(self.one_in)
    }
}

/// Picks one request in so many. A sampler belongs to one task, so picking is counting down: a
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

    /// If the next request is picked, begins a trace with its first span. Work that runs
    /// [`traced`](crate::traced) by it belongs to that trace, in every process it goes through.
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

    /// How many requests are skipped before the next picked one. It is drawn anew each time, so
    /// that it never follows a rhythm of the requests. The first gap is drawn too, so that many
    /// short sessions are sampled like one long session.
    fn gap(&mut self) -> u32 {
        let span = 2 * u64::from(self.one_in) - 1;
        self.random.below(span) as u32
    }
}
