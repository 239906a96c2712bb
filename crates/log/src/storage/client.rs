//! The client of the storage interface: makes one call on one object.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use nacre_host::Backoff;
use nacre_object::{
    ClassCall, ClassName, Error, ErrorKind, MethodName, ObjectId, Op, OpResult, Request, Status,
    Store,
};
use tokio::time::{Instant, timeout};

use super::LAST_EPOCH;
use super::dialect::{self, Ask, CallFailure, CallResult, Dialect};
use super::entry::EntryState;
use super::status::{EIO, ENOENT, ESPIPE};
use crate::env::{ClassVersions, LogEnv};
use crate::view::View;

/// Which object, by which class, under which epoch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Addressed<'a> {
    pub object: &'a ObjectId,
    pub class: &'a ClassName,
    pub epoch: u64,
}

impl<'a> Addressed<'a> {
    /// An object of a view, as a client with that view addresses it.
    pub fn by(view: &'a View, object: &'a ObjectId) -> Self {
        Self { object, class: view.class(), epoch: view.epoch() }
    }

    fn dialect(&self) -> &'static dyn Dialect {
        dialect::of(self.class)
    }
}

/// Calls the storage interface of objects.
#[derive(Debug, Clone)]
pub(crate) struct StorageClient {
    store: Arc<dyn Store>,
    versions: Arc<dyn ClassVersions>,
    patience: Duration,
}

impl StorageClient {
    pub fn new(env: &LogEnv) -> Self {
        let (store, versions) = (env.store.clone(), env.classes.clone());
        Self { store, versions, patience: env.patience.call }
    }

    /// Seals; answers the maximum position.
    pub async fn seal(&self, to: Addressed<'_>) -> CallResult<Option<u64>> {
        let dialect = to.dialect();
        self.ask(to, dialect.seal(to.epoch), |answer| dialect.maximum(answer)).await
    }

    pub async fn max_position(&self, to: Addressed<'_>) -> CallResult<Option<u64>> {
        let dialect = to.dialect();
        self.ask(to, dialect.max_position(), |answer| dialect.maximum(answer)).await
    }

    /// Writes; answers a status an entry.
    pub async fn write(
        &self,
        to: Addressed<'_>,
        entries: &[(u64, &Bytes)],
    ) -> CallResult<Vec<Status>> {
        let (dialect, count) = (to.dialect(), entries.len());
        let ask = dialect.write(to.epoch, entries);
        self.ask(to, ask, |answer| dialect.statuses(answer, count)).await
    }

    /// Fills; answers a status a position.
    pub async fn fill(&self, to: Addressed<'_>, positions: &[u64]) -> CallResult<Vec<Status>> {
        let (dialect, count) = (to.dialect(), positions.len());
        let ask = dialect.fill(to.epoch, positions);
        self.ask(to, ask, |answer| dialect.statuses(answer, count)).await
    }

    /// Reads positions. Returns the states of the first ones, at least one, up to the byte limit.
    pub async fn read(
        &self,
        to: Addressed<'_>,
        byte_limit: u32,
        positions: &[u64],
    ) -> CallResult<Vec<EntryState>> {
        let (dialect, count) = (to.dialect(), positions.len());
        let ask = dialect.read(to.epoch, byte_limit, positions);
        self.ask(to, ask, |answer| dialect.states(answer, count)).await
    }

    pub async fn trim(&self, to: Addressed<'_>, position: u64) -> CallResult<()> {
        let dialect = to.dialect();
        self.ask(to, dialect.trim(to.epoch, position), |answer| dialect.trimmed(answer)).await
    }

    /// Trims everything up to a position. Returns whether entries are left to be reclaimed.
    pub async fn trim_to(&self, to: Addressed<'_>, position: u64) -> CallResult<bool> {
        let dialect = to.dialect();
        self.ask(to, dialect.trim_to(to.epoch, position), |answer| dialect.has_left(answer)).await
    }

