//! The fault layer does what its plan says, and nothing else.

use std::sync::Arc;

use futures::{FutureExt, StreamExt};
use nacre_clock::{ManualClock, Random};
use nacre_conformance::faults::{
    Fault, FaultOdds, Operation, no_faults, scripted, seeded, unreachable,
};
use nacre_conformance::wait::within_deadline;
use nacre_conformance::{FaultyStore, MemoryStore, Subject, TestClasses, ops, run_all};
use nacre_object::{
    ErrorKind, ListRequest, ObjectId, OpResult, Reply, Request, Result, Store, Watch, WatchEvent,
    WatchStream,
};

fn faulty() -> (FaultyStore, MemoryStore) {
    let store = MemoryStore::new(Arc::new(TestClasses), Arc::new(ManualClock::default()));
    (FaultyStore::over_watched(Arc::new(store.clone())), store)
}

fn object() -> ObjectId {
    "data/a".parse().unwrap()
}

async fn append(store: &dyn Store) -> Result<Reply> {
    store.submit(Request::new(object(), vec![ops::append("x")]).unwrap()).await
}

/// How many times `x` was appended.
async fn appended(store: &dyn Store) -> usize {
    match store.submit(Request::new(object(), vec![ops::read_all()]).unwrap()).await {
        Ok(reply) => match &reply.results[0] {
            OpResult::Data(data) => data.len(),
            other => panic!("{other:?}"),
        },
        Err(error) if error.kind() == ErrorKind::NotFound => 0,
        Err(error) => panic!("{error}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fault_layer_without_faults_changes_nothing() {
    run_all(&Subject::watched(Arc::new(faulty().0))).await;
}

#[tokio::test]
async fn a_fault_layer_loses_a_request_or_its_reply() {
    let (stage, store) = faulty();
    stage.follow(scripted([None, Some(Fault::FailBefore), Some(Fault::FailAfter)]));
    append(&stage).await.unwrap();
    assert_eq!(append(&stage).await.unwrap_err().kind(), ErrorKind::Unavailable);
    assert_eq!(appended(&store).await, 1, "a lost request is not done");
    assert_eq!(append(&stage).await.unwrap_err().kind(), ErrorKind::Unavailable);
    assert_eq!(appended(&store).await, 2, "one whose reply is lost is");
    append(&stage).await.unwrap();
}

#[tokio::test]
async fn a_held_request_is_done_when_it_is_released() {
    let (stage, store) = faulty();
    for (fault, done_while_held) in [(Fault::Hold, 0), (Fault::HoldReply, 1)] {
        let before = appended(&store).await;
        stage.follow(scripted([Some(fault)]));
        let mut held = Box::pin(append(&stage));
        assert!(held.as_mut().now_or_never().is_none(), "{fault:?}");
        stage.wait_until_held(1).await;
        assert_eq!(appended(&store).await, before + done_while_held, "{fault:?}");
        stage.release(1);
        held.await.unwrap();
        assert_eq!(appended(&store).await, before + 1, "{fault:?}");
    }
}

#[tokio::test]
async fn a_cancelled_request_is_not_held() {
    let (stage, store) = faulty();
    stage.follow(scripted([Some(Fault::Hold), Some(Fault::Hold)]));
    let mut given_up = Box::pin(append(&stage));
    assert!(given_up.as_mut().now_or_never().is_none());
    drop(given_up);
    assert!(stage.wait_until_held(1).now_or_never().is_none());
    let mut held = Box::pin(append(&stage));
    assert!(held.as_mut().now_or_never().is_none());
    stage.release(1);
    held.await.unwrap();
    assert_eq!(appended(&store).await, 1);
}

async fn next(watch: &mut WatchStream) -> Option<WatchEvent> {
    within_deadline("what a watch tells", watch.next()).await
}

#[tokio::test]
async fn no_request_reaches_an_unreachable_store() {
    let (stage, _store) = faulty();
    let mut watch = stage.watch(&object()).await.unwrap();
    append(&stage).await.unwrap();
    stage.follow(unreachable());
    let all = ListRequest { pool: object().pool, after: None, prefix: String::new(), limit: 1 };
    let kinds = [
        append(&stage).await.map(|_| ()),
        stage.list(all).await.map(|_| ()),
        stage.watch(&object()).await.map(|_| ()),
        stage.notify(&object(), "x".into()).await,
    ];
    assert!(kinds.iter().all(|r| r.as_ref().is_err_and(|e| e.kind() == ErrorKind::Unavailable)));
    assert_eq!(next(&mut watch).await, Some(WatchEvent::Lost), "told late, and so lost");
    stage.heal();
    append(&stage).await.unwrap();
    assert_eq!(next(&mut watch).await, Some(WatchEvent::Changed { version: 2 }));
}

#[tokio::test]
async fn watches_can_be_cut_and_end_with_their_store() {
    let (stage, store) = faulty();
    let mut watch = stage.watch(&object()).await.unwrap();
    stage.cut_watches();
    append(&stage).await.unwrap();
    assert_eq!(next(&mut watch).await, None);

    let mut through = stage.watch(&object()).await.unwrap();
    let mut direct = store.watch(&object()).await.unwrap();
    append(&stage).await.unwrap();
    let told = Some(WatchEvent::Changed { version: 2 });
    assert_eq!((next(&mut through).await, next(&mut direct).await), (told.clone(), told));
    drop((stage, store));
    assert_eq!((next(&mut through).await, next(&mut direct).await), (None, None));
}

#[test]
fn random_faults_follow_the_seed_and_the_given_odds() {
    let odds = FaultOdds { fail_before: 10, fail_after: 20, lose_event: 5 };
    let request = Request::new(object(), vec![ops::append("x")]).unwrap();
    let fates = |seed, odds| {
        let mut plan = seeded(seed, odds);
        (0..10_000).map(|_| plan(Operation::Submit(&request))).collect::<Vec<_>>()
    };
    let some = fates(7, odds);
    let count = |fault| some.iter().filter(|fate| **fate == Some(fault)).count();
    assert!((850..1150).contains(&count(Fault::FailBefore)), "{}", count(Fault::FailBefore));
    assert!((350..550).contains(&count(Fault::FailAfter)), "{}", count(Fault::FailAfter));
    assert_eq!(some, fates(7, odds), "the same seed");
    assert_ne!(some, fates(Random::seeded(7).next_u64(), odds), "another seed");
    assert!(fates(7, FaultOdds::default()).iter().all(Option::is_none));
    assert_eq!(no_faults()(Operation::Watch(&object())), None);
}
