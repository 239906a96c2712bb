//! How one gateway becomes the router, and how the router has the others follow new rules.

use std::time::Duration;

use nacre_object::{Error, ListRequest, NodeName, Result, Store};
use nacre_registry::{Event, Severity};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

use super::super::in_force::InForce;
use super::super::state::RouteState;
use super::membership::{Gateways, PAUSE};
use super::registry::{Registered, RouterEntry, remove_gateway, set_router};
use crate::lease::{Lease, LeaseState, LeaseTimes};

/// While there is no router, IO that rules concern waits. A router that is silent for the patience
/// is replaced, even if the Ceph cluster was slow.
const LEASE_TIMES: LeaseTimes =
    LeaseTimes { beat: Duration::from_secs(1), patience: Duration::from_secs(5) };
/// How long after the beginning of a beat the router may answer reads from its cache. Others wait for
/// the whole patience after they have seen the beat, by clocks that may run faster by a fifth.
const CACHE_LEASE: Duration = Duration::from_secs(4);

const _: () = assert!(CACHE_LEASE.as_millis() * 5 / 4 <= LEASE_TIMES.patience.as_millis());
const _: () = assert!(CACHE_LEASE.as_millis() >= 3 * LEASE_TIMES.beat.as_millis());

/// How often a gateway looks at the lease.
const LOOK_AT_LEASE: Duration = Duration::from_millis(500);
/// How long the cluster log may take to store an event.
const EVENT_TIME: Duration = Duration::from_secs(1);
/// How long the router waits for another gateway to acknowledge rules before it shuts it out.
const PATIENCE: Duration = Duration::from_secs(10);

/// Which gateway routes.
enum Claim {
    This,
    Other,
    /// None, because there are neither rules nor caches and never were.
    Unused,
}

impl Gateways {
    /// Returns once this gateway is the router, and no former router can change anything. Waits
    /// while there are no rules, no caches and no routed bytes.
    pub(super) async fn claim(&self, mut states: watch::Receiver<RouteState>, in_force: &InForce) {
        let mut lease = Lease::new(self.me.clone(), LEASE_TIMES);
        loop {
            match self.try_claim(&mut lease, &mut states).await {
                Ok(Claim::This) => return,
                Ok(Claim::Other) => sleep(LOOK_AT_LEASE).await,
                Ok(Claim::Unused) => {
                    if states.changed().await.is_err() {
                        // The node stops.
                        return std::future::pending().await;
                    }
                }
                Err(error) => {
                    in_force.note_problem(&error);
                    // After a silence of the Ceph cluster, the router gets its whole patience again.
                    lease = Lease::new(self.me.clone(), LEASE_TIMES);
                    sleep(LOOK_AT_LEASE).await;
                }
            }
        }
    }

    async fn try_claim(
        &self,
        lease: &mut Lease,
        states: &mut watch::Receiver<RouteState>,
    ) -> Result<Claim> {
        let known = self.registry.read().await?;
        let is_needed = states.borrow_and_update().needs_router();
        if known.router.is_none() && !is_needed {
            return Ok(Claim::Unused);
        }
        match lease.look(self.clock.monotonic(), &known.map)? {
            LeaseState::Others => return Ok(Claim::Other),
            LeaseState::Free => self.take(lease).await?,
            LeaseState::Mine { .. } => {}
        }
        self.shut_out_former().await?;
        Ok(Claim::This)
    }

    /// Takes the lease, and notes whom to shut out.
    async fn take(&self, lease: &Lease) -> Result<()> {
        let take = |known: &Registered| {
            let mut changes = lease.take(&known.map)?;
            let former = known.router.iter().flat_map(|router| {
                let own = (router.address != self.address).then_some(&router.address);
                router.former.iter().chain(own)
            });
            changes.push(set_router(&RouterEntry {
                node: self.me.node.clone(),
                incarnation: self.me.incarnation,
                address: self.address.clone(),
                former: former.cloned().collect(),
            })?);
            Ok(changes)
        };
        self.registry.update(take).await
    }