    /// Buries an object: from now on it refuses every epoch. Removes all its entries, of which
    /// `position` is the last, and keeps its header. Without the header, a late seal could create
    /// the object again, and it would accept late writes.
    pub async fn bury(&self, to: Addressed<'_>, position: u64) -> CallResult<()> {
        let removed = to;
        let to = Addressed { epoch: LAST_EPOCH, ..to };
        match self.seal(to).await {
            // It was buried before.
            Ok(_) | Err(CallFailure::Stale) => {}
            // On a full disk, trim first: the freed space lets the object store the seal.
            Err(CallFailure::Failed(error)) if error.kind() == ErrorKind::Exhausted => {
                while self.trim_to(removed, position).await? {}
                self.seal(to).await?;
            }
            Err(failure) => return Err(failure),
        }
        while self.trim_to(to, position).await? {}
        Ok(())
    }

    /// Calls a method, and reads what it answers.
    async fn ask<T>(
        &self,
        to: Addressed<'_>,
        ask: Ask,
        read: impl FnOnce(Bytes) -> CallResult<T>,
    ) -> CallResult<T> {
        read(self.call(to, ask).await?).map_err(|failure| match failure {
            CallFailure::Failed(error) => CallFailure::Failed(error.on(to.object)),
            other => other,
        })
    }

    async fn call(&self, to: Addressed<'_>, ask: Ask) -> CallResult<Bytes> {
        let deadline = Instant::now() + self.patience;
        let mut backoff = Backoff::new();
        loop {
            let call = ClassCall {
                class: to.class.clone(),
                method: MethodName::new(ask.method).expect("a literal"),
                version: self.versions.version(to.class),
                input: ask.input.clone(),
            };
            match self.submit(to.object, Op::Call(call)).await {
                Ok(OpResult::Called(reply)) => return Ok(reply.output),
                Ok(other) => {
                    let text = format!("the store answered a call with {other:?}");
                    return Err(CallFailure::Failed(Error::corrupt(text).on(to.object)));
                }
                Err(CallFailure::Failed(error)) if is_other_version(&error) => {
                    if Instant::now() >= deadline {
                        return Err(CallFailure::NoAnswer(error));
                    }
                    self.versions.refresh(to.class).await.map_err(CallFailure::NoAnswer)?;
                    // Either this client had an old version, or the node has: give the node a
                    // moment.
                    backoff.wait().await;
                }
                Err(failure) => return Err(failure),
            }
        }
    }

    async fn submit(&self, object: &ObjectId, op: Op) -> CallResult<OpResult> {
        let request = Request::new(object.clone(), vec![op]).map_err(CallFailure::Failed)?;
        let reply = match timeout(self.patience, self.store.submit(request)).await {
            Ok(Ok(reply)) => reply,
            Ok(Err(error)) => return Err(classify(error)),
            Err(_) => {
                let text = format!("no answer in {:?}", self.patience);
                return Err(CallFailure::NoAnswer(Error::unavailable(text).on(object)));
            }
        };
        reply.results.into_iter().next().ok_or_else(|| {
            CallFailure::Failed(Error::corrupt("the store gave no result for the call").on(object))
        })
    }
}

/// Whether a `Stale` error means that the call named another version of the class than the active
/// one. Otherwise the object refused the epoch.
fn is_other_version(error: &Error) -> bool {
    error.kind() == ErrorKind::Stale && !error.has_own_status()
}

fn classify(error: Error) -> CallFailure {
    match (error.has_own_status().then(|| error.status()), error.kind()) {
        (Some(ESPIPE), _) => CallFailure::Stale,
        (Some(ENOENT), _) => CallFailure::Unsealed,
        // The class program returned EIO as its status, which means that the entry is damaged. A
        // failure inside the program would also give EIO, but with the source line of the failure.
        (Some(EIO), ErrorKind::Fault) if error.fault().is_none_or(|site| site.line.is_none()) => {
            let damaged = Error::corrupt(error.message()).with_status(EIO);
            CallFailure::Failed(match error.object() {
                Some(object) => damaged.on(object),
                None => damaged,
            })
        }
        (None, ErrorKind::Unavailable) => CallFailure::NoAnswer(error),
        _ => CallFailure::Failed(error),
    }
}
