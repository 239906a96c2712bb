//! One watch, as its reader sees it: a stream of events that outlives connections.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use futures::Stream;
use nacre_object::{EventQueue, ObjectId, WatchEvent};

use super::shared::Shared;

/// A watch in a session's table.
#[derive(Debug, Clone)]
pub(crate) struct Watching {
    pub(crate) object: ObjectId,
    pub(crate) reader: Arc<Reader>,
    pub(crate) stage: Stage,
}

/// How far a watch is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Requested for the first time. If the connection breaks, the caller requests it again.
    Asked,
    /// The node watches.
    Live,
    /// The watch was live, and then the connection broke. Once the node watches again, the session
    /// sends the reader a `Lost` event.
    Broken,
}

impl Watching {
    pub(crate) fn new(object: ObjectId) -> Self {
        Self { object, reader: Arc::default(), stage: Stage::Asked }
    }
}

/// The connection between a session and a watch's reader.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    pub(crate) events: EventQueue,
    /// The id of the watch in the session.
    pub(crate) id: AtomicU64,
}

/// The reader's end of a watch. Dropping it ends the watch.
pub(crate) struct EventStream {
    shared: Arc<Shared>,
    reader: Arc<Reader>,
}

impl EventStream {
    pub(crate) fn new(shared: Arc<Shared>, reader: Arc<Reader>) -> Self {
        Self { shared, reader }
    }
}

impl Stream for EventStream {
    type Item = WatchEvent;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<WatchEvent>> {
        self.reader.events.poll(context)
    }
}

impl Drop for EventStream {
    fn drop(&mut self) {
        self.shared.unwatch(self.reader.id.load(Ordering::Relaxed));
    }
}
