//! Sends requests to the node that serves a state machine, and has a silent node replaced.

use std::borrow::Borrow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use nacre_object::{Error, ErrorKind, NodeName, Result};
use tokio::time::{Instant, timeout_at};

use super::record_cache::RecordCache;
use super::transport::{HostNodes, HostTransport};
use crate::backoff::Backoff;
use crate::outcome::{is_busy, is_transient};
use crate::question::{Question, RECOVER, decode_epoch, recover_question};
use crate::record::{Authority, Record, Words};

/// How long a node may take to take a state machine over. It must seal the old epoch first.
pub const RECOVER_PATIENCE: Duration = Duration::from_secs(25);

/// Sends requests to the authority of one state machine.
#[derive(Debug)]
pub struct AuthorityClient<R: Record, F> {
    name: R::Name,
    service: &'static str,
    transport: Arc<dyn HostTransport>,
    nodes: Arc<dyn HostNodes>,
    /// A client has an authority replaced that is silent for this long.
    silence: Duration,
    records: Arc<RecordCache<R, F>>,
    /// The node that forwards this client's requests to the authority, if a node does so.
    via: Mutex<Option<Via>>,
    /// Locked while a task looks for a new authority, so that only one task of a client does it.
    seeking: tokio::sync::Mutex<()>,
}

/// A node that answered under a later record than the client had: it forwards requests.
#[derive(Debug)]
struct Via {
    node: NodeName,
    /// The epoch of that record.
    epoch: u64,
}

impl<R: Record, F: Clone + Default> AuthorityClient<R, F> {
    /// A client of the state machine `name`. Nodes host such machines as `service`. If the node in
    /// charge is silent for `silence`, the client asks another node to take over.
    pub fn new(
        name: R::Name,
        service: &'static str,
        transport: Arc<dyn HostTransport>,
        nodes: Arc<dyn HostNodes>,
        silence: Duration,
        records: Arc<RecordCache<R, F>>,
    ) -> Self {
        let (via, seeking) = Default::default();
        Self { name, service, transport, nodes, silence, records, via, seeking }
    }

    /// Sends a request to the authority, and repeats it until `deadline`. Returns the answer, and
    /// the record by which the client found the authority.
    ///
    /// A client that is refused reads the record again. If the authority is silent, the client asks
    /// another node to take over. One attempt lasts `patience` at most. If a former authority
    /// forwards requests, the client sends its requests there for as long as that node answers.
    ///
    /// # Errors
    /// The errors of the host; `Unavailable` if there was no authority by the deadline; `Denied` if
    /// there is no authority and this client has no right to make a node take over.
    pub async fn ask(
        &self,
        question: &impl Question<R::Name>,
        patience: Duration,
        deadline: Instant,
    ) -> Result<(Bytes, Arc<R>)> {
        let mut backoff = Backoff::new();
        // `reason` is the last error of a host that was alive but busy. The caller gets this error,
        // because it tells more than silence.
        let (mut silent_since, mut reason) = (None, None);
        loop {
            let (record, asked_at) = (self.records.get(), Instant::now());
            let error = match self.ask_once(&record, question, patience, deadline).await {
                Ok(answer) => return Ok((answer, record)),
                Err(error) => error,
            };
            if !is_transient(&error) {
                return Err(error);
            }
            if is_busy(&error) {
                silent_since = None;
                reason = Some(error.clone());
            } else if self.leave_via(&record) {
                // The authority itself may answer.
                continue;
            }
            let now = Instant::now();
            if now >= deadline {
                return Err(reason.unwrap_or(error));
            }
            // Another client may have had the authority replaced. Reading the record is cheaper
            // than replacing the authority again.
            let found = timeout_at(deadline, self.records.later_than(record.epoch())).await;
            match found {
                Ok(Ok(later)) if later.epoch() > record.epoch() => {
                    (silent_since, reason) = (None, None);
                    continue;
                }
                // It was removed.
                Ok(Err(gone)) if gone.kind() == ErrorKind::NotFound => return Err(gone),
                _ => {}
            }
            // The silence begins with the attempt that has just failed, which may have waited for
            // long.
            let since = *silent_since.get_or_insert(asked_at);
            if is_busy(&error) {
                continue;
            }
            if record.authority().is_none() || now - since >= self.silence {
                let silent = record.authority().map(|authority| &authority.node);
                match timeout_at(deadline, self.replace(&record, silent)).await {
                    Ok(Err(error)) if !is_transient(&error) => return Err(error),
                    // If no node takes over, the authority itself may come back.
                    Ok(_) | Err(_) => {}
                }
            }
            backoff.wait().await;
        }
    }

