//! [`RadosEngine`]: the store over a Ceph cluster.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use nacre_clock::Clock;
use nacre_object::limits::MAX_NOTIFY_BYTES;
use nacre_object::{
    CallContext, Capabilities, Capability, Error, ListPage, ListRequest, ObjectId, RemoteClassHost,
    Reply, Request, Result, Store, Watch, WatchStream,
};
use nacre_rados_layout::{encode_letter, mailbox, mailbox_namespace};
use tokio::sync::{Semaphore, watch};
use tokio::time::timeout;

use crate::classes::in_osd::{InOsd, OsdCounts, OsdRequest};
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
use crate::shared_reads::{SharedReads, is_shared};
use crate::transaction::Transaction;
use crate::transaction::object_locks::ObjectLocks;
use crate::watches::Watches;
use crate::{RadosOptions, cluster::connection};

/// How many open namespaces the engine remembers. Opening one again is cheap.
const MAX_CONTEXTS: usize = 256;

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
    /// The pool as it was when the engine connected, by which all namespaces are opened.
    pool: Arc<IoContext>,
    options: RadosOptions,
    classes: Arc<dyn RemoteClassHost>,
    clock: Arc<dyn Clock>,
    contexts: Mutex<HashMap<String, Arc<IoContext>>>,
    in_osd: InOsd,
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
            pool,
            options,
            classes,
            clock,
            contexts: Mutex::default(),
            in_osd: InOsd::default(),
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
        let (cluster, pool) = (self.0.cluster.clone(), self.0.options.pool.clone());
        let asked = object.clone();
        let located = blocking(move || location::ask(&cluster, &pool, &asked)).await;
        located.map_err(|error| error.during("locate").on(object))
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

    /// The number of placement groups of the pool.
    ///
    /// # Errors
    /// `Unavailable` if the monitors do not answer; `NotFound` if the pool was deleted.
    pub async fn placement_groups(&self) -> Result<u32> {
        let (cluster, pool) = (self.0.cluster.clone(), self.0.options.pool.clone());
        let map = blocking(move || OsdMap::ask(&cluster)).await?;
        let found = map.pools.into_iter().find(|known| known.name == pool);
        let gone = || {
            Error::not_found("the cluster's pool is gone").on(&self.0.options.pool).hint(
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

    /// How many requests were run inside OSDs.
    pub fn osd_counts(&self) -> OsdCounts {
        self.0.in_osd.counts()
    }

    /// The methods, as `CLASS.METHOD`, that at present run in this process instead of in OSDs,
    /// because their answers are too long for an OSD.
    pub fn long_answers(&self) -> Vec<String> {
        self.0.in_osd.long_answers(&*self.0.clock)
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
        Ok(targets.ask(&self.context(PROBE_POOL)?).await)
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

    fn context(&self, namespace: &str) -> Result<Arc<IoContext>> {
        let mut contexts = self.0.contexts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(context) = contexts.get(namespace) {
            return Ok(context.clone());
        }
        if contexts.len() >= MAX_CONTEXTS {
            // Namespaces in use stay open for their users.
            contexts.clear();
        }
        let context = self.0.pool.namespace(namespace).map_err(operation_failed)?;
        let context = Arc::new(context);
        contexts.insert(namespace.to_owned(), context.clone());
        Ok(context)
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
        let context = self.context(object.pool.as_str())?;
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
        if let Some(reply) = self.0.in_osd.run(asked).await? {
            return Ok(reply);
        }
        let _turn =
            if transaction.wants_turn() { Some(self.0.locks.take(object).await) } else { None };
        transaction.run().await
    }

    async fn run_list(&self, request: ListRequest) -> Result<ListPage> {
        let context = self.context(request.pool.as_str())?;
        blocking(move || {
            let mut page = Page::new(request);
            context.visit_names(|name| page.see(name)).map_err(operation_failed)?;
            Ok(page.finish())
        })
        .await
    }

    fn mail(&self, object: &ObjectId) -> Result<Arc<IoContext>> {
        self.context(&mailbox_namespace(object.pool.as_str()))
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
        let mail = self.mail(object)?;
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

fn too_many_notifications() -> Error {
    let most = in_flight::MAX_NOTIFICATIONS;
    Error::unavailable(format!("the cluster has not answered {most} notifications yet"))
        .hint("see `ceph health detail`: an OSD may be down or a placement group inactive")
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
        let stream = async { self.0.watches.watch(self.mail(object)?, object).await };
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
