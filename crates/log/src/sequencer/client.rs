//! Finds the log's sequencer, and has it replaced if it does not answer.
//!
//! Who may only read a log must not depose its sequencer, so it cannot have it replaced either. It needs it for
//! nothing but the tail, and that the objects know, too: see [`SequencerClient::readable_tail`].

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::join_all;
use nacre_object::{Error, ErrorKind, NodeName, Result};
use tokio::time::{Instant, sleep, timeout_at};

use super::messages::{
    Question, Reconfiguration, decode_epoch, decode_grant, decode_tail, is_busy, is_transient,
};
use super::recovery::object_of;
use crate::LogName;
use crate::backoff::Backoff;
use crate::client::ViewCache;
use crate::core::Grant;
use crate::env::LogEnv;
use crate::storage::{Addressed, CallFailure, StorageClient};
use crate::view::{Place, View};

/// A sequencer answers from memory, unless it is being recovered; then a repeated question waits
/// for the same recovery.
const ASK_PATIENCE: Duration = Duration::from_secs(2);
/// A node that takes a log over must seal its objects first.
const RECOVER_PATIENCE: Duration = Duration::from_secs(25);
/// A reader that no sequencer answers for so long asks the objects: longer than replacing one takes.
const READER_PATIENCE: Duration = Duration::from_secs(5);
/// Objects that had nothing new are asked again after this: whoever writes brings a sequencer along.
const WRITTEN_AGAIN: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) struct SequencerClient {
    log: LogName,
    env: LogEnv,
    views: Arc<ViewCache>,
    /// Held while another sequencer is sought, so that one task of a client does it.
    seeking: tokio::sync::Mutex<()>,
}

impl SequencerClient {
    pub fn new(log: LogName, env: LogEnv, views: Arc<ViewCache>) -> Self {
        Self { log, env, views, seeking: tokio::sync::Mutex::default() }
    }

    /// Positions, with a view that knows them.
    ///
    /// # Errors
    /// `Unavailable` if there was no sequencer until the deadline.
    pub async fn next(&self, count: u32, deadline: Instant) -> Result<(Grant, Arc<View>)> {
        let (answer, asked) = self.ask(Question::Next { count }, ASK_PATIENCE, deadline).await?;
        let grant = decode_grant(answer)?;
        let view = self.views.heard_of_grant(grant, asked).await?;
        Ok((grant, view))
    }

    /// The tail, and under which epoch it was that; waits until it is greater than `beyond`, at
    /// most `wait`.
    pub async fn tail(&self, beyond: u64, wait: Duration, deadline: Instant) -> Result<(u64, u64)> {
        let question = Question::Tail { beyond, wait };
        let (answer, _) = self.ask(question, ASK_PATIENCE + wait, deadline).await?;
        let (tail, epoch) = decode_tail(answer)?;
        let view = self.views.at_least(epoch).await?;
        if view.sequencer().is_some_and(|sequencer| sequencer.epoch <= epoch) {
            self.views.heard_of_tail(tail, &view);
        }
        Ok((tail, epoch))
    }

    /// The tail, told by the sequencer that is in charge when this returns.
    pub async fn current_tail(&self, deadline: Instant) -> Result<u64> {
        loop {
            let (tail, epoch) = self.tail(0, Duration::ZERO, deadline).await?;
            let view = self.views.read_now().await?;
            // A sequencer deposed since may not know of later appends.
            if view.sequencer().is_some_and(|sequencer| sequencer.epoch <= epoch) {
                self.views.heard_of_tail(tail, &view);
                return Ok(tail);
            }
        }
    }

    /// The tail as it matters to readers: the sequencer's or, if that cannot be had, that of what is written.
    ///
    /// # Errors
    /// `Unavailable` if an object that must be asked instead does not answer, either.
    pub async fn readable_tail(&self, deadline: Instant) -> Result<u64> {
        match self.current_tail(reader_deadline(deadline)).await {
            Err(error) if is_out_of_reach(&error) => match self.written_tail().await {
                Err(_) if is_transient(&error) => self.current_tail(deadline).await,
                found => found,
            },
            answered => answered,
        }
    }

