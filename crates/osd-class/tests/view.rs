//! Runs the suite of stores on objects of an OSD, through the view.

mod support;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use nacre_clock::{Clock, SystemClock};
use nacre_conformance::{Subject, TestClasses, compare, run_all, seeds};
use nacre_object::{
    CallContext, Capabilities, Capability, Error, ListPage, ListRequest, ObjectId, Reply, Request,
    Result, Store, run_transaction,
};
use nacre_osd_class::{OsdObject, View};
use support::memory_osd::MemoryOsd;

/// Random runs.
const SEEDS: u64 = 12;
/// Steps of one.
const STEPS: usize = 150;

/// A store whose transactions run over views of an OSD in memory.
#[derive(Debug, Default)]
struct ViewStore {
    objects: Mutex<BTreeMap<ObjectId, MemoryOsd>>,
    clock: SystemClock,
}

impl ViewStore {
    fn execute(&self, request: &Request) -> Result<Reply> {
        self.capabilities().check(request)?;
        let mut objects = self.objects.lock().unwrap();
        let object = objects.entry(request.header.object.clone()).or_default();
        let now_micros = self.clock.now_micros();
        let context = CallContext { source: request.header.source.clone(), now_micros };
        let mut call = object.begin();
        let mut view = View::new(&mut call);
        let results = run_transaction(&request.ops, &mut view, &TestClasses, &context)?;
        let exists = view.is_present()?;
        let changes = view.into_changes()?;
        let changed = !changes.is_empty();
        changes.into_iter().try_for_each(|change| call.apply(change))?;
        let mut after = call.after;
        assert_eq!(after.exists, exists);
        if changed {
            (after.version, after.modified_micros) = (after.version + 1, now_micros);
        }
        let version = if exists { after.version } else { 0 };
        *object = after;
        Ok(Reply { version, results })
    }
}

#[async_trait]
impl Store for ViewStore {
    async fn submit(&self, request: Request) -> Result<Reply> {
        self.execute(&request).map_err(|error| error.on(&request.header.object))
    }

    async fn list(&self, _: ListRequest) -> Result<ListPage> {
        Err(Error::unsupported("this store lists no pools").during("list"))
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::NONE.with(Capability::Classes)
    }
}

#[tokio::test]
async fn a_view_passes_the_conformance_suite() {
    run_all(&Subject::new(Arc::new(ViewStore::default()))).await;
}

#[tokio::test]
async fn random_transactions_have_the_effect_the_model_predicts() {
    let subject = Subject::new(Arc::new(ViewStore::default()));
    for seed in seeds(SEEDS) {
        compare(&subject, seed, STEPS).await;
    }
}
