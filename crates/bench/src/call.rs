//! `call`: a Luau method that sets one key of an object's map, compared with the native op that
//! does the same. Both are durable, go over the wire, and have the same number of requests in
//! flight.

use std::time::Duration;

use bytes::Bytes;
use nacre::{Cluster, ProgramId, ProgramKind};
use nacre_object::Result;

use crate::bench::Setup;
use crate::figure::{Better, Figure};
use crate::load::{self, Outcome, Runs, in_turn};
use crate::scratch::{self, ScratchCluster};

const WORKERS: usize = 64;
const TARGETS: usize = 1;
const VALUE_BYTES: usize = 128;
const KEY: &str = "key";
/// The least share of the native op's rate.
const AIM: f64 = 0.8;
const CLASS: &str = "setter";
const SOURCE: &str = "\
function set(input) objclass.map_set_val('key', input) end
objclass.register(set)
";

/// How a key is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Luau,
    Native,
}

pub(crate) async fn run(setup: &Setup, report: &mut dyn FnMut(Figure)) -> Result<()> {
    let folder = scratch::folder(&setup.folder)?;
    let cluster = ScratchCluster::start(folder.path(), TARGETS, &setup.program).await?;
    let client = cluster.client().await?;
    let program = ProgramId::new(ProgramKind::Class, CLASS.parse()?);
    let version = client.programs().put(&program, SOURCE).await?;
    client.programs().activate(&program, version).await?;
    let (mut luau, mut native) = (Runs::default(), Runs::default());
    for round in 0..setup.rounds {
        for (way, runs) in in_turn(round, [(Way::Luau, &mut luau), (Way::Native, &mut native)]) {
            runs.push(measure(&client, way, setup.span).await?);
        }
    }
    cluster.stop().await;
    let name = |what| format!("one map set of {VALUE_BYTES} B, {WORKERS} workers{what}");
    let baseline = ("the same op sent natively", native.rate());
    let of = ("call", name(""), "ops/s");
    report(Figure::new(of, Better::Higher, luau.rate(), baseline).aiming_at(AIM));
    let baseline = ("the same op sent natively", native.p99_micros());
    let of = ("call", name(", p99"), "us");
    report(Figure::new(of, Better::Lower, luau.p99_micros(), baseline));
    Ok(())
}

async fn measure(client: &Cluster, way: Way, span: Duration) -> Result<Outcome> {
    let pool = client.pool("data").await?;
    let value = Bytes::from(vec![7; VALUE_BYTES]);
    load::run(WORKERS, span, |worker| {
        let (object, value) = (pool.object(&format!("call-{worker}")), value.clone());
        move |_| {
            let (object, value) = (object.clone(), value.clone());
            async move {
                match way {
                    Way::Luau => object?.call(CLASS, "set", value).await.map(drop),
                    Way::Native => object?.map_set(KEY, value).await,
                }
            }
        }
    })
    .await
}
