//! Follows a log: returns its entries in order, as they arrive. Fills holes, so that no follower
//! waits for a dead writer for ever.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures::{Stream, stream};
use nacre_object::Result;
use tokio::time::Instant;

use super::log::Inner;
use super::options::{Entry, ReadSlot};

/// Entries with their positions.
pub type Follow = Pin<Box<dyn Stream<Item = Result<(u64, Entry)>> + Send>>;

/// Positions read ahead.
const WINDOW: u64 = 1024;
/// How long the sequencer may wait for a greater tail before the follower asks again.
const TAIL_WAIT: Duration = Duration::from_secs(10);
/// How long the follower waits before it reads a hole again: about the time of a write.
const LOOK_AGAIN: Duration = Duration::from_millis(2);

pub(super) fn follow(log: Arc<Inner>, from: u64) -> Follow {
    let follower = Follower { log, next: from, tail: 0, window: VecDeque::new(), hole_since: None };
    Box::pin(stream::unfold(follower, |mut follower| async move {
        let item = follower.next_entry().await;
        Some((item, follower))
    }))
}

struct Follower {
    log: Arc<Inner>,
    /// The position of the next item, which is the first position of the window.
    next: u64,
    tail: u64,
    window: VecDeque<ReadSlot>,
    /// When the first of the window was found unwritten.
    hole_since: Option<Instant>,
}

impl Follower {
    async fn next_entry(&mut self) -> Result<(u64, Entry)> {
        loop {
            match self.window.front_mut().map(|slot| slot.entry.take()) {
                Some(Some(entry)) => {
                    self.window.pop_front();
                    self.hole_since = None;
                    self.next += 1;
                    return Ok((self.next - 1, entry));
                }
                Some(None) => self.wait_for_hole().await?,
                None => self.read_ahead().await?,
            }
        }
    }

    async fn read_ahead(&mut self) -> Result<()> {
        if self.next >= self.tail {
            let deadline = self.log.deadline() + TAIL_WAIT;
            let sequencer = &self.log.sequencer;
            self.tail = sequencer.readable_tail_beyond(self.next, TAIL_WAIT, deadline).await?;
        }
        let end = self.tail.min(self.next + WINDOW);
        if self.next < end {
            let positions: Vec<_> = (self.next..end).collect();
            self.window = self.log.read(&positions).await?.into();
        }
        Ok(())
    }

    /// Reads the window's holes (its unwritten positions) again, after a short wait. If the first
    /// hole is older than [`Patience::hole`](crate::Patience), fills all holes instead of waiting,
    /// and then reads them.
    async fn wait_for_hole(&mut self) -> Result<()> {
        let since = *self.hole_since.get_or_insert_with(Instant::now);
        let holes: Vec<_> = self.holes().map(|slot| slot.position).collect();
        if since.elapsed() >= self.log.env.patience.hole {
            let deadline = self.log.deadline();
            if self.is_cut_at_tail(holes.last().copied(), deadline).await? {
                return Ok(());
            }
            self.log.positions.fill_all(&holes, deadline).await?;
        } else {
            tokio::time::sleep(LOOK_AGAIN).await;
        }
        let found = self.log.read(&holes).await?;
        for slot in found {
            let index = (slot.position - self.next) as usize;
            self.window[index] = slot;
        }
        Ok(())
    }

    /// Drops the window's positions at and past the tail, and returns whether there were any. There
    /// are some if the sequencer was replaced: the new sequencer will issue these positions again,
    /// so the follower must not fill them.
    async fn is_cut_at_tail(&mut self, hole: Option<u64>, deadline: Instant) -> Result<bool> {
        let Some(hole) = hole.filter(|hole| self.log.views.issued(*hole).is_none()) else {
            return Ok(false);
        };
        let tail = self.log.sequencer.readable_tail(deadline).await?;
        if hole < tail {
            return Ok(false);
        }
        self.tail = tail;
        self.window.truncate(tail.saturating_sub(self.next) as usize);
        self.hole_since = None;
        Ok(true)
    }

    fn holes(&self) -> impl Iterator<Item = &ReadSlot> {
        self.window.iter().filter(|slot| slot.entry.is_none())
    }
}
