//! A request as a call of nacre's class inside an OSD (`nacre/v1/osd.proto`), and back.

use std::sync::Arc;

use bytes::Bytes;
use nacre_object::{
    ClassForm, ClassName, ClassSource, Error, Op, OpResult, RemoteClassHost, RemoteFault, Reply,
    Request, Result,
};
use nacre_protocol::proto::osd_answer::Answer;
use nacre_protocol::proto::{self as pb, Unsuited};
use nacre_protocol::{OSD_INTERFACE, decode, encode};
use prost::Message;

use crate::ffi::{Call, Called};

/// The longest answer to a change that the client requests, in bytes. Every OSD allows this length:
/// it is the smallest default of `osd_max_write_op_reply_len`, and not every client may read that
/// setting. If an answer is longer, the OSD drops the change, but leaves the size that the change
/// gave to the object.
pub const REPLY_BYTES: u32 = 64;

/// A request that the class in the OSD can run.
#[derive(Debug)]
pub struct PluginCall {
    message: pb::OsdRequest,
    sources: Vec<Arc<str>>,
    writes: bool,
}

/// The class's answer.
#[derive(Debug)]
pub enum Outcome {
    /// It happened.
    Done {
        /// The results of the ops.
        results: Vec<OpResult>,
        /// Whether the object exists now.
        exists: bool,
        /// A fault of a program that failed a part of the request, with its error.
        fault: Option<(RemoteFault, Error)>,
    },
    /// It failed, and nothing happened.
    Failed(Error, Option<RemoteFault>),
    /// The class lacks sources of programs; nothing happened.
    NeedsSources,
    /// The request may change something, and its reply would be longer than an OSD allows. The OSD
    /// has changed nothing.
    LongReply,
    /// The class cannot run this request; nothing happened.
    Unsuited,
    /// The OSD has no nacre class, or that of another release; nothing happened.
    Unusable,
}

impl PluginCall {
    /// The call of nacre's class for a request. `None` if the class cannot run the request or would
    /// not help. The class helps if the request calls a method that other processes can run too, or
    /// if a change depends on the object's state.
    pub fn of(request: &Request, classes: &dyn RemoteClassHost) -> Option<Self> {
        let mut programs: Vec<(ClassName, ClassSource)> = Vec::new();
        let (mut writes, mut calls, mut reads) = (false, false, false);
        for op in &request.ops {
            match op {
                Op::Call(call) => {
                    calls = true;
                    writes |= !classes.is_read_only(call);
                    match classes.form(&call.class) {
                        ClassForm::Here => return None,
                        ClassForm::Native => {}
                        ClassForm::Program(_) if programs.iter().any(|p| p.0 == call.class) => {}
                        ClassForm::Program(source) => programs.push((call.class.clone(), source)),
                    }
                }
                // No object class can.
                Op::RemoveAttribute { .. } => return None,
                op if op.is_write() => writes = true,
                op => reads |= answers_data(op),
            }
        }
        // The class does not help a request without calls that only reads: the client needs one
        // fetch for it anyway. Nor does it help a request that both reads and writes: an OSD
        // returns too little data with a change.
        if !(calls || writes) || (writes && reads) {
            return None;
        }
        let sources = programs.iter().map(|(_, program)| program.source.clone()).collect();
        let message = pb::OsdRequest {
            ops: encode::ops(request.ops.clone()),
            source: request.header.source.to_string(),
            programs: programs.into_iter().map(named).collect(),
            interface: OSD_INTERFACE,
            max_reply_bytes: REPLY_BYTES,
        };
        Some(Self { message, sources, writes })
    }

    /// Whether the call may change something.
    pub fn writes(&self) -> bool {
        self.writes
    }

    /// The call, in which programs are named by their digests.
    pub fn call(&self) -> Call {
        self.encoded(&self.message)
    }

