//! How answers are confirmed: see [`ResourceHost`].

use std::pin::pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use bytes::Bytes;
use nacre_host::{BUSY_AFTER, Machine, Record, busy, deposed, is_transient};
use nacre_object::{Error, ErrorKind, Result};
use nacre_registry::Change;
use tokio::time::{Instant, timeout_at};

use super::host::{ResourceHost, ResourceSlot};
use super::machine::ResourceMachine;
use crate::stored::STATE_KEY;
use crate::{ResourceName, ResourceRecord};

impl ResourceHost {
    /// Waits until the authority that gave an answer has confirmed it.
    pub(crate) async fn until_confirmed(
        &self,
        slot: &Arc<ResourceSlot>,
        number: u64,
        authority: u64,
    ) -> Result<()> {
        let busy_at = Instant::now() + BUSY_AFTER;
        loop {
            let mut changed = pin!(slot.changed());
            changed.as_mut().enable();
            {
                let machine = slot.machine();
                match machine.as_ref() {
                    Some(machine) if machine.serving().authority().epoch == authority => {
                        if machine.confirmed >= number {
                            return Ok(());
                        }
                    }
                    _ => return Err(self.refusal(slot, authority)),
                }
            }
            self.confirm_later(slot);
            if timeout_at(busy_at, changed).await.is_err() {
                return Err(busy("the store has not confirmed the answer yet"));
            }
        }
    }

    /// The error for a request to an authority that has ended.
    fn refusal(&self, slot: &ResourceSlot, authority: u64) -> Error {
        let refusal = slot.beside.refusal.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match refusal {
            Some((of, error)) if of == authority => error,
            _ => busy("another node is taking the resource over"),
        }
    }

    /// Makes sure that a task confirms the answers. A resource has at most one such task.
    fn confirm_later(&self, slot: &Arc<ResourceSlot>) {
        if slot.beside.is_confirming.swap(true, Ordering::AcqRel) {
            return;
        }
        let (host, slot) = (self.clone(), Arc::clone(slot));
        tokio::spawn(async move {
            while host.confirm(&slot).await {}
            slot.beside.is_confirming.store(false, Ordering::Release);
            // Wake the requests that came meanwhile: one of them starts the next task.
            slot.tell_change();
        });
    }

    /// Confirms all answers of this resource so far: makes sure that their changes are stored, and
    /// that this node was the authority when it made them. Returns whether there were any
    /// unconfirmed answers.
    ///
    /// If an answer waits for a change, stores the state. The store refuses the commit if another
    /// node is the authority now. If no answer waits for a change, reads the epoch of the
    /// resource's map, which another authority would have changed.
    async fn confirm(&self, slot: &ResourceSlot) -> bool {
        let (name, authority, answers, map_epoch, change) = {
            let machine = slot.machine();
            let unconfirmed = |machine: &&ResourceMachine| machine.confirmed < machine.answers;
            let Some(machine) = machine.as_ref().filter(unconfirmed) else { return false };
            let serving = machine.serving();
            let (name, epoch) = (serving.record().name().clone(), serving.authority().epoch);
            let current = machine.current.as_ref().filter(|_| machine.is_ahead());
            let change = current.map(|current| (current.version, current.encode()));
            (name, epoch, machine.answers, machine.map_epoch, change)
        };
        let (version, encoded) = change.unzip();
        let confirmed = self.confirm_in_store(&name, map_epoch, encoded).await;
        let mut machine = slot.machine();
        let is_same =
            |machine: &&mut ResourceMachine| machine.serving().authority().epoch == authority;
        match (machine.as_mut().filter(is_same), confirmed) {
            (Some(machine), Ok(map_epoch)) => {
                (machine.map_epoch, machine.confirmed) = (map_epoch, answers);
                machine.stored_version = version.unwrap_or(machine.stored_version);
            }
            // This node was replaced, or the outcome is unknown: read the stored state anew.
            (Some(_), Err(error)) => {
                *machine = None;
                // A conflict is the claim of a successor.
                if !is_transient(&error) && error.kind() != ErrorKind::Conflict {
                    let refused = Some((authority, error.on(&name)));
                    *slot.beside.refusal.lock().unwrap_or_else(PoisonError::into_inner) = refused;
                }
            }
            (None, _) => {}
        }
        drop(machine);
        slot.tell_change();
        true
    }

    /// Stores a state. Without a state, checks that nothing was stored since `map_epoch`. Returns
    /// the epoch of the map.
    async fn confirm_in_store(
        &self,
        name: &ResourceName,
        map_epoch: u64,
        encoded: Option<Bytes>,
    ) -> Result<u64> {
        let maps = &self.env().maps;
        match encoded {
            Some(encoded) => {
                maps.commit(name.map(), map_epoch, vec![Change::set(STATE_KEY, encoded)]).await
            }
            None => match maps.epoch(name.map()).await? {
                epoch if epoch == map_epoch => Ok(epoch),
                _ => Err(deposed::<ResourceRecord>()),
            },
        }
    }
}
