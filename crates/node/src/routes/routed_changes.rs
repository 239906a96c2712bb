//! `RoutedChanges`: tells watchers of an object when its bytes change at the place where rules sent
//! them.

use futures::StreamExt;
use nacre_object::{ObjectId, WatchEvent, WatchStream};
use tokio::sync::broadcast;

/// Changes of bytes that lie elsewhere, which an object's home does not see.
pub(super) struct RoutedChanges(broadcast::Receiver<ObjectId>);

impl RoutedChanges {
    /// The changes that the switch reports from now on.
    pub fn new(changes: broadcast::Receiver<ObjectId>) -> Self {
        Self(changes)
    }

    /// The events of a watched object. If routed bytes of the object change on another node, the
    /// watcher receives `Lost`, as if it had missed events.
    pub fn merged(self, object: ObjectId, watched: WatchStream) -> WatchStream {
        let routed = futures::stream::unfold(self.0, move |mut changes| {
            let object = object.clone();
            async move {
                loop {
                    match changes.recv().await {
                        Ok(changed) if changed == object => {}
                        Ok(_) => continue,
                        Err(broadcast::error::RecvError::Lagged(_)) => {}
                        Err(broadcast::error::RecvError::Closed) => return None,
                    }
                    return Some((Some(WatchEvent::Lost), changes));
                }
            }
        });
        // The combined watch ends when the watch of the home ends.
        let watched = watched.map(Some).chain(futures::stream::iter([None]));
        let merged = futures::stream::select(watched, routed);
        Box::pin(
            merged
                .take_while(|event| futures::future::ready(event.is_some()))
                .filter_map(futures::future::ready),
        )
    }
}
