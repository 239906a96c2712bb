//! Bounds the time that all calls of one request together may take on a thread. Each call has a
//! budget of its own, but a request may hold a thousand calls. Without this bound, one request
//! could delay every client whose objects the thread serves.

use std::sync::OnceLock;
use std::time::Duration;

use nacre_clock::Clock;
use nacre_object::{CallAllowance, Error, Result};

/// The CPU time that all calls of a request may take together. It is enough for several calls that
/// use up their budgets.
const CPU_TIME: Duration = Duration::from_secs(1);
/// How long all calls of a request may take, including waits for the disk. The last call may begin
/// just before this time is over. Even then the request ends before an OSD considers its thread
/// stuck, which it does after 15 s (`osd_op_thread_timeout`).
const WALL_TIME: Duration = Duration::from_secs(5);
/// The CPU time is not read for requests that take less than this.
const QUICK: Duration = Duration::from_millis(50);

const _: () = assert!(QUICK.as_millis() < CPU_TIME.as_millis());
const _: () = assert!(CPU_TIME.as_millis() < WALL_TIME.as_millis());

/// How much of the allowance is left.
pub(crate) struct Allowance<'a> {
    clock: &'a dyn Clock,
    began: Duration,
    /// The thread's CPU time when it was first read, if the clock has CPU time.
    thread_began: OnceLock<Duration>,
}

impl<'a> Allowance<'a> {
    /// The whole allowance, from now on.
    pub fn new(clock: &'a dyn Clock) -> Self {
        Self { clock, began: clock.monotonic(), thread_began: OnceLock::new() }
    }

    /// The CPU time of a request so far. `took` is its elapsed time, which counts if the clock has
    /// no CPU time.
    fn used(&self, took: Duration) -> Duration {
        let Some(thread) = self.clock.thread_time() else { return took };
        thread.saturating_sub(*self.thread_began.get_or_init(|| thread))
    }
}

impl CallAllowance for Allowance<'_> {
    fn check(&self) -> Result<()> {
        let took = self.clock.monotonic().saturating_sub(self.began);
        if took < QUICK {
            return Ok(());
        }
        if took >= WALL_TIME || self.used(took) >= CPU_TIME {
            let text =
                format!("the calls of the request took {} ms, which is too long", took.as_millis());
            return Err(Error::exhausted(text).hint("send fewer calls at a time"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bytes::Bytes;
    use nacre_clock::ManualClock;
    use nacre_conformance::MemoryObject;
    use nacre_object::limits::MAX_OPS;
    use nacre_object::{
        CallContext, ClassCall, ClassName, EntityName, ErrorKind, MethodName, Op, run_transaction,
    };
    use nacre_program::Budget;

    use super::*;
    use crate::{ClassProgram, ClassRuntime};

    #[test]
    fn calls_may_begin_until_the_allowance_is_used_up() {
        let clock = ManualClock::at(1);
        let allowance = Allowance::new(&clock);
        for _ in 0..4 {
            allowance.check().unwrap();
            clock.advance(CPU_TIME / 4);
        }
        allowance.check().unwrap_err();
    }

    /// A clock that advances a millisecond with each reading.
    #[derive(Debug)]
    struct Ticking(ManualClock);

    impl Clock for Ticking {
        fn now_micros(&self) -> u64 {
            self.0.now_micros()
        }

        fn monotonic(&self) -> Duration {
            self.0.advance(Duration::from_millis(1));
            self.0.monotonic()
        }
    }

    #[test]
    fn the_calls_of_one_request_share_an_allowance() {
        let clock = Arc::new(Ticking(ManualClock::at(1)));
        let runtime = ClassRuntime::new(Budget::default(), clock.clone());
        // By this clock each step takes long, so the meter checks every step.
        let source =
            "function spin() for step = 1, 200 do end return 0 end objclass.register(spin)";
        let spinner = ClassProgram::new(ClassName::new("spinner").unwrap(), 1, source);
        runtime.install(&spinner).unwrap();
        let request = |calls: usize| {
            let began = clock.0.monotonic();
            let (class, method) = (spinner.name().clone(), MethodName::new("spin").unwrap());
            let call = ClassCall { class, method, version: None, input: Bytes::new() };
            let context = CallContext { source: EntityName::new("test").unwrap(), now_micros: 0 };
            let ops = vec![Op::Call(call); calls];
            let outcome = run_transaction(&ops, &mut MemoryObject::default(), &runtime, &context);
            (outcome.map(drop), clock.0.monotonic() - began)
        };
        let (outcome, took) = request(1);
        outcome.unwrap();
        assert!(took > Duration::from_millis(200), "{took:?}");
        request(3).0.unwrap();
        let (outcome, took) = request(MAX_OPS);
        let error = outcome.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Exhausted, "{error}");
        assert!(error.message().contains("the calls of the request"), "{error}");
        assert!(took < Duration::from_secs(2), "{took:?}");
        request(3).0.unwrap();
    }
}
