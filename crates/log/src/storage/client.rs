//! The storage interface as its callers see it: one call on one object.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use nacre_class::{decode_answers, encode_batch};
use nacre_object::{
    CallReply, ClassCall, ClassName, Error, ErrorKind, MethodName, ObjectId, Op, OpResult, Request,
    Result, Status, Store,
};
use tokio::time::{Instant, timeout};

use super::entry::EntryState;
use super::input::{
    decode_maximum, decode_states, decode_statuses, encode_epoch, encode_fill_batch,
    encode_position, encode_read_batch, encode_write_batch,
};
use super::status::{EIO, ENOENT, ESPIPE};
use super::{LAST_EPOCH, rows, speaks_rows};
use crate::backoff::Backoff;
use crate::env::{ClassVersions, LogEnv};

/// Why a call on an object did not do what it should.
#[derive(Debug)]
pub(crate) enum CallFailure {
    /// The epoch is older than the object's.
    Stale,
    /// There is no such object yet.
    Unsealed,
    /// Nobody knows whether it happened.
    NoAnswer(Error),
    /// It did not happen, and would not if tried again.
    Failed(Error),
}

pub(crate) type CallResult<T> = Result<T, CallFailure>;

/// Which object, by which class, under which epoch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Addressed<'a> {
    pub object: &'a ObjectId,
    pub class: &'a ClassName,
    pub epoch: u64,
}

