//! Checks that concurrent transactions on one object run one after another.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::future::join_all;
use nacre_object::{ErrorKind, Op, OpResult};
use tokio::sync::Barrier;

use super::{Bench, TestObject};
use crate::ops::*;

checks![
    guarded_increments_lose_nothing,
    appends_never_interleave,
    readers_see_whole_transactions,
    one_of_many_creators_wins,
    objects_do_not_disturb_each_other,
];

const TASKS: usize = 8;
const ROUNDS: usize = 25;

/// Runs this many tasks at the same time, on all threads of the runtime.
async fn at_once<T: Send + 'static>(
    count: usize,
    task: impl Fn(usize) -> futures::future::BoxFuture<'static, T>,
) -> Vec<T> {
    // All tasks begin together. Otherwise the first ones would end before the last ones begin.
    let all_there = Arc::new(Barrier::new(count));
    let spawn = |task: futures::future::BoxFuture<'static, T>| {
        let all_there = Arc::clone(&all_there);
        tokio::spawn(async move {
            all_there.wait().await;
            task.await
        })
    };
    let tasks: Vec<_> = (0..count).map(|i| spawn(task(i))).collect();
    join_all(tasks).await.into_iter().map(|done| done.expect("no task panics")).collect()
}

async fn guarded_increments_lose_nothing(bench: Bench) {
    let object = bench.object_with("counter", [write_full("0")]).await;
    at_once(TASKS, |_| {
        let object = object.clone();
        Box::pin(async move {
            for _ in 0..ROUNDS {
                increment(&object).await;
            }
        })
    })
    .await;
    let total = (TASKS * ROUNDS).to_string();
    assert_eq!(object.answers(read_all()).await, data(total));
}

async fn increment(object: &TestObject) {
    loop {
        let reply = object.replies([read_all()]).await;
        let OpResult::Data(text) = &reply.results[0] else { panic!("a read answers data") };
        let number: u64 =
            std::str::from_utf8(text).ok().and_then(|t| t.parse().ok()).expect("a number");
        // Let other tasks run here, even if the store never waits.
        tokio::task::yield_now().await;
        let ops = [Op::AssertVersion(reply.version), write_full((number + 1).to_string())];
        match object.submit(ops).await {
            Ok(_) => return,
            Err(error) if error.kind() == ErrorKind::Conflict => {}
            Err(error) => panic!("{error}"),
        }
    }
}

async fn appends_never_interleave(bench: Bench) {
    let object = bench.object("log");
    let record = |task: usize, round: usize| format!("<{task}.{round}:{}>", "x".repeat(task * 37));
    let offsets = at_once(TASKS, |task| {
        let object = object.clone();
        Box::pin(async move {
            let mut offsets = Vec::new();
            for round in 0..ROUNDS {
                // Two appends in one transaction must stay together, too.
                let text = record(task, round);
                let (head, tail) = text.split_at(2);
                let ops = [append(head.to_owned()), append(tail.to_owned())];
                offsets.push((object.does(ops).await[0].clone(), text));
            }
            offsets
        })
    })
    .await;

    let stream = object.content().await.expect("it exists").stream;
    let mut next = 0;
    let mut placed: Vec<_> = offsets.into_iter().flatten().collect();
    placed.sort_by_key(|(offset, _)| match offset {
        OpResult::Offset(offset) => *offset,
        other => panic!("an append answers {other:?}"),
    });
    for (offset, text) in placed {
        assert_eq!(offset, OpResult::Offset(next), "records leave no gap");
        let end = next as usize + text.len();
        assert_eq!(stream.get(next as usize..end), Some(text.as_bytes()), "at {next}");
        next = end as u64;
    }
    assert_eq!(next, stream.len() as u64);
}

async fn readers_see_whole_transactions(bench: Bench) {
    let state = |i: usize| {
        let text = i.to_string();
        [
            write_full(text.clone()),
            map_set([("a", text.clone()), ("z", text.clone())]),
            set_attribute("a", text),
        ]
    };
    let object = bench.object_with("a", state(0)).await;
    at_once(TASKS, |task| {
        let object = object.clone();
        Box::pin(async move {
            for round in 0..ROUNDS {
                if task % 2 == 0 {
                    object.does(state(task * 1000 + round)).await;
                    continue;
                }
                let ops = [read_all(), map_get(["a", "z"]), get_attribute("a")];
                let results = object.does(ops).await;
                let OpResult::Data(text) = &results[0] else { panic!("a read answers data") };
                let both = OpResult::Values(vec![Some(text.clone()); 2]);
                assert_eq!(results[1..], [both, data(text.clone())], "parts of two transactions");
            }
        })
    })
    .await;
}

async fn one_of_many_creators_wins(bench: Bench) {
    for round in 0..5 {
        let object = bench.object(round);
        let outcomes = at_once(TASKS, |task| {
            let object = object.clone();
            Box::pin(
                async move { object.submit([create(), append(task.to_string())]).await.is_ok() },
            )
        })
        .await;
        let winners: Vec<_> = (0..TASKS).filter(|task| outcomes[*task]).collect();
        assert_eq!(winners.len(), 1, "winners {winners:?}");
        assert_eq!(object.answers(read_all()).await, data(winners[0].to_string()));
    }
}

async fn objects_do_not_disturb_each_other(bench: Bench) {
    let versions = at_once(TASKS, |task| {
        let object = bench.spread_object(task);
        Box::pin(async move {
            let mut versions = BTreeSet::new();
            for round in 0..ROUNDS {
                let ops =
                    [append(format!("{task},")), map_set([(round.to_string(), task.to_string())])];
                versions.insert(object.replies(ops).await.version);
            }
            versions.len()
        })
    })
    .await;
    assert_eq!(versions, [ROUNDS; TASKS], "every change has a version of its own");
    for task in 0..TASKS {
        let content = bench.spread_object(task).content().await.expect("it exists");
        assert_eq!(content.stream, format!("{task},").repeat(ROUNDS).into_bytes());
        assert_eq!(content.map.len(), ROUNDS);
        assert!(content.map.iter().all(|entry| entry.value == task.to_string()));
    }
}
