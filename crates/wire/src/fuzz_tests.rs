//! Fuzz tests of parsers: of bytes that come from the peer of a connection, and of files that a
//! connecting client reads.

use bytes::Bytes;
use nacre_fuzz::fuzz;
use nacre_object::{EntityName, MapEntry, Op, Request};
use prost::Message;
use tokio_rustls::rustls::pki_types::CertificateDer;

use crate::codec::Batch;
use crate::identity::certified;
use crate::{Authority, Endpoint, Identity, Usage};
use nacre_protocol::proto::client_message::Body as Asked;
use nacre_protocol::proto::op::Op as PbOp;
use nacre_protocol::proto::server_message::Body as Answer;
use nacre_protocol::proto::{self as pb, ClientMessage, ServerMessage};
use nacre_protocol::unfold::{Outline, Unfolded, outline};
use nacre_protocol::{decode, encode};

const CRATE: &str = env!("CARGO_MANIFEST_DIR");

fn client_batch(body: Asked) -> Vec<u8> {
    let message =
        ClientMessage { id: 7, timeout_micros: 5, trace_id: 9, span_id: 3, body: Some(body) };
    pb::ClientBatch { messages: vec![message] }.encode_to_vec()
}

fn server_batch(body: Answer) -> Vec<u8> {
    let message = ServerMessage { id: 7, body: Some(body) };
    pb::ServerBatch { messages: vec![message] }.encode_to_vec()
}

/// Checks that the numbers of ops and keys computed before decoding are never less than those of
/// the decoded message.
fn check_outline(message: Bytes) {
    const ANY: Unfolded = Unfolded { ops: 1 << 32, keys: 1 << 32 };
    let Outline { id, unfolded } = outline(&message, ANY);
    let (unfolded, length) = (unfolded.unwrap(), message.len());
    assert!(unfolded.bytes() <= Unfolded::most_bytes(length));
    let Ok(message) = ClientMessage::decode(message) else { return };
    assert_eq!(id, message.id);
    let Some(Asked::Request(request)) = message.body else { return };
    let keys = request.ops.iter().filter_map(|op| op.op.as_ref()).map(|op| match op {
        PbOp::MapGet(keys) | PbOp::MapRemove(keys) => keys.keys.len(),
        PbOp::MapSet(entries) => entries.entries.len(),
        _ => 0,
    });
    assert!(keys.sum::<usize>() <= unfolded.keys);
    assert!(request.ops.len() <= unfolded.ops);
}

#[test]
fn fuzz_client_batches() {
    let ops = vec![
        Op::Write { offset: 3, data: Bytes::from_static(b"abc") },
        Op::MapRange { after: Bytes::new(), prefix: Bytes::from_static(b"p"), limit: 3 },
        Op::MapGet { keys: vec![Bytes::from_static(b"k"); 2] },
        Op::MapSet {
            entries: vec![MapEntry { key: Bytes::from_static(b"k"), value: Bytes::new() }],
        },
        Op::MapRemove { keys: vec![Bytes::from_static(b"k")] },
        Op::CloneFrom { source: "b".parse().unwrap(), snapshot: "s".parse().unwrap() },
    ];
    let request = Request::new("data/a".parse().unwrap(), ops).unwrap();
    let (pool, object) = ("data".to_owned(), "a".to_owned());
    let samples = [
        client_batch(Asked::Request(encode::request(request))),
        client_batch(Asked::List(pb::ListRequest { pool: pool.clone(), ..Default::default() })),
        client_batch(Asked::Watch(pb::Watch { pool: pool.clone(), object: object.clone() })),
        client_batch(Asked::Notify(pb::Notify { pool, object, payload: Bytes::new() })),
        client_batch(Asked::Ask(pb::Ask { service: "node".to_owned(), ..Default::default() })),
        client_batch(Asked::Hello(pb::Hello {
            protocol_version: 1,
            client_name: "c".to_owned(),
            ..pb::Hello::default()
        })),
    ];
    fuzz(CRATE, "client_batches", &samples, |input| {
        Batch::new(Bytes::copy_from_slice(input)).flatten().for_each(check_outline);
        let Ok(messages) = Batch::new(Bytes::copy_from_slice(input)).decode::<ClientMessage>()
        else {
            return false;
        };
        messages.into_iter().all(|message| match message.body {
            Some(Asked::Request(request)) => decode::request(request).is_ok(),
            Some(Asked::List(list)) => decode::list_request(list).is_ok(),
            Some(Asked::Watch(watch)) => decode::object(&watch.pool, &watch.object).is_ok(),
            Some(Asked::Notify(notify)) => decode::object(&notify.pool, &notify.object).is_ok(),
            _ => true,
        })
    });
}

#[test]
fn fuzz_server_batches() {
    let error = nacre_object::Error::stale("behind").on("data/a").hint("again").with_status(-3);
    let result = |result| pb::OpResult { result: Some(result) };
    let results = vec![
        result(pb::op_result::Result::Data(Bytes::from_static(b"abc"))),
        result(pb::op_result::Result::Offset(4)),
    ];
    let samples = [
        server_batch(Answer::Reply(pb::ObjectReply { version: 3, results })),
        server_batch(Answer::Page(pb::ListPage { names: vec!["a".to_owned()], more: true })),
        server_batch(encode::failure(&error)),
        server_batch(Answer::Event(encode::watch_ended())),
    ];
    fuzz(CRATE, "server_batches", &samples, |input| {
        let Ok(messages) = Batch::new(Bytes::copy_from_slice(input)).decode::<ServerMessage>()
        else {
            return false;
        };
        messages.into_iter().all(|message| match message.body {
            Some(Answer::Reply(reply)) => decode::reply(reply).is_ok(),
            Some(Answer::Page(page)) => decode::list_page(page).is_ok(),
            Some(Answer::Error(error)) => !decode::error(*error).to_string().is_empty(),
            Some(Answer::Event(event)) => decode::watch_event(event).is_none_or(|_| true),
            _ => true,
        })
    });
}

#[test]
fn fuzz_identity_files_and_certificates() {
    let (authority, _) = Authority::create().unwrap();
    let alice = authority.issue(&EntityName::new("alice").unwrap(), Usage::Client).unwrap();
    let file = alice.to_json().to_string().into_bytes();
    fuzz(CRATE, "identity_files", &[file], |input| Identity::parse(input).is_ok());
    let certificate = alice.certificate().unwrap().to_vec();
    fuzz(CRATE, "certificates", &[certificate], |input| {
        certified(&CertificateDer::from(input.to_vec())).is_ok()
    });
}

#[test]
fn fuzz_endpoints() {
    let samples = ["unix:/run/n.sock", "tls:host:7000", "[::1]:80", "localhost:1"];
    let samples = samples.map(|text| text.as_bytes().to_vec());
    fuzz(CRATE, "endpoints", &samples, |input| {
        let Ok(text) = std::str::from_utf8(input) else { return false };
        let Ok(endpoint) = text.parse::<Endpoint>() else { return false };
        assert_eq!(endpoint.to_string().parse::<Endpoint>().unwrap(), endpoint);
        true
    });
}
