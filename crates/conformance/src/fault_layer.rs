//! A layer that makes requests to the store below it fail, according to a plan.
//!
//! It injects the faults of a network: it loses a request or a reply, delays either, or loses a
//! watch or its events. It never makes up a message and never changes the order of messages.

use bytes::Bytes;
use futures::StreamExt;
use futures::future::{BoxFuture, FutureExt, ready};
use nacre_object::{
    Layer, ListPage, ListRequest, ObjectId, Reply, Request, Result, Stack, Store, Watch,
    WatchEvent, WatchStream,
};

use crate::fault_control::FaultControl;
use crate::faults::Operation;

/// The layer.
#[derive(Debug)]
pub struct FaultLayer {
    next: Stack,
    control: FaultControl,
}

impl FaultLayer {
    /// The layer before `next`, with the faults that `control` plans.
    pub fn new(next: Stack, control: FaultControl) -> Self {
        Self { next, control }
    }

    async fn watch_until_cut(&self, object: &ObjectId) -> Result<WatchStream> {
        let fate = self.control.fate(Operation::Watch(object));
        let events = self.control.run(fate, self.next.watch(object)).await?;
        let (mut cuts, control, object) =
            (self.control.cuts(), self.control.downgrade(), object.clone());
        let told = move |event: WatchEvent| {
            let fate = control.upgrade()?.fate(Operation::Event(&object, &event));
            Some(if fate.is_some() { WatchEvent::Lost } else { event })
        };
        let told = events.map(told).take_while(|told| ready(told.is_some())).filter_map(ready);
        let cut = async move { cuts.changed().await };
        Ok(Box::pin(told.take_until(Box::pin(cut))))
    }
}

impl Layer for FaultLayer {
    fn next(&self) -> &Stack {
        &self.next
    }

    fn submit(&self, request: Request) -> BoxFuture<'_, Result<Reply>> {
        let submit = async move {
            let fate = self.control.fate(Operation::Submit(&request));
            let object = request.header.object.clone();
            let submitted = self.control.run(fate, self.next.submit(request)).await;
            submitted.map_err(|error| error.on(object))
        };
        submit.boxed()
    }

    fn list(&self, request: ListRequest) -> BoxFuture<'_, Result<ListPage>> {
        let list = async move {
            let fate = self.control.fate(Operation::List(&request));
            let listed = self.control.run(fate, self.next.list(request)).await;
            listed.map_err(|error| error.during("list"))
        };
        list.boxed()
    }

    fn watch<'a>(&'a self, object: &'a ObjectId) -> BoxFuture<'a, Result<WatchStream>> {
        self.watch_until_cut(object).boxed()
    }

    fn notify<'a>(&'a self, object: &'a ObjectId, payload: Bytes) -> BoxFuture<'a, Result<()>> {
        let notify = async move {
            let fate = self.control.fate(Operation::Notify(object));
            self.control.run(fate, self.next.notify(object, payload)).await
        };
        notify.boxed()
    }
}
