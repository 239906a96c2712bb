//! Joins the replies to the pieces of one request.

use bytes::BytesMut;
use nacre_object::limits::MAX_REPLY_BYTES;
use nacre_object::{Error, ErrorKind, Op, OpResult, Reply, Result};

use super::{Piece, PieceOps};
use crate::model::Span;

/// The reply to one piece.
pub type PieceReply = Result<Reply>;

/// Joins the replies to the pieces of a plan into one reply. `replies` has the same order as
/// `pieces`. The version of the result is the largest version of a piece.
///
/// A read ends where the data of the last piece that has data ends. Bytes that earlier pieces lack
/// read as zeros, like gaps in an object. If the object of a piece does not exist, the piece counts
/// as empty. If none of the objects exists, the result is `NotFound`.
///
/// # Errors
/// The first error of a piece. If other pieces of a write succeeded, the error is `Unavailable`,
/// because a part of the write is done.
pub fn join(pieces: &[Piece], replies: Vec<PieceReply>) -> Result<Reply> {
    let is_read =
        matches!(pieces.first().map(|piece| &piece.ops), Some(PieceOps::Part(Op::Read { .. })));
    if pieces.len() <= 1 || replies.len() != pieces.len() {
        let missing = || {
            Err(Error::unavailable("a piece of the request has no reply")
                .hint("send the request again"))
        };
        return match replies.len() == pieces.len() {
            true => replies.into_iter().next().unwrap_or_else(missing),
            false => missing(),
        };
    }
    match is_read {
        true => join_reads(pieces, replies),
        false => join_writes(replies),
    }
}

fn join_reads(pieces: &[Piece], replies: Vec<PieceReply>) -> Result<Reply> {
    let first = pieces.first().and_then(|piece| piece.span).map_or(0, Span::start);
    let (mut stream, mut version, mut absent) = (BytesMut::new(), 0, None);
    for (piece, reply) in pieces.iter().zip(replies) {
        let reply = match reply {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                absent = absent.or(Some(error));
                continue;
            }
            reply => reply?,
        };
        version = version.max(reply.version);
        let Some(OpResult::Data(data)) = reply.results.into_iter().next() else {
            return Err(Error::corrupt("the reply to a piece of a read has no data")
                .hint("read again; if it fails again, report a bug of nacre"));
        };
        let offset = piece.span.map_or(0, |span| span.start() - first);
        if !data.is_empty() {
            let offset = usize::try_from(offset).unwrap_or(usize::MAX);
            if offset.saturating_add(data.len()) > MAX_REPLY_BYTES {
                return Err(Error::exhausted(format!(
                    "the reply would have more than {MAX_REPLY_BYTES} bytes"
                ))
                .hint("ask for fewer bytes at once"));
            }
            stream.resize(offset, 0);
            stream.extend_from_slice(&data);
        }
    }
    match (version, absent) {
        (0, Some(error)) => Err(error),
        _ => Ok(Reply { version, results: vec![OpResult::Data(stream.freeze())] }),
    }
}

fn join_writes(replies: Vec<PieceReply>) -> Result<Reply> {
    let count = replies.len();
    let (mut done, mut version, mut failed) = (0, 0, None);
    for reply in replies {
        match reply {
            Ok(reply) => {
                done += 1;
                version = version.max(reply.version);
            }
            Err(error) => failed = failed.or(Some(error)),
        }
    }
    match failed {
        None => Ok(Reply { version, results: vec![OpResult::Done] }),
        Some(error) if done == 0 => Err(error),
        Some(error) => Err(Error::unavailable(format!(
            "{done} of {count} pieces of the write are done, and one failed: {error}"
        ))
        .hint("send the whole write again")),
    }
}
