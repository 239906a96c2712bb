//! `NodeCache`: the caches of a node, and how its tenants read.

use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use nacre_clock::{Clock, Random};
use nacre_object::{Error, PoolName, Request, Result, TargetName, TenantName};
use nacre_route::ReadProfile;
use nacre_slo::NodeSlo;
use nacre_telemetry::Counter;

use super::block::blocks_of;
use super::blocks::BlockCache;
use super::changes::{Changes, ObjectHash};
use super::report::{CacheReport, CacheUse, OTHER_TENANTS, TenantReads, points};
use super::router_lease::RouterLease;
use super::settings::{CacheDivision, CacheSettings};
use crate::late_changes::LateChanges;

/// The most tenants with counts and a curve of their own. All others are counted together. The
/// curve of a tenant takes about 600 KB.
pub(super) const MAX_TENANTS: usize = 64;

/// The caches of one node.
#[derive(Debug)]
pub struct NodeCache {
    target: TargetName,
    /// Knows whose request a request is.
    slo: Arc<NodeSlo>,
    pub(super) changes: Changes,
    /// What a gateway to Ceph needs; `None` if the node keeps the objects.
    gateway: Option<OfGateway>,
    is_on: AtomicBool,
    in_force: RwLock<Arc<InForce>>,
    tenants: RwLock<BTreeMap<TenantName, Arc<Tenant>>>,
    others: Arc<Tenant>,
}

/// What the cache of a gateway to Ceph needs in addition.
#[derive(Debug)]
struct OfGateway {
    lease: RouterLease,
    late_changes: LateChanges,
}

/// Settings, and the caches that they ask for.
#[derive(Debug)]
struct InForce {
    epoch: u64,
    settings: Option<CacheSettings>,
    pools: HashSet<PoolName>,
    own: BTreeMap<TenantName, Arc<BlockCache>>,
    rest: Arc<BlockCache>,
}

/// How a tenant reads.
#[derive(Debug)]
struct Tenant {
    hits: Counter,
    misses: Counter,
    profile: Mutex<ReadProfile>,
}

/// The cache that a tenant's request uses.
#[derive(Debug, Clone)]
pub(super) struct TenantCache {
    pub blocks: Arc<BlockCache>,
    tenant: Arc<Tenant>,
}

/// Whether a cache has answered a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answered {
    ByCache,
    ByEngine,
}

impl NodeCache {
    /// The caches of a target, which are off. `slo` knows whose request a request is.
    ///
    /// # Errors
    /// None in practice.
    pub fn new(target: TargetName, slo: Arc<NodeSlo>) -> Result<Arc<Self>> {
        Self::with(target, slo, None)
    }

    /// The caches of a gateway to Ceph, which are off.
    ///
    /// # Errors
    /// None in practice.
    pub(crate) fn of_gateway(
        name: TargetName,
        slo: Arc<NodeSlo>,
        clock: Arc<dyn Clock>,
    ) -> Result<Arc<Self>> {
        let lease = RouterLease::new(clock);
        Self::with(name, slo, Some(OfGateway { lease, late_changes: LateChanges::default() }))
    }

    fn with(
        target: TargetName,
        slo: Arc<NodeSlo>,
        gateway: Option<OfGateway>,
    ) -> Result<Arc<Self>> {
        Ok(Arc::new(Self {
            target,
            slo,
            changes: Changes::new(),
            gateway,
            is_on: AtomicBool::new(false),
            in_force: RwLock::new(Arc::new(InForce::off(0))),
            tenants: RwLock::default(),
            others: Arc::new(Tenant::new()?),
        }))
    }

    /// The lease of the router, if the node is a gateway to Ceph.
    pub(crate) fn lease(&self) -> Option<&RouterLease> {
        self.gateway.as_ref().map(|gateway| &gateway.lease)
    }

    /// Whether bytes that were taken from a cache just now were the present bytes.
    pub(super) fn may_answer(&self) -> bool {
        self.lease().is_none_or(RouterLease::lasts)
    }

