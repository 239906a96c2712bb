//! A node's copy of the map `entities`, and the standing that each session gets from the copy. The
//! standing of a session says what the session's entity may do now, by the newest copy.
//!
//! A commit to the map is in force on a node once the node has read it, which takes one
//! notification and one read. From then on the node applies the commit to every message, also of
//! open sessions, and ends the sessions of revoked entities. A node that cannot reach the map's
//! object continues with its last copy. [`LiveEntities::reached`] waits until a change is in force
//! on a node. A node that has just started admits no entity until it has read the whole map.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures::future::{BoxFuture, FutureExt};
use nacre_object::{
    Demand, EntityName, Error, FINGERPRINT_BYTES, NodeName, Result, Standing, TenantName,
};
use tokio::sync::watch;
use tokio::task::AbortHandle;

use super::call_rules::CallRules;
use super::denials::{Denial, DenialReporter};
use super::need::{Need, needs_of};
use super::{Entity, entities_map};
use crate::backoff::Backoff;
use crate::events::{Event, Severity};
use crate::maps::{ENTITIES_MAP, MapEvent, MapWatcher, Maps};

/// How long a judgement waits until the entities are known.
const JUDGE_PATIENCE: Duration = Duration::from_secs(1);

/// How long a caller waits until this node has read an epoch of the map `entities`. A node usually
/// reads an epoch within milliseconds. A caller whose wait fails tries again.
const REACH_PATIENCE: Duration = Duration::from_secs(10);

/// The record of an entity, or `None` if it is not admitted.
type Record = Option<Arc<Entity>>;

/// The entities as a node knows them. This value follows their map until it is dropped.
#[derive(Debug)]
pub struct LiveEntities {
    table: Arc<Table>,
    following: AbortHandle,
}

#[derive(Debug)]
struct Table {
    entities: Mutex<HashMap<EntityName, watch::Sender<Record>>>,
    /// The epoch of this copy of the map, or `None` before the map was read.
    epoch: watch::Sender<Option<u64>>,
    denials: DenialReporter,
    /// The rights that calls of other crates' classes need.
    rules: CallRules,
}

impl Drop for LiveEntities {
    fn drop(&mut self) {
        self.following.abort();
    }
}

impl LiveEntities {
    /// Starts to follow the map `entities` on a node. `rules` say which rights a call of another
    /// crate's class needs. Needs a tokio runtime.
    pub fn follow(maps: &Maps, node: NodeName, rules: CallRules) -> Self {
        let table = Arc::new(Table {
            entities: Mutex::default(),
            epoch: watch::Sender::new(None),
            denials: DenialReporter::start(maps.events().clone(), node),
            rules,
        });
        let following = follow(table.clone(), maps.watch_whole(&entities_map()), maps.clone());
        Self { table, following: tokio::spawn(following).abort_handle() }
    }

    /// Waits until this copy has reached an epoch of the map `entities`. Returns the epoch of the
    /// copy then, which may be a later one.
    ///
    /// # Errors
    /// `Unavailable` after some seconds: the node is cut off from the store, or there is no such
    /// epoch yet.
    pub async fn reached(&self, epoch: u64) -> Result<u64> {
        let reached = tokio::time::timeout(REACH_PATIENCE, self.known_to(epoch)).await;
        reached.map_err(|_| {
            let known =
                self.table.epoch.borrow().map_or("none".to_owned(), |known| known.to_string());
            Error::unavailable(format!(
                "this node has not read epoch {epoch} of the map {ENTITIES_MAP} yet"
            ))
            .hint(format!("try again; the newest epoch that it has read is {known}"))
        })
    }

    async fn known_to(&self, epoch: u64) -> u64 {
        let mut known = self.table.epoch.subscribe();
        let reached = known.wait_for(|known| known.is_some_and(|known| known >= epoch)).await;
        reached.ok().and_then(|known| *known).unwrap_or_default()
    }

    /// Checks whether an entity's current grants cover a demand. A node uses this when it acts for
    /// an entity without a session of that entity. Nodes and the local user may do anything.
    ///
    /// # Errors
    /// `Denied`; `Unavailable` while the node has not read the entities.
    pub async fn judge(&self, entity: &EntityName, demand: Demand<'_>) -> Result<()> {
        if entity.is_node() || *entity == EntityName::local() {
            return Ok(());
        }
        let known = tokio::time::timeout(JUDGE_PATIENCE, self.known_to(0)).await;
        known.map_err(|_| {
            Error::unavailable("the node has not read the cluster's entities yet")
                .hint("try again in some seconds")
        })?;
        let record = self.table.lock().get(entity).map(watch::Sender::subscribe);
        let Some(record) = record else {
            return Err(Error::denied(format!("{entity} is no longer an entity of this cluster"))
                .hint(format!("an administrator can add it: nacre entity add {entity}")));
        };
        let fingerprint = record.borrow().as_ref().map(|entity| entity.fingerprint);
        let (entity, fingerprint) = (entity.clone(), fingerprint.unwrap_or_default());
        let (denials, rules) = (self.table.denials.clone(), self.table.rules);
        EntityStanding { entity, fingerprint, record, denials, rules }.allow(demand)
    }

    /// Makes the error for an entity that this node refuses, although the cluster's authority
    /// issued the entity's certificate. Also reports the refusal to the cluster log.
    pub fn refusal(&self, entity: &EntityName, text: String) -> Error {
        let denial =
            Denial::new(entity.clone(), "entry".into(), "a certificate".into(), text.clone());
        self.table.denials.report(denial);
        Error::denied(text)
    }

