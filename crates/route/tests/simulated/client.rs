//! A simulated client: reads and writes a few blocks, one IO at a time.

use bytes::Bytes;
use nacre_clock::Random;
use nacre_conformance::Chronicle;
use nacre_object::{Op, OpResult, Reply, Request};

use super::checker::{Checker, Floor};
use super::{BLOCK_BYTES, BLOCKS};

/// An IO under way.
struct Current {
    id: u64,
    first: u64,
    blocks: u64,
    /// The number that a write writes.
    value: Option<u64>,
    floor: Floor,
}

#[derive(Default)]
pub struct Client {
    current: Option<Current>,
    pub done: u64,
}

impl Client {
    pub fn is_idle(&self) -> bool {
        self.current.is_none()
    }

    pub fn begin(&mut self, id: u64, random: &mut Random, checker: &Checker) -> Request {
        let first = random.below(BLOCKS);
        let blocks = 1 + random.below((BLOCKS - first).min(4));
        let value = random.one_in(2).then_some(id);
        let offset = first * BLOCK_BYTES;
        let op = match value {
            Some(value) => {
                let data = (0..blocks).flat_map(|block| number(value, block).to_be_bytes());
                Op::Write { offset, data: Bytes::from_iter(data) }
            }
            None => Op::Read { offset, length: blocks * BLOCK_BYTES },
        };
        self.current = Some(Current { id, first, blocks, value, floor: checker.floor() });
        Request::new("data/x".parse().unwrap(), vec![op]).unwrap()
    }

    pub fn hear(
        &mut self,
        id: u64,
        reply: Option<Reply>,
        checker: &mut Checker,
        told: &mut Chronicle,
    ) -> Result<(), String> {
        let Some(current) = self.current.take_if(|current| current.id == id) else { return Ok(()) };
        let Some(reply) = reply else {
            told.note("outcome unknown");
            return Ok(());
        };
        self.done += 1;
        let Current { first, blocks, value, floor, .. } = current;
        match (value, reply.results.first()) {
            (Some(value), Some(OpResult::Done)) => {
                told.note("written");
                (0..blocks).try_for_each(|block| {
                    checker.written(first + block, number(value, block), &floor)
                })
            }
            (None, Some(OpResult::Data(data))) => {
                told.note("read");
                (0..blocks).try_for_each(|block| {
                    let at = (block * BLOCK_BYTES) as usize;
                    let bytes = data.get(at..at + BLOCK_BYTES as usize);
                    let value =
                        bytes.map_or(0, |bytes| u64::from_be_bytes(bytes.try_into().unwrap()));
                    checker.read(first + block, value, &floor)
                })
            }
            (_, other) => Err(format!("a strange reply: {other:?}")),
        }
    }
}

/// The number that a write writes to a block. No two blocks get the same number.
fn number(value: u64, block: u64) -> u64 {
    value * 100 + block
}
