//! `Maps`: the side of a map outside its object.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use futures::stream::{self, StreamExt, TryStreamExt};
use nacre_clock::Random;
use nacre_object::limits::MAX_LIST_ENTRIES;
use nacre_object::{
    EntityName, Error, ErrorKind, ListRequest, MapName, ObjectId, PoolName, Result, Store, Watch,
};
use prost::Message;

use super::format::{
    ChangeMessage, CommitReply, CommitRequest, DeleteReply, DeleteRequest, GetReply, GetRequest,
    HistoryReply, PageRequest,
};
use super::own::is_system_map;
use super::triggers::Carrier;
use super::{Change, EntryGuard, EpochRecord, History, MapState, MapWatcher};
use crate::backoff::Backoff;
use crate::catch_up::CatchUp;
use crate::events::Events;
use crate::limits::MAX_HISTORY_PAGE;
use crate::system::{System, is_transient, system_object};

/// The class of map objects.
pub(crate) const MAP_CLASS: &str = "map";
/// Map objects are named so.
pub(crate) const MAP_OBJECT_PREFIX: &str = "map/";
/// A commit is sent at most this many times, until the store says whether it happened. With all
/// pauses and timeouts this takes some seconds.
const MAX_COMMIT_ATTEMPTS: u32 = 10;
/// To list maps, this many maps are asked at the same time whether they are deleted.
const LOOKS_AT_ONCE: usize = 32;
/// How many times an update starts over because another committer was faster. An update that fails
/// so often shows that the map changes too often: maps are for rare changes.
const MAX_UPDATE_ATTEMPTS: u32 = 100;

/// The maps of a cluster. Clones are handles to the same maps.
///
/// A map is created by its first commit. Before that it has epoch 0 and no entries.
#[derive(Clone)]
pub struct Maps {
    system: System,
    /// Shared by all clones, so that their commit ids differ.
    random: Arc<Mutex<Random>>,
    carrier: Carrier,
    events: Events,
}

impl fmt::Debug for Maps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Maps").field("system", &self.system).finish_non_exhaustive()
    }
}

impl Maps {
    /// The maps kept in `store`, whose system pool must know the class [`map`](crate::map_class).
    pub fn new(store: Arc<dyn Store>, watch: Arc<dyn Watch>) -> Self {
        let system = System::new(store, watch);
        let random = Arc::new(Mutex::new(Random::from_system()));
        let events = Events::on(system.clone());
        Self { system, random, carrier: Carrier::default(), events }
    }

    /// Returns a handle to the same maps whose requests name `source` as their sender. On a session
    /// to a node, the node replaces `source` by the entity that it authenticated.
    pub fn acting_as(&self, source: EntityName) -> Self {
        Self { system: self.system.acting_as(source), ..self.clone() }
    }

    pub(crate) fn system(&self) -> &System {
        &self.system
    }

    /// The cluster log, where refused triggers are reported.
    pub fn events(&self) -> &Events {
        &self.events
    }

    pub(super) fn carrier(&self) -> &Carrier {
        &self.carrier
    }

    /// The object that keeps a map.
    pub fn object(name: &MapName) -> ObjectId {
        system_object(&format!("{MAP_OBJECT_PREFIX}{name}"))
    }

    /// Reads the whole map.
    ///
    /// # Errors
    /// `Unavailable`; `Corrupt`.
    pub async fn get(&self, name: &MapName) -> Result<MapState> {
        let reply = self.read(name, None).await?;
        let entries = reply.entries.into_iter();
        let entries: BTreeMap<_, _> =
            entries.map(|entry| (entry.key, entry.value.unwrap_or_default())).collect();
        Ok(MapState { name: name.clone(), epoch: reply.epoch, entries })
    }

    /// Returns the map's epoch and one entry of the map, or `None` if there is no such entry.
    ///
    /// # Errors
    /// `Unavailable`; `Corrupt`.
    pub async fn entry(&self, name: &MapName, key: &str) -> Result<(u64, Option<Bytes>)> {
        let reply = self.read(name, Some(key.to_owned())).await?;
        Ok((reply.epoch, reply.entries.into_iter().next().and_then(|entry| entry.value)))
    }

    /// The epoch of a map.
    ///
    /// # Errors
    /// `Unavailable`; `Corrupt`.
    pub async fn epoch(&self, name: &MapName) -> Result<u64> {
        // No entry has an empty key.
        let (epoch, _) = self.entry(name, "").await?;
        Ok(epoch)
    }

    async fn read(&self, name: &MapName, key: Option<String>) -> Result<GetReply> {
        let reply: GetReply =
            self.system.call(&Self::object(name), MAP_CLASS, "get", &GetRequest { key }).await?;
        self.note_triggers(name, reply.pending_triggers);
        Ok(reply)
    }

    /// Makes sure that the `pending` waiting triggers of a map are carried out.
    pub(super) fn note_triggers(&self, name: &MapName, pending: u64) {
        if pending > 0 {
            self.carry_out_later(name);
        }
    }

