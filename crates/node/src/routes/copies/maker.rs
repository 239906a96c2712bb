//! Makes a copy of an object of this node at another target, piece by piece. The work counts as
//! nacre's background work at both targets.
//!
//! The pieces are read between two `stat`s. If both show the same version and size, the pieces
//! belong to one state of the object. The state machine knows whether a change has begun meanwhile.
//!
//! While a copy is made, updates (plain writes that are applied to copies) go on. The state machine remembers
//! which bytes they change, and the maker copies these again. When few are left, updates wait until
//! the maker has copied them, so that the copy has the bytes of one state.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use nacre_object::{Error, ErrorKind, ObjectId, ObjectStat, Op, OpResult, Result, Store};
use nacre_route::limits::MAX_COPY_BYTES;
use nacre_route::{CopyData, CopyWrite, MadeCopy, MakeFailure, Making, Missed, Span};
use tokio::time::timeout;

use crate::routes::NodeSwitch;
use crate::routes::background::background;
use crate::routes::routed_locations::RoutedLocation;
use crate::routes::service::Question;
use crate::routes::turns::Turn;

/// The most bytes of a piece.
const PIECE_BYTES: u64 = 1 << 20;
/// How long a target may take to store a piece.
const PIECE_TIME: Duration = Duration::from_secs(10);
/// How long the making of a copy may take. Others wait for their turn meanwhile.
const MAKING_TIME: Duration = Duration::from_secs(120);
/// When so few bytes are left to be copied, updates wait for the copy: one piece.
const LAST_BYTES: u64 = PIECE_BYTES;
/// How long updates wait at most for a copy in the making. Their clients wait longer.
const LAST_TIME: Duration = Duration::from_secs(2);
/// How often the maker copies bytes that were changed meanwhile. If more than [`LAST_BYTES`] are
/// left after so many rounds, the object changes faster than it can be copied.
const MAX_ROUNDS: usize = 16;

/// A copy in the making.
struct Copying<'a> {
    making: &'a Making,
    place: RoutedLocation,
    /// The number of the next write to the copy.
    number: u64,
    /// The size of the whole copy.
    size: u64,
}

/// Does something during which updates of the object wait.
async fn while_updates_wait<T>(
    work: impl Future<Output = Result<T, MakeFailure>>,
) -> Result<T, MakeFailure> {
    timeout(LAST_TIME, work).await.unwrap_or(Err(MakeFailure::Target))
}

impl NodeSwitch {
    /// Makes a copy, and tells the state machine how it went.
    pub(super) async fn make_copy(self: Arc<Self>, making: Making) {
        let outcome = timeout(MAKING_TIME, self.try_to_copy(&making)).await;
        let outcome = outcome.unwrap_or(Err(MakeFailure::Target));
        // Updates wait until the copy is current.
        let (made, _turn) = match outcome {
            Ok((made, turn)) => (Ok(made), Some(turn)),
            Err(why) => (Err(why), None),
        };
        let now = self.now();
        self.core().copies.made(now, &making, made);
    }

    async fn try_to_copy(&self, making: &Making) -> Result<(MadeCopy, Turn), MakeFailure> {
        let object = &making.object;
        let place = self.locations().copy(object, &making.target).await;
        let place = place.map_err(|error| match error.kind() {
            ErrorKind::Invalid => MakeFailure::TooLarge,
            _ => MakeFailure::Target,
        })?;
        let before = {
            let _turn = self.updates().turn(object).await;
            while_updates_wait(self.stat_copyable(object)).await?
        };
        let mut copying = Copying { making, place, number: 0, size: before.size };
        self.copy_bytes(&mut copying, 0, before.size).await?;
        for _ in 0..MAX_ROUNDS {
            let turn = self.updates().turn(object).await;
            if self.core().copies.missed_bytes(making) <= LAST_BYTES {
                let (version, stat) = while_updates_wait(async {
                    let version = self.copy_missed(&mut copying).await?;
                    Ok((version, self.stat_copyable(object).await?))
                })
                .await?;
                let version = version.unwrap_or_default().max(before.version);
                let is_it = stat.version == version && stat.size == copying.size;
                let Copying { place, number: applied, .. } = copying;
                let made = MadeCopy { stat, applied, stored_in: place.object };
                return is_it.then_some((made, turn)).ok_or(MakeFailure::Changed);
            }
            drop(turn);
            self.copy_missed(&mut copying).await?;
        }
        Err(MakeFailure::Changed)
    }

    /// Copies the bytes that updates have changed since the copy got them. Returns the object's
    /// version after the last update, if there was one since the copy was ordered.
    async fn copy_missed(&self, copying: &mut Copying<'_>) -> Result<Option<u64>, MakeFailure> {
        let Missed { spans, version } = self.core().copies.take_missed(copying.making);
        if !spans.is_empty() {
            let stat = self.background_stat(&copying.making.object).await;
            copying.size = stat.map_err(|_| MakeFailure::Changed)?.size;
        }
        if copying.size > MAX_COPY_BYTES {
            return Err(MakeFailure::TooLarge);
        }
        for span in spans {
            let end = span.end().min(copying.size);
            if span.start() < end {
                self.copy_bytes(copying, span.start(), end).await?;
            }
        }
        Ok(version)
    }

    /// Copies some bytes of an object, piece by piece; at least one piece, which may be empty.
    async fn copy_bytes(
        &self,
        copying: &mut Copying<'_>,
        mut offset: u64,
        end: u64,
    ) -> Result<(), MakeFailure> {
        let making = copying.making;
        loop {
            if !self.core().copies.is_wanted(making) {
                return Err(MakeFailure::Changed);
            }
            let length = PIECE_BYTES.min(end - offset);
            let data = self.background_read(&making.object, offset, length).await;
            let data = data.map_err(|_| MakeFailure::Changed)?;
            if data.len() as u64 != length {
                return Err(MakeFailure::Changed);
            }
            let (home, tag, size) = (making.object.clone(), making.tag, copying.size);
            let (number, data) = (copying.number, CopyData::Bytes(data));
            let write = CopyWrite { home, tag, number, size, offset, data };
            let stored = self.change_copy(&copying.place, "copy-write", write.encode()).await;
            stored.map_err(|_| MakeFailure::Target)?;
            copying.number += 1;
            offset += length;
            if offset >= end {
                return Ok(());
            }
        }
    }

    /// The `stat` of an object, if it can be copied.
    async fn stat_copyable(&self, object: &ObjectId) -> Result<ObjectStat, MakeFailure> {
        self.check_copyable(object)?;
        let stat = self.background_stat(object).await.map_err(|_| MakeFailure::Changed)?;
        self.check_copyable(object)?;
        match stat.size <= MAX_COPY_BYTES {
            true => Ok(stat),
            false => Err(MakeFailure::TooLarge),
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

    /// Changes a copy, as background work.
    pub(in crate::routes) async fn change_copy(
        &self,
        place: &RoutedLocation,
        method: &'static str,
        payload: Bytes,
    ) -> Result<()> {
        let header = background(place.object.clone(), Op::Stat)?.header;
        let question = Question::new(self, &header, place, None, payload);
        self.ask_keeper(&place.node, method, &question, PIECE_TIME).await.map(drop)
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
