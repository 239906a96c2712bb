//! Measures two clients that take turns with the capability of one log: the right to issue its
//! positions. Programs say how long a turn lasts; the bench measures one program after the other.

use std::time::Duration;

use nacre::{Cluster, ProgramId, ProgramKind};
use nacre_object::{Error, ProgramName, Result};

use crate::load::{self, WARM_UP_SHARE};
use crate::scratch::ScratchCluster;

/// How many seconds a client holds the capability, as in the public data of the Malacology paper.
const HOLDS: [f64; 4] = [0.001, 0.01, 0.1, 0.25];
/// How many operations a client does before it returns the capability, as in the public data of the
/// Malacology paper. It returns the capability after a quarter of a second at the latest.
const QUOTAS: [u64; 7] = [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000];
/// The Malacology paper's public data for two clients that may each hold the capability for 0.25 s.
/// Each pair has the operations of a turn, and the positions a second of both clients.
const PUBLIC: [(u64, f64); 2] = [(1, 146e3), (1_000_000, 1.62e6)];
/// The number of clients. Each client has one call in flight at a time.
pub const TWO: usize = 2;
/// The numbers of calls for which the bench reports the slowest call.
const SLOWEST_OF: [u32; 6] = [2, 10, 100, 1_000, 10_000, 100_000];
/// Calls after which a task lets others run. Local calls never make it wait.
const YIELD_EVERY: u64 = 256;
/// How long to wait after a change of the program. In this time the node activates the program, and
/// the clients return the capabilities that they hold.
const SETTLE: Duration = Duration::from_millis(1500);

/// How the capability is shared.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Sharing {
    RoundTrips,
    BestEffort,
    Hold(f64),
    Quota(u64),
}

/// One point of the curve.
#[derive(Debug, Clone)]
pub struct Point {
    pub sharing: Sharing,
    /// Positions a second of both clients.
    pub rate: f64,
    /// Microseconds.
    pub mean: f64,
    /// Milliseconds.
    pub longest: f64,
    /// Pairs of a number of calls and the nanoseconds of the slowest one among them.
    pub slowest: Vec<(u32, f64)>,
}

impl Sharing {
    /// Every point of the curve.
    pub fn all() -> Vec<Self> {
        let holds = HOLDS.map(Self::Hold);
        let quotas = QUOTAS.map(Self::Quota);
        [Self::RoundTrips, Self::BestEffort].into_iter().chain(holds).chain(quotas).collect()
    }

    /// How it is called in a figure.
    pub fn name(self) -> String {
        match self {
            Self::RoundTrips => "round trips".into(),
            Self::BestEffort => "best effort".into(),
            Self::Hold(seconds) => format!("delay of {} ms", seconds * 1e3),
            Self::Quota(operations) => format!("quota of {operations}, 250 ms"),
        }
    }

    /// The value in the public data of the Malacology paper.
    pub fn public(self) -> Option<f64> {
        let Self::Quota(operations) = self else { return None };
        PUBLIC.iter().find(|(quota, _)| *quota == operations).map(|(_, rate)| *rate)
    }

    /// The program, as one writes it by hand.
    fn source(self) -> String {
        match self {
            Self::RoundTrips => include_str!("../../../../programs/capability/never.lua").into(),
            Self::BestEffort => {
                include_str!("../../../../programs/capability/best_effort.lua").into()
            }
            Self::Hold(seconds) => {
                format!("function grant(ask) return {{ hold = {seconds} }} end")
            }
            Self::Quota(operations) => format!(
                "function grant(ask) return {{ operations = {operations}, hold = 0.25 }} end"
            ),
        }
    }
}

/// Puts the program in force for the log, and measures clients that take one position a call.
pub async fn measure(
    cluster: &ScratchCluster,
    log: &str,
    sharing: Sharing,
    clients: usize,
    span: Duration,
) -> Result<Point> {
    let client = cluster.client().await?;
    let name: ProgramName = "measured".parse()?;
    let program = ProgramId::new(ProgramKind::Capability, name.clone());
    let version = client.programs().put(&program, &sharing.source()).await?;
    client.programs().activate(&program, version).await?;
    client.programs().wait(&program, version, SETTLE * 20).await?;
    client.set_log_capability(log, Some(name)).await?;
    tokio::time::sleep(SETTLE).await;
    let mut logs = vec![];
    for _ in 0..clients {
        let client: Cluster = cluster.client().await?;
        logs.push(client.log(log).await?);
    }
    // Each client returns the capability when the time is over. Otherwise the other client's last
    // call would wait for a capability that nobody uses any more.
    let ending = logs.clone();
    let release = tokio::spawn(async move {
        tokio::time::sleep(span.mul_f64(1.0 + WARM_UP_SHARE)).await;
        for log in ending {
            log.release().await;
        }
    });
    let outcome = load::run(clients, span, |worker| {
        let log = logs[worker].clone();
        move |number| {
            let log = log.clone();
            async move {
                if number % YIELD_EVERY == 0 {
                    tokio::task::yield_now().await;
                }
                log.take_positions(1).await.map(drop)
            }
        }
    });
    let outcome = outcome.await?;
    release.await.map_err(|error| Error::unavailable(format!("a client ended early: {error}")))?;
    let longest = outcome.latency_micros(100.0) / 1e3;
    let slowest = SLOWEST_OF.map(|calls| {
        let percentile = 100.0 * (1.0 - 1.0 / f64::from(calls));
        (calls, outcome.latency_micros(percentile) * 1e3)
    });
    let mean = clients as f64 * 1e6 / outcome.rate;
    Ok(Point { sharing, rate: outcome.rate, mean, longest, slowest: slowest.to_vec() })
}
