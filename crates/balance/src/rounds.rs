//! `Rounds`: collects the heartbeats of each tick until all have arrived. It is a state machine
//! without IO.
//!
//! **Invariant:** a decision uses one heartbeat of each rank, all from the same tick, and all
//! measured by the same version of the same program. All ranks agree on the list of ranks. If one
//! of these conditions fails, nothing moves at that tick: ranks that decide from different loads
//! would send the same load twice.

use std::collections::BTreeMap;

use crate::limits::MAX_RANKS;
use crate::{Heartbeat, RankLoad};

/// For how many ticks heartbeats are kept: for the present tick and the three after it. A rank
/// whose clock is ahead sends heartbeats of later ticks.
const MAX_OPEN_TICKS: usize = 4;

/// The heartbeats of the ticks that are not over.
#[derive(Debug)]
pub struct Rounds {
    node: String,
    open: BTreeMap<u64, BTreeMap<String, Heartbeat>>,
    /// The last tick that is over. Heartbeats of this tick and earlier ticks come too late.
    closed: u64,
}

/// A tick's heartbeats, complete.
#[derive(Debug, Clone, PartialEq)]
pub struct Round {
    /// The tick.
    pub tick: u64,
    /// Which of the ranks this node is, from 0.
    pub whoami: usize,
    /// The ranks' loads.
    pub ranks: Vec<RankLoad>,
}

/// Whether a tick has all heartbeats that a decision needs.
#[derive(Debug, Clone, PartialEq)]
pub enum Progress {
    /// These ranks' heartbeats are missing.
    Waiting(Vec<String>),
    /// There is one heartbeat of each rank.
    Complete(Round),
    /// Some heartbeats contradict each other; says how.
    Void(String),
}

impl Rounds {
    /// No heartbeats yet, on a node.
    pub fn new(node: impl Into<String>) -> Self {
        Self { node: node.into(), open: BTreeMap::new(), closed: 0 }
    }

    /// Takes a heartbeat. Drops a heartbeat that comes too late or too early. If a rank sends two
    /// heartbeats for one tick, the first one counts.
    pub fn hear(&mut self, heartbeat: Heartbeat) {
        let tick = heartbeat.tick;
        let is_far_ahead = |newest: &u64| tick >= newest + MAX_OPEN_TICKS as u64;
        let own = self.open.iter().rev().find(|(_, heard)| heard.contains_key(&self.node));
        if tick <= self.closed || own.is_some_and(|(newest, _)| is_far_ahead(newest)) {
            return;
        }
        let heard = self.open.entry(tick).or_default();
        if heard.len() < MAX_RANKS {
            heard.entry(heartbeat.load.node.clone()).or_insert(heartbeat);
        }
        while self.open.len() > MAX_OPEN_TICKS {
            self.open.pop_first();
        }
    }

    /// Whether a tick has all heartbeats that a decision needs.
    pub fn progress(&self, tick: u64) -> Progress {
        let none = BTreeMap::new();
        let heard = self.open.get(&tick).unwrap_or(&none);
        let Some(own) = heard.get(&self.node) else {
            return Progress::Waiting(vec![self.node.clone()]);
        };
        let missing: Vec<_> =
            own.ranks.iter().filter(|rank| !heard.contains_key(*rank)).cloned().collect();
        if !missing.is_empty() {
            return Progress::Waiting(missing);
        }
        let others = own.ranks.iter().filter_map(|rank| heard.get(rank));
        if let Some(why) = others.clone().find_map(|other| disagreement(own, other)) {
            return Progress::Void(why);
        }
        match own.ranks.iter().position(|rank| *rank == self.node) {
            Some(whoami) => {
                let ranks = others.map(|other| other.load.clone()).collect();
                Progress::Complete(Round { tick, whoami, ranks })
            }
            None => Progress::Void(format!("{} is no rank", self.node)),
        }
    }

    /// Ends a tick, and those before it.
    pub fn close(&mut self, tick: u64) {
        self.closed = self.closed.max(tick);
        self.open = self.open.split_off(&(self.closed + 1));
    }
}

