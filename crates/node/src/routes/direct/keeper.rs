//! `DirectKeeper`: serves direct reads at the node that keeps the bytes.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use nacre_object::limits::MAX_REPLY_BYTES;
use nacre_object::{
    ClassCall, Demand, Error, ObjectId, Op, OpResult, Request, Result, Store, TenantName,
};
use nacre_route::{DirectRead, PermitAsk, Permits, ROUTED_CLASS, RoutedRead};
use nacre_slo::NodeSlo;
use nacre_wire::Caller;

use crate::routes::NodeSwitch;

/// The permits at a node, and the reads by them.
#[derive(Debug)]
pub(in crate::routes) struct DirectKeeper {
    switch: Arc<NodeSwitch>,
    /// Knows the tenants of pools; `None` at a gateway to Ceph, where nobody gets permits.
    slo: Option<Arc<NodeSlo>>,
    permits: Mutex<Permits>,
    served: AtomicU64,
}

/// Refuses a caller that may not read an object.
///
/// # Errors
/// `Denied`.
pub(in crate::routes) fn check_reader(caller: &Caller, object: &ObjectId) -> Result<()> {
    let read = Request::new(object.clone(), vec![Op::Read { offset: 0, length: 1 }])?;
    caller.standing.allow(Demand::Request(&read))
}

impl DirectKeeper {
    pub fn new(switch: Arc<NodeSwitch>, slo: Option<Arc<NodeSlo>>) -> Self {
        Self { switch, slo, permits: Mutex::default(), served: AtomicU64::new(0) }
    }

    fn permits(&self) -> MutexGuard<'_, Permits> {
        self.permits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many direct reads the node has served since it started.
    pub fn served(&self) -> u64 {
        self.served.load(Ordering::Relaxed)
    }

    /// Gives a permit, as the home of the bytes has asked.
    ///
    /// # Errors
    /// `Denied` if no routed bytes lie there; `Exhausted`; `Invalid`.
    pub fn give(&self, ask: PermitAsk) -> Result<()> {
        let kept_in: ObjectId = ask.kept_in.parse()?;
        if kept_in.pool != *self.switch.locations().pool() {
            return Err(Error::denied("the object stores no routed bytes").on(&kept_in));
        }
        self.permits().give(self.switch.now(), ask)
    }

    /// Ends the permits for bytes that this object keeps.
    pub fn revoke(&self, kept_in: &str) -> Result<()> {
        self.permits().revoke(&kept_in.parse()?);
        Ok(())
    }

    /// Ends the permits that a home has given, because it has started anew.
    pub fn revoke_all_of(&self, home_target: &str) {
        self.permits().revoke_all_of(home_target);
    }

    /// Serves a direct read. The permit must be valid before and after the bytes are read.
    ///
    /// # Errors
    /// `Denied` if the client may not read the object; `Stale` if there is no permit, or the bytes are
    /// not here; `Invalid`.
    pub async fn read(&self, caller: &Caller, input: Bytes) -> Result<Bytes> {
        let read = DirectRead::decode(input)?;
        check_reader(caller, &read.object)?;
        if read.span.length() > MAX_REPLY_BYTES as u64 {
            return Err(Error::invalid("the read is larger than a reply").on(&read.object));
        }
        self.check(&read)?;
        let request = self.request(caller, &read)?;
        let reply = self.switch.base().submit(request).await?;
        self.check(&read)?;
        match reply.results.into_iter().next() {
            Some(OpResult::Called(called)) => {
                self.served.fetch_add(1, Ordering::Relaxed);
                Ok(called.output)
            }
            _ => Err(Error::corrupt("the reply to a direct read has no data").on(&read.object)),
        }
    }

    fn check(&self, read: &DirectRead) -> Result<()> {
        let now = self.switch.now();
        self.permits().check(now, (&read.object, &read.kept_in), read.token, read.span)
    }

    /// The call that reads the bytes. It is charged to the client's tenant at this node.
    fn request(&self, caller: &Caller, read: &DirectRead) -> Result<Request> {
        let input = RoutedRead { home: read.object.clone(), span: read.span }.encode();
        let call = ClassCall {
            class: ROUTED_CLASS.parse()?,
            method: "read".parse()?,
            version: None,
            input,
        };
        let mut request = Request::new(read.kept_in.clone(), vec![Op::Call(call)])?;
        request.header.source = caller.entity().clone();
        request.header.tenant = self.tenant(caller, &read.object);
        Ok(request)
    }

    fn tenant(&self, caller: &Caller, object: &ObjectId) -> TenantName {
        let of_pool = self.slo.as_ref().and_then(|slo| slo.tenant_of_pool(&object.pool));
        of_pool.unwrap_or_else(|| caller.tenant())
    }
}
