//! The way of a request on an object that has copies, or may have some.
//!
//! On Ceph every change that the router routes counts as one of an object that may have copies, so
//! that no copies are made while an earlier change may still happen
//! ([`LateChanges`](crate::late_changes::LateChanges)).

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::FutureExt;
use nacre_object::{
    ErrorKind, ObjectId, ObjectStat, Op, OpResult, Reply, Request, Result, TargetName,
};
use nacre_route::{
    CopyState, Destination, Io, Making, Operation, ReadFailure, ReadFrom, RuleId, RuleTable,
    Scatter, Span, Touch,
};

use crate::completed::Completed;
use crate::routes::concern::FreePass;
use crate::routes::erasure::Outside;
use crate::routes::onward::same_for_all_bytes;
use crate::routes::service::Question;
use crate::routes::{NodeSwitch, Onward};

/// How long a target may take to answer a read of a copy. After that the read goes home, and the
/// client waits longer than both together.
const COPY_READ_TIME: Duration = Duration::from_secs(2);

/// A read about which a rule with copies decides.
struct Planned {
    from: ReadFrom,
    make: Vec<Making>,
    /// Counts as outstanding at its target while this lives.
    outstanding: Outstanding,
}

/// A read that a target has not answered yet.
struct Outstanding {
    switch: Arc<NodeSwitch>,
    target: TargetName,
}

impl Drop for Outstanding {
    fn drop(&mut self) {
        self.switch.core().copies.read_ended(&self.target);
    }
}

/// A request in flight that may change an object. While this lives, no read goes to a copy.
struct ChangeInFlight {
    switch: Arc<NodeSwitch>,
    object: ObjectId,
    _outside: Outside,
}

impl ChangeInFlight {
    fn begin(switch: &Arc<NodeSwitch>, object: &ObjectId, outside: Outside) -> Self {
        switch.core().copies.change_began(object);
        Self { switch: Arc::clone(switch), object: object.clone(), _outside: outside }
    }
}

impl Drop for ChangeInFlight {
    fn drop(&mut self) {
        let now = self.switch.now();
        self.switch.core().copies.change_ended(now, &self.object);
    }
}

impl NodeSwitch {
    /// Runs a request on an object that has rules, or whose bytes may lie elsewhere, but that is not
    /// erasure-coded.
    pub(in crate::routes) async fn submit_uncoded(
        self: &Arc<Self>,
        onward: Onward,
        request: Request,
        outside: Outside,
    ) -> Result<Reply> {
        let is_change = request.ops.iter().any(Op::is_write);
        if self.locations().rados().is_some() {
            // Other gateways also forward IO on objects that this one only caches.
            let pass = self.concern().now().pass_of_rules(&request.header.object);
            if let Some(pass) = pass {
                return self.submit_unconcerned(&onward.usual, request, pass).await;
            }
            if is_change {
                let pass = self.uncopied(&request.header.object);
                return self.change(onward, request, pass, outside).boxed().await;
            }
        }
        if let Some(pass) = self.uncopied(&request.header.object) {
            return self.submit_by_rules(onward, request, Some(pass)).await;
        }
        if is_change {
            return self.change_or_update(onward, request, outside).boxed().await;
        }
        match request.ops.as_slice() {
            [Op::Read { offset, length }] | [Op::Read { offset, length }, Op::Stat]
                if request.header.snapshot.is_none() =>
            {
                let span = Span::new(*offset, offset.saturating_add(*length));
                self.read(onward, request, span).boxed().await
            }
            _ => self.submit_by_rules(onward, request, None).await,
        }
    }

    /// Runs a request that may change its object. It runs to its end even if the caller gives up,
    /// because no copy may be made meanwhile.
    pub(super) async fn change(
        self: &Arc<Self>,
        onward: Onward,
        request: Request,
        pass: Option<FreePass>,
        outside: Outside,
    ) -> Result<Reply> {
        let object = request.header.object.clone();
        let change = ChangeInFlight::begin(self, &object, outside);
        let switch = Arc::clone(self);
        Completed::of(async move {
            let reply = switch.submit_by_rules(onward, request, pass).await;
            switch.release(object, &reply, change);
            reply
        })
        .await
    }

