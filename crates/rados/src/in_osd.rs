//! Requests that are run next to their object, by a class inside its OSD.
//!
//! nacre's own class is tried first; where it is missing, Ceph's class `lua`, for programs that are made
//! for it ([`crate::stock_call`]). What neither can do the client does on its own, as
//! [`crate::transaction`] tells. **Invariant:** one way is left for the next only after an answer that
//! says that nothing happened: an operation that an OSD has failed, or an answer of our class. Nothing
//! is done twice; if nobody answers at all, that is the outcome.
//!
//! An OSD drops what a change answers past its `osd_max_write_op_reply_len`, though it makes the change.
//! So a class that would answer more changes nothing and says so; the client then runs the request
//! itself, and goes on doing so for a while with that method.

use std::sync::Arc;
use std::time::Duration;

use nacre_clock::Clock;
use nacre_object::{
    CallReply, ClassCall, ClassHost, ClassName, Error, MethodName, ObjectId, Op, OpResult, Reply,
    Request, Result,
};
use nacre_telemetry::Counter;

use crate::failure::{operation_failed, status};
use crate::ffi::{Answer, Call, Called, IoContext};
use crate::in_flight::InFlight;
use crate::long_answers::LongAnswers;
use crate::plugin_call::{Outcome, PluginCall, REPLY_BYTES};
use crate::remembered::Remembered;
use crate::stock_call::stock_call;

/// What is known of the OSDs' classes, and how often which was used.
#[derive(Debug, Default)]
pub struct InOsd {
    /// Objects whose OSD lacks our class, or Ceph's `lua`.
    lacks_plugin: Remembered,
    lacks_stock: Remembered,
    long_answers: LongAnswers,
    by_plugin: Counter,
    by_stock: Counter,
}

/// How many requests which class has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OsdCounts {
    /// nacre's class.
    pub by_plugin: u64,
    /// Ceph's class `lua`.
    pub by_stock: u64,
    /// None, though the OSD has nacre's: it would have dropped the answer, so this process ran them.
    pub long_answers: u64,
}

/// One request with what it takes to run it.
#[derive(Clone, Copy)]
pub struct OsdRequest<'a> {
    /// The namespace of the object's pool.
    pub context: &'a Arc<IoContext>,
    /// What bounds the work under way.
    pub in_flight: &'a InFlight,
    /// Knows the programs.
    pub classes: &'a dyn ClassHost,
    /// The request.
    pub request: &'a Request,
    /// Tells how long something was found out ago.
    pub clock: &'a dyn Clock,
}

/// What came of a call, unless it failed as every operation may.
enum Attempt {
    Called(Answer, Called),
    /// The OSD does not have the class, or not for us.
    Lacking,
    /// It failed in the OSD, with this status, for a reason that the client will find.
    Refused(i32),
}

impl InOsd {
    /// How often which class was used.
    pub fn counts(&self) -> OsdCounts {
        OsdCounts {
            by_plugin: self.by_plugin.get(),
            by_stock: self.by_stock.get(),
            long_answers: self.long_answers.requests(),
        }
    }

    /// The methods, as `CLASS.METHOD`, that are not run in OSDs at present, for the length of their answers.
    pub fn long_answers(&self, clock: &dyn Clock) -> Vec<String> {
        self.long_answers.methods(clock.monotonic())
    }

    /// Runs it in the OSD; `None` if it is the client's to run, and nothing happened.
    ///
    /// # Errors
    /// The request's own, and those of the cluster.
    pub async fn run(&self, asked: OsdRequest<'_>) -> Result<Option<Reply>> {
        let now = asked.clock.monotonic();
        if self.long_answers.hold(methods(asked.request), now) {
            return Ok(None);
        }
        if let Some(reply) = self.run_by_plugin(asked, now).await? {
            return Ok(Some(reply));
        }
        self.run_by_stock(asked, now).await
    }

