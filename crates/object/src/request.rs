//! Requests to a store, and its replies.

use crate::{EntityName, Error, ObjectId, Op, OpResult, Result, SnapshotName, TenantName, bounds};

/// What kinds of access a request needs, for routing, grants and scheduling.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Access {
    /// It reads.
    pub read: bool,
    /// It changes the object.
    pub write: bool,
    /// It may bring the object into being.
    pub create: bool,
    /// It removes the object.
    pub delete: bool,
}

/// A span of the byte stream: `offset..offset+length`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ByteRange {
    /// First byte.
    pub offset: u64,
    /// So many bytes.
    pub length: u64,
}

/// Says whose request this is and what it touches (the IO header of the sRoute paper, section 3).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IoHeader {
    /// Who asks, as authenticated; a session overwrites what a client claims.
    pub source: EntityName,
    /// Whose latency promise it counts against; derived from `source`.
    pub tenant: TenantName,
    /// The object.
    pub object: ObjectId,
    /// Read the object as it was at this snapshot, including version and time. `NotFound` if there
    /// is no snapshot of that name. Writes, and calls of methods that may write, are then
    /// `Invalid`.
    pub snapshot: Option<SnapshotName>,
    /// What the ops do, taken together.
    pub access: Access,
    /// The smallest range that contains all bytes that the ops touch.
    pub range: ByteRange,
    /// Identifies everything that this request causes in logs and traces. 0 if the request is not
    /// traced.
    pub trace_id: u64,
}

/// A transaction on one object, with its header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Whose and on what.
    pub header: IoHeader,
    /// What to do, in order, wholly or not at all.
    pub ops: Vec<Op>,
}

impl Request {
    /// Makes a request of the local entity. A server later replaces the entity by that of the
    /// session.
    ///
    /// # Errors
    /// `Invalid` if [`bounds::check_ops`] refuses the ops, or if the object is to be cloned from
    /// itself.
    pub fn new(object: ObjectId, ops: Vec<Op>) -> Result<Self> {
        bounds::check_ops(&ops).map_err(|error| error.on(&object))?;
        let of_itself = |op: &&Op| op.source() == Some(&object.name);
        if let Some(op) = ops.iter().find(of_itself) {
            return Err(Error::invalid("an object cannot be copied from itself")
                .during(op.name())
                .on(&object)
                .hint("roll it back to the snapshot instead"));
        }
        let header = IoHeader {
            source: EntityName::local(),
            tenant: TenantName::standard(),
            object,
            snapshot: None,
            access: access_of(&ops),
            range: range_of(&ops),
            trace_id: 0,
        };
        Ok(Self { header, ops })
    }

    /// The same request, reading at a snapshot.
    pub fn at_snapshot(mut self, snapshot: SnapshotName) -> Self {
        self.header.snapshot = Some(snapshot);
        self
    }

    /// Bytes the request carries, for bounds and back-pressure.
    pub fn payload_bytes(&self) -> usize {
        self.ops.iter().map(Op::payload_bytes).sum()
    }

    /// Returns how many keys of the map the request names, for bounds and back-pressure.
    pub fn key_count(&self) -> usize {
        self.ops.iter().map(Op::key_count).sum()
    }
}

fn access_of(ops: &[Op]) -> Access {
    let mut access = Access::default();
    for op in ops {
        match op {
            Op::Remove => access.delete = true,
            Op::Create { .. } | Op::CloneFrom { .. } => access.create = true,
            Op::Call(_) => {
                access.read = true;
                access.write = true;
            }
            _ if op.is_write() => access.write = true,
            _ => access.read = true,
        }
    }
    access
}

fn range_of(ops: &[Op]) -> ByteRange {
    let spans = ops.iter().filter_map(|op| match op {
        Op::Read { offset, length } | Op::Zero { offset, length } => Some((*offset, *length)),
        Op::Write { offset, data } => Some((*offset, data.len() as u64)),
        Op::WriteFull { data } => Some((0, data.len() as u64)),
        _ => None,
    });
    let all = spans.map(|(offset, length)| (offset, offset.saturating_add(length)));
    match all.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1))) {
        Some((start, end)) => ByteRange { offset: start, length: end - start },
        None => ByteRange::default(),
    }
}

/// What a transaction that succeeded answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// The object's version after the request, or 0 if the object does not exist.
    pub version: u64,
    /// One result an op, in order.
    pub results: Vec<OpResult>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::{MAX_OPS, MAX_REQUEST_BYTES};
    use bytes::Bytes;

    #[test]
    fn the_header_tells_access_and_range_of_all_ops_together() {
        let ops = vec![
            Op::Read { offset: 100, length: 10 },
            Op::Write { offset: 4, data: Bytes::from_static(b"abcd") },
            Op::Create { exclusive: false },
        ];
        let request = Request::new("data/a".parse().unwrap(), ops).unwrap();
        let expected = Access { read: true, write: true, create: true, delete: false };
        assert_eq!(request.header.access, expected);
        assert_eq!(request.header.range, ByteRange { offset: 4, length: 106 });
    }

    #[test]
    fn an_empty_or_oversized_transaction_is_refused() {
        let id: ObjectId = "data/a".parse().unwrap();
        assert!(Request::new(id.clone(), vec![]).is_err());
        assert!(Request::new(id.clone(), vec![Op::Stat; MAX_OPS + 1]).is_err());
        let data = Bytes::from(vec![0; MAX_REQUEST_BYTES + 1]);
        assert!(Request::new(id, vec![Op::Append { data }]).is_err());
    }
}
