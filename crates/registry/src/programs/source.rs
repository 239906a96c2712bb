//! Sources: immutable objects named by their digest.

use bytes::Bytes;
use nacre_object::{Error, ErrorKind, ObjectId, Op, OpResult, Result};
use nacre_program::{Digest, MAX_SOURCE_BYTES};

use crate::system::{System, system_object};

/// The source of one version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramSource {
    /// The version.
    pub version: u64,
    /// The digest of the source.
    pub digest: Digest,
    /// The source.
    pub source: String,
}

/// Sources' objects are named so.
pub(crate) const SOURCE_OBJECT_PREFIX: &str = "program/";

/// The object of a source.
pub(super) fn object(digest: &Digest) -> ObjectId {
    system_object(&format!("{SOURCE_OBJECT_PREFIX}{digest}"))
}

/// Stores a source. Storing the same source again changes only the version of its object.
pub(super) async fn store_source(system: &System, source: &str) -> Result<Digest> {
    let digest = Digest::of(source);
    let data = Bytes::copy_from_slice(source.as_bytes());
    system.submit(&object(&digest), vec![Op::WriteFull { data }]).await?;
    Ok(digest)
}

/// What to do if a stored source is lost or damaged.
const PUT_AGAIN: &str = "put the same source again";

/// Reads a source and checks that it has this digest.
///
/// # Errors
/// `NotFound`; `Corrupt` if the stored source has another digest; `Unavailable`.
pub(crate) async fn fetch_source(system: &System, digest: &Digest) -> Result<String> {
    let id = object(digest);
    // Read one byte more than a source may have, to notice an object that is too long.
    let read = Op::Read { offset: 0, length: MAX_SOURCE_BYTES as u64 + 1 };
    let results = system.submit(&id, vec![read]).await.map_err(|error| match error.kind() {
        ErrorKind::NotFound => Error::not_found("the source is lost: its object no longer exists")
            .on(&id)
            .hint(PUT_AGAIN),
        _ => error,
    })?;
    let Some(OpResult::Data(data)) = results.into_iter().next() else {
        return Err(Error::corrupt("the store did not answer a read with bytes").on(id));
    };
    let source = String::from_utf8(data.to_vec())
        .map_err(|_| Error::corrupt("the stored source is not UTF-8").on(&id).hint(PUT_AGAIN))?;
    if Digest::of(&source) != *digest {
        let text = "the stored source is damaged: it does not have its digest";
        return Err(Error::corrupt(text).on(id).hint(PUT_AGAIN));
    }
    Ok(source)
}
