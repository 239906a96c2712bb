//! `slo-overhead`: what the layer costs that keeps promises, while nobody is limited. Durable writes in one process, which
//! have the least beside it.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use nacre_clock::{Clock, Random, SystemClock};
use nacre_embedded::{EmbeddedEngine, Options};
use nacre_node::ClassService;
use nacre_object::{Op, Request, Result, Stack, Store, TargetName};
use nacre_slo::{NodeSlo, OneTarget, SloLayer, SloState};

use crate::bench::Setup;
use crate::figure::{Better, Figure};
use crate::load;
use crate::load::{in_turn, median};
use crate::scratch;

const WORKERS: usize = 64;
const SIZES: [usize; 2] = [128, 4096];
const OBJECTS: u64 = 10_000;
/// The part of the rate without the layer that is aimed at.
const AIM: f64 = 0.97;

pub(crate) async fn run(setup: &Setup, report: &mut dyn FnMut(Figure)) -> Result<()> {
    let folder = scratch::folder(&setup.folder)?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
    let classes = ClassService::new(Arc::clone(&clock))?;
    let options = Options::new(folder.path().join("data"), classes.host(), Arc::clone(&clock));
    let engine = EmbeddedEngine::open(options)?;
    let bare = Stack::new(engine.clone());
    let with = |is_enforced| -> Result<Arc<dyn Store>> {
        let target = OneTarget(TargetName::new("measured")?);
        let node = NodeSlo::new(target, Arc::clone(&clock));
        node.apply(SloState { is_enforced, ..SloState::default() });
        Ok(bare.clone().wrapped_by(|next| SloLayer::new(next, node)).as_store())
    };
    let stores: [Arc<dyn Store>; 3] = [bare.as_store(), with(false)?, with(true)?];
    for size in SIZES {
        let mut rates = [vec![], vec![], vec![]];
        for round in 0..setup.rounds {
            for side in in_turn(round, [0, 1, 2]) {
                let rate = writes(&stores[side], size, setup.span).await?;
                rates[side].push(rate);
            }
        }
        let [bare, measured, ordered] = rates.map(median);
        for (what, rate) in [("measured", measured), ("ordered", ordered)] {
            let name = format!("object write {size} B, {WORKERS} workers, {what}");
            let of = ("slo-overhead", name, "ops/s");
            report(Figure::new(of, Better::Higher, rate, ("no layer", bare)).aiming_at(AIM));
        }
    }
    engine.close();
    Ok(())
}

async fn writes(store: &Arc<dyn Store>, size: usize, span: Duration) -> Result<f64> {
    let outcome = load::run(WORKERS, span, |worker| {
        let (store, mut random) = (Arc::clone(store), Random::seeded(worker as u64));
        let data = Bytes::from(vec![7; size]);
        move |_| {
            let (store, data) = (Arc::clone(&store), data.clone());
            let object = format!("data/object-{}", random.below(OBJECTS));
            async move {
                let request = Request::new(object.parse()?, vec![Op::WriteFull { data }])?;
                store.submit(request).await.map(drop)
            }
        }
    });
    Ok(outcome.await?.rate)
}
