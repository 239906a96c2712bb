//! Applies plain writes to the home and to the current copies, if a rule such as
//! `* rw data/hot/* -> all storage.0,storage.1` decides about them (*scatter of writes*). All other
//! changes make copies useless.
//!
//! 1. Updates of one object take turns. The state machine says which copies are current, and takes
//!    them out of the read set.
//! 2. The home executes the update. If it fails there, the copies are made anew.
//! 3. The switch sends the update to the copies. Each copy gets the next update when it has
//!    confirmed the one before.
//! 4. With `all`, the update ends when every copy has confirmed it or has failed; with `quorum`, when
//!    the home and the copies that have it are a majority. Then the copies that have it rejoin the
//!    read set, and the client gets its reply. Later confirmations are heard too.
//!
//! The home comes first, so no copy ever has a write that the home does not have.
//!
//! Gateways to Ceph refuse such rules. An update is over when the home has answered it, but Ceph may
//! carry out a change that it has not answered ([`LateChanges`](crate::late_changes::LateChanges)).

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use futures::stream::{FuturesUnordered, StreamExt};
use nacre_object::{
    ErrorKind, IoHeader, ObjectId, ObjectStat, Op, OpResult, Reply, Request, Result, Store,
};
use nacre_route::{
    CopyTag, CopyUpdate, FastHashMap, Io, Operation, Span, Take, Touch, Update, UpdateEnd,
    UpdateFailure,
};
use tokio::time::timeout;

use super::reads::scatter_of;
use crate::completed::Completed;
use crate::routes::erasure::Outside;
use crate::routes::service::Question;
use crate::routes::submission::CopiesAfter;
use crate::routes::switch_core::Core;
use crate::routes::turns::{Turn, Turns};
use crate::routes::versions::with_op;
use crate::routes::{NodeSwitch, Onward};

/// How long a target may take to apply an update. After that its copy leaves the read set. A write
/// with `all` waits so long at most, and its client waits longer.
const UPDATE_TIME: Duration = Duration::from_secs(2);

/// An update on its way to a copy. The value says whether the copy has applied it.
type Sending = Shared<BoxFuture<'static, bool>>;

/// The updates of a switch that are in flight.
#[derive(Default)]
pub(in crate::routes) struct Updates {
    turns: Arc<Turns>,
    /// The last update that was sent to each copy, with its number.
    last: Mutex<FastHashMap<CopyTag, (u64, Sending)>>,
}

impl Updates {
    /// Waits until no update of an object is in flight. The next one waits for the returned value.
    pub async fn turn(&self, object: &ObjectId) -> Turn {
        self.turns.wait(object).await
    }

    fn last(&self) -> MutexGuard<'_, FastHashMap<CopyTag, (u64, Sending)>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An update that has its turn. While this lives, no read goes to a copy.
struct UpdateInFlight {
    switch: Arc<NodeSwitch>,
    object: ObjectId,
    update: Update,
    take: Take,
    end: UpdateEnd,
}

impl UpdateInFlight {
    /// Takes the copies out of the read set, and returns those that get the update. `None` if no
    /// rule sends the update to copies any more.
    fn begin(
        switch: &Arc<NodeSwitch>,
        request: &Request,
        update: &Update,
    ) -> Option<(Self, Vec<CopyUpdate>)> {
        let object = request.header.object.clone();
        let mut core = switch.core();
        let take = take_of(&core, request, update)?;
        let copies = core.copies.update_began(&object, update);
        drop(core);
        let (switch, update) = (Arc::clone(switch), update.clone());
        Some((Self { switch, object, update, take, end: UpdateEnd::Failed }, copies))
    }

    fn may_end(&self) -> bool {
        self.switch.core().copies.may_end(&self.object, self.take)
    }
}

impl Drop for UpdateInFlight {
    fn drop(&mut self) {
        self.switch.core().copies.update_ended(&self.object, &self.update, self.end);
    }
}

/// How many copies must have an update, if a rule about all of its bytes sends it to copies.
fn take_of(core: &Core, request: &Request, update: &Update) -> Option<Take> {
    core.switch.installed()?;
    let touch = Touch { operation: Operation::Write, span: Some(update.span()) };
    let io = Io::of(&request.header, None, None, touch);
    let (_, scatter) = scatter_of(core.switch.table(), &io)?;
    Some(scatter.take).filter(|take| *take != Take::One)
}

impl NodeSwitch {
    /// Runs a request that may change its object: as an update if a rule wants it and the request
    /// is a plain write, otherwise as a change after which copies are made anew.
    pub(super) async fn change_or_update(
        self: &Arc<Self>,
        onward: Onward,
        request: Request,
        outside: Outside,
    ) -> Result<Reply> {
        let is_kept = self.concerns_snapshots(&request);
        let is_scattered =
            |update: &Update| !is_kept && take_of(&self.core(), &request, update).is_some();
        match Update::of(&request).filter(is_scattered) {
            // It runs to its end even if the caller gives up, because copies wait for it.
            Some(update) => {
                let switch = Arc::clone(self);
                Completed::of(switch.update(onward, request, update, outside)).await
            }
            None => self.change(onward, request, None, outside).await,
        }
    }

