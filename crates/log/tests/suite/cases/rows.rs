//! The steps of the cases, as requests to the Brados class.

use bytes::Bytes;
use nacre_brados::Value;
use nacre_calls::{decode_reply, encode_request};
use nacre_object::CallReply;

use super::{Case, Step, data, status_word};

/// Steps about the stored format and encoding of the other classes. The Brados class has neither.
const OF_LAYOUT: [&str; 6] = ["create", "header", "flip-header", "entry", "key", "raw"];

/// Whether every step of a case makes sense for the Brados class.
pub fn can_say(case: &Case) -> bool {
    case.steps.iter().all(|step| !OF_LAYOUT.contains(&words(step)[0]))
}

fn words(step: &Step) -> Vec<&str> {
    let request = step.text.split(" -> ").next().unwrap_or_default();
    request.split_whitespace().collect()
}

/// A call of the class, made from one step of a case.
pub struct Call {
    pub method: String,
    pub requests: Vec<Vec<u8>>,
    pub byte_limit: u32,
    /// Whether it is one request, not a batch.
    pub is_alone: bool,
}

/// The call that a step makes; `None` if the step makes no call.
pub fn call(step: &Step) -> Option<Call> {
    let words = words(step);
    let number = |word: &str| Value::Int(word.parse::<u64>().unwrap() as i64);
    let numbers = |words: &[&str]| words.iter().map(|word| number(word)).collect::<Vec<_>>();
    let alone = |row: Vec<Value>| Call {
        method: words[0].to_owned(),
        requests: vec![encode_request(&row)],
        byte_limit: u32::MAX,
        is_alone: true,
    };
    let batch = |method: &str, byte_limit, rows: Vec<Vec<Value>>| Call {
        method: format!("{method}.batch"),
        requests: rows.iter().map(|row| encode_request(row)).collect(),
        byte_limit,
        is_alone: false,
    };
    Some(match words[0] {
        "entries" => return None,
        "max_position" => alone(vec![Value::Nil]),
        "write" => {
            alone(vec![number(words[1]), number(words[2]), Value::Bytes(data(words[3]).to_vec())])
        }
        "write_batch" => {
            let rows = words[2..].chunks(2).map(|entry| {
                vec![number(words[1]), number(entry[0]), Value::Bytes(data(entry[1]).to_vec())]
            });
            batch("write", u32::MAX, rows.collect())
        }
        "fill_batch" => {
            let rows = words[2..].iter().map(|pos| vec![number(words[1]), number(pos)]);
            batch("fill", u32::MAX, rows.collect())
        }
        "read_batch" => {
            let rows = words[3..].iter().map(|pos| vec![number(words[1]), number(pos)]);
            batch("read", words[2].parse().unwrap(), rows.collect())
        }
        "fill-map" => {
            let positions = words[1].parse::<u64>().unwrap()..words[2].parse().unwrap();
            let row = |position| {
                vec![Value::Int(1), Value::Int(position as i64), Value::Bytes(b".".to_vec())]
            };
            batch("write", u32::MAX, positions.map(row).collect())
        }
        _ => alone(numbers(&words[1..])),
    })
}

/// The outcome of a request in the notation of `storage_cases.txt`. The request was sent alone or
/// in a batch of its method.
pub fn outcome(method: &str, answer: Result<CallReply, i32>) -> String {
    let reply = match answer {
        Err(status) => return status_word(status),
        Ok(reply) if reply.status < 0 => return status_word(reply.status),
        Ok(reply) => decode_reply(&reply.output).expect("it is the reply of a Brados class"),
    };
    let value = |name: &str| {
        let rows = &reply.iter().find(|(output, _)| output == name)?.1;
        assert_eq!(rows.len(), 1, "{reply:?}");
        rows[0].first()
    };
    match (method, value("ret")) {
        ("read" | "read.batch", _) if value("entry").is_some() => match value("entry") {
            Some(Value::Bytes(data)) => format!("\"{}\"", String::from_utf8_lossy(data)),
            other => panic!("{other:?} is no data"),
        },
        ("read.batch", Some(Value::Int(-34))) => "unwritten".to_owned(),
        ("read.batch", Some(Value::Int(-61))) => match value("gap") {
            Some(Value::Bytes(state)) => String::from_utf8_lossy(state).into_owned(),
            other => panic!("{other:?} is no state"),
        },
        ("seal" | "max_position", Some(Value::Int(0))) => match value("max") {
            Some(max) => max.to_string(),
            None => "none".to_owned(),
        },
        ("trim_to", Some(Value::Int(0))) => {
            if value("left").is_some() { "left" } else { "done" }.to_owned()
        }
        (_, Some(Value::Int(0))) => "ok".to_owned(),
        (_, Some(Value::Int(status))) => status_word(*status as i32),
        _ => panic!("{method} replied {reply:?}"),
    }
}

/// The outcomes of a batch in the notation of `storage_cases.txt`. An error of the whole batch is a
/// single outcome. An empty batch has none.
pub fn outcomes(method: &str, answers: Vec<CallReply>) -> String {
    let each: Vec<_> = answers.into_iter().map(|answer| outcome(method, Ok(answer))).collect();
    let is_of_all = |one: &String| ["ok", "EINVAL", "ESPIPE", "ENOENT"].contains(&one.as_str());
    match each.first() {
        Some(first) if is_of_all(first) && each.iter().all(|one| one == first) => first.clone(),
        _ => each.join(" "),
    }
}

/// The input of a batch.
pub fn input(call: &Call) -> Bytes {
    match call.is_alone {
        true => call.requests[0].clone().into(),
        false => nacre_calls::encode_batch(call.byte_limit, &call.requests),
    }
}
