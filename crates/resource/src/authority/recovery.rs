//! `ResourceRecovery`: how a node that has claimed a resource finds its state.
//!
//! The claim and the state are keys of one map. The claim has changed the epoch of the map, so the
//! store refuses every commit of an earlier authority: the claim is also the seal. One read of the
//! map returns the state, and shows whether this node's claim is still stored.

use nacre_host::{Record, Recovery, Step};

use super::machine::Found;
use crate::ResourceRecord;

/// What a read of the map told.
#[derive(Debug, Clone, PartialEq)]
pub enum MapRead {
    /// The record, and the state with the epoch of both.
    Read(Box<ResourceRecord>, Found),
    /// The store does not answer.
    NoAnswer,
}

/// The recovery of one resource.
#[derive(Debug)]
pub struct ResourceRecovery(ResourceRecord);

impl Recovery for ResourceRecovery {
    type Record = ResourceRecord;
    /// Read the map of the claimed record.
    type Command = ResourceRecord;
    type Event = MapRead;
    type Found = Found;

    fn new(claimed: ResourceRecord) -> Self {
        Self(claimed)
    }

    fn start(&mut self) -> Vec<Step<ResourceRecord, Found>> {
        vec![Step::Do(self.0.clone())]
    }

    fn handle(&mut self, event: MapRead) -> Vec<Step<ResourceRecord, Found>> {
        match event {
            MapRead::Read(record, found) if record.authority() == self.0.authority() => {
                vec![Step::Serve(found)]
            }
            MapRead::Read(..) => vec![Step::CheckClaim],
            MapRead::NoAnswer => self.start(),
        }
    }

    fn claim_stands(&mut self) -> Vec<Step<ResourceRecord, Found>> {
        self.start()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ResourceName;

    fn claimed() -> ResourceRecord {
        let name = ResourceName::new("/a").unwrap();
        let first = ResourceRecord::first(name, "ids".parse().unwrap(), None);
        first.claimed_by("meta.0".parse().unwrap(), 7)
    }

    #[test]
    fn a_node_serves_only_if_the_map_that_it_read_has_its_own_claim() {
        let found = Found { map_epoch: 5, stored: None };
        let mut recovery = ResourceRecovery::new(claimed());
        assert_eq!(recovery.start(), [Step::Do(claimed())]);
        assert_eq!(recovery.handle(MapRead::NoAnswer), [Step::Do(claimed())]);
        let other = claimed().claimed_by("meta.1".parse().unwrap(), 8);
        assert_eq!(
            recovery.handle(MapRead::Read(Box::new(other), found.clone())),
            [Step::CheckClaim]
        );
        let read = MapRead::Read(Box::new(claimed()), found.clone());
        assert_eq!(recovery.handle(read), [Step::Serve(found)]);
    }
}
