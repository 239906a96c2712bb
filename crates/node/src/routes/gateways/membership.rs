//! `Gateways`: a gateway among the others.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nacre_clock::Clock;
use nacre_object::{NodeName, PoolName, Result};
use nacre_rados::RadosEngine;
use nacre_registry::{Events, Maps};
use nacre_route::{Destination, ObjectMatch, Record, Rule};
use tokio::join;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::super::NodeSwitch;
use super::super::in_force::InForce;
use super::super::record;
use super::super::state::{RouteMap, RouteState};
use super::registry::{GatewayEntry, GatewayRegistry, Registered, remove_gateway, set_gateway};
use crate::cache::NodeCache;
use crate::lease::LeaseHolder;

/// The pause after a failed step, and between two looks at the map of gateways while there are
/// rules.
pub(super) const PAUSE: Duration = Duration::from_millis(200);

/// How often a gateway looks which other gateways there are while there are no rules.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// What a gateway needs to route IO together with the others.
pub(crate) struct Gateways {
    pub(super) registry: GatewayRegistry,
    pub(super) me: LeaseHolder,
    pub(super) address: String,
    pub(super) engine: RadosEngine,
    pub(super) switch: Arc<NodeSwitch>,
    pub(super) caches: Arc<NodeCache>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) events: Events,
    routes: RouteMap,
    /// The rules that the gateway acknowledged when it joined.
    joined: Retained,
}

impl fmt::Debug for Gateways {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gateways").field("me", &self.me).finish_non_exhaustive()
    }
}

impl Gateways {
    /// Enters the map of gateways, and makes the switch look at all IO that present rules concern.
    /// The gateway must not serve before this returns.
    ///
    /// # Errors
    /// `Unavailable`; `Corrupt` if a map or the record of the rules is malformed.
    pub async fn join(
        engine: RadosEngine,
        (switch, caches): (Arc<NodeSwitch>, Arc<NodeCache>),
        (maps, events): (Maps, Events),
        me: (NodeName, u64),
        clock: Arc<dyn Clock>,
    ) -> Result<Self> {
        let (node, incarnation) = me;
        let mut gateways = Self {
            registry: GatewayRegistry::new(maps.clone())?,
            me: LeaseHolder { node: node.to_string(), incarnation },
            address: engine.address().await?,
            engine,
            switch,
            caches,
            clock,
            events,
            routes: RouteMap::new(maps),
            joined: Retained::default(),
        };
        gateways.acknowledge(0).await?;
        let state = gateways.routes.state().await?;
        let mut joined = Retained::default();
        gateways.concern(&mut joined, &state).await?;
        gateways.acknowledge(state.epoch).await?;
        gateways.joined = joined;
        Ok(gateways)
    }

    /// Leaves the map of gateways. The gateway serves no more.
    pub async fn leave(&self) {
        let is_mine = |known: &Registered| {
            known.gateways.get(&self.me.node).map(|entry| entry.incarnation)
                == Some(self.me.incarnation)
        };
        let leave = |known: &Registered| match is_mine(known) {
            true => Ok(vec![remove_gateway(&self.me.node)]),
            false => Ok(vec![]),
        };
        // Without an answer, the next router shuts this gateway out.
        let _ = self.registry.update(leave).await;
    }

    /// Says to the router that this gateway forwards the IO that the rules of this epoch concern.
    async fn acknowledge(&self, epoch: u64) -> Result<()> {
        self.enter(epoch, 0).await
    }

    /// Says to the other gateways that this one has installed the rules of this epoch.
    pub async fn note_applied(&self, epoch: u64) -> Result<()> {
        self.enter(epoch, epoch).await
    }

    async fn enter(&self, epoch: u64, applied: u64) -> Result<()> {
        let LeaseHolder { node, incarnation } = self.me.clone();
        let entry = GatewayEntry { incarnation, address: self.address.clone(), epoch, applied };
        self.registry
            .update(|known| match known.gateways.get(&node) == Some(&entry) {
                true => Ok(vec![]),
                false => Ok(vec![set_gateway(&node, &entry)?]),
            })
            .await
    }

    /// The record of the rules that the router has stored last.
    ///
    /// # Errors
    /// Those of the store; `Corrupt`.
    pub async fn record(&self) -> Result<Record> {
        let object = self.switch.locations().record()?;
        record::load(self.switch.base(), &object, self.switch.name()).await
    }

    /// Puts the settings of caches of an epoch in force. Only the router calls this, once the gateways
    /// agree on the epoch.
    ///
    /// # Errors
    /// `Invalid` for settings out of bounds; those before then stay in force.
    pub fn apply_caches(&self, state: &RouteState) -> Result<u64> {
        self.caches.apply(state.epoch, state.caches.clone()).map(|()| state.epoch)
    }

