//! The way of a request on an object that no rule concerns: straight to its object, and until it is
//! over, no new rules apply.
//!
//! On Ceph a change is over when it has happened or never will ([`LateChanges`]). This module also
//! has what a switch does about a change that is not over although it was answered.

use std::sync::Arc;

use futures::future::{BoxFuture, FutureExt};
use nacre_object::{ObjectId, Op, Reply, Request, Result, Stack, Store};

use super::NodeSwitch;
use super::concern::FreePass;
use crate::completed::Completed;
use crate::late_changes::LateChanges;

/// An object of which a change that bypassed the switch may still happen, while this lives. New
/// rules about the object, and its caching by another gateway, wait for that.
struct LateObject {
    switch: Arc<NodeSwitch>,
    object: ObjectId,
}

impl LateObject {
    fn new(switch: Arc<NodeSwitch>, object: ObjectId) -> Self {
        switch.concern().note_late(&object);
        Self { switch, object }
    }
}

impl Drop for LateObject {
    fn drop(&mut self) {
        self.switch.concern().note_settled(&self.object);
    }
}

impl NodeSwitch {
    /// Sends a request that no rule concerns to its object.
    pub(super) fn submit_unconcerned<'a>(
        self: &Arc<Self>,
        next: &'a Stack,
        request: Request,
        pass: FreePass,
    ) -> BoxFuture<'a, Result<Reply>> {
        if self.late_changes().is_some() && request.ops.iter().any(Op::is_write) {
            let (switch, next) = (Arc::clone(self), next.clone());
            // It runs to its end even if the caller gives up, because only then its outcome is known.
            let running = async move {
                let object = request.header.object.clone();
                let reply = next.submit(request).await;
                let late = LateChanges::may_happen(&reply)
                    .then(|| LateObject::new(Arc::clone(&switch), object.clone()));
                drop(pass);
                switch.release(object, &reply, late);
                reply
            };
            return Completed::of(running).boxed();
        }
        let submitted = next.submit(request);
        async move {
            let reply = submitted.await;
            drop(pass);
            reply
        }
        .boxed()
    }

    /// Drops `held` once a change with this reply is over.
    pub(super) fn release(
        self: &Arc<Self>,
        object: ObjectId,
        reply: &Result<Reply>,
        held: impl Send + 'static,
    ) {
        let Some(late) = self.late_changes().filter(|_| LateChanges::may_happen(reply)) else {
            return drop(held);
        };
        let (switch, late) = (Arc::clone(self), late.clone());
        tokio::spawn(async move {
            late.settled(switch.base(), &object).await;
            drop(held);
        });
    }
}
