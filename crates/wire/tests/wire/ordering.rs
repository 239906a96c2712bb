//! Tests of the order of many calls at once, from few sessions and from many.

use futures::future::join_all;

use crate::harness::{Node, SocketFolder, TestService, ask, connect, eventually};

#[tokio::test(flavor = "multi_thread")]
async fn calls_are_begun_in_the_order_they_are_made() {
    let folder = SocketFolder::new();
    let service = TestService::new();
    let node = Node::of_service(&folder.endpoint(), &service).await;
    let session = connect(&node.endpoint).await;
    let numbers: Vec<String> = (0..5_000).map(|number| number.to_string()).collect();
    let calls = numbers.iter().map(|number| ask(&session, "record", number.clone()));
    let answers: Vec<_> = join_all(calls).await.into_iter().map(Result::unwrap).collect();
    assert_eq!(answers, numbers);
    assert_eq!(service.recorded(), numbers);
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_that_come_in_any_order_reach_their_callers() {
    let folder = SocketFolder::new();
    let service = TestService::new();
    let node = Node::of_service(&folder.endpoint(), &service).await;
    let session = connect(&node.endpoint).await;
    // Every other call is overtaken by all that follow it.
    let calls = (0..1_000).map(|number| {
        let (session, service) = (session.clone(), service.clone());
        tokio::spawn(async move {
            let method = if number % 2 == 0 { "hold" } else { "echo" };
            let answer = ask(&session, method, number.to_string()).await.unwrap();
            if method == "echo" {
                service.release(1);
            }
            (number, answer)
        })
    });
    for call in join_all(calls).await {
        let (number, answer) = call.unwrap();
        assert_eq!(answer, number.to_string());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn many_sessions_share_a_node() {
    const SESSIONS: usize = 200;
    let folder = SocketFolder::new();
    let service = TestService::new();
    let node = Node::of_service(&folder.endpoint(), &service).await;
    let sessions = join_all((0..SESSIONS).map(|_| connect(&node.endpoint))).await;
    assert_eq!(node.server.session_count(), SESSIONS);
    let calls = sessions.iter().enumerate().map(|(number, session)| async move {
        for turn in 0..20 {
            let input = format!("{number}/{turn}");
            assert_eq!(ask(session, "echo", input.clone()).await.unwrap(), input);
        }
    });
    join_all(calls).await;
    drop(sessions);
    eventually("all sessions are gone", || node.server.session_count() == 0).await;
}
