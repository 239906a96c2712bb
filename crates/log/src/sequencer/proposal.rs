//! How a sequencer has a step of its view decided: while it serves, or while it holds the tail still.
//!
//! **Invariant:** it never hands out a position while nobody knows where that is. A step under which all that it
//! may hand out meanwhile stays where it is, is decided while it serves. Any other is decided while it is
//! [`Held`]; if nobody can tell what became of that one it serves no more, for recovery finds out.

use nacre_object::{Error, ErrorKind, Result, TargetName};

use super::hosted::Hosted;
use super::recovery::is_undecided;
use crate::backoff::Backoff;
use crate::env::LogEnv;
use crate::view::{Layout, View};
use crate::views::no_such_log;

/// How often a step is tried that nobody answered.
const MAX_ATTEMPTS: usize = 3;

/// The view that is served, and the tail.
///
/// # Errors
/// `Stale` if there is none: this sequencer is deposed.
pub(super) fn served(hosted: &Hosted) -> Result<(View, u64)> {
    let core = hosted.core();
    core.as_ref().map(|core| (core.view().clone(), core.tail_now())).ok_or_else(deposed)
}

/// Proposes `next`, which moves nothing that the view that is served may hand out, and goes on by what is stored
/// then; answers its epoch.
///
/// # Errors
/// `Stale` if this sequencer is deposed; `NotFound` if the log was removed; `Unavailable`, and then the old view
/// is served on.
pub(super) async fn propose_while_serving(
    env: &LogEnv,
    hosted: &Hosted,
    next: &View,
) -> Result<u64> {
    match decide(env, next).await {
        Ok(stored) => go_on_by(hosted, stored),
        Err(error) => {
            if error.kind() == ErrorKind::NotFound {
                hosted.install(None);
            }
            Err(error)
        }
    }
}

/// A sequencer that hands out nothing, so that its tail stands still. Dropped it serves on as before or, if a
/// view was proposed that is not decided, no more.
pub(super) struct Held<'a> {
    hosted: &'a Hosted,
    is_in_doubt: bool,
}

impl<'a> Held<'a> {
    /// Holds the sequencer.
    ///
    /// # Errors
    /// `Stale` if it is deposed.
    pub fn hold(hosted: &'a Hosted) -> Result<Self> {
        hosted.core().as_mut().ok_or_else(deposed)?.hold();
        Ok(Self { hosted, is_in_doubt: false })
    }

    /// Ends the last range at the tail and opens another there; answers the epoch of what is stored then.
    ///
    /// # Errors
    /// As for [`View::cut`]; `Stale` if this sequencer is deposed; `Unavailable` or `NotFound` if nobody can tell,
    /// and then it serves no more.
    pub async fn cut(mut self, env: &LogEnv, layout: Layout, avoid: &[TargetName]) -> Result<u64> {
        let (view, tail) = served(self.hosted)?;
        let next = view.cut(tail, layout, &*env.placement, avoid)?;
        self.is_in_doubt = true;
        let stored = decide(env, &next).await?;
        self.is_in_doubt = false;
        go_on_by(self.hosted, stored)
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        if self.is_in_doubt {
            self.hosted.install(None);
        } else {
            self.hosted.resume();
        }
    }
}

fn go_on_by(hosted: &Hosted, stored: View) -> Result<u64> {
    let epoch = stored.epoch();
    if hosted.adopt(stored) { Ok(epoch) } else { Err(deposed()) }
}

/// Proposes a view until it, or another of its epoch, is stored; answers that.
async fn decide(env: &LogEnv, proposed: &View) -> Result<View> {
    let mut backoff = Backoff::new();
    for _ in 0..MAX_ATTEMPTS {
        match env.views.propose(proposed).await {
            Ok(()) => return Ok(proposed.clone()),
            Err(error) if is_undecided(&error) => match env.views.last(proposed.log()).await {
                Ok(Some(stored)) if stored.is_removed() => {
                    return Err(no_such_log(proposed.log()));
                }
                Ok(Some(stored)) if stored.epoch() >= proposed.epoch() => return Ok(stored),
                _ => {}
            },
            Err(error) => return Err(error),
        }
        backoff.wait().await;
    }
    Err(Error::unavailable("the log's view cannot be changed now"))
}

fn deposed() -> Error {
    Error::stale("the log has another sequencer since").hint("read the log's view and retry")
}
