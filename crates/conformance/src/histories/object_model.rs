//! A model of one object, for linearizability checks. Calls replace, append to and read its stream,
//! and set, read and compare its map keys.

use std::collections::BTreeMap;

use super::Model;

/// A call on an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ObjectCall {
    /// Replace the stream.
    Replace(String),
    /// Put this at the end of the stream.
    Append(String),
    /// The whole stream.
    Read,
    /// Set a key.
    Set(String, String),
    /// A key's value.
    Get(String),
    /// Set a key if it has the first value (`None`: if it does not exist).
    CompareAndSet(String, Option<String>, String),
}

/// The answer of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ObjectAnswer {
    /// It is done.
    Done,
    /// To an append: the offset.
    Offset(u64),
    /// The stream; that of an absent object is empty.
    Stream(String),
    /// The key's value.
    Value(Option<String>),
    /// The key does not have the expected value.
    Differs,
}

/// An object.
#[derive(Debug)]
pub struct ObjectModel;

impl Model for ObjectModel {
    type State = (String, BTreeMap<String, String>);
    type Call = ObjectCall;
    type Answer = ObjectAnswer;

    fn step(
        (stream, keys): &Self::State,
        call: &ObjectCall,
        answer: Option<&ObjectAnswer>,
    ) -> Option<Self::State> {
        let with = |key: &String, value: &String| {
            let mut keys = keys.clone();
            keys.insert(key.clone(), value.clone());
            (stream.clone(), keys)
        };
        let unchanged = || (stream.clone(), keys.clone());
        let (expected, next) = match call {
            ObjectCall::Replace(data) => (ObjectAnswer::Done, (data.clone(), keys.clone())),
            ObjectCall::Append(data) => {
                let offset = ObjectAnswer::Offset(stream.len() as u64);
                (offset, (format!("{stream}{data}"), keys.clone()))
            }
            ObjectCall::Read => (ObjectAnswer::Stream(stream.clone()), unchanged()),
            ObjectCall::Set(key, value) => (ObjectAnswer::Done, with(key, value)),
            ObjectCall::Get(key) => (ObjectAnswer::Value(keys.get(key).cloned()), unchanged()),
            ObjectCall::CompareAndSet(key, expected, value)
                if keys.get(key) == expected.as_ref() =>
            {
                (ObjectAnswer::Done, with(key, value))
            }
            ObjectCall::CompareAndSet(..) => (ObjectAnswer::Differs, unchanged()),
        };
        answer.is_none_or(|answer| *answer == expected).then_some(next)
    }
}
