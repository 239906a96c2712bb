//! Decides what a node does next about its programs. This module does no IO.
//!
//! The map `programs` says which version of each program should be live. The core emits one command
//! at a time, such as to install a version, that brings the node closer to this. Only the newest
//! state of the map counts. If a failed command may succeed later, the core repeats it after a
//! pause. If it failed for good, the version that was live before stays live; the core reports the
//! failure and waits for the program's next activation. It writes reports when no command is due.
//!
//! **Invariant:** a report takes effect only after all earlier reports of the node, or not at all.
//! Each report names the previous one, and the map refuses a report that does not name the stored
//! one. If the node does not know whether its last report was stored, it reads the stored report
//! and writes another. The map then refuses the earlier report if it arrives late.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use nacre_clock::Random;
use nacre_object::{Error, NodeName};

use super::live_table::{LiveState, LiveTable};
use crate::backoff::Backoff;
use crate::limits::{MAX_CHANGES, MAX_STATUS_ERROR_BYTES};
use crate::maps::{Change, EntryGuard};
use crate::programs::{
    Active, FailedVersion, ProgramId, ProgramKind, ProgramRecord, ReportOrder, StatusReport,
    report_order_key, status_key,
};

/// A node waits between once and twice this long before it reports that a version is live. In this
/// time other nodes learn of the activation; commits of reports would slow them down.
const REPORT_AFTER: Duration = Duration::from_millis(15);

/// A state of the map `programs`, or changes of it.
#[derive(Debug, Clone)]
pub(super) struct News {
    /// The map's epoch after it.
    pub(super) epoch: u64,
    /// Whether programs that are not among `records` are gone.
    pub(super) whole: bool,
    /// The programs that changed.
    pub(super) records: BTreeMap<ProgramId, ProgramRecord>,
}

/// What to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Command {
    /// Make this version live.
    Install { program: ProgramId, active: Active, activation: u64 },
    /// Drop the program.
    Uninstall { program: ProgramId, activation: u64 },
    /// Read the reports of this node and of its earlier incarnations.
    ReadReports,
    /// Write reports, unless another report was stored that this node does not know of.
    WriteReports { guard: EntryGuard, changes: Vec<Change> },
}

/// The outcome of a command on a program.
#[derive(Debug, Clone)]
pub(super) enum Outcome {
    /// It is done.
    Done,
    /// It may succeed later.
    Later(Error),
    /// It will not.
    Failed(Error),
}

/// What to do next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// Execute this command, then pass its outcome to the core.
    Do(Command),
    /// Nothing before this time, or news.
    WaitUntil(Duration),
    /// Nothing before news.
    Wait,
}

/// One program on this node.
#[derive(Debug)]
struct Tracked {
    wanted: Option<Active>,
    /// Which activation `wanted` is of, and which has been dealt with.
    activation: u64,
    settled: u64,
    live: Option<Active>,
    error: Option<Error>,
    pause: Pause,
}

/// When something may be tried again.
#[derive(Debug)]
struct Pause {
    until: Duration,
    backoff: Backoff,
}

/// The state of a node's programs.
#[derive(Debug)]
pub(super) struct Core {
    node: NodeName,
    incarnation: u64,
    random: Random,
    known_epoch: u64,
    programs: BTreeMap<ProgramId, Tracked>,
    /// The node's entries in the map of reports; not known at first.
    reported: Option<Reported>,
    /// The number of the next commit of reports. Each attempt gets a new number, because a commit
    /// that seemed to fail may still happen.
    next_report: u64,
    /// When the oldest unreported change may be reported.
    report_due: Option<Duration>,
    report_pause: Pause,
}

/// The node's entries in the map of reports.
#[derive(Debug)]
struct Reported {
    reports: BTreeMap<String, Bytes>,
    order: Option<Bytes>,
    /// Whether an earlier report is possibly still on its way and could take effect.
    is_open: bool,
}

impl Pause {
    fn none(seed: u64) -> Self {
        Self { until: Duration::ZERO, backoff: Backoff::seeded(seed) }
    }

    fn begin(&mut self, now: Duration) {
        self.until = now + self.backoff.next();
    }

