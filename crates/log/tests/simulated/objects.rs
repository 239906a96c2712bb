//! The objects of the stripes: the native class on the model of an object.

use std::collections::BTreeMap;

use bytes::{BufMut, Bytes, BytesMut};
use nacre_conformance::MemoryObject;
use nacre_log::log_class;
use nacre_log::view::View;
use nacre_object::{CallContext, EntityName, MethodName, ObjectId};

use super::{Answer, Ask, TARGETS, target_number};

pub struct Objects {
    pub is_alive: [bool; TARGETS],
    objects: BTreeMap<ObjectId, MemoryObject>,
}

impl Default for Objects {
    fn default() -> Self {
        Self { is_alive: [true; TARGETS], objects: BTreeMap::new() }
    }
}

fn numbers(numbers: &[u64]) -> Bytes {
    let mut input = BytesMut::new();
    numbers.iter().for_each(|number| input.put_u64_le(*number));
    input.freeze()
}

impl Objects {
    /// Runs what is asked; `None` if the object's target is dead.
    pub fn run(&mut self, ask: &Ask) -> Option<Answer> {
        let (object, method, input) = match ask {
            Ask::Seal { object, epoch } => (object, "seal", numbers(&[*epoch])),
            Ask::Maximum { object } => (object, "max_position", Bytes::new()),
            Ask::Write { object, epoch, position, record } => {
                (object, "write", numbers(&[*epoch, *position, *record]))
            }
            Ask::Read { object, epoch, position } => {
                (object, "read", numbers(&[*epoch, *position]))
            }
            other => panic!("{other:?} is not for an object"),
        };
        if !self.is_alive[target_number(object)] {
            return None;
        }
        Some(match (self.call(object, method, input), method) {
            (Err(status), _) => Answer::Status(status),
            (Ok(output), "seal" | "max_position") => {
                let position = u64::from_le_bytes(output[1..].try_into().unwrap());
                Answer::Maximum((output[0] == 1).then_some(position))
            }
            (Ok(output), "read") => {
                Answer::Data(u64::from_le_bytes(output[..].try_into().unwrap()))
            }
            (Ok(_), _) => Answer::Status(0),
        })
    }

    fn call(&mut self, object: &ObjectId, method: &str, input: Bytes) -> Result<Bytes, i32> {
        let class = log_class();
        let (_, run) = class.get(&MethodName::new(method).unwrap()).expect("a method of the class");
        let context = CallContext { source: EntityName::new("simulation").unwrap(), now_micros: 0 };
        let stored = self.objects.entry(object.clone()).or_default();
        let mut view = stored.clone();
        let reply = run(input, &mut view, &context).map_err(|error| error.status())?;
        view.commit(0);
        *stored = view;
        Ok(reply.output)
    }

    /// Every record of the log, by position.
    pub fn records(&mut self, view: &View) -> Vec<(u64, u64)> {
        let mut records = vec![];
        for position in 0..view.end() {
            let object = view.place(position).and_then(|place| view.object(place)).unwrap();
            let input = numbers(&[view.epoch(), position]);
            if let Ok(data) = self.call(&object, "read", input) {
                records.push((position, u64::from_le_bytes(data[..].try_into().unwrap())));
            }
        }
        records
    }
}
