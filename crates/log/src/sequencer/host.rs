//! The host: what a node runs to be the sequencer of logs.
//!
//! A log is opened when it is first asked for. If its view names this node the host recovers the
//! log, for a sequencer's counter does not outlive its process; asked to `recover`, it takes the
//! log over from another node in the same way. Only then it hands out positions.
//!
//! Whatever changes a view runs in a task of its own, one at a time for each log, so that an asker
//! who loses patience does not undo it.

use std::collections::HashMap;
use std::fmt;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use nacre_object::{Error, ErrorKind, NodeName, Result};
use nacre_telemetry::{Counter, Durations, HistogramSnapshot};
use tokio::time::{Instant, timeout, timeout_at};

use super::hosted::{Hosted, NotYet};
use super::messages::{
    Asked, Question, Reconfiguration, busy, encode_epoch, encode_grant, encode_tail,
};
use super::reconfigure::{extend, reconfigure};
use super::recovery::{Recovered, recover};
use crate::LogName;
use crate::core::{Grant, TokenRefusal};
use crate::env::LogEnv;
use crate::limits::MAX_HOSTED_LOGS;
use crate::views::stored_view;

/// The name under which a node offers its host to the wire.
pub const SEQUENCER_SERVICE: &str = "sequencer";
/// The longest a `tail` waits: shorter than any session's deadline.
const MAX_TAIL_WAIT: Duration = Duration::from_secs(20);
/// A stripe that could not be added is tried again after this.
const EXTEND_AGAIN: Duration = Duration::from_millis(100);
/// How often one question makes the host look at the view: more, and view and asker disagree.
const MAX_LOOKS: usize = 5;
/// Whoever asks is told after this that there is no answer yet.
const BUSY_AFTER: Duration = Duration::from_secs(1);

/// Hosts the sequencers of a node. A clone is another handle on the same.
#[derive(Clone)]
pub struct SequencerHost(Arc<Inner>);

struct Inner {
    node: NodeName,
    env: LogEnv,
    logs: Mutex<HashMap<LogName, Arc<Hosted>>>,
    positions: Counter,
    recovery_time: Durations,
}

/// What a host has done since it was made.
#[derive(Debug, Clone, PartialEq)]
pub struct SequencerCounts {
    /// Logs this node is the sequencer of.
    pub logs: usize,
    /// Positions handed out.
    pub positions: u64,
    /// Seconds each recovery that made this node a sequencer took.
    pub recovery_seconds: HistogramSnapshot,
}

impl SequencerHost {
    /// The host of `node`. It asks no other sequencer, so `env` may lack a way to them.
    pub fn new(node: NodeName, env: LogEnv) -> Self {
        Self(Arc::new(Inner {
            node,
            env,
            logs: Mutex::default(),
            positions: Counter::default(),
            recovery_time: Durations::default(),
        }))
    }

    /// The node.
    pub fn node(&self) -> &NodeName {
        &self.0.node
    }

    /// Answers a question of [`SequencerTransport::ask`](crate::SequencerTransport::ask).
    ///
    /// # Errors
    /// `Stale` if the asker must look at the log's view; `NotFound` if there is no such log;
    /// `Unavailable` if it cannot be recovered now; `Invalid` or `Unsupported` for a question that
    /// makes no sense.
    pub async fn handle(&self, method: &str, input: Bytes) -> Result<Bytes> {
        let Asked { log, epoch, question } = Asked::decode(method, &input)?;
        if let Question::Next { count } = question
            && let Some(grant) = self.next_at_once(log, epoch, count)
        {
            return Ok(encode_grant(grant));
        }
        // Apart, as it is large, and what is answered at once shall not pay for it.
        let log = LogName::new(log)?;
        let answer = Box::pin(self.answer(&log, epoch, question)).await;
        answer.map_err(|error| error.on(&log))
    }

    async fn answer(&self, log: &LogName, epoch: u64, question: Question) -> Result<Bytes> {
        match question {
            Question::Next { count } => self.next(log, epoch, count).await.map(encode_grant),
            Question::Tail { beyond, wait } => {
                let answer = self.tail(log, epoch, beyond, wait).await;
                answer.map(|(tail, epoch)| encode_tail(tail, epoch))
            }
            Question::Recover => self.run(log, Job::Recover(epoch)).await.map(encode_epoch),
            Question::Reconfigure(change) => {
                self.run(log, Job::Reconfigure(epoch, change)).await.map(encode_epoch)
            }
        }
    }

