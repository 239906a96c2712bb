//! Which clients an estimator admits, and what their requests do.

use std::time::Duration;

use nacre_clock::Random;
use nacre_experiments::thesis::{
    CLIENTS, ClientLatencies, EQUAL, ESTIMATORS, SLO_SECONDS, TARGET_RATE, TraceKind,
};
use nacre_load::in_turn;
use nacre_object::Result;
use nacre_qos::Estimator;
use nacre_qos::trace::Trace;
use nacre_terminal::out::note;

use super::clients::{Clients, WRITE_BYTES};

/// What came of the clients that one estimator admitted.
#[derive(Debug)]
pub(super) struct Trial {
    pub kind: TraceKind,
    pub estimator: Estimator,
    pub admitted: usize,
    /// The load of the busiest target as the promises assume it: 1 is all that can be promised.
    pub assumed_load: f64,
    /// The same as measured: the writes that the target answered while they were sent.
    pub measured_load: f64,
    pub latencies: ClientLatencies,
    pub requests: usize,
    /// Requests that took longer than promised, or failed.
    pub late: usize,
    /// Requests a second that were answered within their SLO.
    pub in_time_rate: f64,
}

/// The promised latencies are those of the thesis times this factor.
///
/// # Errors
/// As [`Clients::scale`].
pub(super) async fn scale(clients: &Clients, span: Duration) -> Result<f64> {
    let traces = traces(clients, TraceKind::Unbalanced, 0, span);
    let scale = clients.scale(&traces).await?;
    note(&format!(
        "a target can be promised {:.0} writes of {WRITE_BYTES} B a second; SLOs are {scale:.2} times those of the thesis",
        clients.promised_rate(),
    ));
    Ok(scale)
}

/// Measures both kinds of traces with each estimator, in turns, in so many rounds.
///
/// # Errors
/// As [`Clients::admit`] and [`Clients::play`].
pub(super) async fn measure(
    clients: &Clients,
    scale: f64,
    rounds: usize,
    span: Duration,
) -> Result<Vec<Trial>> {
    clients.slow.client.slos().enforce(true).await?;
    let mut trials = vec![];
    for (round, kind) in (0..rounds).flat_map(|round| TraceKind::ALL.map(|kind| (round, kind))) {
        let traces = traces(clients, kind, round, span);
        for estimator in in_turn(round, ESTIMATORS) {
            note(&format!("round {}: {} traces, {estimator}", round + 1, kind.name()));
            trials.push(trial(clients, &traces, (kind, estimator), scale, span).await?);
        }
    }
    Ok(trials)
}

/// Each client asks for as many of a target's writes a second as in the thesis. All estimators of a
/// round see the same traces.
fn traces(clients: &Clients, kind: TraceKind, round: usize, span: Duration) -> [Trace; CLIENTS] {
    let mut random = Random::seeded(round as u64 + 1);
    std::array::from_fn(|client| {
        let rate = EQUAL[client] / TARGET_RATE * clients.promised_rate();
        clients.trace(client, kind, (rate, span.as_secs_f64()), &mut random)
    })
}

async fn trial(
    clients: &Clients,
    traces: &[Trace; CLIENTS],
    (kind, estimator): (TraceKind, Estimator),
    scale: f64,
    span: Duration,
) -> Result<Trial> {
    let admitted = clients.admit(traces, scale, estimator).await?;
    let assumed = clients.assumed_loads().await?;
    let sent = std::array::from_fn(|client| admitted[client].then_some(&traces[client]));
    let played = clients.play(sent, span).await?;
    let busiest = played.served.values().copied().max().unwrap_or_default() as f64;
    let (mut requests, mut late) = (0, 0);
    for (client, slo) in SLO_SECONDS.iter().enumerate() {
        requests += played.latencies.requests(client);
        late += played.latencies.late(client, slo * scale);
    }
    note(&format!(
        "{} clients; {late} of {requests} requests late, of which {} failed; sent at most {:.0} ms late",
        admitted.iter().filter(|is_admitted| **is_admitted).count(),
        played.failed,
        played.lag.as_secs_f64() * 1e3,
    ));
    Ok(Trial {
        kind,
        estimator,
        admitted: admitted.iter().filter(|is_admitted| **is_admitted).count(),
        assumed_load: assumed.into_values().fold(0.0, f64::max),
        measured_load: busiest / span.as_secs_f64() / clients.promised_rate(),
        requests,
        late,
        in_time_rate: (requests - late) as f64 / span.as_secs_f64(),
        latencies: played.latencies,
    })
}
