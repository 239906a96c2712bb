//! Reads `storage_cases.txt`, and encodes inputs from the documented format by itself.

pub mod rows;

use bytes::{BufMut, Bytes, BytesMut};
use nacre_clock::Random;

const CASES: &str = include_str!("../storage_cases.txt");
const STATUSES: [(&str, i32); 7] = [
    ("ENOENT", -2),
    ("EIO", -5),
    ("EINVAL", -22),
    ("ESPIPE", -29),
    ("EROFS", -30),
    ("ERANGE", -34),
    ("ENODATA", -61),
];

pub struct Case {
    pub name: String,
    pub steps: Vec<Step>,
}

pub struct Step {
    pub line: usize,
    pub text: String,
    pub input: Input,
    pub expected: String,
}

pub enum Input {
    Call { method: String, input: Bytes },
    Create,
    SetHeader(Bytes),
    FlipHeader(usize),
    SetKey(Bytes, Bytes),
    Entries,
    FillMap { from: u64, to: u64 },
}

pub fn all() -> Vec<Case> {
    let mut cases: Vec<Case> = vec![];
    for (index, text) in CASES.lines().enumerate() {
        if let Some(name) = text.strip_prefix("== ") {
            cases.push(Case { name: name.to_owned(), steps: vec![] });
        } else if let Some((input, expected)) = text.split_once(" -> ")
            && let Some(case) = cases.last_mut()
        {
            let step = Step {
                line: index + 1,
                text: text.to_owned(),
                input: parse(input),
                expected: expected.to_owned(),
            };
            case.steps.push(step);
        }
    }
    assert!(cases.len() > 20 && cases.iter().all(|case| !case.steps.is_empty()));
    cases
}

fn parse(text: &str) -> Input {
    let words: Vec<_> = text.split_whitespace().collect();
    let number = |index: usize| -> u64 { words[index].parse().unwrap() };
    match words[0] {
        "create" => Input::Create,
        "header" => Input::SetHeader(hex(words[1])),
        "flip-header" => Input::FlipHeader(number(1) as usize),
        "entry" => Input::SetKey(key(number(1)), hex(words.get(2).unwrap_or(&""))),
        "key" => Input::SetKey(hex(words[1]), hex(words[2])),
        "entries" => Input::Entries,
        "fill-map" => Input::FillMap { from: number(1), to: number(2) },
        "raw" => Input::Call { method: words[1].to_owned(), input: hex(&words[2..].concat()) },
        method => Input::Call { method: method.to_owned(), input: encode(method, &words[1..]) },
    }
}

