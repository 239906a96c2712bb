//! How a host lends capabilities: [`lending`](super::lending) decides, and here is waited.
//!
//! A task that waits looks again at each change of the slot, and when something is due. A holder that is overdue is evicted
//! by a take-over of this same node, in a task of its own: the resource is claimed anew, and its state recovered.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use nacre_capability::Time;
use nacre_capability::limits::RENEW_EVERY;
use nacre_host::{BUSY_AFTER, Looks, Machine, busy, deposed};
use nacre_object::{ErrorKind, Result};
use tokio::time::{Instant, sleep, timeout_at};

use super::host::{ResourceHost, ResourceSlot};
use super::lending::{Reply, Wanted};
use super::machine::Caller;
use super::readiness::{Later, NotYet, ready};
use crate::question::{Acquired, Call, Hold, News, Returned};
use crate::{ResourceName, ResourceRecord};

/// A holder that is asked to return its grant for a hand-over is waited for so long: until its lease is over, and the
/// state is recovered after that.
const RECALL_PATIENCE: Duration = Duration::from_secs(1);
/// A holder that could not be evicted is evicted again after this.
const EVICT_AGAIN: Duration = Duration::from_millis(100);

impl ResourceHost {
    /// Runs a call, or grants the capability that the client wants instead, and waits until that is confirmed.
    ///
    /// # Errors
    /// `Unavailable` and [busy](nacre_host::is_busy) if a holder keeps the call waiting; what the method says.
    pub(super) async fn call(
        &self,
        name: &ResourceName,
        epoch: u64,
        caller: Caller,
        call: Call,
        wanted: Option<Wanted>,
    ) -> Result<Acquired> {
        let slot = self.0.slot(name)?;
        let (mut looks, busy_at) = (Looks::default(), Instant::now() + BUSY_AFTER);
        let waiting = loop {
            let mut changed = pin!(slot.changed());
            changed.as_mut().enable();
            match self.ask(&slot, epoch, (&caller, &call, &wanted))? {
                Ok(waiting) => break waiting,
                Err(NotYet::NotReady(why)) => self.get_ready(name, why, &mut looks).await?,
                Err(NotYet::Later(later)) => self.until(later, busy_at, changed).await?,
            }
        };
        let (reply, authority) = self.reply(name, &slot, waiting, busy_at).await?;
        let (acquired, number) = match reply {
            Reply::Served { answer, again, number } => {
                (Acquired::Served { answer, again_ms: again.as_millis() as u64 }, number)
            }
            Reply::Granted { granted, number, .. } => (Acquired::Granted(granted), number),
            Reply::Failed(error) => return Err(error),
        };
        self.until_confirmed(&slot, number, authority).await?;
        Ok(acquired)
    }