    /// The call, which contains the sources of the programs.
    pub fn call_with_sources(&self) -> Call {
        let mut message = self.message.clone();
        for (program, source) in message.programs.iter_mut().zip(&self.sources) {
            program.source = Bytes::copy_from_slice(source.as_bytes());
        }
        self.encoded(&message)
    }

    fn encoded(&self, message: &pb::OsdRequest) -> Call {
        call_of(message, self.writes)
    }
}

/// A call of nacre's class without a request. The class does nothing and says whether it belongs to
/// this release. The call uses the writing method, which an OSD also runs on an object that does
/// not exist.
pub fn empty_plugin_call() -> Call {
    call_of(&empty_request(), true)
}

/// Like [`empty_plugin_call`], but calls the read-only method, so that the OSD keeps no entry for
/// the call in its log. If the object does not exist, the OSD answers only that, and does not run
/// the class.
pub fn empty_inspection() -> Call {
    call_of(&empty_request(), false)
}

fn empty_request() -> pb::OsdRequest {
    pb::OsdRequest { interface: OSD_INTERFACE, ..Default::default() }
}

fn call_of(message: &pb::OsdRequest, writes: bool) -> Call {
    let method = if writes { c"submit" } else { c"inspect" };
    let input = message.encode_to_vec().into();
    Call { class: c"nacre", method, input, writes, asks_existence: false }
}

/// Whether the op's result holds bytes of the object: an OSD sends few along with a change.
fn answers_data(op: &Op) -> bool {
    !matches!(op, Op::AssertExists | Op::AssertAbsent | Op::AssertVersion(_) | Op::Stat)
}

fn named((class, program): (ClassName, ClassSource)) -> pb::OsdProgram {
    pb::OsdProgram {
        class_name: class.to_string(),
        version: program.version,
        digest: Bytes::copy_from_slice(&program.digest),
        source: Bytes::new(),
    }
}

impl Outcome {
    /// Decodes the answer of the class to `ops`.
    ///
    /// # Errors `Corrupt` if the answer is malformed.
    pub fn of(ops: &[Op], called: &Called) -> Result<Self> {
        let senseless = |what: &str| {
            Error::corrupt(format!("the answer of nacre's class in the OSD is malformed: {what}"))
                .hint("install the class of this release with `nacre ceph install`")
        };
        let answer = pb::OsdAnswer::decode(called.output.clone())
            .map_err(|error| senseless(&error.to_string()))?;
        let mut fault = answer.fault;
        let failed_with = fault.as_mut().and_then(|fault| fault.error.take()).map(decode::error);
        let fault = fault.map(remote);
        Ok(match answer.answer.ok_or_else(|| senseless("it is empty"))? {
            Answer::Done(pb::OsdDone {}) => {
                let results = decode::results_done(ops);
                Self::Done { results, exists: true, fault: fault.zip(failed_with) }
            }
            Answer::Reply(pb::OsdReply { exists, results }) => {
                let Reply { results, .. } = decode::reply(pb::ObjectReply { version: 0, results })?;
                let results = results.into_iter().map(in_seconds).collect();
                Self::Done { results, exists, fault: fault.zip(failed_with) }
            }
            Answer::Error(error) => Self::Failed(decode::error(error), fault),
            Answer::ProgramsNeeded(_) => Self::NeedsSources,
            Answer::Unsuited(why) => match Unsuited::try_from(why) {
                Ok(Unsuited::OtherInterface) => Self::Unusable,
                Ok(Unsuited::LongReply) => Self::LongReply,
                _ => Self::Unsuited,
            },
        })
    }
}

fn remote(fault: pb::OsdFault) -> RemoteFault {
    let pb::OsdFault { program, version, method, line, limit, error: _ } = fault;
    RemoteFault { program, version, method, line, limit }
}

/// librados reports times in whole seconds, so every way to run a request must round to seconds.
fn in_seconds(result: OpResult) -> OpResult {
    match result {
        OpResult::Stat(mut stat) => {
            stat.modified_micros -= stat.modified_micros % 1_000_000;
            OpResult::Stat(stat)
        }
        other => other,
    }
}
