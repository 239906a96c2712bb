//! Two layouts of a running class beside each other, measured for a moment on the engine that others use.
//!
//! They take turns at the same requests on objects of their own. What that takes is bounded in requests, in
//! bytes and in time, however large the class's objects are: as many objects, filled as far, as the bounds
//! allow.

use std::time::Duration;

use nacre_brados::layout::LayoutError;
use nacre_brados::{Layout, with_layout};
use nacre_load::median;
use nacre_object::{Error, Result};

use crate::measure::Subject;
use crate::rechoose::{Estimate, Measured, Predicted, Proposal};
use crate::workbench::Workbench;
use crate::workload::{Line, Workload};

/// Objects of each layout.
const MAX_OBJECTS: usize = 16;
/// Requests at a time: more would be felt by those who use the engine.
const MAX_CONCURRENCY: usize = 16;
/// Requests that fill the objects of a layout, and those of a round.
const MAX_REQUESTS: u64 = 2048;
/// Bytes of values that are written by either: with both layouts and all rounds some hundred mebibytes.
const MAX_BYTES: u64 = 16 << 20;
/// The medians of so many rounds count.
const ROUNDS: usize = 3;
/// The longest round.
const SPAN: Duration = Duration::from_millis(500);
/// Everything together, on an engine that hardly answers.
const PATIENCE: Duration = Duration::from_secs(30);

/// Measures the present layout and the proposed one.
///
/// # Errors
/// `Unavailable` if it takes too long; what a request or the engine fails with. What is left then is removed
/// by [`crate::OwnEngine::beside_folder`] and [`crate::OwnEngine::beside_ceph`] the next time.
pub async fn compare(
    bench: &Workbench,
    source: &str,
    proposal: &Proposal,
    workload: &Workload,
) -> Result<Measured> {
    let in_layout = |one: &Predicted| -> Result<String> {
        let wrong = |error: LayoutError| Error::invalid(format!("{}: {error}", one.layout));
        let layout: Layout = one.layout.parse().map_err(wrong)?;
        Ok(with_layout(source, &layout, &[]))
    };
    let Estimate { present, best, .. } = &proposal.estimate;
    let sources = [in_layout(present)?, in_layout(best)?];
    let measuring = in_turns(bench, sources, bounded(workload));
    let timely = tokio::time::timeout(PATIENCE, measuring).await;
    timely.unwrap_or_else(|_| Err(Error::unavailable(format!("it took more than {PATIENCE:?}"))))
}

async fn in_turns(
    bench: &Workbench,
    [present, best]: [String; 2],
    workload: Workload,
) -> Result<Measured> {
    let present = Subject::prepare(bench, "present", "present", &present, &workload).await?;
    let best = match Subject::prepare(bench, "best", "best", &best, &workload).await {
        Ok(best) => best,
        Err(error) => {
            present.clean().await?;
            return Err(error);
        }
    };
    let rounds = async {
        let mut seconds = [vec![], vec![]];
        for _ in 0..ROUNDS {
            for (subject, seconds) in [&present, &best].into_iter().zip(&mut seconds) {
                let outcome = subject.run_at_most(&workload, requests(&workload), SPAN).await?;
                seconds.push(outcome);
            }
        }
        Ok(seconds.map(median))
    };
    let outcome = rounds.await;
    present.clean().await?;
    best.clean().await?;
    outcome.map(|[present_seconds, best_seconds]| Measured { present_seconds, best_seconds })
}

/// Requests of a round.
fn requests(workload: &Workload) -> u64 {
    (MAX_BYTES / workload.longest_bytes().max(1) as u64).clamp(1, MAX_REQUESTS)
}

/// A workload that asks the same of fewer and emptier objects.
fn bounded(workload: &Workload) -> Workload {
    let mut workload = workload.clone();
    workload.objects = workload.objects.min(MAX_OBJECTS);
    workload.concurrency = workload.concurrency.min(MAX_CONCURRENCY);
    let each = requests(&workload) / workload.objects as u64;
    let all: u64 = workload.fill.iter().map(|line| line.count).sum();
    for Line { count, .. } in &mut workload.fill {
        // Each line makes something that requests need.
        *count = (*count).min((*count * each).div_ceil(all.max(1))).max(1);
    }
    workload
}
