//! Every call ends by its deadline, and a late answer does no harm.

use std::time::Duration;

use bytes::Bytes;
use nacre_object::ErrorKind;
use nacre_wire::limits::MAX_UNDER_WAY;
use nacre_wire::proto::server_message::Body as Answer;
use nacre_wire::proto::{ClientMessage, ErrorKind as PbKind};

use crate::harness::{Node, SocketFolder, TestService, ask, asking, connect};
use crate::raw::{asks, call, served};

const SHORT: Duration = Duration::from_millis(30);

#[tokio::test(flavor = "multi_thread")]
async fn a_call_ends_by_its_deadline_and_its_late_answer_is_dropped() {
    let folder = SocketFolder::new();
    let service = TestService::new();
    let node = Node::of_service(&folder.endpoint(), &service).await;
    let session = connect(&node.endpoint).await;
    let error = session.ask("test", "hold", Bytes::new(), SHORT).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    service.release(1);
    service.until_finished(1).await;
    assert_eq!(ask(&session, "echo", "next").await.unwrap(), "next");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_call_leaves_nothing_behind() {
    let folder = SocketFolder::new();
    let service = TestService::new();
    let node = Node::of_service(&folder.endpoint(), &service).await;
    let session = connect(&node.endpoint).await;
    let held = asking(&session, "hold", "");
    service.until_begun(1).await;
    held.abort();
    assert!(held.await.unwrap_err().is_cancelled());
    service.release(1);
    service.until_finished(1).await;
    assert_eq!(ask(&session, "echo", "next").await.unwrap(), "next");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_enforces_the_deadline_of_a_foreign_client() {
    let (_place, service, node, mut session) = served().await;
    let timeout_micros = SHORT.as_micros() as u64;
    session.send(vec![ClientMessage { timeout_micros, ..asks(1, "hold", "") }]);
    let late = session.next().await.unwrap().unwrap();
    assert!(
        matches!(&late.body, Some(Answer::Error(error)) if error.kind() == PbKind::Unavailable)
    );
    assert_eq!(late.id, 1);
    // The work still runs to its end, but the node does not send its answer. So the next answer
    // belongs to the next message.
    service.release(1);
    service.until_finished(1).await;
    session.send(vec![asks(2, "echo", "next")]);
    assert_eq!(session.next().await.unwrap().unwrap().id, 2);

    let held = ClientMessage { timeout_micros, ..asks(3, "hold", "") };
    let late = call(&node.endpoint, held).await.unwrap();
    assert!(
        matches!(&late.body, Some(Answer::Error(error)) if error.kind() == PbKind::Unavailable)
    );
    service.release(1);
    service.until_finished(3).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn abandoned_reads_free_their_budget() {
    let folder = SocketFolder::new();
    let service = TestService::new();
    let node = Node::of_service(&folder.endpoint(), &service).await;
    let session = connect(&node.endpoint).await;
    let waits = (0..MAX_UNDER_WAY).map(|_| session.query("test", "wait", Bytes::new(), SHORT));
    for wait in futures::future::join_all(waits).await {
        assert_eq!(wait.unwrap_err().kind(), ErrorKind::Unavailable);
    }
    assert_eq!(ask(&session, "echo", "next").await.unwrap(), "next");
}
