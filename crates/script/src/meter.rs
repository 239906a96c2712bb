//! Watches one run: steps, time, and memory outside the VM's heap.
//!
//! The VM asks [`Meter::step`] at every call, loop iteration and matcher step. Once a limit is
//! exceeded it refuses every further step until the next run, so a script that catches the error
//! gets no further than to the next call or iteration.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use mlua::Lua;
use nacre_clock::Clock;
use nacre_object::{Error, Result};

use crate::budget::{Budget, STEPS_PER_CLOCK_READING};
use crate::fault::raise;

/// Which part of the budget was exceeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// Its time.
    Time,
    /// Its calls, loop iterations and pattern-matcher steps.
    Steps,
    /// Its memory.
    Memory,
    /// What it may hand back.
    Output,
}

impl Limit {
    /// Every limit, in declaration order.
    pub const ALL: [Limit; 4] = [Self::Time, Self::Steps, Self::Memory, Self::Output];

    /// The limit's name, as metrics give it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Time => "time",
            Self::Steps => "steps",
            Self::Memory => "memory",
            Self::Output => "output",
        }
    }

    /// The limit that a word is for.
    pub fn named(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|limit| limit.as_str() == word)
    }
}

/// That a budget was exceeded.
pub(crate) struct Exceeded {
    pub limit: Limit,
    /// What to fail the run with.
    pub error: Error,
    /// Where the script was, if it was interrupted; empty otherwise.
    pub traceback: String,
}

pub(crate) struct Meter {
    running: RefCell<Option<Running>>,
    steps_left: Cell<u64>,
    exceeded: Cell<Option<Limit>>,
    interrupted_at: RefCell<String>,
    /// Heap size at which to collect garbage at the next step.
    collect_at: Cell<usize>,
    heap_limit: Cell<usize>,
    host_bytes: Cell<usize>,
    host_bytes_limit: Cell<usize>,
}

struct Running {
    clock: Arc<dyn Clock>,
    began: Duration,
    /// No reason to look closer before this.
    deadline: Duration,
    /// The thread's time when the run began, as of the first closer look; where the clock can tell.
    thread_began: Option<Duration>,
    budget: Budget,
}

impl Running {
    fn new(clock: &Arc<dyn Clock>, budget: &Budget) -> Self {
        let (clock, budget) = (Arc::clone(clock), budget.clone());
        let began = clock.monotonic();
        let deadline = began.saturating_add(unexamined(&budget));
        Self { clock, began, deadline, thread_began: None, budget }
    }

    /// Whether its time is used up.
    fn is_late(&mut self) -> bool {
        let now = self.clock.monotonic();
        if now < self.deadline {
            return false;
        }
        let left = self.budget.time.saturating_sub(self.used(now));
        self.deadline = now.saturating_add(left);
        left.is_zero()
    }

    /// What it has used: of a CPU where the clock can tell, as what it waited for the host, or for a CPU,
    /// is not its own; else of the time that passed.
    fn used(&mut self, now: Duration) -> Duration {
        let passed = now.saturating_sub(self.began);
        let Some(thread) = self.clock.thread_time() else { return passed };
        // How much it had until now nobody has looked: as much as it may have unexamined.
        let before = passed.min(unexamined(&self.budget));
        let began = *self.thread_began.get_or_insert(thread.saturating_sub(before));
        thread.saturating_sub(began)
    }
}

/// The time that a run has before it is looked at closer: most are over by then, and have not paid for
/// asking what the thread had of a CPU, which is a system call.
fn unexamined(budget: &Budget) -> Duration {
    budget.time / 8
}

impl Meter {
    pub fn new() -> Self {
        Self {
            running: RefCell::new(None),
            steps_left: Cell::new(u64::MAX),
            exceeded: Cell::new(None),
            interrupted_at: RefCell::default(),
            collect_at: Cell::new(usize::MAX),
            heap_limit: Cell::new(usize::MAX),
            host_bytes: Cell::new(0),
            host_bytes_limit: Cell::new(usize::MAX),
        }
    }

    /// Begins to watch a run that starts with a heap of `heap_bytes`.
    pub fn arm(&self, budget: &Budget, clock: &Arc<dyn Clock>, heap_bytes: usize) {
        self.exceeded.set(None);
        self.interrupted_at.borrow_mut().clear();
        self.steps_left.set(budget.steps);
        self.heap_limit.set(heap_bytes.saturating_add(budget.memory_bytes));
        self.collect_halfway_from(heap_bytes);
        self.host_bytes_limit.set(self.host_bytes.get().saturating_add(budget.memory_bytes));
        *self.running.borrow_mut() = Some(Running::new(clock, budget));
    }

    /// What the heap of this run may grow to, in bytes.
    pub fn heap_limit(&self) -> usize {
        self.heap_limit.get()
    }

    /// Stops watching.
    pub fn disarm(&self) {
        *self.running.borrow_mut() = None;
        self.exceeded.set(None);
        self.steps_left.set(u64::MAX);
        self.collect_at.set(usize::MAX);
        self.host_bytes_limit.set(usize::MAX);
    }

