//! Reads pieces of payloads from the journal.
//!
//! A payload's checksum covers all of it, so even one piece takes a read of the whole payload. The
//! next piece is often from the same payload, so the reader keeps the last payload it read.

use nacre_object::Result;

use super::segment_table::SegmentTable;
use crate::entry::value::{PayloadAddress, Piece, Source};

/// Reads pieces; made for one read of an object.
pub(crate) struct PayloadReader<'a> {
    segments: &'a SegmentTable,
    /// The last payload of which only a part was asked for.
    last: Option<(PayloadAddress, Vec<u8>)>,
}

impl<'a> PayloadReader<'a> {
    pub fn new(segments: &'a SegmentTable) -> Self {
        Self { segments, last: None }
    }

    /// Copies the bytes of `pieces`, in order, into `out`, whose length must be the sum of theirs.
    ///
    /// # Errors
    /// `Corrupt` if a payload fails its checksum, or its file is missing.
    pub fn read_pieces(&mut self, pieces: &[Piece], mut out: &mut [u8]) -> Result<()> {
        for piece in pieces {
            let (part, after) = out.split_at_mut(piece.take as usize);
            self.read_piece(piece, part)?;
            out = after;
        }
        Ok(())
    }

    fn read_piece(&mut self, piece: &Piece, out: &mut [u8]) -> Result<()> {
        let (skip, take) = (piece.skip as usize, piece.take as usize);
        let part = skip..skip + take;
        match &piece.source {
            Source::Fresh(data) | Source::InBuilder(_, data) | Source::Unsynced(_, data) => {
                out.copy_from_slice(&data[part]);
            }
            Source::Stored(address) if piece.take == address.length => {
                self.segments.read_payload_into(address, out)?;
            }
            Source::Stored(address) => out.copy_from_slice(&self.whole(address)?[part]),
        }
        Ok(())
    }

    fn whole(&mut self, address: &PayloadAddress) -> Result<&[u8]> {
        if self.last.as_ref().is_none_or(|(last, _)| last != address) {
            let mut whole = self.last.take().map_or_else(Vec::new, |(_, buffer)| buffer);
            whole.resize(address.length as usize, 0);
            self.segments.read_payload_into(address, &mut whole)?;
            self.last = Some((*address, whole));
        }
        Ok(self.last.as_ref().map_or(&[], |(_, whole)| whole))
    }
}
