//! The endpoints and the controller's record.

use std::collections::BTreeMap;

use bytes::{Bytes, BytesMut};
use nacre_conformance::Chronicle;
use nacre_object::{Op, OpResult, Reply, Request};
use nacre_route::{Destination, Followed, Found, Move, Placed, Record, Span, Stamp, Term, newest};

use super::checker::Checker;
use super::{Answer, BLOCK_BYTES, Endpoint, Sabotage};

#[derive(Default)]
pub struct Store {
    /// Blocks with the stamps of their changes.
    blocks: BTreeMap<(Endpoint, u64), (Stamp, u64)>,
    record: Record,
    sabotage: Option<Sabotage>,
}

impl Store {
    pub fn new(sabotage: Option<Sabotage>) -> Self {
        Self { sabotage, ..Self::default() }
    }

    pub fn record(&self) -> Record {
        self.record.clone()
    }

    pub fn keep(&mut self, expected: Term, record: Record) -> bool {
        // The same record again: the answer to it was lost.
        let is_expected = self.record.term == expected || self.record == record;
        if is_expected {
            self.record = record;
        }
        is_expected
    }

    pub fn run(
        &mut self,
        endpoint: Endpoint,
        request: &Request,
        stamp: Option<Stamp>,
        checker: &mut Checker,
        told: &mut Chronicle,
    ) -> Answer {
        let results = match (&request.ops[0], stamp) {
            (Op::Read { offset, length }, _) => {
                OpResult::Data(self.read(endpoint, *offset, *length))
            }
            (Op::Write { offset, data }, Some(stamp)) => {
                let first = offset / BLOCK_BYTES;
                let values = data.chunks(BLOCK_BYTES as usize);
                let values: Vec<_> =
                    values.map(|bytes| u64::from_be_bytes(bytes.try_into().unwrap())).collect();
                let newer = (first..).zip(&values).find_map(|(block, _)| {
                    let (there, _) = self.blocks.get(&(endpoint, block))?;
                    (*there > stamp).then(|| there.clone())
                });
                if let Some(newer) = newer
                    && self.sabotage != Some(Sabotage::LateChanges)
                {
                    told.note("late change refused");
                    return Answer::Outrun(newer);
                }
                for (block, value) in (first..).zip(values) {
                    checker.taken(value, &stamp);
                    self.blocks.insert((endpoint, block), (stamp.clone(), value));
                }
                OpResult::Done
            }
            (op, stamp) => panic!("{op:?} with {stamp:?}"),
        };
        Answer::Replied(Reply { version: 1, results: vec![results] })
    }

    /// The bytes up to the end of what was written.
    fn read(&self, endpoint: Endpoint, offset: u64, length: u64) -> Bytes {
        let end = self.blocks.range((endpoint, 0)..=(endpoint, u64::MAX)).next_back();
        let end = end.map_or(0, |((_, block), _)| (block + 1) * BLOCK_BYTES);
        let mut data = BytesMut::new();
        let mut at = offset;
        while at < (offset + length).min(end) {
            let value =
                self.blocks.get(&(endpoint, at / BLOCK_BYTES)).map_or(0, |(_, value)| *value);
            data.extend_from_slice(&value.to_be_bytes());
            at += BLOCK_BYTES;
        }
        data.freeze()
    }

    /// Moves bytes, then tells where the newest are.
    pub fn gather(
        &mut self,
        moves: &[Move],
        followed: &[Followed],
        told: &mut Chronicle,
    ) -> Vec<Placed> {
        for Move { from, to, .. } in moves {
            told.note("bytes moved");
            if self.sabotage != Some(Sabotage::NotMoved) {
                self.copy(endpoint(from), endpoint(to));
            }
        }
        if followed.is_empty() || self.sabotage == Some(Sabotage::NotRecovered) {
            return vec![];
        }
        let found = self.blocks.iter().map(|((endpoint, block), (stamp, _))| Found {
            object: "data/x".parse().unwrap(),
            span: Span::new(block * BLOCK_BYTES, (block + 1) * BLOCK_BYTES).unwrap(),
            stamp: stamp.clone(),
            destination: destination(*endpoint),
            application: "test".parse().unwrap(),
        });
        let placed = newest(found.collect());
        if placed.iter().any(|placed| placed.placement.destination != Destination::Home) {
            told.note("rules recovered from data");
        }
        placed
    }

    fn copy(&mut self, from: Endpoint, to: Endpoint) {
        let all: Vec<_> = self.blocks.iter().map(|(key, block)| (*key, block.clone())).collect();
        for ((endpoint, block), (stamp, value)) in all {
            let there = self.blocks.get(&(to, block));
            if endpoint == from && there.is_none_or(|(newest, _)| *newest < stamp) {
                self.blocks.insert((to, block), (stamp, value));
            }
        }
    }
}

pub fn destination(endpoint: Endpoint) -> Destination {
    match endpoint {
        Endpoint::Home => Destination::Home,
        Endpoint::Away => Destination::Object("spill/y".parse().unwrap()),
    }
}

pub fn endpoint(destination: &Destination) -> Endpoint {
    match destination {
        Destination::Home => Endpoint::Home,
        _ => Endpoint::Away,
    }
}