    /// One step of the script; refused once a limit is exceeded.
    pub fn step(&self, lua: &Lua) -> mlua::Result<()> {
        if let Some(limit) = self.exceeded.get() {
            return Err(raise(self.describe(limit)));
        }
        let Some(left) = self.steps_left.get().checked_sub(1) else {
            return Err(self.interrupt(lua, Limit::Steps));
        };
        self.steps_left.set(left);
        if left % STEPS_PER_CLOCK_READING == 0 && self.is_late() {
            return Err(self.interrupt(lua, Limit::Time));
        }
        if lua.used_memory() > self.collect_at.get() {
            // The VM collects in proportion to the number of allocations, not to their size, and
            // not at all when its allocator refuses: large strings would end a run as garbage.
            lua.gc_collect()?;
            self.collect_halfway_from(lua.used_memory());
        }
        Ok(())
    }

    /// Notes that a limit is exceeded and gives the error to raise.
    pub fn exceed(&self, limit: Limit) -> mlua::Error {
        let first = self.exceeded.get().unwrap_or(limit);
        self.exceeded.set(Some(first));
        raise(self.describe(first))
    }

    /// Which limit was exceeded first, if one was.
    pub fn exceeded(&self) -> Option<Exceeded> {
        let limit = self.exceeded.get()?;
        let traceback = self.interrupted_at.borrow().clone();
        Some(Exceeded { limit, error: self.describe(limit), traceback })
    }

    /// Fails if `bytes` is more than the run may hand back.
    pub fn check_output(&self, bytes: usize) -> Result<()> {
        match &*self.running.borrow() {
            Some(running) if bytes > running.budget.output_bytes => {
                self.exceeded.set(self.exceeded.get().or(Some(Limit::Output)));
                Err(describe(Limit::Output, &running.budget))
            }
            _ => Ok(()),
        }
    }

    pub fn host_bytes(&self) -> usize {
        self.host_bytes.get()
    }

    fn interrupt(&self, lua: &Lua, limit: Limit) -> mlua::Error {
        // An abort that cannot tell where is still an abort.
        if let Ok(traceback) = lua.traceback(None, 0) {
            *self.interrupted_at.borrow_mut() = traceback.to_string_lossy();
        }
        self.exceed(limit)
    }

    /// So that a script whose live data and next allocation fit never fails for its garbage.
    fn collect_halfway_from(&self, heap_bytes: usize) {
        let room = self.heap_limit.get().saturating_sub(heap_bytes);
        self.collect_at.set(heap_bytes.saturating_add(room / 2));
    }

    fn is_late(&self) -> bool {
        self.running.borrow_mut().as_mut().is_some_and(Running::is_late)
    }

    fn describe(&self, limit: Limit) -> Error {
        match &*self.running.borrow() {
            Some(running) => describe(limit, &running.budget),
            None => describe(limit, &Budget::default()),
        }
    }
}

fn describe(limit: Limit, budget: &Budget) -> Error {
    let (what, allowed): (_, &dyn fmt::Display) = match limit {
        Limit::Time => ("ran longer than", &format!("{} ms", budget.time.as_millis())),
        Limit::Steps => ("took more than", &format!("{} steps", budget.steps)),
        Limit::Memory => ("used more than", &format!("{} bytes of memory", budget.memory_bytes)),
        Limit::Output => ("handed back more than", &format!("{} bytes", budget.output_bytes)),
    };
    Error::exhausted(format!("the script {what} {allowed}"))
}

/// Lets a host function that loops be interrupted as the script is.
#[derive(Clone)]
pub struct Pulse(Rc<Meter>);

impl Pulse {
    pub(crate) fn new(meter: Rc<Meter>) -> Self {
        Self(meter)
    }

    /// One step of the run.
    ///
    /// # Errors
    /// `Exhausted`, to be raised as it is, if the run is over.
    pub fn step(&self, lua: &Lua) -> mlua::Result<()> {
        self.0.step(lua)
    }
}

/// Memory that values of the host library hold outside the VM's heap, which would not see it.
#[derive(Clone)]
pub struct MemoryAccount(Rc<Meter>);

impl MemoryAccount {
    pub(crate) fn new(meter: Rc<Meter>) -> Self {
        Self(meter)
    }

    /// Takes `bytes`, collecting garbage first if that is needed to stay within the run's budget.
    ///
    /// # Errors
    /// `Exhausted`, to be raised as it is, if the budget does not have them.
    pub fn take(&self, lua: &Lua, bytes: usize) -> mlua::Result<()> {
        if !self.fits(bytes) {
            lua.gc_collect()?;
            if !self.fits(bytes) {
                return Err(self.0.exceed(Limit::Memory));
            }
        }
        self.0.host_bytes.set(self.0.host_bytes.get() + bytes);
        Ok(())
    }

    /// Gives `bytes` back.
    pub fn give_back(&self, bytes: usize) {
        self.0.host_bytes.set(self.0.host_bytes.get().saturating_sub(bytes));
    }

    fn fits(&self, bytes: usize) -> bool {
        self.0.host_bytes.get().saturating_add(bytes) <= self.0.host_bytes_limit.get()
    }
}
