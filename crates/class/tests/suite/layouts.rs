//! Runs Brados programs in every layout and during migrations, wherever methods are run.

use std::collections::BTreeMap;

use nacre_brados::{Layout, Value, shown_reply, with_layout};
use nacre_calls::{decode_reply, encode_request};
use nacre_clock::Random;
use nacre_object::{ClassCall, ClassName, MethodName};

use crate::support::Node;

const PROGRAM: &str = "state do
  table :epoch, [] => [:epoch:int]
  table :log, [:pos:int] => [:data:bytes]
  interface input, :put, [:pos:int, :data:bytes]
  interface input, :drop, [:pos:int]
  interface input, :get, [:pos:int]
  interface input, :all, [:unused:int]
  interface input, :seal, [:epoch:int]
  interface output, :row, [:pos:int] => [:data:bytes]
  interface output, :sealed, [:epoch:int]
  interface output, :most, [:pos:int, :count:int]
end
bloom do
  log <+- put
  log <- (drop * log).rights(:pos => :pos)
  row <= (get * log).rights(:pos => :pos)
  row <= (all * log).rights
  epoch <+- seal
  sealed <= (all * epoch).rights
  temp :last <= log.group([], max(:pos), count)
  most <= (all * last).rights
end
";
const LAYOUTS: [&str; 7] = [
    "map",
    "log: slots(40)",
    "log: slots(40, 8), header: stream",
    "log: appended(map), header: attribute",
    "log: appended(stream, 16), header: attribute",
    "log: appended(stream), header: stream",
    "header: attribute",
];
const REQUESTS: usize = 40;

/// What the program means.
#[derive(Default)]
struct Model {
    rows: BTreeMap<i64, Vec<u8>>,
    epoch: Option<i64>,
}

impl Model {
    /// Carries a request out; returns the reply as scripts write it.
    fn request(&mut self, method: &str, row: &[Value]) -> String {
        let outputs = match (method, row) {
            ("put", [Value::Int(pos), Value::Bytes(data)]) => {
                self.rows.insert(*pos, data.clone());
                vec![]
            }
            ("drop", [Value::Int(pos)]) => {
                self.rows.remove(pos);
                vec![]
            }
            ("seal", [Value::Int(epoch)]) => {
                self.epoch = Some(*epoch);
                vec![]
            }
            ("get", [Value::Int(pos)]) => {
                let found = self.rows.get_key_value(pos).into_iter();
                vec![("row".to_owned(), found.map(as_row).collect())]
            }
            _ => self.all(),
        };
        let told = outputs.into_iter().filter(|(_, rows)| !rows.is_empty());
        shown_reply(&told.collect::<Vec<_>>())
    }

    fn all(&self) -> Vec<nacre_calls::OutputRows> {
        let last = self.rows.keys().last().copied();
        let most = |last| vec![Value::Int(last), Value::Int(self.rows.len() as i64)];
        vec![
            ("row".to_owned(), self.rows.iter().map(as_row).collect()),
            (
                "sealed".to_owned(),
                self.epoch.map(|epoch| vec![Value::Int(epoch)]).into_iter().collect(),
            ),
            ("most".to_owned(), last.map(most).into_iter().collect()),
        ]
    }
}

fn as_row((pos, data): (&i64, &Vec<u8>)) -> Vec<Value> {
    vec![Value::Int(*pos), Value::Bytes(data.clone())]
}

fn request(random: &mut Random) -> (&'static str, Vec<Value>) {
    let pos = Value::Int(random.below(12) as i64 * 3 - 4);
    match random.below(8) {
        0..4 => {
            let data = vec![b'a' + random.below(26) as u8; random.below(60) as usize];
            ("put", vec![pos, Value::Bytes(data)])
        }
        4 => ("drop", vec![pos]),
        5 => ("seal", vec![Value::Int(random.below(9) as i64)]),
        6 => ("all", vec![Value::Int(0)]),
        _ => ("get", vec![pos]),
    }
}

fn call(node: &Node, method: &str, row: &[Value]) -> String {
    let (class, method) = (ClassName::new("log").unwrap(), MethodName::new(method).unwrap());
    let input = encode_request(row).into();
    let reply = node.call("o", ClassCall { class, method, version: None, input }).unwrap();
    shown_reply(&decode_reply(&reply.output).unwrap())
}

fn compare(node: &Node, model: &mut Model, random: &mut Random, layout: &Layout) {
    for _ in 0..REQUESTS {
        let (method, row) = request(random);
        let expected = model.request(method, &row);
        assert_eq!(call(node, method, &row), expected, "{layout}: {method} {row:?}");
    }
}

#[test]
fn a_program_gives_the_same_results_in_every_layout() {
    for (seed, text) in LAYOUTS.iter().enumerate() {
        let (node, layout) = (Node::new(), text.parse().unwrap());
        node.install("log", 1, &with_layout(PROGRAM, &layout, &[])).unwrap();
        let mut random = Random::seeded(seed as u64);
        compare(&node, &mut Model::default(), &mut random, &layout);
    }
}

#[test]
fn an_object_can_be_migrated_through_all_layouts() {
    let node = Node::new();
    let (mut model, mut random) = (Model::default(), Random::seeded(7));
    let mut former: Vec<Layout> = vec![];
    for (version, text) in LAYOUTS.iter().enumerate() {
        let layout: Layout = text.parse().unwrap();
        node.install("log", version as u64 + 1, &with_layout(PROGRAM, &layout, &former)).unwrap();
        compare(&node, &mut model, &mut random, &layout);
        if !former.is_empty() && version % 3 != 0 {
            let settled = call(&node, "layout_migrate", &[]);
            assert!(settled.starts_with("layout('settled', "), "{text}: {settled}");
            compare(&node, &mut model, &mut random, &layout);
        }
        former.push(layout);
    }
}
