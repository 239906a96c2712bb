//! Tests resources that were handed over in proxy mode: the former node forwards calls.

mod common;

use common::Cluster;
use nacre_host::put_header;
use nacre_object::{EntityName, ErrorKind, TenantName};
use nacre_resource::{Asker, Resource};
use serde_json::{Value, json};

const IDS: &str = include_str!("../../../programs/filetype/ids.lua");
const LOCK: &str = include_str!("../../../programs/filetype/lock.lua");

async fn next(resource: &Resource) -> u64 {
    resource.call("next", Value::Null).await.unwrap().as_f64().unwrap() as u64
}

#[tokio::test(start_paused = true)]
async fn a_former_node_forwards_calls_and_each_happens_once() {
    let cluster = Cluster::new(3);
    cluster.install("ids", 1, IDS);
    let ids = cluster.create("/ids", "ids").await;
    assert_eq!(next(&ids).await, 1);
    let (first, mut last) = (cluster.authority_of("/ids").await, 1);
    for step in 0..4 {
        let to = (first + 1 + step % 2) % 3;
        cluster.hand_over_as_proxy("/ids", to).await;
        let before = cluster.forwards();
        for _ in 0..5 {
            last += 1;
            assert_eq!(next(&ids).await, last);
        }
        assert!(cluster.authority_of("/ids").await == to && cluster.forwards() >= before + 4);
    }
}

#[tokio::test(start_paused = true)]
async fn a_forwarded_call_belongs_to_its_client_whichever_node_forwards_it() {
    let cluster = Cluster::new(2);
    cluster.install("lock", 1, LOCK);
    let locks = cluster.create("/locks", "lock").await;
    let lease = json!({ "name": "backup", "seconds": 60 });
    locks.call("acquire", lease.clone()).await.unwrap();
    let to = 1 - cluster.authority_of("/locks").await;
    cluster.hand_over_as_proxy("/locks", to).await;
    locks.call("renew", lease).await.unwrap();
    let holder = locks.call("holder", json!({ "name": "backup" })).await.unwrap();
    assert!(cluster.forwards() > 0 && holder["client"] == "alice", "{holder}");
}

#[tokio::test(start_paused = true)]
async fn a_successor_that_is_killed_is_replaced() {
    let cluster = Cluster::new(3);
    cluster.install("ids", 1, IDS);
    let ids = cluster.create("/ids", "ids").await;
    assert_eq!(next(&ids).await, 1);
    let to = (cluster.authority_of("/ids").await + 1) % 3;
    cluster.hand_over_as_proxy("/ids", to).await;
    assert_eq!(next(&ids).await, 2);
    cluster.kill_node(to);
    assert_eq!(next(&ids).await, 3);
    assert_ne!(cluster.authority_of("/ids").await, to);
}

#[tokio::test(start_paused = true)]
async fn a_client_cannot_call_in_the_name_of_another() {
    let cluster = Cluster::new(1);
    cluster.install("ids", 1, IDS);
    let ids = cluster.create("/ids", "ids").await;
    assert_eq!(next(&ids).await, 1);
    let mut input = Default::default();
    put_header(&mut input, "/ids", 2);
    let call = json!({ "method": "next", "handle": "h", "number": 1 });
    let forwarded = json!({ "entity": "bob", "tenant": "default", "call": call });
    input.extend_from_slice(forwarded.to_string().as_bytes());
    let (entity, tenant) = (EntityName::new("alice").unwrap(), TenantName::standard());
    let asker = Asker { entity: &entity, tenant: &tenant };
    let refused = cluster.host(0).handle(asker, "forwarded", &input).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Denied, "{refused}");
    assert_eq!(next(&ids).await, 2);
}
