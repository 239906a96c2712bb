//! `Resources` and `Resource`: shared resources as clients see them.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use nacre_clock::{Clock, Random};
use nacre_host::{
    AuthorityClient, HostNodes, HostTransport, MapRecords, RECOVER_PATIENCE, Record, RecordCache,
    RecordStore, stored,
};
use nacre_object::{Error, ErrorKind, NodeName, ProgramName, Result};
use nacre_registry::{Change, MapWatcher, Maps};
use serde_json::Value;
use tokio::time::Instant;

#[cfg(feature = "programs")]
use crate::holding::Holding;
use crate::question::{Asked, Call, RESOURCE_SERVICE, ResourceStat};
use crate::stored::{STATE_KEY, Stored};
use crate::{ResourceName, ResourceRecord};

/// An authority that does not answer this long is replaced.
const SILENCE: Duration = Duration::from_millis(300);
/// How long a client waits for the answer to one request. It is longer than the second after which
/// an authority says that it has no answer yet.
pub(crate) const ASK_PATIENCE: Duration = Duration::from_secs(2);
/// A call with all its retries.
const CALL_PATIENCE: Duration = Duration::from_secs(10);

/// The resources of a cluster. Cheap to clone.
#[derive(Clone)]
pub struct Resources {
    maps: Maps,
    records: Arc<dyn RecordStore<ResourceRecord>>,
    transport: Arc<dyn HostTransport>,
    nodes: Arc<dyn HostNodes>,
    #[cfg(feature = "programs")]
    clock: Arc<dyn Clock>,
}

/// A handle to one resource. Each call happens exactly once, even if an answer is lost or the
/// authority changes.
pub struct Resource {
    name: ResourceName,
    authority: Arc<AuthorityClient<ResourceRecord, ()>>,
    nodes: Arc<dyn HostNodes>,
    handle: String,
    calls: AtomicU64,
    #[cfg(feature = "programs")]
    holding: Arc<Holding>,
    /// Locked during a call. An authority remembers only the last answer to each handle, so a
    /// handle sends one call at a time.
    #[cfg(not(feature = "programs"))]
    turn: tokio::sync::Mutex<()>,
}

impl fmt::Debug for Resources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resources").finish_non_exhaustive()
    }
}

impl fmt::Debug for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resource").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Resources {
    /// The resources whose records are in `maps`, and which these nodes serve.
    pub fn new(
        maps: Maps,
        transport: Arc<dyn HostTransport>,
        nodes: Arc<dyn HostNodes>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let records = Arc::new(MapRecords::new(maps.clone()));
        #[cfg(not(feature = "programs"))]
        let _unused = clock;
        Self {
            maps,
            records,
            transport,
            nodes,
            #[cfg(feature = "programs")]
            clock,
        }
    }

    /// The records.
    pub fn records(&self) -> &Arc<dyn RecordStore<ResourceRecord>> {
        &self.records
    }

    /// Creates a resource of a file type.
    ///
    /// # Errors
    /// `Exists` if there is a resource of that name; `Unavailable`.
    pub async fn create(&self, name: &ResourceName, file_type: ProgramName) -> Result<()> {
        let before = self.records.last(name).await?;
        if before.as_ref().is_some_and(|before| !before.is_removed()) {
            return Err(exists(name));
        }
        let first = ResourceRecord::first(name.clone(), file_type, before.as_ref());
        match self.records.propose(&first).await {
            // Another client was faster, or the answer to an earlier attempt was lost.
            Err(error) if error.kind() == ErrorKind::Stale => {
                match self.records.current(name).await? {
                    Some(stored) if stored == first => Ok(()),
                    _ => Err(exists(name)),
                }
            }
            proposed => proposed,
        }
    }

    /// Removes a resource with its state.
    ///
    /// # Errors
    /// `NotFound`. After `Unavailable` the resource may be removed.
    pub async fn remove(&self, name: &ResourceName) -> Result<()> {
        loop {
            let record = stored(&*self.records, name).await?;
            match self.records.propose(&record.removed()).await {
                // It has another authority since.
                Err(error) if error.kind() == ErrorKind::Stale => {}
                Err(error) => return Err(error),
                Ok(()) => break,
            }
        }
        self.maps.apply(name.map(), vec![Change::remove(STATE_KEY)]).await.map(drop)
    }

    /// The names of all resources.
    ///
    /// # Errors
    /// `Unavailable`.
    pub async fn list(&self) -> Result<Vec<ResourceName>> {
        self.records.names().await
    }

    /// The record of a resource: its file type, and which node serves it.
    ///
    /// # Errors
    /// `NotFound`; `Unavailable`.
    pub async fn record(&self, name: &ResourceName) -> Result<ResourceRecord> {
        stored(&*self.records, name).await
    }

    /// The state as it is stored; `None` before the first change.
    ///
    /// # Errors
    /// `NotFound`; `Unavailable`.
    pub async fn stored(&self, name: &ResourceName) -> Result<Option<Stored>> {
        let born = self.record(name).await?.born();
        let (_, stored) = self.maps.entry(name.map(), STATE_KEY).await?;
        let stored = stored.map(|stored| Stored::decode(&stored)).transpose()?;
        Ok(stored.filter(|stored| stored.born == born))
    }

    /// Watches a resource. The watcher gets an event for each change once it is stored: see
    /// [`Resources::stored`].
    pub fn watch(&self, name: &ResourceName) -> MapWatcher {
        self.maps.watch(name.map(), 0)
    }

    /// A handle to a resource.
    ///
    /// # Errors
    /// `NotFound`; `Unavailable`.
    pub async fn open(&self, name: &ResourceName) -> Result<Resource> {
        let records = Arc::new(RecordCache::open(name.clone(), Arc::clone(&self.records)).await?);
        let (transport, nodes) = (Arc::clone(&self.transport), Arc::clone(&self.nodes));
        let authority = Arc::new(AuthorityClient::new(
            name.clone(),
            RESOURCE_SERVICE,
            transport,
            nodes,
            SILENCE,
            records,
        ));
        Ok(Resource {
            name: name.clone(),
            #[cfg(feature = "programs")]
            holding: Holding::new(Arc::clone(&authority), Arc::clone(&self.clock)),
            #[cfg(not(feature = "programs"))]
            turn: tokio::sync::Mutex::default(),
            authority,
            nodes: Arc::clone(&self.nodes),
            handle: format!("{:016x}", Random::from_system().next_u64()),
            calls: AtomicU64::new(0),
        })
    }
}

