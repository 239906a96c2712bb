//! Collecting what of programs nobody needs any more: versions, then sources.
//!
//! A version goes if it was superseded and is out of reach of rollbacks ([`ProgramRecord::superseded`]).
//! A source goes if no version of any program names it, which is decided against a `put` of the same
//! source that is under way: the object is looked at, then the records are read, then it is removed if
//! it is still as it was looked at. So a put that stores the source later keeps it. One that stored it
//! before and has not committed yet is younger than [`MIN_AGE`], which no put takes; one that does
//! store it again.
//!
//! **Invariant:** whatever a record names is there, also one that cannot be read. Versions leave their records by a commit before
//! their sources go, so a crash at any point leaves nothing but what the next collection finds.

use std::collections::HashSet;
use std::time::Duration;

use nacre_object::{Error, ErrorKind, ListRequest, Op, OpResult, PoolName, Result};
use nacre_program::Digest;

use super::handle::{Programs, named_unreadably, programs_map, readable_records};
use super::source::{SOURCE_OBJECT_PREFIX, object};
use super::{ProgramId, ProgramRecord};
use crate::limits::MAX_COLLECTED_SOURCES;

/// A source younger than this may belong to a put that has not committed yet. Puts end within seconds;
/// the rest is for clocks that differ.
pub(super) const MIN_AGE: Duration = Duration::from_secs(3600);

/// Sources that are looked at before the records are read again.
const SWEEP_PAGE: usize = 256;

/// What nobody needs any more.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Garbage {
    /// Versions, by program.
    pub versions: Vec<(ProgramId, u64)>,
    /// Sources that no other version names.
    pub sources: Vec<SourceObject>,
    /// Whether there is more, past what one collection takes.
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
    /// What [`Programs::collect`] would collect now. Changes nothing.
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

    /// Removes versions that were superseded and cannot be rolled back to, and sources that no version
    /// names, so many of these at once; answers what it removed.
    ///
    /// # Errors
    /// As for [`Programs::garbage`], and those of [`Maps::update`](crate::Maps::update): what was
    /// removed by then is removed.
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

    /// Goes through all stored sources, a page at a time: looks at those of the page, then reads which
    /// are named, then removes the others. Answers too whether it ended before the last.
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
            Ok(_) => return Err(Error::corrupt("a stat was not answered as one")),
            // Somebody else collects.
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let age = self.clock().now_micros().saturating_sub(stat.modified_micros);
        let is_old = Duration::from_micros(age) > MIN_AGE;
        Ok(is_old.then_some(SourceObject { digest, bytes: stat.size, version: stat.version }))
    }

    /// Removes a source that is still as it was looked at; whether it was.
    async fn remove_source(&self, source: &SourceObject) -> Result<bool> {
        let ops = vec![Op::AssertVersion(source.version), Op::Remove];
        match self.maps().system().submit(&object(&source.digest), ops).await {
            Ok(_) => Ok(true),
            // It was put again, or somebody else collects.
            Err(error) if matches!(error.kind(), ErrorKind::Conflict | ErrorKind::NotFound) => {
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }
}
