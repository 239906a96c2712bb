//! Hands a state machine over from its authority to another node, while clients use it.
//!
//! 1. The authority *holds* the machine. It answers no requests, so it issues nothing that its
//!    successor could contradict. Clients wait.
//! 2. The authority stores state for the successor: [`Hosting::before_hand_over`].
//! 3. The authority asks the successor to take over. The successor claims the record and recovers,
//!    as after a failure.
//! 4. The authority reads the stored record, whatever the successor replied. If the record names
//!    the successor, the authority redirects its clients or forwards their requests
//!    ([`ClientRouting`]). If it still names the authority, the authority continues to serve.
//!
//! A crash of either node, or of the map's store, leaves the same situation as a crash during a
//! takeover. The record names one authority, and the answers of any other node have no effect.
//!
//! **Invariant:** clients wait no longer than step 2, [`HAND_OVER_PATIENCE`] and one read of the
//! record take together.

use std::borrow::Borrow;
use std::sync::Arc;
use std::time::Duration;

use nacre_object::{Error, NodeName, Result};

use super::hosting::{Hosting, NameOf};
use super::{ClientRouting, Forward, Host, PausedMachine};
use crate::client::HostTransport;
use crate::core::Machine;
use crate::question::{RECOVER, recover_question};
use crate::record::{Record, deposed};

/// How long the authority waits for its successor to take over. Clients wait too, so this is short.
/// After this time the authority reads the record, which shows whether the successor took over.
pub const HAND_OVER_PATIENCE: Duration = Duration::from_millis(500);

impl<K: Hosting> Host<K> {
    /// Hands a state machine that this node serves over to `successor`, which hosts such machines
    /// as `service`. Does nothing if `successor` is this node. `routing` says how clients reach the
    /// machine afterwards. Returns the epoch of the latest record that this node knows.
    ///
    /// # Errors
    /// `Stale` if this node is not the authority; `Conflict` if the successor did not take over.
    /// After `Unavailable` this node does not know which node is in charge, and stops serving.
    pub async fn hand_over(
        &self,
        name: &NameOf<K>,
        successor: NodeName,
        transport: Arc<dyn HostTransport>,
        service: &'static str,
        routing: ClientRouting,
    ) -> Result<u64> {
        let about = name.clone();
        self.change(name, move |host, slot| async move {
            let epoch = slot.machine().as_ref().map(|machine| machine.serving().record().epoch());
            let epoch = epoch.ok_or_else(deposed::<K::Record>)?;
            if successor == *host.node() {
                return Ok(epoch);
            }
            let held = PausedMachine::hold(&slot)?;
            K::before_hand_over(&host, &slot).await;
            let input = recover_question(about.borrow(), epoch);
            let patience = HAND_OVER_PATIENCE;
            let asked = transport.ask(&successor, service, RECOVER, input, patience).await;
            let route = |stored: &K::Record| {
                let is_forwarded = routing == ClientRouting::Forward;
                let forward = Forward::by(stored).filter(|to| is_forwarded && to.node == successor);
                slot.set_forward(forward);
            };
            let stored = held.go_on(host.kind().records(), &about, route).await?;
            if stored.authority().is_some_and(|authority| authority.node == successor) {
                return Ok(stored.epoch());
            }
            let why = asked.err().map_or_else(
                || format!("another node took over the {}", K::Record::WORDS.thing),
                |error| error.to_string(),
            );
            // Not `Unavailable`: the client would take this node for silent and have it replaced.
            Err(Error::conflict(format!("{successor} did not take over: {why}")))
        })
        .await
    }
}
