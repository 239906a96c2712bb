//! Drops the copies that no rule names, from the pool of routed bytes in RADOS: of names that a rule has lost, of
//! rules that were removed, and those that a former router could not complete.
//!
//! **Invariant:** nothing is dropped that an installed rule names. The router sweeps only once it has rules, and
//! looks at the rules when it has the turn of the object. A new rule may come into force just after that look. A name
//! is used only once, so there was nothing under its names; and the next change of the object waits for the turn
//! and then looks at the notes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use nacre_object::{ListRequest, ObjectId, Result, SnapshotName, Store};
use tokio::time::sleep;

use super::KeptState;
use crate::routes::NodeSwitch;
use crate::routes::rados_locations::{KEPT_NAMES, KeptIn};

/// How many names of the pool of routed bytes are looked at together. RADOS goes over the whole pool
/// for each such page.
const PAGE_NAMES: usize = 4096;

/// Between looks whether a sweep is due.
const REST: Duration = Duration::from_secs(1);
/// After a sweep that could not drop everything. Each sweep goes over the whole pool.
const FAILED_REST: Duration = Duration::from_secs(60);

/// Sweeps when it is due, until the task is aborted.
pub(in crate::routes) async fn run(switch: Arc<NodeSwitch>) {
    if switch.locations().rados().is_none() {
        return;
    }
    loop {
        sleep(REST).await;
        let is_due = &switch.snapshots().is_sweep_due;
        if switch.term() > 0
            && is_due.swap(false, Ordering::Relaxed)
            && switch.sweep_kept().await.is_err()
        {
            is_due.store(true, Ordering::Relaxed);
            sleep(FAILED_REST).await;
        }
    }
}

impl NodeSwitch {
    /// Drops all copies and notes that no rule names. If one cannot be dropped, the others are dropped
    /// nevertheless.
    ///
    /// # Errors
    /// Those of the store.
    async fn sweep_kept(&self) -> Result<()> {
        let Some(locations) = self.locations().rados() else { return Ok(()) };
        let (pool, mut after, mut swept) = (self.locations().pool(), None, Ok(()));
        loop {
            let (pool, prefix) = (pool.clone(), KEPT_NAMES.to_owned());
            let request = ListRequest { pool: pool.clone(), after, prefix, limit: PAGE_NAMES };
            let listed = self.base().list(request).await?;
            for name in &listed.names {
                let kept = locations.kept_in(&ObjectId::new(pool.clone(), name.clone()));
                let dropped = match kept {
                    Some(KeptIn::Notes(object)) => self.drop_unnamed(&object).await,
                    Some(KeptIn::Copy(name, object)) => self.drop_if_unnamed(&object, &name).await,
                    None => Ok(()),
                };
                swept = dropped.and(swept);
            }
            after = listed.names.last().cloned();
            if !listed.more || after.is_none() {
                return swept;
            }
        }
    }

    fn is_named(&self, object: &ObjectId, name: &SnapshotName) -> bool {
        self.core().kept.names(object, name)
    }

    /// Drops what is noted of an object under names that no rule has.
    async fn drop_unnamed(&self, object: &ObjectId) -> Result<()> {
        let _turn = self.snapshots().turns.wait(object).await;
        let (named, unnamed): (BTreeMap<_, _>, BTreeMap<_, _>) = self
            .noted_states(object)
            .await?
            .0
            .into_iter()
            .partition(|(name, _)| self.is_named(object, name));
        for (name, state) in &unnamed {
            match state {
                KeptState::Copied(_) => self.drop_copy_and_note(object, name).await?,
                KeptState::Absent | KeptState::InEngine => {
                    self.drop_notes(object, std::slice::from_ref(name)).await?;
                }
            }
        }
        match named.is_empty() {
            true => self.drop_all_notes(object).await,
            false => Ok(()),
        }
    }

    /// Drops a copy if no rule has its name. Its note may be missing.
    async fn drop_if_unnamed(&self, object: &ObjectId, name: &SnapshotName) -> Result<()> {
        let _turn = self.snapshots().turns.wait(object).await;
        match self.is_named(object, name) {
            true => Ok(()),
            false => self.drop_copy_and_note(object, name).await,
        }
    }
}
