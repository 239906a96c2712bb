//! `ResourceRecord`: which node serves a resource, and which file type it has.
//!
//! The record is JSON under the key `record` of the resource's map. The state is another key of the
//! same map ([`Stored`](crate::Stored)). Each change of record or state is a commit that names the
//! previous epoch of the map.
//!
//! **Invariant:** the store refuses a commit by a node that was replaced, because the claim of its
//! successor has changed the map's epoch. So the claim itself seals the map.

use nacre_host::{Authority, MapRecord, Record, Words};
use nacre_object::{Error, MapName, NodeName, ProgramName, Result};
use serde::{Deserialize, Serialize};

use crate::ResourceName;

const FORMAT: u32 = 1;

/// What is stored of a resource besides its state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceRecord {
    name: ResourceName,
    epoch: u64,
    born: u64,
    file_type: ProgramName,
    is_removed: bool,
    authority: Option<Authority>,
}

/// As it is stored.
#[derive(Serialize, Deserialize)]
struct Document {
    format: u32,
    path: String,
    epoch: u64,
    born: u64,
    file_type: String,
    #[serde(default)]
    removed: bool,
    node: Option<String>,
    #[serde(default)]
    node_epoch: u64,
    #[serde(default)]
    claim: u64,
}

impl ResourceRecord {
    /// Makes the first record of a resource. `before` is the last record of a removed resource of
    /// the same name.
    pub fn first(name: ResourceName, file_type: ProgramName, before: Option<&Self>) -> Self {
        let epoch = before.map_or(0, |before| before.epoch) + 1;
        Self { name, epoch, born: epoch, file_type, is_removed: false, authority: None }
    }

    /// The record that removes the resource.
    #[must_use]
    pub fn removed(&self) -> Self {
        Self { epoch: self.epoch + 1, is_removed: true, authority: None, ..self.clone() }
    }

    /// The file type: a program of kind `filetype`.
    pub fn file_type(&self) -> &ProgramName {
        &self.file_type
    }
}

impl Record for ResourceRecord {
    type Name = ResourceName;
    const WORDS: Words = Words { thing: "resource", authority: "authority", record: "record" };

    fn name(&self) -> &ResourceName {
        &self.name
    }

    fn epoch(&self) -> u64 {
        self.epoch
    }

    fn born(&self) -> u64 {
        self.born
    }

    fn is_removed(&self) -> bool {
        self.is_removed
    }

    fn authority(&self) -> Option<&Authority> {
        self.authority.as_ref()
    }

    fn claimed_by(&self, node: NodeName, claim: u64) -> Self {
        let epoch = self.epoch + 1;
        Self { epoch, authority: Some(Authority { node, epoch, claim }), ..self.clone() }
    }

    fn not_found(name: &ResourceName) -> Error {
        Error::not_found(format!("there is no resource {name}"))
            .hint(format!("make it: nacre resource create {name} --type FILETYPE"))
    }
}

impl MapRecord for ResourceRecord {
    const KEY: &'static str = "record";

    fn encode(&self) -> Vec<u8> {
        let (node, node_epoch, claim) = match &self.authority {
            Some(Authority { node, epoch, claim }) => (Some(node.to_string()), *epoch, *claim),
            None => (None, 0, 0),
        };
        let document = Document {
            format: FORMAT,
            path: self.name.to_string(),
            epoch: self.epoch,
            born: self.born,
            file_type: self.file_type.to_string(),
            removed: self.is_removed,
            node,
            node_epoch,
            claim,
        };
        serde_json::to_vec(&document).expect("a record has nothing that JSON lacks")
    }

    fn decode(encoded: &[u8]) -> Result<Self> {
        let senseless = |cause: String| {
            Error::corrupt(format!("the stored record of a resource is damaged: {cause}"))
        };
        let document: Document =
            serde_json::from_slice(encoded).map_err(|cause| senseless(cause.to_string()))?;
        if document.format != FORMAT {
            let text = format!("a resource's record has format {}", document.format);
            return Err(Error::unsupported(text).hint("use a newer nacre"));
        }
        let parsed = |cause: Error| senseless(cause.to_string());
        let (epoch, claim) = (document.node_epoch, document.claim);
        let node = document.node.map(NodeName::new).transpose().map_err(parsed)?;
        Ok(Self {
            name: ResourceName::new(&document.path).map_err(parsed)?,
            epoch: document.epoch,
            born: document.born,
            file_type: document.file_type.parse().map_err(parsed)?,
            is_removed: document.removed,
            authority: node.map(|node| Authority { node, epoch, claim }),
        })
    }

    fn map(name: &ResourceName) -> &MapName {
        name.map()
    }

    fn of_map(map: &MapName) -> Option<ResourceName> {
        ResourceName::of_map(map)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Format 1: changing it breaks resources that exist.
    const SAMPLE: &str = r#"{"format":1,"path":"/seq/orders","epoch":3,"born":1,"file_type":"ids","removed":false,"node":"meta.0","node_epoch":3,"claim":7}"#;

    #[test]
    fn the_stored_form_is_the_one_of_format_1() {
        let name = ResourceName::new("/seq/orders").unwrap();
        let first = ResourceRecord::first(name, "ids".parse().unwrap(), None);
        let claimed = first.claimed_by("meta.1".parse().unwrap(), 5);
        let claimed = claimed.claimed_by("meta.0".parse().unwrap(), 7);
        assert_eq!(String::from_utf8(claimed.encode()).unwrap(), SAMPLE);
        assert_eq!(ResourceRecord::decode(SAMPLE.as_bytes()).unwrap(), claimed);
    }

    #[test]
    fn a_recreated_resource_continues_the_epochs() {
        let name = ResourceName::new("/a").unwrap();
        let removed = ResourceRecord::first(name.clone(), "ids".parse().unwrap(), None).removed();
        let again = ResourceRecord::first(name, "lock".parse().unwrap(), Some(&removed));
        assert_eq!((again.epoch(), again.born(), again.is_removed()), (3, 3, false));
    }

    #[test]
    fn an_invalid_record_is_corrupt() {
        for stored in ["", "{}", r#"{"format":1}"#, &SAMPLE.replace("/seq", "seq")] {
            let error = ResourceRecord::decode(stored.as_bytes()).unwrap_err();
            assert_eq!(error.kind(), nacre_object::ErrorKind::Corrupt, "{stored}");
        }
        let later = SAMPLE.replace("\"format\":1", "\"format\":2");
        let error = ResourceRecord::decode(later.as_bytes()).unwrap_err();
        assert_eq!(error.kind(), nacre_object::ErrorKind::Unsupported);
    }
}
