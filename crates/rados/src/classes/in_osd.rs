//! Runs requests next to their object, by a class inside the object's OSD. The engine calls this
//! module before it runs a request itself.
//!
//! There are three ways to run a request. The client first calls nacre's own class in the OSD. If
//! the OSD lacks that class, Ceph's class `lua` can run programs that are made for it
//! ([`crate::classes::stock_call`]). Otherwise the client itself runs the request, as
//! [`crate::transaction`] describes.
//!
//! **Invariant:** the client tries the next way only if the previous one certainly changed nothing.
//! So nothing is done twice. If no answer comes at all, the request fails with an unknown outcome.
//!
//! An OSD may answer a change with "I lack the class" although the change has happened. The reason
//! is that librados resends a change to the OSD that replaces a dead one. The dead OSD may have had
//! the class and made the change. The new OSD checks whether it has the class before it checks
//! whether the change was made already. So before a client sends its first change to an OSD, it
//! finds out by a call that changes nothing whether the OSD has the class. If the OSD later answers
//! a change with "I lack the class", the outcome of that change is unknown.
//!
//! An answer to a change must not be longer than `osd_max_write_op_reply_len`. If it is, the OSD
//! drops the answer and the change, but the object keeps the size and the modification time that
//! the change gave to it. A long answer of a call that changed nothing stays in the OSD's log. So
//! if an answer would be too long, nacre's class changes nothing and answers only that the answer
//! is too long. The client then runs the request itself, and for a while also all other requests of
//! that method.

use std::sync::Arc;
use std::time::Duration;

use nacre_clock::Clock;
use nacre_object::{
    CallReply, ClassCall, ClassName, Error, MethodName, ObjectId, Op, OpResult, RemoteClassHost,
    Reply, Request, Result,
};
use nacre_telemetry::Counter;

use crate::classes::class_offers::{ClassOffers, Offering};
use crate::classes::long_answers::LongAnswers;
use crate::classes::plugin_call::{Outcome, PluginCall, REPLY_BYTES, empty_inspection};
use crate::classes::stock_call::{empty_stock_call, stock_call};
use crate::cluster::failure::{operation_failed, status};
use crate::cluster::placement_seed::PlacementSeed;
use crate::ffi::{Answer, Call, Called, IoContext};

/// Which OSDs have the classes, and how many requests each class ran.
#[derive(Debug, Default)]
pub struct InOsd {
    /// nacre's class.
    plugin: ClassOffers,
    /// Ceph's class `lua`.
    stock: ClassOffers,
    long_answers: LongAnswers,
    by_plugin: Counter,
    by_stock: Counter,
}

/// How many requests each class has run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OsdCounts {
    /// nacre's class.
    pub by_plugin: u64,
    /// Ceph's class `lua`.
    pub by_stock: u64,
    /// Requests that this process ran although the OSD has nacre's class, because the OSD would
    /// have dropped the long answer.
    pub long_answers: u64,
}

impl OsdCounts {
    /// The sum of both.
    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            by_plugin: self.by_plugin + other.by_plugin,
            by_stock: self.by_stock + other.by_stock,
            long_answers: self.long_answers + other.long_answers,
        }
    }
}

/// One request with everything that is needed to run it.
#[derive(Clone, Copy)]
pub struct OsdRequest<'a> {
    /// The namespace of the object's pool.
    pub context: &'a Arc<IoContext>,
    /// Knows the programs.
    pub classes: &'a dyn RemoteClassHost,
    /// The request.
    pub request: &'a Request,
    /// The clock that measures the age of findings.
    pub clock: &'a dyn Clock,
}

/// The result of a call, except for the errors that any operation may have.
enum Attempt<T> {
    /// The class has answered.
    Answered(T),
    /// Certainly nothing happened: the OSD has refused the request. The client will find the
    /// reason.
    Refused,
    /// Certainly nothing happened: the OSD does not have the class, or denies it to this client.
    Lacking,
    /// The OSD does not have the class. But the change may have happened: the OSD that it replaces
    /// may have had the class and made the change.
    MayHaveHappened,
}

/// An answer of nacre's class.
struct PluginAnswer {
    /// The object's version.
    version: u64,
    outcome: Outcome,
}

impl InOsd {
    /// How many requests each class ran.
    pub fn counts(&self) -> OsdCounts {
        OsdCounts {
            by_plugin: self.by_plugin.get(),
            by_stock: self.by_stock.get(),
            long_answers: self.long_answers.requests(),
        }
    }

    /// The methods, as `CLASS.METHOD`, that run in the client at present, because their answers are
    /// too long for an OSD.
    pub fn long_answers(&self, clock: &dyn Clock) -> Vec<String> {
        self.long_answers.methods(clock.monotonic())
    }

