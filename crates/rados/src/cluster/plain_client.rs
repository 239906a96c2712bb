//! A RADOS client without nacre, for comparison in tests and benchmarks.

use std::ffi::CStr;
use std::sync::Arc;

use bytes::Bytes;
use nacre_object::{Error, Result};

use crate::classes::stock_call::eval;
use crate::cluster::failure::operation_failed;
use crate::ffi::{Answer, Call, Change, IoContext};
use crate::{RadosOptions, cluster::connection};

/// The answer of a method of an object class.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlainAnswer {
    /// The operation's status: zero or positive, or a negated errno.
    pub status: i32,
    /// The method's output, if it succeeded.
    pub output: Bytes,
    /// The object's version in RADOS.
    pub version: u64,
}

/// A connection with a namespace of a pool. Every method is one operation.
#[derive(Debug, Clone)]
pub struct PlainClient {
    context: Arc<IoContext>,
}

impl PlainClient {
    /// Connects.
    ///
    /// # Errors
    /// Those of [`crate::RadosEngine::connect`].
    pub async fn connect(options: RadosOptions, namespace: &str) -> Result<Self> {
        let namespace = namespace.to_owned();
        let connecting = tokio::task::spawn_blocking(move || {
            connection::open(&connection::connect(&options)?, &options, &namespace)
        });
        let context = connecting.await;
        let cut_off = |error| {
            Error::unavailable(format!("the operation was interrupted: {error}")).hint("try again")
        };
        Ok(Self { context: context.map_err(cut_off)?? })
    }

    /// `rados_aio_append`.
    ///
    /// # Errors
    /// Those of the cluster.
    pub async fn append(&self, object: &str, data: Bytes) -> Result<()> {
        settled(self.context.append(object, data).await.status)
    }

    /// Replaces an object's bytes.
    ///
    /// # Errors
    /// Those of the cluster.
    pub async fn write_full(&self, object: &str, data: Bytes) -> Result<()> {
        settled(self.context.apply(object, &[Change::WriteFull(data)]).await.status)
    }

    /// Sets an omap entry.
    ///
    /// # Errors
    /// Those of the cluster.
    pub async fn set_key(&self, object: &str, key: &str, value: Bytes) -> Result<()> {
        let change = Change::SetKeys(vec![(Bytes::copy_from_slice(key.as_bytes()), value)]);
        settled(self.context.apply(object, &[change]).await.status)
    }

    /// Sets an xattr.
    ///
    /// # Errors
    /// Those of the cluster.
    pub async fn set_attribute(&self, object: &str, name: &str, value: Bytes) -> Result<()> {
        let change = Change::SetAttribute { name: name.to_owned(), value };
        settled(self.context.apply(object, &[change]).await.status)
    }

    /// Sets an omap entry, but only if an xattr has the given value.
    ///
    /// # Errors
    /// The errors of the cluster; `Conflict` or a similar kind if the xattr differs.
    pub async fn set_key_if(
        &self,
        object: &str,
        (name, is): (&str, Bytes),
        (key, value): (&str, Bytes),
    ) -> Result<()> {
        let guard = Change::AssertAttribute { name: name.to_owned(), value: is };
        let change = Change::SetKeys(vec![(Bytes::copy_from_slice(key.as_bytes()), value)]);
        settled(self.context.apply(object, &[guard, change]).await.status)
    }

    /// Calls a method that may write. Returns the answer and the status of RADOS, even if the call
    /// failed.
    ///
    /// # Errors
    /// `Unavailable` once the client is closed.
    pub async fn submit(
        &self,
        object: &str,
        class: &'static CStr,
        method: &'static CStr,
        input: impl Into<Bytes>,
    ) -> Result<PlainAnswer> {
        let input = input.into();
        self.call(object, Call { class, method, input, writes: true, asks_existence: false }).await
    }

    /// Calls a method that only reads.
    ///
    /// # Errors
    /// As [`Self::submit`].
    pub async fn inspect(
        &self,
        object: &str,
        class: &'static CStr,
        method: &'static CStr,
        input: impl Into<Bytes>,
    ) -> Result<PlainAnswer> {
        let input = input.into();
        self.call(object, Call { class, method, input, writes: false, asks_existence: false }).await
    }

    /// Runs a script in Ceph's object class `lua`. Returns the output of the script.
    ///
    /// # Errors
    /// The errors of the cluster and of the script.
    pub async fn eval(
        &self,
        object: &str,
        script: &str,
        handler: &str,
        input: &[u8],
    ) -> Result<Bytes> {
        let answer = self.call(object, eval(script, handler, input)).await?;
        settled(answer.status).map(|()| answer.output)
    }

    async fn call(&self, object: &str, call: Call) -> Result<PlainAnswer> {
        let (Answer { status, version }, called) = self.context.call(object, &call).await;
        let output = called.map(|called| called.output).unwrap_or_default();
        Ok(PlainAnswer { status, output, version })
    }
}

fn settled(status: i32) -> Result<()> {
    if status < 0 { Err(operation_failed(status)) } else { Ok(()) }
}
