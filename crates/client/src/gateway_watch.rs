//! A watch that moves between gateways.
//!
//! When a gateway restarts, the session renews its watches there. If a gateway stays away, this
//! module moves its watches to another gateway. Each watcher then gets an event which says that it
//! may have missed events.
//!
//! **Invariant:** a watch keeps no session open: it ends when the client disconnects.

use std::sync::Weak;
use std::time::Duration;

use futures::{StreamExt, stream};
use nacre_object::{ObjectId, Watch, WatchEvent, WatchStream};
use nacre_wire::RemoteStore;
use tokio::time::{sleep, timeout};

/// When a gateway was away for this long, its watches move. A gateway that was killed restarts
/// sooner.
const AWAY_AFTER: Duration = Duration::from_secs(2);
/// How long the next gateway may take to accept a watch. After that it counts as away as well.
const WATCH_PATIENCE: Duration = Duration::from_secs(2);

/// A watch, and the gateways that it can move to.
struct GatewayWatch {
    nodes: Weak<[RemoteStore]>,
    object: ObjectId,
    /// The number of the gateway that the watch uses now.
    number: usize,
    events: WatchStream,
}

/// Returns the events of a watch, through the gateway with this number. If that gateway stays away,
/// the events come through another one.
pub(crate) fn follow(
    nodes: Weak<[RemoteStore]>,
    object: ObjectId,
    number: usize,
    events: WatchStream,
) -> WatchStream {
    let watch = GatewayWatch { nodes, object, number, events };
    Box::pin(stream::unfold(watch, |mut watch| async move {
        let event = watch.next().await?;
        Some((event, watch))
    }))
}

impl GatewayWatch {
    async fn next(&mut self) -> Option<WatchEvent> {
        loop {
            let away = until_away(&self.nodes, self.number);
            tokio::select! {
                biased;
                event = self.events.next() => return event,
                () = away => {}
            }
            if self.moved().await {
                return Some(WatchEvent::Lost);
            }
        }
    }

    /// Watches through another gateway, if one is there.
    async fn moved(&mut self) -> bool {
        let Some(nodes) = self.nodes.upgrade() else { return false };
        let others = (1..nodes.len()).map(|step| (self.number + step) % nodes.len());
        for number in others {
            let watching = timeout(WATCH_PATIENCE, nodes[number].watch(&self.object));
            if let Ok(Ok(events)) = watching.await {
                (self.number, self.events) = (number, events);
                return true;
            }
        }
        false
    }
}

/// Waits until a gateway has been away for long.
async fn until_away(nodes: &Weak<[RemoteStore]>, number: usize) {
    loop {
        let state = |connected| {
            let nodes = nodes.upgrade()?;
            Some(nodes[number].session().until_connected(connected))
        };
        // Without sessions the events end by themselves.
        let Some(lost) = state(false) else { return sleep(AWAY_AFTER).await };
        lost.await;
        let Some(back) = state(true) else { return sleep(AWAY_AFTER).await };
        if timeout(AWAY_AFTER, back).await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use nacre_conformance::MemoryStore;
    use nacre_object::{NodeName, Op, Request, Store};
    use nacre_wire::{Endpoint, Listener, Server, Session, SessionOptions};
    use tokio::sync::oneshot;
    use tokio::task::JoinHandle;

    use super::*;
    use crate::gateway::Gateway;

    /// A gateway that runs until the test stops it.
    struct Running {
        stop: oneshot::Sender<()>,
        serving: JoinHandle<()>,
    }

    impl Running {
        async fn start(place: &Endpoint, store: &MemoryStore) -> Self {
            let store = Arc::new(store.clone());
            let builder = Server::builder(NodeName::new("gateway").unwrap(), 1);
            let server = builder.store(store.clone()).watch(store).build();
            let listener = Listener::bind(place).await.unwrap();
            let (stop, stopped) = oneshot::channel::<()>();
            let serving = tokio::spawn(async move {
                let stopped = async { drop(stopped.await) };
                server.serve(listener, stopped).await.unwrap();
            });
            Self { stop, serving }
        }

        async fn stop(self) {
            let _ = self.stop.send(());
            self.serving.await.unwrap();
        }
    }

    /// Returns the endpoints of two gateways of a store. Only the first gateway runs.
    async fn places(folder: &Path, store: &MemoryStore) -> ([Endpoint; 2], Running) {
        let places = [0, 1].map(|number| Endpoint::unix(folder.join(number.to_string())).unwrap());
        let first = Running::start(&places[0], store).await;
        (places, first)
    }

    fn gateway(places: &[Endpoint]) -> Gateway {
        let session = |place: &Endpoint| Session::open(place.clone(), SessionOptions::default());
        let nodes: Vec<_> = places.iter().map(|place| RemoteStore::new(session(place))).collect();
        Gateway::new(nodes.into(), 0, 0)
    }

    fn object() -> ObjectId {
        "data/watched".parse().unwrap()
    }

    async fn change(gateway: &Gateway) {
        let ops = vec![Op::Append { data: "more".into() }];
        gateway.submit(Request::new(object(), ops).unwrap()).await.unwrap();
    }

    #[tokio::test]
    async fn a_watch_moves_to_another_gateway_and_reports_lost_events() {
        let (folder, store) = (tempfile::tempdir().unwrap(), MemoryStore::plain());
        let (places, first) = places(folder.path(), &store).await;
        let _second = Running::start(&places[1], &store).await;
        let gateway = gateway(&places);
        let mut events = gateway.watch(&object()).await.unwrap();
        change(&gateway).await;
        assert!(matches!(events.next().await, Some(WatchEvent::Changed { .. })));

        first.stop().await;
        assert_eq!(events.next().await, Some(WatchEvent::Lost));
        change(&gateway).await;
        assert!(matches!(events.next().await, Some(WatchEvent::Changed { .. })));
    }

    #[tokio::test]
    async fn a_watch_stays_with_a_gateway_that_comes_back() {
        let (folder, store) = (tempfile::tempdir().unwrap(), MemoryStore::plain());
        let (places, first) = places(folder.path(), &store).await;
        let gateway = gateway(&places);
        let mut events = gateway.watch(&object()).await.unwrap();
        first.stop().await;
        let _again = Running::start(&places[0], &store).await;
        assert_eq!(events.next().await, Some(WatchEvent::Lost));
        change(&gateway).await;
        assert!(matches!(events.next().await, Some(WatchEvent::Changed { .. })));
    }

    #[tokio::test]
    async fn a_watch_ends_when_its_client_disconnects() {
        let (folder, store) = (tempfile::tempdir().unwrap(), MemoryStore::plain());
        let (places, _running) = places(folder.path(), &store).await;
        let gateway = gateway(&places);
        let mut events = gateway.watch(&object()).await.unwrap();
        drop(gateway);
        assert_eq!(events.next().await, None);
    }
}