    /// The same, by a sequencer that may be deposed since; waits for one greater than `beyond`, at most `wait`.
    /// Then whoever asks again asks the one in charge.
    pub async fn readable_tail_beyond(
        &self,
        beyond: u64,
        wait: Duration,
        deadline: Instant,
    ) -> Result<u64> {
        match self.tail(beyond, wait, reader_deadline(deadline) + wait).await {
            Err(error) if is_out_of_reach(&error) => {
                let tail = self.written_tail().await?;
                if tail <= beyond {
                    sleep(wait.min(WRITTEN_AGAIN)).await;
                }
                Ok(tail)
            }
            Ok((tail, _)) if tail <= beyond => match self.views.read_now().await {
                Err(gone) if gone.kind() == ErrorKind::NotFound => Err(gone),
                // One that was deposed, and does not know it, would say so for ever: this is of the view now.
                Ok(_) | Err(_) => Ok(tail),
            },
            answered => answered.map(|(tail, _)| tail),
        }
    }

    /// The tail by the log's objects: one past the last position that is written, filled or trimmed. Positions
    /// that a sequencer handed out and nobody used yet are not below it, so it may be less than one that a
    /// sequencer told before, as after a recovery. Whatever was acknowledged is below it.
    async fn written_tail(&self) -> Result<u64> {
        // What was acknowledged before this is where the view says: so are the positions below the tail.
        let view = self.views.read_now().await?;
        let (range, mut tail) = (view.last_range(), view.lowest_tail());
        for stripe in (0..range.stripe_count()).rev() {
            if range.stripe_end(stripe) <= tail {
                break;
            }
            let places = range.stripe_places(stripe);
            let asked = join_all(places.map(|place| self.maximum(&view, place))).await;
            let maxima: Vec<_> = asked.into_iter().collect::<Result<_>>()?;
            if let Some(found) = range.tail_in(stripe, maxima.into_iter().flatten().max()) {
                tail = tail.max(found);
                break;
            }
        }
        self.views.heard_of_tail(tail, &view);
        Ok(tail)
    }

    async fn maximum(&self, view: &View, place: Place) -> Result<Option<u64>> {
        let object = object_of(view, place)?;
        match StorageClient::new(&self.env).max_position(Addressed::by(view, &object)).await {
            Ok(maximum) => Ok(maximum),
            // Of a log that never had a sequencer.
            Err(CallFailure::Unsealed) => Ok(None),
            Err(failure) => Err(failure.into_error(object)),
        }
    }

    /// Has the sequencer change the view; answers the epoch of the changed view.
    pub async fn reconfigure(&self, change: Reconfiguration, deadline: Instant) -> Result<u64> {
        let question = Question::Reconfigure(change);
        let (answer, _) = self.ask(question, RECOVER_PATIENCE, deadline).await?;
        let epoch = decode_epoch(answer)?;
        self.views.at_least(epoch).await?;
        Ok(epoch)
    }

    /// Has the log sealed at a new epoch and recovered, by its own sequencer if that answers.
    pub async fn recover(&self, deadline: Instant) -> Result<()> {
        let before = self.views.later_than(self.views.get().epoch()).await?;
        let installed = before.sequencer().map_or(0, |sequencer| sequencer.epoch);
        let mut backoff = Backoff::new();
        loop {
            let view = self.views.get();
            if view.sequencer().is_some_and(|sequencer| sequencer.epoch > installed) {
                return Ok(());
            }
            if let Err(error) = self.replace(&view, None).await
                && (!is_transient(&error) || Instant::now() >= deadline)
            {
                return Err(error);
            }
            backoff.wait().await;
        }
    }

