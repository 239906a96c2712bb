//! What one request may take of this process, all its rounds and attempts together.
//!
//! Each call has a budget of its own. But a request may have a thousand calls, all of which are run again
//! whenever something was missing, and when another client was faster: then they are run on what was
//! fetched since, from the start.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use nacre_clock::Clock;
use nacre_object::{
    CallAllowance, CallContext, CallReply, ClassCall, ClassHost, Error, ObjectView,
    RemoteClassHost, RemoteFault, Result,
};

/// Of a CPU: some calls that need all of theirs, or a good one that is run again for each of many fetches.
const RUNNING_TIME: Duration = Duration::from_secs(5);
/// How often a request is run: a walk over a whole map takes many fetches.
const MAX_ROUNDS: usize = 10_000;

/// What is left of it.
#[derive(Debug)]
pub struct Allowance<'a> {
    clock: &'a dyn Clock,
    /// What rounds that are over took.
    used: Duration,
    rounds: usize,
}

/// One run of a request, and the classes as it may call them: what they are allowed is what is left.
pub struct Round<'a> {
    clock: &'a dyn Clock,
    classes: &'a dyn RemoteClassHost,
    used: &'a mut Duration,
    used_before: Duration,
    began: Duration,
    /// Faults of programs, which nobody hears of before the run counts.
    faults: Mutex<Vec<(RemoteFault, Error)>>,
}

impl<'a> Allowance<'a> {
    /// All of it.
    pub fn new(clock: &'a dyn Clock) -> Self {
        Self { clock, used: Duration::ZERO, rounds: 0 }
    }

    /// Begins a run, which lasts as long as what this answers, and stays on its thread.
    ///
    /// # Errors
    /// `Exhausted` if those before have used it up.
    pub fn begin<'b>(&'b mut self, classes: &'b dyn RemoteClassHost) -> Result<Round<'b>> {
        check(self.used)?;
        if self.rounds == MAX_ROUNDS {
            let text = format!("the transaction looked at {MAX_ROUNDS} parts of the object");
            return Err(Error::exhausted(text).hint("read less of it at a time"));
        }
        self.rounds += 1;
        let (used_before, began) = (self.used, now(self.clock));
        let (clock, used, faults) = (self.clock, &mut self.used, Mutex::default());
        Ok(Round { clock, classes, used, used_before, began, faults })
    }
}

impl Round<'_> {
    /// Says that the run counts, so its faults are heard of.
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
    let text = format!("the request ran for {} ms, all runs together", used.as_millis());
    Err(Error::exhausted(text).hint("send fewer calls at a time, or look at less of the object"))
}

/// What the thread had of a CPU, where the clock can tell it: a run does not wait, but may be kept waiting.
fn now(clock: &dyn Clock) -> Duration {
    clock.thread_time().unwrap_or_else(|| clock.monotonic())
}
