//! Translates a policy and tries it: the dry run shows what each rank would decide now, before any
//! rank runs the policy.

use std::sync::Arc;

use nacre_balance::{Decision, Inputs, Policy, RankLoad, Translation, translate};
use nacre_clock::{Clock, SystemClock};
use nacre_object::Result;

/// Names that policies can use on nacre's nodes, but not on Ceph. Of Lua's libraries, Ceph gives
/// policies only the basic one.
const NOT_IN_CEPH: &str = "string, math, table, coroutine, utf8, os, debug, bit32, buffer, vector, units, authmetaload, \
    allmetaload, IRD, IWR, READDIR, FETCH, STORE, WRstate, RDstate, WRState, RDState, max, min, Max, Min";

/// A policy that Ceph can run.
#[derive(Debug)]
pub struct Checked {
    pub policy: Policy,
    /// What the metadata servers are given.
    pub source: String,
    /// What the policy loses by its translation.
    pub losses: Vec<String>,
}

/// Translates a policy from the dialect of the Mantle paper, and compiles it as Ceph would. Names
/// that Ceph does not offer are nil.
///
/// # Errors
/// Those of [`translate`] and [`Policy::compile`].
pub fn compile(name: &str, version: u64, source: &str) -> Result<Checked> {
    let Translation { source, losses } = translate(name, version, source)?;
    // This first compilation reports mistakes in the source itself, such as an empty one.
    Policy::compile(name, version, &source)?;
    let policy = Policy::compile(name, version, &as_in_ceph(&source))?;
    Ok(Checked { policy, source, losses })
}

/// The source with names of nacre's that are nil. Lines keep their numbers.
fn as_in_ceph(source: &str) -> String {
    match source.split_once('\n') {
        Some((directive, rest)) => format!("{directive}\nlocal {NOT_IN_CEPH}; {rest}"),
        None => source.to_owned(),
    }
}

/// Runs the policy as each rank in turn: first with made-up loads, then with the reported loads.
/// Returns the decisions for the reported loads.
///
/// # Errors
/// Those of [`Policy::decide`]; the error names the rank.
pub fn decide_as_all(policy: &Policy, loads: &[RankLoad]) -> Result<Vec<Decision>> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
    policy.rehearse(&clock)?;
    let decide = |whoami: usize| {
        let inputs = Inputs { whoami, ranks: loads.to_vec(), ..Inputs::default() };
        policy.decide(&inputs, &clock).map_err(|error| error.on(format!("rank {whoami}")))
    };
    (0..loads.len()).map(decide).collect()
}

/// What a decision of a rank would do.
pub fn describe(rank: usize, decision: &Decision) -> String {
    let targets = decision.targets.iter().enumerate().filter(|(_, target)| **target > 0.0);
    let sent: Vec<_> = targets.map(|(to, load)| format!("{load:.1} to rank {to}")).collect();
    match sent.is_empty() {
        true => format!("rank {rank} would send nothing"),
        false => format!("rank {rank} would send {}", sent.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GREEDY: &str = include_str!("../../../../../programs/balancer/ceph/greedy_spill.lua");

    fn loads(all: &[f64]) -> Vec<RankLoad> {
        all.iter().map(|all| RankLoad { all: *all, ..RankLoad::default() }).collect()
    }

    #[test]
    fn a_dry_run_decides_as_every_rank() {
        let policy = compile("greedy_spill", 1, GREEDY).unwrap().policy;
        let decisions = decide_as_all(&policy, &loads(&[8.0, 0.0])).unwrap();
        let said: Vec<_> = decisions.iter().enumerate().map(|(at, it)| describe(at, it)).collect();
        assert_eq!(said, ["rank 0 would send 4.0 to rank 1", "rank 1 would send nothing"]);
    }

    #[test]
    fn a_policy_that_fails_on_the_last_rank_is_refused_with_the_line() {
        let source =
            "--!mantle\nlocal next = mds[whoami + 1]\nlocal load = next.queue_len\nreturn {}";
        let error =
            decide_as_all(&compile("p", 1, source).unwrap().policy, &loads(&[1.0])).unwrap_err();
        assert!(error.fault().is_some_and(|site| site.line.is_some()), "{error}");
    }

    #[test]
    fn names_that_ceph_does_not_offer_are_missing_in_the_dry_run() {
        let source = "--!mantle\n\nreturn { [0] = math.max(1, 2) }";
        let error =
            decide_as_all(&compile("p", 1, source).unwrap().policy, &loads(&[1.0])).unwrap_err();
        assert_eq!(error.fault().and_then(|site| site.line), Some(3), "{error}");
    }

    #[test]
    fn a_policy_in_the_dialect_of_the_mantle_paper_is_translated() {
        const PAPERS: &str = include_str!("../../../../../programs/balancer/greedy_spill.lua");
        let checked = compile("greedy_spill", 1, PAPERS).unwrap();
        assert!(checked.losses.iter().any(|lost| lost.starts_with("howmuch: ")), "{checked:?}");
        let decisions = decide_as_all(&checked.policy, &loads(&[8.0, 0.0])).unwrap();
        assert_eq!(describe(0, &decisions[0]), "rank 0 would send 4.0 to rank 1");
    }
}