    /// Changes whose outcome is unknown. `None` if the engine always says what has happened.
    pub(super) fn late_changes(&self) -> Option<&LateChanges> {
        self.gateway.as_ref().map(|gateway| &gateway.late_changes)
    }

    fn in_force(&self) -> Arc<InForce> {
        Arc::clone(&self.in_force.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Puts settings in force; `None` turns the caches off. A cache that stays keeps its blocks, as
    /// far as they fit.
    ///
    /// # Errors
    /// `Invalid` for settings out of bounds; those before then stay in force.
    pub fn apply(&self, epoch: u64, settings: Option<CacheSettings>) -> Result<()> {
        let before = self.in_force();
        let after = match settings {
            None => InForce::off(epoch),
            Some(settings) => before.followed_by(epoch, settings)?,
        };
        let is_on = after.settings.is_some();
        *self.in_force.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(after);
        self.is_on.store(is_on, Ordering::Release);
        if !is_on {
            // Curves of reads before a pause say nothing about those after it.
            self.tenants.write().unwrap_or_else(PoisonError::into_inner).clear();
        }
        Ok(())
    }

    /// The cache for a read; `None` if objects of its pool are not cached.
    pub(super) fn of(&self, request: &Request) -> Option<TenantCache> {
        let (name, blocks) = self.blocks_for(request)?;
        Some(TenantCache { blocks, tenant: self.tenant(name) })
    }

    /// The blocks that the tenant of a request uses, with its name; `None` if objects of the pool
    /// are not cached.
    pub(super) fn blocks_for(&self, request: &Request) -> Option<(TenantName, Arc<BlockCache>)> {
        if !self.is_on.load(Ordering::Acquire) {
            return None;
        }
        let in_force = self.in_force();
        let object = &request.header.object;
        // The parts of a large put are read once. On Ceph, other gateways do not forward IO on them.
        if !in_force.pools.contains(&object.pool) || nacre::staged_object(&object.name).is_some() {
            return None;
        }
        let name = self.slo.tenant_of(request);
        let blocks = Arc::clone(in_force.own.get(&name).unwrap_or(&in_force.rest));
        Some((name, blocks))
    }

    fn tenant(&self, name: TenantName) -> Arc<Tenant> {
        if let Some(known) = self.tenants.read().unwrap_or_else(PoisonError::into_inner).get(&name)
        {
            return Arc::clone(known);
        }
        let mut tenants = self.tenants.write().unwrap_or_else(PoisonError::into_inner);
        let is_full = tenants.len() >= MAX_TENANTS && !tenants.contains_key(&name);
        match Tenant::new() {
            Ok(new) if !is_full => Arc::clone(tenants.entry(name).or_insert_with(|| Arc::new(new))),
            _ => Arc::clone(&self.others),
        }
    }

    /// A second has passed: older reads count less from now on.
    pub(super) fn tick(&self) {
        let tenants = self.tenants.read().unwrap_or_else(PoisonError::into_inner);
        tenants.values().chain([&self.others]).for_each(|tenant| tenant.tick());
    }

    /// What the caches have, and how tenants read.
    pub fn report(&self) -> CacheReport {
        self.report_with(|profile, bytes| points(&profile.curve(), bytes))
    }

    /// The report without curves, which take some time to compute.
    pub(super) fn counts(&self) -> CacheReport {
        self.report_with(|_, _| vec![])
    }

    fn report_with(&self, curve: impl Fn(&ReadProfile, u64) -> Vec<(u64, f64)>) -> CacheReport {
        let in_force = self.in_force();
        let bytes = in_force.settings.as_ref().map_or(0, |settings| settings.bytes);
        let tenants = self.tenants.read().unwrap_or_else(PoisonError::into_inner).clone();
        let others = (OTHER_TENANTS.to_owned(), &self.others);
        let named = tenants.iter().map(|(name, tenant)| (name.to_string(), tenant));
        let reads = named.chain([others]).map(|(name, tenant)| {
            let has_own = in_force.own.keys().any(|own| own.as_str() == name);
            let profile = tenant.profile.lock().unwrap_or_else(PoisonError::into_inner);
            TenantReads {
                cache: if has_own { name.clone() } else { OTHER_TENANTS.to_owned() },
                tenant: name,
                hits: tenant.hits.get(),
                misses: tenant.misses.get(),
                reads_per_second: profile.reads_per_second(),
                curve: curve(&profile, bytes),
            }
        });
        let tenants = reads.filter(|reads| reads.hits + reads.misses > 0).collect();
        let own = in_force.own.iter().map(|(name, cache)| (name.to_string(), cache));
        let rest = in_force.settings.as_ref().map(|_| (OTHER_TENANTS.to_owned(), &in_force.rest));
        let caches = own.chain(rest).map(|(cache, blocks)| CacheUse {
            cache,
            capacity_bytes: blocks.capacity(),
            used_bytes: blocks.used(),
        });
        CacheReport {
            target: self.target.to_string(),
            epoch: in_force.epoch,
            settings: in_force.settings.clone(),
            caches: caches.collect(),
            tenants,
        }
    }
}

impl InForce {
    fn off(epoch: u64) -> Self {
        let (pools, own, rest) = (HashSet::new(), BTreeMap::new(), Arc::new(BlockCache::new(0)));
        Self { epoch, settings: None, pools, own, rest }
    }

    /// The caches for new settings. Caches become smaller before others become larger, so that all
    /// together never have more bytes than the larger of both settings.
    fn followed_by(&self, epoch: u64, settings: CacheSettings) -> Result<Self> {
        settings.check()?;
        let pools = settings.pools.iter().map(PoolName::new).collect::<Result<_>>()?;
        let shares = match &settings.division {
            CacheDivision::Shared => BTreeMap::new(),
            CacheDivision::Shares(shares) => {
                let parsed =
                    shares.iter().map(|(name, bytes)| Ok((TenantName::new(name)?, *bytes)));
                parsed.collect::<Result<_>>()?
            }
        };
        let rest = settings.rest();
        for (name, cache) in &self.own {
            let bytes = shares.get(name).copied().unwrap_or(0);
            cache.resize(bytes.min(cache.capacity()));
        }
        self.rest.resize(rest.min(self.rest.capacity()));
        let own = shares.into_iter().map(|(name, bytes)| {
            let cache = resized(self.own.get(&name), bytes);
            (name, cache)
        });
        let own = own.collect();
        let rest = resized(Some(&self.rest), rest);
        Ok(Self { epoch, settings: Some(settings), pools, own, rest })
    }
}

/// The cache with this many bytes. An empty cache is made anew, because an eviction policy that was
/// made for no bytes would know nothing of blocks that were evicted.
fn resized(before: Option<&Arc<BlockCache>>, bytes: u64) -> Arc<BlockCache> {
    match before {
        Some(cache) if cache.capacity() > 0 && bytes > 0 => {
            cache.resize(bytes);
            Arc::clone(cache)
        }
        _ => Arc::new(BlockCache::new(bytes)),
    }
}

impl Tenant {
    fn new() -> Result<Self> {
        let profile = Mutex::new(ReadProfile::new(Random::from_system().next_u64())?);
        Ok(Self { hits: Counter::default(), misses: Counter::default(), profile })
    }

    fn tick(&self) {
        let mut profile = self.profile.lock().unwrap_or_else(PoisonError::into_inner);
        // It fails for a sample of an impossible size, and then keeps the samples that it has.
        let _: Result<(), Error> = profile.tick();
    }
}

impl TenantCache {
    /// Counts a read of these bytes.
    pub fn count(&self, object: ObjectHash, offset: u64, length: u64, answered: Answered) {
        match answered {
            Answered::ByCache => self.tenant.hits.add(1),
            Answered::ByEngine => self.tenant.misses.add(1),
        }
        let blocks = blocks_of(offset, length.max(1)).map(|block| object.block(block));
        self.tenant.profile.lock().unwrap_or_else(PoisonError::into_inner).read(blocks);
    }
}