    /// Runs the request in the OSD. Returns `None` if the OSD changed nothing and the client must
    /// run the request itself.
    ///
    /// # Errors
    /// The errors of the request and of the cluster.
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
        let (object, seed) = (asked.object(), asked.seed());
        let offering = self.plugin.of(seed, now);
        if offering == Offering::Lacking {
            return Ok(None);
        }
        let Some(call) = PluginCall::of(asked.request, asked.classes) else { return Ok(None) };
        if call.writes() && offering == Offering::Unknown {
            let found = asked.ask_plugin(&empty_inspection()).await?;
            if self.note_plugin(seed, &found, now) == Offering::Lacking {
                return Ok(None);
            }
        }
        let mut attempt = asked.ask_plugin(&call.call()).await?;
        if let Attempt::Answered(PluginAnswer { outcome: Outcome::NeedsSources, .. }) = attempt {
            attempt = asked.ask_plugin(&call.call_with_sources()).await?;
        }
        self.note_plugin(seed, &attempt, now);
        let PluginAnswer { version, outcome } = match attempt {
            Attempt::Answered(answer) => answer,
            Attempt::Refused | Attempt::Lacking => return Ok(None),
            Attempt::MayHaveHappened => return Err(may_have_happened()),
        };
        match outcome {
            Outcome::Done { results, exists, fault } => {
                if let Some((fault, error)) = fault {
                    asked.classes.failed(&fault, &error.on(object));
                }
                self.by_plugin.add(1);
                return Ok(Some(Reply { version: if exists { version } else { 0 }, results }));
            }
            Outcome::Failed(error, fault) => {
                let error = error.on(object);
                // Report the fault here too, so that it reaches the cluster log although it
                // happened in the OSD.
                fault.iter().for_each(|fault| asked.classes.failed(fault, &error));
                return Err(error);
            }
            Outcome::LongReply => self.long_answers.note(methods(asked.request), now),
            Outcome::NeedsSources | Outcome::Unsuited | Outcome::Unusable => {}
        }
        Ok(None)
    }

    async fn run_by_stock(&self, asked: OsdRequest<'_>, now: Duration) -> Result<Option<Reply>> {
        let seed = asked.seed();
        let offering = self.stock.of(seed, now);
        if offering == Offering::Lacking || self.plugin.of(seed, now) != Offering::Lacking {
            return Ok(None);
        }
        let Some(call) = stock_call(asked.request, asked.classes) else { return Ok(None) };
        // An OSD treats every call of this class as a change.
        let changes = calls(asked.request).any(|call| !asked.classes.is_read_only(call));
        if changes && offering == Offering::Unknown {
            let found = asked.attempt(&empty_stock_call()).await?;
            if self.note_stock(seed, &found, now) == Offering::Lacking {
                return Ok(None);
            }
        }
        let attempt = asked.attempt(&call).await?;
        self.note_stock(seed, &attempt, now);
        match attempt {
            Attempt::Answered((answer, Called { status, output, exists })) => {
                self.by_stock.add(1);
                let version = if exists { answer.version } else { 0 };
                let results = vec![OpResult::Called(CallReply { status, output })];
                Ok(Some(Reply { version, results }))
            }
            Attempt::MayHaveHappened if changes => Err(may_have_happened()),
            Attempt::Refused | Attempt::Lacking | Attempt::MayHaveHappened => Ok(None),
        }
    }

    /// Stores what an attempt shows about nacre's class, and returns it.
    fn note_plugin(
        &self,
        seed: PlacementSeed,
        attempt: &Attempt<PluginAnswer>,
        now: Duration,
    ) -> Offering {
        let is_usable = |answer: &PluginAnswer| !matches!(answer.outcome, Outcome::Unusable);
        self.plugin.note(seed, attempt.offering(is_usable), now)
    }

    /// As [`Self::note_plugin`], of Ceph's class `lua`.
    fn note_stock<T>(&self, seed: PlacementSeed, attempt: &Attempt<T>, now: Duration) -> Offering {
        self.stock.note(seed, attempt.offering(|_| true), now)
    }
}

impl<T> Attempt<T> {
    /// What the attempt shows about the class in the object's OSD. An answer counts only if
    /// `is_usable`.
    fn offering(&self, is_usable: impl Fn(&T) -> bool) -> Offering {
        match self {
            Self::Answered(answer) if is_usable(answer) => Offering::Offered,
            Self::Refused => Offering::Offered,
            Self::Answered(_) | Self::Lacking | Self::MayHaveHappened => Offering::Lacking,
        }
    }
}

impl OsdRequest<'_> {
    fn object(&self) -> &ObjectId {
        &self.request.header.object
    }

    fn seed(&self) -> PlacementSeed {
        PlacementSeed::of(self.object())
    }

    async fn ask_plugin(&self, call: &Call) -> Result<Attempt<PluginAnswer>> {
        Ok(match self.attempt(call).await? {
            Attempt::Answered((Answer { version, .. }, called)) => {
                let outcome = Outcome::of(&self.request.ops, &called)?;
                Attempt::Answered(PluginAnswer { version, outcome })
            }
            Attempt::Refused => Attempt::Refused,
            Attempt::Lacking => Attempt::Lacking,
            Attempt::MayHaveHappened => Attempt::MayHaveHappened,
        })
    }

    async fn attempt(&self, call: &Call) -> Result<Attempt<(Answer, Called)>> {
        let (answer, called) = self.context.call(self.object().name.as_str(), call).await;
        Ok(match (called, answer.status) {
            (Some(called), _) => Attempt::Answered((answer, called)),
            (None, status) if status::lacks_class(status) && call.writes => {
                Attempt::MayHaveHappened
            }
            (None, status) if status::lacks_class(status) => Attempt::Lacking,
            (None, status::OVERFLOW) => return Err(answer_dropped()),
            (None, status) if status::may_have_happened(status) => {
                return Err(operation_failed(status));
            }
            (None, _) => Attempt::Refused,
        })
    }
}

/// The OSD that answered last lacks the class.
fn may_have_happened() -> Error {
    Error::unavailable(
        "the OSD lacks the class, but the OSD that it replaces may have made the change",
    )
    .hint("read the object to see whether the change was made; `nacre ceph install` gives every OSD the class")
}

/// The OSD is configured to allow even shorter answers than Ceph's lowest default. The client must
/// not run the request itself, because the dropped change has left its size in the object.
fn answer_dropped() -> Error {
    Error::unavailable("the OSD dropped the change because the answer to it was too long")
        .hint(format!("set osd_max_write_op_reply_len to at least {REPLY_BYTES} on every OSD"))
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
