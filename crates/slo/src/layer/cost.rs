//! Estimates how much work a request is, from its operations.

use nacre_object::limits::MAX_REPLY_BYTES;
use nacre_object::{Op, OpResult, Reply, Request};
use nacre_qos::IoKind;

/// The assumed size of a read of unknown length, until its reply arrives.
const UNKNOWN_BYTES: u64 = 64 * 1024;

/// What is known about the work of a request before it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cost {
    /// Whether it reads or writes the device.
    pub kind: IoKind,
    /// The bytes that it moves, as far as is known.
    pub bytes: u32,
    /// When its work is charged.
    pub charging: Charging,
}

/// When the work of a request is charged to its tenant, and how it is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Charging {
    /// Before the request runs, computed from the profile.
    Before,
    /// For a read of unknown length: when its reply arrives, computed from the profile.
    ByReply,
    /// When a method call is done. Its work is the time for which it kept the target busy, but at
    /// least the work that the profile predicts.
    ByTime,
    /// Like `ByTime`, but without the profile.
    ByTimeAlone,
}

impl Cost {
    /// Computes the cost from the operations of a request.
    pub fn of(request: &Request) -> Self {
        let mut bytes = request.payload_bytes() as u64;
        let mut charging = Charging::Before;
        for op in &request.ops {
            match op {
                Op::Call(_) => charging = Charging::ByTime,
                Op::Read { length, .. } if *length <= MAX_REPLY_BYTES as u64 => bytes += length,
                Op::Read { .. } | Op::MapGet { .. } | Op::MapRange { .. } | Op::GetAttributes => {
                    bytes += UNKNOWN_BYTES;
                    charging = charging.max_with(Charging::ByReply);
                }
                _ => {}
            }
        }
        let is_write = request.ops.iter().any(Op::is_write);
        let kind = if is_write { IoKind::Write } else { IoKind::Read };
        Self { kind, bytes: u32::try_from(bytes).unwrap_or(u32::MAX), charging }
    }

    /// The bytes that the request and its reply moved.
    pub fn moved_bytes(&self, reply: &Reply) -> u64 {
        let read = reply.results.iter().map(OpResult::payload_bytes).sum::<usize>() as u64;
        match self.kind {
            IoKind::Read => read,
            IoKind::Write => u64::from(self.bytes).max(read),
        }
    }
}

impl Charging {
    fn max_with(self, other: Self) -> Self {
        match self {
            Self::ByTime => self,
            _ => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use nacre_object::{ClassCall, MapEntry};

    use super::*;

    fn cost(ops: Vec<Op>) -> Cost {
        Cost::of(&Request::new("data/a".parse().unwrap(), ops).unwrap())
    }

    #[test]
    fn a_write_costs_its_payload() {
        let cost = cost(vec![Op::Append { data: Bytes::from(vec![0; 100]) }]);
        assert_eq!(cost, Cost { kind: IoKind::Write, bytes: 100, charging: Charging::Before });
    }

    #[test]
    fn a_read_costs_the_length_that_it_asks_for() {
        let cost = cost(vec![Op::Read { offset: 7, length: 4096 }]);
        assert_eq!(cost, Cost { kind: IoKind::Read, bytes: 4096, charging: Charging::Before });
    }

    #[test]
    fn a_read_of_unknown_length_is_charged_when_its_reply_arrives() {
        let cost = cost(vec![Op::Read { offset: 0, length: u64::MAX }]);
        assert_eq!(cost.charging, Charging::ByReply);
        let results = vec![OpResult::Data(Bytes::from(vec![0; 5]))];
        assert_eq!(cost.moved_bytes(&Reply { version: 1, results }), 5);
    }

    #[test]
    fn a_request_with_a_call_is_charged_by_its_time() {
        let (class, method) = ("counter".parse().unwrap(), "add".parse().unwrap());
        let call = ClassCall { class, method, version: None, input: Bytes::new() };
        let entry = MapEntry { key: Bytes::new(), value: Bytes::new() };
        for others in
            [vec![], vec![Op::MapGet { keys: vec![] }], vec![Op::MapSet { entries: vec![entry] }]]
        {
            let mut ops = vec![Op::Call(call.clone())];
            ops.extend(others);
            assert_eq!(cost(ops).charging, Charging::ByTime);
        }
    }
}
