//! A cluster in memory: one store, with the registry's classes, that many handles share.
#![allow(dead_code, reason = "each test binary uses part of it")]

use std::sync::Arc;

use nacre_class::{ClassRuntime, FaultSink, NoFaultSink};
use nacre_clock::{Clock, ManualClock};
use nacre_conformance::faults::FaultPlan;
use nacre_conformance::{FaultyStore, MemoryStore};
use nacre_object::{MapName, Result};
use nacre_program::{Budget, Interface};
use nacre_registry::{
    ClassHook, Hook, Hooks, LiveProgram, MapHook, Maps, ProgramId, ProgramKind, Programs,
    SourceError, events_class, map_class,
};
use nacre_script::Script;

/// When tests happen: microseconds since 1970.
pub const NOW_MICROS: u64 = 1_700_000_000_000_000;

/// An empty store that knows the registry's classes.
pub fn store() -> MemoryStore {
    store_reporting_to(Arc::new(NoFaultSink))
}

/// As [`store`], and reports the faults of programs to `sink`.
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

/// A handle to the maps of a store.
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

/// As [`programs`], with another clock.
pub fn programs_at(maps: &Maps, clock: Arc<dyn Clock>) -> Programs {
    let hooks = hooks(&clock);
    Programs::new(maps.clone(), clock, hooks)
}

/// The hooks that there are, and two of a test.
pub fn hooks(clock: &Arc<dyn Clock>) -> Hooks {
    shipped_hooks(clock)
        .with(TestHook { kind: ProgramKind::Route, node: Arc::new(()) })
        .with(TestHook { kind: ProgramKind::Balancer, node: Arc::new(()) })
}

/// The hooks that there are.
pub fn shipped_hooks(clock: &Arc<dyn Clock>) -> Hooks {
    Hooks::new().with(ClassHook::new(Arc::clone(clock), vec![])).with(MapHook)
}

/// The hooks of a node that makes everything live in one way.
pub fn node_hooks<N: TestNode + 'static>(node: &Arc<N>) -> Hooks {
    let of = |kind| TestHook { kind, node: node.clone() };
    Hooks::new()
        .with(of(ProgramKind::Class))
        .with(of(ProgramKind::Route))
        .with(of(ProgramKind::Balancer))
        .with(MapHook)
}

/// How a test's node makes programs live.
pub trait TestNode: Send + Sync {
    fn install(&self, _: &LiveProgram) -> Result<()> {
        Ok(())
    }

    fn uninstall(&self, _: &ProgramId) {}
}

/// A node to which every program is fine.
impl TestNode for () {}

/// A hook whose programs need only compile.
pub struct TestHook<N: ?Sized> {
    pub kind: ProgramKind,
    pub node: Arc<N>,
}

impl<N: TestNode + ?Sized> Hook for TestHook<N> {
    fn kind(&self) -> ProgramKind {
        self.kind
    }

    fn interface(&self) -> &'static Interface {
        MapHook.interface()
    }

    fn check(&self, program: &ProgramId, source: &str) -> std::result::Result<(), SourceError> {
        Script::compile(&program.to_string(), 0, source.as_bytes())?;
        Ok(())
    }

    fn install(&self, program: &LiveProgram) -> Result<()> {
        self.node.install(program)
    }

    fn uninstall(&self, program: &ProgramId) -> Result<()> {
        self.node.uninstall(program);
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
