//! `route-direct`: reads of routed bytes by clients that have a switch of their own, which read at the
//! node that keeps the bytes, beside clients whose reads go through the home (replies straight to
//! the source or through the switch: figure 5 of the sRoute paper).

use std::path::Path;

use nacre::{Cluster, ClusterFile, ConnectOptions};
use nacre_object::{Error, ObjectId, Result};

use crate::bench::Setup;
use crate::block_reads::{OBJECT_BYTES, READ_BYTES, content, read_blocks};
use crate::figure::{Better, Figure};
use crate::load::{Runs, in_turn};
use crate::route_recover::nacre;
use crate::scratch::{self, ScratchCluster};

const TARGETS: usize = 2;
/// The target that is the home of the objects.
const HOME: &str = "storage.0";
/// The target that keeps their bytes.
const AWAY: &str = "storage.1";
const OBJECTS: usize = 16;
/// Enough readers to keep the processors busy.
const READERS: usize = 32;

/// How clients read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Direct,
    ThroughHome,
}

pub(crate) async fn run(setup: &Setup, report: &mut dyn FnMut(Figure)) -> Result<()> {
    let folder = scratch::folder(&setup.folder)?;
    let cluster = ScratchCluster::start(folder.path(), TARGETS, &setup.program).await?;
    let measured = measure(setup, folder.path(), &cluster).await;
    cluster.stop().await;
    let [[one, one_home], [many, many_home]] = measured?;
    let what =
        |readers: usize| format!("reads of {READ_BYTES} B of routed bytes, {readers} at a time");
    let of = ("route-direct", what(READERS), "reads/s");
    report(Figure::new(of, Better::Higher, many.rate(), ("through the home", many_home.rate())));
    let of = ("route-direct", format!("{}, p50", what(1)), "us");
    let baseline = ("through the home", one_home.median_micros());
    report(Figure::new(of, Better::Lower, one.median_micros(), baseline));
    Ok(())
}

/// With one reader and with many: the runs of direct reads, and of reads through the home.
async fn measure(setup: &Setup, folder: &Path, cluster: &ScratchCluster) -> Result<[[Runs; 2]; 2]> {
    let usual = cluster.client().await?;
    let file = ClusterFile::read(folder.join("cluster"))?;
    let options = ConnectOptions { direct_reads: true, ..ConnectOptions::default() };
    let direct = Cluster::reach_with(&file, &options)?;
    put_rule(setup, folder).await?;
    let names = routed_objects(&usual).await?;
    let mut objects = [vec![], vec![]];
    for id in &names {
        objects[Side::Direct as usize].push(direct.object(id).await?);
        objects[Side::ThroughHome as usize].push(usual.object(id).await?);
    }
    let mut runs = [1, READERS].map(|_| [Runs::default(), Runs::default()]);
    for round in 0..setup.rounds {
        for side in in_turn(round, [Side::Direct, Side::ThroughHome]) {
            let objects = &objects[side as usize];
            for (readers, runs) in [1, READERS].into_iter().zip(&mut runs) {
                let before = direct_reads(setup, folder).await?;
                let outcome = read_blocks(readers, setup.span, objects).await?;
                let direct = direct_reads(setup, folder).await? - before;
                let least = (outcome.rate * setup.span.as_secs_f64() * 0.9) as u64;
                if side == Side::Direct && direct < least {
                    return Err(Error::unavailable(format!(
                        "only {direct} reads were direct, of about {least}"
                    )));
                }
                runs[side as usize].push(outcome);
            }
        }
    }
    Ok(runs)
}

/// Writes objects of the target [`HOME`], whose bytes a rule sends to [`AWAY`].
async fn routed_objects(client: &Cluster) -> Result<Vec<ObjectId>> {
    let mut objects = vec![];
    for number in 0_u64.. {
        let id: ObjectId = format!("data/hot{number}").parse()?;
        if client.locate(&id).as_str() != HOME {
            continue;
        }
        client.object(&id).await?.write(0, content(OBJECT_BYTES)).await?;
        objects.push(id);
        if objects.len() == OBJECTS {
            break;
        }
    }
    Ok(objects)
}

async fn put_rule(setup: &Setup, folder: &Path) -> Result<()> {
    let rules = folder.join("rules");
    let text = format!(
        "nacre routes 1\napplication hot on {HOME}\n  * w data/hot* -> target {AWAY} follow direct-reads\n"
    );
    tokio::fs::write(&rules, text).await.map_err(|error| {
        Error::unavailable(format!("cannot write {}: {error}", rules.display()))
    })?;
    nacre(setup, folder, &["route", "put", &rules.to_string_lossy()]).await.map(drop)
}

/// How many direct reads [`AWAY`] has served.
async fn direct_reads(setup: &Setup, folder: &Path) -> Result<u64> {
    let status = nacre(setup, folder, &["route", "status", "--json"]).await?;
    let status: serde_json::Value = serde_json::from_str(&status)
        .map_err(|error| Error::corrupt(format!("the status of routes cannot be read: {error}")))?;
    let of_away = status.as_array().and_then(|all| all.iter().find(|one| one["target"] == AWAY));
    Ok(of_away.and_then(|one| one["direct_reads"].as_u64()).unwrap_or(0))
}
