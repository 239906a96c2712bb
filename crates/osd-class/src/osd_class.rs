//! Runs one call of the class `nacre`: decodes its input, runs the transaction, and encodes the
//! answer.

use std::sync::Arc;

use bytes::Bytes;
use nacre_channels::channels_class;
use nacre_class::{ClassRuntime, FaultSink};
use nacre_clock::Clock;
use nacre_log::log_class;
use nacre_object::{
    CallContext, CallReply, ClassHost, ClassName, EntityName, Error, Op, OpResult, Reply, Result,
    bounds, run_transaction,
};
use nacre_program::{Budget, Digest};
use nacre_protocol::proto::osd_answer::Answer;
use nacre_protocol::proto::{self as pb, Unsuited};
use nacre_protocol::{OSD_INTERFACE, decode, encode};
use nacre_registry::{events_class, map_class};
use prost::Message;

use crate::classes::RequestClasses;
use crate::fault_capture::FaultCapture;
use crate::program_cache::{ProgramCache, ProgramKey};
use crate::{Change, OsdObject, View};

/// How many programs one request may name. A sensible request calls fewer classes.
const MAX_REQUEST_PROGRAMS: usize = 64;

/// The most bytes of an error's message, hint or traceback in an answer to `submit`. Every replica
/// of the OSD's log keeps the answer, together with thousands of others.
const MAX_ERROR_TEXT_BYTES: usize = 512;

/// Which method of the class was called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// `submit`: it may change the object.
    Submit,
    /// `inspect`: it may not.
    Inspect,
}

/// The class `nacre`: the state that its calls share.
pub struct OsdClass {
    native: ClassRuntime,
    programs: ProgramCache,
    clock: Arc<dyn Clock>,
}

/// Why a call ends without a successful transaction. The object is unchanged.
enum Refusal {
    Failed(Error),
    Needs(Vec<Bytes>),
    Unsuited(Unsuited),
}

/// A transaction that succeeded.
struct Done {
    /// The answer, encoded.
    reply: Vec<u8>,
    /// The changes for the OSD.
    changes: Vec<Change>,
}

