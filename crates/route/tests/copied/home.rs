//! The engine at the home, and the check of what clients see.

use bytes::Bytes;
use nacre_object::ObjectStat;

use super::{AtHome, BLOCK_BYTES, Change, HomeAnswer, OBJECTS};

/// All states that each object ever had; the version is the index.
pub struct Home(Vec<Vec<Bytes>>);

impl Home {
    pub fn new() -> Self {
        Self(vec![vec![Bytes::new()]; OBJECTS])
    }

    fn version(&self, object: usize) -> u64 {
        self.0[object].len() as u64 - 1
    }

    pub fn serve(&mut self, what: AtHome) -> HomeAnswer {
        let (object, data) = match what {
            AtHome::Stat(object) => (object, Bytes::new()),
            AtHome::Read(object) => (object, self.0[object].last().unwrap().clone()),
            AtHome::ReadBlock(object, block) => {
                let stream = self.0[object].last().unwrap();
                let at = |block: u64| (block * BLOCK_BYTES).min(stream.len() as u64) as usize;
                (object, stream.slice(at(block)..at(block + 1)))
            }
            AtHome::Change(object, change) => {
                let changed = changed(self.0[object].last().unwrap(), change);
                self.0[object].push(changed);
                (object, Bytes::new())
            }
        };
        let (version, size) = (self.version(object), self.0[object].last().unwrap().len() as u64);
        let stat = ObjectStat { size, modified_micros: version, version };
        HomeAnswer { version, stat, data }
    }

    /// The first version at or after `floor` with these bytes.
    pub fn version_with(&self, object: usize, data: &Bytes, floor: u64) -> Option<u64> {
        (floor..=self.version(object)).find(|version| self.0[object][*version as usize] == *data)
    }
}

fn changed(stream: &Bytes, change: Change) -> Bytes {
    let mut stream = stream.to_vec();
    match change {
        Change::Write { block, count, value } => {
            let (from, to) = (block * BLOCK_BYTES, (block + count) * BLOCK_BYTES);
            stream.resize(stream.len().max(to as usize), 0);
            let value = value.to_be_bytes().repeat(count as usize);
            stream[from as usize..to as usize].copy_from_slice(&value);
        }
        Change::Zero { block, count } => {
            let end = stream.len();
            let at = |block: u64| end.min((block * BLOCK_BYTES) as usize);
            stream[at(block)..at(block + count)].fill(0);
        }
        Change::Truncate { blocks } => stream.resize((blocks * BLOCK_BYTES) as usize, 0),
    }
    stream.into()
}
