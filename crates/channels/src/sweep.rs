//! Looking for objects whose messages nobody delivers, and taking away marks that are not needed.
//!
//! **Invariant:** a mark is taken away only after a look at its object that found nothing waiting, and only
//! if no request can have trusted it since: this process forgets its own first; of another's it must be
//! known that it is over, or old enough that nobody trusts it any more.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use nacre_object::{ObjectId, Result};

use crate::courier::{Courier, Surroundings};
use crate::ledger::{Ledger, StoredMark};
use crate::marks::Forgotten;
use crate::page::is_empty;

/// Before a sweep that met an error is made again.
const SWEEP_AGAIN: Duration = Duration::from_secs(1);

pub(crate) struct Sweeper {
    pub courier: Courier,
    pub surroundings: Arc<Surroundings>,
}

impl Sweeper {
    pub async fn run(self) {
        let ledger = self.surroundings.ledger();
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

    /// Takes away this process' marks of objects that have not sent for a while.
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
        if is_empty(&self.surroundings, &object).await? {
            let key = Ledger::key(&object, &source, &self.courier.inner().process);
            ledger.unmark(&ledger.of(&object), key, mark).await?;
        } else {
            // The next sweep finds the mark again.
            self.courier.look_at(&object);
        }
        Ok(())
    }

    /// Goes over all marks where this process serves.
    async fn sweep(&self, ledger: &Ledger) -> Result<()> {
        let mut outcome = Ok(());
        for one in ledger.on(&self.surroundings.served) {
            outcome = outcome.and(self.sweep_ledger(ledger, &one).await);
        }
        outcome
    }

    /// An object that cannot be read keeps none behind it waiting.
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
        let inner = self.courier.inner();
        let is_known = || {
            let marks = inner.marks.lock().unwrap_or_else(PoisonError::into_inner);
            marks.knows(&stored.object, &stored.mark)
        };
        // Who trusts it looks after it.
        if is_known() {
            return Ok(());
        }
        if !is_empty(&self.surroundings, &stored.object).await? {
            self.courier.look_at(&stored.object);
        } else if self.is_over(&stored) && !is_known() {
            ledger.unmark(&stored.ledger, stored.key, stored.mark).await?;
        }
        Ok(())
    }

    /// Whether no process trusts a mark that this one does not know.
    fn is_over(&self, stored: &StoredMark) -> bool {
        let inner = self.courier.inner();
        let age = inner.clock.now_micros().saturating_sub(stored.mark.at_micros);
        self.surroundings.is_alone
            || stored.process == inner.process
            || Duration::from_micros(age) >= inner.pace.abandoned_after
    }
}
