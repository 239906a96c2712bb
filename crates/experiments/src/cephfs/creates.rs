//! Figures 4, 5, 7 and 8 of the Mantle paper on CephFS: clients that create files.

use super::figure::Drawn;
use super::report::{MeasuredFinding, MeasuredTrial, TrialRound};
use super::trial::{Balancer, CephFsTrial, Placement};
use crate::figure_chart::{FigureChart, rounded};
use crate::policies::{CEPH_FILL, GREEDY, GREEDY_EVEN, NEVER, PolicyPlan};
use crate::report::Spread;
use crate::workloads::{separate_directories, shared_directory};

/// Clients that create files in one directory.
const CLIENTS: usize = 4;
/// Ranks of figure 7, and the most of figure 8.
const MOST_RANKS: usize = 4;
/// The clients that repeat one job, and the ranks that serve them.
const SAME_JOB_CLIENTS: usize = 6;
const SAME_JOB_RANKS: usize = 3;
/// The most clients of one rank.
const MOST_CLIENTS: usize = 7;
/// A rank that answers less than this share of the requests counts as unused.
const USED_SHARE: f64 = 0.02;
/// Session messages of a single rank, in the Mantle paper.
const SESSIONS_OF_ONE_RANK: f64 = 157.0;

/// The policies of the Mantle paper's figure 8. Each has its number of ranks, and two values of the
/// paper: the speedup in percent and the number of session messages.
const SPEEDUPS: [(PolicyPlan, usize, f64, Option<f64>); 5] = [
    (GREEDY, 2, 10.0, Some(323.0)),
    (GREEDY, 3, -5.0, Some(458.0)),
    (GREEDY, 4, -20.0, Some(788.0)),
    (GREEDY_EVEN, 4, -40.0, Some(936.0)),
    (CEPH_FILL, 4, 6.0, None),
];
/// The policies of the Mantle paper's figure 7. Each has the name of its chart, and two values of
/// the paper: the first rank's share in percent and the number of ranks that get load.
const OVER_TIME: [(&str, PolicyPlan, Option<f64>, f64); 3] = [
    ("cephfs-uneven", GREEDY, Some(50.0), 4.0),
    ("cephfs-even", GREEDY_EVEN, Some(25.0), 4.0),
    ("cephfs-fill-and-spill", CEPH_FILL, None, 2.0),
];

fn shared(policy: PolicyPlan, ranks: usize) -> CephFsTrial {
    CephFsTrial::new(ranks, CLIENTS, shared_directory, Balancer::Policy(policy))
}

pub(super) fn same_job_trials() -> Vec<CephFsTrial> {
    let trial = |balancer| {
        CephFsTrial::new(SAME_JOB_RANKS, SAME_JOB_CLIENTS, separate_directories, balancer)
    };
    let even = CephFsTrial {
        name: "even from the start".to_owned(),
        placement: Placement::Pinned,
        ..trial(Balancer::Policy(NEVER))
    };
    vec![even, trial(Balancer::OfCeph)]
}

pub(super) fn same_job(trials: &[MeasuredTrial]) -> Drawn {
    let mut throughput = FigureChart::new(
        "cephfs-throughput",
        "Six clients create files in separate directories, on three ranks",
        ("seconds", "requests a second", "run"),
    );
    let mut findings = vec![];
    for (at, trial) in trials.iter().enumerate() {
        for (number, round) in trial.rounds.iter().enumerate() {
            if at == 0 && number > 0 {
                continue;
            }
            let name = if at == 0 { trial.name.clone() } else { format!("run {}", number + 1) };
            for (at_seconds, rates) in round.replies_per_second() {
                throughput.push(at_seconds, rates.iter().sum(), &name);
            }
        }
        findings.push(finding(trial, "time", "s", None, |round| round.seconds));
        findings.push(finding(trial, "share of the busiest rank", "%", None, |round| {
            100.0 * round.shares().into_iter().fold(0.0, f64::max)
        }));
        findings.push(finding(trial, "subtrees handed over", "subtrees", None, |round| {
            round.total().exported_subtrees as f64
        }));
        findings.push(finding(trial, "forwarded requests", "requests", None, |round| {
            round.total().forwards as f64
        }));
    }
    let seconds = trials[1].spread(|round| round.seconds);
    let slowest = Spread::exactly(vec![rounded(seconds.most / seconds.least)]);
    let of = "the slowest run of Ceph's own balancer beside the fastest";
    findings.push(MeasuredFinding::new(of, "times", 2.0, slowest));
    Drawn { findings, charts: vec![throughput] }
}