    /// Puts a call to the machine.
    fn ask<'a>(
        &'a self,
        slot: &'a Arc<ResourceSlot>,
        epoch: u64,
        (caller, call, wanted): (&Caller, &Call, &Option<Wanted>),
    ) -> Result<std::result::Result<Waiting<'a>, NotYet>> {
        let (mut machine, now) = (slot.machine(), self.now());
        let machine = match ready(&mut machine, epoch, now) {
            Ok(machine) => machine,
            Err(not_yet) => return Ok(Err(not_yet)),
        };
        let authority = machine.serving().authority().epoch;
        let on = (self.env(), &slot.beside.uses);
        match machine.ask(now, on, caller.clone(), call.clone(), wanted.clone()) {
            Ok(ticket) => Ok(Ok(Waiting { host: self, slot, authority, ticket })),
            Err(error) if error.kind() == ErrorKind::Unsupported => {
                Ok(Err(NotYet::Later(Later::NotLive(error))))
            }
            Err(error) => Err(error),
        }
    }

    /// Waits for the answer to a call; returns it with the epoch of the authority that found it.
    async fn reply(
        &self,
        name: &ResourceName,
        slot: &Arc<ResourceSlot>,
        waiting: Waiting<'_>,
        busy_at: Instant,
    ) -> Result<(Reply, u64)> {
        let mut is_new = true;
        loop {
            let mut changed = pin!(slot.changed());
            changed.as_mut().enable();
            let look = waiting.look();
            if std::mem::take(&mut is_new) && matches!(look, Look::Wait(_)) {
                // The holder is told. Nobody else waits for this call.
                slot.tell_change();
            }
            let due_at = match look {
                Look::Answered(reply) => return Ok((reply, waiting.authority)),
                Look::Replaced => return Err(busy("the resource is changing hands")),
                Look::Overdue => {
                    self.evict(name, slot);
                    busy_at
                }
                Look::Wait(due_at) => due_at.map_or(busy_at, |due_at| due_at.min(busy_at)),
            };
            let elapsed = timeout_at(due_at, changed).await.is_err();
            if elapsed && Instant::now() >= busy_at {
                return Err(busy("another client holds the resource's capability"));
            }
        }
    }

    /// Answers a holder that asks for news, once there is some or it has waited.
    ///
    /// # Errors
    /// `Stale` if the asker must read the record; as [`Host::get_ready`](nacre_host::Host::get_ready).
    pub(super) async fn hold(
        &self,
        name: &ResourceName,
        epoch: u64,
        hold: &Hold,
    ) -> Result<Option<News>> {
        let slot = self.0.slot(name)?;
        let (received, deadline) = (self.now(), Instant::now() + RENEW_EVERY);
        let (mut looks, on) = (Looks::default(), (self.env(), &slot.beside.uses));
        let (news, number, authority) = loop {
            let mut changed = pin!(slot.changed());
            changed.as_mut().enable();
            // Another holder may have to be evicted, though no call waits for it.
            let mut is_overdue = false;
            let looked = {
                let (mut machine, now) = (slot.machine(), self.now());
                match ready(&mut machine, epoch, now) {
                    Ok(machine) => {
                        // The file type or its capability program may have changed.
                        let _unknown = machine.follow_type(now, on);
                        if !machine.hear(now, on, hold) {
                            return Ok(None);
                        }
                        let has_news = machine.lending.has_news(hold.client, hold.number, 0);
                        if has_news || Instant::now() >= deadline {
                            let news = machine.news(now, on, received, hold);
                            let authority = machine.serving().authority().epoch;
                            break (news, machine.next_answer(), authority);
                        }
                        let due_at = machine.lending.authority().due_at();
                        let due_at = due_at.filter(|_| !machine.lending.is_overdue());
                        is_overdue = machine.lending.is_overdue();
                        Ok(due_at.map_or(deadline, |due_at| self.instant(due_at).min(deadline)))
                    }
                    Err(not_yet) => Err(not_yet),
                }
            };
            match looked {
                Ok(due_at) => {
                    if is_overdue {
                        self.evict(name, &slot);
                    }
                    // Either way there is an answer the next time round, or nothing new.
                    let _elapsed = timeout_at(due_at, changed).await;
                }
                Err(NotYet::NotReady(why)) => self.get_ready(name, why, &mut looks).await?,
                Err(NotYet::Later(later)) => self.until(later, deadline, changed).await?,
            }
        };
        if news.is_some() {
            self.until_confirmed(&slot, number, authority).await?;
        }
        Ok(news)
    }

    /// Takes a grant back.
    ///
    /// # Errors
    /// `Stale` if this node is not the authority that gave it: then the grant has ended, too.
    pub(super) fn take_back(
        &self,
        name: &ResourceName,
        epoch: u64,
        returned: Returned,
    ) -> Result<()> {
        let slot = self.0.known_slot(name.as_str()).ok_or_else(deposed::<ResourceRecord>)?;
        {
            let mut machine = slot.machine();
            let machine = machine.as_mut().ok_or_else(deposed::<ResourceRecord>)?;
            // An old epoch means that the holder's grant came from an earlier authority.
            machine.serving().check(epoch).map_err(|_| deposed::<ResourceRecord>())?;
            machine.take_back(self.now(), (self.env(), &slot.beside.uses), returned);
        }
        slot.tell_change();
        Ok(())
    }

    /// Has all capabilities returned, and lends none until what this returns is dropped.
    ///
    /// # Errors
    /// `Unavailable` and [busy](nacre_host::is_busy) if a holder is silent: it is being evicted.
    pub(super) async fn recall(&self, name: &ResourceName) -> Result<Recalled> {
        let slot = self.0.slot(name)?;
        let recalled = Recalled { slot: Arc::clone(&slot) };
        let on = (self.env(), &slot.beside.uses);
        if let Some(machine) = slot.machine().as_mut() {
            machine.bar(self.now(), on);
        }
        slot.tell_change();
        let busy_at = Instant::now() + RECALL_PATIENCE;
        loop {
            let mut changed = pin!(slot.changed());
            changed.as_mut().enable();
            let due_at = {
                let mut machine = slot.machine();
                let lent = machine.as_mut().filter(|machine| machine.lending.is_lent());
                let Some(machine) = lent else { return Ok(recalled) };
                machine.tick(self.now(), on);
                let is_overdue = machine.lending.is_overdue();
                let due_at = machine.lending.authority().due_at();
                due_at.filter(|_| !is_overdue).ok_or(is_overdue)
            };
            let until = match due_at {
                Ok(due_at) => self.instant(due_at).min(busy_at),
                Err(is_overdue) => {
                    if is_overdue {
                        self.evict(name, &slot);
                    }
                    busy_at
                }
            };
            let elapsed = timeout_at(until, changed).await.is_err();
            if elapsed && Instant::now() >= busy_at {
                return Err(busy("a client that holds the resource's capability does not answer"));
            }
        }
    }

    /// Evicts a holder, once at a time: takes the resource over from this very authority.
    fn evict(&self, name: &ResourceName, slot: &Arc<ResourceSlot>) {
        let epoch = slot.machine().as_ref().map(|machine| machine.serving().authority().epoch);
        let Some(epoch) = epoch else { return };
        if slot.beside.is_evicting.swap(true, Ordering::AcqRel) {
            return;
        }
        self.0.kind().evictions.add(1);
        let (host, name, slot) = (self.clone(), name.clone(), Arc::clone(slot));
        tokio::spawn(async move {
            if host.0.recover(&name, epoch).await.is_err() {
                // A task that still waits has it tried again.
                sleep(EVICT_AGAIN).await;
            }
            slot.beside.is_evicting.store(false, Ordering::Release);
            slot.tell_change();
        });
    }
}

