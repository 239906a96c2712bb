//! Checks that each block shows at least the values that were acknowledged or read before.

use std::collections::HashMap;

use nacre_route::Stamp;

use super::BLOCKS;

/// For each block, the oldest value that an operation may return: the newest value that was
/// acknowledged or read before the operation began.
pub type Floor = Vec<Option<Stamp>>;

#[derive(Default)]
pub struct Checker {
    floors: HashMap<u64, Stamp>,
    /// The stamp under which each value was written.
    stamps: HashMap<u64, Stamp>,
}

impl Checker {
    pub fn floor(&self) -> Floor {
        (0..BLOCKS).map(|block| self.floors.get(&block).cloned()).collect()
    }

    /// An endpoint has taken a value.
    pub fn taken(&mut self, value: u64, stamp: &Stamp) {
        self.stamps.insert(value, stamp.clone());
    }

    /// A client has read a value; 0 if the block was never written.
    pub fn read(&mut self, block: u64, value: u64, floor: &Floor) -> Result<(), String> {
        let stamp = self.stamps.get(&value).cloned();
        if stamp < floor[block as usize] {
            return Err(format!("block {block}: read {value} of {stamp:?} after {floor:?}"));
        }
        self.rise(block, stamp);
        Ok(())
    }

    /// A client was told that its value is written.
    pub fn written(&mut self, block: u64, value: u64, floor: &Floor) -> Result<(), String> {
        let stamp = self.stamps.get(&value).cloned();
        if stamp <= floor[block as usize] {
            return Err(format!("block {block}: wrote {value} as {stamp:?} after {floor:?}"));
        }
        self.rise(block, stamp);
        Ok(())
    }

    fn rise(&mut self, block: u64, stamp: Option<Stamp>) {
        if let Some(stamp) = stamp
            && self.floors.get(&block).is_none_or(|floor| *floor < stamp)
        {
            self.floors.insert(block, stamp);
        }
    }
}
