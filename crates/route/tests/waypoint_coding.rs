//! Tests of what a re-encoding waypoint does with each op, without programs.

use bytes::Bytes;
use nacre_clock::Random;
use nacre_conformance::SeedCases;
use nacre_object::{ClassCall, ErrorKind, Op};
use nacre_route::limits::MAX_FILLED_BYTES;
use nacre_route::{
    Answered, Coded, CodedOp, Content, MARK_ATTRIBUTE, Mark, WaypointWay as Way, code,
};

const CASES: SeedCases = SeedCases {
    file: "waypoint_coding_seeds.txt",
    text: include_str!("waypoint_coding_seeds.txt"),
};

fn write_op(offset: u64, data: &'static [u8]) -> Op {
    Op::Write { offset, data: Bytes::from_static(data) }
}

fn own() -> Mark {
    Mark { program: "w".parse().unwrap(), version: 1, digest: "aa".to_owned() }
}

fn ops(coded: Coded) -> Vec<CodedOp> {
    match coded {
        Coded::Ops(ops) => ops,
        other => panic!("{other:?}"),
    }
}

/// An object as a model keeps it, and its stored form.
#[derive(Debug, Clone, Default)]
struct Model {
    bytes: Option<Vec<u8>>,
    stored: Vec<u8>,
    mark: Option<Mark>,
}

fn mask(at: u64) -> u8 {
    (at * 7 + 1) as u8
}

fn masked(offset: u64, bytes: &[u8]) -> Vec<u8> {
    bytes.iter().zip(offset..).map(|(byte, at)| byte ^ mask(at)).collect()
}

/// Applies one op as a store does. Returns the bytes of a read, or the offset of an append.
fn apply(stream: &mut Vec<u8>, op: &Op) -> Vec<u8> {
    let write = |stream: &mut Vec<u8>, offset: usize, data: &[u8]| {
        let end = stream.len().max(offset + data.len());
        stream.resize(end, 0);
        stream[offset..offset + data.len()].copy_from_slice(data);
    };
    match op {
        Op::Read { offset, length } => {
            let end = ((offset + length) as usize).min(stream.len());
            return stream[(*offset as usize).min(end)..end].to_vec();
        }
        Op::Write { offset, data } => write(stream, *offset as usize, data),
        Op::WriteFull { data } => *stream = data.to_vec(),
        Op::Append { data } => {
            let end = stream.len();
            write(stream, end, data);
            return end.to_le_bytes().to_vec();
        }
        Op::Truncate { size } => stream.resize(*size as usize, 0),
        Op::Zero { offset, length } => {
            let end = ((offset + length) as usize).min(stream.len());
            let start = (*offset as usize).min(end);
            stream[start..end].fill(0);
        }
        Op::Remove => stream.clear(),
        _ => {}
    }
    vec![]
}

impl Model {
    /// Sends ops through the waypoint, as a node does, and compares all that a client sees.
    fn submit(&mut self, ops: &[Op], way: Way) {
        let content = Content::of(&own(), self.mark.clone(), self.stored.len() as u64);
        let coded = match code(&own(), content, ops, way).unwrap() {
            Coded::Ops(ops) => ops,
            Coded::NeedsMark => {
                assert!(self.stored.is_empty());
                self.mark = Some(own());
                return self.submit(ops, way);
            }
            Coded::NeedsObject => {
                assert_eq!(way, Way::Shared);
                return self.submit(ops, Way::Alone);
            }
        };
        let mut plain = self.bytes.clone().unwrap_or_default();
        let mut answers = vec![];
        for CodedOp { op, encode_at, answered } in coded {
            let op = match (op, encode_at) {
                (Op::Write { offset, data }, Some(at)) => {
                    Op::Write { offset, data: masked(at, &data).into() }
                }
                (Op::WriteFull { data }, Some(at)) => {
                    Op::WriteFull { data: masked(at, &data).into() }
                }
                (op, None) => op,
                other => panic!("{other:?}"),
            };
            match &op {
                Op::SetAttribute { name, value } if name == MARK_ATTRIBUTE => {
                    self.mark = Some(Mark::decode(value).unwrap());
                }
                Op::Remove => self.mark = None,
                _ => {}
            }
            let answer = apply(&mut self.stored, &op);
            match answered {
                Answered::AsItIs => answers.push(answer),
                Answered::Decoded(offset) => answers.push(masked(offset, &answer)),
                Answered::Offset(offset) => answers.push(offset.to_le_bytes().to_vec()),
                Answered::Dropped => {}
            }
        }
        let expected: Vec<_> = ops.iter().map(|op| apply(&mut plain, op)).collect();
        assert_eq!(answers, expected, "{ops:?}");
        let is_encoded = self.mark.is_some();
        let seen = if is_encoded { masked(0, &self.stored) } else { self.stored.clone() };
        assert_eq!(seen, plain, "{ops:?}");
        self.bytes = Some(plain);
    }
}

