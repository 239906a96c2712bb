//! Resources on several nodes: calls happen exactly once, whatever fails.

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::{Cluster, name, node};
use nacre_conformance::Fault;
use nacre_conformance::faults::{FaultPlan, Operation, no_faults};
use nacre_object::{ErrorKind, Op};
use nacre_resource::Resource;
use serde_json::{Value, json};
use tokio::task::JoinSet;

const IDS: &str = include_str!("../../../programs/filetype/ids.lua");
const PATH: &str = "/ids/orders";

async fn ids(nodes: usize) -> (Cluster, Resource) {
    let cluster = Cluster::new(nodes);
    cluster.install("ids", 1, IDS);
    let resource = cluster.create(PATH, "ids").await;
    (cluster, resource)
}

async fn next(resource: &Resource) -> u64 {
    resource.call("next", Value::Null).await.unwrap().as_f64().unwrap() as u64
}

/// Fails every so many commits in this way.
fn on_commits(fault: Fault, every: usize) -> FaultPlan {
    let mut count = 0;
    Box::new(move |operation| {
        let Operation::Submit(request) = operation else { return None };
        let is_commit =
            matches!(&request.ops[..], [Op::Call(call)] if call.method.as_str() == "commit");
        count += usize::from(is_commit);
        (is_commit && count % every == 0).then_some(fault)
    })
}

/// Clients that call `next` until they are stopped, and every number that they got.
struct Callers {
    stop: tokio::sync::watch::Sender<bool>,
    tasks: JoinSet<Vec<u64>>,
}

impl Callers {
    async fn start(cluster: &Cluster, count: usize) -> Self {
        let stop = tokio::sync::watch::Sender::new(false);
        let mut tasks = JoinSet::new();
        for _ in 0..count {
            let (resource, stopped) = (cluster.open(PATH).await, stop.subscribe());
            tasks.spawn(async move {
                let mut given = vec![];
                while !*stopped.borrow() {
                    given.push(next(&resource).await);
                }
                given
            });
        }
        Self { stop, tasks }
    }

    /// Stops the clients. Checks that one of them got each number, from 1 on, exactly once.
    async fn end(self) -> usize {
        self.stop.send_replace(true);
        let mut given = self.tasks.join_all().await.concat();
        given.sort_unstable();
        let count = given.len();
        assert_eq!(given, (1..=count as u64).collect::<Vec<_>>(), "each once, and no other");
        count
    }
}

async fn some_time() {
    tokio::time::sleep(Duration::from_millis(200)).await;
}

#[tokio::test(start_paused = true)]
async fn a_change_is_stored_before_it_is_answered() {
    let (cluster, resource) = ids(2).await;
    assert_eq!(next(&resource).await, 1);
    assert_eq!(resource.call("next", json!(10)).await.unwrap(), json!(2));
    let stored = cluster.resources.stored(&name(PATH)).await.unwrap().unwrap();
    assert_eq!((stored.version, stored.state), (2, json!({ "next": 12 })));
    assert_eq!(resource.call("peek", Value::Null).await.unwrap(), json!(12));
}

#[tokio::test(start_paused = true)]
async fn many_clients_share_commits_and_each_call_happens_once() {
    let (cluster, _) = ids(2).await;
    let callers = Callers::start(&cluster, 16).await;
    some_time().await;
    let calls = callers.end().await as u64;
    let stored = cluster.resources.stored(&name(PATH)).await.unwrap().unwrap();
    assert_eq!(stored.version, calls);
}

