//! Figure 3 of the Mantle paper on CephFS: a client that compiles.

use super::figure::Drawn;
use super::report::{MeasuredFinding, MeasuredTrial, TrialRound};
use super::trial::{Balancer, CephFsTrial, Placement};
use crate::figure_chart::FigureChart;
use crate::policies::NEVER;
use crate::workloads::{UNTAR_STEPS, compilation};

/// Ranks of the figure.
const RANKS: usize = 3;

/// The trials of the figure. Three are those of the Mantle paper: all directories stay on one rank,
/// Ceph balances after the source is unpacked, or Ceph balances from the start. A fourth trial
/// distributes the directories over the ranks by a hash.
pub(super) fn locality_trials() -> Vec<CephFsTrial> {
    let trial = |ranks, balancer| CephFsTrial::new(ranks, 1, compilation, balancer);
    let named = |name: &str, trial: CephFsTrial| CephFsTrial { name: name.to_owned(), ..trial };
    let ceph = || trial(RANKS, Balancer::OfCeph);
    vec![
        trial(1, Balancer::Policy(NEVER)),
        CephFsTrial { quiet_steps: UNTAR_STEPS, ..named("balanced after untar", ceph()) },
        named("balanced from the start", ceph()),
        CephFsTrial {
            placement: Placement::Hashed,
            ..named("hashed", trial(RANKS, Balancer::Policy(NEVER)))
        },
    ]
}

pub(super) fn locality(trials: &[MeasuredTrial]) -> Drawn {
    type Count = (&'static str, &'static str, fn(&TrialRound) -> f64);
    const COUNTS: [Count; 3] = [
        ("cephfs-requests", "requests", |round| round.total().requests as f64),
        ("cephfs-forwards", "forwarded requests", |round| round.total().forwards as f64),
        ("cephfs-traversals", "traversals that end elsewhere", |round| {
            round.total().traversals_forwarded as f64
        }),
    ];
    const OTHERS: [Count; 4] = [
        ("", "messages about sessions", |round| round.total().session_messages as f64),
        ("", "requests of other ranks", |round| round.total().peer_requests as f64),
        ("", "subtrees handed over", |round| round.total().exported_subtrees as f64),
        ("", "seconds", |round| round.seconds),
    ];
    let mut charts = vec![];
    for (name, what, of) in COUNTS {
        let title = "One client compiles, on one rank and on three";
        let mut chart = FigureChart::new(name, title, ("distribution", what, "client"));
        for trial in trials {
            for round in &trial.rounds {
                chart.push(trial.name.clone(), of(round), "one client");
            }
        }
        charts.push(chart);
    }
    let mut findings = vec![];
    for trial in trials {
        for (_, what, of) in COUNTS.into_iter().chain(OTHERS) {
            let finding = format!("{}: {what}", trial.name);
            findings.push(MeasuredFinding::new(finding, what, None, trial.spread(of)));
        }
    }
    Drawn { findings, charts }
}
