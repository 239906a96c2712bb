//! A target that stores copies.

use std::collections::BTreeMap;

use bytes::Bytes;
use nacre_object::{ErrorKind, ObjectId};
use nacre_route::{CopyData, CopyHead, CopyState, CopyStep, CopyTag, CopyWrite};

use super::{Answer, Sabotage};

#[derive(Default)]
pub struct CopyNode(BTreeMap<ObjectId, (CopyHead, Vec<u8>)>);

impl CopyNode {
    pub fn write(
        &mut self,
        write: &CopyWrite,
        sabotage: Option<Sabotage>,
        note: &mut dyn FnMut(&'static str),
    ) -> Answer {
        let before = self.0.get(&write.home).map(|(head, _)| head);
        let is_late = before.is_some_and(|head| head.tag > write.tag);
        let is_out_of_order = |head: &CopyHead| {
            head.tag == write.tag && write.number > 0 && write.number != head.applied
        };
        let step = match (sabotage, before) {
            (Some(Sabotage::LatePieces), Some(head)) if is_late => {
                Ok(CopyStep::Continue(head.clone()))
            }
            (Some(Sabotage::NumbersIgnored), Some(head)) if is_out_of_order(head) => {
                let applied = head.applied.max(write.number + 1);
                Ok(CopyStep::Continue(CopyHead { applied, ..head.clone() }))
            }
            _ => CopyHead::after(before, write),
        };
        let (head, mut stream) = match step {
            Ok(CopyStep::Begin(head)) => (head, vec![]),
            Ok(CopyStep::Continue(head)) => (head, self.0.remove(&write.home).unwrap().1),
            Err(error) => {
                note(match error.kind() {
                    ErrorKind::Stale if is_late => "write to an earlier copy refused",
                    ErrorKind::Stale => "late write refused",
                    _ => "write refused for a gap",
                });
                return Answer::Refused;
            }
        };
        let (from, to) = (write.offset as usize, (write.offset + write.data.length()) as usize);
        stream.resize(stream.len().max(to), 0);
        match &write.data {
            CopyData::Bytes(bytes) => stream[from..to].copy_from_slice(bytes),
            CopyData::Zeros(_) => stream[from..to].fill(0),
        }
        self.0.insert(write.home.clone(), (head, stream));
        Answer::Stored
    }

    pub fn read(&self, object: &ObjectId, state: CopyState, sabotage: Option<Sabotage>) -> Answer {
        let serves = |head: &CopyHead| match sabotage {
            Some(Sabotage::TagIgnored) => true,
            Some(Sabotage::SentIsConfirmed) => head.tag == state.tag,
            _ => head.serves(state),
        };
        match self.0.get(object) {
            Some((head, stream)) if serves(head) => Answer::Copied(Bytes::copy_from_slice(stream)),
            _ => Answer::Lost,
        }
    }

    pub fn drop_copy(&mut self, object: &ObjectId, tag: CopyTag) {
        self.0.retain(|one, (head, _)| one != object || head.tag > tag);
    }

    pub fn lose_all(&mut self) {
        self.0.clear();
    }
}
