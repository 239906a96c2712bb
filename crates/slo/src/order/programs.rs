//! `OrderPrograms`: the orders of service that the live programs of a node define.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use nacre_clock::Clock;
use nacre_object::{ErrorKind, ProgramName};
use nacre_registry::{FaultReporter, KindFaults, ProgramKind};

use super::{Candidate, LiveOrders, Order, OrderProgram, Orders};
use crate::limits::PAUSE_AFTER_EXCESS;

/// The orders of service that the live programs of a node define. Clones share one state.
#[derive(Debug, Clone)]
pub struct OrderPrograms {
    live: LiveOrders,
    faults: KindFaults,
    clock: Arc<dyn Clock>,
    /// The program version that exceeded its budget, and until when it is not asked.
    paused: Arc<Mutex<Option<(ProgramName, u64, Duration)>>>,
}

impl OrderPrograms {
    /// The orders of these programs.
    pub fn of(live: LiveOrders, clock: Arc<dyn Clock>) -> Self {
        let faults = KindFaults::of(ProgramKind::Slo);
        Self { live, faults, clock, paused: Arc::default() }
    }

    /// Reports program faults to `reporter` from now on. Only the first call has an effect, because
    /// a process is one node.
    pub fn report_to(&self, reporter: FaultReporter) {
        self.faults.report_to(reporter);
    }

    fn is_paused(&self, name: &ProgramName, version: u64) -> bool {
        let mut paused = self.paused.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.clock.monotonic();
        paused.take_if(|(.., until)| *until <= now);
        matches!(&*paused, Some((known, of, _)) if known == name && *of == version)
    }

    fn pause(&self, name: &ProgramName, version: u64) {
        let until = self.clock.monotonic().saturating_add(PAUSE_AFTER_EXCESS);
        let mut paused = self.paused.lock().unwrap_or_else(PoisonError::into_inner);
        *paused = Some((name.clone(), version, until));
    }
}

impl Orders for OrderPrograms {
    fn named(&self, name: &ProgramName) -> Option<Arc<dyn Order>> {
        let program = self.live.get(name.as_str())?;
        if self.is_paused(name, program.version()) {
            return None;
        }
        Some(Arc::new(LiveOrder { name: name.clone(), program, programs: self.clone() }))
    }
}

/// One live version of a program. The version can decide as long as this value exists.
#[derive(Debug)]
struct LiveOrder {
    name: ProgramName,
    program: Arc<OrderProgram>,
    programs: OrderPrograms,
}

impl Order for LiveOrder {
    fn choose(&self, candidates: &[Candidate<'_>]) -> Option<usize> {
        self.program.choose(candidates).unwrap_or_else(|error| {
            let version = self.program.version();
            self.programs.faults.report(&self.name, version, &error);
            if error.kind() == ErrorKind::Exhausted {
                self.programs.pause(&self.name, version);
            }
            None
        })
    }
}
