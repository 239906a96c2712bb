//! Promises of tail latencies, on a cluster in this process.

use std::sync::Arc;

use nacre::{ErrorKind, Result};
use nacre_clock::{Clock, SystemClock};
use nacre_conformance::wait::eventually;
use nacre_conformance::{MemoryStore, TestClasses};
use nacre_node::LocalCluster;
use nacre_object::{Op, Request, Stack, Store, TargetName, TenantName};
use nacre_qos::scheduler::Commits;
use nacre_qos::sharing::Claim;
use nacre_qos::{IoKind, Profile, ProfileRow};
use nacre_slo::{
    Ask, MAX_OUTSTANDING, NodeSlo, OneTarget, Outcome, Rate, SloLayer, SloState, Spread,
    StoredProfile, Traffic, share_among_gateways,
};
use tempfile::TempDir;
use tokio::task::JoinHandle;

/// How many writes of 100 bytes the target does in a second.
const A_SECOND: f64 = 1000.0;

async fn open(folder: &TempDir) -> LocalCluster {
    let cluster = LocalCluster::embedded(folder.path().join("cluster")).await.unwrap();
    let bandwidth = 100.0 * A_SECOND;
    let row = ProfileRow {
        bytes: 100,
        read_bytes_per_second: bandwidth,
        write_bytes_per_second: bandwidth,
    };
    let stored = StoredProfile {
        profile: Profile::new(vec![row]).unwrap(),
        outstanding: MAX_OUTSTANDING,
        commits: Commits::Singly,
        fingerprint: "made up".to_owned(),
        uncertainty: 0.0,
        measured_at_micros: 0,
    };
    let target = TargetName::new("local").unwrap();
    cluster.slos().set_profiles(&[(target, stored)]).await.unwrap();
    cluster
}

fn name(tenant: &str) -> TenantName {
    tenant.parse().unwrap()
}

async fn ask(
    cluster: &LocalCluster,
    tenant: &str,
    millis: u64,
    per_second: f64,
) -> Result<Outcome> {
    let rate = Rate { kind: IoKind::Write, bytes: 100, per_second, burst: 4 };
    let ask = Ask {
        tenant: name(tenant),
        slo_seconds: millis as f64 / 1e3,
        violation: None,
        percentile: 99.0,
        traffic: Traffic::Rate(rate, Spread::Even),
        client_link: None,
        replaces: false,
    };
    cluster.slos().admit(&ask).await
}

async fn is_admitted(cluster: &LocalCluster, tenant: &str, millis: u64, per_second: f64) -> bool {
    let outcome = ask(cluster, tenant, millis, per_second).await.unwrap();
    matches!(outcome, Outcome::Admitted(_))
}

