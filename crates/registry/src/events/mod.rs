//! The cluster log: events of programs and of the cluster, in one order.
//!
//! One object of the system pool keeps the newest events in a bounded ring. Events are numbered
//! from 1.

mod class;
mod event;
mod fault_reporter;
mod format;
mod handle;
mod rated_reporter;
mod refusal_reporter;
mod report_rate;
mod watcher;

pub use class::events_class;
pub(crate) use event::cut;
pub use event::{Event, ProgramSite, Severity};
pub use fault_reporter::{FaultReporter, KindFaults, ProgramFault};
pub use handle::Events;
pub(crate) use handle::{EVENTS_CLASS, EVENTS_OBJECT};
pub(crate) use rated_reporter::RatedReporter;
pub use refusal_reporter::RefusalReporter;
pub(crate) use report_rate::{Sited, WINDOW};
pub use watcher::{EventItem, EventWatcher};