    /// Reads from a current copy, or from the home.
    async fn read(
        self: &Arc<Self>,
        onward: Onward,
        request: Request,
        span: Option<Span>,
    ) -> Result<Reply> {
        let planned = match (span, self.home_target(&request.header.object).await) {
            (Some(span), Some(home)) => {
                self.plan_read(&request, &home, span).map(|planned| (span, home, planned))
            }
            _ => None,
        };
        let Some((span, home, Planned { from, make, mut outstanding })) = planned else {
            return self.submit_by_rules(onward, request, None).await;
        };
        for making in make {
            tokio::spawn(Arc::clone(self).make_copy(making));
        }
        if let ReadFrom::Copy { target, state, stat, stored_in } = from {
            let object = &request.header.object;
            match self.read_copy(&request, (&target, stored_in), state, span).await {
                Ok(data) => {
                    self.core().copies.read_served(&target);
                    return Ok(reply(&request, data, stat));
                }
                Err(why) => {
                    let now = self.now();
                    self.core().copies.read_failed(now, object, (&target, state), why);
                    outstanding = self.outstanding_at_home(home);
                }
            }
        }
        let reply = self.submit_by_rules(onward, request, None).await;
        if reply.is_ok() {
            self.core().copies.read_served(&outstanding.target);
        }
        reply
    }

    fn outstanding_at_home(self: &Arc<Self>, home: TargetName) -> Outstanding {
        self.core().copies.read_began(&home);
        Outstanding { switch: Arc::clone(self), target: home }
    }

    /// The target that is the home of an object: the target of this node, or on Ceph the object's primary
    /// OSD. `None` if Ceph does not answer.
    async fn home_target(&self, object: &ObjectId) -> Option<TargetName> {
        match self.locations().rados() {
            Some(locations) => locations.primary(object).await.ok(),
            None => Some(self.locations().own().clone()),
        }
    }

    /// Asks the state machine where a read goes. `None` if no rule with copies decides about all of
    /// its bytes.
    fn plan_read(
        self: &Arc<Self>,
        request: &Request,
        home: &TargetName,
        span: Span,
    ) -> Option<Planned> {
        let touch = Touch { operation: Operation::Read, span: Some(span) };
        let io = Io::of(&request.header, None, Some(home.clone()), touch);
        let (now, random) = (self.now(), self.random());
        let mut core = self.core();
        let core = &mut *core;
        core.switch.installed()?;
        let (rule, scatter) = scatter_of(core.switch.table(), &io)?;
        let planned = core.copies.read(now, (&io.object, home), scatter, random);
        let target = match &planned.from {
            ReadFrom::Home => home.clone(),
            ReadFrom::Copy { target, .. } => {
                core.tally.decided(rule, core.switch.table());
                target.clone()
            }
        };
        let outstanding = Outstanding { switch: Arc::clone(self), target };
        Some(Planned { from: planned.from, make: planned.make, outstanding })
    }

    async fn read_copy(
        &self,
        request: &Request,
        (target, stored_in): (&TargetName, ObjectId),
        state: CopyState,
        span: Span,
    ) -> Result<Bytes, ReadFailure> {
        if self.locations().has_moved(&stored_in, target) {
            return Err(ReadFailure::Moved);
        }
        let asked = async {
            let place = self.locations().copy_in(stored_in, target)?;
            let question = Question::new(self, &request.header, &place, Some(span), state.encode());
            self.ask_keeper(&place.node, "copy-read", &question, COPY_READ_TIME).await
        };
        asked.await.map_err(|error| match error.kind() {
            ErrorKind::NotFound | ErrorKind::Stale => ReadFailure::Lost,
            _ => ReadFailure::Target,
        })
    }
}

/// The rule that sends all bytes of a read to copies, and the copies.
pub(in crate::routes) fn scatter_of<'a>(
    table: &'a RuleTable,
    io: &Io,
) -> Option<(RuleId, &'a Scatter)> {
    same_for_all_bytes(table, io, |destination| match destination {
        Destination::Scatter(scatter) => Some(scatter),
        _ => None,
    })
}

/// The reply to a read, or to a read and a `stat`, of a copy.
fn reply(request: &Request, data: Bytes, stat: ObjectStat) -> Reply {
    let mut results = vec![OpResult::Data(data)];
    if request.ops.len() > 1 {
        results.push(OpResult::Stat(stat));
    }
    Reply { version: stat.version, results }
}
