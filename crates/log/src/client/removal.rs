//! Removing a log, and what of a removed one must be done before its name is used again.
//!
//! First the view says that the log is removed: from then on it is not found, its sequencer cannot change its
//! view, and no other is found. Then every object is buried, so that whoever still holds an earlier view and
//! positions is refused, and learns why. Then the view says that this was done. Whatever ends before it is done
//! is gone on with by whoever removes the log next, or makes one of its name.
//!
//! **Invariant.** The last view of a removed log stays for ever: epochs go on from there, and a log made under
//! the name has objects of other names. So nothing that comes late, a seal of a sequencer that was deposed
//! included, meets the objects of another log.

use nacre_host::Backoff;
use nacre_object::{Error, ErrorKind, Result};
use tokio::time::Instant;

use super::burial::bury_all;
use crate::LogName;
use crate::env::LogEnv;
use crate::storage::StorageClient;
use crate::view::View;

/// Removes a log; answers the view it had. What nobody could tell the outcome of is looked up.
///
/// # Errors
/// `NotFound` if there is none of that name; `Unavailable`, and then it may be removed in part: again.
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

/// Buries the objects of a log that was removed; answers the last view of it, unless another was made since.
pub(super) async fn bury(env: &LogEnv, removed: &View) -> Result<Option<View>> {
    if removed.is_buried() {
        return Ok(Some(removed.clone()));
    }
    let (storage, deadline) = (StorageClient::new(env), Instant::now() + env.patience.operation);
    bury_all(&storage, removed, deadline).await?;
    let buried = |view: &View| view.forgetting_below(view.end());
    settle(env, removed, View::is_buried, buried).await
}

/// Changes a log's view until it is as wanted; answers that view, `None` if the log is another by then.
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
        let gone = || Error::corrupt("the log's view is gone");
        view = env.views.last(known.log()).await?.ok_or_else(gone)?;
    }
}
