//! Requests that count as nacre's background work.

use nacre_object::{ObjectId, Op, Request, Result};
use nacre_slo::background_tenant;

/// A `stat` that counts as nacre's background work.
pub(crate) fn background_stat(object: ObjectId) -> Result<Request> {
    background(object, Op::Stat)
}

/// A request that counts as nacre's background work.
pub(super) fn background(object: ObjectId, op: Op) -> Result<Request> {
    let mut request = Request::new(object, vec![op])?;
    request.header.tenant = background_tenant();
    Ok(request)
}
