//! The model passes the suite it is the specification of.

use std::sync::Arc;

use nacre_clock::SystemClock;
use nacre_conformance::{MemoryStore, Subject, TestClasses, run_all};
use nacre_object::{Capabilities, Capability};

fn store() -> MemoryStore {
    MemoryStore::new(Arc::new(TestClasses), Arc::new(SystemClock::default()))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_memory_store_conforms() {
    run_all(&Subject::watched(Arc::new(store()))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_can_do_less_conforms_in_what_it_can() {
    for capability in Capability::ALL {
        let less = store().with_capabilities(Capabilities::all().without(capability));
        run_all(&Subject::watched(Arc::new(less))).await;
    }
    run_all(&Subject::new(Arc::new(store().with_capabilities(Capabilities::NONE)))).await;
}
