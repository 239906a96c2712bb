//! The cluster log: what happened to programs and to the cluster, in one order.
//!
//! One object of the system pool keeps the newest events as a bounded ring, numbered from 1.

mod class;
mod event;
mod fault_reporter;
mod format;
mod handle;
mod report_rate;
mod watcher;

pub use class::events_class;
pub use event::{Event, ProgramSite, Severity};
pub use fault_reporter::{FaultReporter, ProgramFault};
pub use handle::Events;
pub(crate) use report_rate::{Report, ReportRate, Sited};
pub use watcher::{EventItem, EventWatcher};
