//! `Dropped`: the routed bytes that this node has dropped just now, so that a delayed write cannot bring
//! them back.
//!
//! A node that was paused may have a write and a later drop of the same bytes in its buffers, on different
//! connections, and may read the drop first. The object with the bytes then has no trace of the drop. Old
//! bytes that came back so would be taken for the newest ones when the home restarts. A node that restarts
//! loses its buffers too, so this need not be durable. The counters of a switch rise across its restarts.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use nacre_object::{Error, ObjectId, Result};
use nacre_route::{FastHashMap, RoutedDrop, RoutedWrite, Span};
use tokio::time::Instant;

use super::service::Question;
use super::turns::{Turn, Turns};

/// How long a drop is remembered. A paused node reads its buffers at once when it continues.
const REMEMBERED: Duration = Duration::from_secs(120);
/// How many drops are remembered at most. Each takes some hundred bytes.
const MAX_REMEMBERED: usize = 65_536;

/// The drops of the last two minutes.
#[derive(Debug, Default)]
pub(super) struct Dropped {
    turns: Arc<Turns>,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    /// By object, and by the target of the switch that sent the drops. Other switches count otherwise.
    drops: FastHashMap<(ObjectId, String), Vec<RoutedDrop>>,
    /// The keys of these drops, the oldest first.
    by_age: VecDeque<(Instant, (ObjectId, String))>,
}

impl Known {
    fn note(&mut self, now: Instant, key: (ObjectId, String), drop: RoutedDrop) {
        let is_over = |at: Instant| now.duration_since(at) > REMEMBERED;
        while self.by_age.len() >= MAX_REMEMBERED
            || self.by_age.front().is_some_and(|(at, _)| is_over(*at))
        {
            let Some((_, key)) = self.by_age.pop_front() else { break };
            if let Some(drops) = self.drops.get_mut(&key) {
                drops.remove(0);
                if drops.is_empty() {
                    self.drops.remove(&key);
                }
            }
        }
        self.drops.entry(key.clone()).or_default().push(drop);
        self.by_age.push_back((now, key));
    }

    fn check(&self, key: &(ObjectId, String), span: Span, counter: u64) -> Result<()> {
        let drops = self.drops.get(key).map(Vec::as_slice).unwrap_or_default();
        match drops.iter().any(|drop| counter <= drop.counter && drop.span.overlaps(span)) {
            false => Ok(()),
            true => Err(Error::stale("these bytes were dropped after this write was sent")
                .on(&key.0)
                .hint("write again")),
        }
    }
}

impl Dropped {
    /// Begins a request on routed bytes. Until the returned turn ends, no drop of bytes of the object
    /// begins; if the request is a drop, no write either.
    ///
    /// # Errors
    /// `Stale` if the request is a write of bytes that were dropped after it was sent; `Invalid`.
    pub async fn begin(&self, method: &str, question: &Question) -> Result<Option<Turn>> {
        let object: ObjectId = question.object.parse()?;
        let key = || (object.clone(), question.home_target.clone());
        match method {
            "drop" => {
                let turn = self.turns.wait(&object).await;
                let drop = RoutedDrop::decode(question.payload.clone())?;
                self.lock().note(Instant::now(), key(), drop);
                Ok(Some(turn))
            }
            "write" => {
                let turn = self.turns.share(&object).await;
                let write = RoutedWrite::decode(question.payload.clone())?;
                let end = write.offset.saturating_add(write.data.len() as u64);
                if let Some(span) = Span::new(write.offset, end) {
                    self.lock().check(&key(), span, write.counter)?;
                }
                Ok(Some(turn))
            }
            _ => Ok(None),
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use nacre_object::ErrorKind;

    use super::*;

    fn question(object: &str, payload: Bytes) -> Question {
        Question::between("storage.0", object, payload)
    }

    fn write(object: &str, counter: u64, offset: u64) -> Question {
        let (home, application) = ("data/x".parse().unwrap(), "tail".parse().unwrap());
        let data = Bytes::from_static(b"abcd");
        question(object, RoutedWrite { home, application, counter, offset, data }.encode())
    }

    #[tokio::test]
    async fn a_write_that_was_sent_before_a_drop_of_its_bytes_is_refused() {
        let dropped = Dropped::default();
        let drop_all = RoutedDrop { span: Span::new(0, 8).unwrap(), counter: 5 }.encode();
        drop(dropped.begin("write", &write("p/x", 3, 0)).await.unwrap());
        drop(dropped.begin("drop", &question("p/x", drop_all)).await.unwrap());
        for offset in [0, 6] {
            let late = dropped.begin("write", &write("p/x", 5, offset)).await.unwrap_err();
            assert_eq!(late.kind(), ErrorKind::Stale);
        }
        for (object, counter, offset) in [("p/x", 6, 0), ("p/x", 3, 8), ("p/y", 3, 0)] {
            dropped.begin("write", &write(object, counter, offset)).await.unwrap();
        }
        let other = Question::between("storage.1", "p/x", write("p/x", 3, 0).payload);
        dropped.begin("write", &other).await.unwrap();
    }

    #[test]
    fn drops_are_forgotten_when_they_are_old_or_too_many() {
        let (mut known, start) = (Known::default(), Instant::now());
        let key = |number: usize| {
            (format!("p/{}", number % 100).parse::<ObjectId>().unwrap(), "s".to_owned())
        };
        let drop = RoutedDrop { span: Span::WHOLE, counter: 1 };
        for number in 0..MAX_REMEMBERED + 10 {
            known.note(start, key(number), drop);
        }
        assert_eq!(known.by_age.len(), MAX_REMEMBERED);
        let count = |known: &Known| known.drops.values().map(Vec::len).sum::<usize>();
        assert_eq!(count(&known), MAX_REMEMBERED);
        known.note(start + REMEMBERED * 2, key(0), drop);
        assert_eq!((known.by_age.len(), count(&known)), (1, 1));
        assert!(known.check(&key(0), Span::WHOLE, 1).is_err());
        known.check(&key(1), Span::WHOLE, 1).unwrap();
    }
}
