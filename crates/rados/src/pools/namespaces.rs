//! [`Namespaces`]: opens the RADOS namespace of a pool of nacre, in the RADOS pool that holds it.
//!
//! nacre's own pools, whose names begin with `nacre.`, always lie in the main RADOS pool. So maps,
//! programs and the cluster log depend on no table.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nacre_object::{Error, PoolName, Result};
use nacre_rados_layout::mailbox_namespace;
use tokio::time::timeout;

use super::table::{PlacedPools, PoolTable, TABLE_NAMESPACE, TABLE_OBJECT};
use crate::classes::in_osd::InOsd;
use crate::cluster::failure::{operation_failed, status};
use crate::ffi::IoContext;
use crate::watches::Watches;

/// How many open namespaces the engine remembers. Opening one again is cheap.
const MAX_CONTEXTS: usize = 256;

/// A RADOS pool that holds pools of nacre.
#[derive(Debug)]
pub struct RadosPool {
    /// The pool as it was when the engine opened it. Its namespaces are opened by its number.
    pub root: Arc<IoContext>,
    /// The classes of the OSDs that serve the pool. Objects of the same name have other OSDs in
    /// another RADOS pool.
    pub in_osd: InOsd,
}

/// An open namespace.
#[derive(Debug, Clone)]
pub struct Namespace {
    /// For operations on its objects.
    pub context: Arc<IoContext>,
    /// The pool of the namespace.
    pub rados_pool: Arc<RadosPool>,
}

/// The namespaces of an engine.
#[derive(Debug)]
pub struct Namespaces {
    main: Arc<RadosPool>,
    table: PoolTable,
    open: Mutex<Open>,
    /// How long the monitors have to answer.
    patience: Duration,
}

#[derive(Debug, Default)]
struct Open {
    /// The table by which the namespaces were opened.
    placed_pools: Arc<PlacedPools>,
    namespaces: HashMap<String, Namespace>,
    /// RADOS pools other than the main one, by number.
    rados_pools: BTreeMap<i64, Arc<RadosPool>>,
}

impl Namespaces {
    /// The namespaces of an engine whose main RADOS pool is `main`.
    ///
    /// # Errors
    /// Those of librados.
    pub fn new(main: Arc<IoContext>, watches: &Watches, patience: Duration) -> Result<Self> {
        let context = Arc::new(main.namespace(TABLE_NAMESPACE).map_err(operation_failed)?);
        let mailbox = watches.table(Arc::clone(&context), TABLE_NAMESPACE, TABLE_OBJECT);
        let main = Arc::new(RadosPool { root: main, in_osd: InOsd::default() });
        Ok(Self { main, table: PoolTable::new(context, mailbox), open: Mutex::default(), patience })
    }

    /// Which pools lie in a RADOS pool of their own.
    pub fn table(&self) -> &PoolTable {
        &self.table
    }

    /// The main RADOS pool.
    pub fn main(&self) -> &Arc<RadosPool> {
        &self.main
    }

    /// The RADOS pools that the engine has used.
    pub fn rados_pools(&self) -> Vec<Arc<RadosPool>> {
        let others = self.open().rados_pools.values().cloned().collect::<Vec<_>>();
        [vec![Arc::clone(&self.main)], others].concat()
    }

    /// The namespace of a pool of nacre.
    ///
    /// # Errors
    /// Those of [`PoolTable::placed_pools`]; `Unavailable` if the pool's RADOS pool was deleted.
    pub async fn of_pool(&self, pool: &str) -> Result<Namespace> {
        self.within(pool, pool).await
    }

    /// The namespace of a pool's mailboxes.
    ///
    /// # Errors
    /// As [`Self::of_pool`].
    pub async fn of_mail(&self, pool: &str) -> Result<Namespace> {
        self.within(pool, &mailbox_namespace(pool)).await
    }

    /// A namespace of the main RADOS pool.
    ///
    /// # Errors
    /// `Unavailable` if the main RADOS pool was deleted.
    pub fn of_main(&self, namespace: &str) -> Result<Namespace> {
        self.open().namespace(&self.main, namespace)
    }

    /// The namespace of a pool in a RADOS pool of this number, whatever the table says.
    ///
    /// # Errors
    /// `Unavailable` if there is no such pool, or if the monitors do not answer.
    pub async fn in_rados_pool(&self, id: i64, namespace: &str) -> Result<Arc<IoContext>> {
        let (cluster, namespace) = (Arc::clone(self.main.root.cluster()), namespace.to_owned());
        let opening = tokio::task::spawn_blocking(move || {
            IoContext::open_by_id(cluster, id, &namespace).map(Arc::new).map_err(operation_failed)
        });
        match timeout(self.patience, opening).await {
            Ok(opened) => opened.unwrap_or_else(|error| {
                Err(Error::unavailable(format!("the operation was interrupted: {error}")))
            }),
            Err(_) => Err(operation_failed(status::TIMED_OUT)),
        }
    }

    async fn within(&self, pool: &str, namespace: &str) -> Result<Namespace> {
        if pool.starts_with(PoolName::OWN_PREFIX) {
            return self.of_main(namespace);
        }
        let placed_pools = self.table.placed_pools().await?;
        let rados_pool = match placed_pools.get(pool) {
            Some(place) => self.rados_pool(place.id).await?,
            None => Arc::clone(&self.main),
        };
        let mut open = self.open();
        if !Arc::ptr_eq(&open.placed_pools, &placed_pools) {
            // Namespaces in use stay open for their users.
            open.namespaces.clear();
            open.placed_pools = placed_pools;
        }
        open.namespace(&rados_pool, namespace)
    }

    /// A RADOS pool that holds pools of nacre.
    async fn rados_pool(&self, id: i64) -> Result<Arc<RadosPool>> {
        if let Some(known) = self.open().rados_pools.get(&id) {
            return Ok(Arc::clone(known));
        }
        let root = self.in_rados_pool(id, "").await?;
        let opened = Arc::new(RadosPool { root, in_osd: InOsd::default() });
        Ok(Arc::clone(self.open().rados_pools.entry(id).or_insert(opened)))
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Open {
    fn namespace(&mut self, rados_pool: &Arc<RadosPool>, namespace: &str) -> Result<Namespace> {
        if let Some(known) = self.namespaces.get(namespace) {
            return Ok(known.clone());
        }
        if self.namespaces.len() >= MAX_CONTEXTS {
            self.namespaces.clear();
        }
        let context = rados_pool.root.namespace(namespace).map_err(operation_failed)?;
        let rados_pool = Arc::clone(rados_pool);
        let opened = Namespace { context: Arc::new(context), rados_pool };
        self.namespaces.insert(namespace.to_owned(), opened.clone());
        Ok(opened)
    }
}
