//! `Administrator`: sends commands to the monitors of a Ceph cluster, and reads and writes small
//! objects in any of its pools.
//!
//! nacre's commands that manage Ceph itself use it. Nothing reads or writes nacre's own data
//! through it.

use std::sync::Arc;

use bytes::Bytes;
use nacre_object::{Error, Result};
use serde_json::Value;

use crate::cluster::failure::{operation_failed, status};
use crate::ffi::{Change, Cluster, Fetch, Fetched, IoContext, Refusal};
use crate::{RadosOptions, cluster::connection};

/// A connection with a Ceph cluster, for its administrator.
#[derive(Debug, Clone)]
pub struct Administrator {
    cluster: Arc<Cluster>,
    options: RadosOptions,
}

impl Administrator {
    /// Connects to the cluster. The pool in the options need not exist.
    ///
    /// # Errors
    /// Those of [`crate::RadosEngine::connect`].
    pub async fn connect(options: RadosOptions) -> Result<Self> {
        blocking(move || Ok(Self { cluster: connection::connect(&options)?, options })).await
    }

    /// Sends a command to the monitors, such as `{"prefix": "fs ls"}`. Returns the JSON document
    /// that they answer, or null.
    ///
    /// # Errors
    /// `Denied`, `NotFound` or `Invalid` with the monitors' message if they refuse the command;
    /// `Unavailable` if they do not answer.
    pub async fn ask(&self, mut command: Value) -> Result<Value> {
        command["format"] = "json".into();
        let cluster = Arc::clone(&self.cluster);
        let text = command.to_string();
        let refused = move |refusal| refused(&command, refusal);
        let answer = blocking(move || cluster.ask_for_reason(&text).map_err(refused)).await?;
        if answer.iter().all(u8::is_ascii_whitespace) {
            return Ok(Value::Null);
        }
        serde_json::from_slice(&answer).map_err(|error| {
            Error::corrupt(format!("the monitors' answer is not JSON: {error}"))
                .hint("check the cluster with `nacre ceph check`")
        })
    }

    /// Sends a command to an OSD. Returns the JSON document that it answers.
    ///
    /// # Errors
    /// `Denied` if the user may not ask the OSD; `Unavailable` if the OSD does not answer.
    pub(crate) async fn ask_osd(&self, osd: i32, mut command: Value) -> Result<Value> {
        command["format"] = "json".into();
        let (cluster, text) = (Arc::clone(&self.cluster), command.to_string());
        let asking = move || cluster.ask_osd(osd, &text).map_err(operation_failed);
        let answer = blocking(asking).await?;
        serde_json::from_slice(&answer).map_err(|error| {
            Error::corrupt(format!("the answer of osd.{osd} is not JSON: {error}"))
                .hint("check the cluster with `nacre ceph check`")
        })
    }

    /// The objects of a pool that are in no namespace.
    ///
    /// # Errors
    /// `NotFound` if there is no such pool.
    pub async fn pool(&self, name: &str) -> Result<PoolObjects> {
        let options = RadosOptions { pool: name.to_owned(), ..self.options.clone() };
        let cluster = Arc::clone(&self.cluster);
        let context = blocking(move || connection::open(&cluster, &options, "")).await?;
        Ok(PoolObjects::of(context))
    }
}

fn refused(command: &Value, refusal: Refusal) -> Error {
    let said = format!("ceph {}: {}", command["prefix"].as_str().unwrap_or_default(), refusal.text);
    match refusal.status.saturating_neg() {
        _ if refusal.text.is_empty() => operation_failed(refusal.status),
        1 | 13 => Error::denied(said),
        2 => Error::not_found(said),
        22 => Error::invalid(said),
        _ => Error::unavailable(said),
    }
}

async fn blocking<R: Send + 'static>(
    work: impl FnOnce() -> Result<R> + Send + 'static,
) -> Result<R> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| {
        Err(Error::unavailable(format!("the operation was interrupted: {error}")).hint("try again"))
    })
}

/// The condition for a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected {
    /// Nothing.
    Anything,
    /// It does not exist.
    Absent,
    /// It has this version.
    Version(u64),
}

/// The objects of a pool.
#[derive(Debug, Clone)]
pub struct PoolObjects {
    context: Arc<IoContext>,
}

impl PoolObjects {
    /// The objects of a namespace.
    pub(crate) fn of(context: Arc<IoContext>) -> Self {
        Self { context }
    }

    /// The first `limit` bytes of an object and its version; `None` if there is no such object.
    ///
    /// # Errors
    /// The errors of the cluster.
    pub async fn read(&self, object: &str, limit: usize) -> Result<Option<(Bytes, u64)>> {
        let fetch = Fetch::Data { offset: 0, length: limit.max(1) };
        let (answer, fetched) = self.context.fetch(object, None, vec![fetch]).await;
        match (answer.status, fetched.into_iter().next()) {
            (status::ABSENT, _) => Ok(None),
            (status, _) if status < 0 => Err(operation_failed(status).on(object)),
            (_, Some(Fetched::Data(data))) => Ok(Some((data, answer.version))),
            _ => Err(operation_failed(status::BROKEN).on(object)),
        }
    }

    /// Replaces the content of an object, or creates the object.
    ///
    /// # Errors
    /// `Conflict` if the object differs from `expected`; the errors of the cluster.
    pub async fn write(&self, object: &str, expected: Expected, content: Bytes) -> Result<()> {
        let write = Change::WriteFull(content);
        let changes = match expected {
            Expected::Anything => vec![write],
            Expected::Absent => vec![Change::CreateExclusive, write],
            Expected::Version(version) => vec![Change::AssertVersion(version), write],
        };
        match self.context.apply(object, &changes).await.status {
            status::PRESENT | status::NEWER | status::OLDER => {
                Err(Error::conflict("another client changed the object at the same time")
                    .on(object)
                    .hint("read it again, and try again"))
            }
            status if status < 0 => Err(operation_failed(status).on(object)),
            _ => Ok(()),
        }
    }

    /// Removes an object, whether it exists or not.
    ///
    /// # Errors
    /// Those of the cluster.
    pub async fn remove(&self, object: &str) -> Result<()> {
        match self.context.apply(object, &[Change::Remove]).await.status {
            failed if failed < 0 && failed != status::ABSENT => {
                Err(operation_failed(failed).on(object))
            }
            _ => Ok(()),
        }
    }
}
