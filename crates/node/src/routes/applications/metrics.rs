//! The metrics of the controller. Its series are by application; their number is bounded as the
//! number of started applications is.

use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;

use super::Reports;
use super::report::ApplicationReport;
use crate::metrics::page::{Page, plain};

/// Reads the reports of a node.
#[derive(Debug)]
pub(in super::super) struct ControllerCollector(pub Arc<Reports>);

impl Collector for ControllerCollector {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let (report, mut page) = (self.0.report(), Page(encoder));
        let of_applications = |read: fn(&ApplicationReport) -> u64| {
            let all = report.applications.iter();
            all.map(move |(name, of)| (vec![("application", name.as_str())], read(of)))
        };
        let help = "1 on the node that runs the control applications";
        page.gauge(plain("route_controller", help), u64::from(report.is_controller))?;
        let help = "Runs of the program that makes the rules of the application";
        page.counters(plain("route_control_runs", help), of_applications(|of| of.runs))?;
        let help = "Runs that failed, because of the program or because of its rules";
        page.counters(plain("route_control_failures", help), of_applications(|of| of.failures))?;
        let help = "Runs that changed the rules";
        page.counters(plain("route_control_changes", help), of_applications(|of| of.changes))
    }
}
