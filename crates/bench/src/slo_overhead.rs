//! `slo-overhead`: the cost of the layer that keeps latency promises to tenants, while it limits no
//! tenant. It measures durable writes within one process, because there the layer's share of the
//! time is greatest.
//!
//! The bench compares two modes of the layer with no layer. In the mode *measured* the layer only
//! measures latencies. In the mode *ordered* it enforces promises, and one tenant has a promise but
//! sends nothing. All writes come from a tenant without a promise.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use nacre_clock::{Clock, Random, SystemClock};
use nacre_embedded::{EmbeddedEngine, Options};
use nacre_node::ClassService;
use nacre_object::{Op, Request, Result, Stack, Store, TargetName, TenantName};
use nacre_qos::scheduler::Commits;
use nacre_qos::{ArrivalCurve, Profile, ProfileRow, RateBurst};
use nacre_slo::{
    MAX_OUTSTANDING_IN_GROUPS, NodeSlo, OneTarget, Promise, PromisedFlow, SloLayer, SloState,
    StoredProfile,
};

use crate::bench::Setup;
use crate::figure::{Better, Figure};
use crate::load;
use crate::load::{in_turn, median};
use crate::scratch;

const WORKERS: usize = 64;
const SIZES: [usize; 2] = [128, 4096];
const OBJECTS: u64 = 10_000;
const TARGET: &str = "measured";
/// The aim for the rate with the layer, as a part of the rate without it.
const AIM: f64 = 0.97;

pub(crate) async fn run(setup: &Setup, report: &mut dyn FnMut(Figure)) -> Result<()> {
    let folder = scratch::folder(&setup.folder)?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
    let classes = ClassService::new(Arc::clone(&clock))?;
    let options = Options::new(folder.path().join("data"), classes.host(), Arc::clone(&clock));
    let engine = EmbeddedEngine::open(options)?;
    let bare = Stack::new(engine.clone());
    let with = |is_enforced| -> Result<Arc<dyn Store>> {
        let target = OneTarget(TargetName::new(TARGET)?);
        let node = NodeSlo::new(target, Arc::clone(&clock));
        node.apply(SloState { is_enforced, ..promised()? });
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

/// A tenant is promised a latency at the target.
fn promised() -> Result<SloState> {
    let row = ProfileRow { bytes: 512, read_bytes_per_second: 1e9, write_bytes_per_second: 1e8 };
    let profile = StoredProfile {
        profile: Profile::new(vec![row])?,
        outstanding: MAX_OUTSTANDING_IN_GROUPS,
        commits: Commits::InGroups,
        fingerprint: "made up".to_owned(),
        uncertainty: 0.0,
        measured_at_micros: 0,
    };
    let bucket = RateBurst { rate: 0.1, burst_seconds: 0.01 };
    let curve = ArrivalCurve::lower_envelope(&[bucket])?;
    let promise = Promise {
        slo_seconds: 0.1,
        violation: None,
        percentile: 99.0,
        bound_seconds: 0.1,
        priority: 0,
        placement_epoch: 0,
        profile_epoch: None,
        client_link_bytes_per_second: None,
        flows: vec![PromisedFlow { target: TARGET.to_owned(), curve, bucket }],
        traffic: "none".to_owned(),
    };
    let (target, tenant) = (TargetName::new(TARGET)?, TenantName::new("promised")?);
    Ok(SloState {
        profiles: [(target, profile)].into(),
        promises: [(tenant, promise)].into(),
        ..SloState::default()
    })
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
