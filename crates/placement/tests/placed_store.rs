//! A store over three targets is a store.

use std::sync::Arc;

use nacre_clock::SystemClock;
use nacre_conformance::{
    FaultyStore, MemoryStore, Subject, TestClasses, compare, faults, ops, run_all, seeds,
};
use nacre_object::{
    Capabilities, Capability, ErrorKind, ListRequest, Locate, ObjectId, Op, Request, Stack, Store,
    TargetName, Watch,
};
use nacre_placement::{HolderCheck, PlacedStore, PlacedTarget, Placement, Target};

fn target(name: &str, store: MemoryStore) -> (PlacedTarget, FaultyStore) {
    let faulty = FaultyStore::over_watched(Arc::new(store));
    let target = Target::new(TargetName::new(name).unwrap());
    (PlacedTarget::new(target, Arc::new(faulty.clone())), faulty)
}

fn memory() -> MemoryStore {
    MemoryStore::new(Arc::new(TestClasses), Arc::new(SystemClock::default()))
}

/// A store over three targets, and for each target a handle to make it fail.
fn three() -> (Arc<PlacedStore>, Vec<FaultyStore>) {
    let (targets, faulty) = ["a", "b", "c"].iter().map(|name| target(name, memory())).unzip();
    (Arc::new(PlacedStore::new(targets).unwrap()), faulty)
}

fn object(name: &str) -> ObjectId {
    ObjectId::new("data".parse().unwrap(), name.parse().unwrap())
}

