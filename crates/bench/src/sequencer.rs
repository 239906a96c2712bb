//! `sequencer`: how many positions a sequencer issues over sockets, one for each request. The
//! baseline echoes requests of the same size, over the same stream and in the same process.

use std::time::Duration;

use nacre::{Cluster, RoleName};
use nacre_object::Result;

use crate::append::new_log;
use crate::bench::Setup;
use crate::figure::{Better, Figure};
use crate::load;
use crate::load::median;
use crate::scratch::{self, ScratchCluster};
use crate::wire::{self, Wire};

const CLIENTS: usize = 4;
/// Requests that each client has in flight.
const IN_FLIGHT: usize = 256;
const TARGETS: usize = 1;
/// About as many bytes as a request for a position has.
const ECHO_BYTES: usize = 32;
/// Tokens a second aimed at.
const AIM: f64 = 300_000.0;

pub(crate) async fn run(setup: &Setup, report: &mut dyn FnMut(Figure)) -> Result<()> {
    let folder = scratch::folder(&setup.folder)?;
    let cluster = ScratchCluster::start(folder.path(), TARGETS, &setup.program).await?;
    new_log(&cluster.client().await?, "tokens").await?;
    let (mut ours, mut echoes) = (vec![], vec![]);
    for _ in 0..setup.rounds {
        ours.push(tokens(&cluster, setup.span).await?);
        echoes.push(echo(&cluster, setup.span).await?);
    }
    cluster.stop().await;
    let of = || {
        let name =
            format!("{CLIENTS} clients, {IN_FLIGHT} in flight each, one position a question");
        ("sequencer", name, "tokens/s")
    };
    let ours = median(ours);
    let echo = ("bare echo on the same session stream", median(echoes));
    report(Figure::new(of(), Better::Higher, ours, echo).aiming_at(0.7));
    let aim = ("the aim", AIM);
    report(Figure::new(of(), Better::Higher, ours, aim).aiming_at(1.0));
    Ok(())
}

async fn tokens(cluster: &ScratchCluster, span: Duration) -> Result<f64> {
    let mut logs = Vec::new();
    for _ in 0..CLIENTS {
        let client: Cluster = cluster.client().await?;
        logs.push(client.log("tokens").await?);
    }
    let outcome = load::run(CLIENTS * IN_FLIGHT, span, |worker| {
        let log = logs[worker % CLIENTS].clone();
        move |_| {
            let log = log.clone();
            async move { log.take_positions(1).await.map(drop) }
        }
    });
    Ok(outcome.await?.rate)
}

async fn echo(cluster: &ScratchCluster, span: Duration) -> Result<f64> {
    let wires = (0..CLIENTS).map(|_| Wire::to(cluster, RoleName::Metadata));
    let exchanges = wires.map(|wire| Ok(wire?.exchange(ECHO_BYTES, ECHO_BYTES)));
    let exchanges = exchanges.collect::<Result<Vec<_>>>()?;
    wire::rate(&exchanges, CLIENTS * IN_FLIGHT, span).await
}