    /// The answer, and the view by which it was asked.
    async fn ask(
        &self,
        question: Question,
        patience: Duration,
        deadline: Instant,
    ) -> Result<(Bytes, Arc<View>)> {
        let mut backoff = Backoff::new();
        let mut silent_since = None;
        loop {
            let view = self.views.get();
            let answer = self.ask_once(&view, &question, patience, deadline).await;
            let error = match answer {
                Ok(answer) => return Ok((answer, view)),
                Err(error) => error,
            };
            if !is_transient(&error) {
                return Err(error);
            }
            if is_busy(&error) {
                silent_since = None;
            }
            let now = Instant::now();
            if now >= deadline {
                return Err(error);
            }
            // Looking is cheaper than replacing: somebody else may have done that.
            let found = timeout_at(deadline, self.views.later_than(view.epoch())).await;
            match found {
                Ok(Ok(later)) if later.epoch() > view.epoch() => {
                    silent_since = None;
                    continue;
                }
                // It was removed.
                Ok(Err(gone)) if gone.kind() == ErrorKind::NotFound => return Err(gone),
                _ => {}
            }
            let since = *silent_since.get_or_insert(now);
            if is_busy(&error) {
                continue;
            }
            if view.sequencer().is_none() || now - since >= self.env.patience.sequencer {
                let sequencer = view.sequencer().map(|sequencer| &sequencer.node);
                match timeout_at(deadline, self.replace(&view, sequencer)).await {
                    Ok(Err(error)) if !is_transient(&error) => return Err(error),
                    // If nobody takes over, the sequencer itself may come back.
                    Ok(_) | Err(_) => {}
                }
            }
            backoff.wait().await;
        }
    }

    async fn ask_once(
        &self,
        view: &View,
        question: &Question,
        patience: Duration,
        deadline: Instant,
    ) -> Result<Bytes> {
        let Some(sequencer) = view.sequencer() else {
            return Err(Error::unavailable("the log has no sequencer yet").on(&self.log));
        };
        let patience = patience.min(deadline.saturating_duration_since(Instant::now()));
        self.put(&sequencer.node, view.epoch(), question, patience).await
    }

    async fn put(
        &self,
        node: &NodeName,
        epoch: u64,
        question: &Question,
        patience: Duration,
    ) -> Result<Bytes> {
        let input = question.encode(&self.log, epoch);
        self.env.sequencers.ask(node, question.method(), input, patience).await
    }

    /// Has some node take over from the sequencer of `view`, but not `silent`.
    async fn replace(&self, view: &View, silent: Option<&NodeName>) -> Result<()> {
        let _alone = self.seeking.lock().await;
        if self.views.get().epoch() > view.epoch() {
            return Ok(());
        }
        let mut last = Error::unavailable("no node can host the log's sequencer")
            .on(&self.log)
            .hint("start a node that hosts sequencers");
        for node in self.candidates(view).await? {
            if Some(&node) == silent {
                continue;
            }
            let asked = self.put(&node, view.epoch(), &Question::Recover, RECOVER_PATIENCE);
            match asked.await {
                Ok(answer) => {
                    self.views.at_least(decode_epoch(answer)?).await?;
                    return Ok(());
                }
                // The others would say the same.
                Err(denied) if denied.kind() == ErrorKind::Denied => return Err(denied),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// The nodes to ask: the one the view names first, then the others, from one on that differs
    /// from log to log.
    async fn candidates(&self, view: &View) -> Result<Vec<NodeName>> {
        let mut nodes = self.env.nodes.nodes().await?;
        nodes.sort();
        if !nodes.is_empty() {
            let turn = crc32c::crc32c(self.log.as_str().as_bytes()) as usize % nodes.len();
            nodes.rotate_left(turn);
        }
        if let Some(sequencer) = view.sequencer() {
            nodes.retain(|node| *node != sequencer.node);
            nodes.insert(0, sequencer.node.clone());
        }
        Ok(nodes)
    }
}

fn reader_deadline(deadline: Instant) -> Instant {
    deadline.min(Instant::now() + READER_PATIENCE)
}

/// Whether no sequencer can be had now, or not by whoever asks.
fn is_out_of_reach(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Denied)
}

/// Tells the sequencer of a view of a log that was removed since. If it does not hear, it learns when it is
/// asked next.
pub(crate) async fn dismiss(env: &LogEnv, view: &View) {
    if let Some(sequencer) = view.sequencer() {
        let question = Question::Recover;
        let input = question.encode(view.log(), view.epoch());
        let told = env.sequencers.ask(&sequencer.node, question.method(), input, ASK_PATIENCE);
        let _unheard = told.await;
    }
}
