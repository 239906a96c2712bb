//! A cluster in memory: one store, with the registry's classes, that many handles share.
#![allow(dead_code, reason = "each test binary uses part of it")]

use std::sync::Arc;

use nacre_class::{MethodAccess, NativeClass};
use nacre_clock::ManualClock;
use nacre_conformance::faults::FaultPlan;
use nacre_conformance::{FaultyStore, MemoryStore};
use nacre_object::{
    CallContext, CallReply, ClassCall, ClassHost, Error, MapName, ObjectView, Result,
};
use nacre_registry::{Maps, events_class, map_class};

/// The registry's classes and no others.
struct RegistryClasses(Vec<NativeClass>);

impl RegistryClasses {
    fn find(&self, call: &ClassCall) -> Result<(MethodAccess, nacre_class::NativeMethod)> {
        let class = self.0.iter().find(|class| *class.name() == call.class);
        class
            .and_then(|class| class.get(&call.method))
            .ok_or_else(|| Error::unsupported(format!("{}.{}", call.class, call.method)))
    }
}

impl ClassHost for RegistryClasses {
    fn is_read_only(&self, call: &ClassCall) -> bool {
        matches!(self.find(call), Ok((MethodAccess::ReadOnly, _)))
    }

    fn call(
        &self,
        call: &ClassCall,
        view: &mut dyn ObjectView,
        context: &CallContext,
    ) -> Result<CallReply> {
        let (_, run) = self.find(call)?;
        run(call.input.clone(), view, context)
    }
}

/// When tests happen: microseconds since 1970.
pub const NOW_MICROS: u64 = 1_700_000_000_000_000;

/// An empty store that knows the registry's classes.
pub fn store() -> MemoryStore {
    let classes = RegistryClasses(vec![map_class(), events_class()]);
    MemoryStore::new(Arc::new(classes), Arc::new(ManualClock::at(NOW_MICROS)))
}

/// A handle on the maps of a store.
pub fn maps(store: &MemoryStore) -> Maps {
    Maps::new(Arc::new(store.clone()), Arc::new(store.clone()))
}

/// A handle that reaches the store through faults, and the stage to command them.
pub fn faulty_maps(store: &MemoryStore, plan: FaultPlan) -> (Maps, FaultyStore) {
    let stage = FaultyStore::over_watched(Arc::new(store.clone()));
    stage.follow(plan);
    (Maps::new(Arc::new(stage.clone()), Arc::new(stage.clone())), stage)
}

/// A map's name.
pub fn name(text: &str) -> MapName {
    MapName::new(text).expect("a well-formed literal")
}

/// How many seeds a random test tries: `NACRE_SEEDS` times as many as it says.
pub fn seeds(usual: u64) -> std::ops::Range<u64> {
    let times = std::env::var("NACRE_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    0..usual * times
}