    /// The logs this node is the sequencer of.
    pub fn logs(&self) -> Vec<LogName> {
        let logs = self.logs_by_name();
        let mut serving: Vec<_> = logs
            .iter()
            .filter(|(_, log)| log.core().is_some())
            .map(|(name, _)| name.clone())
            .collect();
        serving.sort();
        serving
    }

    /// What it has done.
    pub fn counts(&self) -> SequencerCounts {
        SequencerCounts {
            logs: self.logs().len(),
            positions: self.0.positions.get(),
            recovery_seconds: self.0.recovery_time.snapshot(),
        }
    }

    /// Positions, if the log's sequencer is here and has them at hand, as it nearly always has.
    fn next_at_once(&self, log: &str, epoch: u64, count: u32) -> Option<Grant> {
        let hosted = self.logs_by_name().get(log)?.clone();
        self.grant(&hosted, epoch, count).ok()
    }

    async fn next(&self, log: &LogName, epoch: u64, count: u32) -> Result<Grant> {
        let hosted = self.hosted(log)?;
        let mut looks = 0;
        let mut changed = None;
        // Of all attempts: who is told nothing takes this node for dead, and what is granted then is for nobody.
        let busy_at = Instant::now() + BUSY_AFTER;
        loop {
            match self.grant(&hosted, epoch, count) {
                Ok(grant) => return Ok(grant),
                Err(NotYet::Refused(TokenRefusal::Full)) => match changed.take() {
                    // Listens before it looks once more, so that no change falls in between.
                    None => {
                        let mut heard = Box::pin(hosted.changed.notified());
                        heard.as_mut().enable();
                        changed = Some(heard);
                    }
                    Some(heard) => {
                        self.extend_later(&hosted);
                        if timeout_at(busy_at, heard).await.is_err() {
                            return Err(busy("the log's next stripe is not ready"));
                        }
                        if let Some(refusal) = hosted.refusal() {
                            return Err(refusal);
                        }
                    }
                },
                Err(other) => self.get_ready(log, other, &mut looks).await?,
            }
        }
    }

    fn grant(
        &self,
        hosted: &Arc<Hosted>,
        epoch: u64,
        count: u32,
    ) -> std::result::Result<Grant, NotYet> {
        let (grant, is_short) = hosted.next(epoch, count)?;
        self.0.positions.add(grant.count.into());
        if is_short {
            self.extend_later(hosted);
        }
        Ok(grant)
    }

    async fn tail(
        &self,
        log: &LogName,
        epoch: u64,
        beyond: u64,
        wait: Duration,
    ) -> Result<(u64, u64)> {
        let hosted = self.hosted(log)?;
        let deadline = Instant::now() + wait.min(MAX_TAIL_WAIT);
        let mut looks = 0;
        loop {
            let mut changed = pin!(hosted.changed.notified());
            changed.as_mut().enable();
            match hosted.tail(epoch) {
                Ok((tail, epoch)) if tail > beyond || Instant::now() >= deadline => {
                    return Ok((tail, epoch));
                }
                Ok(_) => {
                    // Either way there is an answer the next time round.
                    let _elapsed = timeout_at(deadline, changed).await;
                }
                Err(other) => self.get_ready(log, other, &mut looks).await?,
            }
        }
    }

    /// Does what must be done before a question can be answered.
    async fn get_ready(&self, log: &LogName, why: NotYet, looks: &mut usize) -> Result<()> {
        *looks += 1;
        if *looks > MAX_LOOKS {
            return Err(Error::unavailable("the log's sequencer is changing"));
        }
        match why {
            NotYet::NotServing => self.soon(log, Job::Open).await,
            NotYet::Refused(TokenRefusal::Behind) => self.soon(log, Job::CatchUp).await,
            NotYet::Refused(TokenRefusal::Stale | TokenRefusal::Full) => {
                Err(Error::stale("the log has another sequencer since")
                    .hint("read the log's view and retry"))
            }
        }
    }

    /// Waits for a job, but not long: a sequencer that is silent is replaced.
    async fn soon(&self, log: &LogName, job: Job) -> Result<()> {
        match timeout(BUSY_AFTER, self.run(log, job)).await {
            Ok(done) => done.map(drop),
            Err(_) => Err(busy("the log is being recovered")),
        }
    }

