//! The comparison agrees with itself, and finds what is wrong.

use std::sync::Arc;

use nacre_clock::ManualClock;
use nacre_conformance::{MemoryStore, Subject, TestClasses, compare, seeds};
use nacre_object::Capabilities;

fn store() -> MemoryStore {
    MemoryStore::new(Arc::new(TestClasses), Arc::new(ManualClock::default()))
}

#[tokio::test]
async fn the_model_agrees_with_itself() {
    let subject = Subject::watched(Arc::new(store()));
    for seed in seeds(30) {
        compare(&subject, seed, 100).await;
    }
    let less = Subject::new(Arc::new(store().with_capabilities(Capabilities::NONE)));
    for seed in seeds(10) {
        compare(&less, seed, 100).await;
    }
}
