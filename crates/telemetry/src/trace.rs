//! The trace that work belongs to: an id, the enclosing span, and the collection that stores the
//! spans.
//!
//! [`traced`] makes a trace current whenever its task runs. Code that sends a message, or hands the
//! work to another thread, passes the current trace along. Other code need not know of traces. For
//! untraced work, passing the trace along costs one look at a thread-local variable. Spawned tasks
//! begin without a trace.
//!
//! Times are the clock's UTC microseconds, rounded down. So on one machine, a nested span never
//! seems to begin before its enclosing span or to end after it, even in different processes.

use std::cell::RefCell;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;

use crate::span::{Fields, Value};
use crate::{Id, Spans};

thread_local! {
    static CURRENT: RefCell<Option<Trace>> = const { RefCell::new(None) };
}

/// The trace that work belongs to. Work that is not traced has none.
#[derive(Debug, Clone)]
pub struct Trace {
    spans: Arc<Spans>,
    id: Id,
    parent: Id,
}

impl Trace {
    pub(crate) fn new(spans: Arc<Spans>, id: Id, parent: Id) -> Self {
        Self { spans, id, parent }
    }

    /// The trace of the task that runs.
    pub fn current() -> Option<Self> {
        CURRENT.with_borrow(Clone::clone)
    }

    /// Its id.
    pub fn id(&self) -> Id {
        self.id
    }

    /// The enclosing span of new spans.
    pub fn parent(&self) -> Id {
        self.parent
    }

    /// Begins a span, which ends when it is dropped.
    pub fn begin(&self, name: &'static str) -> OpenSpan {
        OpenSpan {
            of: self.clone(),
            span_id: self.spans.next_id(),
            name,
            start_micros: self.now_micros(),
            fields: Fields::default(),
        }
    }

    /// The time spans are measured by.
    pub fn now_micros(&self) -> u64 {
        self.spans.now_micros()
    }

    pub(crate) fn spans(&self) -> &Spans {
        &self.spans
    }
}

/// Something that is going on. It is remembered when it ends: when this is dropped.
#[derive(Debug)]
pub struct OpenSpan {
    /// The trace and enclosing span.
    of: Trace,
    span_id: Id,
    name: &'static str,
    start_micros: u64,
    fields: Fields,
}

impl OpenSpan {
    /// Begins a span of the current trace, if there is one.
    pub fn here(name: &'static str) -> Option<Self> {
        Some(Trace::current()?.begin(name))
    }

    /// The trace for nested spans.
    pub fn trace(&self) -> Trace {
        Trace { parent: self.span_id, ..self.of.clone() }
    }

    /// Adds a field.
    pub fn field(&mut self, name: &'static str, value: impl Into<Value>) {
        self.fields.add(name, value);
    }
}

impl Drop for OpenSpan {
    fn drop(&mut self) {
        let fields = std::mem::take(&mut self.fields);
        let end_micros = self.of.now_micros();
        self.of.remember(self.span_id, self.name, self.start_micros, end_micros, fields);
    }
}

/// Runs `work` within `span`. Without a span, runs it untraced.
pub async fn traced<T>(span: Option<&OpenSpan>, work: impl Future<Output = T>) -> T {
    let Some(span) = span else { return work.await };
    let mut trace = Some(span.trace());
    let mut work = pin!(work);
    poll_fn(|context| {
        let _current = Current::enter(&mut trace);
        work.as_mut().poll(context)
    })
    .await
}

/// Makes a trace current until it is dropped.
struct Current<'a>(&'a mut Option<Trace>);

impl<'a> Current<'a> {
    fn enter(trace: &'a mut Option<Trace>) -> Self {
        CURRENT.with_borrow_mut(|current| std::mem::swap(current, trace));
        Self(trace)
    }
}

impl Drop for Current<'_> {
    fn drop(&mut self) {
        CURRENT.with_borrow_mut(|current| std::mem::swap(current, self.0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nacre_clock::{ManualClock, Random};
    use std::task::{Context, Poll, Waker};

    #[test]
    fn a_trace_is_current_while_its_work_runs_and_at_no_other_time() {
        let spans = Spans::new(Arc::new(ManualClock::default()), Random::seeded(1));
        let (outer, inner) = (spans.begin("outer"), spans.begin("inner"));
        let id = || Trace::current().map(|trace| trace.id());
        let (of_outer, of_inner) = (outer.trace().id(), inner.trace().id());
        let mut polls = 0;
        let twice = poll_fn(|_| {
            assert_eq!(id(), Some(of_inner));
            polls += 1;
            if polls < 2 { Poll::Pending } else { Poll::Ready(()) }
        });
        let work = traced(Some(&outer), async {
            assert_eq!(id(), Some(of_outer));
            traced(Some(&inner), twice).await;
            assert_eq!(id(), Some(of_outer));
        });
        let mut work = pin!(work);
        let mut context = Context::from_waker(Waker::noop());
        assert_eq!(work.as_mut().poll(&mut context), Poll::Pending);
        assert_eq!(id(), None);
        assert_eq!(work.as_mut().poll(&mut context), Poll::Ready(()));
        assert_eq!(id(), None);
    }

    #[test]
    fn untraced_work_records_no_span() {
        let spans = Spans::new(Arc::new(ManualClock::default()), Random::seeded(1));
        let mut work = pin!(traced(None, async { OpenSpan::here("part").is_none() }));
        let mut context = Context::from_waker(Waker::noop());
        assert_eq!(work.as_mut().poll(&mut context), Poll::Ready(true));
        assert!(spans.traces(crate::Order::Recent, 1).is_empty());
    }
}