impl Addressed<'_> {
    /// Whether the class is made of a Brados program, whose requests and replies are rows.
    fn speaks_rows(&self) -> bool {
        speaks_rows(self.class)
    }

    /// A request about each of some positions.
    fn requests(&self, positions: &[u64]) -> Vec<Vec<u8>> {
        positions.iter().map(|position| rows::of_numbers(&[self.epoch, *position])).collect()
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
        if to.speaks_rows() {
            let reply = self.ask(to, "seal", rows::of_numbers(&[to.epoch])).await?;
            return reply.maximum().map_err(CallFailure::Failed);
        }
        let output = self.call(to, "seal", encode_epoch(to.epoch)).await?;
        decode_maximum(output).map_err(CallFailure::Failed)
    }

    pub async fn max_position(&self, to: Addressed<'_>) -> CallResult<Option<u64>> {
        if to.speaks_rows() {
            let reply = self.ask(to, "max_position", rows::of_maximum()).await?;
            return reply.maximum().map_err(CallFailure::Failed);
        }
        let output = self.call(to, "max_position", Bytes::new()).await?;
        decode_maximum(output).map_err(CallFailure::Failed)
    }

    /// Writes; answers a status an entry.
    pub async fn write(
        &self,
        to: Addressed<'_>,
        entries: impl ExactSizeIterator<Item = (u64, &Bytes)> + Clone + Send,
    ) -> CallResult<Vec<Status>> {
        let count = entries.len();
        if to.speaks_rows() {
            let requests =
                entries.map(|(position, data)| rows::of_write(to.epoch, position, data)).collect();
            return self.change_each(to, "write.batch", requests).await;
        }
        let output = self.call(to, "write_batch", encode_write_batch(to.epoch, entries)).await?;
        decode_statuses(output, count).map_err(CallFailure::Failed)
    }

    /// Fills; answers a status a position.
    pub async fn fill(&self, to: Addressed<'_>, positions: &[u64]) -> CallResult<Vec<Status>> {
        if to.speaks_rows() {
            return self.change_each(to, "fill.batch", to.requests(positions)).await;
        }
        let output = self.call(to, "fill_batch", encode_fill_batch(to.epoch, positions)).await?;
        decode_statuses(output, positions.len()).map_err(CallFailure::Failed)
    }

    /// Reads; answers the states of the first positions, at least one, as far as the limit goes.
    pub async fn read(
        &self,
        to: Addressed<'_>,
        byte_limit: u32,
        positions: &[u64],
    ) -> CallResult<Vec<EntryState>> {
        if to.speaks_rows() {
            let requests = to.requests(positions);
            let answers = self.ask_each(to, "read.batch", byte_limit, requests).await?;
            let states: Result<_> = answers.into_iter().map(rows::entry_of).collect();
            return states.map_err(CallFailure::Failed);
        }
        let input = encode_read_batch(to.epoch, byte_limit, positions);
        let output = self.call(to, "read_batch", input).await?;
        decode_states(output, positions.len()).map_err(CallFailure::Failed)
    }

    pub async fn trim(&self, to: Addressed<'_>, position: u64) -> CallResult<()> {
        if to.speaks_rows() {
            return self.ask(to, "trim", rows::of_numbers(&[to.epoch, position])).await.map(drop);
        }
        self.call(to, "trim", encode_position(to.epoch, position)).await.map(drop)
    }

    /// Trims everything up to a position; answers whether entries are left to be reclaimed.
    pub async fn trim_to(&self, to: Addressed<'_>, position: u64) -> CallResult<bool> {
        if to.speaks_rows() {
            let reply = self.ask(to, "trim_to", rows::of_numbers(&[to.epoch, position])).await?;
            return Ok(reply.has_left());
        }
        let output = self.call(to, "trim_to", encode_position(to.epoch, position)).await?;
        Ok(output.first().is_some_and(|left| *left != 0))
    }

    /// Asks a Brados class; a negative status is a failure.
    async fn ask(
        &self,
        to: Addressed<'_>,
        method: &'static str,
        request: Vec<u8>,
    ) -> CallResult<rows::Reply> {
        let output = self.call(to, method, request.into()).await?;
        let reply = rows::Reply::decode(&output).map_err(CallFailure::Failed)?;
        let status = reply.status().map_err(CallFailure::Failed)?;
        refuse(to, method, status).map(|()| reply)
    }

    /// Asks a Brados class for many changes; answers a status each.
    async fn change_each(
        &self,
        to: Addressed<'_>,
        method: &'static str,
        requests: Vec<Vec<u8>>,
    ) -> CallResult<Vec<Status>> {
        let count = requests.len();
        let answers = self.ask_each(to, method, u32::MAX, requests).await?;
        let statuses: Result<Vec<_>> = answers.iter().map(rows::status_of).collect();
        match statuses.map_err(CallFailure::Failed)? {
            statuses if statuses.len() == count => Ok(statuses),
            few => {
                let text = format!("the class answered {} of {count} requests", few.len());
                Err(CallFailure::Failed(Error::corrupt(text).on(to.object)))
            }
        }
    }

    /// Many requests as one call. They share their epoch, so what is wrong with that is wrong with all.
    async fn ask_each(
        &self,
        to: Addressed<'_>,
        method: &'static str,
        byte_limit: u32,
        requests: Vec<Vec<u8>>,
    ) -> CallResult<Vec<CallReply>> {
        let output = self.call(to, method, encode_batch(byte_limit, &requests)).await?;
        let answers = decode_answers(output, requests.len()).map_err(CallFailure::Failed)?;
        let first = answers.first().map_or(Ok(0), rows::status_of).map_err(CallFailure::Failed)?;
        match first {
            ESPIPE | ENOENT => refuse(to, method, first).map(|()| answers),
            _ => Ok(answers),
        }
    }

    /// Ends an object for good: it refuses every epoch from now on and keeps no entry up to
    /// `position`, its last one. Its header stays, for a late seal would otherwise bring the object
    /// to life again, empty, and a late write would be accepted once more.
    pub async fn bury(&self, to: Addressed<'_>, position: u64) -> CallResult<()> {
        let to = Addressed { epoch: LAST_EPOCH, ..to };
        match self.seal(to).await {
            // It was buried before.
            Ok(_) | Err(CallFailure::Stale) => {}
            Err(failure) => return Err(failure),
        }
        while self.trim_to(to, position).await? {}
        Ok(())
    }

    async fn call(
        &self,
        to: Addressed<'_>,
        method: &'static str,
        input: Bytes,
    ) -> CallResult<Bytes> {
        let deadline = Instant::now() + self.patience;
        let mut backoff = Backoff::new();
        loop {
            let call = ClassCall {
                class: to.class.clone(),
                method: MethodName::new(method).expect("a literal"),
                version: self.versions.version(to.class),
                input: input.clone(),
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
                    // The caller was behind, or it is the node, which needs a moment.
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
            CallFailure::Failed(Error::corrupt("the store answered nothing").on(object))
        })
    }
}

/// Fails as a class that returns its statuses would.
fn refuse(to: Addressed<'_>, method: &str, status: Status) -> CallResult<()> {
    match status {
        0.. => Ok(()),
        ESPIPE => Err(CallFailure::Stale),
        ENOENT => Err(CallFailure::Unsealed),
        status => {
            let text = format!("{method:?} replied {status}");
            Err(CallFailure::Failed(Error::from_status(status, text).on(to.object)))
        }
    }
}

/// A `Stale` of the class, not of the object: the call carried another version than the live one.
fn is_other_version(error: &Error) -> bool {
    error.kind() == ErrorKind::Stale && !error.has_own_status()
}

fn classify(error: Error) -> CallFailure {
    match (error.has_own_status().then(|| error.status()), error.kind()) {
        (Some(ESPIPE), _) => CallFailure::Stale,
        (Some(ENOENT), _) => CallFailure::Unsealed,
        // A program can only return EIO; had it failed itself there would be a line.
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