fn random_op(random: &mut Random) -> Op {
    let (offset, length) = (random.below(40), random.below(20));
    let data = Bytes::from((0..length).map(|_| random.below(256) as u8).collect::<Vec<_>>());
    match random.below(9) {
        0 => Op::Read { offset, length },
        1 => Op::Write { offset, data },
        2 => Op::Append { data },
        3 => Op::Truncate { size: offset },
        4 => Op::Zero { offset, length },
        5 => Op::Stat,
        6 => Op::WriteFull { data },
        7 => Op::Remove,
        _ => Op::AssertExists,
    }
}

#[test]
fn clients_see_their_own_bytes_whatever_ops_they_send_through_a_waypoint() {
    CASES.each(300, |seed| {
        let mut random = Random::seeded(seed);
        let mut model = Model::default();
        // Half of the objects had bytes before the rule.
        if random.one_in(2) {
            model.stored = vec![5; 1 + random.below(30) as usize];
            model.bytes = Some(model.stored.clone());
        }
        for _ in 0..30 {
            if random.one_in(2) {
                let op = match random.one_in(2) {
                    true => Op::Read { offset: random.below(40), length: 1 + random.below(20) },
                    false => write_op(random.below(40), b"some bytes"),
                };
                model.submit(&[op], Way::Shared);
            } else {
                let count = 1 + random.below(4);
                let ops: Vec<_> = (0..count).map(|_| random_op(&mut random)).collect();
                model.submit(&ops, Way::Alone);
            }
        }
    });
}

#[test]
fn a_new_object_is_marked_before_its_first_bytes_and_an_old_one_stays_as_it_is() {
    let first = [write_op(0, b"abc")];
    let empty = Content::Empty { is_marked: false };
    assert_eq!(code(&own(), empty.clone(), &first, Way::Shared).unwrap(), Coded::NeedsMark);
    let coded = ops(code(&own(), empty, &first, Way::Alone).unwrap());
    assert!(matches!(&coded[0].op, Op::SetAttribute { name, .. } if name == MARK_ATTRIBUTE));
    assert_eq!(coded[1].encode_at, Some(0));
    let coded = ops(code(&own(), Content::Plain { end: 9 }, &first, Way::Shared).unwrap());
    assert_eq!((coded.len(), coded[0].encode_at), (1, None));
    let full = [Op::WriteFull { data: "abc".into() }];
    let coded = ops(code(&own(), Content::Plain { end: 9 }, &full, Way::Alone).unwrap());
    assert_eq!((coded.len(), coded[1].encode_at), (2, Some(0)), "a whole put encodes it");
}

#[test]
fn a_waypoint_refuses_what_would_see_or_leave_bytes_in_another_encoding() {
    let encoded = || Content::Encoded { end: 8 };
    let foreign = || Content::Foreign(Mark { version: 4, digest: "bb".to_owned(), ..own() });
    let (class, method) = ("c".parse().unwrap(), "m".parse().unwrap());
    let call = ClassCall { class, method, version: None, input: Bytes::new() };
    let (source, snapshot) = ("o".parse().unwrap(), "s".parse().unwrap());
    let read = Op::Read { offset: 0, length: 4 };
    let far = MAX_FILLED_BYTES + 9;
    let cases = [
        (encoded(), vec![Op::Call(call)], "a method would see encoded bytes"),
        (encoded(), vec![Op::WriteFullFrom { source, snapshot }], "another object's bytes"),
        (foreign(), vec![read.clone()], "waypoint/w@4 has encoded its bytes"),
        (encoded(), vec![write_op(far, b"a")], "encoded zeros"),
        (encoded(), vec![Op::Truncate { size: far }], "encoded zeros"),
        (
            encoded(),
            vec![Op::Rollback { snapshot: "s".parse().unwrap() }, read],
            "uses them at once",
        ),
    ];
    for (content, ops, why) in cases {
        let error = code(&own(), content, &ops, Way::Alone).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        assert!(error.to_string().contains(why), "{error}");
        assert!(error.hint_text().is_some(), "{error}");
    }
    let name = MARK_ATTRIBUTE.to_owned();
    let error = code(&own(), encoded(), &[Op::RemoveAttribute { name }], Way::Alone).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied);
    let replaced = [Op::WriteFull { data: "abc".into() }];
    let coded = ops(code(&own(), foreign(), &replaced, Way::Alone).unwrap());
    assert_eq!(coded.len(), 2, "it gets a new mark");
}
