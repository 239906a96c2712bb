//! A network link. A request costs it a constant amount of work, plus some for each byte.

use nacre_object::{Error, Result};

use crate::IoKind;

/// The bytes of headers and frames in each message, independent of its contents.
const MESSAGE_BYTES: f64 = 200.0;
/// Bytes on the link for each byte of data: frames have headers of their own.
const BYTES_PER_DATA_BYTE: f64 = 1.1;
/// The bytes of an encoded message that [`MESSAGE_BYTES`] stands for: ids and names.
const ENVELOPE_BYTES: u64 = 128;
/// Bytes of acknowledgements in the other direction for each byte of data.
const BYTES_PER_ACKNOWLEDGED_BYTE: f64 = 0.025;

/// One direction of a link, as the client sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LinkDirection {
    /// From the client to the server: the data of writes.
    Out,
    /// From the server to the client: the data of reads.
    In,
}

/// A link that carries requests.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Link {
    bytes_per_second: f64,
}

impl Link {
    /// A link of 1 Gbit/s.
    pub const GIGABIT: Self = Self { bytes_per_second: 125e6 };

    /// A link of this speed.
    ///
    /// # Errors
    /// `Invalid` if the speed is not a positive number.
    pub fn new(bytes_per_second: f64) -> Result<Self> {
        if bytes_per_second.is_finite() && bytes_per_second > 0.0 {
            return Ok(Self { bytes_per_second });
        }
        Err(Error::invalid(format!(
            "the speed of the link, {bytes_per_second} bytes per second, is not positive"
        ))
        .hint("give a positive number of bytes per second"))
    }

    /// The speed.
    pub fn bytes_per_second(&self) -> f64 {
        self.bytes_per_second
    }

    /// The work of some encoded messages for the direction in which they are sent. If the names in
    /// the messages are of the usual length, it is at most the work of the requests that the
    /// messages carry.
    pub fn messages_seconds(&self, messages: u64, encoded_bytes: u64) -> f64 {
        let data = encoded_bytes.saturating_sub(messages.saturating_mul(ENVELOPE_BYTES));
        let bytes = MESSAGE_BYTES * messages as f64 + BYTES_PER_DATA_BYTE * data as f64;
        bytes / self.bytes_per_second
    }

    /// The work of one request for one direction of the link.
    pub fn work_seconds(&self, direction: LinkDirection, kind: IoKind, bytes: u64) -> f64 {
        let carries_data = matches!(
            (direction, kind),
            (LinkDirection::Out, IoKind::Write) | (LinkDirection::In, IoKind::Read)
        );
        let factor = if carries_data { BYTES_PER_DATA_BYTE } else { BYTES_PER_ACKNOWLEDGED_BYTE };
        (MESSAGE_BYTES + factor * bytes as f64) / self.bytes_per_second
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_loads_one_direction_of_a_link_and_acknowledgements_the_other() {
        let work = |direction, kind| Link::GIGABIT.work_seconds(direction, kind, 1000) * 125e6;
        assert_eq!(work(LinkDirection::Out, IoKind::Write), 1300.0);
        assert_eq!(work(LinkDirection::In, IoKind::Write), 225.0);
        assert_eq!(work(LinkDirection::In, IoKind::Read), 1300.0);
        assert_eq!(work(LinkDirection::Out, IoKind::Read), 225.0);
    }

    #[test]
    fn a_link_without_a_positive_speed_is_refused() {
        for speed in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(Link::new(speed).is_err(), "{speed}");
        }
        assert_eq!(Link::new(125e6).unwrap(), Link::GIGABIT);
    }
}