/// A call that may have to wait for a holder. Dropped, it is withdrawn.
struct Waiting<'a> {
    host: &'a ResourceHost,
    slot: &'a ResourceSlot,
    /// Which authority was asked: its successor knows no ticket of it.
    authority: u64,
    ticket: u64,
}

enum Look {
    Answered(Reply),
    /// The authority that was asked is not in charge any more.
    Replaced,
    /// A holder must be evicted.
    Overdue,
    Wait(Option<Instant>),
}

impl Waiting<'_> {
    fn look(&self) -> Look {
        let mut machine = self.slot.machine();
        let same = machine.as_mut().filter(|it| it.serving().authority().epoch == self.authority);
        let Some(machine) = same else { return Look::Replaced };
        if let Some(reply) = machine.lending.fetch(self.ticket) {
            return Look::Answered(reply);
        }
        machine.tick(self.host.now(), (self.host.env(), &self.slot.beside.uses));
        if machine.lending.is_overdue() {
            return Look::Overdue;
        }
        let due_at = machine.lending.authority().due_at();
        Look::Wait(due_at.map(|due_at: Time| self.host.instant(due_at)))
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut machine = self.slot.machine();
        let same = machine.as_mut().filter(|it| it.serving().authority().epoch == self.authority);
        if let Some(machine) = same {
            let on = (self.host.env(), &self.slot.beside.uses);
            machine.withdraw(self.host.now(), on, self.ticket);
        }
    }
}

/// While it lives, nobody is lent the resource.
#[derive(Debug)]
pub(super) struct Recalled {
    slot: Arc<ResourceSlot>,
}

impl Drop for Recalled {
    fn drop(&mut self) {
        if let Some(machine) = self.slot.machine().as_mut() {
            machine.lending.unbar();
        }
    }
}
