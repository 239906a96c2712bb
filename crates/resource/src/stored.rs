//! `Stored`: the stored state of a resource, with the last answers to its clients.

use std::collections::BTreeMap;

#[cfg(feature = "programs")]
use bytes::Bytes;
use nacre_object::{Error, Result};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::limits::{MAX_REMEMBERED_BYTES, MAX_REMEMBERED_CLIENTS};

/// The key of the state in the resource's map.
pub(crate) const STATE_KEY: &str = "state";

/// The state of a resource with the last answers to its clients: JSON under the key `state` of its
/// map.
///
/// **Invariant:** the answer to a call that changed the state is stored with the change. If a
/// client repeats the call, any authority gives it the same answer and does not run the method
/// again. If the file type repairs its state after a failure (`Survival::Recovered`), this holds
/// only while the authority lives: changes that were not stored are lost with their answers.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Stored {
    /// The epoch at which the resource was created. A state with another epoch belongs to an
    /// earlier resource of the same name, and is ignored.
    pub born: u64,
    /// Counts the changes.
    pub version: u64,
    /// The version of the file type that made the last change. Older versions do not run on this
    /// state.
    pub type_version: u64,
    /// The state.
    pub state: Value,
    /// Whether this state may lack changes that were answered. The file type then has a recovery
    /// function, which the next authority runs before any method.
    #[serde(default, skip_serializing_if = "is_false")]
    pub is_behind: bool,
    /// Whether clients may hold capabilities. If so, the next authority answers no request until
    /// the leases of the capabilities are over.
    #[serde(default, skip_serializing_if = "is_false")]
    pub is_lent: bool,
    /// The last answer of each client that changed the state.
    #[serde(default)]
    pub told: BTreeMap<String, Told>,
    /// What the last answers take.
    #[serde(skip)]
    pub(crate) told_bytes: usize,
}

/// The last answer to a client.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Told {
    /// The number of its call.
    pub call: u64,
    /// The change that the call made.
    pub version: u64,
    /// The output.
    pub output: Value,
}

fn is_false(flag: &bool) -> bool {
    !flag
}

impl Stored {
    /// Returns the answer to this call of the client, if the call was answered before.
    ///
    /// # Errors
    /// `Conflict` if a later call of the client was answered since. The client then no longer waits
    /// for this call.
    pub fn told(&self, client: &str, call: u64) -> Result<Option<&Told>> {
        match self.told.get(client) {
            Some(told) if told.call == call => Ok(Some(told)),
            Some(told) if told.call > call => Err(Error::conflict(format!(
                "call {call} is no longer valid: a later call of this client was answered"
            ))),
            _ => Ok(None),
        }
    }

    /// Makes a change, and remembers its answer. If there are too many clients, forgets the client
    /// whose last answer is oldest.
    pub fn change(
        &mut self,
        state: Value,
        type_version: u64,
        client: &str,
        call: u64,
        output: Value,
    ) {
        self.version += 1;
        (self.state, self.type_version) = (state, type_version);
        let told = Told { call, version: self.version, output };
        self.told_bytes += told.bytes(client);
        if let Some(before) = self.told.insert(client.to_owned(), told) {
            self.told_bytes -= before.bytes(client);
        }
        while self.told.len() > MAX_REMEMBERED_CLIENTS || self.told_bytes > MAX_REMEMBERED_BYTES {
            let oldest = self.told.iter().min_by_key(|(_, told)| told.version);
            let Some(oldest) = oldest.map(|(client, _)| client.clone()) else { break };
            if let Some(forgotten) = self.told.remove(&oldest) {
                self.told_bytes -= forgotten.bytes(&oldest);
            }
        }
    }

    #[cfg(feature = "programs")]
    pub(crate) fn encode(&self) -> Bytes {
        serde_json::to_vec(self).expect("a state has nothing that JSON lacks").into()
    }

    /// # Errors
    /// `Corrupt`.
    pub(crate) fn decode(stored: &[u8]) -> Result<Self> {
        let mut decoded: Self = serde_json::from_slice(stored).map_err(|cause| {
            Error::corrupt(format!("the stored state of the resource is damaged: {cause}"))
                .hint("remove the resource and create it again")
        })?;
        decoded.told_bytes = decoded.told.iter().map(|(client, told)| told.bytes(client)).sum();
        Ok(decoded)
    }
}

/// How many bytes of JSON a remembered answer takes besides its client's name and its output:
/// quotes, names of fields and two numbers.
const TOLD_OVERHEAD_BYTES: usize = 80;

impl Told {
    /// What it takes in JSON, at most.
    fn bytes(&self, client: &str) -> usize {
        TOLD_OVERHEAD_BYTES + client.len() + self.output.to_string().len()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::limits::{MAX_STATE_BYTES, MAX_WRITE_OUTPUT_BYTES};

    #[test]
    fn a_repeated_call_gets_the_same_answer() {
        let mut stored = Stored::default();
        stored.change(json!(1), 1, "a", 7, json!("seven"));
        stored.change(json!(2), 1, "b", 1, json!("one"));
        assert_eq!(stored.told("a", 7).unwrap().map(|told| &told.output), Some(&json!("seven")));
        assert_eq!(stored.told("a", 8).unwrap(), None);
        assert_eq!(stored.told("a", 6).unwrap_err().kind(), nacre_object::ErrorKind::Conflict);
        assert_eq!(stored.told("c", 1).unwrap(), None);
        assert_eq!(Stored::decode(&stored.encode()).unwrap(), stored);
    }

    #[test]
    fn the_largest_state_with_the_largest_answers_fits_into_one_value_of_a_map() {
        let mut stored = Stored::default();
        let state = json!("x".repeat(MAX_STATE_BYTES - 2));
        for client in 0..=MAX_REMEMBERED_CLIENTS {
            let client = format!("{}/{client:016x}", "e".repeat(64));
            let output = json!("o".repeat(MAX_WRITE_OUTPUT_BYTES - 2));
            stored.change(state.clone(), u64::MAX, &client, u64::MAX, output);
            assert!(stored.told(&client, u64::MAX).unwrap().is_some(), "the last is remembered");
        }
        assert!(stored.encode().len() <= nacre_registry::limits::MAX_VALUE_BYTES);
        let decoded = Stored::decode(&stored.encode()).unwrap();
        assert_eq!(decoded, stored);
    }

    #[test]
    fn the_client_that_was_answered_longest_ago_is_forgotten() {
        let mut stored = Stored::default();
        for client in 0..=MAX_REMEMBERED_CLIENTS {
            stored.change(json!(client), 1, &format!("client-{client:04}"), 1, Value::Null);
        }
        assert_eq!(stored.told.len(), MAX_REMEMBERED_CLIENTS);
        assert_eq!(stored.told("client-0000", 1).unwrap(), None);
        assert!(stored.told("client-0001", 1).unwrap().is_some());
    }
}
