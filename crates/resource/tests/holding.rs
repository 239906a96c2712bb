//! Clients that hold capabilities of resources, on several nodes in virtual time.

mod common;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use common::{Cluster, name, node};
use nacre_conformance::Fault;
use nacre_conformance::faults::{Operation, no_faults};
use nacre_object::{ErrorKind, Op};
use nacre_resource::Resource;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

const SEQUENCER: &str = include_str!("../../../programs/filetype/sequencer.lua");
const PATH: &str = "/seq/orders";

/// A counter whose readers may keep copies.
const SHARED: &str = r#"
filetype.capability("shared")
function init() return { n = 0 } end
filetype.write("add", function(state) state.n = state.n + 1; return state.n end)
filetype.read("get", function(state) return state.n end)
"#;

fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

async fn sequencer(nodes: usize) -> (Cluster, Resource) {
    let cluster = Cluster::new(nodes);
    cluster.install("sequencer", 1, SEQUENCER);
    let resource = cluster.create(PATH, "sequencer").await;
    (cluster, resource)
}

async fn next(resource: &Resource) -> u64 {
    number(resource.call("next", Value::Null).await.unwrap())
}

async fn get(resource: &Resource) -> u64 {
    number(resource.call("get", Value::Null).await.unwrap())
}

fn number(value: Value) -> u64 {
    value.as_f64().unwrap() as u64
}

/// Returns the entities that hold a capability. For each, whether it is the exclusive capability.
async fn holders(cluster: &Cluster, path: &str) -> Vec<(String, bool)> {
    cluster.open(path).await.stat().await.unwrap().holders
}

fn exclusively() -> Vec<(String, bool)> {
    vec![("alice".into(), true)]
}

/// Waits until the client counts as alone, and makes enough calls that it gets the exclusive
/// capability.
async fn work_alone(cluster: &Cluster, resource: &Resource) {
    sleep(ms(1_100)).await;
    for _ in 0..10 {
        next(resource).await;
    }
    assert_eq!(holders(cluster, PATH).await, exclusively());
}

#[tokio::test(start_paused = true)]
async fn a_client_that_is_alone_runs_the_methods_itself() {
    let (cluster, resource) = sequencer(1).await;
    work_alone(&cluster, &resource).await;
    let (before, asked) = (Instant::now(), cluster.nodes.asked());
    for position in 10..1_000 {
        assert_eq!(next(&resource).await, position);
    }
    assert_eq!(Instant::now(), before, "nothing was waited for");
    assert_eq!(cluster.nodes.asked(), asked, "nobody was asked");
    assert_eq!(number(resource.call("read", Value::Null).await.unwrap()), 1_000);
}

#[tokio::test(start_paused = true)]
async fn a_holder_returns_its_capability_with_the_state_when_another_client_calls() {
    let (cluster, holder) = sequencer(1).await;
    work_alone(&cluster, &holder).await;
    for _ in 0..90 {
        next(&holder).await;
    }
    let other = cluster.open(PATH).await;
    let began = Instant::now();
    assert_eq!(next(&other).await, 100);
    assert!(began.elapsed() < ms(20), "{:?}", began.elapsed());
    assert_eq!(holders(&cluster, PATH).await, []);
    assert_eq!((next(&holder).await, next(&other).await), (101, 102));
}

