//! Writes, reads and drops the fragments of one object. The nodes store them as
//! [copies](crate::routes::copies): the tag of a fragment is the set to which it belongs.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::future::join_all;
use futures::stream::{FuturesUnordered, StreamExt};
use nacre_object::{Error, ErrorKind, IoHeader, NodeName, ObjectId, Result};
use nacre_route::{
    CopyData, CopyDrop, CopyState, CopyWrite, ErasureStub, FragmentSpan, Span, Stripes,
};
use tokio::time::{Instant, sleep};

use super::code::Code;
use super::lock;
use crate::routes::NodeSwitch;
use crate::routes::pieces::PATIENCE;
use crate::routes::routed_locations::RoutedLocation;
use crate::routes::service::Question;

/// How long a target may take to answer a read of a fragment. After that, others are read.
const READ_TIME: Duration = Duration::from_secs(2);
/// How long a node that has not answered is asked only after the others.
const NODE_REST: Duration = Duration::from_secs(5);
/// The most stripes whose bytes are computed at once: 4 MiB of a fragment.
const STRIPES_AT_ONCE: u64 = 32;
/// Between attempts to read enough fragments.
const RETRY_REST: Duration = Duration::from_millis(200);

/// The fragments of an object. All requests on them are made for the client with this header.
pub(super) struct Fragments<'a> {
    pub switch: &'a Arc<NodeSwitch>,
    pub header: &'a IoHeader,
    pub stub: &'a ErasureStub,
}

