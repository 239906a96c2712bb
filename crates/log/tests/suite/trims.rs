//! Trims that are interrupted: every position that was acknowledged as trimmed stays trimmed.

use std::time::Duration;

use crate::support::Cluster;
use nacre_log::{Entry, Log, LogEnv, Patience};
use nacre_object::ErrorKind;

const RECORDS: u64 = 40;
/// The patience of a client that meets a dead target.
const LITTLE_PATIENCE: Duration = Duration::from_millis(50);

#[tokio::test(start_paused = true)]
async fn a_trim_that_failed_halfway_is_done_by_the_next_one() {
    let cluster = Cluster::new(3, 1).await;
    let log = cluster.filled("l", RECORDS).await;
    // A client that knows only the first view must find the same state.
    let stale = cluster.open("l").await;
    let patience = Patience { operation: LITTLE_PATIENCE, ..Patience::default() };
    let impatient = LogEnv { patience, ..cluster.env.clone() };
    let impatient = Log::open(impatient, log.name().clone()).await.unwrap();
    for away in 0..3 {
        cluster.kill_target(away);
        let failed = impatient.trim_to(RECORDS - 2).await.unwrap_err();
        assert_eq!(failed.kind(), ErrorKind::Unavailable);
        cluster.revive_target(away);
    }
    log.trim_to(RECORDS - 2).await.unwrap();
    assert_eq!(cluster.entries().await, 1, "of the last record");
    for position in 0..RECORDS - 1 {
        assert_eq!(stale.read(position).await.unwrap(), Entry::Trimmed, "{position}");
    }
    assert!(matches!(log.read(RECORDS - 1).await, Ok(Entry::Data(_))));
    assert_eq!(log.seal().await.unwrap(), RECORDS);
    assert_eq!(log.append("next").await.unwrap(), RECORDS);
}

#[tokio::test(start_paused = true)]
async fn a_log_whose_trim_failed_halfway_is_removed_wholly() {
    let cluster = Cluster::new(3, 1).await;
    let log = cluster.filled("l", RECORDS).await;
    let patience = Patience { operation: LITTLE_PATIENCE, ..Patience::default() };
    let impatient = LogEnv { patience, ..cluster.env.clone() };
    let impatient = Log::open(impatient, log.name().clone()).await.unwrap();
    cluster.kill_target(0);
    impatient.trim_to(RECORDS - 2).await.unwrap_err();
    cluster.revive_target(0);
    Log::remove(cluster.env.clone(), log.name().clone()).await.unwrap();
    assert_eq!(cluster.entries().await, 0);
}
