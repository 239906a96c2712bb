//! The *sweep* reads all ledgers from time to time. It finds objects with messages that no process
//! delivers, and removes marks that are not needed. A mark says that an object may have messages.
//!
//! **Invariant:** the sweep removes a mark only after it found that the object has no waiting
//! message, and only if no request can have relied on the mark since. It forgets a mark of its own
//! process before it removes the mark. A mark of another process must be so old that no process
//! relies on it, unless this process alone serves the object. A mark is also not needed if this
//! process has a newer mark for the same object and entity.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use nacre_object::{ObjectId, Result};

use crate::courier::{Courier, CourierContext};
use crate::ledger::{Ledger, StoredMark};
use crate::marks::Forgotten;
use crate::page::is_empty;

/// The pause after a sweep that failed.
const SWEEP_AGAIN: Duration = Duration::from_secs(1);

pub(crate) struct Sweeper {
    pub courier: Courier,
    pub context: Arc<CourierContext>,
}

impl Sweeper {
    pub async fn run(self) {
        let ledger = self.context.ledger();
        loop {
            let ended = self.clear_idle(&ledger).await;
            let ended = ended.and(self.sweep(&ledger).await);
            let pause = match ended {
                Ok(()) => self.courier.inner().pace.sweep_every,
                Err(_) => SWEEP_AGAIN.min(self.courier.inner().pace.sweep_every),
            };
            tokio::time::sleep(pause).await;
        }
    }

    /// Removes this process's marks of objects that have not sent for a while.
    async fn clear_idle(&self, ledger: &Ledger) -> Result<()> {
        let inner = self.courier.inner();
        let now = inner.clock.monotonic();
        let idle = {
            let mut marks = inner.marks.lock().unwrap_or_else(PoisonError::into_inner);
            marks.forget_idle(now)
        };
        let mut outcome = Ok(());
        for forgotten in idle {
            outcome = outcome.and(self.clear(ledger, forgotten).await);
        }
        outcome
    }

    async fn clear(&self, ledger: &Ledger, forgotten: Forgotten) -> Result<()> {
        let Forgotten { object, source, mark } = forgotten;
        if is_empty(&self.context, &object).await? {
            let key = Ledger::key(&object, &source, &self.courier.inner().process, mark);
            ledger.unmark(&ledger.of(&object), key, mark).await?;
        } else {
            // The next sweep finds the mark again.
            self.courier.look_at(&object);
        }
        Ok(())
    }

    /// Handles all marks on the targets that this process serves.
    async fn sweep(&self, ledger: &Ledger) -> Result<()> {
        let mut outcome = Ok(());
        for one in ledger.on(&self.context.served) {
            outcome = outcome.and(self.sweep_ledger(ledger, &one).await);
        }
        outcome
    }

    /// Handles the marks of a ledger. An object that cannot be read does not stop the sweep.
    async fn sweep_ledger(&self, ledger: &Ledger, one: &ObjectId) -> Result<()> {
        let (mut after, mut outcome) = (Bytes::new(), Ok(()));
        loop {
            let (marks, next) = ledger.page(one, after, Bytes::new()).await?;
            for mark in marks {
                outcome = outcome.and(self.look_after(ledger, mark).await);
            }
            match next {
                Some(next) => after = next,
                None => return outcome,
            }
        }
    }

    async fn look_after(&self, ledger: &Ledger, stored: StoredMark) -> Result<()> {
        let is_needed = match self.standing(&stored) {
            Standing::Trusted => return Ok(()),
            Standing::Superseded => false,
            Standing::InDoubt | Standing::Unknown => {
                !is_empty(&self.context, &stored.object).await?
            }
        };
        if is_needed {
            self.courier.look_at(&stored.object);
        } else if self.is_over(&stored) {
            ledger.unmark(&stored.ledger, stored.key, stored.mark).await?;
        }
        Ok(())
    }

    /// What this process knows of a mark.
    fn standing(&self, stored: &StoredMark) -> Standing {
        let inner = self.courier.inner();
        let StoredMark { object, source, mark, process, .. } = stored;
        let marks = inner.marks.lock().unwrap_or_else(PoisonError::into_inner);
        match (marks.knows(object, mark), *process == inner.process) {
            (true, _) if marks.is_in_doubt(object, source, inner.clock.monotonic()) => {
                Standing::InDoubt
            }
            (true, _) => Standing::Trusted,
            (false, true) if marks.has(object, source) => Standing::Superseded,
            (false, _) => Standing::Unknown,
        }
    }

    /// Whether no process relies on this mark any more. This is checked even for a mark of this
    /// process, because a request may have begun to use it since the sweep read it.
    fn is_over(&self, stored: &StoredMark) -> bool {
        let inner = self.courier.inner();
        if stored.process == inner.process {
            let marks = inner.marks.lock().unwrap_or_else(PoisonError::into_inner);
            return !marks.knows(&stored.object, &stored.mark);
        }
        let age = inner.clock.now_micros().saturating_sub(stored.mark.at_micros);
        Duration::from_micros(age) >= inner.pace.abandoned_after
            || self.context.is_alone_with(&stored.object)
    }
}

/// What a process has to do with a mark.
enum Standing {
    /// The process relies on the mark.
    Trusted,
    /// The process relies on the mark, but an abandoned request may still let the object send.
    InDoubt,
    /// The process made another mark in place of this one.
    Superseded,
    /// Another process made the mark, or this process has forgotten it.
    Unknown,
}