pub(super) fn one_rank_trials() -> Vec<CephFsTrial> {
    let trial =
        |clients| CephFsTrial::new(1, clients, separate_directories, Balancer::Policy(NEVER));
    (1..=MOST_CLIENTS).map(trial).collect()
}

pub(super) fn one_rank(trials: &[MeasuredTrial]) -> Drawn {
    let mut throughput = FigureChart::new(
        "cephfs-throughput",
        "One rank, clients that create files",
        ("clients", "creates a second", "rank"),
    );
    let mut latency = FigureChart::new(
        "cephfs-latency",
        "One rank, clients that create files",
        ("clients", "microseconds a create", "rank"),
    );
    for trial in trials {
        for round in &trial.rounds {
            throughput.push(trial.clients, round.throughput(), "one rank");
            latency.push(trial.clients, round.latency.mean_micros, "one rank");
        }
    }
    let rate = |trial: &MeasuredTrial| trial.median(TrialRound::throughput);
    let most = trials.iter().map(rate).fold(0.0, f64::max);
    let busy = trials.iter().position(|trial| rate(trial) >= 0.95 * most).unwrap_or(0) + 1;
    let mean = |trial: &MeasuredTrial| trial.median(|round| round.latency.mean_micros);
    let deviation = |trial: &MeasuredTrial| trial.median(|round| round.latency.deviation_micros);
    let once = |value: f64| Spread::exactly(vec![rounded(value)]);
    let (three, four, seven) = (&trials[2], &trials[3], &trials[MOST_CLIENTS - 1]);
    let mut findings = vec![
        MeasuredFinding::new(
            "throughput is within 5 % of its most with",
            "clients",
            5.0,
            once(busy as f64),
        ),
        MeasuredFinding::new(
            "throughput of 7 clients beside 4",
            "times",
            1.0,
            once(rate(seven) / rate(four)),
        ),
        MeasuredFinding::new(
            "latency of 7 clients beside 4",
            "times",
            None,
            once(mean(seven) / mean(four)),
        ),
        MeasuredFinding::new(
            "deviation of latency, 7 clients beside 3",
            "times",
            3.0,
            once(deviation(seven) / deviation(three)),
        ),
    ];
    for trial in trials {
        let per_create =
            |round: &TrialRound| round.total().requests as f64 / round.operations as f64;
        let what = format!("{} clients: requests for each create", trial.clients);
        findings.push(MeasuredFinding::new(what, "requests", None, trial.spread(per_create)));
        let what = format!("{} clients: messages about sessions", trial.clients);
        let messages = trial.spread(|round| round.total().session_messages as f64);
        findings.push(MeasuredFinding::new(what, "messages", None, messages));
    }
    Drawn { findings, charts: vec![throughput, latency] }
}

pub(super) fn over_time_trials() -> Vec<CephFsTrial> {
    OVER_TIME.iter().map(|(_, policy, ..)| shared(*policy, MOST_RANKS)).collect()
}

