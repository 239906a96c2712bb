//! Chooses the target that serves a read.

use nacre_object::TargetName;

use crate::model::Choice;

/// A target that could serve a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Candidate<'a> {
    pub target: &'a TargetName,
    /// Reads that it has not answered yet.
    pub outstanding: usize,
}

/// What a choice goes by, besides the candidates.
#[derive(Debug, Clone, Copy)]
pub(super) struct ReadContext<'a> {
    /// A random number.
    pub random: u64,
    /// Counts the reads. Targets with equal load take turns.
    pub count: u64,
    /// The target that holds the object, which is the nearest one.
    pub home: &'a TargetName,
}

/// The candidate that serves a read; `None` if there is no candidate. `candidates` has the order of
/// the rule.
pub(super) fn choose<'a>(
    choice: Choice,
    candidates: &[Candidate<'a>],
    context: ReadContext<'_>,
) -> Option<&'a TargetName> {
    let count = candidates.len() as u64;
    let at = |number: u64| candidates.get(number.checked_rem(count)? as usize);
    let chosen = match choice {
        Choice::Random => at(context.random),
        Choice::Nearest => {
            let home = candidates.iter().find(|candidate| candidate.target == context.home);
            home.or(candidates.first())
        }
        Choice::LeastLoaded => {
            let in_turn = (0..count).filter_map(|number| at(context.count.wrapping_add(number)));
            in_turn.min_by_key(|candidate| candidate.outstanding)
        }
    };
    chosen.map(|candidate| candidate.target)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(choice: Choice, loads: &[(&str, usize)], random: u64, count: u64) -> String {
        let names: Vec<TargetName> = loads.iter().map(|(name, _)| name.parse().unwrap()).collect();
        let candidates = names.iter().zip(loads);
        let candidates: Vec<_> = candidates
            .map(|(target, (_, outstanding))| Candidate { target, outstanding: *outstanding })
            .collect();
        let home = "home".parse().unwrap();
        let context = ReadContext { random, count, home: &home };
        choose(choice, &candidates, context).unwrap().to_string()
    }

    #[test]
    fn the_least_loaded_target_serves_and_equal_ones_take_turns() {
        let of = |loads, count| chosen(Choice::LeastLoaded, loads, 0, count);
        assert_eq!(of(&[("a", 3), ("b", 1), ("c", 2)], 0), "b");
        let turns: Vec<_> =
            (0..4).map(|count| of(&[("a", 1), ("b", 1), ("c", 2)], count)).collect();
        assert_eq!(turns, ["a", "b", "a", "a"], "c has more to do");
    }

    #[test]
    fn the_nearest_target_is_the_home() {
        let of = |loads| chosen(Choice::Nearest, loads, 0, 0);
        assert_eq!(of(&[("a", 0), ("home", 9)]), "home");
        assert_eq!(of(&[("b", 1), ("a", 0)]), "b", "otherwise the first of the rule");
    }

    #[test]
    fn a_random_target_is_chosen_by_the_given_number() {
        let of = |random| chosen(Choice::Random, &[("a", 0), ("b", 0)], random, 0);
        assert_eq!([of(6), of(7)], ["a", "b"]);
    }
}
