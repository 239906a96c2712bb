//! Removes a log, and finishes an unfinished removal before the name is used again.
//!
//! 1. The client marks the view as removed. From then on clients do not find the log, and no
//!    sequencer can change its view or take over.
//! 2. The client buries every object. A client that still has an earlier view and positions is
//!    refused, and learns why.
//! 3. The client marks the view as buried.
//!
//! If the client fails between these steps, another client continues: the next that removes the
//! log, or that creates a log of the same name.
//!
//! **Invariant:** the last view of a removed log stays for ever. A new log of the same name
//! continues the epochs of the removed log, and its objects have other names. So a late request to
//! the removed log, such as a seal of a deposed sequencer, never reaches the objects of the new
//! log.

use nacre_host::Backoff;
use nacre_object::{Error, ErrorKind, Result};
use tokio::time::Instant;

use super::burial::bury_all;
use crate::LogName;
use crate::env::LogEnv;
use crate::storage::StorageClient;
use crate::view::View;

/// Removes a log and returns its last view. If the outcome of a request is unknown, reads the
/// stored view.
///
/// # Errors
/// `NotFound` if there is no log of that name. After `Unavailable` the log may be partly removed:
/// remove it again.
pub(super) async fn remove(env: &LogEnv, name: &LogName) -> Result<View> {
    let last = env.views.last(name).await?.filter(|view| !view.is_buried());
    let view = last.ok_or_else(|| {
        Error::not_found(format!("there is no log {name}")).hint("see them with `nacre log ls`")
    })?;
    let removed = settle(env, &view, View::is_removed, View::removed).await?;
    if let Some(removed) = removed {
        bury(env, &removed).await?;
    }
    Ok(view)
}

/// Buries the objects of a removed log. Returns the log's last view, or `None` if another log of
/// its name was created since.
pub(super) async fn bury(env: &LogEnv, removed: &View) -> Result<Option<View>> {
    if removed.is_buried() {
        return Ok(Some(removed.clone()));
    }
    let (storage, deadline) = (StorageClient::new(env), Instant::now() + env.patience.operation);
    bury_all(&storage, removed, deadline).await?;
    let buried = |view: &View| view.forgetting_below(view.end());
    settle(env, removed, View::is_buried, buried).await
}

/// Proposes the view that `next` makes, until the stored view satisfies `is_wanted`. Returns the
/// stored view, or `None` if the name belongs to another log by then.
async fn settle(
    env: &LogEnv,
    known: &View,
    is_wanted: impl Fn(&View) -> bool,
    next: impl Fn(&View) -> View,
) -> Result<Option<View>> {
    let deadline = Instant::now() + env.patience.operation;
    let (mut view, mut backoff) = (known.clone(), Backoff::new());
    loop {
        if view.born() != known.born() {
            return Ok(None);
        }
        if is_wanted(&view) {
            return Ok(Some(view));
        }
        let proposed = env.views.propose(&next(&view)).await;
        let undecided = match proposed {
            Ok(()) => None,
            Err(error) if error.kind() == ErrorKind::Stale => None,
            Err(error) if error.kind() == ErrorKind::Unavailable => Some(error),
            Err(error) => return Err(error),
        };
        if let Some(error) = undecided {
            if Instant::now() >= deadline {
                return Err(error);
            }
            backoff.wait().await;
        }
        let gone = || {
            Error::corrupt("the log's map no longer holds a view")
                .hint("`nacre scrub` says what is damaged")
        };
        view = env.views.last(known.log()).await?.ok_or_else(gone)?;
    }
}