    async fn run_by_plugin(&self, asked: OsdRequest<'_>, now: Duration) -> Result<Option<Reply>> {
        let object = asked.object();
        if self.lacks_plugin.holds(object, now) {
            return Ok(None);
        }
        let Some(call) = PluginCall::of(asked.request, asked.classes) else { return Ok(None) };
        let mut answered = asked.ask_plugin(&call.call()).await?;
        if matches!(answered, Some((_, Outcome::NeedsSources))) {
            answered = asked.ask_plugin(&call.call_with_sources()).await?;
        }
        let Some((version, outcome)) = answered else { return Ok(None) };
        match outcome {
            Outcome::Done { results, exists, fault } => {
                if let Some((fault, error)) = fault {
                    asked.classes.failed_elsewhere(&fault, &error.on(object));
                }
                self.by_plugin.add(1);
                return Ok(Some(Reply { version: if exists { version } else { 0 }, results }));
            }
            Outcome::Failed(error, fault) => {
                let error = error.on(object);
                // It is heard of where programs are looked after, wherever it happened.
                fault.iter().for_each(|fault| asked.classes.failed_elsewhere(fault, &error));
                return Err(error);
            }
            Outcome::Unusable => self.lacks_plugin.note(object, now),
            Outcome::LongReply => self.long_answers.note(methods(asked.request), now),
            Outcome::NeedsSources | Outcome::Unsuited => {}
        }
        Ok(None)
    }

    async fn run_by_stock(&self, asked: OsdRequest<'_>, now: Duration) -> Result<Option<Reply>> {
        let object = asked.object();
        if self.lacks_stock.holds(object, now) || !self.lacks_plugin.holds(object, now) {
            return Ok(None);
        }
        let Some(call) = stock_call(asked.request, asked.classes) else { return Ok(None) };
        match asked.attempt(&call).await? {
            Attempt::Called(answer, Called { status, output, exists }) => {
                self.by_stock.add(1);
                let version = if exists { answer.version } else { 0 };
                let results = vec![OpResult::Called(CallReply { status, output })];
                Ok(Some(Reply { version, results }))
            }
            Attempt::Lacking => {
                self.lacks_stock.note(object, now);
                Ok(None)
            }
            Attempt::Refused(_) => Ok(None),
        }
    }
}

impl OsdRequest<'_> {
    fn object(&self) -> &ObjectId {
        &self.request.header.object
    }

    /// What nacre's class answers, and the object's version; `None` if the OSD failed the call, as it
    /// does an inspection of what is absent.
    async fn ask_plugin(&self, call: &Call) -> Result<Option<(u64, Outcome)>> {
        Ok(match self.attempt(call).await? {
            Attempt::Called(answer, called) => {
                Some((answer.version, Outcome::of(&self.request.ops, &called)?))
            }
            Attempt::Lacking | Attempt::Refused(status::BROKEN) => Some((0, Outcome::Unusable)),
            Attempt::Refused(_) => None,
        })
    }

    async fn attempt(&self, call: &Call) -> Result<Attempt> {
        let _permit = self.in_flight.admit(call.input.len()).await?;
        let (answer, called) = self.context.call(self.object().name.as_str(), call).await;
        Ok(match (called, answer.status) {
            (Some(called), _) => Attempt::Called(answer, called),
            (None, status::UNSUPPORTED | status::NOT_PERMITTED) => Attempt::Lacking,
            (None, status::OVERFLOW) => return Err(answer_lost()),
            (None, status) if status::may_have_happened(status) => {
                return Err(operation_failed(status));
            }
            (None, status) => Attempt::Refused(status),
        })
    }
}

/// The OSD lets through less than any does by default: the change was made.
fn answer_lost() -> Error {
    Error::unavailable("the OSD made the change and dropped what was answered to it")
        .hint(format!("osd_max_write_op_reply_len must be at least {REPLY_BYTES} on every OSD"))
}

fn calls(request: &Request) -> impl Iterator<Item = &ClassCall> {
    request.ops.iter().filter_map(|op| match op {
        Op::Call(call) => Some(call),
        _ => None,
    })
}

fn methods(request: &Request) -> impl Iterator<Item = (&ClassName, &MethodName)> {
    calls(request).map(|call| (&call.class, &call.method))
}
