//! The finished spans that a process keeps.
//!
//! They are in a ring, where the newest span replaces the oldest. Only traced work takes the ring's
//! lock, and holds it briefly.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nacre_clock::{Clock, Random};
use serde::{Deserialize, Serialize};

use crate::{Fields, Id, OpenSpan, Sampler, Span, Trace};

/// How many finished spans a process keeps. A span takes some 300 bytes, or a few times that with
/// the longest fields. So the spans take a megabyte or two, and cover at least the last hundred
/// traced requests.
pub const MAX_SPANS: usize = 4096;

/// The finished spans of one process, and the numbers of new ones.
#[derive(Debug)]
pub struct Spans {
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    random: Random,
    ring: VecDeque<Span>,
}

/// The order in which traces are listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// The latest first.
    Recent,
    /// The longest traces first.
    Slow,
}

/// A summary of a trace, from the spans of one process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceSummary {
    /// The trace.
    pub trace_id: Id,
    /// The trace's longest span in this process.
    pub span: Span,
    /// How many spans it has here.
    pub spans: u64,
}

impl Spans {
    /// No spans yet. Times come from `clock`, numbers of traces and spans from `random`.
    pub fn new(clock: Arc<dyn Clock>, random: Random) -> Arc<Self> {
        let state = State { random, ring: VecDeque::new() };
        Arc::new(Self { clock, state: Mutex::new(state) })
    }

    /// Begins a trace of its own with its first span.
    pub fn begin(self: &Arc<Self>, name: &'static str) -> OpenSpan {
        self.join(self.next_id(), Id::NONE).begin(name)
    }

    /// Continues a trace that another process began, below that process's span.
    pub fn join(self: &Arc<Self>, trace_id: Id, parent: Id) -> Trace {
        Trace::new(Arc::clone(self), trace_id, parent)
    }

    /// Picks one in `one_in` of the requests that no client asked to trace.
    pub fn sampler(self: &Arc<Self>, one_in: u32) -> Sampler {
        Sampler::new(Arc::clone(self), Random::seeded(self.next_id().0), one_in)
    }

    /// The stored spans of a trace, in the order in which they began.
    pub fn of(&self, trace_id: Id) -> Vec<Span> {
        let state = self.lock();
        let mut found: Vec<_> =
            state.ring.iter().filter(|span| span.trace_id == trace_id).cloned().collect();
        drop(state);
        found.sort_by_key(|span| span.start_micros);
        found
    }

    /// At most `limit` of the traces that are remembered.
    pub fn traces(&self, order: Order, limit: usize) -> Vec<TraceSummary> {
        let mut all: HashMap<Id, TraceSummary> = HashMap::new();
        for span in &self.lock().ring {
            let summary = all.entry(span.trace_id).or_insert_with(|| TraceSummary {
                trace_id: span.trace_id,
                span: span.clone(),
                spans: 0,
            });
            summary.spans += 1;
            if span.duration_micros > summary.span.duration_micros {
                summary.span = span.clone();
            }
        }
        let mut all: Vec<_> = all.into_values().collect();
        all.sort_by_key(|summary| {
            std::cmp::Reverse(match order {
                Order::Recent => summary.span.start_micros,
                Order::Slow => summary.span.duration_micros,
            })
        });
        all.truncate(limit);
        all
    }

    pub(crate) fn now_micros(&self) -> u64 {
        self.clock.now_micros()
    }

    pub(crate) fn next_id(&self) -> Id {
        Id(self.lock().random.next_u64().max(1))
    }

    pub(crate) fn remember(&self, span: Span) {
        let mut state = self.lock();
        if state.ring.len() == MAX_SPANS {
            state.ring.pop_front();
        }
        state.ring.push_back(span);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Trace {
    /// Remembers something that is over; times are microseconds since 1970, UTC.
    pub fn record(&self, name: &'static str, start_micros: u64, end_micros: u64, fields: Fields) {
        let span_id = self.spans().next_id();
        self.remember(span_id, name, start_micros, end_micros, fields);
    }

    pub(crate) fn remember(
        &self,
        span_id: Id,
        name: &'static str,
        start_micros: u64,
        end_micros: u64,
        fields: Fields,
    ) {
        self.spans().remember(Span {
            trace_id: self.id(),
            span_id,
            parent: self.parent(),
            name: name.into(),
            start_micros,
            // The clock was set back meanwhile, so the duration is unknown.
            duration_micros: end_micros.saturating_sub(start_micros),
            fields,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nacre_clock::ManualClock;
    use std::time::Duration;

    fn spans() -> (Arc<ManualClock>, Arc<Spans>) {
        let clock = Arc::new(ManualClock::at(1_000));
        (Arc::clone(&clock), Spans::new(clock, Random::seeded(7)))
    }

    #[test]
    fn a_nested_span_carries_the_trace_and_the_id_of_the_span_around_it() {
        let (clock, spans) = spans();
        let mut whole = spans.begin("whole");
        whole.field("bytes", 5);
        clock.advance(Duration::from_micros(3));
        let part = whole.trace().begin("part");
        clock.advance(Duration::from_micros(4));
        drop(part);
        let id = whole.trace().id();
        drop(whole);
        let [whole, part] = &spans.of(id)[..] else { panic!("two spans") };
        assert_eq!((&*whole.name, whole.parent, whole.start_micros), ("whole", Id::NONE, 1_000));
        assert_eq!((whole.duration_micros, whole.fields.get("bytes")), (7, Some(&5.into())));
        assert_eq!((&*part.name, part.parent, part.start_micros), ("part", whole.span_id, 1_003));
        assert_eq!(part.duration_micros, 4);
    }

    #[test]
    fn the_newest_spans_replace_the_oldest_within_the_bound() {
        let (_, spans) = spans();
        let first = spans.begin("first").trace().id();
        assert_eq!(spans.of(first).len(), 1);
        for _ in 0..MAX_SPANS {
            spans.begin("later");
        }
        assert_eq!(spans.of(first), []);
        assert_eq!(spans.traces(Order::Recent, usize::MAX).len(), MAX_SPANS);
    }

    #[test]
    fn traces_are_listed_by_time_or_by_duration() {
        let (clock, spans) = spans();
        let mut ids = Vec::new();
        for micros in [5, 50, 1] {
            let span = spans.begin("request");
            ids.push(span.trace().id());
            drop(span.trace().begin("part"));
            clock.advance(Duration::from_micros(micros));
        }
        let ids_by = |order| -> Vec<_> {
            spans.traces(order, 2).iter().map(|summary| summary.trace_id).collect()
        };
        assert_eq!(ids_by(Order::Recent), [ids[2], ids[1]]);
        assert_eq!(ids_by(Order::Slow), [ids[1], ids[0]]);
        assert_eq!(spans.traces(Order::Slow, 1)[0].spans, 2);
    }

    #[test]
    fn a_span_has_no_length_if_the_clock_is_set_back() {
        let (_, spans) = spans();
        let trace = spans.join(Id(9), Id::NONE);
        trace.record("odd", 10, 5, Fields::default());
        assert_eq!(spans.of(Id(9))[0].duration_micros, 0);
    }

    #[test]
    fn a_sampler_picks_one_request_in_n_and_repeats_its_choice_for_a_seed() {
        let picks = || {
            let (_, spans) = spans();
            let mut sampler = spans.sampler(16);
            (0..16_000).map(|_| sampler.pick().is_some()).collect::<Vec<_>>()
        };
        let picked = picks().iter().filter(|picked| **picked).count();
        assert!((900..1_100).contains(&picked), "{picked}");
        assert_eq!(picks(), picks());
    }
}
