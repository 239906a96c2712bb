//! `Live`: an IO that the switch of a node has taken and not answered yet.

use std::sync::Arc;

use bytes::BytesMut;
use nacre_object::{Error, Op, OpResult, Reply, Request, Result, Stack};
use nacre_route::{Piece, PieceReply, join};
use tokio::sync::oneshot;

/// An IO in flight or held.
pub(super) struct Live {
    pub request: Arc<Request>,
    pub next: Stack,
    pub reply: oneshot::Sender<Result<Reply>>,
    pub pieces: Vec<Option<(Piece, Option<PieceReply>)>>,
    /// The end of the last byte that lies elsewhere. The stream is at least as long.
    pub routed_end: u64,
    /// How many waypoints it has passed.
    pub passed: usize,
}

impl Live {
    /// Joins the replies of the pieces to the reply of the IO.
    ///
    /// # Errors
    /// `Unavailable` if a piece has no reply; the errors of pieces.
    pub fn joined(&self) -> Result<Reply> {
        let missing = || {
            Error::unavailable("a piece of the request has no reply").hint("send the request again")
        };
        let (mut pieces, mut replies) = (vec![], vec![]);
        for part in &self.pieces {
            let Some((piece, Some(reply))) = part else { return Err(missing()) };
            pieces.push(piece.clone());
            replies.push(reply.clone());
        }
        let mut reply = join(&pieces, replies)?;
        if let ([Op::Read { offset, length }], Some(OpResult::Data(data))) =
            (self.request.ops.as_slice(), reply.results.first_mut())
        {
            // A gap before bytes that lie elsewhere reads as zeros.
            let end = offset.saturating_add(*length).min(self.routed_end);
            let wanted = end.saturating_sub(*offset) as usize;
            if data.len() < wanted {
                let mut padded = BytesMut::from(&data[..]);
                padded.resize(wanted, 0);
                *data = padded.freeze();
            }
        }
        Ok(reply)
    }
}
