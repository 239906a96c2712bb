//! Checks the budget of a running script: its steps, its time, and its memory outside the VM's
//! heap.
//!
//! A step is a call, a loop iteration or a step of the pattern matcher. The meter lets the script
//! make a few steps without a check: the script's [quantum](crate::quantum). The step after them
//! calls [`Meter::step`], which counts them and checks the budget. Once a limit is exceeded, the
//! script gets no further quantum, and every step fails until the run ends. So a script that
//! catches the error fails again at its next step.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use mlua::Lua;
use nacre_clock::Clock;
use nacre_object::{Error, Result};

use crate::fault::raise;
use crate::limits::{MAX_UNEXAMINED_STEPS, QUICK_STEPS_TIME};
use crate::quantum::Quantum;
use nacre_program::{Budget, Limit};

/// An exceeded limit of the budget.
pub(crate) struct Exceeded {
    pub limit: Limit,
    /// The error that fails the run.
    pub error: Error,
    /// The traceback at the interruption; empty if the script was not interrupted.
    pub traceback: String,
}

pub(crate) struct Meter {
    running: RefCell<Option<Running>>,
    /// The steps left at the last check.
    steps_left: Cell<u64>,
    /// The steps of the last quantum, without those that were taken back.
    granted: Cell<u32>,
    /// The quantum of the outer run, if this run began within another.
    outer: Cell<Quantum>,
    exceeded: Cell<Option<Limit>>,
    interrupted_at: RefCell<String>,
    /// The heap size at which the next step collects garbage.
    collect_at: Cell<usize>,
    heap_limit: Cell<usize>,
    host_bytes: Cell<usize>,
    host_bytes_limit: Cell<usize>,
}

struct Running {
    clock: Arc<dyn Clock>,
    began: Duration,
    /// When the time was last checked.
    seen: Duration,
    /// Before this time there is no need to read the CPU time.
    deadline: Duration,
    /// The thread's CPU time when the run began. `None` until it is first read, or if the clock has
    /// no CPU time.
    thread_began: Option<Duration>,
    budget: Budget,
}

/// How fast the steps since the last check were.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pace {
    /// They took almost no time.
    Quick,
    /// They took so long that every step is checked.
    Slow,
    /// The time is used up.
    Late,
}

impl Running {
    fn new(clock: &Arc<dyn Clock>, budget: &Budget) -> Self {
        let clock = Arc::clone(clock);
        let began = clock.monotonic();
        let deadline = began.saturating_add(unexamined(budget));
        Self { clock, began, seen: began, deadline, thread_began: None, budget: *budget }
    }

    /// Checks the time. Returns how fast the last steps were.
    fn pace(&mut self) -> Pace {
        let now = self.clock.monotonic();
        let took = now.saturating_sub(std::mem::replace(&mut self.seen, now));
        if now >= self.deadline {
            let left = self.budget.time.saturating_sub(self.used(now));
            self.deadline = now.saturating_add(left);
            if left.is_zero() {
                return Pace::Late;
            }
        }
        if took < QUICK_STEPS_TIME { Pace::Quick } else { Pace::Slow }
    }

    /// The time that the run has used. This is CPU time, so that waits for the host or for a CPU do
    /// not count. If the clock has no CPU time, it is elapsed time.
    fn used(&mut self, now: Duration) -> Duration {
        let passed = now.saturating_sub(self.began);
        let Some(thread) = self.clock.thread_time() else { return passed };
        // The time until now was not measured, so all of the unmeasured time counts.
        let before = passed.min(unexamined(&self.budget));
        let began = *self.thread_began.get_or_insert(thread.saturating_sub(before));
        thread.saturating_sub(began)
    }
}

/// How long a run lasts before the meter first reads the CPU time. Reading it is a system call,
/// which most runs are too short to need.
fn unexamined(budget: &Budget) -> Duration {
    budget.time / 8
}

