//! The metrics of a node's switch. Their series are by target, application and program, never by
//! object.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;

use super::NodeSwitch;
use super::copies::CopiesStatus;
use super::direct::DirectKeeper;
use super::erasure::ErasureStatus;
use super::in_force::InForce;
use super::report::AppliedWaypoint;
use super::tally::OTHER_APPLICATIONS;
use crate::metrics::page::{Page, bytes, plain};

/// How many programs have series of their own. All others share one.
const MAX_COUNTED_PROGRAMS: usize = 64;

/// Collects the counters of the switch.
#[derive(Debug)]
pub(super) struct RoutesCollector {
    pub switch: Arc<NodeSwitch>,
    pub in_force: Arc<InForce>,
    pub direct: Arc<DirectKeeper>,
}

/// The values at one moment.
#[derive(Debug, Default)]
struct Values {
    target: String,
    epoch: u64,
    applications: BTreeMap<String, OfApplication>,
    /// Decisions and failures of each program.
    programs: BTreeMap<String, (u64, u64)>,
    waypoints: Vec<AppliedWaypoint>,
    followed: u64,
    split: u64,
    in_flight: u64,
    held: u64,
    in_doubt: u64,
    copies: CopiesStatus,
    erasure: ErasureStatus,
    permits: u64,
    direct_reads: u64,
}

#[derive(Debug, Default)]
struct OfApplication {
    rules: u64,
    decided: u64,
    bytes: u64,
    objects: u64,
    brought_home: u64,
}

impl RoutesCollector {
    fn values(&self) -> Values {
        let mut values = Values {
            target: self.switch.locations().own().to_string(),
            epoch: self.in_force.progress().rules_epoch,
            direct_reads: self.direct.served(),
            ..Values::default()
        };
        for (name, decided, failed) in self.switch.programs().all_counts() {
            let is_full = values.programs.len() >= MAX_COUNTED_PROGRAMS;
            let name = if is_full { OTHER_APPLICATIONS.to_owned() } else { name.to_string() };
            let counts = values.programs.entry(name).or_default();
            *counts = (counts.0 + decided, counts.1 + failed);
        }
        self.read_core(&mut values);
        values
    }

    fn read_core(&self, values: &mut Values) {
        let mut core = self.switch.core();
        let core = &mut *core;
        let table = core.switch.table();
        let mut applications: HashMap<_, OfApplication> = HashMap::new();
        for (_, rule) in table.rules().filter(|(id, _)| !id.is_made()) {
            applications.entry(&rule.application).or_default().rules += 1;
        }
        let mut objects = HashSet::new();
        for (object, rule) in table.all_placed() {
            let of = applications.entry(&rule.application).or_default();
            of.bytes += rule.header.span.length();
            of.objects += u64::from(objects.insert((&rule.application, object)));
        }
        for (application, now) in applications {
            let of = values.applications.entry(core.tally.label(application)).or_default();
            of.rules += now.rules;
            of.bytes += now.bytes;
            of.objects += now.objects;
        }
        for (label, totals) in core.tally.totals() {
            let of = values.applications.entry(label).or_default();
            (of.decided, of.brought_home) = (totals.decided, totals.brought_home);
        }
        values.waypoints = self.switch.programs().waypoints().report(core.switch.table());
        let (in_flight, held) = core.switch.load();
        (values.in_flight, values.held) = (in_flight as u64, held as u64);
        values.in_doubt = core.doubts.len() as u64;
        values.copies = core.copies.summary().into();
        values.erasure = self.switch.erasures().status();
        values.permits = core.permitted.given;
        (values.followed, values.split) = (core.tally.followed, core.tally.split);
    }
}

impl Collector for RoutesCollector {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        self.values().encode(Page(encoder))
    }
}

