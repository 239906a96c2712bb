//! Removes segments from a curve, so that the linear program stays small.

use super::Segment;
use crate::calculus::RateBurst;
use crate::limits::LATE_SEGMENT;

/// Prunes a curve to at most `wanted` segments, and returns the lines of the remaining segments.
///
/// First it removes segments that start late, the last one first. Then it repeatedly removes the
/// segment with the least rise in work, and extends the two neighbours until they meet. The curve
/// is the minimum of its lines, so removing a line can only raise it.
pub(super) fn pruned(mut segments: Vec<Segment>, wanted: usize) -> Vec<RateBurst> {
    let wanted = wanted.max(1);
    let late = LATE_SEGMENT.as_secs_f64();
    while segments.len() > wanted
        && segments.last().is_some_and(|segment| segment.start_seconds >= late)
    {
        segments.pop();
    }
    while segments.len() > wanted {
        let rise = |at: usize| segments[at + 1].work_seconds - segments[at].work_seconds;
        let least =
            (0..segments.len() - 1).min_by(|one, other| rise(*one).total_cmp(&rise(*other)));
        let Some(least) = least else { break };
        segments.remove(least);
        let line = segments[least].line();
        let start_seconds = match least.checked_sub(1).map(|before| segments[before].line()) {
            Some(before) => (line.burst_seconds - before.burst_seconds) / (before.rate - line.rate),
            None => 0.0,
        };
        let work_seconds = line.work_within(start_seconds);
        segments[least] = Segment { start_seconds, work_seconds, rate: line.rate };
    }
    segments.iter().map(Segment::line).collect()
}