    /// Returns the standing of the entity with this certificate. Waits until this node has read the
    /// map `entities`.
    ///
    /// # Errors
    /// `Denied` if the map has no such entity, or has it with another certificate.
    pub async fn admit(
        &self,
        entity: &EntityName,
        fingerprint: &[u8; FINGERPRINT_BYTES],
    ) -> Result<EntityStanding> {
        self.known_to(0).await;
        let record = self.table.lock().get(entity).map(watch::Sender::subscribe);
        let known = |record: &watch::Receiver<Record>| is_of(&record.borrow(), fingerprint);
        let Some(record) = record.filter(known) else {
            let text = format!("{entity} is not, or no longer, an entity of this cluster");
            return Err(self
                .refusal(entity, text)
                .hint(format!("an administrator can add it: nacre entity add {entity}")));
        };
        let (entity, fingerprint) = (entity.clone(), *fingerprint);
        let (denials, rules) = (self.table.denials.clone(), self.table.rules);
        Ok(EntityStanding { entity, fingerprint, record, denials, rules })
    }
}

fn is_of(record: &Record, fingerprint: &[u8; FINGERPRINT_BYTES]) -> bool {
    record.as_ref().is_some_and(|entity| entity.fingerprint == *fingerprint)
}

async fn follow(table: Arc<Table>, mut watcher: MapWatcher, maps: Maps) {
    let mut backoff = Backoff::new();
    loop {
        match watcher.next().await {
            Ok(event) => {
                backoff.reset();
                table.apply(event, &maps);
            }
            // This node cannot repair that. It keeps the copy that it has, and reads again later.
            Err(_) => backoff.wait().await,
        }
    }
}

impl Table {
    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<EntityName, watch::Sender<Record>>> {
        self.entities.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn apply(&self, event: MapEvent, maps: &Maps) {
        let epoch = event.epoch();
        match event {
            MapEvent::Whole(state) => {
                let gone = |name: &EntityName| !state.entries.contains_key(name.as_str());
                let gone: Vec<_> = self.lock().keys().filter(|name| gone(name)).cloned().collect();
                gone.iter().for_each(|name| self.set(name, None));
                state.entries.iter().for_each(|(name, value)| self.read(name, Some(value), maps));
            }
            MapEvent::Epoch(record) => {
                for change in &record.changes {
                    self.read(change.key(), change.value(), maps);
                }
            }
        }
        self.epoch.send_replace(Some(epoch));
    }

    /// Takes an entry. An unreadable entry admits no client.
    fn read(&self, name: &str, value: Option<&Bytes>, maps: &Maps) {
        let Ok(entity) = EntityName::new(name) else { return };
        match value.map(|value| Entity::parse(name, value)).transpose() {
            Ok(record) => self.set(&entity, record.map(Arc::new)),
            Err(error) => {
                self.set(&entity, None);
                let events = maps.events().clone();
                let event = Event::new(Severity::Error, error.to_string());
                // `append` retries for some seconds. If it fails then, the event is dropped.
                tokio::spawn(async move { events.append(event).await.ok() });
            }
        }
    }

    fn set(&self, name: &EntityName, record: Record) {
        let mut entities = self.lock();
        match (entities.get(name), record) {
            (Some(known), Some(record)) => {
                known.send_replace(Some(record));
            }
            (None, Some(record)) => {
                entities.insert(name.clone(), watch::Sender::new(Some(record)));
            }
            (Some(known), None) => {
                known.send_replace(None);
                entities.remove(name);
            }
            (None, None) => {}
        }
    }
}

/// The standing of an entity that has a record. It always decides by the present record.
#[derive(Debug)]
pub struct EntityStanding {
    entity: EntityName,
    fingerprint: [u8; FINGERPRINT_BYTES],
    record: watch::Receiver<Record>,
    denials: DenialReporter,
    rules: CallRules,
}

impl EntityStanding {
    /// Checks whether the entity has a right now.
    ///
    /// # Errors
    /// `Denied` with the missing grant. The denial is also reported to the cluster log.
    pub fn require(&self, need: Need<'_>) -> Result<()> {
        match self.entity_now() {
            Some(entity) if entity.grants.covers(&need) => Ok(()),
            _ => Err(self.denied(need)),
        }
    }

    /// Returns the record, unless it was removed, or belongs to a later entity with the same name.
    fn entity_now(&self) -> Record {
        let record = self.record.borrow();
        if is_of(&record, &self.fingerprint) { record.clone() } else { None }
    }

    fn denied(&self, need: Need<'_>) -> Error {
        let text = format!("{} may not {need}", self.entity);
        let denial = Denial::new(self.entity.clone(), need.kind(), need.grant(), text);
        let error = denial.error();
        self.denials.report(denial);
        error
    }
}

impl Standing for EntityStanding {
    fn entity(&self) -> &EntityName {
        &self.entity
    }

    fn tenant(&self) -> TenantName {
        self.entity_now().map_or_else(TenantName::standard, |entity| entity.tenant.clone())
    }

    fn allow(&self, demand: Demand<'_>) -> Result<()> {
        let record = self.entity_now();
        let grants = record.as_ref().map(|entity| &entity.grants);
        needs_of(demand, self.rules, &mut |need| match grants {
            Some(grants) if grants.covers(&need) => Ok(()),
            _ => Err(self.denied(need)),
        })
    }

    fn ended(&self) -> BoxFuture<'static, ()> {
        let (mut record, fingerprint) = (self.record.clone(), self.fingerprint);
        async move {
            // The standing also ends when the record is dropped.
            let _ = record.wait_for(|record| !is_of(record, &fingerprint)).await;
        }
        .boxed()
    }
}
