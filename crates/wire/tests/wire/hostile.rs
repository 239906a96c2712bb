//! Whatever comes in on a socket, the server lives.

use nacre_clock::Random;
use nacre_wire::Endpoint;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

use crate::harness::{Node, Place, TestService, ask, connect, eventually};
use crate::raw::{RawSession, asks};

/// Sends bytes and reads until the server closes the connection.
async fn send(endpoint: &Endpoint, bytes: &[u8]) {
    let mut stream = UnixStream::connect(endpoint.path().unwrap()).await.unwrap();
    // The server may close before it has all.
    let _ = stream.write_all(bytes).await;
    let _ = stream.shutdown().await;
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn garbage_closes_its_connection_only() {
    let place = Place::new();
    let service = TestService::new();
    let node = Node::of_service(&place.endpoint(), &service).await;
    let bystander = connect(&node.endpoint).await;
    let mut random = Random::seeded(1);
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    for round in 0..50 {
        let noise: Vec<u8> = (0..random.below(5000)).map(|_| random.next_u64() as u8).collect();
        match round % 3 {
            0 => send(&node.endpoint, &noise).await,
            1 => send(&node.endpoint, &[preface, &noise[..]].concat()).await,
            _ => send(&node.endpoint, b"GET / HTTP/1.1\r\n\r\n").await,
        }
    }
    assert_eq!(ask(&bystander, "echo", "here").await.unwrap(), "here");
    eventually("all the others are closed", || node.server.connection_count() == 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_client_began_ends_though_it_is_killed() {
    let place = Place::new();
    let service = TestService::new();
    let node = Node::of_service(&place.endpoint(), &service).await;
    let (session, _) = RawSession::open(&node.endpoint).await;
    session.send((1..=100).map(|id| asks(id, "hold", "")).collect());
    service.until_begun(100).await;
    drop(session);
    eventually("its connection is closed", || node.server.connection_count() == 0).await;
    service.release(100);
    service.until_finished(100).await;
    eventually("its session is forgotten", || node.server.session_count() == 0).await;
}
