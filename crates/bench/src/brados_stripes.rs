//! `brados-stripes`: adds references to a deduplication index (`chunks.brados`) that is divided
//! among eight objects. The baseline is the same program on one object. The requests go over the
//! wire to nodes, or to a Ceph cluster.

use std::fmt::Display;
use std::sync::Arc;

use nacre::{Cluster, ProgramId, ProgramKind, Striped};
use nacre_brados::Value;
use nacre_calls::encode_request;
use nacre_clock::Random;
use nacre_object::{ClassCall, ClassName, Error, ObjectId, Result};
use nacre_rados::RadosOptions;

use crate::bench::Setup;
use crate::figure::{Better, Figure};
use crate::load::{self, Outcome, Runs, in_turn};
use crate::scratch::{self, ScratchCluster};

const PROGRAM: &str = include_str!("../../../programs/class/chunks.brados");
const LAYOUT: &str = "layout stripes: 8\n";
const WRITERS: usize = 64;
const TARGETS: usize = 3;
const FINGERPRINT_BYTES: usize = 32;
/// The number of different chunks. With fewer chunks, the requested chunk would exist more often.
const CHUNKS: u64 = 1 << 20;
const HOLDERS: u64 = 1 << 20;
/// The aim for the rate with stripes, as a multiple of the rate on one object.
const AIM: f64 = 1.05;

pub(crate) async fn run(setup: &Setup, report: &mut dyn FnMut(Figure)) -> Result<()> {
    let folder = scratch::folder(&setup.folder)?;
    let cluster = ScratchCluster::start(folder.path(), TARGETS, &setup.program).await?;
    let outcome = compare(&cluster.client().await?, "through the wire", setup, report).await;
    cluster.stop().await;
    outcome
}

pub(crate) async fn run_on_ceph(
    setup: &Setup,
    options: &RadosOptions,
    report: &mut dyn FnMut(Figure),
) -> Result<()> {
    let cluster = setup.in_process(options).await?;
    compare(&cluster, "on Ceph", setup, report).await
}

async fn compare(
    cluster: &Cluster,
    place: impl Display,
    setup: &Setup,
    report: &mut dyn FnMut(Figure),
) -> Result<()> {
    let name = format!("references to chunks, {place}, {WRITERS} writers");
    if !setup.wants(&name) {
        return Ok(());
    }
    let divided = Index::install(cluster, "chunks_divided", PROGRAM).await?;
    let whole = Index::install(cluster, "chunks_whole", &PROGRAM.replace(LAYOUT, "")).await?;
    if divided.stripes.is_none() || whole.stripes.is_some() {
        return Err(Error::invalid("this bench does not know the layout of `chunks.brados`"));
    }
    let (mut of_divided, mut of_whole) = (Runs::default(), Runs::default());
    for round in 0..setup.rounds {
        let sides = [(&divided, &mut of_divided), (&whole, &mut of_whole)];
        for (index, runs) in in_turn(round, sides) {
            runs.push(index.measure(round, setup).await?);
        }
    }
    let baseline = ("the same program on one object".to_owned(), of_whole.rate());
    let of = ("brados-stripes", name, "requests/s");
    report(Figure::new(of, Better::Higher, of_divided.rate(), baseline).aiming_at(AIM));
    Ok(())
}

/// An index of chunks.
#[derive(Debug, Clone)]
struct Index {
    cluster: Cluster,
    object: ObjectId,
    class: ClassName,
    version: u64,
    /// If the program divides it.
    stripes: Option<Arc<Striped>>,
}

impl Index {
    async fn install(cluster: &Cluster, class: &str, source: &str) -> Result<Self> {
        let class: ClassName = class.parse()?;
        let program = ProgramId::new(ProgramKind::Class, class.as_str().parse()?);
        let version = cluster.programs().put(&program, source).await?;
        cluster.programs().activate(&program, version).await?;
        let object: ObjectId = format!("data/{class}").parse()?;
        let stripes = Striped::open(cluster, &object, &class).await?.map(Arc::new);
        Ok(Self { cluster: cluster.clone(), object, class, version, stripes })
    }

    async fn measure(&self, round: usize, setup: &Setup) -> Result<Outcome> {
        load::run(WRITERS, setup.span, |worker| {
            let mut random = Random::seeded((round * WRITERS + worker) as u64);
            let index = self.clone();
            move |_| {
                let (index, row) = (index.clone(), reference(&mut random));
                async move { index.refer(row).await }
            }
        })
        .await
    }

    async fn refer(&self, row: Vec<Value>) -> Result<()> {
        const METHOD: &str = "refer";
        if let Some(stripes) = &self.stripes {
            return stripes.call(METHOD, &row).await.map(drop);
        }
        let object = self.cluster.object(&self.object).await?;
        let call = ClassCall {
            class: self.class.clone(),
            method: METHOD.parse()?,
            version: Some(self.version),
            input: encode_request(&row).into(),
        };
        object.call_version(call).await.map(drop)
    }
}

/// A reference of some holder to some chunk.
fn reference(random: &mut Random) -> Vec<Value> {
    let chunk = random.below(CHUNKS);
    let mut fingerprint = vec![0; FINGERPRINT_BYTES];
    fingerprint[..8].copy_from_slice(&chunk.to_le_bytes());
    let holder = format!("volume-{}", random.below(HOLDERS));
    let place = format!("data/chunk-{chunk}");
    vec![
        Value::Bytes(fingerprint),
        Value::Bytes(holder.into_bytes()),
        Value::Bytes(place.into_bytes()),
    ]
}
