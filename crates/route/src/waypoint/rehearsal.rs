//! The dry run of a waypoint: it encodes samples, and prices made-up IO.

use nacre_object::limits::MAX_OBJECT_BYTES;
use nacre_object::{EntityName, Result, TenantName};

use super::WaypointProgram;
use super::interface::{DECODE, ENCODE};
use crate::model::{Io, Operation, Span};

/// The bytes of a sample. They cover every value of a byte, and positions up to twice that.
const SAMPLE_BYTES: usize = 521;
/// Where samples are encoded: at the start, around powers of two, and at the end of the largest
/// object.
const OFFSETS: [u64; 7] =
    [0, 1, 255, 4095, 65_536, (1 << 24) + 3, MAX_OBJECT_BYTES - SAMPLE_BYTES as u64];
/// Where a sample is split into two.
const CUTS: [usize; 4] = [1, 7, 256, SAMPLE_BYTES - 1];

impl WaypointProgram {
    /// Tries the program.
    ///
    /// # Errors
    /// Those of the program; `Fault` if decoding does not undo encoding, or if the bytes depend on
    /// how a range is divided.
    pub(super) fn rehearse(&self) -> Result<()> {
        if self.kind().encodes {
            for offset in OFFSETS {
                for sample in samples() {
                    self.rehearse_sample(offset, &sample)?;
                }
            }
        }
        if self.kind().holds {
            for operation in [Operation::Read, Operation::Write] {
                for span in [Span::new(0, 4096), Span::new(1 << 20, 3 << 20), Some(Span::WHOLE)] {
                    let io = Io {
                        source: EntityName::local(),
                        tenant: TenantName::standard(),
                        via: None,
                        operation,
                        object: "data/made-up".parse()?,
                        span,
                        home: None,
                    };
                    let bytes = span.filter(|span| *span != Span::WHOLE).map_or(0, Span::length);
                    self.price(&io, bytes)?;
                }
            }
        }
        Ok(())
    }

    fn rehearse_sample(&self, offset: u64, sample: &[u8]) -> Result<()> {
        let whole = self.encode(offset, sample)?;
        // Nothing that a client writes is lost, whatever bytes are stored: an engine may keep any.
        let decoded = self.decode(offset, sample)?;
        for cut in CUTS {
            let (first, rest) = sample.split_at(cut);
            let at = offset + cut as u64;
            let encoded = [self.encode(offset, first)?, self.encode(at, rest)?].concat();
            if encoded != whole {
                return Err(self.divided(ENCODE, offset, cut));
            }
            let parts = [self.decode(offset, first)?, self.decode(at, rest)?].concat();
            if parts != decoded {
                return Err(self.divided(DECODE, offset, cut));
            }
        }
        Ok(())
    }

    fn divided(&self, function: &str, offset: u64, cut: usize) -> nacre_object::Error {
        let text = format!(
            "`{function}` gives other bytes for {SAMPLE_BYTES} bytes at offset {offset} than for its first {cut} and the rest: each byte may depend only on its offset and value"
        );
        self.wrong(function, text)
    }
}

/// Zeros, all values in order, and values without an order.
fn samples() -> [Vec<u8>; 3] {
    let ordered = (0..SAMPLE_BYTES).map(|at| at as u8).collect();
    let mut state = 1_u32;
    let mixed = (0..SAMPLE_BYTES).map(|_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    });
    [vec![0; SAMPLE_BYTES], ordered, mixed.collect()]
}
