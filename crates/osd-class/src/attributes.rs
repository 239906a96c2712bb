//! The attributes of an object within a transaction.
//!
//! Attributes are small and their number is bounded. So when a transaction needs one attribute, all
//! are read at once.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use nacre_object::Result;
use nacre_rados_layout::Attribute;

use crate::{Change, OsdObject};

/// The attributes as a transaction has made them so far.
#[derive(Debug, Default)]
pub(crate) struct Attributes {
    /// All attributes, once they were read.
    known: Option<BTreeMap<String, Bytes>>,
    changed: BTreeSet<String>,
}

impl Attributes {
    /// No attributes, whatever the OSD stores.
    pub fn none() -> Self {
        Self { known: Some(BTreeMap::new()), changed: BTreeSet::new() }
    }

    /// Whether no attribute was set or removed.
    pub fn are_as_stored(&self) -> bool {
        self.changed.is_empty()
    }

    /// All of them.
    pub fn all(&mut self, object: &mut dyn OsdObject) -> Result<&BTreeMap<String, Bytes>> {
        self.load(object).map(|known| &*known)
    }

    /// Sets one.
    pub fn set(&mut self, name: &str, value: Bytes, object: &mut dyn OsdObject) -> Result<()> {
        self.load(object)?.insert(name.to_owned(), value);
        self.changed.insert(name.to_owned());
        Ok(())
    }

    /// Removes one.
    pub fn remove(&mut self, name: &str, object: &mut dyn OsdObject) -> Result<()> {
        self.load(object)?.remove(name);
        self.changed.insert(name.to_owned());
        Ok(())
    }

    /// The changes that give the stored attributes their new state. If `fresh`, the object has no
    /// stored attributes.
    pub fn changes(mut self, fresh: bool) -> Vec<Change> {
        let mut known = self.known.take().unwrap_or_default();
        let change = |name: String| {
            let value = known.remove(&name);
            let Attribute { stored_name, preamble } = Attribute::named(&name);
            match value {
                Some(value) if preamble.is_empty() => {
                    Some(Change::SetAttribute { name: stored_name, value })
                }
                Some(value) => {
                    let value = [&preamble[..], &value].concat().into();
                    Some(Change::SetAttribute { name: stored_name, value })
                }
                None if fresh => None,
                None => Some(Change::RemoveAttribute(stored_name)),
            }
        };
        self.changed.into_iter().filter_map(change).collect()
    }

    fn load(&mut self, object: &mut dyn OsdObject) -> Result<&mut BTreeMap<String, Bytes>> {
        if self.known.is_none() {
            let ours = |(stored_name, stored_value): (Bytes, Bytes)| {
                let (name, start) = Attribute::read(&stored_name, &stored_value)?;
                Some((name, stored_value.slice(start..)))
            };
            self.known = Some(object.attributes()?.into_iter().filter_map(ours).collect());
        }
        Ok(self.known.get_or_insert_default())
    }
}
