//! Where views are kept: one map a log, changed by compare-and-swap.

use std::fmt;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::{self, StreamExt, TryStreamExt};
use nacre_object::{Error, ErrorKind, Result};
use nacre_registry::{Change, Maps};

use crate::LogName;
use crate::view::View;

/// The key of a log's map that holds its view.
const VIEW_KEY: &str = "view";
/// How often a proposal is made anew because something else in the log's map was changed.
const MAX_PROPOSAL_ATTEMPTS: usize = 10;
/// Views read side by side to list the logs.
const LOOKS_AT_ONCE: usize = 32;

/// Keeps the views of logs.
#[async_trait]
pub trait ViewStore: Send + Sync + fmt::Debug {
    /// The stored view; `None` if there is no such log.
    ///
    /// # Errors
    /// `Unavailable`, `Corrupt`.
    async fn current(&self, log: &LogName) -> Result<Option<View>> {
        Ok(self.last(log).await?.filter(|view| !view.is_removed()))
    }

    /// The stored view, also that of a log that was removed; `None` if there never was one of that name.
    ///
    /// # Errors
    /// `Unavailable`, `Corrupt`.
    async fn last(&self, log: &LogName) -> Result<Option<View>>;

    /// Stores `view` if its epoch is the stored one plus one.
    ///
    /// # Errors
    /// `Stale` or `Invalid`, see [`View::check_proposal`]; `Unavailable`, and then it may have
    /// been stored.
    async fn propose(&self, view: &View) -> Result<()>;

    /// Every log.
    ///
    /// # Errors
    /// `Unavailable`.
    async fn logs(&self) -> Result<Vec<LogName>>;
}

/// The stored view of a log.
///
/// # Errors
/// `NotFound` if there is none of that name; `Unavailable`, `Corrupt`.
pub(crate) async fn stored_view(views: &dyn ViewStore, log: &LogName) -> Result<View> {
    views.current(log).await?.ok_or_else(|| no_such_log(log))
}

/// The error of a log that is not there.
pub(crate) fn no_such_log(log: &LogName) -> Error {
    Error::not_found(format!("there is no log {log}"))
        .hint(format!("create it with `nacre log create {log}`"))
}

/// Views in the registry's maps: the map `log.NAME`, key `view`.
#[derive(Debug, Clone)]
pub struct MapViews {
    maps: Maps,
}

impl MapViews {
    /// Views in these maps.
    pub fn new(maps: Maps) -> Self {
        Self { maps }
    }

    /// The log, unless it was removed. Of one whose view is damaged it is said that it is there: whoever asks
    /// for it is told.
    async fn is_there(&self, name: LogName) -> Result<Option<LogName>> {
        match self.current(&name).await {
            Ok(view) => Ok(view.map(|_| name)),
            Err(error) if error.kind() == ErrorKind::Corrupt => Ok(Some(name)),
            Err(error) => Err(error),
        }
    }

    /// The stored view with the epoch of its map, which counts every change of the map.
    async fn read(&self, log: &LogName) -> Result<(u64, Option<View>)> {
        let (map_epoch, stored) = self.maps.entry(log.map(), VIEW_KEY).await?;
        let view = match stored {
            Some(encoded) => Some(decode(log, &encoded).map_err(|error| error.on(log))?),
            None => None,
        };
        Ok((map_epoch, view))
    }
}

/// The view kept in the map of `log`. Whoever may change that map may change nothing of other logs, so a view
/// of another must not be taken for one: its sequencer would be recovered, and its successor stored, there.
fn decode(log: &LogName, encoded: &[u8]) -> Result<View> {
    let view = View::decode(encoded)?;
    if view.log() != log {
        let text = format!("a damaged view: it is one of log {}", view.log());
        return Err(Error::corrupt(text));
    }
    Ok(view)
}

#[async_trait]
impl ViewStore for MapViews {
    async fn last(&self, log: &LogName) -> Result<Option<View>> {
        Ok(self.read(log).await?.1)
    }

    async fn propose(&self, view: &View) -> Result<()> {
        for _ in 0..MAX_PROPOSAL_ATTEMPTS {
            let (map_epoch, stored) = self.read(view.log()).await?;
            View::check_proposal(stored.map_or(0, |stored| stored.epoch()), view)?;
            let change = Change::set(VIEW_KEY, Bytes::from(view.encode()));
            match self.maps.commit(view.log().map(), map_epoch, vec![change]).await {
                Ok(_) => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Conflict => {}
                Err(error) => return Err(error),
            }
        }
        Err(Error::unavailable("the log's map is changed too often").on(view.log()))
    }

    async fn logs(&self) -> Result<Vec<LogName>> {
        let maps = self.maps.list().await?;
        // Made before anything is waited for, so that the future can move between threads.
        let looks: Vec<_> =
            maps.iter().filter_map(LogName::of_map).map(|name| self.is_there(name)).collect();
        let looked: Vec<_> = stream::iter(looks).buffered(LOOKS_AT_ONCE).try_collect().await?;
        Ok(looked.into_iter().flatten().collect())
    }
}
