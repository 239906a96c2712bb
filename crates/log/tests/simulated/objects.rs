//! The objects of the stripes: the native class, run on a model of an object in memory.

use std::collections::BTreeMap;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use nacre_conformance::MemoryObject;
use nacre_conformance::histories::Cell;
use nacre_log::log_class;
use nacre_log::view::View;
use nacre_object::{CallContext, EntityName, MethodName, ObjectId, ObjectView};

use super::{Answer, Ask, EROFS, Sabotage, TARGETS, target_number};

pub struct Objects {
    pub is_alive: [bool; TARGETS],
    /// What the targets take the time to be.
    pub clocks: [u64; TARGETS],
    objects: BTreeMap<ObjectId, MemoryObject>,
    sabotage: Option<Sabotage>,
}

fn numbers(numbers: &[u64]) -> Bytes {
    let mut input = BytesMut::new();
    numbers.iter().for_each(|number| input.put_u64_le(*number));
    input.freeze()
}

/// The input of `read_batch` for one position.
fn one_position(epoch: u64, position: u64) -> Bytes {
    let mut input = BytesMut::new();
    input.put_u64_le(epoch);
    input.put_u32_le(u32::MAX);
    input.put_u32_le(1);
    input.put_u64_le(position);
    input.freeze()
}

/// The state that `read_batch` answers for one position.
fn cell(mut output: Bytes) -> Cell {
    match output.get_u8() {
        b'U' => Cell::Unwritten,
        b'F' => Cell::Filled,
        b'T' => Cell::Trimmed,
        b'D' => {
            assert_eq!(output.get_u32_le(), 8, "records are numbers here");
            Cell::Data(output.get_u64_le())
        }
        other => panic!("an entry in state {other}"),
    }
}

impl Objects {
    pub fn new(sabotage: Option<Sabotage>) -> Self {
        let (is_alive, clocks) = ([true; TARGETS], [0; TARGETS]);
        Self { is_alive, clocks, objects: BTreeMap::new(), sabotage }
    }

    /// Runs what is asked; `None` if the object's target is dead.
    pub fn run(&mut self, ask: &Ask) -> Option<Answer> {
        let (object, method, input) = match ask {
            Ask::Seal { object, epoch } => (object, "seal", numbers(&[*epoch])),
            Ask::Maximum { object } => (object, "max_position", Bytes::new()),
            Ask::Write { object, epoch, position, record } => {
                (object, "write", numbers(&[self.epoch(*epoch), *position, *record]))
            }
            Ask::Read { object, epoch, position } => {
                (object, "read_batch", one_position(*epoch, *position))
            }
            Ask::Fill { object, epoch, position } => {
                (object, "fill", numbers(&[*epoch, *position]))
            }
            Ask::Trim { object, epoch, position } => {
                (object, "trim", numbers(&[*epoch, *position]))
            }
            other => panic!("{other:?} is not for an object"),
        };
        if !self.is_alive[target_number(object)] {
            return None;
        }
        let before = match ask {
            Ask::Fill { epoch, position, .. } => {
                self.call(object, "read_batch", one_position(*epoch, *position)).ok().map(cell)
            }
            _ => None,
        };
        if self.sabotage == Some(Sabotage::SecondFillRefused) && before == Some(Cell::Filled) {
            return Some(Answer::Status(EROFS));
        }
        if let (Some(Sabotage::FillOverData), Some(Cell::Data(_)), Ask::Fill { position, .. }) =
            (self.sabotage, before, ask)
        {
            let entry = [b"e", &position.to_be_bytes()[..]].concat();
            let stored = self.objects.get_mut(object).expect("it was read");
            stored.map_set(&entry, Bytes::from_static(b"F")).unwrap();
            return Some(Answer::Status(0));
        }
        Some(match (self.call(object, method, input), method) {
            (Err(status), _) => Answer::Status(status),
            (Ok(output), "seal" | "max_position") => {
                let position = u64::from_le_bytes(output[1..].try_into().unwrap());
                Answer::Maximum((output[0] == 1).then_some(position))
            }
            (Ok(output), "read_batch") => Answer::Holds(cell(output)),
            (Ok(_), _) => Answer::Status(0),
        })
    }

    fn epoch(&self, epoch: u64) -> u64 {
        if self.sabotage == Some(Sabotage::SealsForgotten) { 1 << 50 } else { epoch }
    }

    fn call(&mut self, object: &ObjectId, method: &str, input: Bytes) -> Result<Bytes, i32> {
        let class = log_class();
        let (_, run) = class.get(&MethodName::new(method).unwrap()).expect("a method of the class");
        let now_micros = self.clocks[target_number(object)];
        let context = CallContext { source: EntityName::new("simulation").unwrap(), now_micros };
        let stored = self.objects.entry(object.clone()).or_default();
        let mut view = stored.clone();
        let reply = run(input, &mut view, &context).map_err(|error| error.status())?;
        view.commit(now_micros);
        *stored = view;
        Ok(reply.output)
    }

    /// What every position of the log holds, to an omniscient reader.
    pub fn cells(&mut self, view: &View) -> Vec<Cell> {
        let read = |position| {
            let object = view.place(position).and_then(|place| view.object(place)).unwrap();
            self.call(&object, "read_batch", one_position(view.epoch(), position)).map(cell)
        };
        // An object nobody sealed yet was never written.
        (0..view.end()).map(read).map(|read| read.unwrap_or_default()).collect()
    }
}