    /// Sends a request once to the authority that the cached record names. If that node is silent,
    /// the client does not have it replaced.
    ///
    /// # Errors
    /// The errors of the host; `Unavailable` if the record names no authority, or if no answer came
    /// within `patience`.
    pub async fn ask_now(
        &self,
        question: &impl Question<R::Name>,
        patience: Duration,
    ) -> Result<(Bytes, Arc<R>)> {
        let record = self.records.get();
        let deadline = Instant::now() + patience;
        let answer = self.ask_once(&record, question, patience, deadline).await?;
        Ok((answer, record))
    }

    /// Makes a node seal the state machine at a new epoch and recover it. Asks the current
    /// authority first, then the other nodes.
    ///
    /// # Errors
    /// As for [`AuthorityClient::ask`].
    pub async fn recover(&self, deadline: Instant) -> Result<()> {
        let before = self.records.later_than(self.records.get().epoch()).await?;
        let installed = before.authority().map_or(0, |authority| authority.epoch);
        let mut backoff = Backoff::new();
        loop {
            let record = self.records.get();
            if record.authority().is_some_and(|authority| authority.epoch > installed) {
                return Ok(());
            }
            if let Err(error) = self.replace(&record, None).await
                && (!is_transient(&error) || Instant::now() >= deadline)
            {
                return Err(error);
            }
            backoff.wait().await;
        }
    }

    async fn ask_once(
        &self,
        record: &R,
        question: &impl Question<R::Name>,
        patience: Duration,
        deadline: Instant,
    ) -> Result<Bytes> {
        let Some(authority) = record.authority() else {
            let Words { thing, authority, .. } = R::WORDS;
            let text = format!("the {thing} has no {authority} yet");
            return Err(Error::unavailable(text).on(&self.name));
        };
        let patience = patience.min(deadline.saturating_duration_since(Instant::now()));
        let input = question.encode(&self.name, record.epoch());
        let via = self.via(authority);
        let (service, method) = (self.service, question.method());
        let node = via.as_ref().unwrap_or(&authority.node);
        let answer = self.transport.ask(node, service, method, input, patience).await?;
        if let Some(epoch) =
            question.answered_under(&answer).filter(|epoch| *epoch > record.epoch())
        {
            // If that record names another node, then `node` forwarded the request.
            *self.lock_via() = Some(Via { node: node.clone(), epoch });
        }
        Ok(answer)
    }

    /// The node that forwards requests to this authority, if the client knows one.
    fn via(&self, authority: &Authority) -> Option<NodeName> {
        let via = self.lock_via();
        let is_of_it = |via: &&Via| via.epoch >= authority.epoch && via.node != authority.node;
        via.as_ref().filter(is_of_it).map(|via| via.node.clone())
    }

    /// From now on, sends requests to the authority of `record` directly. Returns whether another
    /// node forwarded them until now.
    fn leave_via(&self, record: &R) -> bool {
        let was_used = record.authority().is_some_and(|authority| self.via(authority).is_some());
        *self.lock_via() = None;
        was_used
    }

    fn lock_via(&self) -> MutexGuard<'_, Option<Via>> {
        self.via.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a node other than `silent` take over from the authority of `record`.
    async fn replace(&self, record: &R, silent: Option<&NodeName>) -> Result<()> {
        let _alone = self.seeking.lock().await;
        if self.records.get().epoch() > record.epoch() {
            return Ok(());
        }
        let Words { thing, authority, .. } = R::WORDS;
        let mut last = Error::unavailable(format!("no node can host the {thing}'s {authority}"))
            .on(&self.name)
            .hint(format!("start a node that hosts {authority}s"));
        for node in self.candidates(record).await? {
            if Some(&node) == silent {
                continue;
            }
            let input = recover_question(self.name.borrow(), record.epoch());
            let asked = self.transport.ask(&node, self.service, RECOVER, input, RECOVER_PATIENCE);
            match asked.await {
                Ok(answer) => {
                    self.records.at_least(decode_epoch::<R>(&answer)?).await?;
                    return Ok(());
                }
                // The other nodes would refuse the request, too.
                Err(denied) if denied.kind() == ErrorKind::Denied => return Err(denied),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// The nodes to ask to take over, in order: first the authority that the record names. The
    /// order of the other nodes depends on the state machine's name, which spreads the load.
    async fn candidates(&self, record: &R) -> Result<Vec<NodeName>> {
        let mut nodes = self.nodes.nodes().await?;
        nodes.sort();
        if !nodes.is_empty() {
            let name: &str = self.name.borrow();
            let turn = crc32c::crc32c(name.as_bytes()) as usize % nodes.len();
            nodes.rotate_left(turn);
        }
        if let Some(authority) = record.authority() {
            nodes.retain(|node| *node != authority.node);
            nodes.insert(0, authority.node.clone());
        }
        Ok(nodes)
    }
}
