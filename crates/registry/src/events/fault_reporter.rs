//! Reporting the faults of programs from wherever they happen.

use std::time::Duration;

use nacre_class::FaultSink;
use nacre_object::{Error, NodeName};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::event::ProgramSite;
use super::report_rate::{Report, ReportRate, Sited};
use super::{Event, Events, Severity};
use crate::programs::{ProgramId, ProgramKind};

/// Faults waiting for the reporter. It does little, so more than this means the cluster log does
/// not answer; further ones are left out.
const MAX_WAITING: usize = 1024;

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
    /// The fault that `error` tells of, of the program at `site`; the error's line, if it has one,
    /// is the site's.
    pub fn new(mut site: ProgramSite, error: &Error) -> Self {
        let mut text = error.message().to_owned();
        if let Some(fault) = error.fault() {
            site.line = fault.line.or(site.line);
            if !fault.traceback.is_empty() {
                text.push('\n');
                text.push_str(&fault.traceback);
            }
        }
        Self { site, text }
    }
}

/// Puts the faults of a node's programs into the cluster log, at most one event a second for each
/// program, version and line. It ends with its last clone.
#[derive(Debug, Clone)]
pub struct FaultReporter {
    faults: mpsc::Sender<ProgramFault>,
}

impl FaultReporter {
    /// A reporter for a node. Needs a tokio runtime.
    pub fn start(events: Events, node: NodeName) -> Self {
        let (faults, waiting) = mpsc::channel(MAX_WAITING);
        tokio::spawn(report_all(waiting, events, node));
        Self { faults }
    }

    /// Takes a fault. Never waits; callable from any thread.
    pub fn report(&self, fault: ProgramFault) {
        // Full or closed: the fault failed its own request, which is what must not be lost.
        let _ = self.faults.try_send(fault);
    }
}

/// What the class runtime hears: faults of class programs, by name, and of map programs, as
/// `map/NAME`. A one-off script is its caller's business, who was told.
impl FaultSink for FaultReporter {
    fn fault(&self, fault: &nacre_class::ProgramFault<'_>) {
        let program = match fault.program.split_once('/') {
            Some(_) => fault.program.parse(),
            None => fault.program.parse().map(|name| ProgramId::new(ProgramKind::Class, name)),
        };
        if let (Ok(ProgramId { kind, name }), 1..) = (program, fault.version) {
            let site = ProgramSite { kind, name, version: fault.version, line: fault.line };
            self.report(ProgramFault::new(site, fault.error));
        }
    }
}

async fn report_all(mut waiting: mpsc::Receiver<ProgramFault>, events: Events, node: NodeName) {
    let started = Instant::now();
    let mut rate = ReportRate::default();
    loop {
        let pause = rate.next_due().map(|due| due.saturating_sub(started.elapsed()));
        let reports: Vec<Report<ProgramFault>> = tokio::select! {
            fault = waiting.recv() => match fault {
                Some(fault) => rate.happened(fault, started.elapsed()).into_iter().collect(),
                None => return,
            },
            () = tokio::time::sleep(pause.unwrap_or(Duration::MAX)), if pause.is_some() => {
                rate.due(started.elapsed())
            }
        };
        for Report { what: fault, count } in reports {
            let event = Event::new(Severity::Error, fault.text)
                .node(node.clone())
                .program(fault.site)
                .field("count", count.to_string());
            // The log was asked again for some seconds; the node has more urgent things to do.
            let _ = events.append(event).await;
        }
    }
}
