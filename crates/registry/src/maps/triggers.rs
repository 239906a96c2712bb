//! Carries out triggers, that is, commits to other maps that a map's program asks for.
//!
//! A commit records its triggers in the object of its map, in the same transaction. The committer
//! then carries out the triggers at once, in order, and drops them from the object. If the
//! committer dies first, the next reader or watcher of the map carries them out. The other map
//! remembers the number of its last trigger, so it commits each trigger once.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use nacre_clock::Random;
use nacre_object::{Error, ErrorKind, MapName, Result};

use super::format::{
    CommitReply, CommitRequest, Nothing, OriginMessage, PageRequest, Trigger, TriggersDoneRequest,
    TriggersReply,
};
use super::handle::{MAP_CLASS, Maps};
use crate::backoff::Backoff;
use crate::events::{Event, Severity};
use crate::limits::{MAX_HISTORY_PAGE, MAX_TRIGGER_CHAIN};

/// How long a reader waits for another process to carry out the triggers.
const RESCUE_DELAY: Duration = Duration::from_millis(500);

/// The maps whose triggers a task of this process is going to carry out.
#[derive(Debug, Clone, Default)]
pub(super) struct Carrier {
    planned: Arc<Mutex<HashSet<MapName>>>,
}

/// How many times a reader tries to carry out triggers, which takes about a minute. Then it leaves
/// the remaining triggers to the map's next reader.
const RESCUE_ATTEMPTS: u32 = 30;

impl Carrier {
    /// Registers the caller for this map. Returns whether no other task was registered.
    fn plan(&self, map: &MapName) -> bool {
        self.planned.lock().unwrap_or_else(PoisonError::into_inner).insert(map.clone())
    }

    fn done(&self, map: &MapName) {
        self.planned.lock().unwrap_or_else(PoisonError::into_inner).remove(map);
    }
}

/// Whether a triggered commit may succeed later, so that the trigger has to wait.
fn may_succeed_later(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Exhausted)
}

impl Maps {
    /// Carries out the triggers of a map now, and then the triggers that these commits cause in
    /// turn. Several processes may do this at the same time; each trigger is committed once.
    ///
    /// # Errors
    /// `Unavailable` or `Exhausted` if a triggered commit cannot be made yet; the map keeps its
    /// trigger.
    pub async fn settle(&self, name: &MapName) -> Result<()> {
        let mut unsettled = vec![name.clone()];
        while let Some(map) = unsettled.pop() {
            while let Some(through) = self.carry_out_page(&map, &mut unsettled).await? {
                self.drop_triggers(&map, through).await?;
            }
        }
        Ok(())
    }

    /// Carries out the triggers; what has to wait is tried again in the background.
    pub(super) async fn carry_out(&self, name: &MapName) {
        match self.settle(name).await {
            // This entity may not commit to the other map. A node or an administrator carries out
            // the trigger when it next reads this map.
            Err(error) if error.kind() == ErrorKind::Denied => {}
            Err(_) => self.carry_out_later(name),
            Ok(()) => {}
        }
    }

    /// Carries out the triggers in the background, unless another process has done so a moment
    /// later.
    pub(super) fn carry_out_later(&self, name: &MapName) {
        if !self.carrier().plan(name) {
            return;
        }
        let (maps, name) = (self.clone(), name.clone());
        tokio::spawn(async move {
            let jitter = Random::from_system().below(RESCUE_DELAY.as_millis() as u64);
            tokio::time::sleep(RESCUE_DELAY + Duration::from_millis(jitter)).await;
            let mut backoff = Backoff::new();
            for _ in 0..RESCUE_ATTEMPTS {
                match maps.settle(&name).await {
                    Err(error) if error.kind() != ErrorKind::Denied => {}
                    _ => break,
                }
                backoff.wait().await;
            }
            maps.carrier().done(&name);
        });
    }

    /// Carries out one page of triggers; returns the number of the last one, if there was any.
    async fn carry_out_page(
        &self,
        map: &MapName,
        unsettled: &mut Vec<MapName>,
    ) -> Result<Option<u64>> {
        let request = PageRequest { after: 0, limit: MAX_HISTORY_PAGE as u32 };
        let page: TriggersReply =
            self.system().call(&Self::object(map), MAP_CLASS, "triggers", &request).await?;
        let mut through = None;
        for trigger in page.triggers {
            let sequence = trigger.sequence;
            if let Err(error) = self.carry_out_one(trigger, unsettled).await {
                if let Some(through) = through {
                    self.drop_triggers(map, through).await?;
                }
                return Err(error);
            }
            through = Some(sequence);
        }
        Ok(through)
    }

    async fn carry_out_one(&self, trigger: Trigger, unsettled: &mut Vec<MapName>) -> Result<()> {
        if trigger.chain.len() >= MAX_TRIGGER_CHAIN {
            let text = format!("a chain of more than {MAX_TRIGGER_CHAIN} maps; is it a cycle?");
            return self.report_dropped(&trigger, &Error::invalid(text)).await;
        }
        match self.commit_trigger(&trigger).await {
            Ok((map, reply)) if reply.pending_triggers > 0 => unsettled.push(map),
            Ok(_) => {}
            Err(error) if may_succeed_later(&error) => return Err(error),
            Err(error) => return self.report_dropped(&trigger, &error).await,
        }
        Ok(())
    }

    async fn commit_trigger(&self, trigger: &Trigger) -> Result<(MapName, CommitReply)> {
        let map = MapName::new(&trigger.map)?;
        let request = CommitRequest {
            expected_epoch: None,
            changes: trigger.changes.clone(),
            commit_id: Default::default(),
            origin: Some(OriginMessage {
                chain: trigger.chain.clone(),
                sequence: trigger.sequence,
            }),
            map: trigger.map.clone(),
            guard: None,
        };
        let reply = self.submit_commit(&map, &request).await?;
        Ok((map, reply))
    }

    /// Says in the cluster log that a trigger will never be carried out.
    async fn report_dropped(&self, trigger: &Trigger, error: &Error) -> Result<()> {
        let mut maps = trigger.chain.clone();
        maps.push(trigger.map.clone());
        let event = Event::new(Severity::Error, format!("a triggered commit is refused: {error}"))
            .field("maps", maps.join(" -> "))
            .field("trigger", trigger.sequence.to_string());
        self.events().append(event).await.map(|_| ())
    }

    async fn drop_triggers(&self, map: &MapName, through: u64) -> Result<()> {
        let request = TriggersDoneRequest { through };
        let object = Self::object(map);
        self.system()
            .call::<Nothing>(&object, MAP_CLASS, "triggers-done", &request)
            .await
            .map(|_| ())
    }
}
