//! A cluster in memory: one store, with the registry's classes, that many handles share.
#![allow(dead_code, reason = "each test binary uses part of it")]

use std::sync::Arc;

use nacre_class::{ClassRuntime, FaultSink, NoFaultSink};
use nacre_clock::{Clock, ManualClock};
use nacre_conformance::faults::FaultPlan;
use nacre_conformance::{FaultyStore, MemoryStore};
use nacre_object::MapName;
use nacre_registry::{
    Checker, Maps, ProgramId, ProgramKind, Programs, SourceError, events_class, map_class,
};
use nacre_script::{Budget, Script};

/// When tests happen: microseconds since 1970.
pub const NOW_MICROS: u64 = 1_700_000_000_000_000;

/// An empty store that knows the registry's classes.
pub fn store() -> MemoryStore {
    store_reporting_to(Arc::new(NoFaultSink))
}

/// The same, whose programs' faults are heard.
pub fn store_reporting_to(sink: Arc<dyn FaultSink>) -> MemoryStore {
    let clock = Arc::new(ManualClock::at(NOW_MICROS));
    let classes = classes(clock.clone()).reporting_to(sink);
    MemoryStore::new(Arc::new(classes), clock)
}

/// A runtime with the registry's classes.
pub fn classes(clock: Arc<dyn Clock>) -> ClassRuntime {
    let classes = ClassRuntime::new(Budget::default(), clock);
    for class in [map_class(), events_class()] {
        classes.register_native(class).expect("their names differ");
    }
    classes
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

/// The programs of a store. Two kinds that have no hook yet are accepted if they compile.
pub fn programs(maps: &Maps) -> Programs {
    programs_at(maps, Arc::new(ManualClock::at(NOW_MICROS)))
}

/// The same, by this clock.
pub fn programs_at(maps: &Maps, clock: Arc<dyn Clock>) -> Programs {
    Programs::new(maps.clone(), clock)
        .with_checker(ProgramKind::Route, Arc::new(CompileChecker))
        .with_checker(ProgramKind::Balancer, Arc::new(CompileChecker))
}

struct CompileChecker;

impl Checker for CompileChecker {
    fn check(&self, program: &ProgramId, source: &str) -> Result<(), SourceError> {
        Script::compile(&program.to_string(), 0, source.as_bytes())?;
        Ok(())
    }
}

/// A program's name.
pub fn program(text: &str) -> ProgramId {
    text.parse().expect("a well-formed literal")
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
