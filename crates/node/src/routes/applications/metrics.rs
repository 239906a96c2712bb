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
        page.gauge(plain("control_controller", help), u64::from(report.is_controller))?;
        let help = "Runs of the program that makes the rules of the application";
        page.counters(plain("control_runs", help), of_applications(|of| of.runs))?;
        let help = "Runs that failed, because of the program or because of its rules";
        page.counters(plain("control_failures", help), of_applications(|of| of.failures))?;
        let help = "IO about which the program was asked, because a rule sent it to the controller";
        page.counters(plain("control_asked_io", help), of_applications(|of| of.asked))?;
        let help = "Runs that changed the rules";
        page.counters(plain("control_changes", help), of_applications(|of| of.changes))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::metrics::Metrics;

    #[test]
    fn the_page_about_metrics_lists_exactly_the_metrics_of_the_controller() {
        let (reports, tail) = (Arc::new(Reports::default()), "tail".parse().unwrap());
        reports.note_controller([&tail].into_iter());
        reports.note(&tail, |report| report.runs = 7);
        let mut metrics = Metrics::default();
        metrics.add(ControllerCollector(reports));
        let text = metrics.text().unwrap();
        let runs = r#"nacre_control_runs_total{application="tail"} 7"#;
        assert!(text.contains(runs), "{text}");
        let samples = text.lines().filter(|line| !line.starts_with('#'));
        let exported: BTreeSet<&str> =
            samples.filter_map(|line| line.split(['{', ' ']).next()).collect();
        let page = include_str!("../../../../../docs/observing.md");
        let rows = page.lines().filter_map(|line| line.strip_prefix("| `"));
        let documented: BTreeSet<&str> = rows
            .filter(|row| row.starts_with("nacre_control_"))
            .filter_map(|row| row.split('`').next())
            .collect();
        assert_eq!(exported, documented, "docs/observing.md");
    }
}