/// The error of a call that got no answer in time. The call may have been carried out.
fn undecided(error: Error) -> Error {
    match error.kind() {
        ErrorKind::Stale => Error::unavailable(format!("no authority answered in time: {error}"))
            .hint("the call may have been carried out: read the resource before you call again"),
        _ => error,
    }
}

fn exists(name: &ResourceName) -> Error {
    Error::exists(format!("there is a resource {name} already"))
}

impl Resource {
    /// The name.
    pub fn name(&self) -> &ResourceName {
        &self.name
    }

    /// Calls a method, exactly once. Calls of one handle run one after another. A client that holds
    /// a capability (the right to use the state on its own) runs the method itself: see
    /// [`Resource::release`].
    ///
    /// # Errors
    /// Those of the method. After `Unavailable` the call may have been carried out.
    #[cfg(feature = "programs")]
    pub async fn call(&self, method: &str, input: Value) -> Result<Value> {
        if let Some(answered) = self.holding.call_at_once(method, &input) {
            // If calls follow without a pause, this yields to the task that renews the lease.
            tokio::task::coop::consume_budget().await;
            return answered.map_err(|error| error.on(&self.name));
        }
        let deadline = Instant::now() + CALL_PATIENCE;
        let answered = self.holding.call(&self.numbered(method, input), deadline).await;
        answered.map_err(|error| undecided(error).on(&self.name))
    }

    /// Calls a method, exactly once. Calls of one handle run one after another.
    ///
    /// # Errors
    /// Those of the method. After `Unavailable` the call may have been carried out.
    #[cfg(not(feature = "programs"))]
    pub async fn call(&self, method: &str, input: Value) -> Result<Value> {
        let _turn = self.turn.lock().await;
        let (call, deadline) = (self.numbered(method, input), Instant::now() + CALL_PATIENCE);
        let asked = self.authority.ask(&Asked::Call(&call), ASK_PATIENCE, deadline).await;
        let (answer, _) = asked.map_err(|error| undecided(error).on(&self.name))?;
        let answer: crate::question::Answer = decode(&answer)?;
        Ok(answer.output)
    }

    fn numbered(&self, method: &str, input: Value) -> Call {
        Call {
            method: method.to_owned(),
            input,
            handle: self.handle.clone(),
            number: self.calls.fetch_add(1, Ordering::Relaxed) + 1,
            #[cfg(feature = "programs")]
            client: self.holding.client(),
            #[cfg(not(feature = "programs"))]
            client: 0,
        }
    }

    /// Returns this handle's capability, if it has one, with the changes that the client made.
    ///
    /// Otherwise the handle returns its capability half a second after the last call of a method,
    /// or when it is dropped. If the process ends before that, the next client waits until the
    /// lease is over.
    #[cfg(feature = "programs")]
    pub async fn release(&self) {
        self.holding.give_back().await;
    }

    /// The resource at a glance.
    ///
    /// # Errors
    /// `Unavailable`.
    pub async fn stat(&self) -> Result<ResourceStat> {
        let deadline = Instant::now() + CALL_PATIENCE;
        let (answer, _) = self.authority.ask(&Asked::Stat, ASK_PATIENCE, deadline).await?;
        decode(&answer)
    }

    /// Moves the resource to another node, while clients use it.
    ///
    /// # Errors
    /// `Invalid` if the node serves no resources. `Conflict` if the node did not take over; then
    /// the resource stays where it is. `Unavailable`.
    pub async fn move_to(&self, node: &NodeName) -> Result<()> {
        let hosts = self.nodes.nodes().await?;
        if !hosts.contains(node) {
            let names: Vec<_> = hosts.iter().map(NodeName::as_str).collect();
            return Err(Error::invalid(format!("node {node} serves no resources"))
                .hint(format!("name one of {}", names.join(", "))));
        }
        let deadline = Instant::now() + CALL_PATIENCE;
        let question = Asked::HandOver(node);
        self.authority.ask(&question, RECOVER_PATIENCE, deadline).await.map(drop)
    }
}

#[cfg(feature = "programs")]
impl Drop for Resource {
    fn drop(&mut self) {
        self.holding.close();
    }
}

pub(crate) fn decode<T: for<'a> serde::Deserialize<'a>>(answer: &[u8]) -> Result<T> {
    serde_json::from_slice(answer).map_err(|cause| {
        Error::corrupt(format!("the answer of a resource's node cannot be decoded: {cause}"))
    })
}