    /// Commits changes if the map is still at `expected_epoch`. Returns the epoch that the commit
    /// begins; the record of that epoch is durable then.
    ///
    /// The map's program may trigger commits to other maps. Those commits may still be missing when
    /// this returns, but they will happen.
    ///
    /// # Errors
    /// `Conflict` if the epoch has moved on: read again and decide anew. `Denied`, `Invalid` or
    /// another kind if the map's program refuses the commit, `Fault` if the program fails.
    /// `Invalid` if keys, values or the commit are too large, `Exhausted` if the map is full.
    /// `Unavailable` if repeated attempts got no answer, which may take minutes; the commit may
    /// have happened then.
    pub async fn commit(
        &self,
        name: &MapName,
        expected_epoch: u64,
        changes: Vec<Change>,
    ) -> Result<u64> {
        self.commit_at(name, Some(expected_epoch), changes).await
    }

    /// Commits changes, whatever the map's epoch is. Use it for entries that only one writer
    /// changes. If the store's answer is lost, the changes may be committed twice, with the same
    /// result.
    ///
    /// # Errors
    /// Errors of [`Maps::commit`], except `Conflict`.
    pub async fn apply(&self, name: &MapName, changes: Vec<Change>) -> Result<u64> {
        self.commit_at(name, None, changes).await
    }

    /// Commits changes, whatever the map's epoch is, but in order with the writer's other guarded
    /// commits: see [`EntryGuard`].
    ///
    /// # Errors
    /// Errors of [`Maps::commit`]; `Conflict` if the guard's entry does not have the value that the
    /// writer expects.
    pub(crate) async fn apply_guarded(
        &self,
        name: &MapName,
        guard: EntryGuard,
        changes: Vec<Change>,
    ) -> Result<u64> {
        let request = self.request(name, changes);
        self.commit_request(name, CommitRequest { guard: Some(guard.into()), ..request }).await
    }

    /// Deletes a map with its entries and history. Returns the epoch that the deletion began.
    /// Watchers get the whole map, which is now empty. The name can be used again; a new map
    /// continues from that epoch.
    ///
    /// # Errors
    /// `NotFound` if there is no such map; `Conflict` if its epoch is not the expected one, or a
    /// program is bound to it; `Invalid` for nacre's own maps; `Unavailable` if the store does not
    /// answer, or while commits that the map triggered wait to be carried out.
    pub async fn delete(&self, name: &MapName, expected_epoch: Option<u64>) -> Result<u64> {
        let (map, commit_id) = (name.to_string(), self.fresh_id());
        let request = DeleteRequest { expected_epoch, commit_id, map };
        let reply: DeleteReply = self.submit(name, "delete", &request).await?;
        Ok(reply.epoch)
    }

    /// Whether a map has had a commit and is not deleted.
    ///
    /// # Errors
    /// `Unavailable`; `Corrupt`.
    pub async fn exists(&self, name: &MapName) -> Result<bool> {
        // No entry has an empty key.
        let reply = self.read(name, Some(String::new())).await?;
        Ok(reply.epoch > 0 && !reply.is_deleted)
    }

    async fn commit_at(
        &self,
        name: &MapName,
        expected_epoch: Option<u64>,
        changes: Vec<Change>,
    ) -> Result<u64> {
        let request = self.request(name, changes);
        self.commit_request(name, CommitRequest { expected_epoch, ..request }).await
    }

    fn request(&self, name: &MapName, changes: Vec<Change>) -> CommitRequest {
        CommitRequest {
            changes: changes.into_iter().map(ChangeMessage::from).collect(),
            commit_id: self.fresh_id(),
            map: name.to_string(),
            ..CommitRequest::default()
        }
    }

    async fn commit_request(&self, name: &MapName, request: CommitRequest) -> Result<u64> {
        let reply = self.submit_commit(name, &request).await?;
        if reply.pending_triggers > 0 {
            self.carry_out(name).await;
        }
        Ok(reply.epoch)
    }

    /// Sends a commit until its outcome is known. The class recognises a repeated commit by its id.
    pub(super) async fn submit_commit(
        &self,
        name: &MapName,
        request: &CommitRequest,
    ) -> Result<CommitReply> {
        self.submit(name, "commit", request).await
    }

    /// Calls a method that changes the map, and repeats the call until the store says whether the
    /// change was made. The request has an id, so a repeated call changes nothing twice.
    async fn submit<Answer: Message + Default>(
        &self,
        name: &MapName,
        method: &'static str,
        request: &impl Message,
    ) -> Result<Answer> {
        let object = Self::object(name);
        let mut backoff = Backoff::new();
        let mut in_doubt = None;
        for _ in 0..MAX_COMMIT_ATTEMPTS {
            match self.system.call(&object, MAP_CLASS, method, request).await {
                Ok(reply) => {
                    self.system.announce(&object).await;
                    return Ok(reply);
                }
                Err(error) if is_transient(&error) => in_doubt = Some(error),
                // An earlier attempt may have committed. Since then there were so many other
                // commits that the map's history no longer shows it.
                Err(error) if error.kind() == ErrorKind::Stale && in_doubt.is_some() => break,
                Err(error) => return Err(error),
            }
            backoff.wait().await;
        }
        let cause = in_doubt.map(|error| error.to_string()).unwrap_or_default();
        Err(Error::unavailable(format!("it is not known whether the {method} happened: {cause}"))
            .during(method)
            .on(object)
            .hint("read the map to see whether it happened"))
    }

