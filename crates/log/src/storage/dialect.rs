//! The dialects of the storage interface: how to encode calls of a class and decode its answers.
//!
//! A dialect does no IO; [`super::StorageClient`] makes the calls. There are two: [`Packed`], for
//! the native class and the Lua program, and [`Rows`], for a Brados program.

use std::fmt;

use bytes::Bytes;
use nacre_object::{ClassName, Error, Result, Status};

use super::entry::EntryState;
use super::packed::Packed;
use super::rows::Rows;
use super::speaks_rows;

/// A method, and its input.
#[derive(Debug)]
pub(crate) struct Ask {
    pub method: &'static str,
    pub input: Bytes,
}

/// Why a call on an object failed.
#[derive(Debug)]
pub(crate) enum CallFailure {
    /// The epoch is older than the object's.
    Stale,
    /// The object does not exist.
    Unsealed,
    /// No answer came, so the operation may have happened.
    NoAnswer(Error),
    /// The operation did not happen, and a repetition would fail too.
    Failed(Error),
}

impl CallFailure {
    /// The error of a call on `object` that is not tried again.
    pub fn into_error(self, object: impl fmt::Display) -> Error {
        match self {
            Self::NoAnswer(error) | Self::Failed(error) => error,
            Self::Stale => {
                Error::unavailable("the log's view changed during the call").hint("try again")
            }
            Self::Unsealed => Error::corrupt(format!("the log's object {object} is missing"))
                .hint("`nacre scrub` says what is damaged"),
        }
    }
}

impl From<Error> for CallFailure {
    /// An answer that makes no sense.
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

pub(crate) type CallResult<T> = Result<T, CallFailure>;

/// Encodes calls of the storage interface and decodes their answers. It gets only the answers of
/// calls that succeeded.
pub(crate) trait Dialect: Sync {
    /// The methods that a class of this dialect must have.
    fn methods(&self) -> &'static [&'static str];

    fn seal(&self, epoch: u64) -> Ask;
    fn max_position(&self) -> Ask;
    fn write(&self, epoch: u64, entries: &[(u64, &Bytes)]) -> Ask;
    fn fill(&self, epoch: u64, positions: &[u64]) -> Ask;
    fn read(&self, epoch: u64, byte_limit: u32, positions: &[u64]) -> Ask;
    fn trim(&self, epoch: u64, position: u64) -> Ask;
    fn trim_to(&self, epoch: u64, position: u64) -> Ask;

    /// Decodes an answer of `seal` or `max_position`: the maximum position, `None` if there is
    /// none.
    fn maximum(&self, answer: Bytes) -> CallResult<Option<u64>>;
    /// Decodes an answer of `write` or `fill`: a status for each of `asked`.
    fn statuses(&self, answer: Bytes, asked: usize) -> CallResult<Vec<Status>>;
    /// Decodes an answer of `read`: the states of the first of `asked` positions, at least one.
    fn states(&self, answer: Bytes, asked: usize) -> CallResult<Vec<EntryState>>;
    /// Decodes an answer of `trim`.
    fn trimmed(&self, answer: Bytes) -> CallResult<()>;
    /// Decodes an answer of `trim_to`: whether entries are left to be reclaimed.
    fn has_left(&self, answer: Bytes) -> CallResult<bool>;
}

/// The methods that a class of this name must have, so that it can store logs.
pub fn storage_methods(class: &ClassName) -> &'static [&'static str] {
    of(class).methods()
}

/// The dialect of a class.
pub(crate) fn of(class: &ClassName) -> &'static dyn Dialect {
    if speaks_rows(class) { &Rows } else { &Packed }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_calls_exactly_the_methods_that_its_class_must_have() {
        let data = Bytes::new();
        for name in ["log", "log_brados"] {
            let class = ClassName::new(name).unwrap();
            let dialect = of(&class);
            let asks = [
                dialect.seal(1),
                dialect.max_position(),
                dialect.write(1, &[(0, &data)]),
                dialect.fill(1, &[0]),
                dialect.read(1, 1, &[0]),
                dialect.trim(1, 0),
                dialect.trim_to(1, 0),
            ];
            // A Brados class has a second method for batches, which takes many requests in one
            // call.
            let mut asked = asks.map(|ask| ask.method.trim_end_matches(".batch"));
            let mut needed = storage_methods(&class).to_vec();
            asked.sort_unstable();
            needed.sort_unstable();
            assert_eq!(asked[..], needed, "{name}");
        }
    }
}