/// Why two heartbeats of one tick do not fit together.
fn disagreement(own: &Heartbeat, other: &Heartbeat) -> Option<String> {
    let (here, there) = (&own.load.node, &other.load.node);
    if (&own.policy, own.version) != (&other.policy, other.version) {
        return Some(format!(
            "{here} runs {} version {}, {there} runs {} version {}",
            own.policy, own.version, other.policy, other.version
        ));
    }
    (own.ranks != other.ranks).then(|| format!("{here} and {there} do not see the same nodes up"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heartbeat(node: &str, tick: u64) -> Heartbeat {
        let ranks = ["a", "b", "c"].map(str::to_owned).to_vec();
        let load = RankLoad { node: node.into(), auth: tick as f64, ..RankLoad::default() };
        Heartbeat { tick, policy: "p".into(), version: 1, ranks, load }
    }

    fn hear_all(rounds: &mut Rounds, tick: u64) {
        ["a", "b", "c"].into_iter().for_each(|node| rounds.hear(heartbeat(node, tick)));
    }

    #[test]
    fn a_tick_is_complete_with_one_heartbeat_of_each_rank() {
        let mut rounds = Rounds::new("b");
        rounds.hear(heartbeat("c", 7));
        assert_eq!(rounds.progress(7), Progress::Waiting(vec!["b".into()]));
        rounds.hear(heartbeat("b", 7));
        assert_eq!(rounds.progress(7), Progress::Waiting(vec!["a".into()]));
        rounds.hear(heartbeat("a", 7));
        let Progress::Complete(round) = rounds.progress(7) else { panic!("{rounds:?}") };
        let nodes: Vec<_> = round.ranks.iter().map(|rank| rank.node.as_str()).collect();
        assert_eq!((round.whoami, nodes), (1, vec!["a", "b", "c"]));
    }

    #[test]
    fn heartbeats_of_different_ticks_are_never_mixed() {
        let mut rounds = Rounds::new("a");
        rounds.hear(heartbeat("a", 7));
        rounds.hear(heartbeat("b", 7));
        rounds.hear(heartbeat("c", 8));
        assert_eq!(rounds.progress(7), Progress::Waiting(vec!["c".into()]));
        hear_all(&mut rounds, 8);
        let Progress::Complete(round) = rounds.progress(8) else { panic!("{rounds:?}") };
        assert!(round.ranks.iter().all(|rank| rank.auth == 8.0));
    }

    #[test]
    fn a_second_heartbeat_of_a_rank_changes_nothing() {
        let mut rounds = Rounds::new("a");
        hear_all(&mut rounds, 7);
        let before = rounds.progress(7);
        let mut again = heartbeat("b", 7);
        again.load.auth = 100.0;
        rounds.hear(again);
        assert_eq!(rounds.progress(7), before);
    }

    #[test]
    fn a_tick_is_void_if_two_ranks_run_different_versions() {
        let mut rounds = Rounds::new("a");
        rounds.hear(Heartbeat { version: 2, ..heartbeat("b", 7) });
        hear_all(&mut rounds, 7);
        let text = "a runs p version 1, b runs p version 2";
        assert_eq!(rounds.progress(7), Progress::Void(text.into()));
    }

    #[test]
    fn a_tick_is_void_if_two_ranks_know_different_ranks() {
        let mut rounds = Rounds::new("a");
        rounds.hear(Heartbeat { ranks: vec!["c".into()], ..heartbeat("c", 7) });
        hear_all(&mut rounds, 7);
        assert!(matches!(rounds.progress(7), Progress::Void(why) if why.contains("a and c")));
    }

    #[test]
    fn a_heartbeat_after_its_tick_is_dropped() {
        let mut rounds = Rounds::new("a");
        hear_all(&mut rounds, 7);
        rounds.close(7);
        hear_all(&mut rounds, 7);
        assert_eq!(rounds.progress(7), Progress::Waiting(vec!["a".into()]));
    }

    #[test]
    fn heartbeats_of_a_bounded_number_of_ticks_are_kept() {
        let mut rounds = Rounds::new("a");
        rounds.hear(heartbeat("a", 7));
        (8..1000).for_each(|tick| rounds.hear(heartbeat("b", tick)));
        assert!(rounds.open.len() <= MAX_OPEN_TICKS);
        rounds.hear(heartbeat("b", 7));
        rounds.hear(heartbeat("c", 7));
        assert!(matches!(rounds.progress(7), Progress::Complete(_)), "{rounds:?}");
    }
}
