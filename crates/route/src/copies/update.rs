//! `Update`: a plain write, which is applied at the home and then to the current copies.

use nacre_object::{ObjectId, ObjectStat, Op, Request, TargetName};

use super::head::{CopyData, CopyTag, CopyWrite};
use crate::model::Span;

/// A plain write: a request with one write of bytes, or one zeroing, and perhaps a `stat` after it.
/// All other changes make the copies of their object useless.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Update {
    span: Span,
    data: CopyData,
}

/// An update that the runtime sends to a copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyUpdate {
    /// The target that stores the copy.
    pub target: TargetName,
    /// The object that stores the copy.
    pub stored_in: ObjectId,
    /// The update.
    pub write: CopyWrite,
}

/// How an update ended at the home.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UpdateEnd {
    /// It failed, or it is not known what it did.
    Failed,
    /// It is done. The runtime has sent it to no copy, so it did not ask for the new `stat`.
    OnlyAtHome {
        /// The version that the home has answered.
        version: u64,
    },
    /// It is done, and this is the `stat` of the object after it.
    Done(ObjectStat),
}

/// Why a copy does not have an update.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UpdateFailure {
    /// The target has refused it, because it does not have the copy any more.
    Lost,
    /// The target did not answer in time, or cannot store the update.
    Target,
}

impl Update {
    /// The update of a request; `None` if the request is no plain write.
    pub fn of(request: &Request) -> Option<Self> {
        let ([change] | [change, Op::Stat]) = request.ops.as_slice() else { return None };
        if request.header.snapshot.is_some() {
            return None;
        }
        let (offset, data) = match change {
            Op::Write { offset, data } => (*offset, CopyData::Bytes(data.clone())),
            Op::Zero { offset, length } => (*offset, CopyData::Zeros(*length)),
            _ => return None,
        };
        let span = Span::new(offset, offset.saturating_add(data.length()))?;
        Some(Self { span, data })
    }

    /// The bytes that it changes. Zeros past the end of the object are among them.
    pub fn span(&self) -> Span {
        self.span
    }

    /// The size of an object after the update. Zeros do not lengthen an object.
    pub(super) fn size_after(&self, size: u64) -> u64 {
        match self.data {
            CopyData::Bytes(_) => size.max(self.span.end()),
            CopyData::Zeros(_) => size,
        }
    }

    /// The write to a copy of this size.
    pub(super) fn write(
        &self,
        home: &ObjectId,
        (tag, number): (CopyTag, u64),
        size: u64,
    ) -> CopyWrite {
        let size = self.size_after(size);
        let offset = self.span.start().min(size);
        let data = match &self.data {
            CopyData::Zeros(_) => CopyData::Zeros(self.span.end().min(size) - offset),
            bytes => bytes.clone(),
        };
        CopyWrite { home: home.clone(), tag, number, size, offset, data }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn update(ops: Vec<Op>) -> Option<Update> {
        Update::of(&Request::new("data/x".parse().unwrap(), ops).unwrap())
    }

    fn write(offset: u64, data: &'static str) -> Op {
        Op::Write { offset, data: Bytes::from_static(data.as_bytes()) }
    }

    #[test]
    fn only_a_single_write_or_zeroing_and_perhaps_a_stat_is_an_update() {
        let zero = Op::Zero { offset: 1, length: 2 };
        for ops in [vec![write(0, "a")], vec![zero.clone()], vec![write(4, "a"), Op::Stat]] {
            assert!(update(ops).is_some());
        }
        for ops in [
            vec![write(9, "")],
            vec![Op::Zero { offset: 1, length: 0 }],
            vec![write(0, "a"), zero],
            vec![Op::AssertExists, write(0, "a")],
            vec![Op::Truncate { size: 1 }],
            vec![Op::Append { data: Bytes::from_static(b"a") }],
            vec![Op::Stat],
        ] {
            assert_eq!(update(ops.clone()), None, "{ops:?}");
        }
    }

    #[test]
    fn zeros_past_the_end_are_cut_and_bytes_past_the_end_lengthen_the_copy() {
        let to = |ops, size| {
            let tag = CopyTag::default();
            let write = update(ops).unwrap().write(&"data/x".parse().unwrap(), (tag, 3), size);
            (write.offset, write.data.length(), write.size)
        };
        assert_eq!(to(vec![Op::Zero { offset: 2, length: 9 }], 5), (2, 3, 5));
        assert_eq!(to(vec![Op::Zero { offset: 7, length: u64::MAX }], 5), (5, 0, 5));
        assert_eq!(to(vec![write(7, "ab")], 5), (7, 2, 9));
        assert_eq!(to(vec![write(1, "ab")], 5), (1, 2, 5));
    }
}
