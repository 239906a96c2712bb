//! Counts the messages that a server answers, by kind and result, and measures how long they take.
//!
//! A request's time runs from reading its batch until the connection has its answer. So the meter
//! reads the clock once for each received batch and once for each round of answers, not for each
//! request. Counting a request costs three relaxed atomic additions.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use nacre_clock::Clock;
use nacre_object::ErrorKind;
use nacre_telemetry::{Counter, Durations, HistogramSnapshot};

use crate::codec::SessionBytes;
use crate::outbox::Lane;
use nacre_protocol::decode;
use nacre_protocol::proto::client_message::Body as Asked;
use nacre_protocol::proto::op::Op;
use nacre_protocol::proto::server_message::Body as Answer;
use nacre_protocol::proto::{self as pb};

/// The kinds of messages that are counted separately. A transaction of one op has the op's name as
/// its kind, as [`nacre_object::Op::name`] gives it.
const KINDS: [&str; 35] = [
    "assert-exists",
    "assert-absent",
    "assert-version",
    "create",
    "remove",
    "stat",
    "read",
    "write",
    "write-full",
    "append",
    "truncate",
    "zero",
    "get-attribute",
    "get-attributes",
    "set-attribute",
    "remove-attribute",
    "map-get",
    "map-set",
    "map-remove",
    "map-range",
    "map-clear",
    "map-get-header",
    "map-set-header",
    "snapshot-create",
    "snapshot-remove",
    "snapshot-list",
    "rollback",
    "clone-from",
    "write-full-from",
    "call",
    "transaction",
    "ask",
    "list",
    "notify",
    "watch",
];
const TRANSACTION: u8 = 30;

/// The number of a kind of request, within [`KINDS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Kind(u8);

impl Kind {
    pub(crate) fn of(asked: &Asked) -> Self {
        Self(match asked {
            Asked::Request(request) => match &request.ops[..] {
                [pb::Op { op: Some(op) }] => number_of(op),
                _ => TRANSACTION,
            },
            Asked::Ask(_) => 31,
            Asked::List(_) => 32,
            Asked::Notify(_) => 33,
            // Messages about the session itself are not measured.
            Asked::Watch(_) | Asked::Unwatch(_) | Asked::Hello(_) | Asked::Part(_) => 34,
        })
    }

    pub(crate) fn name(self) -> &'static str {
        KINDS[usize::from(self.0)]
    }

    /// Whether messages of this kind never change anything. Calls of methods and transactions of
    /// several ops may change something, so the result is false for them.
    pub(crate) fn only_reads(self) -> bool {
        matches!(self.0, 0..=2 | 5 | 6 | 12 | 13 | 16 | 19 | 21 | 25 | 32 | 34)
    }
}

fn number_of(op: &Op) -> u8 {
    match op {
        Op::AssertExists(_) => 0,
        Op::AssertAbsent(_) => 1,
        Op::AssertVersion(_) => 2,
        Op::Create(_) => 3,
        Op::Remove(_) => 4,
        Op::Stat(_) => 5,
        Op::Read(_) => 6,
        Op::Write(_) => 7,
        Op::WriteFull(_) => 8,
        Op::Append(_) => 9,
        Op::Truncate(_) => 10,
        Op::Zero(_) => 11,
        Op::GetAttribute(_) => 12,
        Op::GetAttributes(_) => 13,
        Op::SetAttribute(_) => 14,
        Op::RemoveAttribute(_) => 15,
        Op::MapGet(_) => 16,
        Op::MapSet(_) => 17,
        Op::MapRemove(_) => 18,
        Op::MapRange(_) => 19,
        Op::MapClear(_) => 20,
        Op::MapGetHeader(_) => 21,
        Op::MapSetHeader(_) => 22,
        Op::SnapshotCreate(_) => 23,
        Op::SnapshotRemove(_) => 24,
        Op::SnapshotList(_) => 25,
        Op::Rollback(_) => 26,
        Op::CloneFrom(_) => 27,
        Op::WriteFullFrom(_) => 28,
        Op::Call(_) => 29,
    }
}

/// A request that was taken up.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Begun {
    pub(crate) kind: Kind,
    pub(crate) at: Duration,
    /// The lane of the outbox in which the answer is to wait.
    pub(crate) lane: Lane,
}

/// How a request ended: 0 means success; any other number is one more than the index of its error's
/// kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ending(u8);

impl Ending {
    pub(crate) fn of(answer: &Answer) -> Self {
        match answer {
            Answer::Error(error) => Self(1 + decode::kind(error.kind()) as u8),
            _ => Self(0),
        }
    }

    fn name(index: usize) -> &'static str {
        match index.checked_sub(1) {
            Some(kind) => ErrorKind::ALL[kind].as_str(),
            None => "ok",
        }
    }
}

/// The requests of one kind.
#[derive(Debug, Default)]
struct KindMeter {
    endings: [Counter; 1 + ErrorKind::ALL.len()],
    duration: Durations,
}

/// The counters of a server.
#[derive(Debug)]
pub(crate) struct Meter {
    clock: Arc<dyn Clock>,
    kinds: [KindMeter; KINDS.len()],
    waiting: AtomicI64,
    pub(crate) session_bytes: Arc<SessionBytes>,
}

