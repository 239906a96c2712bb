//! `sequencer-caps`: positions taken one a call by a client that is alone with its log, so that it issues them itself,
//! and by two clients at once, which go by round trips. Beside them the figure that the Malacology paper gives for one
//! client.

use std::time::Duration;

use nacre::{Cluster, LogOptions};
use nacre_object::Result;

use crate::bench::Setup;
use crate::figure::{Better, Figure};
use crate::load;
use crate::load::median;
use crate::scratch::{self, ScratchCluster};

const TARGETS: usize = 1;
/// Objects and slots of a stripe: at ten million positions a second a stripe lasts some seconds.
const WIDTH: u32 = 64;
const SLOTS: u32 = 1 << 20;
/// Calls that are timed together where one takes some hundred nanoseconds.
const CALLS: usize = 1000;
/// Calls that each client of two has under way.
const IN_FLIGHT: usize = 64;
/// Positions a second of one client, in the paper.
const PAPER: f64 = 6e6;
/// How many times that is aimed at.
const AIM: f64 = 1.7;

pub(crate) async fn run(setup: &Setup, report: &mut dyn FnMut(Figure)) -> Result<()> {
    let folder = scratch::folder(&setup.folder)?;
    let cluster = ScratchCluster::start(folder.path(), TARGETS, &setup.program).await?;
    let (mut alone, mut two) = (vec![], vec![]);
    for round in 0..setup.rounds {
        let name = format!("tokens{round}");
        let options = LogOptions { width: Some(WIDTH), slots: SLOTS, ..LogOptions::default() };
        cluster.client().await?.create_log(&name, options).await?;
        alone.push(alone_with(&cluster, &name, setup.span).await?);
        two.push(contended(&cluster, &name, setup.span).await?);
    }
    cluster.stop().await;
    let (alone, two) = (median(alone), median(two));
    let of = |what: &str| ("sequencer-caps", what.to_owned(), "positions/s");
    let paper = ("the paper's one client", PAPER);
    let one = of("one client, exclusive, one position a call");
    report(Figure::new(one, Better::Higher, alone, paper).aiming_at(AIM));
    let both = of("two clients, best effort: round trips, 64 in flight each");
    report(Figure::new(both, Better::Higher, two, ("one client, exclusive", alone)));
    Ok(())
}

async fn alone_with(cluster: &ScratchCluster, name: &str, span: Duration) -> Result<f64> {
    let client: Cluster = cluster.client().await?;
    let log = client.log(name).await?;
    let outcome = load::run(1, span, |_| {
        let log = log.clone();
        move |_| {
            let log = log.clone();
            async move {
                for _ in 0..CALLS {
                    log.take_positions(1).await?;
                }
                Ok(())
            }
        }
    });
    let rate = outcome.await?.rate * CALLS as f64;
    log.release().await;
    Ok(rate)
}

async fn contended(cluster: &ScratchCluster, name: &str, span: Duration) -> Result<f64> {
    let mut logs = vec![];
    for _ in 0..2 {
        let client: Cluster = cluster.client().await?;
        logs.push(client.log(name).await?);
    }
    let outcome = load::run(logs.len() * IN_FLIGHT, span, |worker| {
        let log = logs[worker % logs.len()].clone();
        move |_| {
            let log = log.clone();
            async move { log.take_positions(1).await.map(drop) }
        }
    });
    Ok(outcome.await?.rate)
}
