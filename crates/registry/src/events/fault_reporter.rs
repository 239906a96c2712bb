//! Reporting the faults of programs from wherever they happen.

use std::sync::{Arc, OnceLock};

use nacre_object::{Error, NodeName, ProgramName};

use super::event::{ProgramSite, cut};
use super::rated_reporter::RatedReporter;
use super::report_rate::{Sited, WINDOW};
use super::{Event, Events, Severity};
use crate::limits::MAX_EVENT_TEXT_BYTES;
use crate::programs::ProgramKind;

/// A program failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramFault {
    /// Where.
    pub site: ProgramSite,
    /// Why, with the traceback if there is one.
    pub text: String,
}

impl Sited for ProgramFault {
    type Site = ProgramSite;

    fn site(&self) -> &ProgramSite {
        &self.site
    }
}

impl ProgramFault {
    /// Makes the fault of the program at `site` from an error. If the error names a source line,
    /// the site gets that line.
    pub fn new(mut site: ProgramSite, error: &Error) -> Self {
        let mut text = error.message().to_owned();
        if let Some(fault) = error.fault() {
            site.line = fault.line.or(site.line);
            if !fault.traceback.is_empty() {
                text.push('\n');
                text.push_str(&fault.traceback);
            }
        }
        // The text is cut here, because many faults may wait. The log would cut the text anyway.
        Self { site, text: cut(text, MAX_EVENT_TEXT_BYTES) }
    }
}

/// Reports faults of a node's programs to the cluster log, at most one event a second for each
/// program, version and line. The reporter ends when its last clone is dropped.
#[derive(Debug, Clone)]
pub struct FaultReporter(RatedReporter<ProgramFault>);

impl FaultReporter {
    /// A reporter for a node. Needs a tokio runtime.
    pub fn start(events: Events, node: NodeName) -> Self {
        let event = move |fault: ProgramFault, count: u64| {
            Event::new(Severity::Error, fault.text)
                .node(node.clone())
                .program(fault.site)
                .field("count", count.to_string())
        };
        Self(RatedReporter::start(events, WINDOW, event))
    }

    /// Takes a fault. Never waits; callable from any thread.
    pub fn report(&self, fault: ProgramFault) {
        self.0.report(fault);
    }
}

/// Reports the faults of one kind of program. A starting node runs programs before it can reach the
/// cluster log; faults until then are dropped. Clones share one reporter.
#[derive(Debug, Clone)]
pub struct KindFaults {
    kind: ProgramKind,
    reporter: Arc<OnceLock<FaultReporter>>,
}

impl KindFaults {
    /// Takes faults of programs of this kind.
    pub fn of(kind: ProgramKind) -> Self {
        Self { kind, reporter: Arc::default() }
    }

    /// Reports faults from now on. A second call changes nothing, because a process is one node.
    pub fn report_to(&self, reporter: FaultReporter) {
        let _ = self.reporter.set(reporter);
    }

    /// Reports that a program failed.
    pub fn report(&self, name: &ProgramName, version: u64, error: &Error) {
        if let Some(reporter) = self.reporter.get() {
            let (kind, name, line) = (self.kind, name.clone(), None);
            reporter.report(ProgramFault::new(ProgramSite { kind, name, version, line }, error));
        }
    }
}
