//! Fuzz test of the decoder for an OSD's answers to calls of nacre's class. Any bytes give an
//! outcome or an error, and never a panic.

use bytes::Bytes;
use nacre_fuzz::fuzz;
use nacre_object::{CallReply, Error, ErrorKind, Op, OpResult, Reply};
use nacre_protocol::encode;
use nacre_protocol::proto::osd_answer::Answer;
use nacre_protocol::proto::{self as pb};
use prost::Message;

use crate::classes::plugin_call::Outcome;
use crate::ffi::Called;

const CRATE: &str = env!("CARGO_MANIFEST_DIR");

#[test]
fn fuzz_answers_of_osds() {
    let called = OpResult::Called(CallReply { status: 1, output: Bytes::from_static(b"output") });
    let results = vec![OpResult::Done, called, OpResult::Offset(7), OpResult::Data(Bytes::new())];
    let results = encode::reply(Reply { version: 0, results }).results;
    let error = Error::new(ErrorKind::Fault, "a text").hint("a hint");
    let fault = pb::OsdFault {
        program: "p".into(),
        version: 2,
        method: "m".into(),
        line: Some(3),
        limit: Some("time".into()),
        error: Some(encode::error(&error)),
    };
    let answers = [
        (Answer::Reply(pb::OsdReply { exists: true, results }), None),
        (Answer::Done(pb::OsdDone {}), Some(fault.clone())),
        (Answer::Error(encode::error(&error)), Some(fault)),
        (
            Answer::ProgramsNeeded(pb::ProgramsNeeded { digests: vec![Bytes::from_static(b"d")] }),
            None,
        ),
        (Answer::Unsuited(pb::Unsuited::LongReply.into()), None),
    ];
    let encoded = |(answer, fault)| pb::OsdAnswer { answer: Some(answer), fault }.encode_to_vec();
    fuzz(CRATE, "answers", &answers.map(encoded), |input| {
        let output = Bytes::copy_from_slice(input);
        Outcome::of(&[Op::Remove], &Called { status: 0, output, exists: true }).is_ok()
    });
}
