//! Helpers of the tests: they encode requests and decode answers.

#![allow(dead_code, reason = "each test uses its part of it")]

pub mod ceph;
pub mod memory_osd;

use bytes::Bytes;
use nacre_class::ClassProgram;
use nacre_object::{ClassCall, ClassName, Error, ObjectId, Op, Reply, Request};
use nacre_protocol::proto::osd_answer::Answer as OsdAnswer;
use nacre_protocol::proto::{self as pb};
use nacre_protocol::{OSD_INTERFACE, decode, encode};
use prost::Message;

/// The longest answer of a transaction that writes. It is long, because the suite also reads in
/// such transactions.
pub const MAX_REPLY_BYTES: u32 = 16 * 1024 * 1024;

/// The class's decoded answer.
#[derive(Debug)]
pub enum Outcome {
    /// The change happened. The version is left open.
    Done {
        exists: bool,
        reply: Reply,
    },
    Failed(Error),
    NeedsSources(Vec<Bytes>),
    Unsuited(pb::Unsuited),
}

impl Outcome {
    /// Decodes the answer `output` to `ops`.
    pub fn of(ops: &[Op], output: &[u8]) -> Self {
        let answer = pb::OsdAnswer::decode(output).expect("the class answers its own messages");
        match answer.answer.expect("one of them") {
            OsdAnswer::Reply(pb::OsdReply { exists, results }) => {
                let reply = decode::reply(pb::ObjectReply { version: 0, results }).unwrap();
                Self::Done { exists, reply }
            }
            OsdAnswer::Done(_) => {
                let results = decode::results_done(ops);
                Self::Done { exists: true, reply: Reply { version: 0, results } }
            }
            OsdAnswer::Error(error) => Self::Failed(decode::error(error)),
            OsdAnswer::ProgramsNeeded(needed) => Self::NeedsSources(needed.digests),
            OsdAnswer::Unsuited(why) => Self::Unsuited(why.try_into().unwrap()),
        }
    }

    #[track_caller]
    pub fn reply(self) -> Reply {
        match self {
            Self::Done { reply, .. } => reply,
            other => panic!("it did not happen: {other:?}"),
        }
    }

    #[track_caller]
    pub fn error(self) -> Error {
        match self {
            Self::Failed(error) => error,
            other => panic!("it did not fail: {other:?}"),
        }
    }
}

/// Whether a program is named by its digest alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Send {
    Digest,
    Source,
}

/// A request as the input of a method.
pub fn input(request: Request, programs: &[(&ClassProgram, Send)]) -> Vec<u8> {
    let program = |(program, send): &(&ClassProgram, Send)| pb::OsdProgram {
        class_name: program.name().to_string(),
        version: program.version(),
        digest: Bytes::copy_from_slice(program.digest().as_bytes()),
        source: match send {
            Send::Digest => Bytes::new(),
            Send::Source => Bytes::copy_from_slice(program.source().as_bytes()),
        },
    };
    let source = request.header.source.to_string();
    let programs = programs.iter().map(program).collect();
    let ops = encode::ops(request.ops);
    let (interface, max_reply_bytes) = (OSD_INTERFACE, MAX_REPLY_BYTES);
    pb::OsdRequest { ops, source, programs, interface, max_reply_bytes }.encode_to_vec()
}

pub fn request(object: &str, ops: Vec<Op>) -> Request {
    let object: ObjectId = format!("data/{object}").parse().unwrap();
    Request::new(object, ops).unwrap()
}

pub fn program(class: &str, version: u64, source: &str) -> ClassProgram {
    ClassProgram::new(ClassName::new(class).unwrap(), version, source)
}

pub fn call(class: &str, method: &str, input: impl Into<Bytes>) -> Op {
    let (class, method) = (class.parse().unwrap(), method.parse().unwrap());
    Op::Call(ClassCall { class, method, version: None, input: input.into() })
}
