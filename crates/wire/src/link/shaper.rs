//! `LinkShaper`: shares a node's network link among its sessions.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use nacre_clock::Clock;
use nacre_object::{PoolName, TenantName};
use nacre_qos::scheduler::Share;
use tokio::sync::watch;

use super::Gate;
use super::settings::{LinkSettings, TenantLink};

/// Shares the link of a node. A node has one shaper, and gives it to its
/// [`ServerBuilder`](crate::ServerBuilder::link).
#[derive(Debug)]
pub struct LinkShaper {
    /// Whether a speed is set.
    is_on: AtomicBool,
    settings: RwLock<Option<Arc<LinkSettings>>>,
    /// The speed that sessions report to their clients, in bytes a second; 0 if no speed is set.
    speed: watch::Sender<u64>,
    sent: Gate,
    received: Gate,
}

impl LinkShaper {
    /// A shaper of a link whose speed is not set.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            is_on: AtomicBool::new(false),
            settings: RwLock::default(),
            speed: watch::Sender::new(0),
            sent: Gate::new(Arc::clone(&clock)),
            received: Gate::new(clock),
        }
    }

    /// Sets the speed of the link and the shares of tenants. `None` removes the speed; then no
    /// message waits.
    pub fn set(&self, settings: Option<LinkSettings>) {
        let shares = |of: fn(&TenantLink) -> &Share| {
            let settings = settings.as_ref()?;
            let share =
                |(tenant, link): (&TenantName, &TenantLink)| (tenant.clone(), of(link).clone());
            let shares: BTreeMap<_, _> = settings.tenants.iter().map(share).collect();
            Some((settings.link, shares))
        };
        self.sent.set(shares(|link| &link.sent));
        self.received.set(shares(|link| &link.received));
        let speed = settings.as_ref().map_or(0, |known| known.link.bytes_per_second() as u64);
        self.is_on.store(settings.is_some(), Ordering::Relaxed);
        *self.settings.write().unwrap_or_else(PoisonError::into_inner) = settings.map(Arc::new);
        self.speed.send_if_modified(|known| std::mem::replace(known, speed) != speed);
    }

    /// Whether a speed is set.
    pub(crate) fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    /// A channel with the speed in bytes a second, and each change of it; 0 if no speed is set.
    pub(crate) fn speed(&self) -> watch::Receiver<u64> {
        self.speed.subscribe()
    }

    /// The tenant whose share a message uses: the owner of the pool that the message names, or else
    /// the sender.
    pub(crate) fn tenant_of(&self, sender: TenantName, pool: Option<&str>) -> TenantName {
        let settings = self.settings.read().unwrap_or_else(PoisonError::into_inner);
        let owner = settings
            .as_ref()
            .and_then(|settings| settings.pools.get(&PoolName::new(pool?).ok()?).cloned());
        owner.unwrap_or(sender)
    }

    /// The gate for messages that the node sends.
    pub(crate) fn sent(&self) -> &Gate {
        &self.sent
    }

    /// The gate for messages that the node receives.
    pub(crate) fn received(&self) -> &Gate {
        &self.received
    }
}
