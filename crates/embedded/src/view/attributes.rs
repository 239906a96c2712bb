//! The attributes of an object. There are few, and they are mostly read together.

use bytes::Bytes;
use nacre_object::{Error, Result, bounds};

use super::Transaction;
use crate::entry::key;
use crate::entry::layers::Direction;
use crate::entry::value::Value;
use crate::errors;

impl Transaction<'_> {
    pub(super) fn get_attribute(&self, name: &str) -> Result<Option<Bytes>> {
        bounds::check_attribute_name(name)?;
        let Some(node) = self.existing()?.attributes else { return Ok(None) };
        let value = self.layers.get(&key::attribute(node, name))?;
        value.map(|value| self.load(&value)).transpose()
    }

    pub(super) fn all_attributes(&self) -> Result<Vec<(String, Bytes)>> {
        let Some(node) = self.existing()?.attributes else { return Ok(Vec::new()) };
        let entries = self.layers.scan_prefix(&key::attribute_prefix(node), Direction::Forward);
        entries
            .map(|entry| {
                let (key, value) = entry?;
                let name = String::from_utf8(key::suffix(&key).to_vec()).map_err(|_| {
                    Error::corrupt("the name of a stored attribute is not UTF-8")
                        .hint(errors::FIND_DAMAGE)
                })?;
                Ok((name, self.load(&value)?))
            })
            .collect()
    }

    pub(super) fn put_attribute(&mut self, name: &str, value: Bytes) -> Result<()> {
        bounds::check_attribute_name(name)?;
        bounds::check_attribute_value(&value)?;
        let node = self.content.as_ref().and_then(|content| content.attributes);
        let old = match node {
            Some(node) => self.layers.get(&key::attribute(node, name))?,
            None => None,
        };
        if old.is_none() {
            let count = self.content.as_ref().map_or(0, |content| content.attribute_count);
            bounds::check_attribute_count(count as usize + 1)?;
        }
        self.charge(name.len() + value.len())?;
        self.writing()?;
        let node = node.unwrap_or_else(|| self.new_node());
        let key = key::attribute(node, name);
        if let Some(old) = &old {
            self.release(&key, old.pieces());
        }
        let content = self.writing()?;
        content.attributes = Some(node);
        content.attribute_count += u32::from(old.is_none());
        self.layers.put(key, Value::of(value));
        Ok(())
    }

    pub(super) fn delete_attribute(&mut self, name: &str) -> Result<()> {
        bounds::check_attribute_name(name)?;
        let absent = || Error::not_found(format!("no attribute {name:?}"));
        let node = self.existing()?.attributes.ok_or_else(absent)?;
        let key = key::attribute(node, name);
        let old = self.layers.get(&key)?.ok_or_else(absent)?;
        self.charge(name.len())?;
        self.changing()?.attribute_count -= 1;
        self.release(&key, old.pieces());
        self.layers.delete(key);
        Ok(())
    }
}
