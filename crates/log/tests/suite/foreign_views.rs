//! Tests against a user who has the right to change the map of one log only. The user stores
//! another log's view in that map. This must not let the user change the other log.

use std::sync::Arc;

use crate::support::{Cluster, of_slots};
use bytes::Bytes;
use nacre_log::Log;
use nacre_object::{ErrorKind, Result};
use nacre_registry::{Change, Maps};

fn kind<T: std::fmt::Debug>(outcome: Result<T>) -> ErrorKind {
    outcome.unwrap_err().kind()
}

#[tokio::test(start_paused = true)]
async fn a_stored_view_of_another_log_is_corrupt_and_does_not_change_that_log() {
    let cluster = Cluster::new(2, 1).await;
    let mine = cluster.create("a", of_slots(4)).await;
    mine.append("mine").await.unwrap();
    let other = cluster.create("b", of_slots(4)).await;
    other.append("other").await.unwrap();
    let before = cluster.env.views.current(other.name()).await.unwrap().unwrap();
    let mut view = before.clone();
    for _ in 0..10 {
        view = view.extended(1).unwrap();
    }
    let maps = Maps::new(Arc::new(cluster.system.clone()), Arc::new(cluster.system.clone()));
    let epoch = maps.epoch(mine.name().map()).await.unwrap();
    let change = Change::set("view", Bytes::from(view.encode()));
    maps.commit(mine.name().map(), epoch, vec![change]).await.unwrap();

    let asked = cluster.ask(0, "recover", &mine.view(), &[]).await;
    assert_eq!(kind(asked), ErrorKind::Corrupt);
    assert_eq!(kind(Log::open(cluster.env.clone(), mine.name().clone()).await), ErrorKind::Corrupt);
    assert_eq!(cluster.env.views.current(other.name()).await.unwrap(), Some(before));
    assert_eq!(other.append("next").await.unwrap(), 1);
}
