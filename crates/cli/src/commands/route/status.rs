//! `nacre route status`: what each node's switch does.

use std::time::Duration;

use bytes::Bytes;
use nacre::{ClusterFile, RoleName, Sessions};
use nacre_node::{CopiesStatus, ErasureStatus, ROUTE_SERVICE, RouteStatus};
use nacre_object::{Error, Result};

use crate::out::{Out, note, printable, table};

/// A node answers this in a moment.
pub(super) const NODE_TIMEOUT: Duration = Duration::from_secs(5);

/// The status of a cluster's switches, without those on nodes that are down.
///
/// # Errors
/// `Unavailable` if no switch answers.
pub(crate) async fn statuses(file: &ClusterFile, sessions: &Sessions) -> Result<Vec<RouteStatus>> {
    let mut all = vec![];
    let mut failure = None;
    for node in file.with_role(RoleName::Storage) {
        let session = sessions.session(&node.name)?;
        match session.ask(ROUTE_SERVICE, "status", Bytes::new(), NODE_TIMEOUT).await {
            Ok(answer) => {
                let status = serde_json::from_slice(&answer).map_err(|cause| {
                    Error::corrupt(format!("the answer of {} cannot be read: {cause}", node.name))
                })?;
                all.push(status);
            }
            Err(error) => {
                note(&format!("{} does not report the status of its switch: {error}", node.name));
                failure = Some(error);
            }
        }
    }
    match (all.is_empty(), failure) {
        (true, Some(error)) => Err(error),
        _ => Ok(all),
    }
}

/// Shows it.
pub(super) async fn status(file: &ClusterFile, out: Out) -> Result<()> {
    let all = statuses(file, &Sessions::new(file)?).await?;
    out.show(&all, || {
        let rules = all.iter().flat_map(|status| {
            status.rules.iter().map(|rule| {
                vec![
                    status.target.clone(),
                    printable(&rule.application),
                    printable(&rule.rule),
                    rule.count.to_string(),
                ]
            })
        });
        let rules: Vec<_> = rules.collect();
        let mut lines = vec![];
        if !rules.is_empty() {
            lines.push(table(&["switch", "application", "rule", "IO"], &rules));
        }
        for status in &all {
            for program in &status.programs {
                lines.push(format!(
                    "{}: route/{}@{} has decided about {} IOs, has failed for {}, and has {} rules inserted",
                    status.target,
                    printable(&program.name),
                    program.version,
                    program.decided,
                    program.failed,
                    program.inserted_rules
                ));
            }
            for waypoint in &status.waypoints {
                lines.push(format!(
                    "{}: {} IOs have passed waypoint/{}@{}, {} wait there, {} were refused, {} failed because the program failed",
                    status.target,
                    waypoint.passed,
                    printable(&waypoint.name),
                    waypoint.version,
                    waypoint.waiting,
                    waypoint.refused,
                    waypoint.faults
                ));
            }
            if let Some(problem) = &status.problem {
                let (target, problem) = (&status.target, printable(problem));
                lines.push(format!("{target}: the latest rules are not in force: {problem}"));
            }
            lines.extend(copies_line(status, out));
            lines.extend(erasure_line(status, out));
            if (status.permits, status.direct_reads) != (0, 0) {
                lines.push(format!(
                    "{}: {} permits for direct reads were given; {} direct reads were served here",
                    status.target, status.permits, status.direct_reads
                ));
            }
            lines.push(format!(
                "{}: {} of {} objects lie elsewhere; {} IOs are in flight, {} wait; {} spans are in doubt; rules of epoch {}",
                status.target,
                out.size(status.routed_bytes),
                status.routed_objects,
                status.in_flight,
                status.held,
                status.in_doubt,
                status.epoch
            ));
        }
        lines.join("\n")
    })
}

/// What a switch says of the copies of its objects; `None` if it has read none and made none.
fn copies_line(status: &RouteStatus, out: Out) -> Option<String> {
    let copies = &status.copies;
    if *copies == CopiesStatus::default() {
        return None;
    }
    let read = |(target, count): (&String, &u64)| format!("{} {count}", printable(target));
    let reads: Vec<_> = copies.reads.iter().map(read).collect();
    Some(format!(
        "{}: {} copies are current ({}), {} are in the making; updates applied: {}, not confirmed: {}; reads served: {}",
        status.target,
        copies.current,
        out.size(copies.bytes),
        copies.in_the_making,
        copies.updates,
        copies.updates_failed,
        if reads.is_empty() { "none".to_owned() } else { reads.join(", ") }
    ))
}

/// What a switch says of its erasure-coded objects; `None` if it has none and had none.
fn erasure_line(status: &RouteStatus, out: Out) -> Option<String> {
    let erasure = &status.erasure;
    (*erasure != ErasureStatus::default()).then(|| {
        let problem = erasure.problem.as_deref().map(|problem| format!("; {}", printable(problem)));
        format!(
            "{}: {} objects are erasure-coded ({} in {} of fragments); coded {} times, brought home {} times; reads that computed bytes: {}; objects found with lost fragments: {}{}",
            status.target,
            erasure.objects,
            out.size(erasure.bytes),
            out.size(erasure.fragment_bytes),
            erasure.coded,
            erasure.brought_home,
            erasure.computed_reads,
            erasure.lost,
            problem.unwrap_or_default()
        )
    })
}
