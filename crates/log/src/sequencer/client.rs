//! Sends a client's requests to the log's sequencer. [`AuthorityClient`] finds the sequencer. If it
//! does not answer, the client asks another node to take over.
//!
//! A client with only the right to read must not depose a sequencer. It needs the sequencer only
//! for the tail, which it can also find from the objects: see [`SequencerClient::readable_tail`].

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use nacre_host::{
    AuthorityClient, ClientRouting, RECOVER, RECOVER_PATIENCE, decode_epoch, is_transient,
    recover_question,
};
use nacre_object::{Error, ErrorKind, NodeName, Result};
use tokio::time::{Instant, sleep};

use super::borrower::Borrower;
use super::host::SEQUENCER_SERVICE;
use super::messages::{Question, Reconfiguration, decode_grant, decode_tail};
use super::recovery::object_of;
use crate::LogName;
use crate::client::{Issued, ViewCache};
use crate::core::Grant;
use crate::env::LogEnv;
use crate::storage::{Addressed, CallFailure, StorageClient};
use crate::view::{EntryLocation, View};

/// How long a client waits for a sequencer's answer. A sequencer answers from memory, unless it is
/// in recovery. If a client asks again during recovery, both requests wait for the same recovery.
const ASK_PATIENCE: Duration = Duration::from_secs(2);
/// How long a reader waits for a sequencer before it asks the objects. A writer has a dead
/// sequencer replaced in less time.
const READER_PATIENCE: Duration = Duration::from_secs(5);
/// How long a reader waits before it asks the objects again. Any client that writes has a sequencer
/// installed, so the wait ends soon.
const WRITTEN_AGAIN: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) struct SequencerClient {
    env: LogEnv,
    views: Arc<ViewCache>,
    authority: Arc<AuthorityClient<View, Issued>>,
    borrower: Arc<Borrower>,
}

impl Drop for SequencerClient {
    fn drop(&mut self) {
        self.borrower.close();
    }
}

impl SequencerClient {
    pub fn new(log: LogName, env: LogEnv, views: Arc<ViewCache>) -> Self {
        let authority = Arc::new(AuthorityClient::new(
            log,
            SEQUENCER_SERVICE,
            Arc::clone(&env.sequencers),
            Arc::clone(&env.nodes),
            env.patience.sequencer,
            views.record(),
        ));
        let borrower = Borrower::new(Arc::clone(&authority), Arc::clone(&views));
        Self { env, views, authority, borrower }
    }

    /// Issues positions, with a view that has them, if this client holds the capability.
    pub fn next_at_once(&self, count: u32) -> Option<(Grant, Arc<View>)> {
        self.borrower.take(count)
    }

    /// Takes positions, with a view that has them. If this client holds the sequencer's capability,
    /// it issues them itself.
    ///
    /// # Errors
    /// `Unavailable` if there was no sequencer by the deadline.
    pub async fn next(&self, count: u32, deadline: Instant) -> Result<(Grant, Arc<View>)> {
        if let Some(taken) = self.next_at_once(count) {
            return Ok(taken);
        }
        if self.borrower.wants()
            && let Some(taken) = self.borrower.acquire(count, ASK_PATIENCE, deadline).await?
        {
            return Ok(taken);
        }
        let client = self.borrower.number();
        let question = Question::Next { count, client };
        let asked = self.authority.ask(&question, ASK_PATIENCE, deadline).await;
        let (answer, asked) = match asked {
            // In an earlier release, a node did not know that clients have numbers.
            Err(error) if error.kind() == ErrorKind::Invalid && client != 0 => {
                self.borrower.set_unsupported();
                let question = Question::Next { count, client: 0 };
                self.authority.ask(&question, ASK_PATIENCE, deadline).await?
            }
            asked => asked?,
        };
        let grant = decode_grant(answer)?;
        let view = self.views.heard_of_grant(grant, asked).await?;
        Ok((grant, view))
    }

    /// Gives the right to issue positions back, if this client has it.
    pub async fn give_back(&self) {
        self.borrower.give_back().await;
    }

    /// Asks for the tail. Also returns the epoch under which it was found. Waits at most `wait` for
    /// a tail greater than `beyond`.
    pub async fn tail(&self, beyond: u64, wait: Duration, deadline: Instant) -> Result<(u64, u64)> {
        let question = Question::Tail { beyond, wait };
        let (answer, _) = self.authority.ask(&question, ASK_PATIENCE + wait, deadline).await?;
        let (tail, epoch) = decode_tail(answer)?;
        let view = self.views.at_least(epoch).await?;
        if view.sequencer().is_some_and(|sequencer| sequencer.epoch <= epoch) {
            self.views.heard_of_tail(tail, &view);
        }
        Ok((tail, epoch))
    }

