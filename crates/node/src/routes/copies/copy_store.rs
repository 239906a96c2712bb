//! Requests of a switch about copies. If nodes keep the objects, they are the part of the service
//! `route` that keeps copies for the switches of other nodes. On Ceph the router reaches the object
//! with a copy as any other, so it asks nobody.
//!
//! | method | input | answer |
//! | --- | --- | --- |
//! | `copy-write`, `copy-drop` | a [`Question`], then the input of `write` or `drop` of the class `copied` | nothing |
//! | `copy-read` | a [`Question`] with a span, then a [`CopyState`] | the bytes |
//! | `copies` | a [`CopyListAsk`] in JSON | a [`CopyList`] in JSON: the objects of one target of which this node keeps copies |
//!
//! Each copy has a tag, which a switch uses only once, and the writes of a copy are numbered. The
//! class compares tag and number of a request with those of the stored copy. So a delayed request of
//! a switch that has died changes no later copy, and a delayed write no later state of a copy.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use nacre_object::limits::MAX_REPLY_BYTES;
use nacre_object::{
    ClassCall, Error, ErrorKind, ListRequest, NodeName, ObjectId, ObjectName, Op, OpResult, Result,
    Store,
};
use nacre_route::{COPIED_CLASS, CopyHead, CopyState};
use serde::{Deserialize, Serialize};
use tokio::time::timeout;

use crate::routes::NodeSwitch;
use crate::routes::service::{Question, ROUTE_SERVICE};

/// Names in one page of a [`CopyList`].
const PAGE_NAMES: usize = 1024;

/// A switch's question which copies a node keeps for it.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct CopyListAsk {
    pub home_target: String,
    /// Where the page begins.
    pub after: Option<String>,
}

/// The objects of one target of which a node keeps copies.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(in crate::routes) struct CopyList {
    pub homes: Vec<String>,
    /// Where the next page begins.
    pub next: Option<String>,
}

/// Stores copies for other nodes.
#[derive(Debug)]
pub(in crate::routes) struct CopyStore {
    switch: Arc<NodeSwitch>,
}

impl CopyStore {
    pub fn new(switch: Arc<NodeSwitch>) -> Self {
        Self { switch }
    }

    /// Serves a request of another node about one copy.
    pub async fn serve(&self, method: &str, input: Bytes) -> Result<Bytes> {
        self.switch.serve_copy(method, &Question::decode(input)?).await
    }

    /// Lists the copies that this node keeps for a switch.
    pub async fn list(&self, input: &[u8]) -> Result<CopyList> {
        let ask: CopyListAsk = serde_json::from_slice(input)
            .map_err(|cause| Error::invalid(format!("the input is malformed: {cause}")))?;
        let locations = self.switch.locations();
        let prefix = locations.copy_prefix(&ask.home_target.parse()?)?;
        let after = ask.after.map(ObjectName::new).transpose()?;
        let pool = locations.pool().clone();
        let request = ListRequest { pool, after, prefix: prefix.clone(), limit: PAGE_NAMES };
        let listed = self.switch.base().list(request).await?;
        let home = |name: &ObjectName| name.as_str().strip_prefix(&prefix).map(str::to_owned);
        let next = listed.names.last().filter(|_| listed.more).map(ToString::to_string);
        Ok(CopyList { homes: listed.names.iter().filter_map(home).collect(), next })
    }
}

impl NodeSwitch {
    /// Sends a request about a copy to the node that keeps it.
    ///
    /// # Errors
    /// `Unavailable` if there is no answer in this time.
    pub(in crate::routes) async fn ask_keeper(
        &self,
        node: &NodeName,
        method: &'static str,
        question: &Question,
        time: Duration,
    ) -> Result<Bytes> {
        let locations = self.locations();
        let is_own = locations.nodes().get(locations.own()) == Some(node);
        if is_own || locations.rados().is_some() {
            let served = timeout(time, self.serve_copy(method, question)).await;
            return served.unwrap_or_else(|_| {
                Err(Error::unavailable("the target with the copy does not answer"))
            });
        }
        let transport = self.transport()?;
        transport.ask(node, ROUTE_SERVICE, method, question.encode()?, time).await
    }

    /// Serves a request about one copy.
    async fn serve_copy(&self, method: &str, question: &Question) -> Result<Bytes> {
        let object: ObjectId = question.object.parse()?;
        let is_fragment =
            || self.locations().of_nodes().is_ok_and(|of| of.fragment_in(&object).is_some());
        if !self.locations().is_copy(&object) && !is_fragment() {
            return Err(Error::denied("the object does not store a copy").on(&object));
        }
        match (method, question.span) {
            ("copy-read", Some((start, end))) => {
                let length = end.saturating_sub(start).min(MAX_REPLY_BYTES as u64);
                self.read_copy_here(question, object, Op::Read { offset: start, length }).await
            }
            ("copy-read", None) => Err(Error::invalid("the request reads no bytes").on(&object)),
            ("copy-write", _) => self.call_copy(question, object, "write").await,
            ("copy-drop", _) => self.call_copy(question, object, "drop").await,
            _ => Err(Error::unsupported(format!("no copy has the method {method:?}"))),
        }
    }

    /// Reads header and bytes at once, so that both belong to one copy.
    async fn read_copy_here(
        &self,
        question: &Question,
        object: ObjectId,
        read: Op,
    ) -> Result<Bytes> {
        let state = CopyState::decode(question.payload.clone())?;
        let request = question.request(object.clone(), vec![Op::MapGetHeader, read])?;
        let mut results = self.base().submit(request).await?.results.into_iter();
        let (Some(OpResult::Data(head)), Some(OpResult::Data(data))) =
            (results.next(), results.next())
        else {
            return Err(Error::corrupt("the reply to a read of a copy has no data").on(&object));
        };
        match CopyHead::decode(head)?.serves(state) {
            true => Ok(data),
            false => {
                Err(Error::stale("the target has another copy, or the copy another state")
                    .on(&object))
            }
        }
    }

    async fn call_copy(
        &self,
        question: &Question,
        object: ObjectId,
        method: &str,
    ) -> Result<Bytes> {
        let call = ClassCall {
            class: COPIED_CLASS.parse()?,
            method: method.parse()?,
            version: None,
            input: question.payload.clone(),
        };
        let request = question.request(object, vec![Op::Call(call)])?;
        match self.base().submit(request).await {
            Err(error) if method == "drop" && error.kind() == ErrorKind::NotFound => {
                Ok(Bytes::new())
            }
            reply => reply.map(|_| Bytes::new()),
        }
    }
}