impl Meter {
    pub fn new() -> Self {
        Self {
            running: RefCell::new(None),
            steps_left: Cell::new(u64::MAX),
            granted: Cell::new(0),
            outer: Cell::new(Quantum::NONE),
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
        self.outer.set(Quantum::NONE.give());
        self.grant(MAX_UNEXAMINED_STEPS);
    }

    /// What the heap of this run may grow to, in bytes.
    pub fn heap_limit(&self) -> usize {
        self.heap_limit.get()
    }

    /// Stops watching.
    pub fn disarm(&self) {
        self.granted.set(0);
        self.outer.replace(Quantum::NONE).give();
        *self.running.borrow_mut() = None;
        self.exceeded.set(None);
        self.steps_left.set(u64::MAX);
        self.collect_at.set(usize::MAX);
        self.host_bytes_limit.set(usize::MAX);
    }

    /// Checks the budget at the step after the quantum. Fails once a limit is exceeded.
    pub fn step(&self, lua: &Lua) -> mlua::Result<()> {
        self.look_soon();
        if let Some(limit) = self.exceeded.get() {
            return Err(raise(self.describe(limit)));
        }
        let steps = u64::from(self.granted.take()) + 1;
        let Some(left) = self.steps_left.get().checked_sub(steps) else {
            return Err(self.interrupt(lua, Limit::Steps));
        };
        self.steps_left.set(left);
        let pace = self.pace();
        if pace == Pace::Late {
            return Err(self.interrupt(lua, Limit::Time));
        }
        if lua.used_memory() > self.collect_at.get() {
            // Collect garbage here: the VM decides by the number of allocations, not by their size,
            // and does not collect when its allocator refuses memory. So without this, a few large
            // strings of garbage could make a run fail.
            lua.gc_collect()?;
            self.collect_halfway_from(lua.used_memory());
        }
        if pace == Pace::Quick {
            self.grant(MAX_UNEXAMINED_STEPS);
        }
        Ok(())
    }

    /// Takes the quantum back, so that the next step is checked.
    pub fn look_soon(&self) {
        if self.granted.get() > 0 {
            let unused = Quantum::NONE.give().steps;
            self.granted.set(self.granted.get() - unused);
        }
    }

    /// Grants a quantum of this many steps, if the budget has them.
    fn grant(&self, steps: u32) {
        let steps = u64::from(steps).min(self.steps_left.get()) as u32;
        let heap_kib = i32::try_from(self.collect_at.get() >> 10).unwrap_or(i32::MAX);
        self.granted.set(steps);
        Quantum { steps, heap_kib }.give();
    }

    /// Records that a limit is exceeded, and returns the error to raise.
    pub fn exceed(&self, limit: Limit) -> mlua::Error {
        let first = self.exceeded.get().unwrap_or(limit);
        self.exceeded.set(Some(first));
        self.look_soon();
        raise(self.describe(first))
    }

    /// The limit that was exceeded first, if any.
    pub fn exceeded(&self) -> Option<Exceeded> {
        let limit = self.exceeded.get()?;
        let traceback = self.interrupted_at.borrow().clone();
        Some(Exceeded { limit, error: self.describe(limit), traceback })
    }

    /// Fails if the run may not return so many bytes.
    pub fn check_output(&self, bytes: usize) -> Result<()> {
        match &*self.running.borrow() {
            Some(running) if bytes > running.budget.output_bytes => {
                self.exceeded.set(self.exceeded.get().or(Some(Limit::Output)));
                self.look_soon();
                Err(describe(Limit::Output, &running.budget))
            }
            _ => Ok(()),
        }
    }

    pub fn host_bytes(&self) -> usize {
        self.host_bytes.get()
    }

    fn interrupt(&self, lua: &Lua, limit: Limit) -> mlua::Error {
        // An abort without a traceback is still an abort.
        if let Ok(traceback) = lua.traceback(None, 0) {
            *self.interrupted_at.borrow_mut() = traceback.to_string_lossy();
        }
        self.exceed(limit)
    }

    /// Sets the heap size at which the meter next collects garbage, half-way to the limit. So if
    /// the live data and the next allocation fit into the limit, garbage does not make the run
    /// fail.
    fn collect_halfway_from(&self, heap_bytes: usize) {
        let room = self.heap_limit.get().saturating_sub(heap_bytes);
        self.collect_at.set(heap_bytes.saturating_add(room / 2));
    }

    /// Outside of runs there is no deadline, and no quantum may be granted.
    fn pace(&self) -> Pace {
        self.running.borrow_mut().as_mut().map_or(Pace::Slow, Running::pace)
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
        Limit::Output => ("returned more than", &format!("{} bytes", budget.output_bytes)),
    };
    Error::exhausted(format!("the script {what} {allowed}"))
        .hint("let the program do less, or divide the work among several calls")
}

/// Lets a long-running host function be interrupted as the script is.
#[derive(Clone)]
pub struct Pulse(Rc<Meter>);

impl Pulse {
    pub(crate) fn new(meter: Rc<Meter>) -> Self {
        Self(meter)
    }

    /// Counts one step of the run, and checks its budget.
    ///
    /// # Errors
    /// `Exhausted` if the run has exceeded a limit. A host function that calls `step` must
    /// raise this error unchanged.
    pub fn step(&self, lua: &Lua) -> mlua::Result<()> {
        self.0.step(lua)
    }

    /// Checks the size of the output that a host function is about to return, in bytes.
    ///
    /// # Errors
    /// `Exhausted` if the run may not return so many bytes. The host function must raise this error
    /// unchanged.
    pub fn check_output(&self, bytes: usize) -> mlua::Result<()> {
        self.0.check_output(bytes).map_err(raise)
    }
}

/// Memory that values of the host library take outside the VM's heap, where the VM cannot see it.
#[derive(Clone)]
pub struct MemoryAccount(Rc<Meter>);

impl MemoryAccount {
    pub(crate) fn new(meter: Rc<Meter>) -> Self {
        Self(meter)
    }

    /// Takes `bytes` from the run's memory budget. Collects garbage first if the budget would be
    /// exceeded.
    ///
    /// # Errors
    /// `Exhausted` if the budget has too few bytes left. The host function must raise this error
    /// unchanged.
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
