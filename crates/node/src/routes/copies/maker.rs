//! Makes a copy of an object of this node at another target, piece by piece. The work counts as
//! nacre's background work at both targets.
//!
//! The pieces are read between two `stat`s. If both show the same version and size, the pieces
//! belong to one state of the object. The state machine knows whether a change has begun meanwhile.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use nacre_object::{Error, ErrorKind, ObjectId, ObjectStat, Op, OpResult, Result, Store};
use nacre_route::limits::MAX_COPY_BYTES;
use nacre_route::{CopyWrite, MakeFailure, Making, Span};
use tokio::time::timeout;

use crate::routes::NodeSwitch;
use crate::routes::background::background;
use crate::routes::routed_locations::RoutedLocation;
use crate::routes::service::{Question, ROUTE_SERVICE};

/// The most bytes of a piece.
const PIECE_BYTES: u64 = 1 << 20;
/// How long a target may take to store a piece.
const PIECE_TIME: Duration = Duration::from_secs(10);
/// How long the making of a copy may take. Others wait for their turn meanwhile.
const MAKING_TIME: Duration = Duration::from_secs(120);

impl NodeSwitch {
    /// Makes a copy, and tells the state machine how it went.
    pub(super) async fn make_copy(self: Arc<Self>, making: Making) {
        let outcome = timeout(MAKING_TIME, self.try_to_copy(&making)).await;
        let outcome = outcome.unwrap_or(Err(MakeFailure::Target));
        let now = self.now();
        self.core().copies.made(now, &making, outcome);
    }

    async fn try_to_copy(&self, making: &Making) -> Result<ObjectStat, MakeFailure> {
        let object = &making.object;
        let place =
            self.locations().copy(object, &making.target).map_err(|error| match error.kind() {
                ErrorKind::Invalid => MakeFailure::TooLarge,
                _ => MakeFailure::Target,
            })?;
        self.check_copyable(object)?;
        let before = self.background_stat(object).await.map_err(|_| MakeFailure::Changed)?;
        if before.size > MAX_COPY_BYTES {
            return Err(MakeFailure::TooLarge);
        }
        let mut offset = 0;
        loop {
            if !self.core().copies.is_wanted(making) {
                return Err(MakeFailure::Changed);
            }
            let length = PIECE_BYTES.min(before.size - offset);
            let data = self.background_read(object, offset, length).await;
            let data = data.map_err(|_| MakeFailure::Changed)?;
            if data.len() as u64 != length {
                return Err(MakeFailure::Changed);
            }
            let (home, tag, size) = (object.clone(), making.tag, before.size);
            let write = CopyWrite { home, tag, size, offset, data };
            let stored = self.ask_keeper(&place, "copy-write", write.encode()).await;
            stored.map_err(|_| MakeFailure::Target)?;
            offset += length;
            if offset >= before.size {
                break;
            }
        }
        let after = self.background_stat(object).await.map_err(|_| MakeFailure::Changed)?;
        self.check_copyable(object)?;
        match before == after {
            true => Ok(before),
            false => Err(MakeFailure::Changed),
        }
    }

    /// Checks that all bytes of an object are at home, and that nothing changes them.
    fn check_copyable(&self, object: &ObjectId) -> Result<(), MakeFailure> {
        let core = self.core();
        let is_away = core.switch.table().made_over(object, Span::WHOLE).is_some();
        let is_in_doubt = core.doubts.iter().any(|doubt| doubt.object == *object);
        match is_away || is_in_doubt || core.switch.is_changing(object) {
            true => Err(MakeFailure::Changed),
            false => Ok(()),
        }
    }

    /// Sends a request about a copy to the node that keeps it.
    pub(super) async fn ask_keeper(
        &self,
        place: &RoutedLocation,
        method: &'static str,
        payload: Bytes,
    ) -> Result<()> {
        let header = background(place.object.clone(), Op::Stat)?.header;
        let question = Question::new(self, &header, place, None, payload).encode()?;
        let transport = self.transport()?;
        transport.ask(&place.node, ROUTE_SERVICE, method, question, PIECE_TIME).await.map(drop)
    }

    async fn background_stat(&self, object: &ObjectId) -> Result<ObjectStat> {
        let reply = self.base().submit(background(object.clone(), Op::Stat)?).await?;
        match reply.results.into_iter().next() {
            Some(OpResult::Stat(stat)) => Ok(stat),
            _ => Err(Error::corrupt("the reply to a stat has no stat").on(object)),
        }
    }

    async fn background_read(&self, object: &ObjectId, offset: u64, length: u64) -> Result<Bytes> {
        if length == 0 {
            return Ok(Bytes::new());
        }
        let read = background(object.clone(), Op::Read { offset, length })?;
        match self.base().submit(read).await?.results.into_iter().next() {
            Some(OpResult::Data(data)) => Ok(data),
            _ => Err(Error::corrupt("the reply to a read has no data").on(object)),
        }
    }
}
