//! Decides whether a commit happens. This module does no IO.

/// What the history says about the epoch that a committer wants to begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NextEpoch<'a> {
    /// It has not begun.
    Open,
    /// It was begun by the commit of this id.
    Begun(&'a [u8]),
    /// It has begun, and its record is no longer kept.
    Forgotten,
}

/// The decision about a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Decision {
    /// It begins this epoch.
    Commit(u64),
    /// The commit was done before and began this epoch. Its committer did not get the answer.
    Done(u64),
    /// Another commit was faster.
    Conflict,
    /// Either another commit was faster, or this one was done before. The history no longer says
    /// which.
    Unknown,
}

/// Decides on a commit that expects an epoch.
pub(super) fn decide(epoch: u64, expected: u64, commit_id: &[u8], next: NextEpoch) -> Decision {
    match next {
        NextEpoch::Open if expected == epoch => Decision::Commit(epoch + 1),
        NextEpoch::Begun(id) if id == commit_id => Decision::Done(expected + 1),
        NextEpoch::Forgotten => Decision::Unknown,
        NextEpoch::Open | NextEpoch::Begun(_) => Decision::Conflict,
    }
}

/// Decides about a commit that the program of another map triggered. `sequence` is the number of
/// this trigger. `newest` is the number of the other map's last trigger that was committed to this
/// map, and the epoch that this commit began. A trigger with a greater number is committed; any
/// other was committed already.
pub(super) fn decide_triggered(epoch: u64, sequence: u64, newest: Option<(u64, u64)>) -> Decision {
    match newest {
        Some((newest, at)) if sequence <= newest => Decision::Done(at),
        _ => Decision::Commit(epoch + 1),
    }
}

/// Decides about a commit that changes an entry from `known` to `next`. `known` is the value that
/// the committer expects; `current` is the entry's value.
pub(super) fn decide_guarded(
    epoch: u64,
    current: Option<&[u8]>,
    known: Option<&[u8]>,
    next: &[u8],
) -> Decision {
    match current {
        current if current == known => Decision::Commit(epoch + 1),
        // Only this commit sets the entry to this value.
        Some(current) if current == next => Decision::Done(epoch),
        _ => Decision::Conflict,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nacre_clock::Random;

    #[test]
    fn a_commit_happens_only_at_the_epoch_it_expects() {
        let cases = [
            (5, 5, NextEpoch::Open, Decision::Commit(6)),
            (5, 6, NextEpoch::Open, Decision::Conflict),
            (5, 4, NextEpoch::Begun(b"other"), Decision::Conflict),
            (5, 4, NextEpoch::Begun(b"mine"), Decision::Done(5)),
            (5, 2, NextEpoch::Begun(b"mine"), Decision::Done(3)),
            (5, 0, NextEpoch::Forgotten, Decision::Unknown),
            (0, 0, NextEpoch::Open, Decision::Commit(1)),
        ];
        for (epoch, expected, next, decision) in cases {
            let case = format!("epoch {epoch}, expected {expected}, {next:?}");
            assert_eq!(decide(epoch, expected, b"mine", next), decision, "{case}");
        }
    }

    /// Committers retry at random while old history is dropped. Each commit id must begin at most
    /// one epoch. If `decide` reports that the commit was already done, it must name the epoch that
    /// the commit began.
    #[test]
    fn a_commit_begins_at_most_one_epoch_however_often_it_is_retried() {
        for seed in 0..300 {
            let mut random = Random::seeded(seed);
            let mut history: Vec<[u8; 1]> = Vec::new();
            let attempts: Vec<_> = (0..40_u8).map(|id| ([id], random.below(20))).collect();
            for _ in 0..400 {
                let Some(&(id, expected)) = random.pick(&attempts) else { continue };
                let kept_from = history.len().saturating_sub(8) as u64;
                let next = match history.get(expected as usize) {
                    None => NextEpoch::Open,
                    Some(_) if expected < kept_from => NextEpoch::Forgotten,
                    Some(begun) => NextEpoch::Begun(begun),
                };
                match decide(history.len() as u64, expected, &id, next) {
                    Decision::Commit(epoch) => {
                        history.push(id);
                        assert_eq!(epoch, history.len() as u64, "seed {seed}");
                    }
                    Decision::Done(epoch) => assert_eq!(history[epoch as usize - 1], id),
                    Decision::Conflict => assert_ne!(history.get(expected as usize), Some(&id)),
                    Decision::Unknown => assert!(expected < kept_from),
                }
            }
            let mut ids = history.clone();
            ids.sort_unstable();
            ids.dedup();
            assert_eq!(ids.len(), history.len(), "seed {seed}: an id began two epochs");
        }
    }

    #[test]
    fn a_guarded_commit_happens_once_and_never_after_a_later_one() {
        let decide = |current: Option<&str>, known: Option<&str>| {
            decide_guarded(5, current.map(str::as_bytes), known.map(str::as_bytes), b"2")
        };
        assert_eq!(decide(None, None), Decision::Commit(6));
        assert_eq!(decide(Some("1"), Some("1")), Decision::Commit(6));
        assert_eq!(decide(Some("2"), Some("1")), Decision::Done(5), "it arrives again");
        assert_eq!(decide(Some("3"), Some("1")), Decision::Conflict, "a later one was first");
        assert_eq!(decide(Some("3"), None), Decision::Conflict);
        assert_eq!(decide(None, Some("1")), Decision::Conflict);
    }

    #[test]
    fn a_trigger_is_committed_once_however_often_it_is_carried_out() {
        assert_eq!(decide_triggered(3, 1, None), Decision::Commit(4));
        assert_eq!(decide_triggered(3, 2, Some((1, 3))), Decision::Commit(4));
        assert_eq!(decide_triggered(7, 2, Some((2, 4))), Decision::Done(4));
        assert_eq!(decide_triggered(7, 1, Some((2, 4))), Decision::Done(4));
    }
}
