//! Rows of classes in Brados, on the command line.

use std::str::FromStr;

use bytes::Bytes;
use nacre::{CallReply, StripedReply};
use nacre_brados::{Value, shown_reply};
use nacre_calls::{OutputRows, decode_reply, encode_request};
use nacre_object::{Error, Result};

use crate::out::Out;

/// A request's row, written as a JSON array.
#[derive(Debug, Clone)]
pub struct Row(Vec<Value>);

/// How many characters of a malformed row an error message shows.
const MAX_SHOWN_CHARACTERS: usize = 80;

impl Row {
    /// Its values.
    pub fn values(&self) -> &[Value] {
        &self.0
    }

    /// The request.
    pub fn encoded(&self) -> Bytes {
        encode_request(&self.0).into()
    }
}

impl FromStr for Row {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let wrong = || {
            let shown: String = text.chars().take(MAX_SHOWN_CHARACTERS).collect();
            let more = if shown.len() < text.len() { "…" } else { "" };
            Error::invalid(format!("{shown:?}{more} is not a row"))
                .hint("write a JSON array of whole numbers, strings, true, false and null")
        };
        let values: Vec<serde_json::Value> = serde_json::from_str(text).map_err(|_| wrong())?;
        let value = |value: serde_json::Value| match value {
            serde_json::Value::Null => Some(Value::Nil),
            serde_json::Value::Bool(value) => Some(Value::Bool(value)),
            serde_json::Value::Number(number) => number.as_i64().map(Value::Int),
            serde_json::Value::String(text) => Some(Value::text(&text)),
            _ => None,
        };
        values.into_iter().map(value).collect::<Option<_>>().map(Self).ok_or_else(wrong)
    }
}

/// Prints the reply of a class in Brados: one row a line, or one JSON object with all rows.
pub fn show_rows(reply: &CallReply, out: Out) -> Result<()> {
    let outputs = decode_reply(&reply.output).map_err(|error| {
        Error::invalid(error.to_string()).hint("check that the class is written in Brados")
    })?;
    out.show(&outputs_as_json(&outputs), || lines(&outputs).join("\n"))
}

/// Prints the replies of an object's stripes: first the rows that combine all stripes, then the
/// rows of single stripes, each with the name of its stripe.
pub fn show_striped(reply: &StripedReply, out: Out) -> Result<()> {
    let mut json = outputs_as_json(&reply.outputs);
    let apart: serde_json::Map<_, _> = reply
        .apart
        .iter()
        .map(|(stripe, outputs)| (stripe.clone(), outputs_as_json(outputs).into()))
        .collect();
    if !apart.is_empty() {
        json.insert("stripes".to_owned(), apart.into());
    }
    out.show(&json, || {
        let of_each = reply.apart.iter().flat_map(|(stripe, outputs)| {
            lines(outputs).into_iter().map(move |line| format!("{stripe}: {line}"))
        });
        lines(&reply.outputs).into_iter().chain(of_each).collect::<Vec<_>>().join("\n")
    })
}

/// A row as a JSON array.
pub fn row_as_json(row: &[Value]) -> serde_json::Value {
    row.iter().map(as_json).collect()
}

fn outputs_as_json(outputs: &[OutputRows]) -> serde_json::Map<String, serde_json::Value> {
    outputs
        .iter()
        .map(|(name, rows)| {
            let rows = rows.iter().map(|row| row.iter().map(as_json).collect());
            (name.clone(), serde_json::Value::Array(rows.collect()))
        })
        .collect()
}

fn lines(outputs: &[OutputRows]) -> Vec<String> {
    let rows = outputs.iter().flat_map(|(name, rows)| {
        rows.iter().map(|row| shown_reply(&[(name.clone(), vec![row.clone()])]))
    });
    rows.collect()
}

/// Bytes that are no text are shown as an array of numbers.
fn as_json(value: &Value) -> serde_json::Value {
    match value {
        Value::Nil => serde_json::Value::Null,
        Value::Bool(value) => (*value).into(),
        Value::Int(value) => (*value).into(),
        Value::Bytes(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => text.into(),
            Err(_) => bytes.clone().into(),
        },
    }
}
