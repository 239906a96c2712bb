//! Limits how much CPU time and how many runs one request may take in this process, over all its
//! attempts.
//!
//! Each call has its own budget, but a request may have a thousand calls. All its calls run again
//! from the start whenever a part of the object must be fetched first, or another client has
//! changed the object.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use nacre_clock::Clock;
use nacre_object::{
    CallAllowance, CallContext, CallReply, ClassCall, ClassHost, Error, ObjectView,
    RemoteClassHost, RemoteFault, Result,
};

/// How much CPU time all runs of a request may take together. This is enough for some calls that
/// use their whole budgets, or for one long call that runs again after each of many fetches.
const RUNNING_TIME: Duration = Duration::from_secs(5);
/// How many times a request may run. A walk over a whole map takes many fetches.
const MAX_ROUNDS: usize = 10_000;

/// The allowance of one request, and how much of it is used.
#[derive(Debug)]
pub struct Allowance<'a> {
    clock: &'a dyn Clock,
    /// CPU time of the runs that have ended.
    used: Duration,
    rounds: usize,
}

/// One run of a request. Its classes may use the remaining allowance.
pub struct Round<'a> {
    clock: &'a dyn Clock,
    classes: &'a dyn RemoteClassHost,
    used: &'a mut Duration,
    used_before: Duration,
    began: Duration,
    /// Faults of programs, which are reported only if the run counts.
    faults: Mutex<Vec<(RemoteFault, Error)>>,
}

impl<'a> Allowance<'a> {
    /// A whole allowance.
    pub fn new(clock: &'a dyn Clock) -> Self {
        Self { clock, used: Duration::ZERO, rounds: 0 }
    }

    /// Begins a run of the request. The run ends when the returned value is dropped, and must stay
    /// on its thread.
    ///
    /// # Errors
    /// `Exhausted` if earlier runs have used up the allowance.
    pub fn begin<'b>(&'b mut self, classes: &'b dyn RemoteClassHost) -> Result<Round<'b>> {
        check(self.used)?;
        if self.rounds == MAX_ROUNDS {
            let text = format!("the transaction read {MAX_ROUNDS} parts of the object");
            return Err(Error::exhausted(text).hint("read less of the object at a time"));
        }
        self.rounds += 1;
        let (used_before, began) = (self.used, now(self.clock));
        let (clock, used, faults) = (self.clock, &mut self.used, Mutex::default());
        Ok(Round { clock, classes, used, used_before, began, faults })
    }
}

impl Round<'_> {
    /// Records that the run counts, so that its faults are reported.
    pub fn report(&self) {
        let faults = self.faults.lock().unwrap_or_else(PoisonError::into_inner);
        faults.iter().for_each(|(fault, error)| self.classes.failed(fault, error));
    }

    fn used(&self) -> Duration {
        self.used_before + now(self.clock).saturating_sub(self.began)
    }
}

impl Drop for Round<'_> {
    fn drop(&mut self) {
        *self.used = self.used();
    }
}

impl ClassHost for Round<'_> {
    fn is_read_only(&self, call: &ClassCall) -> bool {
        self.classes.is_read_only(call)
    }

    fn call(
        &self,
        call: &ClassCall,
        view: &mut dyn ObjectView,
        context: &CallContext,
    ) -> Result<CallReply> {
        let (outcome, faults) = self.classes.call_unreported(call, view, context);
        self.faults.lock().unwrap_or_else(PoisonError::into_inner).extend(faults);
        outcome
    }

    fn allowance(&self) -> Box<dyn CallAllowance + '_> {
        Box::new(self)
    }
}

impl CallAllowance for &Round<'_> {
    fn check(&self) -> Result<()> {
        check(self.used())
    }
}

fn check(used: Duration) -> Result<()> {
    if used < RUNNING_TIME {
        return Ok(());
    }
    let text = format!("all runs of the request together took {} ms", used.as_millis());
    Err(Error::exhausted(text).hint("send fewer calls at a time, or read less of the object"))
}

/// The CPU time of this thread, if the clock can measure it; otherwise a monotonic time. A run
/// never waits, but other processes may occupy the processor, and CPU time does not include that
/// delay.
fn now(clock: &dyn Clock) -> Duration {
    clock.thread_time().unwrap_or_else(|| clock.monotonic())
}