    fn fresh_id(&self) -> Bytes {
        let mut random = self.random.lock().unwrap_or_else(PoisonError::into_inner);
        let halves = [random.next_u64().to_be_bytes(), random.next_u64().to_be_bytes()];
        Bytes::from(halves.concat())
    }

    /// Reads the map, calls `decide` to get changes, and commits them. Starts over whenever another
    /// committer was faster. Commits nothing if `decide` returns no changes. Returns the map's
    /// epoch at the end.
    ///
    /// # Errors
    /// Errors of `decide`, [`Maps::get`] and [`Maps::commit`]; `Conflict` only if other committers
    /// were faster a hundred times.
    pub async fn update(
        &self,
        name: &MapName,
        mut decide: impl FnMut(&MapState) -> Result<Vec<Change>>,
    ) -> Result<u64> {
        let mut attempt = 1;
        let mut backoff = Backoff::new();
        loop {
            let state = self.get(name).await?;
            let changes = decide(&state)?;
            if changes.is_empty() {
                return Ok(state.epoch);
            }
            match self.commit(name, state.epoch, changes).await {
                Err(error)
                    if matches!(error.kind(), ErrorKind::Conflict | ErrorKind::Stale)
                        && attempt < MAX_UPDATE_ATTEMPTS =>
                {
                    attempt += 1;
                    // The last committer already knows the newest state. Without a pause it would
                    // win again and again.
                    backoff.wait().await;
                }
                outcome => return outcome,
            }
        }
    }

    /// Watches a map for a caller that knows every change up to `from_epoch`. With 0 the caller
    /// knows nothing of the map.
    pub fn watch(&self, name: &MapName, from_epoch: u64) -> MapWatcher {
        MapWatcher::new(self, name, CatchUp::after(from_epoch))
    }

    /// Watches a map from its present state: the first event is the whole map.
    pub fn watch_whole(&self, name: &MapName) -> MapWatcher {
        MapWatcher::new(self, name, CatchUp::from_whole())
    }

    /// Returns the epochs after `after`, oldest first: at most `limit` epochs and at most one page.
    ///
    /// # Errors
    /// `Unavailable`; `Corrupt`.
    pub async fn history(&self, name: &MapName, after: u64, limit: usize) -> Result<History> {
        let request = PageRequest { after, limit: limit.min(MAX_HISTORY_PAGE) as u32 };
        let reply: HistoryReply =
            self.system.call(&Self::object(name), MAP_CLASS, "history", &request).await?;
        self.note_triggers(name, reply.pending_triggers);
        let records =
            reply.records.into_iter().map(EpochRecord::try_from).collect::<Result<_>>()?;
        Ok(History { epoch: reply.epoch, first_kept: reply.first_kept, records })
    }

    /// The names of all maps, in order. Leaves out deleted maps, except those that the caller may
    /// not read: the objects of deleted maps stay, and only a read shows that a map is deleted.
    ///
    /// # Errors
    /// `Unavailable`; `Unsupported` if the store cannot list.
    pub async fn list(&self) -> Result<Vec<MapName>> {
        let mut request = ListRequest {
            pool: PoolName::system(),
            after: None,
            prefix: MAP_OBJECT_PREFIX.to_owned(),
            limit: MAX_LIST_ENTRIES,
        };
        let mut names = Vec::new();
        loop {
            let page = self.system.store().list(request.clone()).await?;
            let bare =
                page.names.iter().filter_map(|name| name.as_str().strip_prefix(MAP_OBJECT_PREFIX));
            names.extend(bare.filter_map(|name| MapName::new(name).ok()));
            request.after = page.names.last().cloned();
            if !page.more {
                break;
            }
        }
        let looks =
            stream::iter(names).map(|name| self.unless_deleted(name)).buffered(LOOKS_AT_ONCE);
        looks.try_filter_map(|name| async { Ok(name) }).try_collect().await
    }

    async fn unless_deleted(&self, name: MapName) -> Result<Option<MapName>> {
        // Maps that cannot be deleted need no request.
        if is_system_map(&name) {
            return Ok(Some(name));
        }
        match self.read(&name, Some(String::new())).await {
            Ok(reply) => Ok((!reply.is_deleted).then_some(name)),
            Err(error) if matches!(error.kind(), ErrorKind::Denied | ErrorKind::Corrupt) => {
                Ok(Some(name))
            }
            Err(error) => Err(error),
        }
    }
}