    /// Makes the switch look at the IO that these rules and caches concern, and at that which it
    /// looked at before.
    async fn concern(&self, retained: &mut Retained, state: &RouteState) -> Result<()> {
        retained.add(&state.insertions_by_home()?, state.cached_pools()?);
        self.switch.concern().set_cached(retained.cached.clone());
        let record = self.record().await?;
        self.switch.look_at(&record, &retained.insertions()).await;
        Ok(())
    }

    /// Takes part until the task is aborted: follows the other gateways, and keeps the lease once
    /// this gateway is the router.
    pub(in super::super) async fn take_part(
        self: Arc<Self>,
        states: watch::Receiver<RouteState>,
        in_force: Arc<InForce>,
    ) {
        let is_claimed = AtomicBool::new(false);
        let claim = async {
            self.claim(states.clone(), &in_force).await;
            is_claimed.store(true, Ordering::Relaxed);
        };
        // The router's own controller says which IO the switch must look at, so that must not change
        // any more.
        join!(claim, self.follow(states.clone(), &in_force, &is_claimed));
        self.switch.router().note_this();
        self.beat().await;
    }

    /// Follows the map of rules while another gateway may be the router, until the task is aborted
    /// or this gateway becomes the router.
    async fn follow(
        &self,
        mut states: watch::Receiver<RouteState>,
        in_force: &InForce,
        is_claimed: &AtomicBool,
    ) {
        let mut retained = self.joined.clone();
        // What the map says is not known before the first change.
        let _ = states.changed().await;
        let (mut is_new, mut epoch) = (true, 0);
        while !is_claimed.load(Ordering::Relaxed) {
            if is_new {
                let state = states.borrow_and_update().clone();
                epoch = state.epoch;
                let followed = async {
                    self.concern(&mut retained, &state).await?;
                    self.acknowledge(state.epoch).await
                };
                if let Err(error) = followed.await {
                    in_force.note_problem(&error);
                    sleep(PAUSE).await;
                    continue;
                }
            }
            match self.look_at_router(&mut retained, &states, in_force).await {
                // Nothing happens until there are rules. Control programs count requests meanwhile.
                Ok(false) => {
                    let _ = timeout(LOOK_AGAIN, states.wait_for(|now| now.epoch != epoch)).await;
                }
                Ok(true) => sleep(PAUSE).await,
                Err(error) => {
                    in_force.note_problem(&error);
                    sleep(PAUSE).await;
                }
            }
            is_new = states.borrow().epoch != epoch;
        }
    }

    /// The map of gateways. Notes which there are.
    pub(super) async fn read_registry(&self) -> Result<Registered> {
        let known = self.registry.read().await?;
        let nodes = known.gateways.keys().map(|node| node.parse()).collect::<Result<_>>()?;
        self.switch.router().note_gateways(nodes);
        Ok(known)
    }

    /// Notes which gateway is the router. Once the router applies the present epoch, IO that only
    /// earlier rules and caches concern need not be forwarded any more. Returns whether there are
    /// rules or caches, or ever were.
    async fn look_at_router(
        &self,
        retained: &mut Retained,
        states: &watch::Receiver<RouteState>,
        in_force: &InForce,
    ) -> Result<bool> {
        let state = states.borrow().clone();
        let known = self.read_registry().await?;
        let router = known.router.as_ref().map(|router| router.node.parse()).transpose()?;
        self.switch.router().note_other(router);
        let is_unused = known.router.is_none() && !state.needs_router();
        let is_applied =
            known.serving_router().is_some_and(|router| router.applied >= state.epoch) || is_unused;
        if is_applied && in_force.progress().rules_epoch != state.epoch {
            *retained = Retained::default();
            self.concern(retained, &state).await?;
            in_force.note_rules(state.epoch);
            in_force.note_caches(Ok(state.epoch));
        }
        Ok(!is_unused)
    }
}

/// The rules and the cached pools of all epochs that this gateway has acknowledged and the router may
/// still apply.
#[derive(Debug, Clone, Default)]
struct Retained {
    /// For each set of objects a rule that keeps snapshots, and another one. Besides the objects it
    /// only matters whether snapshots are kept: a gateway that becomes the router must not let a change
    /// pass before it has its rules.
    rules: HashMap<(ObjectMatch, bool), Rule>,
    cached: BTreeSet<PoolName>,
}

impl Retained {
    fn add(&mut self, insertions: &[Vec<Rule>], cached: BTreeSet<PoolName>) {
        for rule in insertions.iter().flatten() {
            let keeps_snapshots = matches!(rule.destination, Destination::Snapshots(_));
            let key = (rule.header.object.clone(), keeps_snapshots);
            self.rules.entry(key).or_insert_with(|| rule.clone());
        }
        self.cached.extend(cached);
    }

    fn insertions(&self) -> [Vec<Rule>; 1] {
        [self.rules.values().cloned().collect()]
    }
}
