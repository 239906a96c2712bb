//! A target that stores copies.

use std::collections::BTreeMap;

use bytes::Bytes;
use nacre_object::{ErrorKind, ObjectId};
use nacre_route::{CopyHead, CopyStep, CopyTag, CopyWrite};

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
        let step = match (sabotage, before) {
            (Some(Sabotage::LatePieces), Some(head)) if is_late => {
                Ok(CopyStep::Continue(head.clone()))
            }
            _ => CopyHead::after(before, write),
        };
        let (head, mut stream) = match step {
            Ok(CopyStep::Begin(head)) => (head, vec![]),
            Ok(CopyStep::Continue(head)) => (head, self.0.remove(&write.home).unwrap().1),
            Err(error) => {
                if error.kind() == ErrorKind::Stale {
                    note("late piece refused");
                }
                return Answer::Refused;
            }
        };
        let (from, to) = (write.offset as usize, write.offset as usize + write.data.len());
        stream.resize(stream.len().max(to), 0);
        stream[from..to].copy_from_slice(&write.data);
        self.0.insert(write.home.clone(), (head, stream));
        Answer::Stored
    }

    pub fn read(&self, object: &ObjectId, tag: CopyTag, sabotage: Option<Sabotage>) -> Answer {
        match self.0.get(object) {
            Some((head, stream)) if head.serves(tag) || sabotage == Some(Sabotage::TagIgnored) => {
                Answer::Copied(Bytes::copy_from_slice(stream))
            }
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
