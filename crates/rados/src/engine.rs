//! [`RadosEngine`]: the store over a Ceph cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use nacre_clock::Clock;
use nacre_object::limits::MAX_NOTIFY_BYTES;
use nacre_object::{
    CallContext, Capabilities, Capability, Error, ListPage, ListRequest, ObjectId, PoolName,
    RemoteClassHost, Reply, Request, Result, Store, Watch, WatchStream,
};
use nacre_rados_layout::{encode_letter, mailbox};
use tokio::sync::{Semaphore, watch};
use tokio::time::timeout;

use crate::classes::in_osd::{OsdCounts, OsdRequest};
use crate::classes::survey::{PROBE_POOL, Survey, Surveyor};
use crate::cluster::failure::{operation_failed, status};
use crate::cluster::fencing;
use crate::cluster::location::{self, Location};
use crate::cluster::osd_counters::OsdCounters;
use crate::cluster::osd_map::OsdMap;
use crate::ffi::{Cluster, IoContext};
use crate::in_flight;
use crate::listing::Page;
use crate::mailbox::NOTIFY_TIMEOUT;
use crate::pools::namespaces::Namespaces;
use crate::pools::table::RadosPoolRef;
use crate::shared_reads::{SharedReads, is_shared};
use crate::transaction::Transaction;
use crate::transaction::object_locks::ObjectLocks;
use crate::watches::Watches;
use crate::{RadosOptions, cluster::connection};

/// How many notifications may be in flight at a time. Each holds a payload, and most of its time it
/// waits for watchers to acknowledge.
const MAX_NOTIFICATIONS: usize = 256;

const _: () = assert!(MAX_NOTIFICATIONS < in_flight::MAX_NOTIFICATIONS, "there is room for them");

/// A store that keeps its objects in a pool of a Ceph cluster. Clones are handles of the same
/// store.
#[derive(Clone)]
pub struct RadosEngine(Arc<Inner>);

struct Inner {
    cluster: Arc<Cluster>,
    namespaces: Namespaces,
    options: RadosOptions,
    classes: Arc<dyn RemoteClassHost>,
    clock: Arc<dyn Clock>,
    /// Limits the notifications in flight.
    notifying: Semaphore,
    locks: ObjectLocks,
    surveyor: Arc<Surveyor>,
    watches: Watches,
    shared_reads: SharedReads,
    is_shut_out: watch::Sender<bool>,
}

