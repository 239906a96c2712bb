//! The model passes the suite it is the specification of.

use std::sync::Arc;

use nacre_clock::SystemClock;
use nacre_conformance::faults::unreachable;
use nacre_conformance::{
    CountingLayer, FaultControl, FaultLayer, MemoryObject, MemoryStore, Passed, Subject,
    TestClasses, ops, run_all,
};
use nacre_object::{
    CallContext, CallReply, Capabilities, Capability, ClassCall, ClassHost, ErrorKind, ObjectView,
    ReadOnlyView, Result, Stack,
};

fn store() -> MemoryStore {
    MemoryStore::new(Arc::new(TestClasses), Arc::new(SystemClock::default()))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_memory_store_conforms() {
    run_all(&Subject::watched(Arc::new(store()))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_below_layers_conforms_and_each_layer_sees_every_request() {
    let (outer, inner, faults) = (Passed::default(), Passed::default(), FaultControl::default());
    let stack = Stack::new(store())
        .wrapped_by(|next| CountingLayer(next, inner.clone()))
        .wrapped_by(|next| FaultLayer::new(next, faults.clone()))
        .wrapped_by(|next| CountingLayer(next, outer.clone()));
    run_all(&Subject::watched(Arc::new(stack.clone()))).await;
    assert!(outer.transactions() > 0 && outer.watches() > 0);
    assert_eq!((outer.transactions(), outer.watches()), (inner.transactions(), inner.watches()));

    faults.follow(unreachable());
    let object = Subject::new(Arc::new(stack)).object("a");
    let error = object.submit([ops::append("x")]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert_eq!(outer.transactions(), inner.transactions() + 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_with_fewer_capabilities_conforms_in_those_it_has() {
    for capability in Capability::ALL {
        let less = store().with_capabilities(Capabilities::all().without(capability));
        run_all(&Subject::watched(Arc::new(less))).await;
    }
    run_all(&Subject::new(Arc::new(store().with_capabilities(Capabilities::NONE)))).await;
}

/// A host whose methods claim to be read-only, but write.
struct Liar;

impl ClassHost for Liar {
    fn is_read_only(&self, _: &ClassCall) -> bool {
        true
    }

    fn call(&self, _: &ClassCall, view: &mut dyn ObjectView, _: &CallContext) -> Result<CallReply> {
        view.append("lie".into())?;
        Ok(CallReply::default())
    }
}

#[tokio::test]
async fn a_method_cannot_write_to_a_snapshot() {
    let store = MemoryStore::new(Arc::new(Liar), Arc::new(SystemClock::default()));
    let object = Subject::new(Arc::new(store)).object("a");
    object.does([ops::append("kept"), ops::snapshot_create("s")]).await;
    let error = object.submit_at("s", [ops::call("any", "")]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
    let kept = object.content_at(Some(&ops::snapshot("s"))).await.unwrap();
    assert_eq!(kept.stream, b"kept");
}

#[test]
fn a_read_only_view_reads_everything_and_writes_nothing() {
    let mut object = MemoryObject::default();
    object.append("bytes".into()).unwrap();
    object.map_set(b"key", "value".into()).unwrap();
    object.set_map_header("header".into()).unwrap();
    object.set_attribute("name", "value".into()).unwrap();
    assert!(object.commit(5), "it changed");
    let before = object.clone();

    let view = &mut ReadOnlyView::new(&mut object);
    assert!(view.exists().unwrap());
    assert_eq!((view.version().unwrap(), view.stat().unwrap().modified_micros), (1, 5));
    assert_eq!(view.read(1, 3).unwrap(), "yte");
    assert_eq!(view.map_get(b"key").unwrap().unwrap(), "value");
    assert_eq!(view.map_last(b"k").unwrap().unwrap().key, "key");
    assert_eq!(view.map_range(b"", b"", 9).unwrap().entries.len(), 1);
    assert_eq!(view.map_header().unwrap(), "header");
    assert_eq!(view.attribute("name").unwrap().unwrap(), "value");
    assert_eq!(view.attributes().unwrap().len(), 1);
    let refusals = [
        view.create(false),
        view.remove(),
        view.write(0, "x".into()),
        view.write_full("x".into()),
        view.append("x".into()).map(|_| ()),
        view.truncate(0),
        view.zero(0, 1),
        view.set_attribute("a", "x".into()),
        view.remove_attribute("name"),
        view.map_set(b"k", "x".into()),
        view.map_remove(b"key"),
        view.map_clear(),
        view.set_map_header("x".into()),
    ];
    let denied = |refusal: &Result<()>| matches!(refusal, Err(e) if e.kind() == ErrorKind::Denied);
    assert!(refusals.iter().all(denied), "{refusals:?}");
    assert!(!object.commit(6), "it did not change");
    assert_eq!(format!("{object:?}"), format!("{before:?}"));
}
