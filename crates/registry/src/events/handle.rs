//! `Events`: appending to and reading the cluster log.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use nacre_clock::Random;
use nacre_object::{ObjectId, Result, Store, Watch};

use super::format::{AppendReply, AppendRequest, EventMessage, ReadReply, ReadRequest};
use super::{Event, EventWatcher};
use crate::backoff::Backoff;
use crate::limits::MAX_EVENTS_PAGE;
use crate::system::{System, is_transient, system_object};

/// The object of the cluster log.
pub(crate) const EVENTS_OBJECT: &str = "events";
/// Its class.
pub(crate) const EVENTS_CLASS: &str = "events";

/// How many times an event is sent while the store does not answer. With all pauses and timeouts
/// this takes some seconds.
const MAX_APPEND_ATTEMPTS: u32 = 10;

/// The cluster log. A clone is another handle to it.
#[derive(Clone)]
pub struct Events {
    system: System,
    /// Shared by all clones, so that their append ids differ.
    random: Arc<Mutex<Random>>,
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Events").field("system", &self.system).finish_non_exhaustive()
    }
}

/// Part of the cluster log, oldest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct EventPage {
    pub(super) last: u64,
    pub(super) first_kept: u64,
    pub(super) events: Vec<Event>,
}

impl Events {
    /// The cluster log kept in `store`, whose system pool must know the class
    /// [`events`](crate::events_class).
    pub fn new(store: Arc<dyn Store>, watch: Arc<dyn Watch>) -> Self {
        Self::on(System::new(store, watch))
    }

    pub(crate) fn on(system: System) -> Self {
        Self { system, random: Arc::new(Mutex::new(Random::from_system())) }
    }

    pub(super) fn object() -> ObjectId {
        system_object(EVENTS_OBJECT)
    }

    pub(super) fn system(&self) -> &System {
        &self.system
    }

    /// Appends an event. Returns its number.
    ///
    /// # Errors
    /// `Unavailable` if the store did not answer for some seconds. The event may be in the log all
    /// the same.
    pub async fn append(&self, event: Event) -> Result<u64> {
        let mut event = EventMessage::from(event);
        event.append_id = self.fresh_id();
        let mut request = AppendRequest { event: Some(event), again: false };
        let mut backoff = Backoff::new();
        for _ in 1..MAX_APPEND_ATTEMPTS {
            match self.append_once(&request).await {
                Err(error) if is_transient(&error) => backoff.wait().await,
                outcome => return outcome,
            }
            request.again = true;
        }
        self.append_once(&request).await
    }

    async fn append_once(&self, request: &AppendRequest) -> Result<u64> {
        let object = Self::object();
        let reply: AppendReply = self.system.call(&object, EVENTS_CLASS, "append", request).await?;
        self.system.announce(&object).await;
        Ok(reply.sequence)
    }

    fn fresh_id(&self) -> Bytes {
        let mut random = self.random.lock().unwrap_or_else(PoisonError::into_inner);
        let halves = [random.next_u64().to_be_bytes(), random.next_u64().to_be_bytes()];
        Bytes::from(halves.concat())
    }

    /// The number of the newest event; 0 if there has been none.
    ///
    /// # Errors
    /// `Unavailable`; `Corrupt`.
    pub async fn last(&self) -> Result<u64> {
        Ok(self.read(None, 0).await?.last)
    }

    /// The newest events, oldest first: at most `limit`, and at most one page.
    ///
    /// # Errors
    /// `Unavailable`; `Corrupt`.
    pub async fn recent(&self, limit: usize) -> Result<Vec<Event>> {
        Ok(self.read(None, limit).await?.events)
    }

    /// Returns events with greater numbers than `sequence`, oldest first: at most `limit` events
    /// and at most one page. Events that the log no longer keeps are left out.
    ///
    /// # Errors
    /// `Unavailable`; `Corrupt`.
    pub async fn after(&self, sequence: u64, limit: usize) -> Result<Vec<Event>> {
        Ok(self.read(Some(sequence), limit).await?.events)
    }

    /// Follows the log from after a number.
    pub fn follow(&self, sequence: u64) -> EventWatcher {
        EventWatcher::new(self, sequence)
    }

    pub(super) async fn read(&self, after: Option<u64>, limit: usize) -> Result<EventPage> {
        let request = ReadRequest { after, limit: limit.min(MAX_EVENTS_PAGE) as u32 };
        let reply: ReadReply =
            self.system.call(&Self::object(), EVENTS_CLASS, "read", &request).await?;
        let events = reply.events.into_iter().map(EventMessage::read).collect();
        Ok(EventPage { last: reply.last, first_kept: reply.first_kept, events })
    }
}