impl Values {
    fn encode(&self, mut page: Page<'_>) -> fmt::Result {
        let of_switch = |value: u64| [(vec![("target", self.target.as_str())], value)];
        let help = "The epoch of the map routes whose rules the switch has installed";
        page.gauges(plain("route_rules_epoch", help), of_switch(self.epoch))?;
        let help = "Rules that are installed";
        page.gauges(plain("route_rules", help), self.of_applications(|of| of.rules))?;
        let help = "Pieces of IO that rules of the application decided about";
        page.counters(plain("route_decided", help), self.of_applications(|of| of.decided))?;
        let help = "Pieces of IO that followed a write to where its bytes are";
        page.counters(plain("route_followed", help), of_switch(self.followed))?;
        let help = "IO that was sent in several pieces";
        page.counters(plain("route_split", help), of_switch(self.split))?;
        let help = "IO that the switch has sent and that is not done";
        page.gauges(plain("route_in_flight", help), of_switch(self.in_flight))?;
        let help = "IO that the switch holds back";
        page.gauges(plain("route_held", help), of_switch(self.held))?;
        let help = "Bytes that lie elsewhere";
        page.gauges(bytes("route_elsewhere", help), self.of_applications(|of| of.bytes))?;
        let help = "Objects of which bytes lie elsewhere";
        page.gauges(plain("route_elsewhere_objects", help), self.of_applications(|of| of.objects))?;
        let help = "Spans whose write got no answer, so it is unknown whether they arrived";
        page.gauges(plain("route_in_doubt", help), of_switch(self.in_doubt))?;
        let help = "Bytes that were moved home";
        let title = bytes("route_brought_home", help);
        page.counters(title, self.of_applications(|of| of.brought_home))?;
        let help = "Decisions of a route program";
        page.counters(plain("route_program_decisions", help), self.of_programs(|of| of.0))?;
        let help = "IO that failed because a route program failed";
        page.counters(plain("route_program_failures", help), self.of_programs(|of| of.1))?;
        let help = "Permits for direct reads that the switch gave";
        page.counters(plain("route_permits", help), of_switch(self.permits))?;
        let help = "Direct reads of bytes that this node keeps for others";
        page.counters(plain("route_direct_reads", help), of_switch(self.direct_reads))?;
        self.encode_waypoints(&mut page)?;
        self.encode_erasure(&mut page)?;
        self.encode_copies(page)
    }

    fn encode_waypoints(&self, page: &mut Page<'_>) -> fmt::Result {
        let help = "IO that has passed a waypoint";
        page.counters(plain("route_waypoint_passed", help), self.of_waypoints(|of| of.passed))?;
        let help = "IO that waits at a waypoint";
        let waiting = self.of_waypoints(|of| of.waiting as u64);
        page.gauges(plain("route_waypoint_waiting", help), waiting)?;
        let help = "IO that a waypoint has refused";
        page.counters(plain("route_waypoint_refused", help), self.of_waypoints(|of| of.refused))?;
        let help = "IO that failed because the program of a waypoint failed";
        page.counters(plain("route_waypoint_faults", help), self.of_waypoints(|of| of.faults))
    }

