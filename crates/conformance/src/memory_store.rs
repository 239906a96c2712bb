//! A whole store in memory: the specification of [`Store`] and [`Watch`] as running code.
//!
//! Each transaction holds one mutex from its begin to its end.
//!
//! **Invariant:** a transaction becomes visible and is reported to watchers in one step, or not at
//! all.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use nacre_clock::{Clock, ManualClock};
use nacre_object::limits::{MAX_LIST_ENTRIES, MAX_NOTIFY_BYTES};
use nacre_object::{
    CallContext, Capabilities, Capability, ClassHost, Error, ListPage, ListRequest, NoClasses,
    ObjectId, ObjectName, Op, PoolName, Reply, Request, Result, Store, Watch, WatchEvent,
    WatchStream, run_transaction,
};

use crate::memory_object::MemoryObject;
use crate::watch_hub::WatchHub;

/// A store that keeps everything in memory. Clones are handles of the same store.
#[derive(Clone)]
pub struct MemoryStore {
    state: Arc<Mutex<State>>,
    classes: Arc<dyn ClassHost>,
    clock: Arc<dyn Clock>,
    capabilities: Capabilities,
}

#[derive(Default)]
struct State {
    /// Removed objects stay here, so that their versions go on rising and their snapshots remain.
    pools: BTreeMap<PoolName, BTreeMap<ObjectName, MemoryObject>>,
    watches: WatchHub,
}

impl MemoryStore {
    /// An empty store that runs the methods of `classes`.
    pub fn new(classes: Arc<dyn ClassHost>, clock: Arc<dyn Clock>) -> Self {
        Self { state: Arc::default(), classes, clock, capabilities: Capabilities::all() }
    }

    /// An empty store without classes, whose clock stands at 0.
    pub fn plain() -> Self {
        Self::new(Arc::new(NoClasses), Arc::new(ManualClock::default()))
            .with_capabilities(Capabilities::all().without(Capability::Classes))
    }

    /// Limits the store to these capabilities.
    pub fn with_capabilities(mut self, capabilities: Capabilities) -> Self {
        self.capabilities = capabilities;
        self
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A class that panics does not damage the state, because transactions work on a clone.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn execute(&self, request: &Request) -> Result<Reply> {
        self.capabilities.check(request)?;
        let id = &request.header.object;
        let mut state = self.state();
        let pool = state.pools.entry(id.pool.clone()).or_default();
        let mut object = pool.get(&id.name).cloned().unwrap_or_default();
        if let Some(snapshot) = &request.header.snapshot {
            self.check_read_only(&request.ops)?;
            object = object.at_snapshot(snapshot)?;
        }
        for op in &request.ops {
            if let Op::CloneFrom { source, snapshot } | Op::WriteFullFrom { source, snapshot } = op
                && let Some(found) = pool.get(source)
            {
                object.offer_clone_source(source, found, snapshot);
            }
        }

        let now_micros = self.clock.now_micros();
        let context = CallContext { source: request.header.source.clone(), now_micros };
        let results = run_transaction(&request.ops, &mut object, &*self.classes, &context)?;
        if request.header.snapshot.is_some() {
            return read_reply(&object, results);
        }

        let changed = object.commit(now_micros);
        let version = if object.is_present() { object.committed_version() } else { 0 };
        if object.is_known() {
            pool.insert(id.name.clone(), object);
        }
        if changed && self.capabilities.has(Capability::WatchChanges) {
            state.watches.tell(id, &WatchEvent::Changed { version });
        }
        Ok(Reply { version, results })
    }

    fn check_read_only(&self, ops: &[Op]) -> Result<()> {
        let writes = |op: &&Op| match op {
            Op::Call(call) => !self.classes.is_read_only(call),
            op => op.is_write(),
        };
        match ops.iter().find(writes) {
            Some(op) => Err(Error::invalid("a snapshot cannot be changed").during(op.name())),
            None => Ok(()),
        }
    }
}

fn read_reply(object: &MemoryObject, results: Vec<nacre_object::OpResult>) -> Result<Reply> {
    if object.is_changed() {
        // This happens only if a class declares that it does not write, and then writes.
        return Err(Error::denied(
            "a method that is declared read-only tried to change the object",
        )
        .during("call"));
    }
    Ok(Reply { version: object.committed_version(), results })
}

#[async_trait]
impl Store for MemoryStore {
    async fn submit(&self, request: Request) -> Result<Reply> {
        self.execute(&request).map_err(|error| error.on(&request.header.object))
    }

    async fn list(&self, request: ListRequest) -> Result<ListPage> {
        if !self.capabilities.has(Capability::List) {
            return Err(Error::unsupported("this store lists no pools").during("list"));
        }
        let state = self.state();
        let limit = request.limit.min(MAX_LIST_ENTRIES);
        let mut names = state
            .pools
            .get(&request.pool)
            .into_iter()
            .flatten()
            .filter(|(_, object)| object.is_present())
            .map(|(name, _)| name)
            .filter(|name| request.after.as_ref().is_none_or(|after| *name > after))
            .filter(|name| name.as_str().starts_with(&request.prefix));
        let page = names.by_ref().take(limit).cloned().collect();
        Ok(ListPage { names: page, more: names.next().is_some() })
    }

    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }
}

#[async_trait]
impl Watch for MemoryStore {
    async fn watch(&self, object: &ObjectId) -> Result<WatchStream> {
        self.state().watches.watch(object).map_err(|error| error.on(object))
    }

    async fn notify(&self, object: &ObjectId, payload: Bytes) -> Result<()> {
        if payload.len() > MAX_NOTIFY_BYTES {
            let text = format!("a notification of {} bytes is too long", payload.len());
            return Err(Error::invalid(text)
                .during("notify")
                .on(object)
                .hint(format!("send at most {MAX_NOTIFY_BYTES} bytes")));
        }
        self.state().watches.tell(object, &WatchEvent::Notified { payload });
        Ok(())
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore").field("capabilities", &self.capabilities).finish()
    }
}
