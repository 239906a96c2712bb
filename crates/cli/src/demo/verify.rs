//! The check at the end of the demo: every acknowledged record is in the log once, and the
//! positions of each writer ascend.
//!
//! This module has no side effects: it compares the acknowledgements of the writers with the
//! records that a reader saw, and returns a verdict.

use std::collections::HashMap;

use bytes::Bytes;

use super::timeline::Ack;

/// The result of comparing the log with the acknowledgements.
#[derive(Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Verdict {
    /// Records that were acknowledged to a writer.
    pub acknowledged: usize,
    /// Acknowledged records that are at their position with the right bytes.
    pub found: usize,
    /// Acknowledged records that are missing at their position, or have other bytes there.
    pub missing: usize,
    /// Records that are in the log more than once, or that no writer got an acknowledgement for.
    pub doubled: usize,
    /// How often a position is not higher than the one before it. Counts positions in the order of
    /// reading, and those of each writer in the order of acknowledgement.
    pub out_of_order: usize,
    /// Positions without data: filled, where an append was interrupted.
    pub holes: usize,
}

impl Verdict {
    /// Whether nothing is missing, doubled or out of order.
    pub fn holds(&self) -> bool {
        (self.missing, self.doubled, self.out_of_order) == (0, 0, 0)
            && self.found == self.acknowledged
    }
}

/// Compares the records of the log with the acknowledgements of each writer.
///
/// `read` lists every position of the log in order, with its data or `None`. `told` lists the
/// acknowledgements of each writer in the order of its appends.
pub fn verify(records: &[Bytes], told: &[Vec<Ack>], read: &[(u64, Option<Bytes>)]) -> Verdict {
    let descents = |positions: &mut dyn Iterator<Item = u64>| {
        let mut last = None;
        positions.filter(|&at| last.replace(at).is_some_and(|before| before >= at)).count()
    };
    let mut verdict = Verdict {
        acknowledged: told.iter().map(Vec::len).sum(),
        out_of_order: descents(&mut read.iter().map(|(at, _)| *at))
            + told.iter().map(|acks| descents(&mut acks.iter().map(|a| a.position))).sum::<usize>(),
        ..Verdict::default()
    };
    let mut record_at = HashMap::new();
    let mut told_twice = vec![0_usize; records.len()];
    for ack in told.iter().flatten() {
        told_twice[ack.record] += 1;
        if record_at.insert(ack.position, ack.record).is_some() {
            verdict.doubled += 1;
        }
    }
    verdict.doubled += told_twice.iter().map(|times| times.saturating_sub(1)).sum::<usize>();
    for (position, data) in read {
        match (data, record_at.remove(position)) {
            (Some(data), Some(record)) if *data == records[record] => verdict.found += 1,
            // Counted as missing below, as its position never was matched.
            (_, Some(_)) => verdict.missing += 1,
            (Some(_), None) => verdict.doubled += 1,
            (None, None) => verdict.holes += 1,
        }
    }
    verdict.missing += record_at.len();
    verdict
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn ack(record: usize, position: u64) -> Ack {
        Ack { record, position, issued: Duration::ZERO, acked: Duration::ZERO }
    }

    fn verdict(told: &[&[(usize, u64)]], read: &[(u64, Option<&'static str>)]) -> Verdict {
        let records: Vec<_> = ["a", "b", "a"].map(Bytes::from).to_vec();
        let told: Vec<Vec<_>> =
            told.iter().map(|acks| acks.iter().map(|&(r, p)| ack(r, p)).collect()).collect();
        let read: Vec<_> = read.iter().map(|(at, data)| (*at, data.map(Bytes::from))).collect();
        verify(&records, &told, &read)
    }

    #[test]
    fn a_complete_log_with_a_hole_passes_the_verification() {
        let read = [(0, Some("a")), (1, None), (2, Some("b")), (3, Some("a"))];
        let verdict = verdict(&[&[(0, 0), (2, 3)], &[(1, 2)]], &read);
        assert!(verdict.holds());
        assert_eq!((verdict.found, verdict.holes), (3, 1));
    }

    #[test]
    fn the_verification_finds_every_kind_of_damage() {
        let lost = verdict(&[&[(0, 0), (1, 1)]], &[(0, Some("a")), (1, None)]);
        assert_eq!((lost.missing, lost.holds()), (1, false));
        let cut_off = verdict(&[&[(0, 0), (1, 1)]], &[(0, Some("a"))]);
        assert_eq!((cut_off.missing, cut_off.holds()), (1, false));
        let altered = verdict(&[&[(0, 0)]], &[(0, Some("x"))]);
        assert_eq!((altered.missing, altered.holds()), (1, false));
        let untold = verdict(&[&[(0, 0)]], &[(0, Some("a")), (1, Some("a"))]);
        assert_eq!((untold.doubled, untold.holds()), (1, false));
        let twice = verdict(&[&[(0, 0), (0, 1)]], &[(0, Some("a")), (1, Some("a"))]);
        assert_eq!((twice.doubled, twice.holds()), (1, false));
        let shared = verdict(&[&[(0, 0)], &[(2, 0)]], &[(0, Some("a"))]);
        assert!(shared.doubled > 0 && !shared.holds());
        let reordered = verdict(&[&[(0, 1), (1, 0)]], &[(0, Some("b")), (1, Some("a"))]);
        assert_eq!((reordered.out_of_order, reordered.holds()), (1, false));
        let misread = verdict(&[&[(0, 0)], &[(1, 1)]], &[(1, Some("b")), (0, Some("a"))]);
        assert_eq!((misread.out_of_order, misread.holds()), (1, false));
    }
}
