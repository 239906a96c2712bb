//! Encodes calls of the class `lua`, which run a script that the call contains. There are two
//! encodings, those of Ceph's `cls_lua`.
//!
//! - `eval_json`: a JSON object with the strings `script` and `handler` and optionally `input`.
//!   Like Ceph's parser, this one accepts a comma before a closing bracket, and control characters
//!   within strings.
//! - `eval_bufferlist`: Ceph's encoding of a versioned struct. First come a `u8` version, which is
//!   1, a `u8` oldest version that may read it, and a `u32` length of the following bytes. Then
//!   come script, handler and input, each as `u32` length and bytes. All numbers are little-endian.

use bytes::{Buf, BufMut, Bytes};
use nacre_object::{Error, Result};
use serde_json::{Map, Value};

/// The name of the built-in class.
pub const LUA_CLASS: &str = "lua";
/// Its method that takes JSON.
pub const EVAL_JSON: &str = "eval_json";
/// Its method that takes Ceph's binary encoding.
pub const EVAL_BUFFERLIST: &str = "eval_bufferlist";

/// The version of the struct that this code writes. It is also the newest version that this code
/// reads.
const STRUCT_VERSION: u8 = 1;

/// A script with the handler to call in it and the input to give it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EvalRequest {
    /// The source.
    pub script: Bytes,
    /// The global function to call; empty to execute the source alone.
    pub handler: String,
    /// What the handler is given.
    pub input: Bytes,
}

impl EvalRequest {
    /// As the input of `eval_bufferlist`.
    pub fn to_bufferlist(&self) -> Bytes {
        let fields = [&self.script[..], self.handler.as_bytes(), &self.input[..]];
        let length: usize = fields.iter().map(|field| 4 + field.len()).sum();
        let mut encoded = Vec::with_capacity(6 + length);
        encoded.put_u8(STRUCT_VERSION);
        encoded.put_u8(STRUCT_VERSION);
        encoded.put_u32_le(length as u32);
        for field in fields {
            encoded.put_u32_le(field.len() as u32);
            encoded.put_slice(field);
        }
        encoded.into()
    }

    /// Encodes the request as the input of `eval_json`.
    ///
    /// # Errors
    /// `Invalid` if the script or the input is not UTF-8, because JSON cannot contain it then.
    pub fn to_json(&self) -> Result<Bytes> {
        let text = |bytes: &Bytes| {
            String::from_utf8(bytes.to_vec()).map_err(|_| {
                Error::invalid("the script or its input is not UTF-8, and JSON cannot contain it")
                    .hint(format!("use {EVAL_BUFFERLIST}"))
            })
        };
        let object = serde_json::json!({
            "script": text(&self.script)?,
            "handler": self.handler,
            "input": text(&self.input)?,
        });
        Ok(object.to_string().into())
    }

    /// Decodes a request from the input of `eval_json`.
    ///
    /// # Errors
    /// `Invalid` if the input is not such a request.
    pub fn from_json(input: &[u8]) -> Result<Self> {
        // Ceph reads the input as a C string.
        let text = input.split(|byte| *byte == 0).next().unwrap_or_default();
        let text = std::str::from_utf8(text).map_err(|_| Error::invalid("JSON must be UTF-8"))?;
        let object: Map<String, Value> = serde_json::from_str(&tolerated(text))
            .map_err(|error| Error::invalid(format!("the input is not a JSON object: {error}")))?;
        let text_of = |name: &str| match object.get(name) {
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(_) => Err(Error::invalid(format!("the field {name:?} is not a string"))),
            None => Ok(None),
        };
        let missing = |name: &str| Error::invalid(format!("the field {name:?} is missing"));
        Ok(Self {
            script: text_of("script")?.ok_or_else(|| missing("script"))?.into(),
            handler: text_of("handler")?.ok_or_else(|| missing("handler"))?,
            input: text_of("input")?.unwrap_or_default().into(),
        })
    }