    /// The tail according to a sequencer that is still in charge after its answer.
    pub async fn current_tail(&self, deadline: Instant) -> Result<u64> {
        // A lease may outlast the sequencer that granted the capability. This client's own tail is
        // then old, so only the first attempt uses it.
        let mut own = self.borrower.tail();
        loop {
            let (tail, epoch) = match own.take() {
                Some(own) => own,
                None => self.tail(0, Duration::ZERO, deadline).await?,
            };
            let view = self.views.read_now().await?;
            // A sequencer deposed since may not know of later appends.
            if view.sequencer().is_some_and(|sequencer| sequencer.epoch <= epoch) {
                self.views.heard_of_tail(tail, &view);
                return Ok(tail);
            }
        }
    }

    /// The tail for readers. It is the sequencer's tail or, without a sequencer, the tail of the
    /// written objects.
    ///
    /// # Errors
    /// `Unavailable` if there is no sequencer and an object that must be asked does not answer.
    pub async fn readable_tail(&self, deadline: Instant) -> Result<u64> {
        match self.current_tail(reader_deadline(deadline)).await {
            Err(error) if is_out_of_reach(&error) => match self.written_tail().await {
                Err(_) if is_transient(&error) => self.current_tail(deadline).await,
                found => found,
            },
            answered => answered,
        }
    }

    /// The tail for readers. Waits at most `wait` for a tail greater than `beyond`. A deposed
    /// sequencer may answer, so the tail may be old. A caller that asks again then reaches the
    /// sequencer in charge.
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
                // A sequencer that does not know that it was deposed reports the same tail for
                // ever. So read the stored view: then the next request goes to the sequencer in
                // charge.
                Ok(_) | Err(_) => Ok(tail),
            },
            answered => answered.map(|(tail, _)| tail),
        }
    }

    /// Finds the tail by asking the log's objects: one past the last position that is written,
    /// filled or trimmed. All acknowledged records are below it. Positions that were issued but not
    /// used may be above it, so it may be lower than a tail that the sequencer reported before.
    async fn written_tail(&self) -> Result<u64> {
        // Read the stored view: it has the object of every record that was acknowledged before.
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

    async fn maximum(&self, view: &View, place: EntryLocation) -> Result<Option<u64>> {
        let object = object_of(view, place)?;
        match StorageClient::new(&self.env).max_position(Addressed::by(view, &object)).await {
            Ok(maximum) => Ok(maximum),
            // Of a log that never had a sequencer.
            Err(CallFailure::Unsealed) => Ok(None),
            Err(failure) => Err(failure.into_error(object)),
        }
    }

    /// Asks the sequencer to change the view. Returns the epoch of the changed view.
    pub async fn reconfigure(&self, change: Reconfiguration, deadline: Instant) -> Result<u64> {
        self.ask_for_epoch(&Question::Reconfigure(change), deadline).await
    }

    /// Asks the sequencer to hand over to another node. Returns the epoch of the latest view that
    /// the sequencer knows afterwards.
    pub async fn hand_over(
        &self,
        to: NodeName,
        routing: ClientRouting,
        deadline: Instant,
    ) -> Result<u64> {
        self.ask_for_epoch(&Question::HandOver { to, routing }, deadline).await
    }

    async fn ask_for_epoch(&self, question: &Question, deadline: Instant) -> Result<u64> {
        let (answer, _) = self.authority.ask(question, RECOVER_PATIENCE, deadline).await?;
        let epoch = decode_epoch::<View>(&answer)?;
        self.views.at_least(epoch).await?;
        Ok(epoch)
    }

    /// Makes a node seal the log at a new epoch and recover it. This is the sequencer's node, if
    /// that node answers.
    pub async fn recover(&self, deadline: Instant) -> Result<()> {
        self.authority.recover(deadline).await
    }
}

fn reader_deadline(deadline: Instant) -> Instant {
    deadline.min(Instant::now() + READER_PATIENCE)
}

/// Whether there is no sequencer now and this client cannot have one installed.
fn is_out_of_reach(error: &Error) -> bool {
    // Exhausted: a full disk takes no claim.
    matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Denied | ErrorKind::Exhausted)
}

/// Tells the sequencer of a log that the log was removed. If this message is lost, the sequencer
/// learns of the removal at the next request that it gets.
pub(crate) async fn dismiss(env: &LogEnv, view: &View) {
    if let Some(sequencer) = view.sequencer() {
        let input = recover_question(view.log().as_str(), view.epoch());
        let node = &sequencer.node;
        let told = env.sequencers.ask(node, SEQUENCER_SERVICE, RECOVER, input, ASK_PATIENCE);
        let _unheard = told.await;
    }
}
