//! Collects garbage of programs: first versions, then sources. `nacre program gc` and nodes use it.
//!
//! A version is garbage if a newer version superseded it and rollbacks cannot reach it
//! ([`ProgramRecord::superseded`]).
//!
//! A source is garbage if no version of any program names it. A `put` of the same source may run at
//! the same time, so the order of steps matters. The collector first reads the version of the
//! source's object, then the records of all programs. It removes the object only if its version is
//! still the same.
//! - If the put stores the source after the collector read the object's version, the version has
//!   changed and the source stays.
//! - If the put stored the source earlier but has not committed yet, the source is safe because the
//!   collector keeps objects younger than [`MIN_AGE`].
//! - A put that takes longer than `MIN_AGE` stores the source again before it commits.
//!
//! **Invariant:** every source that a record names exists, even if the record cannot be read. A
//! commit removes versions from their records before their sources are removed. So a crash leaves
//! only garbage that the next collection finds.

use std::collections::HashSet;
use std::time::Duration;

use nacre_object::{Error, ErrorKind, ListRequest, Op, OpResult, PoolName, Result};
use nacre_program::Digest;

use super::handle::{Programs, named_unreadably, programs_map, readable_records};
use super::source::{SOURCE_OBJECT_PREFIX, object};
use super::{ProgramId, ProgramRecord};
use crate::limits::MAX_COLLECTED_SOURCES;

/// The collector keeps sources younger than this, because a put stores its source before it commits
/// the record that names the source. A put takes seconds; the rest of the hour allows for
/// differences between clocks.
pub(super) const MIN_AGE: Duration = Duration::from_secs(3600);

/// Sources that are looked at before the records are read again.
const SWEEP_PAGE: usize = 256;

/// Versions and sources that are not needed any more.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Garbage {
    /// Versions, by program.
    pub versions: Vec<(ProgramId, u64)>,
    /// Sources that no other version names.
    pub sources: Vec<SourceObject>,
    /// Whether the collection stopped at its bound and more garbage may be left.
    pub more: bool,
}

/// A stored source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceObject {
    /// Its digest.
    pub digest: Digest,
    /// Its length in bytes.
    pub bytes: u64,
    /// The version of its object.
    version: u64,
}

/// Whether a collection happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Collection {
    Foreseen,
    Done,
}

impl Programs {
    /// Returns what [`Programs::collect`] would remove now. Changes nothing.
    ///
    /// # Errors
    /// `Unavailable`; `Corrupt`; `Denied`; `Unsupported` if the store cannot list.
    pub async fn garbage(&self) -> Result<Garbage> {
        let records = readable_records(&self.maps().get(&programs_map()).await?);
        let of = |(program, record): (&ProgramId, &ProgramRecord)| {
            let superseded = record.superseded().into_iter();
            superseded.map(|version| (program.clone(), version)).collect::<Vec<_>>()
        };
        let versions = records.iter().flat_map(of).collect();
        let (sources, more) = self.sweep(Collection::Foreseen).await?;
        Ok(Garbage { versions, sources, more })
    }

    /// Removes superseded versions that rollbacks cannot reach, and a bounded number of sources
    /// that no version names. Returns what it removed.
    ///
    /// # Errors
    /// Errors of [`Programs::garbage`] and [`Maps::update`](crate::Maps::update). Whatever it
    /// removed before the error stays removed.
    pub async fn collect(&self) -> Result<Garbage> {
        let mut versions = Vec::new();
        let records = readable_records(&self.maps().get(&programs_map()).await?);
        for (program, _) in
            records.into_iter().filter(|(_, record)| !record.superseded().is_empty())
        {
            let drop_superseded = |record: &mut ProgramRecord, _| Ok(record.drop_superseded());
            let (_, dropped) = self.change(&program, drop_superseded).await?;
            versions.extend(dropped.into_iter().map(|version| (program.clone(), version)));
        }
        let (sources, more) = self.sweep(Collection::Done).await?;
        Ok(Garbage { versions, sources, more })
    }

    /// Goes through all stored sources, page by page, and removes those that no record names.
    /// Returns the removed sources, and whether it stopped before the last page.
    async fn sweep(&self, collection: Collection) -> Result<(Vec<SourceObject>, bool)> {
        let mut collected = Vec::new();
        let mut request = ListRequest {
            pool: PoolName::system(),
            after: None,
            prefix: SOURCE_OBJECT_PREFIX.to_owned(),
            limit: SWEEP_PAGE,
        };
        loop {
            let page = self.maps().system().store().list(request.clone()).await?;
            let mut old = Vec::new();
            for name in &page.names {
                let digest = name
                    .as_str()
                    .strip_prefix(SOURCE_OBJECT_PREFIX)
                    .and_then(|text| text.parse().ok());
                if let Some(digest) = digest {
                    old.extend(self.old_source(digest).await?);
                }
            }
            let named = self.named(collection).await?;
            for source in old.into_iter().filter(|source| !named.contains(&source.digest)) {
                if collection == Collection::Foreseen || self.remove_source(&source).await? {
                    collected.push(source);
                }
            }
            request.after = page.names.last().cloned();
            if !page.more || collected.len() >= MAX_COLLECTED_SOURCES {
                return Ok((collected, page.more));
            }
        }
    }

    /// What the records name, or will once superseded versions are gone.
    async fn named(&self, collection: Collection) -> Result<HashSet<Digest>> {
        let state = self.maps().get(&programs_map()).await?;
        let mut records = readable_records(&state);
        if collection == Collection::Foreseen {
            records.values_mut().for_each(|record| drop(record.drop_superseded()));
        }
        let versions = records.values().flat_map(|record| record.versions.values());
        Ok(versions.map(|version| version.digest).chain(named_unreadably(&state)).collect())
    }

    async fn old_source(&self, digest: Digest) -> Result<Option<SourceObject>> {
        let looked = self.maps().system().submit(&object(&digest), vec![Op::Stat]).await;
        let stat = match looked.map(|results| results.into_iter().next()) {
            Ok(Some(OpResult::Stat(stat))) => stat,
            Ok(_) => return Err(Error::corrupt("the store did not answer a stat with a version")),
            // Another node is collecting.
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let age = self.clock().now_micros().saturating_sub(stat.modified_micros);
        let is_old = Duration::from_micros(age) > MIN_AGE;
        Ok(is_old.then_some(SourceObject { digest, bytes: stat.size, version: stat.version }))
    }

    /// Removes a source if its object has not changed since the collector read the object's
    /// version. Returns whether it was removed.
    async fn remove_source(&self, source: &SourceObject) -> Result<bool> {
        let ops = vec![Op::AssertVersion(source.version), Op::Remove];
        match self.maps().system().submit(&object(&source.digest), ops).await {
            Ok(_) => Ok(true),
            // The source was put again, or another node is collecting.
            Err(error) if matches!(error.kind(), ErrorKind::Conflict | ErrorKind::NotFound) => {
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }
}