    fn logs_by_name(&self) -> std::sync::MutexGuard<'_, HashMap<LogName, Arc<Hosted>>> {
        self.0.logs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn hosted(&self, log: &LogName) -> Result<Arc<Hosted>> {
        let mut logs = self.logs_by_name();
        if let Some(hosted) = logs.get(log) {
            return Ok(hosted.clone());
        }
        if logs.len() >= MAX_HOSTED_LOGS {
            logs.retain(|_, hosted| Arc::strong_count(hosted) > 1 || hosted.core().is_some());
        }
        if logs.len() >= MAX_HOSTED_LOGS {
            return Err(Error::exhausted(format!("{MAX_HOSTED_LOGS} logs on {}", self.0.node)));
        }
        Ok(logs.entry(log.clone()).or_default().clone())
    }

    fn extend_later(&self, hosted: &Arc<Hosted>) {
        if !hosted.start_extending() {
            return;
        }
        let (host, hosted) = (self.clone(), hosted.clone());
        tokio::spawn(async move {
            let _alone = hosted.work.lock().await;
            let extended = extend(&host.0.env, &hosted).await;
            if extended.is_err() {
                // Whoever needs positions still waits, and starts the next attempt.
                tokio::time::sleep(EXTEND_AGAIN).await;
            }
            hosted.end_extending(extended);
        });
    }

    /// Does a job, alone, to its end, even if nobody waits for it any more; answers the epoch of
    /// the view that is known then.
    async fn run(&self, log: &LogName, job: Job) -> Result<u64> {
        let hosted = self.hosted(log)?;
        let (host, name) = (self.clone(), log.clone());
        let task = tokio::spawn(async move {
            let _alone = hosted.work.lock().await;
            host.do_job(&name, &hosted, job).await
        });
        let ended = task.await.map_err(|error| Error::unavailable(error.to_string()))?;
        if ended.as_ref().is_err_and(|error| error.kind() == ErrorKind::NotFound) {
            self.logs_by_name().remove(log);
        }
        ended
    }

    async fn do_job(&self, log: &LogName, hosted: &Hosted, job: Job) -> Result<u64> {
        match job {
            Job::Open => self.open(log, hosted).await,
            Job::CatchUp => self.catch_up(log, hosted).await,
            Job::Recover(epoch) => {
                let newer = hosted.core().as_ref().and_then(|core| {
                    let is_newer = core.installed_at() > epoch;
                    is_newer.then(|| core.view().epoch())
                });
                match newer {
                    Some(epoch) => Ok(epoch),
                    None => self.take_over(log, hosted, epoch).await,
                }
            }
            Job::Reconfigure(epoch, change) => {
                self.open(log, hosted).await?;
                reconfigure(&self.0.env, hosted, epoch, change).await
            }
        }
    }

    async fn open(&self, log: &LogName, hosted: &Hosted) -> Result<u64> {
        if let Some(core) = hosted.core().as_ref() {
            return Ok(core.view().epoch());
        }
        let view = stored_view(&*self.0.env.views, log).await?;
        match view.sequencer() {
            Some(sequencer) if sequencer.node == self.0.node => {
                self.take_over(log, hosted, view.epoch()).await
            }
            _ => Err(Error::stale(format!("{} is not the log's sequencer", self.0.node))
                .hint("read the log's view and retry")),
        }
    }

    async fn catch_up(&self, log: &LogName, hosted: &Hosted) -> Result<u64> {
        let stored = stored_view(&*self.0.env.views, log).await?;
        let epoch = stored.epoch();
        hosted.adopt(stored);
        Ok(epoch)
    }

    async fn take_over(&self, log: &LogName, hosted: &Hosted, replaces: u64) -> Result<u64> {
        let started = Instant::now();
        let mut replaces = replaces;
        loop {
            match recover(&self.0.node, &self.0.env, log, replaces).await? {
                Recovered::Serving(core) => {
                    let epoch = core.view().epoch();
                    hosted.install(Some(core));
                    self.0.recovery_time.record_duration(started.elapsed());
                    return Ok(epoch);
                }
                Recovered::Adopted(view) => {
                    let is_named = view.sequencer().is_some_and(|s| s.node == self.0.node);
                    let epoch = view.epoch();
                    if hosted.adopt(view) || !is_named {
                        return Ok(epoch);
                    }
                    // Named by an earlier life of this node, whose counter is gone.
                    replaces = epoch;
                }
            }
        }
    }
}

/// What changes or reads a log's view.
enum Job {
    /// Serve, if the view names this node.
    Open,
    /// The view may have moved on.
    CatchUp,
    /// Become the sequencer in place of this epoch's.
    Recover(u64),
    /// Change the view, asked by somebody who knows this epoch's.
    Reconfigure(u64, Reconfiguration),
}

impl fmt::Debug for SequencerHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SequencerHost").field("node", &self.0.node).finish_non_exhaustive()
    }
}
