//! Targets are lost again and again, until no range is left for a layout without them.

use nacre_log::limits::MAX_RANGES;
use nacre_object::ErrorKind;

use crate::suite::layouts::{append_until_another_range, log_of_many_ranges, ranges_of};
use crate::support::Cluster;

/// A target that the stripes to come are on.
async fn used_target(cluster: &Cluster) -> usize {
    let log = cluster.open("l").await;
    cluster.target_of_position(&log, log.view().last_range().first)
}

#[tokio::test(start_paused = true)]
async fn a_log_without_ranges_left_names_the_remedy_in_its_error() {
    let cluster = Cluster::new(3, 1).await;
    let log = log_of_many_ranges(&cluster).await;
    while ranges_of(&cluster).await < MAX_RANGES {
        let lost = used_target(&cluster).await;
        cluster.kill_target(lost);
        append_until_another_range(&cluster, &log).await;
        cluster.revive_target(lost);
    }
    let lost = used_target(&cluster).await;
    cluster.kill_target(lost);
    let refused = loop {
        match log.append("as long as there are positions").await {
            Err(error) if error.kind() == ErrorKind::Exhausted => break error,
            _ => {}
        }
    };
    assert_eq!(ranges_of(&cluster).await, MAX_RANGES);
    let hint = refused.hint_text().unwrap_or_default();
    assert!(hint.contains(&format!("bring target{lost} back, or trim the log")), "{refused}");
    cluster.revive_target(lost);
    log.append("when it is back").await.unwrap();
}