impl Done {
    /// Why it cannot be left at that.
    fn hindrance(&self, mode: Mode, max_reply_bytes: usize) -> Option<Unsuited> {
        let changes = !self.changes.is_empty();
        if changes && mode == Mode::Inspect {
            Some(Unsuited::Writes)
        } else if self.changes.iter().any(|change| matches!(change, Change::RemoveAttribute(_))) {
            Some(Unsuited::RemovesAttribute)
        } else if mode == Mode::Submit && self.reply.len() > max_reply_bytes {
            // If nothing changed, the OSD sends even a long answer, and keeps it in its log.
            Some(Unsuited::LongReply)
        } else {
            None
        }
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl OsdClass {
    /// Makes the object class with the native classes of nacre. It reports faults of programs to
    /// `sink`.
    ///
    /// # Errors
    /// An error means a mistake in the native classes.
    pub fn new(clock: Arc<dyn Clock>, sink: Arc<dyn FaultSink>) -> Result<Self> {
        let sink: Arc<dyn FaultSink> = Arc::new(FaultCapture(sink));
        let native = ClassRuntime::new(Budget::default(), clock.clone()).reporting_to(sink.clone());
        for class in [map_class(), events_class(), log_class(), channels_class()] {
            native.register_native(class)?;
        }
        Ok(Self { native, programs: ProgramCache::new(clock.clone(), sink), clock })
    }

    /// Runs the request in `input` on `object`. Returns the answer; if the request failed, the
    /// answer contains the error.
    ///
    /// # Errors
    /// Only errors of the OSD while it applied the changes. The call must then fail, because the
    /// OSD may have applied some of the changes. Any other failure is part of the answer.
    pub fn call(&self, mode: Mode, input: Bytes, object: &mut dyn OsdObject) -> Result<Vec<u8>> {
        FaultCapture::take();
        let answer = match self.run(mode, input, object) {
            Ok(Done { reply, changes }) => {
                changes.into_iter().try_for_each(|change| object.apply(change))?;
                return Ok(reply);
            }
            Err(Refusal::Failed(error)) if mode == Mode::Submit => {
                Answer::Error(shortened(encode::error(&error)))
            }
            Err(Refusal::Failed(error)) => Answer::Error(encode::error(&error)),
            Err(Refusal::Needs(digests)) => Answer::ProgramsNeeded(pb::ProgramsNeeded { digests }),
            Err(Refusal::Unsuited(why)) => Answer::Unsuited(why.into()),
        };
        // The answer itself already has the error of the fault.
        let fault = FaultCapture::take().map(|fault| pb::OsdFault { error: None, ..fault });
        Ok(encoded(answer, fault))
    }

    /// Runs the request, and returns its changes without applying them.
    fn run(&self, mode: Mode, input: Bytes, object: &mut dyn OsdObject) -> Result<Done, Refusal> {
        let message = pb::OsdRequest::decode(input).map_err(|error| {
            Error::invalid(format!("the input is not a request of nacre: {error}"))
                .hint("call the class through nacre's engine")
        })?;
        if message.interface != OSD_INTERFACE {
            return Err(Refusal::Unsuited(Unsuited::OtherInterface));
        }
        let ops = decode::ops(message.ops)?;
        bounds::check_ops(&ops)?;
        let max_reply_bytes = message.max_reply_bytes as usize;
        let source = EntityName::new(message.source)?;
        let programs = self.programs_of(message.programs)?;
        let classes = RequestClasses { native: &self.native, programs };
        if !classes.hold_all_of(&ops) {
            return Err(Refusal::Unsuited(Unsuited::UnknownClass));
        }
        let context = CallContext { source, now_micros: self.clock.now_micros() };
        let done = transact(&ops, &classes, &context, object)?;
        match done.hindrance(mode, max_reply_bytes) {
            Some(why) => Err(Refusal::Unsuited(why)),
            None => Ok(done),
        }
    }

    fn programs_of(
        &self,
        named: Vec<pb::OsdProgram>,
    ) -> Result<Vec<(ClassName, Arc<ClassRuntime>)>, Refusal> {
        if named.len() > MAX_REQUEST_PROGRAMS {
            let error = Error::invalid(format!("a request cannot carry {} programs", named.len()));
            return Err(error.hint(format!("send at most {MAX_REQUEST_PROGRAMS}")).into());
        }
        let mut programs = Vec::with_capacity(named.len());
        let mut needed = Vec::new();
        for program in named {
            let key = key_of(&program)?;
            let runtime = match self.programs.get(&key) {
                Some(runtime) => runtime,
                None if program.source.is_empty() => {
                    needed.push(program.digest);
                    continue;
                }
                None => self.programs.compile(&key, &program.source)?,
            };
            programs.push((key.class, runtime));
        }
        if needed.is_empty() { Ok(programs) } else { Err(Refusal::Needs(needed)) }
    }
}

fn key_of(program: &pb::OsdProgram) -> Result<ProgramKey> {
    let class = ClassName::new(program.class_name.as_str())?;
    let digest: [u8; 32] = program.digest[..].try_into().map_err(|_| {
        Error::invalid(format!("the digest of {class} has {} bytes, not 32", program.digest.len()))
            .hint("send the SHA-256 of the source")
    })?;
    Ok(ProgramKey { class, version: program.version, digest: Digest::from(digest) })
}

fn transact(
    ops: &[Op],
    classes: &dyn ClassHost,
    context: &CallContext,
    object: &mut dyn OsdObject,
) -> Result<Done> {
    let mut view = View::new(object);
    let results = run_transaction(ops, &mut view, classes, context)?;
    let answer = answer(results, view.is_present()?);
    Ok(Done { reply: encoded(answer, FaultCapture::take()), changes: view.into_changes()? })
}

/// The answer with the results, and whether the object exists. RADOS itself returns the version.
fn answer(results: Vec<OpResult>, exists: bool) -> Answer {
    let says_no_more = |result: &OpResult| match result {
        OpResult::Done => true,
        OpResult::Called(CallReply { status, output }) => *status == 0 && output.is_empty(),
        _ => false,
    };
    if exists && results.iter().all(says_no_more) {
        return Answer::Done(pb::OsdDone {});
    }
    let results = encode::reply(Reply { version: 0, results }).results;
    Answer::Reply(pb::OsdReply { exists, results })
}

/// Shortens the texts of an error, so that an OSD can keep it in its log.
fn shortened(mut error: pb::Error) -> pb::Error {
    let traceback = error.fault.as_mut().map(|fault| &mut fault.traceback);
    for text in [&mut error.message, &mut error.hint].into_iter().chain(traceback) {
        let mut end = text.len().min(MAX_ERROR_TEXT_BYTES);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
    }
    error
}

fn encoded(answer: Answer, fault: Option<pb::OsdFault>) -> Vec<u8> {
    pb::OsdAnswer { answer: Some(answer), fault }.encode_to_vec()
}