    /// Shuts the former routers out of the Ceph cluster.
    async fn shut_out_former(&self) -> Result<()> {
        let router = self.registry.read().await?.router;
        let Some(router) = router.filter(|router| router.address == self.address) else {
            return Err(Error::stale("another gateway has become the router"));
        };
        if router.former.is_empty() {
            return Ok(());
        }
        self.shut_out(&router.former).await?;
        let text = "this gateway routes now; the one that routed before was silent, and is shut out of the Ceph cluster";
        self.tell(text.to_owned()).await;
        let done = RouterEntry { former: vec![], ..router.clone() };
        self.registry
            .update(|known| match known.router.as_ref() == Some(&router) {
                true => Ok(vec![set_router(&done)?]),
                false => Err(Error::stale("another gateway has become the router")),
            })
            .await
    }

    /// Writes to the cluster log. If the log does not store the event soon, the event is lost, because
    /// IO waits for the caller.
    async fn tell(&self, text: String) {
        let mut event = Event::new(Severity::Warning, text);
        if let Ok(node) = NodeName::new(&self.me.node) {
            event = event.node(node);
        }
        let _ = timeout(EVENT_TIME, self.events.append(event)).await;
    }

    /// Shuts connections out of the Ceph cluster. When this returns, no OSD accepts an operation of
    /// them any more: an OSD learns of it with the first later request that it serves, and a list
    /// is a request to all placement groups.
    async fn shut_out(&self, addresses: &[String]) -> Result<()> {
        for address in addresses {
            self.engine.shut_out(address).await?;
        }
        let mut pools = vec![self.switch.locations().pool().clone()];
        for pool in self.engine.placed_pools().await?.keys() {
            pools.push(pool.parse()?);
        }
        for pool in pools {
            let (after, prefix) = (None, String::new());
            self.engine.list(ListRequest { pool, after, prefix, limit: 1 }).await?;
        }
        Ok(())
    }

    /// Keeps the lease, until the task is aborted. A router that was replaced was also shut out, so
    /// it need not stop by itself.
    pub(super) async fn beat(&self) {
        let mut lease = Lease::new(self.me.clone(), LEASE_TIMES);
        loop {
            // A failed beat is repeated.
            let _ = self.beat_if_due(&mut lease).await;
            sleep(PAUSE).await;
        }
    }

    async fn beat_if_due(&self, lease: &mut Lease) -> Result<()> {
        let known = self.read_registry().await?;
        if let LeaseState::Mine { is_beat_due: true } =
            lease.look(self.clock.monotonic(), &known.map)?
        {
            let began = self.clock.monotonic();
            self.registry.update(|known| Ok(vec![lease.beat(&known.map)?])).await?;
            if let Some(lease) = self.caches.lease() {
                lease.lasts_until(began + CACHE_LEASE);
            }
        }
        Ok(())
    }

    /// Returns once every other gateway has acknowledged the rules of this epoch. A gateway that
    /// does not answer is shut out of the Ceph cluster.
    ///
    /// # Errors
    /// `Stale` if there is a later epoch; `Denied` if the Ceph user may not shut out a gateway;
    /// `Unavailable`.
    pub async fn agree(&self, epoch: u64) -> Result<()> {
        let until = Instant::now() + PATIENCE;
        loop {
            let known = self.registry.read().await?;
            let others = known.gateways.iter().filter(|(node, _)| **node != self.me.node);
            let (later, behind): (Vec<_>, Vec<_>) = others
                .filter(|(_, entry)| entry.epoch != epoch)
                .partition(|(_, entry)| entry.epoch > epoch);
            if !later.is_empty() {
                return Err(Error::stale("there are newer rules"));
            }
            if behind.is_empty() {
                return Ok(());
            }
            if Instant::now() >= until {
                let addresses: Vec<_> =
                    behind.iter().map(|(_, entry)| entry.address.clone()).collect();
                self.shut_out(&addresses).await?;
                for (node, entry) in behind {
                    let seconds = PATIENCE.as_secs();
                    self.tell(format!("{node} did not take over new rules within {seconds} s, and is shut out of the Ceph cluster")).await;
                    let remove = |known: &Registered| match known.gateways.get(node) == Some(entry)
                    {
                        true => Ok(vec![remove_gateway(node)]),
                        false => Ok(vec![]),
                    };
                    self.registry.update(remove).await?;
                }
                continue;
            }
            sleep(PAUSE).await;
        }
    }
}
