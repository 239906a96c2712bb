//! The demonstration of a log: writers append records while faults happen, and at the end all
//! records are read back.
//!
//! Each fault begins when the writers have appended a certain number of records. Until it has
//! happened, the writers may append at most half of the records that lie between this fault and the
//! next. So each fault meets busy writers, even if the input is short.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use nacre::{Cluster, Entry, Log};
use nacre_clock::{Clock, SystemClock};
use nacre_node::Supervisor;
use nacre_object::{Error, Result};

use super::dev_ceph::DevCeph;
use super::faults::{Fault, Faults, install};
use super::plan::{MEASURED, records_to_append};
use super::progress::Progress;
use super::records::Records;
use super::report::{Event, Report, Run};
use super::timeline::Ack;
use super::verify::verify;
use super::writers::{self, Work, Writers};
use super::{DemoArguments, LOG, STEP_DEADLINE};
use crate::out::{Out, note};

/// Positions read at a time at the end.
const READ_PAGE: usize = 1024;

/// The records to append.
pub(super) fn records_of(arguments: &DemoArguments) -> Result<Records> {
    let limit = arguments.limit();
    let records = Records::load(arguments.input.as_deref(), limit)?;
    let cut = if records.cut { " (the first of them)" } else { "" };
    let most = if limit.is_none() { "at most " } else { "" };
    note(&format!("{most}{} records of {}{cut}", records.lines.len(), records.origin));
    Ok(records)
}

fn conclude(report: &Report, out: Out) -> Result<()> {
    out.show(report, || format!("{}\n\n{}", report.table(), report.last_line()))?;
    if report.verdict().holds() {
        return Ok(());
    }
    Err(Error::corrupt("acknowledged records were read back wrong or not at all")
        .hint("this is a bug of nacre: report it with the output above and the command line"))
}

/// The demonstration of a log.
pub(super) struct LogDemo<'a> {
    pub supervisor: &'a Supervisor,
    pub arguments: &'a DemoArguments,
    /// The Ceph cluster that stores the data; `None` if the supervisor's nodes store it.
    pub ceph: Option<DevCeph>,
}

impl LogDemo<'_> {
    /// Plays the demonstration with these records, and shows the report.
    pub async fn show(&self, records: Records, out: Out) -> Result<()> {
        conclude(&self.play(records).await?, out)
    }

    async fn play(&self, records: Records) -> Result<Report> {
        let folder = self.supervisor.cluster().folder();
        let cluster = Cluster::connect(folder).await?;
        cluster.create_default_pools().await?;
        let interface = self.arguments.interface;
        let program = interface.program();
        let version = install(&cluster, &program, interface.source()).await?;
        note(&format!("installed the storage interface: program {program} version {version}"));
        let log = cluster.create_log(LOG, interface.log_options()?).await?;

        let work = Work::new(records, Arc::new(SystemClock::default()) as Arc<dyn Clock>);
        let started = work.now();
        let count = usize::from(self.arguments.writers);
        let writers = writers::start(count, folder, LOG, &work);
        let progress = Progress::new();
        let (told, events) = tokio::select! {
            appended = self.append(writers, &cluster, &log, &work, progress) => appended?,
            never = progress.follow(&work) => never,
        };

        progress.note("reading all records back");
        let reading = work.now();
        let read = read_all(folder, LOG).await?;
        let reading = work.now() - reading;
        let lines = &work.records().lines[..work.total()];
        let verdict = verify(lines, &told, &read);
        let bytes = lines.iter().map(Bytes::len).sum();
        let events = &events;
        Ok(Report::new(Run { bytes, told: &told, events, started, reading, verdict }))
    }

    /// Lets the writers append the records, and causes a fault after each quarter of them. Returns
    /// each writer's acknowledgements, and the faults.
    async fn append(
        &self,
        mut writers: Writers,
        cluster: &Cluster,
        log: &Log,
        work: &Work,
        progress: Progress,
    ) -> Result<(Vec<Vec<Ack>>, Vec<Event>)> {
        work.open_gate(gate_before(work, 1));
        if self.arguments.limit().is_none() {
            writers.during(measure(work, progress)).await?;
        }
        let (supervisor, interface) = (self.supervisor, self.arguments.interface);
        let faults = Faults { supervisor, interface, ceph: self.ceph.as_ref() };
        let total = work.total();
        let mut events = Vec::new();
        for (quarter, fault) in [(1, Fault::Program), (2, Fault::Sequencer), (3, Fault::Target)] {
            work.open_gate(gate_before(work, quarter));
            writers.during(passed(work, total * quarter / 4)).await?;
            let at = work.now();
            // Open the gate when the fault begins, so that the fault meets busy writers.
            work.open_gate((total * (quarter + 1)) / 4);
            let step =
                tokio::time::timeout(STEP_DEADLINE, faults.inflict(fault, cluster, log, work));
            let step = async { step.await.unwrap_or_else(|_| Err(hangs(fault))) };
            let what = writers.during(step).await?;
            progress.note(&what);
            events.push(Event { what, at });
        }
        work.open_gate(total);
        Ok((writers.finish().await?, events))
    }
}

fn hangs(fault: Fault) -> Error {
    let limit = STEP_DEADLINE.as_secs();
    Error::unavailable(format!("the cluster had not recovered {limit} s after the fault {fault:?}"))
}

/// How many records the writers may append before the fault at the end of this quarter has
/// happened. The number lies in the middle of the next quarter.
fn gate_before(work: &Work, quarter: usize) -> usize {
    (work.total() * quarter + work.total() * (quarter + 1)) / 8
}

/// Measures the rate, and limits the run to as many records as take about 45 s. If a quarter of all
/// records is appended during the measurement, the input is short, and the run has no limit.
async fn measure(work: &Work, progress: Progress) -> Result<()> {
    let (started, first_fault) = (work.now(), work.total() / 4);
    if let Ok(passed) = tokio::time::timeout(MEASURED, passed(work, first_fault)).await {
        return passed;
    }
    let (acknowledged, elapsed) = (*work.acknowledged().borrow(), work.now() - started);
    work.stop_at(records_to_append(acknowledged, elapsed, work.total()));
    let rate = acknowledged as f64 / elapsed.as_secs_f64();
    progress.note(&format!(
        "{} of them are appended, in about 45 s: {rate:.0} records/s were measured",
        work.total()
    ));
    Ok(())
}

/// Waits until the writers have appended `mark` records.
pub(super) async fn passed(work: &Work, mark: usize) -> Result<()> {
    let mut acknowledged = work.acknowledged();
    let passed = acknowledged.wait_for(|&count| count >= mark).await;
    passed.map(drop).map_err(|_| Error::unavailable("the writers ended before the demo did"))
}

/// Reads every position of the log with its data, over a new connection.
pub(super) async fn read_all(folder: &Path, log: &str) -> Result<Vec<(u64, Option<Bytes>)>> {
    let log = Cluster::connect(folder).await?.log(log).await?;
    let tail = log.tail().await?;
    let mut read = Vec::new();
    let mut at = 0;
    while at < tail {
        for slot in log.read_range(at, READ_PAGE).await? {
            let data = match slot.entry {
                Some(Entry::Data(data)) => Some(data),
                _ => None,
            };
            at = slot.position + 1;
            read.push((slot.position, data));
        }
    }
    Ok(read)
}