#[tokio::test(start_paused = true)]
async fn the_authority_runs_a_call_whose_grants_end_on_their_way_to_the_client() {
    let (cluster, resource) = sequencer(1).await;
    sleep(ms(1_100)).await;
    // A grant lasts for 300 ms from the request on.
    cluster.nodes.delay_answers_to("acquire", ms(400));
    let began = Instant::now();
    for position in 0..10 {
        assert_eq!(next(&resource).await, position);
    }
    assert!(began.elapsed() > ms(4 * 400), "grants were on their way: {:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_released_capability_is_returned_with_the_state() {
    let (cluster, holder) = sequencer(1).await;
    work_alone(&cluster, &holder).await;
    holder.release().await;
    assert_eq!(holders(&cluster, PATH).await, []);
    let other = cluster.open(PATH).await;
    assert_eq!(next(&other).await, 10);
}

#[tokio::test(start_paused = true)]
async fn an_idle_or_dropped_handle_returns_its_capability() {
    let (cluster, holder) = sequencer(1).await;
    work_alone(&cluster, &holder).await;
    sleep(ms(800)).await;
    assert_eq!(holders(&cluster, PATH).await, []);
    for _ in 0..10 {
        next(&holder).await;
    }
    assert_eq!(holders(&cluster, PATH).await, exclusively());
    drop(holder);
    sleep(ms(20)).await;
    assert_eq!(holders(&cluster, PATH).await, []);
    assert_eq!(next(&cluster.open(PATH).await).await, 20);
}

#[tokio::test(start_paused = true)]
async fn a_cut_off_holder_is_evicted_and_no_position_is_issued_twice() {
    let (cluster, holder) = sequencer(1).await;
    work_alone(&cluster, &holder).await;
    for _ in 0..90 {
        next(&holder).await;
    }
    cluster.nodes.cut_off_clients(true);
    // The holder continues until its lease is over.
    let mut seen = BTreeSet::new();
    while let Some(answered) = at_once(&holder).await {
        assert!(seen.insert(answered), "{answered} twice");
        sleep(ms(5)).await;
        assert!(seen.len() < 100, "a lease lasts 300 ms");
    }
    cluster.nodes.cut_off_clients(false);
    let other = cluster.open(PATH).await;
    for _ in 0..10 {
        let (others, holders) = tokio::join!(next(&other), next(&holder));
        assert!(seen.insert(others) && seen.insert(holders), "{others} or {holders} twice");
    }
}

/// The next position, if the client needs to ask nobody.
async fn at_once(resource: &Resource) -> Option<u64> {
    let called = tokio::time::timeout(Duration::ZERO, resource.call("next", Value::Null)).await;
    called.ok().map(|called| number(called.unwrap()))
}

#[tokio::test(start_paused = true)]
async fn a_change_that_must_be_stored_is_stored_before_the_holder_answers() {
    let (cluster, holder) = sequencer(1).await;
    work_alone(&cluster, &holder).await;
    let reserved = || async {
        let stored = cluster.resources.stored(&name(PATH)).await.unwrap().unwrap();
        number(stored.state["reserved"].clone())
    };
    assert_eq!(reserved().await, 1_000_001);
    let first = holder.call("next", json!(1_000_000)).await.unwrap();
    assert_eq!((number(first), reserved().await), (10, 2_000_010));
    assert_eq!(holders(&cluster, PATH).await, exclusively(), "it holds on");
    assert_eq!(next(&holder).await, 1_000_010);
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_of_the_store_issues_no_position_twice() {
    let (cluster, holder) = sequencer(1).await;
    work_alone(&cluster, &holder).await;
    cluster.nodes.lose_answers_to("store", 1);
    let first = number(holder.call("next", json!(1_000_000)).await.unwrap());
    assert_eq!(first, 10, "the call happened once");
    assert_eq!(next(&holder).await, 1_000_010);
}

#[tokio::test(start_paused = true)]
async fn a_call_whose_caller_stopped_waiting_for_the_store_has_no_effect() {
    let (cluster, holder) = sequencer(1).await;
    work_alone(&cluster, &holder).await;
    // A new grant, by which nothing was changed yet.
    holder.release().await;
    assert_eq!(number(holder.call("read", Value::Null).await.unwrap()), 10);
    // The request arrives, but the client does not wait for the answer.
    cluster.system.follow(Box::new(|operation| {
        let Operation::Submit(request) = operation else { return None };
        let is_commit =
            matches!(&request.ops[..], [Op::Call(call)] if call.method.as_str() == "commit");
        is_commit.then_some(Fault::Hold)
    }));
    let stored = holder.call("next", json!(1_000_000));
    assert!(tokio::time::timeout(ms(20), stored).await.is_err());
    cluster.system.follow(no_faults());
    cluster.system.release(1);
    sleep(ms(20)).await;
    assert_eq!(next(&holder).await, 10, "nobody was given those positions");
}

#[tokio::test(start_paused = true)]
async fn a_successor_waits_for_the_leases_of_the_authority_that_died() {
    let (cluster, holder) = sequencer(2).await;
    work_alone(&cluster, &holder).await;
    let died = cluster.authority_of(PATH).await;
    let holder = Arc::new(holder);
    let other = cluster.open(PATH).await;
    cluster.kill_node(died);
    let killed = Instant::now();
    let counting = tokio::spawn({
        let holder = Arc::clone(&holder);
        async move {
            let mut last = None;
            while let Some(position) = at_once(&holder).await {
                last = Some((Instant::now(), position));
                sleep(ms(1)).await;
            }
            last.expect("it held the capability")
        }
    });
    let position = next(&other).await;
    let (stopped, last) = counting.await.unwrap();
    assert!(stopped < Instant::now(), "the holder stopped first");
    assert!(stopped - killed > ms(100) && position > last, "{position} {last}");
    assert_eq!(position, 1_000_001, "behind what was reserved");
}

#[tokio::test(start_paused = true)]
async fn a_hand_over_makes_the_holder_return_its_capability_and_loses_no_change() {
    let (cluster, holder) = sequencer(2).await;
    work_alone(&cluster, &holder).await;
    let to = node(1 - cluster.authority_of(PATH).await);
    let began = Instant::now();
    holder.move_to(&to).await.unwrap();
    assert!(began.elapsed() < ms(100), "{:?}", began.elapsed());
    assert_eq!(next(&cluster.open(PATH).await).await, 10);
    assert!(began.elapsed() < ms(150), "the successor waits for no lease: {:?}", began.elapsed());
    assert_eq!(next(&holder).await, 11);
}

#[tokio::test(start_paused = true)]
async fn an_activated_version_runs_after_old_capabilities_are_revoked() {
    let (cluster, holder) = sequencer(1).await;
    work_alone(&cluster, &holder).await;
    let later = SEQUENCER.replace("return first\n", "return first + 0.5\n");
    assert_ne!(later, SEQUENCER);
    cluster.install("sequencer", 2, &later);
    sleep(ms(150)).await;
    assert_eq!(holders(&cluster, PATH).await, []);
    assert_eq!(holder.call("next", Value::Null).await.unwrap(), json!(10.5));
    sleep(ms(1_100)).await;
    for _ in 0..10 {
        holder.call("next", Value::Null).await.unwrap();
    }
    assert_eq!(holders(&cluster, PATH).await, exclusively());
    assert_eq!(holder.call("next", Value::Null).await.unwrap(), json!(21.5), "the holder runs it");
    let stored = cluster.open(PATH).await.call("read", Value::Null).await.unwrap();
    assert_eq!(number(stored), 22);
}

#[tokio::test(start_paused = true)]
async fn the_capability_program_of_the_type_decides() {
    let cluster = Cluster::new(1);
    cluster.install_capability("never", 1, include_str!("../../../programs/capability/never.lua"));
    let named = SEQUENCER.replace(
        "filetype.capability(\"exclusive\")",
        "filetype.capability(\"exclusive\", \"never\")",
    );
    assert_ne!(named, SEQUENCER);
    cluster.install("sequencer", 1, &named);
    let resource = cluster.create(PATH, "sequencer").await;
    sleep(ms(1_100)).await;
    for _ in 0..10 {
        next(&resource).await;
    }
    assert_eq!(holders(&cluster, PATH).await, []);
}

#[tokio::test(start_paused = true)]
async fn clients_read_copies_until_one_changes_the_state() {
    let cluster = Cluster::new(1);
    cluster.install("counter", 1, SHARED);
    let first = cluster.create("/n", "counter").await;
    let (second, writer) = (cluster.open("/n").await, cluster.open("/n").await);
    for reader in [&first, &second] {
        for _ in 0..10 {
            assert_eq!(get(reader).await, 0);
        }
    }
    let shared = ("alice".to_owned(), false);
    assert_eq!(holders(&cluster, "/n").await, [shared.clone(), shared]);
    let asked = cluster.nodes.asked();
    for reader in [&first, &second] {
        reader.call("get", Value::Null).await.unwrap();
    }
    assert_eq!(cluster.nodes.asked(), asked, "both read their copies");

    assert_eq!(number(writer.call("add", Value::Null).await.unwrap()), 1);
    for reader in [&first, &second] {
        assert_eq!(get(reader).await, 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_writer_waits_for_a_reader_that_is_cut_off_until_its_lease_is_over() {
    let cluster = Cluster::new(1);
    cluster.install("counter", 1, SHARED);
    let reader = cluster.create("/n", "counter").await;
    for _ in 0..10 {
        reader.call("get", Value::Null).await.unwrap();
    }
    cluster.nodes.cut_off_clients(true);
    sleep(ms(50)).await;
    assert_eq!(get(&reader).await, 0);
    let (writer, host) = (cluster.resources.clone(), cluster.host(0));
    let written = tokio::spawn(async move {
        let writer = writer.open(&name("/n")).await.unwrap();
        writer.call("add", Value::Null).await.unwrap()
    });
    drop(host);
    sleep(ms(400)).await;
    cluster.nodes.cut_off_clients(false);
    assert_eq!(number(written.await.unwrap()), 1);
    assert_eq!(get(&reader).await, 1);
}

#[tokio::test(start_paused = true)]
async fn holders_of_a_removed_type_return_their_capabilities_and_lose_no_change() {
    let (cluster, holder) = sequencer(1).await;
    work_alone(&cluster, &holder).await;
    cluster.uninstall("sequencer");
    sleep(ms(150)).await;
    let began = Instant::now();
    let refused = holder.call("next", Value::Null).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unsupported);
    assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
    cluster.install("sequencer", 1, SEQUENCER);
    assert_eq!(next(&cluster.open(PATH).await).await, 10);
}

#[tokio::test(start_paused = true)]
async fn a_holder_gets_an_error_for_a_method_that_was_removed() {
    let (cluster, holder) = sequencer(1).await;
    work_alone(&cluster, &holder).await;
    cluster.install("sequencer", 2, &SEQUENCER.replace("\"next\"", "\"further\""));
    sleep(ms(150)).await;
    let refused = holder.call("next", Value::Null).await.unwrap_err();
    assert!(refused.to_string().contains("has no method \"next\""), "{refused}");
}