    /// Decodes a request from the input of `eval_bufferlist`.
    ///
    /// # Errors
    /// `Invalid` if the input is not such a request.
    pub fn from_bufferlist(mut input: Bytes) -> Result<Self> {
        let truncated = |_| Error::invalid("the encoded script ends early");
        input.try_get_u8().map_err(truncated)?;
        let oldest_reader = input.try_get_u8().map_err(truncated)?;
        if oldest_reader > STRUCT_VERSION {
            let text = format!("the encoded script needs a reader of version {oldest_reader}");
            return Err(Error::invalid(text));
        }
        // Later versions append fields, so skip the rest of the struct.
        let mut body = take(&mut input)?;
        let script = take(&mut body)?;
        let handler = String::from_utf8_lossy(&take(&mut body)?).into_owned();
        Ok(Self { script, handler, input: take(&mut body)? })
    }
}

/// Bytes with their length before them.
fn take(from: &mut Bytes) -> Result<Bytes> {
    let length = from.try_get_u32_le().map(|length| length as usize);
    match length {
        Ok(length) if length <= from.len() => Ok(from.split_to(length)),
        _ => Err(Error::invalid("the encoded script ends early")),
    }
}

/// Strict JSON from what Ceph's parser accepts.
fn tolerated(text: &str) -> String {
    let mut strict = String::with_capacity(text.len());
    let (mut in_string, mut escaped) = (false, false);
    for (at, c) in text.char_indices() {
        if in_string {
            in_string = escaped || c != '"';
            escaped = !escaped && c == '\\';
        } else {
            in_string = c == '"';
        }
        let rest = || text[at + 1..].trim_start();
        match c {
            ',' if !in_string && rest().starts_with(['}', ']']) => {}
            c if in_string && c.is_ascii_control() => {
                strict.push_str(&format!("\\u{:04x}", u32::from(c)));
            }
            c => strict.push(c),
        }
    }
    strict
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> EvalRequest {
        EvalRequest { script: "x".into(), handler: "h".into(), input: "in\n".into() }
    }

    #[test]
    fn a_script_request_can_be_encoded_and_decoded_both_ways() {
        let request = sample();
        assert_eq!(EvalRequest::from_bufferlist(request.to_bufferlist()).unwrap(), request);
        assert_eq!(EvalRequest::from_json(&request.to_json().unwrap()).unwrap(), request);
    }

    #[test]
    fn the_binary_encoding_equals_that_of_ceph() {
        let expected = b"\x01\x01\x11\0\0\0\x01\0\0\0x\x01\0\0\0h\x03\0\0\0in\n";
        assert_eq!(&sample().to_bufferlist()[..], expected);
        // A later version with more fields, and something after the struct.
        let later = b"\x02\x01\x0f\0\0\0\x01\0\0\0x\0\0\0\0\0\0\0\0NNtail";
        let read = EvalRequest::from_bufferlist(Bytes::from_static(later)).unwrap();
        assert_eq!((&read.script[..], read.handler.as_str()), (&b"x"[..], ""));
    }

    #[test]
    fn every_truncated_script_request_is_refused() {
        let whole = sample().to_bufferlist();
        for end in 0..whole.len() {
            assert!(EvalRequest::from_bufferlist(whole.slice(..end)).is_err(), "{end} bytes");
        }
        assert!(EvalRequest::from_bufferlist(Bytes::from_static(b"\x02\x02\0\0\0\0")).is_err());
    }

    #[test]
    fn json_is_read_as_leniently_as_ceph_does_and_no_more() {
        let lenient = "{ \"script\": \"a,\n}\\\",]\", \"handler\": \"h\" ,\n}";
        let read = EvalRequest::from_json(lenient.as_bytes()).unwrap();
        assert_eq!(&read.script[..], b"a,\n}\",]");
        assert!(EvalRequest::from_json(b"{\"script\":\"x\",\"handler\":\"h\"}\0rubbish").is_ok());
        for wrong in [
            "",
            "[]",
            "\"x\"",
            "{}",
            "{\"script\":\"x\"}",
            "{\"handler\":\"x\"}",
            "{\"script\":1,\"handler\":\"h\"}",
            "{\"script\":\"x\",\"handler\":{}}",
            "{\"script\":\"x\",\"handler\":\"h\",\"input\":5}",
            "{\"script\":\"x\" \"handler\":\"h\"}",
            "{,}",
        ] {
            assert!(EvalRequest::from_json(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }
}
