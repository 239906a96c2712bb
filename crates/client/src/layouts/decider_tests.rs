//! What deciding about a layout takes, on a real engine whose listings are counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::future::BoxFuture;
use nacre_brados::{Value, encode_request};
use nacre_clock::{Clock, SystemClock};
use nacre_object::{ClassName, Layer, ListPage, ListRequest, Result, Stack, Store};
use nacre_tuner::rechoose::Terms;
use nacre_tuner::{Access, Fingerprint, Profile, Rows};
use serde_json::{Map, json};

use super::sources::tests::KV;
use super::{LayoutKeeper, program_of};
use crate::local::LocalNode;
use crate::{Cluster, Object};

const KEYS: i64 = 4;
const VALUE: [u8; 500] = [b'v'; 500];
const MAP_ACCESSES: [Access; 4] =
    [Access::MapGet, Access::MapSet, Access::MapRange, Access::MapRemove];
/// Judged soon and once, and whatever is predicted and measured is worth it.
const TERMS: Terms = Terms {
    requests: 200,
    seconds: 1,
    drift: 2.0,
    gain: -1e9,
    margin: -1e9,
    horizon_seconds: 1,
    rest_seconds: 1,
};

/// How long it may take to be decided.
const PATIENCE: Duration = Duration::from_secs(60);

/// A store whose listings are counted.
#[derive(Debug)]
struct CountListings(Stack, Arc<AtomicU64>);

impl Layer for CountListings {
    fn next(&self) -> &Stack {
        &self.0
    }

    fn list(&self, request: ListRequest) -> BoxFuture<'_, Result<ListPage>> {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0.list(request)
    }
}

/// An engine where what is in maps takes long.
fn profile(engine: &Fingerprint) -> Profile {
    let added: Map<_, _> = Access::ALL
        .iter()
        .map(|access| {
            let seconds = if MAP_ACCESSES.contains(access) { 1e-2 } else { 1e-6 };
            let name = json!(access).as_str().unwrap().to_owned();
            (name, json!([{ "bytes": 16, "seconds": seconds }]))
        })
        .collect();
    let at = |depth: u32| json!({ "depth": depth, "read_seconds": 1e-2, "write_seconds": 1e-2, "added": added });
    let profile = json!({ "format": 1, "engine": engine, "depths": [at(1), at(32)] });
    Profile::from_json(&profile.to_string()).unwrap()
}

/// A cluster with a class of which layouts are decided about.
struct Deciding {
    class: ClassName,
    cluster: Cluster,
    object: Object,
    listings: Arc<AtomicU64>,
    _keeper: LayoutKeeper,
    _folder: tempfile::TempDir,
}

impl Deciding {
    async fn about(source: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
        let (local, mut parts) = LocalNode::open(folder.path(), Arc::clone(&clock)).unwrap();
        let listings = Arc::<AtomicU64>::default();
        for target in &mut parts.targets {
            let (stack, listings) = (target.stack.clone(), Arc::clone(&listings));
            target.stack = stack.wrapped_by(|next| CountListings(next, listings));
        }
        let cluster = Cluster::assemble(parts).unwrap();
        local.serve(&cluster, Arc::clone(&clock)).await.unwrap();
        cluster.create_default_pools().await.unwrap();
        let class: ClassName = "kv".parse().unwrap();
        let program = program_of(&class).unwrap();
        let version = cluster.programs().put(&program, source).await.unwrap();
        cluster.programs().activate(&program, version).await.unwrap();

        let layouts = cluster.layouts();
        let engine = Fingerprint::of_folder(folder.path()).unwrap();
        layouts.keep_profile(&profile(&engine)).await.unwrap();
        layouts.allow(&class, false, Some(TERMS)).await.unwrap();
        let object = cluster.pool("data").await.unwrap().object("o").unwrap();
        let (name, local) = (local.name.clone(), Arc::new(local));
        let keeper = LayoutKeeper::start(layouts, name, 1, local, clock);
        Self { class, cluster, object, listings, _keeper: keeper, _folder: folder }
    }

    async fn put(&self, at: i64, value: Value) {
        let row = encode_request(&[Value::Int(at), value]);
        self.object.call("kv", "put", row).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_predicted_and_measured_in_one_decision_takes_one_census() {
    let deciding = Deciding::about(KV).await;
    let layouts = deciding.cluster.layouts();
    let proposal = loop {
        for at in 0..KEYS {
            deciding.put(at, Value::Bytes(VALUE.to_vec())).await;
        }
        if let Some(proposal) = layouts.get(&deciding.class).await.unwrap().standing.proposal {
            break proposal;
        }
    };
    assert!(proposal.measured.is_some(), "{proposal}");
    assert_eq!(proposal.estimate.rows, Some(KEYS as u64));
    let pools = deciding.cluster.pools().await.unwrap().len() as u64;
    assert_eq!(
        deciding.listings.load(Ordering::Relaxed),
        pools,
        "of each pool the one page of names it has"
    );
}

/// It takes one text only, and what texts say is not counted.
const PICKY: &str = "state do
  table :kv, [:at:int] => [:value:string]
  interface input, :put, [:at:int, :value:string]
end
bloom do
  kv <+- put
  kv <+- put{|p| [p.at, 'two rows of one key'] if p.value != 'yes'}
end
";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn that_layouts_cannot_be_predicted_is_told() {
    let deciding = Deciding::about(PICKY).await;
    let told = async {
        loop {
            for at in 0..KEYS {
                deciding.put(at, Value::text("yes")).await;
            }
            let events = deciding.cluster.events().recent(100).await.unwrap();
            let mut texts = events.into_iter().map(|event| event.text);
            if let Some(told) = texts.find(|text| text.contains("cannot be predicted")) {
                return told;
            }
        }
    };
    let told = tokio::time::timeout(PATIENCE, told).await.expect("it is told");
    assert!(told.contains("two rows of kv have the key"), "{told}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_are_counted_wherever_they_lie() {
    const ROWS: i64 = 1500;
    for layout in ["", "layout kv: appended(map)\n", "layout kv: slots(16)\n"] {
        let deciding = Deciding::about(&format!("{KV}{layout}")).await;
        for at in 0..ROWS {
            deciding.put(at, Value::text("v")).await;
        }
        let objects = deciding.cluster.layouts().census(&deciding.class).await.unwrap();
        assert_eq!((objects.count, objects.rows), (Some(1), Rows::About(ROWS as u64)), "{layout}");
    }
}