#[tokio::test(flavor = "multi_thread")]
async fn tenants_are_admitted_until_a_promise_would_be_missed() {
    let folder = tempfile::tempdir().unwrap();
    let cluster = open(&folder).await;
    assert!(is_admitted(&cluster, "gold", 60, 200.0).await);
    assert!(is_admitted(&cluster, "silver", 120, 300.0).await);
    let refused = ask(&cluster, "greedy", 100, 900.0).await.unwrap();
    let Outcome::Refused(refusal) = refused else { panic!("{refused:?}") };
    let reason = refusal.to_string();
    assert!(reason.contains("greedy is refused with 100.0 ms"), "{reason}");
    assert!(reason.contains("local would have") && reason.contains("of its rate"), "{reason}");
    let promises = cluster.slos().state().await.unwrap().promises;
    let slos: Vec<_> = promises.values().map(|promise| promise.slo_seconds).collect();
    assert_eq!(slos, [0.06, 0.12]);
    let priorities: Vec<_> = promises.values().map(|promise| promise.priority).collect();
    assert_eq!(priorities, [0, 1]);
    assert!(promises.values().all(|promise| promise.bound_seconds <= promise.slo_seconds));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_that_leaves_makes_room_for_another() {
    let folder = tempfile::tempdir().unwrap();
    let cluster = open(&folder).await;
    assert!(is_admitted(&cluster, "gold", 60, 700.0).await);
    assert!(!is_admitted(&cluster, "silver", 120, 600.0).await);
    let again = ask(&cluster, "gold", 60, 700.0).await.unwrap_err();
    assert_eq!(again.kind(), ErrorKind::Exists);
    cluster.slos().evict(&name("gold")).await.unwrap();
    assert!(is_admitted(&cluster, "silver", 120, 600.0).await);
    let nobody = cluster.slos().evict(&name("gold")).await.unwrap_err();
    assert_eq!(nobody.kind(), ErrorKind::NotFound);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_administrators_at_once_cannot_promise_the_same_capacity_twice() {
    let folder = tempfile::tempdir().unwrap();
    let cluster = open(&folder).await;
    let tenants = ["a", "b", "c", "d"];
    let asks = tenants.map(|tenant| is_admitted(&cluster, tenant, 60, 700.0));
    let admitted = futures::future::join_all(asks).await;
    assert_eq!(admitted.iter().filter(|admitted| **admitted).count(), 1, "{admitted:?}");
    assert_eq!(cluster.slos().state().await.unwrap().promises.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_tenant_is_admitted_without_profiles() {
    let folder = tempfile::tempdir().unwrap();
    let cluster = open(&folder).await;
    cluster.slos().set_profiles(&[]).await.unwrap();
    let error = ask(&cluster, "gold", 60, 1.0).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(error.hint_text().unwrap().contains("nacre slo profile"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_promise_for_other_targets_is_stale() {
    let folder = tempfile::tempdir().unwrap();
    let cluster = open(&folder).await;
    assert!(is_admitted(&cluster, "gold", 60, 100.0).await);
    let state = cluster.slos().state().await.unwrap();
    let mut profiles: Vec<_> = state.profiles.into_iter().collect();
    profiles.push(("second".parse().unwrap(), profiles[0].1.clone()));
    cluster.slos().set_profiles(&profiles).await.unwrap();
    let error = ask(&cluster, "silver", 60, 100.0).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Stale);
    assert!(error.hint_text().unwrap().contains("nacre slo evict gold"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_learns_of_a_promise_and_measures_its_tenant() {
    let folder = tempfile::tempdir().unwrap();
    let cluster = open(&folder).await;
    let pool = "data".parse().unwrap();
    cluster.slos().set_pool(&pool, Some(&name("gold"))).await.unwrap();
    assert!(is_admitted(&cluster, "gold", 60, 100.0).await);
    cluster.slos().enforce(true).await.unwrap();
    let epoch = cluster.slos().state().await.unwrap().epoch;
    let has_heard = async || cluster.slo().state().epoch >= epoch;
    eventually("the node has heard of it", has_heard).await;
    let object = cluster.pool("data").await.unwrap().object("a").unwrap();
    object.write_full("kept").await.unwrap();
    assert_eq!(object.read(0, 9).await.unwrap(), "kept");
    let report = cluster.slo().report();
    let gold = report[0].tenants.iter().find(|tenant| tenant.tenant == "gold").unwrap();
    assert_eq!((gold.requests, gold.within), (2, 2));
    assert!(gold.tokens_seconds.len() == 1 && report[0].is_enforced);
}

/// A gateway to which the test sends requests of the tenant gold.
struct Gateway {
    name: &'static str,
    store: Arc<dyn Store>,
    task: JoinHandle<()>,
}

impl Gateway {
    fn start(name: &'static str, cluster: &LocalCluster, state: &SloState) -> Self {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
        let node = NodeSlo::new(OneTarget("local".parse().unwrap()), Arc::clone(&clock));
        node.apply(state.clone());
        let memory = MemoryStore::new(Arc::new(TestClasses), Arc::clone(&clock));
        let stack = Stack::new(memory).wrapped_by(|next| SloLayer::new(next, Arc::clone(&node)));
        let maps = cluster.maps().clone();
        let task = share_among_gateways(maps, name.to_owned(), node, clock);
        Self { name, store: stack.as_store(), task }
    }

    async fn send(&self) {
        let op = Op::WriteFull { data: "some bytes".into() };
        let request = Request::new("data/a".parse().unwrap(), vec![op]).unwrap();
        self.store.submit(request).await.unwrap();
    }
}

/// The part of gold's bucket that each gateway has claimed, all at one epoch.
async fn claimed_parts<const N: usize>(
    cluster: &LocalCluster,
    gateways: &[Gateway; N],
) -> [f64; N] {
    let state = cluster.maps().get(&"slo-claims".parse().unwrap()).await.unwrap();
    gateways.each_ref().map(|gateway| {
        let claim = state.entries.get(gateway.name);
        let claim: Claim =
            claim.map_or_else(Claim::default, |claim| serde_json::from_slice(claim).unwrap());
        claim.parts.get("local/gold").map_or(0.0, |part| part.part)
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn gateways_share_a_tenants_promise_and_take_over_the_part_of_a_dead_one() {
    let folder = tempfile::tempdir().unwrap();
    let cluster = open(&folder).await;
    cluster.slos().set_pool(&"data".parse().unwrap(), Some(&name("gold"))).await.unwrap();
    assert!(is_admitted(&cluster, "gold", 60, 100.0).await);
    cluster.slos().enforce(true).await.unwrap();
    let state = cluster.slos().state().await.unwrap();
    let gateways = ["gateway.0", "gateway.1"].map(|name| Gateway::start(name, &cluster, &state));
    let [first, second] = &gateways;
    eventually("both have a good part", async || {
        first.send().await;
        second.send().await;
        let parts = claimed_parts(&cluster, &gateways).await;
        assert!(parts.iter().sum::<f64>() <= 1.0 + 1e-9, "{parts:?}");
        parts.iter().all(|part| *part > 0.3)
    })
    .await;
    first.task.abort();
    eventually("the second has it all", async || {
        second.send().await;
        claimed_parts(&cluster, &gateways).await[1] > 0.9
    })
    .await;
    second.task.abort();
}