    async fn update(
        self: Arc<Self>,
        onward: Onward,
        request: Request,
        update: Update,
        outside: Outside,
    ) -> Result<Reply> {
        let header = request.header.clone();
        let turn = self.updates().turn(&header.object).await;
        let Some((mut in_flight, copies)) = UpdateInFlight::begin(&self, &request, &update) else {
            // The rules have changed meanwhile.
            drop(turn);
            return self.change(onward, request, None, outside).await;
        };
        let reply = self.update_home(onward, request).await?;
        let send = |copy| self.send_update(&header, copy);
        let mut sending: FuturesUnordered<_> = copies.into_iter().map(send).collect();
        in_flight.end = match sending.is_empty() {
            true => UpdateEnd::OnlyAtHome { version: reply.version },
            false => self.stat_after(&header).await.map_or(UpdateEnd::Failed, UpdateEnd::Done),
        };
        while !in_flight.may_end() && sending.next().await.is_some() {}
        drop(in_flight);
        drop(turn);
        Ok(reply)
    }

    /// Runs an update at the home.
    async fn update_home(self: &Arc<Self>, onward: Onward, request: Request) -> Result<Reply> {
        if self.rule_with_versions(&request).is_some() {
            // The rules have changed just now. This makes the copies useless.
            return self.submit_by_rules(onward, request, None).await;
        }
        let homeward = match request.ops.as_slice() {
            [Op::Write { .. }] => None,
            _ => Some(Span::WHOLE),
        };
        self.run_with(onward.usual, request, homeward, CopiesAfter::Updated).await
    }

    /// The `stat` of an object after an update. It is of no use if another change meets the update.
    async fn stat_after(&self, header: &IoHeader) -> Option<ObjectStat> {
        let stat = with_op(header, Op::Stat).ok()?;
        match self.base().submit(stat).await.ok()?.results.first() {
            Some(OpResult::Stat(stat)) => Some(*stat),
            _ => None,
        }
    }

    /// Begins to send an update to a copy, after the updates that were sent to it before.
    fn send_update(self: &Arc<Self>, header: &IoHeader, update: CopyUpdate) -> Sending {
        let (tag, number) = (update.write.tag, update.write.number);
        let (switch, header) = (Arc::clone(self), header.clone());
        let mut last = self.updates().last();
        let before = last.get(&tag).map(|(_, sending)| sending.clone());
        let sending = async move {
            let is_next = match before {
                Some(before) => before.await,
                None => true,
            };
            // If an earlier update has failed, the copy is forgotten already.
            let is_applied = is_next && switch.update_copy(&header, &update).await;
            let mut last = switch.updates().last();
            if last.get(&tag).is_some_and(|(latest, _)| *latest == number) {
                last.remove(&tag);
            }
            is_applied
        };
        let sending = sending.boxed().shared();
        last.insert(tag, (number, sending.clone()));
        // It goes on even if the update ends without it.
        tokio::spawn(sending.clone());
        sending
    }

    /// Sends an update to a copy, and tells the state machine how it went.
    async fn update_copy(&self, header: &IoHeader, update: &CopyUpdate) -> bool {
        let asked = async {
            let place = self.locations().copy_in(update.stored_in.clone(), &update.target)?;
            let question = Question::new(self, header, &place, None, update.write.encode());
            self.ask_keeper(&place.node, "copy-write", &question, UPDATE_TIME).await
        };
        let failure = match timeout(UPDATE_TIME, asked).await {
            Ok(Ok(_)) => None,
            Ok(Err(error)) => Some(match error.kind() {
                ErrorKind::NotFound | ErrorKind::Stale | ErrorKind::Conflict => UpdateFailure::Lost,
                _ => UpdateFailure::Target,
            }),
            Err(_) => Some(UpdateFailure::Target),
        };
        let now = self.now();
        let mut core = self.core();
        match failure {
            None => core.copies.update_confirmed(update),
            Some(why) => core.copies.update_failed(now, update, why),
        }
        failure.is_none()
    }
}