    fn end(&mut self) {
        self.until = Duration::ZERO;
        self.backoff.reset();
    }
}

impl Tracked {
    fn is_settled(&self) -> bool {
        self.settled == self.activation
    }

    fn state(&self) -> LiveState {
        LiveState {
            live: self.live.as_ref().map(|live| live.version),
            wanted: self.wanted.as_ref().map(|wanted| wanted.version),
            settled: self.is_settled(),
            error: self.error.clone(),
        }
    }

    fn report(&self, incarnation: u64) -> Option<StatusReport> {
        let failed = self.error.as_ref().map(|error| FailedVersion {
            version: self.wanted.as_ref().map_or(0, |wanted| wanted.version),
            error: cut(error.to_string()),
            retrying: !self.is_settled(),
        });
        let live = self.live.as_ref().map(|live| live.version);
        let report = StatusReport { incarnation, activation: self.activation, live, failed };
        (report.live.is_some() || report.failed.is_some()).then_some(report)
    }
}

fn cut(mut text: String) -> String {
    let mut end = text.len().min(MAX_STATUS_ERROR_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
    text
}

impl Core {
    pub(super) fn new(node: NodeName, incarnation: u64, seed: u64) -> Self {
        let mut random = Random::seeded(seed);
        let report_pause = Pause::none(random.next_u64());
        let programs = BTreeMap::new();
        let (known_epoch, reported, next_report) = (0, None, 1);
        Self {
            node,
            incarnation,
            random,
            known_epoch,
            programs,
            reported,
            next_report,
            report_due: None,
            report_pause,
        }
    }

    /// Takes news of the map `programs`.
    pub(super) fn news(&mut self, news: News) {
        self.known_epoch = news.epoch;
        if news.whole {
            let gone = self.programs.iter_mut().filter(|(id, _)| !news.records.contains_key(*id));
            gone.for_each(|(_, tracked)| tracked.want(None, news.epoch));
        }
        for (program, record) in news.records {
            let seed = self.random.next_u64();
            let tracked = self.programs.entry(program).or_insert_with(|| Tracked::new(seed));
            tracked.want(record.active(), record.activation);
        }
    }

    /// Returns the next step. Returns the same command again until the caller passes the command's
    /// outcome to [`Core::done`].
    pub(super) fn step(&self, now: Duration) -> Step {
        let unsettled = || self.programs.iter().filter(|(_, tracked)| !tracked.is_settled());
        if let Some((program, tracked)) = unsettled().find(|(_, t)| t.pause.until <= now) {
            return Step::Do(tracked.command(program));
        }
        let mut due = unsettled().map(|(_, tracked)| tracked.pause.until).min();
        if let Some(command) = self.report_command() {
            let report = self.report_pause.until.max(self.report_due.unwrap_or_default());
            if report <= now {
                return Step::Do(command);
            }
            due = Some(due.map_or(report, |due| due.min(report)));
        }
        due.map_or(Step::Wait, Step::WaitUntil)
    }

    fn report_command(&self) -> Option<Command> {
        let Some(reported) = &self.reported else {
            // There is nothing to say before the first news.
            return (self.known_epoch > 0).then_some(Command::ReadReports);
        };
        let wanted = self.reports();
        let known = &reported.reports;
        let set = wanted.iter().filter(|(key, value)| known.get(*key) != Some(value));
        let set = set.map(|(key, value)| Change::set(key, value.clone()));
        let gone = known.keys().filter(|key| !wanted.contains_key(*key)).map(Change::remove);
        let mut changes: Vec<_> = set.chain(gone).take(MAX_CHANGES - 1).collect();
        if changes.is_empty() && !reported.is_open {
            return None;
        }
        let order = ReportOrder { incarnation: self.incarnation, number: self.next_report };
        let key = report_order_key(&self.node);
        changes.push(Change::set(&key, order.to_value()));
        let guard = EntryGuard { key, known: reported.order.clone() };
        Some(Command::WriteReports { guard, changes })
    }

    fn reports(&self) -> BTreeMap<String, Bytes> {
        let reports = self.programs.iter();
        reports
            .filter_map(|(id, tracked)| {
                Some((status_key(&self.node, id), tracked.report(self.incarnation)?.to_value()))
            })
            .collect()
    }

    /// Takes what came of `Install` or `Uninstall`.
    pub(super) fn done(&mut self, command: &Command, outcome: Outcome, now: Duration) {
        let (program, active, activation) = match command {
            Command::Install { program, active, activation } => {
                (program, Some(active.clone()), *activation)
            }
            Command::Uninstall { program, activation } => (program, None, *activation),
            Command::ReadReports | Command::WriteReports { .. } => return,
        };
        if let Some(tracked) = self.programs.get_mut(program) {
            tracked.done(active, activation, outcome, now);
        }
        if self.report_due.is_none() {
            let more = self.random.below(REPORT_AFTER.as_micros() as u64);
            self.report_due = Some(now + REPORT_AFTER + Duration::from_micros(more));
        }
    }

    /// Takes this node's entries in the map `program-status`. After a start, or after a write
    /// without an answer, the node does not know which reports are stored. So it reads its entries.
    pub(super) fn reports_read(&mut self, mut reports: BTreeMap<String, Bytes>) {
        let order = reports.remove(&report_order_key(&self.node));
        self.reported = Some(Reported { reports, order, is_open: true });
        self.report_pause.end();
    }

    /// Takes that `WriteReports` was done.
    pub(super) fn reports_written(&mut self, changes: Vec<Change>) {
        let Some(reported) = &mut self.reported else { return };
        let order = report_order_key(&self.node);
        for change in changes {
            match change {
                Change::Set { key, value } if key == order => reported.order = Some(value),
                Change::Set { key, value } => drop(reported.reports.insert(key, value)),
                Change::Remove { key } => drop(reported.reports.remove(&key)),
            }
        }
        reported.is_open = false;
        self.report_due = None;
        self.next_report += 1;
        self.report_pause.end();
    }

    /// Notes that `ReadReports` or `WriteReports` failed. The node then no longer knows its entries
    /// in the map: a write that seemed to fail may have happened, or may still happen.
    pub(super) fn reports_failed(&mut self, now: Duration) {
        self.reported = None;
        self.next_report += 1;
        self.report_pause.begin(now);
    }

    /// How programs stand.
    pub(super) fn table(&self) -> LiveTable {
        let states = self.programs.iter().map(|(id, tracked)| (id.clone(), tracked.state()));
        LiveTable { known_epoch: self.known_epoch, programs: states.collect() }
    }
}

impl Tracked {
    fn new(seed: u64) -> Self {
        let pause = Pause::none(seed);
        Self { wanted: None, activation: 0, settled: 0, live: None, error: None, pause }
    }

    fn want(&mut self, wanted: Option<Active>, activation: u64) {
        if activation <= self.activation {
            return;
        }
        self.wanted = wanted;
        self.activation = activation;
        self.error = None;
        self.pause.end();
    }

    fn command(&self, program: &ProgramId) -> Command {
        let (program, activation) = (program.clone(), self.activation);
        match self.wanted.clone() {
            Some(active) => Command::Install { program, active, activation },
            None => Command::Uninstall { program, activation },
        }
    }

    fn done(&mut self, active: Option<Active>, activation: u64, outcome: Outcome, now: Duration) {
        let is_current = activation == self.activation;
        match outcome {
            Outcome::Done => {
                self.live = active;
                if is_current {
                    self.error = None;
                    self.settled = activation;
                }
            }
            Outcome::Later(error) if is_current => {
                self.error = Some(error);
                self.pause.begin(now);
            }
            Outcome::Failed(error) if is_current => {
                self.error = Some(error);
                self.settled = activation;
            }
            // Newer news have come meanwhile.
            Outcome::Later(_) | Outcome::Failed(_) => {}
        }
    }
}

/// Whether nodes install programs of this kind. A map program is not installed, because the map's
/// object contains it.
pub(super) fn is_installed_by_nodes(kind: ProgramKind) -> bool {
    kind != ProgramKind::Map
}

#[cfg(test)]
#[path = "core_tests.rs"]
mod tests;
