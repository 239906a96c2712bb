//! The objects that keep routed bytes: requests of switches on them, and the search for the bytes
//! of a switch that has started.

use bytes::Bytes;
use futures::future::join_all;
use nacre_object::{
    ClassCall, Error, ErrorKind, ListRequest, ObjectId, ObjectName, Op, OpResult, Request, Result,
    Store,
};
use nacre_route::{ROUTED_CLASS, RoutedSpans};
use serde::{Deserialize, Serialize};

use super::NodeSwitch;
use super::service::Question;

/// A page with so many spans is full. A span takes some hundred bytes at most.
const PAGE_SPANS: usize = 8192;
/// Objects that one page lists before it looks for their spans.
const PAGE_NAMES: usize = 512;
/// Objects whose spans are read at the same time.
const READ_AT_ONCE: usize = 64;

/// The question of a switch that has started: where are the bytes of its objects?
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct FoundAsk {
    pub home_target: String,
    pub term: u64,
    /// The last name of the page before.
    pub after: Option<String>,
}

/// The bytes that a node keeps for the objects of one target.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct FoundPage {
    pub objects: Vec<FoundObject>,
    /// Where the next page begins.
    pub next: Option<String>,
}

/// An object that keeps routed bytes.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct FoundObject {
    /// Its name.
    pub object: String,
    /// The object that these bytes belong to.
    pub home: String,
    pub application: String,
    /// First byte, end and counter of each span.
    pub spans: Vec<(u64, u64, u64)>,
}

impl NodeSwitch {
    /// Runs the request `method` of a switch on an object with routed bytes that this node reaches.
    ///
    /// # Errors
    /// Those of the store; `Denied` if the object has no routed bytes; `Invalid`.
    pub(super) async fn serve_kept(&self, method: &str, question: &Question) -> Result<Bytes> {
        let object: ObjectId = question.object.parse()?;
        let pool = self.locations().pool();
        if object.pool != *pool {
            let text = format!("the object is not in the pool of routed bytes, {pool}");
            return Err(Error::denied(text).on(&object));
        }
        let op = match (method, question.span) {
            ("read", Some((start, end))) => {
                Op::Read { offset: start, length: end.saturating_sub(start) }
            }
            ("read", None) => return Err(Error::invalid("the request reads no bytes").on(&object)),
            _ => Op::Call(ClassCall {
                class: ROUTED_CLASS.parse()?,
                method: method.parse()?,
                version: None,
                input: question.payload.clone(),
            }),
        };
        let reply = self.base().submit(question.request(object, vec![op])?).await?;
        match reply.results.into_iter().next() {
            Some(OpResult::Data(data)) => Ok(data),
            Some(OpResult::Called(called)) => Ok(called.output),
            _ => Err(Error::corrupt("the reply to a read of routed bytes has no data")),
        }
    }

    /// One page of the objects with routed bytes that this node keeps for a target.
    ///
    /// # Errors
    /// Those of the store.
    pub(super) async fn kept_for(
        &self,
        home_target: &str,
        after: Option<&String>,
    ) -> Result<FoundPage> {
        let mut page = FoundPage::default();
        let mut after = after.map(ObjectName::new).transpose()?;
        let pool = self.locations().pool();
        let mut spans = 0;
        loop {
            let (pool, prefix) = (pool.clone(), String::new());
            let request = ListRequest { pool: pool.clone(), after, prefix, limit: PAGE_NAMES };
            let listed = self.base().list(request).await?;
            for names in listed.names.chunks(READ_AT_ONCE) {
                let objects = names.iter().map(|name| ObjectId::new(pool.clone(), name.clone()));
                let objects: Vec<_> = objects.collect();
                let kept = objects.iter().map(|object| self.kept(object, home_target));
                for kept in join_all(kept).await {
                    let Some(kept) = kept? else { continue };
                    spans += kept.spans.len();
                    page.objects.push(kept);
                }
                if spans >= PAGE_SPANS {
                    page.next = names.last().map(ToString::to_string);
                    return Ok(page);
                }
            }
            after = listed.names.last().cloned();
            if !listed.more || after.is_none() {
                return Ok(page);
            }
        }
    }

    /// The bytes that an object keeps, if they belong to an object of this target.
    async fn kept(&self, object: &ObjectId, home_target: &str) -> Result<Option<FoundObject>> {
        let locations = self.locations();
        if locations.destination(object).is_none() {
            return Ok(None);
        }
        let call = ClassCall {
            class: ROUTED_CLASS.parse()?,
            method: "spans".parse()?,
            version: None,
            input: Bytes::new(),
        };
        let request = Request::new(object.clone(), vec![Op::Call(call)])?;
        let reply = match self.base().submit(request).await {
            // It was dropped meanwhile.
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            reply => reply?,
        };
        let Some(OpResult::Called(called)) = reply.results.into_iter().next() else {
            return Err(Error::corrupt("the object does not report which routed bytes it holds")
                .on(object)
                .hint("run one release of nacre on all nodes"));
        };
        let RoutedSpans { home, application, spans } = RoutedSpans::decode(called.output)?;
        let spans = spans.iter().map(|(span, counter)| (span.start(), span.end(), *counter));
        let found = || FoundObject {
            object: object.to_string(),
            home: home.to_string(),
            application: application.to_string(),
            spans: spans.collect(),
        };
        Ok((locations.holder(&home).as_str() == home_target).then(found))
    }
}
