//! Snapshots of an object: copies of its table entries that share its payloads.
//!
//! A snapshot's entries are written once, when it is taken, and stay the same until it is dropped.
//! So a clone into an object of another shard reads them from the tables, and need not ask the
//! shard of the source. The clone finds the whole snapshot, or nothing if the snapshot was just
//! dropped. Until the clone's references to shared payloads are counted, a pin keeps the payloads'
//! segments.

use nacre_object::limits::MAX_SNAPSHOTS;
use nacre_object::{Error, ObjectId, ObjectName, Result, SnapshotName};

use super::{Mode, Transaction, no_snapshot, read_head};
use crate::entry::head::{Content, Head};
use crate::entry::key;
use crate::entry::layers::Direction;
use crate::entry::value::Value;
use crate::errors;

impl Transaction<'_> {
    pub(super) fn take_snapshot(&mut self, name: &SnapshotName) -> Result<()> {
        let content = self.existing()?.clone();
        self.check_writable()?;
        let taken = self.list_snapshots()?;
        if taken.contains(name) {
            return Err(Error::exists(format!("the object already has a snapshot {name}")));
        }
        if taken.len() >= MAX_SNAPSHOTS {
            return Err(Error::exhausted(format!(
                "the object already has {MAX_SNAPSHOTS} snapshots, the most it can have"
            ))
            .hint("remove a snapshot first"));
        }
        let content = self.copy_content(&content)?;
        let (version, modified_micros) = match self.mode {
            // The snapshot shows this transaction's changes, so it has the version that the
            // transaction will make.
            Mode::Write { sequence, now_micros, .. } if self.is_changed => (sequence, now_micros),
            _ => (self.version, self.modified_micros),
        };
        let head = Head { version, modified_micros, content };
        self.layers.put(key::snapshot(self.object, name), Value::Inline(head.encode()));
        Ok(())
    }

    pub(super) fn drop_snapshot(&mut self, name: &SnapshotName) -> Result<()> {
        self.check_writable()?;
        let key = key::snapshot(self.object, name);
        let content = read_head(&self.layers, &key)?.ok_or_else(|| no_snapshot(name))?.content;
        for node in [content.stream, content.map, content.attributes].into_iter().flatten() {
            self.drop_node(node)?;
        }
        self.layers.delete(key);
        Ok(())
    }

    pub(super) fn list_snapshots(&self) -> Result<Vec<SnapshotName>> {
        let prefix = key::snapshot_prefix(self.object);
        let entries = self.layers.scan_prefix(&prefix, Direction::Forward);
        entries
            .map(|entry| {
                let (key, _) = entry?;
                let name = std::str::from_utf8(&key[prefix.len()..]).ok();
                name.and_then(|name| SnapshotName::new(name).ok()).ok_or_else(|| {
                    Error::corrupt("a stored snapshot has an invalid name")
                        .hint(errors::FIND_DAMAGE)
                })
            })
            .collect()
    }

    pub(super) fn roll_back(&mut self, name: &SnapshotName) -> Result<()> {
        let key = key::snapshot(self.object, name);
        let head = read_head(&self.layers, &key)?.ok_or_else(|| no_snapshot(name))?;
        let old = std::mem::take(self.writing()?);
        for node in [old.stream, old.map, old.attributes].into_iter().flatten() {
            self.drop_node(node)?;
        }
        self.become_copy_of(&head.content)
    }

    pub(super) fn clone_content(&mut self, source: &ObjectName, name: &SnapshotName) -> Result<()> {
        if self.content.is_some() {
            return Err(Error::exists("the object already exists"));
        }
        let content = self.snapshot_of(source, name)?;
        self.writing()?;
        self.become_copy_of(&content)
    }

    pub(super) fn replace_stream_from(
        &mut self,
        source: &ObjectName,
        name: &SnapshotName,
    ) -> Result<()> {
        let from = self.snapshot_of(source, name)?;
        self.writing()?;
        self.empty_stream()?;
        let stream = self.copy_stream(&from)?;
        let content = self.writing()?;
        if stream.is_some() {
            content.stream = stream;
        }
        content.size = from.size;
        content.whole = from.whole;
        Ok(())
    }

    /// The content of another object's snapshot.
    fn snapshot_of(&self, source: &ObjectName, name: &SnapshotName) -> Result<Content> {
        let source = ObjectId::new(self.object.pool.clone(), source.clone());
        let head = read_head(&self.layers, &key::snapshot(&source, name))?
            .ok_or_else(|| Error::not_found(format!("no snapshot {name} of {}", source.name)))?;
        Ok(head.content)
    }

    fn become_copy_of(&mut self, content: &Content) -> Result<()> {
        let copy = self.copy_content(content)?;
        *self.writing()? = copy;
        Ok(())
    }
}
