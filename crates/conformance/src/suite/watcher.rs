//! A watch, as checks use one.

use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use nacre_object::{Result, WatchEvent, WatchStream};

use super::{Bench, TestObject};

/// After this time without an event, the check fails.
const EVENT_TIMEOUT: Duration = Duration::from_secs(20);

pub(super) struct Watcher(WatchStream);

impl Watcher {
    /// The next event, which must come.
    pub async fn next(&mut self) -> WatchEvent {
        let event = tokio::time::timeout(EVENT_TIMEOUT, self.0.next()).await;
        event.expect("an event must come").expect("the watch must not end")
    }

    /// Reads events until the object has this version (0: is removed). The versions must rise.
    pub async fn reach(&mut self, last: u64) {
        let mut before = 0;
        loop {
            match self.next().await {
                WatchEvent::Changed { version } if version == last => return,
                WatchEvent::Changed { version } => {
                    let rising = version > before || version == 0;
                    assert!(rising, "version {version} is told after {before}, before {last}");
                    before = version;
                }
                other => panic!("{other:?} while waiting for version {last}"),
            }
        }
    }
}

impl Bench {
    pub(super) async fn watch(&self, object: &TestObject) -> Watcher {
        let watch = self.subject.watch().expect("checks that watch are run where that is possible");
        Watcher(watch.watch(object.id()).await.expect("watching must succeed"))
    }

    pub(super) async fn notify(
        &self,
        object: &TestObject,
        payload: impl Into<Bytes>,
    ) -> Result<()> {
        let watch = self.subject.watch().expect("checks that watch are run where that is possible");
        watch.notify(object.id(), payload.into()).await
    }
}

/// The event that a watcher gets for a notification.
pub(super) fn notified(payload: impl Into<Bytes>) -> WatchEvent {
    WatchEvent::Notified { payload: payload.into() }
}
