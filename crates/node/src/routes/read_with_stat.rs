//! Answers `stat`, and a `read` together with a `stat` in one request. Clients send the latter to read
//! whole objects.
//!
//! Such a request is not one IO of the pure switch, which routes only single reads and writes. So the
//! switch reads between two `stat`s. If the two return the same version and size, the bytes and the
//! answer to `stat` belong to one state of the object. The reason is that each change at home
//! raises the version, and routed bytes can only make the stream longer.

use std::sync::Arc;

use nacre_object::{Error, Op, OpResult, Reply, Request, Result, Stack, Store};
use nacre_route::Span;

use super::NodeSwitch;

/// How often to try the read if the object changes meanwhile. After that, the switch brings the
/// object's bytes back to this node, where one request can read and stat.
const MAX_ATTEMPTS: u32 = 3;

impl NodeSwitch {
    /// Returns size, time and version of an object from its home, the node that holds it. Bytes on
    /// other nodes may lie beyond the end of the stream at home; the size includes them.
    pub(super) async fn stat(&self, next: &Stack, request: Request) -> Result<Reply> {
        self.until_installed().await;
        // Read this first: bytes that come home meanwhile are counted by the home's own `stat`.
        let routed_end = self.core().routed_end(&request.header.object);
        let mut reply = next.submit(request).await?;
        if let Some(OpResult::Stat(stat)) = reply.results.first_mut() {
            stat.size = stat.size.max(routed_end);
        }
        Ok(reply)
    }

    /// Answers a request that consists of `read` and a `stat`, in this order. The bytes stay on the
    /// nodes to which rules have sent them.
    ///
    /// # Errors
    /// The errors of the read, and of the store that holds the object.
    pub(super) async fn read_with_stat(
        self: &Arc<Self>,
        next: Stack,
        request: Request,
        read: Op,
    ) -> Result<Reply> {
        let only = |op| Request { header: request.header.clone(), ops: vec![op] };
        let mut before = self.stat(&next, only(Op::Stat)).await?;
        let has_routed_bytes = self.core().routed_end(&request.header.object) > 0;
        for _ in 0..if has_routed_bytes { MAX_ATTEMPTS } else { 0 } {
            let data = self.run(next.clone(), only(read.clone()), None).await?.results.pop();
            let after = self.stat(&next, only(Op::Stat)).await?;
            if is_unchanged(&before, &after) {
                let data = data.ok_or_else(|| Error::unavailable("the read has no answer"))?;
                let results = [data].into_iter().chain(after.results).collect();
                return Ok(Reply { version: after.version, results });
            }
            before = after;
        }
        self.run(next, request, Some(Span::WHOLE)).await
    }
}

/// Whether both replies to `stat` show the same version and size.
fn is_unchanged(before: &Reply, after: &Reply) -> bool {
    before.version == after.version && size(before) == size(after)
}

fn size(reply: &Reply) -> Option<u64> {
    match reply.results.first() {
        Some(OpResult::Stat(stat)) => Some(stat.size),
        _ => None,
    }
}