impl Meter {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        let kinds = std::array::from_fn(|_| KindMeter::default());
        Self { clock, kinds, waiting: 0.into(), session_bytes: Arc::default() }
    }

    pub(crate) fn now(&self) -> Duration {
        self.clock.monotonic()
    }

    /// Notes how many requests of a session are in flight now, and how many were at the last call.
    pub(crate) fn waiting(&self, now: usize, before: usize) {
        if now != before {
            self.waiting.fetch_add(now as i64 - before as i64, Ordering::Relaxed);
        }
    }

    /// Counts a request whose answer has been handed to the connection.
    pub(crate) fn ended(&self, begun: Begun, ending: Ending, now: Duration) {
        let kind = &self.kinds[usize::from(begun.kind.0)];
        kind.endings[usize::from(ending.0)].add(1);
        kind.duration.record_duration(now.saturating_sub(begun.at));
    }

    pub(crate) fn read(&self) -> RequestCounts {
        let used = |(kind, meter): (usize, &KindMeter)| {
            let endings = meter.endings.iter().enumerate();
            let results: Vec<_> = endings
                .filter(|(_, count)| count.get() > 0)
                .map(|(index, count)| (Ending::name(index), count.get()))
                .collect();
            let duration = meter.duration.snapshot();
            (!results.is_empty()).then_some(KindCounts {
                kind: Kind(kind as u8).name(),
                results,
                duration,
            })
        };
        RequestCounts {
            kinds: self.kinds.iter().enumerate().filter_map(used).collect(),
            waiting: self.waiting.load(Ordering::Relaxed),
            received_bytes: self.session_bytes.received.get(),
            sent_bytes: self.session_bytes.sent.get(),
        }
    }
}

/// What a server has answered since it started.
#[derive(Debug, Clone, PartialEq)]
pub struct RequestCounts {
    /// Counts by kind of request, without kinds that never came.
    pub kinds: Vec<KindCounts>,
    /// The number of begun requests of sessions that wait for something, mostly for a sync.
    pub waiting: i64,
    /// The bytes that sessions have received, without the frames of HTTP/2.
    pub received_bytes: u64,
    /// The bytes that sessions have sent, without the frames of HTTP/2.
    pub sent_bytes: u64,
}

/// The requests of one kind.
#[derive(Debug, Clone, PartialEq)]
pub struct KindCounts {
    /// The name of the op, `transaction` for a request of several ops, or the kind of any other
    /// message.
    pub kind: &'static str,
    /// How many requests had which result: `ok` or the name of an error's kind.
    pub results: Vec<(&'static str, u64)>,
    /// How long requests took, from when the node read them until their answers were on their way.
    pub duration: HistogramSnapshot,
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use nacre_clock::ManualClock;
    use nacre_conformance::ops;
    use nacre_object::{Error, Op, Request};
    use nacre_protocol::encode;

    fn every_op() -> [Op; 30] {
        [
            Op::AssertExists,
            Op::AssertAbsent,
            Op::AssertVersion(1),
            ops::create(),
            Op::Remove,
            Op::Stat,
            ops::read_all(),
            ops::write(0, "a"),
            ops::write_full("a"),
            ops::append("a"),
            ops::truncate(1),
            ops::zero(0, 1),
            ops::get_attribute("a"),
            Op::GetAttributes,
            ops::set_attribute("a", "b"),
            ops::remove_attribute("a"),
            ops::map_get(["a"]),
            ops::map_set([("a", "b")]),
            ops::map_remove(["a"]),
            ops::map_range("", "", 1),
            Op::MapClear,
            Op::MapGetHeader,
            ops::map_set_header("a"),
            ops::snapshot_create("a"),
            ops::snapshot_remove("a"),
            Op::SnapshotList,
            ops::rollback("a"),
            ops::clone_from(&"b".parse().unwrap(), "a"),
            ops::write_full_from(&"b".parse().unwrap(), "a"),
            ops::call("a", ""),
        ]
    }

    #[test]
    fn an_op_is_counted_under_its_name() {
        for (number, op) in every_op().into_iter().enumerate() {
            let (name, only_reads) = (op.name(), !op.is_write());
            let request = Request::new("data/a".parse().unwrap(), vec![op]).unwrap();
            let kind = Kind::of(&Asked::Request(encode::request(request)));
            assert_eq!((usize::from(kind.0), kind.name()), (number, name));
            assert_eq!(kind.only_reads(), only_reads, "{name}");
        }
        let ask = pb::Ask { service: String::new(), method: String::new(), input: Bytes::new() };
        assert_eq!(Kind::of(&Asked::Ask(ask)).name(), "ask");
        let two = pb::ObjectRequest { ops: vec![pb::Op::default(); 2], ..Default::default() };
        let two = Kind::of(&Asked::Request(two));
        assert_eq!((two.name(), two.only_reads()), ("transaction", false));
        for asked in [Asked::List(pb::ListRequest::default()), Asked::Watch(pb::Watch::default())] {
            assert!(Kind::of(&asked).only_reads());
        }
    }

    #[test]
    fn results_and_durations_are_counted_by_kind() {
        let meter = Meter::new(Arc::new(ManualClock::default()));
        let kind = Kind::of(&Asked::List(pb::ListRequest::default()));
        let begun = Begun { kind, at: Duration::from_micros(10), lane: Lane::MAIN };
        let ok = Ending::of(&Answer::Done(pb::Done {}));
        let stale = Ending::of(&encode::failure(&Error::stale("")));
        meter.ended(begun, ok, Duration::from_micros(12));
        meter.ended(begun, ok, Duration::from_micros(12));
        meter.ended(begun, stale, Duration::from_micros(11));
        let counts = meter.read();
        let [list] = &counts.kinds[..] else { panic!("{counts:?}") };
        assert_eq!(list.kind, "list");
        assert_eq!(list.results, [("ok", 2), (ErrorKind::Stale.as_str(), 1)]);
        assert_eq!(list.duration.buckets[..2], [(1e-6, 1), (2e-6, 2)]);
    }
}