fn hex(text: &str) -> Bytes {
    let digits = text.as_bytes().chunks(2);
    digits.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

fn key(position: u64) -> Bytes {
    [b"e", &position.to_be_bytes()[..]].concat().into()
}

fn data(word: &str) -> &[u8] {
    word.trim_matches('"').as_bytes()
}

fn encode(method: &str, words: &[&str]) -> Bytes {
    let mut input = BytesMut::new();
    let number = |word: &str| -> u64 { word.parse().unwrap() };
    match method {
        "max_position" => {}
        "write" => {
            input.put_u64_le(number(words[0]));
            input.put_u64_le(number(words[1]));
            input.put_slice(data(words[2]));
        }
        "write_batch" => {
            input.put_u64_le(number(words[0]));
            input.put_u32_le(words[1..].len() as u32 / 2);
            for pair in words[1..].chunks(2) {
                input.put_u64_le(number(pair[0]));
                input.put_u32_le(data(pair[1]).len() as u32);
                input.put_slice(data(pair[1]));
            }
        }
        "fill_batch" | "read_batch" => {
            let (head, positions) = words.split_at(if method == "fill_batch" { 1 } else { 2 });
            input.put_u64_le(number(head[0]));
            if let Some(limit) = head.get(1) {
                input.put_u32_le(number(limit) as u32);
            }
            input.put_u32_le(positions.len() as u32);
            positions.iter().for_each(|position| input.put_u64_le(number(position)));
        }
        _ => words.iter().for_each(|word| input.put_u64_le(number(word))),
    }
    input.freeze()
}

/// The inputs that write "." to `from..to`.
pub fn fill_map_inputs(from: u64, to: u64) -> Vec<Bytes> {
    let positions: Vec<_> = (from..to).collect();
    let batches = positions.chunks(500).map(|positions| {
        let words = positions.iter().map(|position| format!("{position} ."));
        let words = format!("1 {}", words.collect::<Vec<_>>().join(" "));
        encode("write_batch", &words.split(' ').collect::<Vec<_>>())
    });
    batches.collect()
}

impl Step {
    /// What a method answered, in the words of the cases.
    pub fn outcome_of(&self, method: &str, result: Result<Bytes, i32>) -> String {
        match result {
            Err(status) => status_word(status),
            Ok(output) => describe(method, &output),
        }
    }
}

fn status_word(status: i32) -> String {
    let known = STATUSES.iter().find(|(_, number)| *number == status);
    known.map_or_else(|| status.to_string(), |(word, _)| (*word).to_owned())
}

fn describe(method: &str, output: &[u8]) -> String {
    let text = |bytes: &[u8]| format!("\"{}\"", String::from_utf8_lossy(bytes));
    match method {
        "seal" | "max_position" => {
            assert_eq!(output.len(), 9);
            let position = u64::from_le_bytes(output[1..].try_into().unwrap());
            if output[0] == 1 { position.to_string() } else { "none".into() }
        }
        "read" => text(output),
        "trim_to" => match output {
            [0] => "done".into(),
            [1] => "left".into(),
            other => format!("{other:?}"),
        },
        "write_batch" | "fill_batch" if !output.is_empty() => {
            let statuses = output.chunks(4).map(|status| {
                match i32::from_le_bytes(status.try_into().unwrap()) {
                    0 => "ok".to_owned(),
                    status => status_word(status),
                }
            });
            statuses.collect::<Vec<_>>().join(" ")
        }
        "read_batch" if !output.is_empty() => describe_states(output).join(" "),
        _ => {
            assert!(output.is_empty(), "{method} answered {output:?}");
            "ok".into()
        }
    }
}

fn describe_states(mut output: &[u8]) -> Vec<String> {
    let mut states = vec![];
    while let Some((kind, rest)) = output.split_first() {
        output = rest;
        states.push(match kind {
            b'U' => "unwritten".into(),
            b'F' => "filled".into(),
            b'T' => "trimmed".into(),
            b'X' => "damaged".into(),
            b'D' => {
                let (length, rest) = output.split_at(4);
                let length = u32::from_le_bytes(length.try_into().unwrap()) as usize;
                let (data, rest) = rest.split_at(length);
                output = rest;
                format!("\"{}\"", String::from_utf8_lossy(data))
            }
            other => format!("?{other}"),
        });
    }
    states
}

/// A random sequence of operations. It uses few positions and epochs, so that operations meet.
pub fn random_steps(seed: u64) -> Vec<Step> {
    let mut random = Random::seeded(seed);
    let step = |line| {
        let (epoch, position) = (random.below(6), random.below(12));
        let text = match random.below(12) {
            0 => format!("seal {epoch}"),
            1 => "max_position".to_owned(),
            2 => format!("read {epoch} {position}"),
            3 | 4 => format!("write {epoch} {position} \"{line}\""),
            5 => format!("write_batch {epoch} {position} \"{line}\" {} \"\"", random.below(12)),
            6 => format!("fill {epoch} {position}"),
            7 => format!("fill_batch {epoch} {position} {}", random.below(12)),
            8 => format!("trim {epoch} {position}"),
            9 => format!("trim_to {epoch} {}", random.below(8)),
            10 => format!("fill-map {position} {}", position + random.below(400)),
            _ => format!("read_batch {epoch} {} 0 1 2 3 4 5 6 7 8", random.below(20)),
        };
        Step { line, input: parse(&text), text, expected: String::new() }
    };
    (0..40).map(step).collect()
}
