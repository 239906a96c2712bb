//! Puts a byte stream of any size, in as many requests as needed.
//!
//! - Content that fits into one request is one transaction.
//! - Larger content goes part by part to a *staging object* beside the object (see [`Staging`]).
//!   Then one transaction gives the object the stream of the staging object. So a reader finds the
//!   old or the new content, and an interrupted put changes nothing.
//! - In a store that cannot copy streams, such as Ceph, the parts go to the object itself. A reader
//!   may then read an incomplete stream. An interrupted put leaves an incomplete stream, and its
//!   error says so.

use bytes::{Bytes, BytesMut};
use futures::stream::Fuse;
use futures::{Stream, StreamExt};
use nacre_object::limits::{MAX_OBJECT_BYTES, MAX_REQUEST_BYTES};
use nacre_object::{Error, ErrorKind, Op, Result};

use crate::Object;
use crate::staging::Staging;

/// How many bytes each request after the first carries. A put holds this many in memory.
const PART_BYTES: usize = 4 * 1024 * 1024;
const _: () = assert!(MAX_REQUEST_BYTES <= 2 * PART_BYTES, "the rest of a first part is a part");

impl Object {
    /// Replaces the whole byte stream by `content`, which may come in pieces of any size. Holds at
    /// most a few MiB of it in memory. The map and the attributes stay.
    ///
    /// # Errors
    /// The first error of the content; `Exhausted` if the content is larger than an object can be;
    /// `Conflict` if another put of this object began meanwhile. After an error the object is
    /// unchanged, with two exceptions: after `Unavailable` the put may have happened; and in a
    /// store that cannot copy streams, the parts that were written stay.
    pub async fn put<S>(&self, content: S) -> Result<()>
    where
        S: Stream<Item = Result<Bytes>> + Send + Unpin,
    {
        let mut parts = Parts::of(content);
        let first = parts.next(MAX_REQUEST_BYTES).await.map_err(unchanged)?;
        if parts.is_at_end().await.map_err(unchanged)? {
            return self.write_full(first).await;
        }
        match Staging::begin(self, first.clone()).await {
            Err(error) if error.kind() == ErrorKind::Unsupported => {
                self.put_in_place(first, parts).await
            }
            staging => {
                drop(first);
                put_staged(staging?, parts).await
            }
        }
    }

    /// Writes the parts into the object itself. Each write is guarded by the version of the
    /// previous one. All parts leave room for what a node may add to a request.
    async fn put_in_place<S>(&self, mut first: Bytes, mut parts: Parts<S>) -> Result<()>
    where
        S: Stream<Item = Result<Bytes>> + Send + Unpin,
    {
        let mut ahead = first.split_off(PART_BYTES.min(first.len()));
        let mut offset = first.len() as u64;
        let mut version = self.submit(vec![Op::WriteFull { data: first }]).await?.version;
        loop {
            let part = match ahead.is_empty() {
                true => parts.next(PART_BYTES).await.map_err(|error| self.cut(error, offset))?,
                false => std::mem::take(&mut ahead),
            };
            if part.is_empty() {
                return Ok(());
            }
            let length = part.len() as u64;
            let ops = vec![Op::AssertVersion(version), Op::Write { offset, data: part }];
            let reply = self.submit(ops).await.map_err(|error| self.cut(error, offset))?;
            version = reply.version;
            offset += length;
        }
    }

    /// The error of a put that ended after so many bytes.
    fn cut(&self, error: Error, bytes: u64) -> Error {
        let state = format!("{} holds only the first {bytes} bytes of the new content", self.id());
        error.hint(format!("{state}: put it again"))
    }
}

async fn put_staged<S>(mut staging: Staging<'_>, parts: Parts<S>) -> Result<()>
where
    S: Stream<Item = Result<Bytes>> + Send + Unpin,
{
    let outcome = match fill(&mut staging, parts).await {
        Ok(()) => staging.take_over().await,
        Err(error) => Err(unchanged(error)),
    };
    staging.remove().await;
    outcome
}

async fn fill<S>(staging: &mut Staging<'_>, mut parts: Parts<S>) -> Result<()>
where
    S: Stream<Item = Result<Bytes>> + Send + Unpin,
{
    loop {
        let data = parts.next(PART_BYTES).await?;
        if data.is_empty() {
            return Ok(());
        }
        staging.append(data).await?;
    }
}

/// Adds to an error that the put has not changed the object.
fn unchanged(error: Error) -> Error {
    match error.hint_text() {
        Some(_) => error,
        None => error.hint("the object holds what it held before"),
    }
}

/// The content, cut into parts of equal size.
struct Parts<S> {
    content: Fuse<S>,
    /// Content that was received but not returned yet.
    ahead: Bytes,
    /// How many bytes were returned.
    total: u64,
}

impl<S: Stream<Item = Result<Bytes>> + Unpin> Parts<S> {
    fn of(content: S) -> Self {
        Self { content: content.fuse(), ahead: Bytes::new(), total: 0 }
    }

    /// Returns the next part. It has `size` bytes, or fewer if it is the last part, or none at the
    /// end.
    ///
    /// # Errors
    /// Those of the content; `Exhausted` if it is too large for an object.
    async fn next(&mut self, size: usize) -> Result<Bytes> {
        let mut part = BytesMut::new();
        while part.len() < size && !self.is_at_end().await? {
            let taken = self.ahead.len().min(size - part.len());
            part.extend_from_slice(&self.ahead.split_to(taken));
        }
        self.total += part.len() as u64;
        if self.total > MAX_OBJECT_BYTES {
            return Err(too_large());
        }
        Ok(part.freeze())
    }

    /// Whether there is no more; waits until that is known.
    async fn is_at_end(&mut self) -> Result<bool> {
        while self.ahead.is_empty() {
            match self.content.next().await {
                Some(data) => self.ahead = data?,
                None => return Ok(true),
            }
        }
        Ok(false)
    }
}

fn too_large() -> Error {
    Error::exhausted(format!("the content has more than {MAX_OBJECT_BYTES} bytes, the most one object holds"))
        .during("put")
        .hint(format!(
            "cut it with `split --bytes={MAX_OBJECT_BYTES} FILE PIECE.` and put each piece into an object of its own"
        ))
}