impl RadosEngine {
    /// Connects to a cluster. A method of `classes` runs inside the OSD of its object if the OSD
    /// has a class that can run it. Otherwise this process reads the object, runs the method, and
    /// writes the method's changes if the object has not changed since.
    ///
    /// # Errors
    /// `Unsupported` if librados is not installed; `Invalid`, `Denied` or `NotFound` if the cluster
    /// refuses this client; `Unavailable` after the options' `connect_timeout`. Each error says
    /// what to check.
    pub async fn connect(
        options: RadosOptions,
        classes: Arc<dyn RemoteClassHost>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self> {
        let asked = options.clone();
        let connecting = move || {
            let cluster = connection::connect(&asked)?;
            // The pool must exist.
            let pool = connection::open(&cluster, &asked, "")?;
            Ok((cluster, pool))
        };
        let (cluster, pool) =
            blocking(connecting).await.map_err(|error: Error| error.during("connect"))?;
        let watches = Watches::new(options.operation_timeout);
        Ok(Self(Arc::new(Inner {
            cluster,
            namespaces: Namespaces::new(pool, &watches, options.operation_timeout)?,
            options,
            classes,
            clock,
            notifying: Semaphore::new(MAX_NOTIFICATIONS),
            locks: ObjectLocks::default(),
            surveyor: Arc::default(),
            watches,
            shared_reads: SharedReads::default(),
            is_shut_out: watch::Sender::new(false),
        })))
    }

    /// The placement group and OSDs that keep an object, according to the monitors' present map.
    /// The object need not exist.
    ///
    /// # Errors
    /// `Unavailable` if the monitors do not answer.
    pub async fn locate(&self, object: &ObjectId) -> Result<Location> {
        let located = async {
            let pool = self.rados_pool_of(&object.pool).await?;
            let (cluster, asked) = (self.0.cluster.clone(), object.clone());
            blocking(move || location::ask(&cluster, &pool.name, &asked)).await
        };
        located.await.map_err(|error| error.during("locate").on(object))
    }

    /// The numbers of all OSDs in the cluster's map, whether they serve or not.
    ///
    /// # Errors
    /// `Unavailable` if the monitors do not answer.
    pub async fn osds(&self) -> Result<Vec<i32>> {
        let cluster = self.0.cluster.clone();
        let map = blocking(move || OsdMap::ask(&cluster)).await?;
        Ok(map.osds.iter().map(|osd| osd.id).collect())
    }

    /// The number of placement groups of the RADOS pool that holds a pool of nacre.
    ///
    /// # Errors
    /// `Unavailable` if the monitors do not answer; `NotFound` if the RADOS pool was deleted.
    pub async fn placement_groups(&self, pool: &PoolName) -> Result<u32> {
        let pool = self.rados_pool_of(pool).await?;
        let cluster = self.0.cluster.clone();
        let map = blocking(move || OsdMap::ask(&cluster)).await?;
        let found = map.pools.into_iter().find(|known| known.id == pool.id);
        let gone = || {
            Error::not_found("the cluster's pool is gone").on(&pool.name).hint(
                "if that was meant, make it anew with `ceph osd pool create` and start nacre again",
            )
        };
        found.map(|pool| pool.placement_groups).ok_or_else(gone)
    }

    /// The address by which the cluster knows this engine's connection. Another engine can shut it
    /// out by [`shut_out`](Self::shut_out).
    ///
    /// # Errors
    /// `Unavailable` if the engine is not connected.
    pub async fn address(&self) -> Result<String> {
        let cluster = self.0.cluster.clone();
        blocking(move || fencing::address(&cluster)).await
    }

    /// Shuts the connection with this address out of the cluster. When this returns, an OSD that
    /// has served a later request of this engine refuses all operations of the other connection,
    /// also those that it has sent before.
    ///
    /// # Errors
    /// `Denied` if the Ceph user may not do that; `Unavailable` if the monitors do not answer.
    pub async fn shut_out(&self, address: &str) -> Result<()> {
        let (cluster, address) = (self.0.cluster.clone(), address.to_owned());
        let shut = blocking(move || fencing::shut_out(&cluster, &address)).await;
        shut.map_err(|error| error.during("osd blocklist"))
    }

    /// Returns once an operation has failed because another client has shut this engine out. Only a
    /// new connection can serve then.
    pub async fn until_shut_out(&self) {
        let mut is_shut_out = self.0.is_shut_out.subscribe();
        // The sender is a field of this engine, so it exists.
        let _ = is_shut_out.wait_for(|is_shut_out| *is_shut_out).await;
    }

    fn note_failure(&self, error: &Error) {
        if fencing::is_shut_out(error) {
            self.0.is_shut_out.send_replace(true);
        }
    }

    /// The RADOS pool that holds a pool of nacre.
    ///
    /// # Errors
    /// `Unavailable` if the cluster does not answer.
    pub async fn rados_pool_of(&self, pool: &PoolName) -> Result<RadosPoolRef> {
        let namespace = self.0.namespaces.of_pool(pool.as_str()).await?;
        let id = namespace.rados_pool.root.pool_id();
        let own = self.0.namespaces.table().last_read();
        let own = own.and_then(|placed| placed.get(pool.as_str()).cloned());
        let main = RadosPoolRef { name: self.0.options.pool.clone(), id };
        Ok(own.filter(|own| own.id == id).unwrap_or(main))
    }

    /// The number of the RADOS pool that holds a pool of nacre, as far as this engine knows without
    /// asking the cluster.
    pub fn known_rados_pool(&self, pool: &PoolName) -> i64 {
        let placed = self.0.namespaces.table().last_read();
        let own = placed.and_then(|placed| placed.get(pool.as_str()).map(|own| own.id));
        own.unwrap_or_else(|| self.0.namespaces.main().root.pool_id())
    }

    /// The name of the RADOS pool that holds all pools of nacre without a RADOS pool of their own.
    pub fn main_rados_pool(&self) -> &str {
        &self.0.options.pool
    }

    /// The pools of nacre that have a RADOS pool other than the main one, with that RADOS pool.
    ///
    /// # Errors
    /// `Unavailable` if the cluster does not answer.
    pub async fn placed_pools(&self) -> Result<BTreeMap<String, RadosPoolRef>> {
        Ok((*self.0.namespaces.table().placed_pools().await?).clone())
    }

    /// Makes a pool of nacre lie in this RADOS pool; in the main one with `None`. Only for a pool
    /// that does not exist for clients: it must be empty. Returns when all processes that use the
    /// Ceph cluster use the RADOS pool, which may take a minute after one of them has died.
    ///
    /// # Errors
    /// `Invalid` for one of nacre's own pools, or for a RADOS pool that is not replicated;
    /// `NotFound` if there is no such RADOS pool; `Conflict` if there are objects of the pool of
    /// nacre already; `Unavailable` if a process does not confirm.
    pub async fn place_pool(&self, pool: &PoolName, rados_pool: Option<&str>) -> Result<()> {
        let placed = self.place_pool_now(pool, rados_pool).await;
        placed.map_err(|error| error.during("choose the RADOS pool"))
    }

    async fn place_pool_now(&self, pool: &PoolName, rados_pool: Option<&str>) -> Result<()> {
        let namespaces = &self.0.namespaces;
        if pool.is_own() {
            return Err(Error::invalid("nacre's own pools lie in the main RADOS pool").on(pool));
        }
        let chosen = match rados_pool.filter(|name| *name != self.0.options.pool) {
            Some(name) => Some(self.find_rados_pool(name).await?),
            None => None,
        };
        let former = namespaces.of_pool(pool.as_str()).await?.context;
        let id =
            chosen.as_ref().map_or_else(|| namespaces.main().root.pool_id(), |chosen| chosen.id);
        let future = namespaces.in_rados_pool(id, pool.as_str()).await?;
        if former.pool_id() != id {
            check_empty(pool, &former).await?;
            check_empty(pool, &future).await?;
        }
        let table = namespaces.table();
        let before = table.placed_pools().await?.get(pool.as_str()).cloned();
        table.set(pool, chosen).await?;
        if former.pool_id() == id {
            return Ok(());
        }
        // A process may have written an object before it heard of the change.
        if let Err(error) = check_empty(pool, &former).await {
            table.set(pool, before).await?;
            return Err(error);
        }
        Ok(())
    }

    async fn find_rados_pool(&self, name: &str) -> Result<RadosPoolRef> {
        let cluster = self.0.cluster.clone();
        let map = blocking(move || OsdMap::ask(&cluster)).await?;
        let found = map.pools.into_iter().find(|pool| pool.name == name);
        let Some(found) = found else {
            let text = format!("the Ceph cluster has no pool {name}");
            return Err(Error::not_found(text).hint(format!(
                "make it: ceph osd pool create {name} && ceph osd pool application enable {name} nacre"
            )));
        };
        match found.is_replicated() {
            true => Ok(RadosPoolRef { name: found.name, id: found.id }),
            false => Err(Error::invalid(format!("the RADOS pool {name} is not replicated"))
                .hint("choose a replicated pool: erasure-coded pools keep no maps")),
        }
    }

    /// How many requests were run inside OSDs.
    pub fn osd_counts(&self) -> OsdCounts {
        let counts = self.0.namespaces.rados_pools().into_iter().map(|pool| pool.in_osd.counts());
        counts.fold(OsdCounts::default(), OsdCounts::and)
    }

    /// The methods, as `CLASS.METHOD`, that at present run in this process instead of in OSDs,
    /// because their answers are too long for an OSD.
    pub fn long_answers(&self) -> Vec<String> {
        let pools = self.0.namespaces.rados_pools().into_iter();
        let methods: BTreeSet<_> =
            pools.flat_map(|pool| pool.in_osd.long_answers(&*self.0.clock)).collect();
        methods.into_iter().collect()
    }

    /// Finds out for each OSD whether it has nacre's class, Ceph's class `lua`, or neither.
    ///
    /// # Errors
    /// `Unavailable` if the monitors do not answer.
    pub async fn survey(&self) -> Result<Survey> {
        let (cluster, options) = (self.0.cluster.clone(), self.0.options.clone());
        let surveyor = self.0.surveyor.clone();
        let targets = blocking(move || surveyor.find(&cluster, &options)).await;
        let targets = targets.map_err(|error| error.during("survey"))?;
        let context = self.0.namespaces.of_main(PROBE_POOL)?.context;
        Ok(targets.ask(&context).await)
    }

    /// How many operations of all clients an OSD has counted since it started.
    ///
    /// # Errors
    /// `Denied` if the user may not ask the OSD for its counters; `Unavailable` if the OSD does not
    /// answer.
    pub async fn osd_counters(&self, osd: i32) -> Result<OsdCounters> {
        let cluster = self.0.cluster.clone();
        let counters = blocking(move || OsdCounters::ask(&cluster, osd)).await;
        counters.map_err(|error| error.during("perf dump").on(format!("osd.{osd}")))
    }

    /// Ends the engine's watches. Returns when the cluster has removed the watches, or after some
    /// seconds without an answer. The cluster keeps a watch that was not ended for half a minute.
    /// In that time, every notification waits for the missing watcher.
    pub async fn close(&self) {
        self.0.watches.end().await;
    }

    async fn run(&self, request: &Request) -> Result<Reply> {
        self.capabilities().check(request)?;
        match is_shared(request, &*self.0.classes) {
            true => self.0.shared_reads.read(request, self.run_alone(request)).await,
            false => self.run_alone(request).await,
        }
    }

    async fn run_alone(&self, request: &Request) -> Result<Reply> {
        let object = &request.header.object;
        let namespace = self.0.namespaces.of_pool(object.pool.as_str()).await?;
        let context = namespace.context;
        let source = request.header.source.clone();
        let transaction = Transaction {
            objects: &context,
            classes: &*self.0.classes,
            request,
            clock: &*self.0.clock,
            call: CallContext { source, now_micros: self.0.clock.now_micros() },
        };
        if let Some(reply) = transaction.run_blind().await? {
            return Ok(reply);
        }
        let asked = OsdRequest {
            context: &context,
            classes: &*self.0.classes,
            request,
            clock: &*self.0.clock,
        };
        if let Some(reply) = namespace.rados_pool.in_osd.run(asked).await? {
            return Ok(reply);
        }
        let _turn =
            if transaction.wants_turn() { Some(self.0.locks.take(object).await) } else { None };
        transaction.run().await
    }

    async fn run_list(&self, request: ListRequest) -> Result<ListPage> {
        let context = self.0.namespaces.of_pool(request.pool.as_str()).await?.context;
        blocking(move || {
            let mut page = Page::new(request);
            let see = |name: &[u8]| {
                page.see(name);
                ControlFlow::Continue(())
            };
            context.visit_names(see).map_err(operation_failed)?;
            Ok(page.finish())
        })
        .await
    }

    async fn mail(&self, object: &ObjectId) -> Result<Arc<IoContext>> {
        Ok(self.0.namespaces.of_mail(object.pool.as_str()).await?.context)
    }

    async fn run_notify(&self, object: &ObjectId, payload: &Bytes) -> Result<()> {
        if payload.len() > MAX_NOTIFY_BYTES {
            return Err(Error::invalid(format!(
                "a notification of {} bytes is too long",
                payload.len()
            ))
            .hint(format!("send at most {MAX_NOTIFY_BYTES} bytes")));
        }
        let letter = encode_letter(object.name.as_str(), payload);
        let mail = self.mail(object).await?;
        let name = mailbox(object.name.as_str());
        // If an OSD has begun a notification, librados waits for its end without any deadline.
        let notified = async {
            let _turn = self.0.notifying.acquire().await;
            let room = mail.admit_notification().ok_or_else(too_many_notifications)?;
            Ok(mail.notify(&name, letter, NOTIFY_TIMEOUT, room).await)
        };
        let answer = timeout(self.0.options.operation_timeout, notified).await;
        match answer.unwrap_or(Ok((status::TIMED_OUT, false)))? {
            // Either the object had no watcher, or some watchers did not answer. The cluster tells
            // these watchers that they missed events.
            (status::ABSENT, _) | (status::TIMED_OUT, true) => Ok(()),
            (status, _) if status < 0 => Err(operation_failed(status)),
            _ => Ok(()),
        }
    }
}

pub(crate) fn too_many_notifications() -> Error {
    let most = in_flight::MAX_NOTIFICATIONS;
    Error::unavailable(format!("the cluster has not answered {most} notifications yet"))
        .hint("see `ceph health detail`: an OSD may be down or a placement group inactive")
}

/// Refuses a namespace that holds objects.
async fn check_empty(pool: &PoolName, namespace: &Arc<IoContext>) -> Result<()> {
    let asked = Arc::clone(namespace);
    match blocking(move || asked.holds_objects().map_err(operation_failed)).await? {
        false => Ok(()),
        true => Err(Error::conflict("there are objects of the pool already").on(pool).hint(
            "nacre cannot move objects between RADOS pools: use another name for the pool, or              remove the objects",
        )),
    }
}

/// Runs work that waits for the cluster on a thread that may block.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| {
        Err(Error::unavailable(format!("the operation was interrupted: {error}")))
    })
}

#[async_trait]
impl Store for RadosEngine {
    async fn submit(&self, request: Request) -> Result<Reply> {
        let reply = self.run(&request).await;
        reply
            .inspect_err(|error| self.note_failure(error))
            .map_err(|error| error.on(&request.header.object))
    }

    async fn list(&self, request: ListRequest) -> Result<ListPage> {
        self.run_list(request).await.map_err(|error| error.during("list"))
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::NONE.with(Capability::Classes).with(Capability::List)
    }
}

#[async_trait]
impl Watch for RadosEngine {
    async fn watch(&self, object: &ObjectId) -> Result<WatchStream> {
        let stream = async { self.0.watches.watch(self.mail(object).await?, object).await };
        stream.await.map_err(|error| error.during("watch").on(object))
    }

    async fn notify(&self, object: &ObjectId, payload: Bytes) -> Result<()> {
        let told = self.run_notify(object, &payload).await;
        told.map_err(|error| error.during("notify").on(object))
    }
}

impl fmt::Debug for RadosEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RadosEngine").field("options", &self.0.options).finish()
    }
}
