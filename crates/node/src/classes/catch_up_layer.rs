//! A layer above an engine. It counts calls of classes, and delays a call whose class version is
//! newer than the versions that this process has loaded. Such a call waits in this layer until the
//! process has loaded the version. A call that has reached the engine cannot wait any more.

use futures::future::BoxFuture;
use nacre_object::{Layer, Op, Reply, Request, Result, Stack, Store};

use super::service::ClassService;

/// The layer before an engine whose methods `classes` runs.
#[derive(Debug)]
pub(crate) struct CatchUpLayer {
    next: Stack,
    classes: ClassService,
}

impl CatchUpLayer {
    pub(crate) fn new(next: Stack, classes: ClassService) -> Self {
        Self { next, classes }
    }

    async fn submit_calls(&self, request: Request) -> Result<Reply> {
        let mut under_way = None;
        for op in &request.ops {
            if let Op::Call(call) = op {
                let begun = self.classes.begin(call).await?;
                // A request counts as in flight once, however many calls it has. So one guard, of
                // the first call, is enough.
                under_way = under_way.or(begun);
            }
        }
        self.next.submit(request).await
    }
}

impl Layer for CatchUpLayer {
    fn next(&self) -> &Stack {
        &self.next
    }

    fn submit(&self, request: Request) -> BoxFuture<'_, Result<Reply>> {
        match request.ops.iter().any(|op| matches!(op, Op::Call(_))) {
            true => Box::pin(self.submit_calls(request)),
            false => self.next.submit(request),
        }
    }
}