#[tokio::test(start_paused = true)]
async fn a_call_happens_once_while_the_resource_moves_back_and_forth() {
    let (cluster, resource) = ids(3).await;
    let callers = Callers::start(&cluster, 6).await;
    some_time().await;
    for _ in 0..20 {
        let to = (cluster.authority_of(PATH).await + 1) % 3;
        resource.move_to(&node(to)).await.unwrap();
        assert_eq!(cluster.authority_of(PATH).await, to);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(callers.end().await > 50);
}

#[tokio::test(start_paused = true)]
async fn a_call_happens_once_while_authorities_are_killed() {
    let (cluster, _) = ids(3).await;
    let callers = Callers::start(&cluster, 6).await;
    for _ in 0..6 {
        some_time().await;
        let victim = cluster.authority_of(PATH).await;
        cluster.kill_node(victim);
        tokio::time::sleep(Duration::from_secs(3)).await;
        assert_ne!(cluster.authority_of(PATH).await, victim, "another node took over");
        cluster.start_node(victim);
    }
    assert!(callers.end().await > 50);
}

#[tokio::test(start_paused = true)]
async fn a_call_happens_once_while_the_store_loses_commits_and_their_answers() {
    for fault in [Fault::FailBefore, Fault::FailAfter] {
        let (cluster, resource) = ids(2).await;
        next(&resource).await;
        drop(resource);
        cluster.resources.remove(&name(PATH)).await.unwrap();
        cluster.create(PATH, "ids").await;
        cluster.system.follow(on_commits(fault, 3));
        let callers = Callers::start(&cluster, 6).await;
        some_time().await;
        tokio::time::sleep(Duration::from_secs(5)).await;
        cluster.system.follow(no_faults());
        assert!(callers.end().await > 10, "{fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_method_that_fails_changes_nothing() {
    let cluster = Cluster::new(1);
    let source = "function init() return { n = 0 } end\n\
        filetype.write('add', function(state, n)\n\
            state.n += n\n\
            if state.n > 10 then filetype.conflict('past ten') end\n\
            if n < 0 then error('negative') end\n\
            return state.n\n\
        end)\n\
        filetype.write('fill', function(state) state.text = string.rep('x', 70000) end)\n\
        filetype.read('get', function(state) state.n = 99 return state end)\n";
    cluster.install("sum", 1, source);
    let sum = cluster.create("/sum", "sum").await;
    assert_eq!(sum.call("add", json!(7)).await.unwrap(), json!(7));
    let refused =
        |kind| move |error: nacre_object::Error| assert_eq!(error.kind(), kind, "{error}");
    sum.call("add", json!(7)).await.map_err(refused(ErrorKind::Conflict)).unwrap_err();
    let failed = sum.call("add", json!(-1)).await.unwrap_err();
    assert_eq!(failed.kind(), ErrorKind::Fault);
    assert_eq!(failed.fault().map(|site| site.program.as_str()), Some("filetype/sum"));
    assert_eq!(failed.fault().and_then(|site| site.line), Some(5), "{failed}");
    sum.call("fill", Value::Null).await.map_err(refused(ErrorKind::Exhausted)).unwrap_err();
    sum.call("toast", Value::Null).await.map_err(refused(ErrorKind::Unsupported)).unwrap_err();
    assert_eq!(sum.call("get", Value::Null).await.unwrap(), json!({ "n": 99 }));
    assert_eq!(sum.call("add", json!(0)).await.unwrap(), json!(7), "reads change nothing");
}

#[tokio::test(start_paused = true)]
async fn no_older_version_runs_on_the_state_of_a_newer_one() {
    let (cluster, resource) = ids(1).await;
    cluster.install("ids", 2, &format!("{IDS}-- version 2\n"));
    assert_eq!(next(&resource).await, 1);
    cluster.install("ids", 1, IDS);
    let refused = resource.call("peek", Value::Null).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unsupported);
    assert!(refused.to_string().contains("the state was made by version 2"), "{refused}");
    cluster.install("ids", 3, IDS);
    assert_eq!(next(&resource).await, 2);
}

#[tokio::test(start_paused = true)]
async fn a_recreated_resource_starts_with_a_new_state() {
    let (cluster, resource) = ids(2).await;
    assert_eq!(next(&resource).await, 1);
    let exists = cluster.resources.create(&name(PATH), "ids".parse().unwrap()).await;
    assert_eq!(exists.unwrap_err().kind(), ErrorKind::Exists);
    cluster.resources.remove(&name(PATH)).await.unwrap();
    let gone = resource.call("peek", Value::Null).await.unwrap_err();
    assert_eq!(gone.kind(), ErrorKind::NotFound, "{gone}");
    assert_eq!(cluster.resources.list().await.unwrap(), []);
    let again = cluster.create(PATH, "ids").await;
    assert_eq!(next(&again).await, 1);
    assert_eq!(cluster.resources.list().await.unwrap(), [name(PATH)]);
}

#[tokio::test(start_paused = true)]
async fn a_replaced_node_gives_no_reader_an_old_state() {
    let (cluster, resource) = ids(2).await;
    assert_eq!(next(&resource).await, 1);
    let replaced = cluster.authority_of(PATH).await;
    let reader = cluster.open(PATH).await;
    assert_eq!(reader.call("peek", Value::Null).await.unwrap(), json!(2));
    cluster.cut_off(replaced);
    assert_eq!(next(&resource).await, 2, "by the other node");
    cluster.join(replaced);
    // The replaced node and the reader still believe that this node is the authority.
    assert_eq!(reader.call("peek", Value::Null).await.unwrap(), json!(3));
}

#[tokio::test(start_paused = true)]
async fn a_change_that_a_read_saw_is_stored_before_the_read_is_answered() {
    let (cluster, resource) = ids(1).await;
    assert_eq!(next(&resource).await, 1);
    cluster.system.follow(on_commits(Fault::Hold, 1));
    let resource = Arc::new(resource);
    let writing = {
        let resource = Arc::clone(&resource);
        async move { next(&resource).await }
    };
    let writing = tokio::spawn(writing);
    tokio::time::sleep(Duration::from_millis(50)).await;
    let reader = cluster.open(PATH).await;
    let reading = tokio::spawn(async move { reader.call("peek", Value::Null).await.unwrap() });
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(!reading.is_finished() && !writing.is_finished());
    cluster.system.follow(no_faults());
    cluster.system.release(1);
    assert_eq!((writing.await.unwrap(), reading.await.unwrap()), (2, json!(3)));
}

#[tokio::test(start_paused = true)]
async fn large_states_and_answers_of_many_clients_are_stored() {
    let cluster = Cluster::new(1);
    let source = r#"
filetype.write("set", function(state, size) state.text = string.rep("x", size); return string.rep("o", 1000) end)
function init() return {} end
"#;
    cluster.install("large", 1, source);
    cluster.create("/large", "large").await;
    for _ in 0..140 {
        let client = cluster.open("/large").await;
        client.call("set", json!(49_000)).await.unwrap();
    }
    let client = cluster.open("/large").await;
    let refused = client.call("set", json!(50_000)).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Exhausted);
}

#[tokio::test(start_paused = true)]
async fn a_call_of_an_inactive_type_is_refused_soon() {
    let cluster = Cluster::new(1);
    let client = cluster.create("/a", "absent").await;
    let began = tokio::time::Instant::now();
    let refused = client.call("next", Value::Null).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unsupported);
    assert!(
        refused.hint_text().is_some_and(|hint| hint.contains("nacre program put filetype/absent"))
    );
    assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
}