impl Fragments<'_> {
    fn object(&self) -> &ObjectId {
        &self.header.object
    }

    pub fn code(&self) -> Code {
        let ErasureStub { needed, places, .. } = self.stub;
        Code { stripes: self.stub.stripes(), needed: *needed, all: places.len() }
    }

    fn stripes(&self) -> Stripes {
        self.stub.stripes()
    }

    fn location(&self, number: usize) -> Result<RoutedLocation> {
        let place = self.stub.places.get(number);
        let place = place.ok_or_else(|| Error::corrupt("there is no fragment of this number"))?;
        let locations = self.switch.locations().of_nodes()?;
        locations.fragment(self.object(), self.stub.set.number, place)
    }

    /// Reads bytes of the object.
    ///
    /// # Errors
    /// `Unavailable` if too few nodes with fragments answer for 20 s; `Corrupt` if too few fragments
    /// are left.
    pub async fn read(&self, span: Span) -> Result<Bytes> {
        let places = self.stripes().places(span);
        if let Some(bytes) = self.read_plain(&places).await {
            return Ok(bytes);
        }
        self.switch.erasures().count(|status| status.computed_reads += 1);
        let mut bytes = BytesMut::new();
        let Range { start: mut at, end } = self.stripes().of(span);
        while at < end {
            let stripes = at..end.min(at + STRIPES_AT_ONCE);
            at = stripes.end;
            let Some(around) = self.stripes().span(stripes.clone()) else { break };
            let computed = self.compute(stripes).await?;
            if let Some(meant) = span.intersect(around) {
                let start = (meant.start() - around.start()) as usize;
                bytes.extend_from_slice(&computed[start..start + meant.length() as usize]);
            }
        }
        Ok(bytes.freeze())
    }

    /// The object's bytes of some stripes, from any fragments that suffice.
    async fn compute(&self, stripes: Range<u64>) -> Result<Bytes> {
        let units = self.read_enough(self.stripes().units(stripes.clone())).await?;
        let code = self.code();
        let decoded = tokio::task::spawn_blocking(move || code.decode(stripes, &units)).await;
        decoded.map_err(interrupted)?.map_err(|error| error.on(self.object()))
    }

    /// Reads bytes from the fragments that have them; `None` if one of these cannot be read.
    async fn read_plain(&self, places: &[FragmentSpan]) -> Option<Bytes> {
        let mut wanted = BTreeMap::<usize, (u64, u64)>::new();
        for at in places {
            let (start, end) = wanted.entry(at.fragment).or_insert((at.start, at.end));
            (*start, *end) = ((*start).min(at.start), (*end).max(at.end));
        }
        if wanted.keys().any(|number| self.rests(*number)) {
            return None;
        }
        let reads = wanted.iter().map(|(number, (start, end))| async {
            let span = Span::new(*start, *end)?;
            Some((*number, (*start, self.read_fragment(*number, span).await.ok()?)))
        });
        let read: BTreeMap<usize, (u64, Bytes)> =
            join_all(reads).await.into_iter().collect::<Option<_>>()?;
        if let [only] = places {
            return read
                .into_values()
                .next()
                .map(|(_, bytes)| bytes)
                .filter(|bytes| bytes.len() as u64 == only.end - only.start);
        }
        let mut bytes = BytesMut::new();
        for at in places {
            let (start, fragment) = read.get(&at.fragment)?;
            let part = (at.start - start) as usize..(at.end - start) as usize;
            bytes.extend_from_slice(fragment.get(part)?);
        }
        Some(bytes.freeze())
    }

    /// Reads the same bytes of as many fragments as suffice.
    async fn read_enough(&self, units: Range<u64>) -> Result<BTreeMap<usize, Bytes>> {
        let Some(span) = Span::new(units.start, units.end) else { return Ok(BTreeMap::new()) };
        let until = Instant::now() + PATIENCE;
        let mut lost = BTreeSet::new();
        loop {
            let (rest, first): (Vec<_>, Vec<_>) = (0..self.stub.places.len())
                .filter(|n| !lost.contains(n))
                .partition(|n| self.rests(*n));
            let mut left = first.into_iter().chain(rest);
            let read = |number| async move { (number, self.read_fragment(number, span).await) };
            let mut reading: FuturesUnordered<_> =
                left.by_ref().take(self.stub.needed).map(read).collect();
            let (mut found, mut failed) = (BTreeMap::new(), None);
            while let Some((number, answer)) = reading.next().await {
                match answer {
                    Ok(bytes) => drop(found.insert(number, bytes)),
                    Err(error) => {
                        if is_lost(&error) {
                            lost.insert(number);
                        }
                        failed = Some(error);
                        reading.extend(left.next().map(read));
                    }
                }
            }
            if found.len() >= self.stub.needed {
                return Ok(found);
            }
            let (all, needed) = (self.stub.places.len(), self.stub.needed);
            if all - lost.len() < needed {
                return Err(Error::corrupt(format!(
                    "{} of {all} fragments of the object are lost, and {needed} are needed",
                    lost.len()
                ))
                .on(self.object())
                .hint(
                    "bring the targets back that kept them, or remove the object and put it again",
                ));
            }
            if Instant::now() >= until {
                let cause =
                    failed.map_or_else(String::new, |error| format!(": {}", error.message()));
                return Err(Error::unavailable(format!(
                    "only {} of {all} fragments of the object can be read, and {needed} are needed{cause}",
                    found.len()
                ))
                .on(self.object())
                .hint("see which nodes are down: nacre status"));
            }
            sleep(RETRY_REST).await;
        }
    }

    /// Reads bytes of one fragment.
    async fn read_fragment(&self, number: usize, span: Span) -> Result<Bytes> {
        let place = self.location(number)?;
        let applied = self.stripes().writes().count() as u64;
        let state = CopyState { tag: self.stub.set, applied };
        let question = Question::new(self.switch, self.header, &place, Some(span), state.encode());
        let read = self.switch.ask_keeper(&place.node, "copy-read", &question, READ_TIME).await;
        let short = |bytes: &Bytes| bytes.len() as u64 != span.length();
        let read = match read {
            Ok(bytes) if short(&bytes) => Err(Error::corrupt("a fragment is too short")),
            read => read,
        };
        match &read {
            Ok(_) => {}
            Err(error) if is_lost(error) => self.switch.erasures().note_damaged(self.object()),
            Err(_) => self.switch.erasures().rest(&place.node),
        }
        read
    }

    /// Whether the node with a fragment has not answered just now.
    fn rests(&self, number: usize) -> bool {
        self.location(number).is_ok_and(|place| self.switch.erasures().rests(&place.node))
    }

    /// Writes the units of some stripes to each fragment. `write` counts these calls.
    ///
    /// # Errors
    /// Those of the first target that fails.
    pub async fn write(&self, write: u64, offset: u64, units: Vec<Bytes>) -> Result<()> {
        let sent = units.into_iter().enumerate().map(|(number, units)| async move {
            let copied = CopyWrite {
                home: self.object().clone(),
                tag: self.stub.set,
                number: write,
                size: self.stripes().fragment_bytes(),
                offset,
                data: CopyData::Bytes(units),
            };
            let place = self.location(number)?;
            let written = self.switch.change_copy(&place, "copy-write", copied.encode()).await;
            if written.as_ref().is_err_and(|error| error.kind() == ErrorKind::Unavailable) {
                self.switch.erasures().rest(&place.node);
            }
            written
        });
        join_all(sent).await.into_iter().collect()
    }

    /// Drops the fragments. Returns whether all are dropped.
    pub async fn drop_all(&self) -> bool {
        let dropped = (0..self.stub.places.len()).map(|number| async move {
            let place = self.location(number)?;
            let drop = CopyDrop { tag: self.stub.set };
            self.switch.change_copy(&place, "copy-drop", drop.encode()).await
        });
        join_all(dropped).await.iter().all(Result::is_ok)
    }
}

impl super::Erasures {
    /// A node has not answered.
    fn rest(&self, node: &NodeName) {
        lock(&self.resting).insert(node.clone(), Instant::now() + NODE_REST);
    }

    fn rests(&self, node: &NodeName) -> bool {
        lock(&self.resting).get(node).is_some_and(|until| Instant::now() < *until)
    }
}

/// Whether a node has answered that it cannot give the bytes of a fragment, now or later.
fn is_lost(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Stale | ErrorKind::Corrupt)
}

pub(super) fn interrupted(cause: tokio::task::JoinError) -> Error {
    Error::unavailable(format!("the operation was interrupted: {cause}")).hint("try again")
}
