//! Checks that every kind of sequencer must pass. There are two kinds: the sequencer of a log, and
//! a resource whose file type is a sequencer.
//!
//! Each check takes a cluster with a new sequencer that was never used. A client that uses a
//! sequencer alone for long enough may get the exclusive capability, and then issues the positions
//! itself. The checks must hold with and without such a client.

use std::collections::BTreeSet;
use std::time::Duration;

use async_trait::async_trait;
use nacre_object::Result;

/// A client of one sequencer.
#[async_trait]
pub trait Sequencer: Send + Sync {
    /// Takes `count` successive positions for this client. Returns the first of them.
    async fn next(&self, count: u32) -> Result<u64>;
    /// The tail: the position that is next.
    async fn read(&self) -> Result<u64>;
}

/// A cluster with one sequencer, and with two nodes that can be its authority.
#[async_trait]
pub trait SequencerCluster: Send + Sync {
    /// Another client.
    async fn client(&self) -> Box<dyn Sequencer>;
    /// Makes the other node serve the sequencer.
    async fn hand_over(&self);
    /// Kills the authority, so that it cannot be reached any more.
    async fn kill_authority(&self);
    /// Sets whether clients that hold the capability are cut off from the nodes.
    fn cut_holders_off(&self, are_cut_off: bool);
}

/// Defines one test for each check. The expression `$cluster` makes the cluster of a test. A crate
/// that uses this macro must depend on tokio with `test-util`.
#[macro_export]
macro_rules! sequencer_suite {
    ($cluster:expr) => {
        $crate::sequencer_suite!(
            $cluster,
            positions_follow_each_other,
            a_lone_client_makes_room_for_another_without_a_gap,
            clients_at_the_same_time_share_the_positions,
            a_hand_over_leaves_no_gap,
            the_death_of_an_authority_gives_no_position_twice,
            an_evicted_holder_gives_no_position_twice
        );
    };
    ($cluster:expr, $($check:ident),*) => {
        $(
            #[tokio::test(start_paused = true)]
            async fn $check() {
                $crate::sequencers::$check(&$cluster.await).await;
            }
        )*
    };
}

/// Positions that a client takes in a row.
const TAKEN: u64 = 40;

async fn take(client: &dyn Sequencer, count: u64) -> Vec<u64> {
    let mut taken = vec![];
    for _ in 0..count {
        taken.push(client.next(1).await.expect("a position"));
    }
    taken
}

#[track_caller]
fn assert_none_twice(taken: &[u64]) {
    let distinct: BTreeSet<_> = taken.iter().collect();
    assert_eq!(distinct.len(), taken.len(), "a position was given twice: {taken:?}");
}

/// Positions count up from 0 without a gap, and the tail is one after the last.
pub async fn positions_follow_each_other(cluster: &dyn SequencerCluster) {
    let client = cluster.client().await;
    assert_eq!(client.read().await.expect("a tail"), 0);
    assert_eq!(client.next(1).await.expect("a position"), 0);
    assert_eq!(client.next(3).await.expect("positions"), 1);
    assert_eq!(client.next(1).await.expect("a position"), 4);
    assert_eq!(client.read().await.expect("a tail"), 5);
}

/// A client that used the sequencer alone gives way to a second client. The second client reads the
/// tail that the first one reached, and the positions of the two have no gap.
pub async fn a_lone_client_makes_room_for_another_without_a_gap(cluster: &dyn SequencerCluster) {
    let (first, second) = (cluster.client().await, cluster.client().await);
    assert_eq!(take(&*first, TAKEN).await, (0..TAKEN).collect::<Vec<_>>());
    assert_eq!(second.read().await.expect("a tail"), TAKEN);
    for position in TAKEN..2 * TAKEN {
        let client = if position % 2 == 0 { &first } else { &second };
        assert_eq!(client.next(1).await.expect("a position"), position);
    }
}

/// Concurrent clients get different positions, each client in rising order. No position is left
/// out.
pub async fn clients_at_the_same_time_share_the_positions(cluster: &dyn SequencerCluster) {
    let (first, second) = (cluster.client().await, cluster.client().await);
    let (first, second) = tokio::join!(take(&*first, TAKEN), take(&*second, TAKEN));
    assert!(first.is_sorted() && second.is_sorted(), "{first:?} {second:?}");
    let all: BTreeSet<_> = first.into_iter().chain(second).collect();
    assert!(all.into_iter().eq(0..2 * TAKEN), "each once");
}

/// A hand-over leaves no gap.
pub async fn a_hand_over_leaves_no_gap(cluster: &dyn SequencerCluster) {
    let (first, second) = (cluster.client().await, cluster.client().await);
    take(&*first, TAKEN).await;
    cluster.hand_over().await;
    assert_eq!(second.read().await.expect("a tail"), TAKEN);
    assert_eq!(first.next(1).await.expect("a position"), TAKEN);
    assert_eq!(second.next(1).await.expect("a position"), TAKEN + 1);
}

/// After the death of the authority no position is given twice, and positions grow.
pub async fn the_death_of_an_authority_gives_no_position_twice(cluster: &dyn SequencerCluster) {
    let (first, second) = (cluster.client().await, cluster.client().await);
    let mut taken = take(&*first, TAKEN).await;
    cluster.kill_authority().await;
    let (more, others) = tokio::join!(take(&*first, TAKEN), take(&*second, TAKEN));
    assert!(others.iter().all(|position| taken.iter().all(|before| before < position)));
    taken.extend(more.into_iter().chain(others));
    assert_none_twice(&taken);
    let tail = second.read().await.expect("a tail");
    assert!(taken.iter().all(|position| *position < tail), "{tail} {taken:?}");
}

/// The client that holds the capability is cut off from the network and evicted. No other client
/// gets a position that the evicted client issued before it stopped.
pub async fn an_evicted_holder_gives_no_position_twice(cluster: &dyn SequencerCluster) {
    let (first, second) = (cluster.client().await, cluster.client().await);
    let mut taken = take(&*first, TAKEN).await;
    cluster.cut_holders_off(true);
    let during = async {
        let mut during = vec![];
        let end = tokio::time::Instant::now() + Duration::from_secs(2);
        while tokio::time::Instant::now() < end {
            let next = tokio::time::timeout(Duration::from_millis(10), first.next(1)).await;
            during.extend(next.ok().and_then(Result::ok));
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        cluster.cut_holders_off(false);
        during
    };
    let (during, others) = tokio::join!(during, take(&*second, TAKEN));
    taken.extend(during.into_iter().chain(others));
    taken.extend(take(&*first, TAKEN).await);
    assert_none_twice(&taken);
}