pub(super) fn over_time(trials: &[MeasuredTrial]) -> Drawn {
    let mut charts = vec![];
    let mut findings = vec![];
    for (trial, (name, policy, first, used)) in trials.iter().zip(OVER_TIME) {
        let title = format!("Four clients create files in one directory, {}", policy.name);
        let mut chart = FigureChart::new(name, &title, ("seconds", "requests a second", "rank"));
        for (at_seconds, rates) in trial.rounds[0].replies_per_second() {
            for (rank, rate) in rates.into_iter().enumerate() {
                chart.push(at_seconds, rate, &format!("rank {rank}"));
            }
        }
        charts.push(chart);
        findings.push(finding(trial, "last share of the first rank", "%", first, |round| {
            100.0 * last_shares(round).first().copied().unwrap_or(0.0)
        }));
        findings.push(finding(trial, "ranks that are used", "ranks", used, |round| {
            round.shares().iter().filter(|share| **share >= USED_SHARE).count() as f64
        }));
        findings.extend(counts(trial, None));
    }
    Drawn { findings, charts }
}

/// Each rank's share of the answered requests in the last fifth of a round, after the migrations.
fn last_shares(round: &TrialRound) -> Vec<f64> {
    let rates = round.replies_per_second();
    let last = &rates[rates.len() * 4 / 5..];
    let ranks = round.ranks.len();
    let of = |rank: usize| last.iter().map(|(_, rates)| rates[rank]).sum::<f64>();
    let all = (0..ranks).map(of).sum::<f64>().max(f64::MIN_POSITIVE);
    (0..ranks).map(|rank| of(rank) / all).collect()
}

pub(super) fn speedup_trials() -> Vec<CephFsTrial> {
    let one = shared(NEVER, 1);
    let more = SPEEDUPS.iter().map(|(policy, ranks, ..)| shared(*policy, *ranks));
    std::iter::once(one).chain(more).collect()
}

pub(super) fn speedup(trials: &[MeasuredTrial]) -> Drawn {
    let mut speedup = FigureChart::new(
        "cephfs-speedup",
        "Speedup over one rank, four clients that create files in one directory",
        ("policy and ranks", "times as fast as one rank", "clients"),
    );
    let mut sessions = FigureChart::new(
        "cephfs-sessions",
        "Messages of clients about their sessions",
        ("policy and ranks", "messages", "clients"),
    );
    let (alone, rest) = (&trials[0], &trials[1..]);
    for round in &alone.rounds {
        sessions.push("one rank", round.total().session_messages as f64, "4 clients");
    }
    let mut findings = counts(alone, Some(SESSIONS_OF_ONE_RANK));
    for (trial, (policy, ranks, gain, counted)) in rest.iter().zip(SPEEDUPS) {
        let bar = format!("{}, {ranks}", policy.short);
        let mut gains = vec![];
        for (round, one) in trial.rounds.iter().zip(&alone.rounds) {
            speedup.push(bar.clone(), one.seconds / round.seconds, "4 clients");
            sessions.push(bar.clone(), round.total().session_messages as f64, "4 clients");
            gains.push(100.0 * (one.seconds / round.seconds - 1.0));
        }
        let of = format!("{}: gain over one rank", trial.name);
        findings.push(MeasuredFinding::new(of, "%", gain, Spread::of(gains)));
        findings.extend(counts(trial, counted));
    }
    Drawn { findings, charts: vec![speedup, sessions] }
}

/// What all figures of one directory count.
fn counts(trial: &MeasuredTrial, sessions: Option<f64>) -> Vec<MeasuredFinding> {
    vec![
        finding(trial, "messages about sessions", "messages", sessions, |round| {
            round.total().session_messages as f64
        }),
        finding(trial, "requests for each create", "requests", None, |round| {
            round.total().requests as f64 / round.operations as f64
        }),
        finding(trial, "forwarded requests", "requests", None, |round| {
            round.total().forwards as f64
        }),
        finding(trial, "fragments handed over", "fragments", None, |round| {
            round.total().exported_subtrees as f64
        }),
        finding(trial, "time", "s", None, |round| round.seconds),
    ]
}

fn finding(
    trial: &MeasuredTrial,
    what: &str,
    unit: &str,
    paper: impl Into<Option<f64>>,
    of: impl Fn(&TrialRound) -> f64,
) -> MeasuredFinding {
    MeasuredFinding::new(format!("{}: {what}", trial.name), unit, paper, trial.spread(of))
}