/// A name on each target, in their order.
fn one_on_each(store: &PlacedStore) -> Vec<ObjectId> {
    let on = |target: &TargetName| {
        (0..).map(|i| object(&format!("o{i}"))).find(|id| store.locate(id) == *target).unwrap()
    };
    store.targets().iter().map(on).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_placed_store_passes_the_conformance_suite() {
    run_all(&Subject::watched(three().0)).await;
}

#[tokio::test]
async fn a_placed_store_behaves_like_one_store() {
    let subject = Subject::watched(three().0);
    for seed in seeds(20) {
        compare(&subject, seed, 100).await;
    }
}

#[tokio::test]
async fn locate_returns_the_target_that_holds_an_object() {
    let (store, faulty) = three();
    for (i, id) in one_on_each(&store).into_iter().enumerate() {
        store.submit(Request::new(id.clone(), vec![ops::append("x")]).unwrap()).await.unwrap();
        for (j, target) in faulty.iter().enumerate() {
            let there = Request::new(id.clone(), vec![ops::read_all()]).unwrap();
            assert_eq!(target.submit(there).await.is_ok(), i == j, "{id} on target {j}");
        }
    }
}

#[tokio::test]
async fn an_error_names_a_dead_target_and_other_targets_still_serve() {
    let (store, faulty) = three();
    let objects = one_on_each(&store);
    faulty[1].follow(faults::unreachable());
    for (i, id) in objects.iter().enumerate() {
        let request = Request::new(id.clone(), vec![ops::append("x")]).unwrap();
        let result = store.submit(request).await;
        let watched = store.watch(id).await.map(|_| ());
        let notified = store.notify(id, "x".into()).await;
        if i != 1 {
            assert!(result.is_ok() && watched.is_ok() && notified.is_ok());
            continue;
        }
        for error in [result.unwrap_err(), watched.unwrap_err(), notified.unwrap_err()] {
            assert_eq!(error.kind(), ErrorKind::Unavailable);
            assert_eq!(error.target().map(TargetName::as_str), Some("b"), "{error}");
        }
    }
    let pool = objects[0].pool.clone();
    let all = ListRequest { pool, after: None, prefix: String::new(), limit: 10 };
    let error = store.list(all.clone()).await.unwrap_err();
    assert_eq!((error.kind(), error.target().unwrap().as_str()), (ErrorKind::Unavailable, "b"));
    faulty[1].heal();
    assert_eq!(store.list(all).await.unwrap().names.len(), 2);
}

#[tokio::test]
async fn targets_are_listed_concurrently() {
    let (store, faulty) = three();
    for target in &faulty {
        target.follow(Box::new(|operation| {
            matches!(operation, faults::Operation::List(_)).then_some(faults::Fault::Hold)
        }));
    }
    let pool = "data".parse().unwrap();
    let all = ListRequest { pool, after: None, prefix: String::new(), limit: 10 };
    let listing = tokio::spawn(async move { store.list(all).await });
    for target in &faulty {
        target.wait_until_held(1).await;
    }
    faulty.iter().for_each(|target| target.release(1));
    listing.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_clone_across_targets_is_unsupported_and_the_error_gives_a_hint() {
    let (store, _) = three();
    let objects = one_on_each(&store);
    let create = vec![ops::create(), ops::snapshot_create("s")];
    store.submit(Request::new(objects[0].clone(), create).unwrap()).await.unwrap();
    let clone = vec![ops::clone_from(&objects[0].name, "s")];
    let error = store.submit(Request::new(objects[1].clone(), clone).unwrap()).await.unwrap_err();
    assert_eq!((error.kind(), error.operation()), (ErrorKind::Unsupported, Some("clone-from")));
    assert!(error.hint_text().unwrap().contains("{a}x"), "{error}");
}

#[tokio::test]
async fn a_placed_store_has_the_capabilities_that_all_targets_have() {
    let less = memory().with_capabilities(Capabilities::all().without(Capability::Snapshots));
    let able = memory();
    let (targets, _): (_, Vec<_>) = [("a", able.clone()), ("b", less), ("c", memory())]
        .into_iter()
        .map(|(name, store)| target(name, store))
        .unzip();
    let store = Arc::new(PlacedStore::new(targets).unwrap());
    assert!(!store.capabilities().has(Capability::Snapshots));
    assert!(store.capabilities().has(Capability::Clone));
    for id in one_on_each(&store) {
        let ops = vec![ops::create(), ops::snapshot_create("s")];
        let error = store.submit(Request::new(id, ops).unwrap()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "also where the target could");
    }

    // Each target answers for itself whether it has the state at a snapshot.
    let objects = one_on_each(&store);
    let ops = vec![ops::create(), ops::snapshot_create("s")];
    able.submit(Request::new(objects[0].clone(), ops).unwrap()).await.unwrap();
    let read = |id: &ObjectId| {
        Request::new(id.clone(), vec![Op::Stat]).unwrap().at_snapshot(ops::snapshot("s"))
    };
    store.submit(read(&objects[0])).await.unwrap();
    let error = store.submit(read(&objects[1])).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
}

/// Makes the store of one of three targets. Returns it with the holder check, the same store
/// without the check, and the placement.
fn checked() -> (Stack, MemoryStore, Placement) {
    let names = ["a", "b", "c"].map(|name| TargetName::new(name).unwrap());
    let placement = Placement::new(names.clone().map(Target::new).into()).unwrap();
    let (behind, [own, ..]) = (memory(), names);
    let engine = Stack::new(behind.clone());
    let checked = engine.wrapped_by(|next| HolderCheck::new(next, own, placement.clone()));
    (checked, behind, placement)
}

/// Names that a target holds, and names that it does not.
fn divided(placement: &Placement, target: &str) -> (Vec<ObjectId>, Vec<ObjectId>) {
    let all = (0..30).map(|i| object(&format!("o{i:02}")));
    all.partition(|id| placement.locate_object(&id.pool, &id.name).as_str() == target)
}

#[tokio::test]
async fn a_target_refuses_every_request_for_an_object_of_another_and_names_the_holder() {
    let (checked, behind, placement) = checked();
    let (held, others) = divided(&placement, "a");
    let request = |id: &ObjectId| Request::new(id.clone(), vec![ops::append("x")]).unwrap();
    for id in &held {
        checked.submit(request(id)).await.unwrap();
        assert!(checked.watch(id).await.is_ok() && checked.notify(id, "x".into()).await.is_ok());
    }
    for id in &others {
        let holder = placement.locate_object(&id.pool, &id.name);
        let answers = [
            checked.submit(request(id)).await.unwrap_err(),
            checked.watch(id).await.map(drop).unwrap_err(),
            checked.notify(id, "x".into()).await.unwrap_err(),
        ];
        for error in answers {
            assert_eq!(error.kind(), ErrorKind::Invalid);
            assert_eq!(error.message(), format!("{holder} holds this object, not a"));
        }
        let read = Request::new(id.clone(), vec![ops::read_all()]).unwrap();
        assert_eq!(behind.submit(read).await.unwrap_err().kind(), ErrorKind::NotFound);
    }
}

#[tokio::test]
async fn a_listing_leaves_out_objects_that_another_target_holds() {
    let (checked, behind, placement) = checked();
    let (held, others) = divided(&placement, "a");
    for id in held.iter().chain(&others) {
        let write = Request::new(id.clone(), vec![ops::append("x")]).unwrap();
        behind.submit(write).await.unwrap();
    }
    let list = |after, limit| {
        let (pool, prefix) = (object("x").pool, String::new());
        checked.list(ListRequest { pool, after, prefix, limit })
    };
    for limit in [1, 2, 7, 100] {
        let (mut listed, mut after) = (vec![], None);
        loop {
            let page = list(after, limit).await.unwrap();
            assert!(page.names.len() <= limit && (!page.names.is_empty() || !page.more));
            after = page.names.last().cloned();
            listed.extend(page.names);
            if !page.more {
                break;
            }
        }
        let expected: Vec<_> = held.iter().map(|id| id.name.clone()).collect();
        assert_eq!(listed, expected, "in pages of {limit}");
    }
    let last_held = held.last().unwrap().name.clone();
    for (after, more) in [(None, true), (Some(last_held), false)] {
        let page = list(after, 0).await.unwrap();
        assert_eq!((page.names.len(), page.more), (0, more));
    }
}
