//! Grants, polls and returns of capabilities, as the host serves them. [`lending`](super::lending)
//! decides; this module waits.
//!
//! A waiting task looks at the resource whenever its slot on this node changes, and at each
//! deadline. If a holder has not returned its grant in time, the task evicts it: the node takes the
//! resource over from itself. It claims the record again and recovers the state.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use nacre_capability::limits::RENEW_EVERY;
use nacre_host::{BUSY_AFTER, Look, Looks, Machine, busy, deposed};
use nacre_object::{ErrorKind, Result};
use tokio::time::{Instant, timeout_at};

use super::host::{ResourceHost, ResourceSlot};
use super::lending::{Reply, Wanted};
use super::machine::{Caller, ResourceMachine};
use super::readiness::{Later, NotYet, ready};
use crate::question::{Acquired, Call, Hold, News, Returned};
use crate::{ResourceName, ResourceRecord};

/// How long a hand-over waits for a holder to return its grant. After this time the holder's lease
/// is over, so the node can evict the holder and recover the state.
const RECALL_PATIENCE: Duration = Duration::from_secs(1);

impl ResourceHost {
    /// Runs a call, or grants its client a capability instead. Waits until the result is
    /// [confirmed](super::host).
    ///
    /// # Errors
    /// `Unavailable` and [busy](nacre_host::is_busy) if a holder keeps the call waiting; those of
    /// the method.
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

    /// Waits for the answer to a call. Returns it with the epoch of the authority that gave it.
    async fn reply(
        &self,
        name: &ResourceName,
        slot: &Arc<ResourceSlot>,
        waiting: Waiting<'_>,
        busy_at: Instant,
    ) -> Result<(Reply, u64)> {
        let mut is_new = true;
        let look = || {
            let look = self.look(name, slot, &waiting);
            if std::mem::take(&mut is_new) && matches!(look, Look::Wait(_)) {
                // Wake the task that answers the holder's poll: it may have to tell the holder to
                // return the grant. No other task needs to know of this call.
                slot.tell_change();
            }
            look
        };
        match slot.look_until(busy_at, look).await {
            Some(Some(reply)) => Ok((reply, waiting.authority)),
            Some(None) => Err(busy("another node is taking the resource over")),
            None => Err(busy("another client holds the resource's capability")),
        }
    }

    /// Looks for the answer to a call. Finds `None` if the authority that took the call no longer
    /// serves the resource.
    fn look(
        &self,
        name: &ResourceName,
        slot: &Arc<ResourceSlot>,
        waiting: &Waiting<'_>,
    ) -> Look<Option<Reply>> {
        let due_at = {
            let mut machine = slot.machine();
            let Some(machine) = waiting.machine(&mut machine) else { return Look::Found(None) };
            if let Some(reply) = machine.lending.fetch(waiting.ticket) {
                return Look::Found(Some(reply));
            }
            self.due_at(machine, slot)
        };
        self.wait(name, slot, due_at)
    }

    /// Acts on all deadlines that have passed. Returns the next deadline, or an error if a holder
    /// must be evicted.
    fn due_at(
        &self,
        machine: &mut ResourceMachine,
        slot: &ResourceSlot,
    ) -> std::result::Result<Option<Instant>, Overdue> {
        machine.tick(self.now(), (self.env(), &slot.beside.uses));
        match machine.lending.is_overdue() {
            true => Err(Overdue),
            false => Ok(machine.lending.authority().due_at().map(|due_at| self.instant(due_at))),
        }
    }

    /// Says how long to wait for the next deadline. If a holder must be evicted, starts that first.
    fn wait<T>(
        &self,
        name: &ResourceName,
        slot: &Arc<ResourceSlot>,
        due_at: std::result::Result<Option<Instant>, Overdue>,
    ) -> Look<T> {
        Look::Wait(due_at.unwrap_or_else(|Overdue| {
            self.evict(name, slot);
            None
        }))
    }

    /// Answers a holder's poll. Answers at once if the grant is revoked or has ended, or if the
    /// authority wants a report; otherwise after [`RENEW_EVERY`].
    ///
    /// # Errors
    /// `Stale` if the client must read the record; as
    /// [`Host::get_ready`](nacre_host::Host::get_ready).
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
            // Another holder may be overdue although no call waits for it. Then evict it here.
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
                    // The loop looks again, whether the deadline or a change ended the wait.
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

    /// Ends a grant that its holder returns.
    ///
    /// # Errors
    /// `Stale` if another authority gave the grant; the grant has then ended already.
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
            // If the epoch is old, an earlier authority gave the grant.
            machine.serving().check(epoch).map_err(|_| deposed::<ResourceRecord>())?;
            machine.take_back(self.now(), (self.env(), &slot.beside.uses), returned);
        }
        slot.tell_change();
        Ok(())
    }

    /// Makes all holders return their capabilities. No client gets one until the returned guard is
    /// dropped.
    ///
    /// # Errors
    /// `Unavailable` and [busy](nacre_host::is_busy) if a holder does not answer. It is then being
    /// evicted.
    pub(super) async fn recall(&self, name: &ResourceName) -> Result<Recalled> {
        let slot = self.0.slot(name)?;
        let recalled = Recalled { slot: Arc::clone(&slot) };
        let on = (self.env(), &slot.beside.uses);
        if let Some(machine) = slot.machine().as_mut() {
            machine.bar(self.now(), on);
        }
        slot.tell_change();
        let returned = slot.look_until(Instant::now() + RECALL_PATIENCE, || {
            let due_at = {
                let mut machine = slot.machine();
                match machine.as_mut().filter(|machine| machine.lending.is_lent()) {
                    Some(machine) => self.due_at(machine, &slot),
                    None => return Look::Found(()),
                }
            };
            self.wait(name, &slot, due_at)
        });
        match returned.await {
            Some(()) => Ok(recalled),
            None => Err(busy("a client that holds the resource's capability does not answer")),
        }
    }

    /// Evicts a holder, unless that is under way.
    fn evict(&self, name: &ResourceName, slot: &Arc<ResourceSlot>) {
        if self.0.fence(name, slot) {
            self.0.kind().evictions.add(1);
        }
    }
}

/// That a holder must be evicted.
struct Overdue;

/// A call that may wait until a holder returns its grant. Dropping this value withdraws the call.
struct Waiting<'a> {
    host: &'a ResourceHost,
    slot: &'a ResourceSlot,
    /// The epoch of the authority that was asked. The ticket is valid only there.
    authority: u64,
    ticket: u64,
}

impl Waiting<'_> {
    /// The machine, if it is still the one that was asked.
    fn machine<'m>(
        &self,
        machine: &'m mut Option<ResourceMachine>,
    ) -> Option<&'m mut ResourceMachine> {
        machine.as_mut().filter(|it| it.serving().authority().epoch == self.authority)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut machine = self.slot.machine();
        if let Some(machine) = self.machine(&mut machine) {
            let on = (self.host.env(), &self.slot.beside.uses);
            machine.withdraw(self.host.now(), on, self.ticket);
        }
    }
}

/// While this value exists, no client gets a capability of the resource.
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
