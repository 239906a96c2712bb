//! The programs of a node.

use std::fmt;

use crate::classes::ClassService;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;

use super::page::{Page, bytes, plain};

/// Reads the classes.
#[derive(Debug)]
pub(super) struct ProgramsCollector(pub ClassService);

impl Collector for ProgramsCollector {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut page = Page(encoder);
        let live = self.0.live();
        let versions = live
            .iter()
            .map(|(name, version)| (vec![("kind", "class"), ("program", &**name)], *version));
        let help = "The version of a program that is live here";
        page.gauges(plain("program_version", help), versions)?;
        let seen = self.0.calls_seen();
        let calls: Vec<_> = seen
            .iter()
            .flat_map(|(class, seen)| seen.methods.iter().map(move |(name, of)| (class, name, of)))
            .map(|(class, name, of)| (class.as_str(), name.as_str(), of.request_bytes()))
            .collect();
        let series = calls
            .iter()
            .map(|(class, name, sizes)| (vec![("class", *class), ("method", *name)], sizes));
        let help = "Requests of classes in Brados, by their bytes";
        page.histograms(bytes("class_request", help), series)?;
        let failures = self.0.failures();
        let help = "Calls that failed by the program's fault, used-up budgets included";
        page.counter(plain("program_faults", help), failures.faults)?;
        let exceeded = failures
            .exceeded
            .iter()
            .map(|(limit, count)| (vec![("limit", limit.as_str())], *count));
        let help = "Calls that ended for exceeding a limit of their budget";
        page.counters(plain("program_budget_exceeded", help), exceeded)
    }
}