    fn of_waypoints(
        &self,
        read: impl Fn(&AppliedWaypoint) -> u64,
    ) -> impl Iterator<Item = (Vec<(&'static str, &str)>, u64)> {
        self.waypoints.iter().take(MAX_COUNTED_PROGRAMS).map(move |of| {
            (vec![("target", self.target.as_str()), ("waypoint", of.name.as_str())], read(of))
        })
    }

    fn encode_copies(&self, mut page: Page<'_>) -> fmt::Result {
        let of_switch = |value: u64| [(vec![("target", self.target.as_str())], value)];
        let copies = &self.copies;
        let help = "Current copies of the target's objects at other targets";
        page.gauges(plain("route_copies", help), of_switch(copies.current as u64))?;
        let help = "Copies that are being made";
        let making = of_switch(copies.in_the_making as u64);
        page.gauges(plain("route_copies_in_the_making", help), making)?;
        let help = "Bytes of current copies";
        page.gauges(bytes("route_copied", help), of_switch(copies.bytes))?;
        let help = "Copies that became current";
        page.counters(plain("route_copies_made", help), of_switch(copies.made))?;
        let help = "Copies that could not be made";
        page.counters(plain("route_copies_failed", help), of_switch(copies.failed))?;
        let help = "Updates that copies have applied";
        page.counters(plain("route_copy_updates", help), of_switch(copies.updates))?;
        let help = "Updates that copies did not confirm, so that they were made anew";
        let failed = of_switch(copies.updates_failed);
        page.counters(plain("route_copy_updates_failed", help), failed)?;
        let help = "Reads of objects with copies, by the target that served them";
        let reads = copies.reads.iter().map(|(from, count)| {
            (vec![("target", self.target.as_str()), ("from", from.as_str())], *count)
        });
        page.counters(plain("route_copy_reads", help), reads)
    }

    fn encode_erasure(&self, page: &mut Page<'_>) -> fmt::Result {
        let of_switch = |value: u64| [(vec![("target", self.target.as_str())], value)];
        let erasure = &self.erasure;
        let help = "Erasure-coded objects of the target, as of the last pass over them";
        page.gauges(plain("route_erasure_objects", help), of_switch(erasure.objects))?;
        let help = "Bytes of these objects";
        page.gauges(bytes("route_erasure_object", help), of_switch(erasure.bytes))?;
        let help = "Bytes of their fragments";
        page.gauges(bytes("route_erasure_fragment", help), of_switch(erasure.fragment_bytes))?;
        let help = "How often an object was erasure-coded";
        page.counters(plain("route_erasure_coded", help), of_switch(erasure.coded))?;
        let help = "How often the bytes of an erasure-coded object were brought home";
        let brought = of_switch(erasure.brought_home);
        page.counters(plain("route_erasure_brought_home", help), brought)?;
        let help = "Reads that computed bytes, because a fragment with them could not be read";
        let computed = of_switch(erasure.computed_reads);
        page.counters(plain("route_erasure_computed_reads", help), computed)?;
        let help = "How often an object was found of which a fragment was lost or damaged";
        page.counters(plain("route_erasure_lost", help), of_switch(erasure.lost))?;
        let help = "How often an object could not be coded or brought home";
        page.counters(plain("route_erasure_failed", help), of_switch(erasure.failed))
    }

    fn of_applications(
        &self,
        read: impl Fn(&OfApplication) -> u64,
    ) -> impl Iterator<Item = (Vec<(&'static str, &str)>, u64)> {
        self.applications.iter().map(move |(name, of)| {
            (vec![("target", self.target.as_str()), ("application", name.as_str())], read(of))
        })
    }

    fn of_programs(
        &self,
        read: impl Fn(&(u64, u64)) -> u64,
    ) -> impl Iterator<Item = (Vec<(&'static str, &str)>, u64)> {
        self.programs.iter().map(move |(name, of)| {
            (vec![("target", self.target.as_str()), ("program", name.as_str())], read(of))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::metrics::Metrics;

    #[derive(Debug)]
    struct OfValues(Values);

    impl Collector for OfValues {
        fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
            self.0.encode(Page(encoder))
        }
    }

    #[test]
    fn the_page_about_metrics_lists_exactly_the_metrics_of_routes() {
        let values = Values {
            target: "storage.0".to_owned(),
            applications: [("tail".to_owned(), OfApplication { decided: 7, ..Default::default() })]
                .into(),
            programs: [("spread".to_owned(), (3, 1))].into(),
            waypoints: vec![AppliedWaypoint {
                name: "limit".to_owned(),
                version: 1,
                passed: 4,
                waiting: 3,
                refused: 2,
                faults: 1,
            }],
            copies: CopiesStatus {
                reads: [("storage.1".to_owned(), 5)].into(),
                ..CopiesStatus::default()
            },
            ..Values::default()
        };
        let mut metrics = Metrics::default();
        metrics.add(OfValues(values));
        let text = metrics.text().unwrap();
        let decided = r#"nacre_route_decided_total{target="storage.0",application="tail"} 7"#;
        assert!(text.contains(decided), "{text}");
        let samples = text.lines().filter(|line| !line.starts_with('#'));
        let exported: BTreeSet<&str> =
            samples.filter_map(|line| line.split_once('{')).map(|(name, _)| name).collect();
        let page = include_str!("../../../../docs/observing.md");
        let rows = page.lines().filter_map(|line| line.strip_prefix("| `nacre_route_"));
        let documented: BTreeSet<String> =
            rows.map(|row| format!("nacre_route_{}", row.split('`').next().unwrap())).collect();
        let documented: BTreeSet<&str> = documented.iter().map(String::as_str).collect();
        assert_eq!(exported, documented, "docs/observing.md");
    }
}
