//! Decides which object's messages the courier delivers next. This is a state machine without IO;
//! callers pass in the time.
//!
//! An object has at most one round of delivery at a time. If it sends messages during the round,
//! another round follows. A receiver that fails is *held*: the courier sends it nothing for a time
//! that doubles with each failure, while messages to other receivers go on.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::time::Duration;

use nacre_object::ObjectId;

use crate::limits::{MAX_QUEUED_OBJECTS, Pace};

/// Where messages go.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Receiver {
    /// No receiver yet: the sender itself does not answer.
    Itself,
    /// The sender's watchers.
    Watchers,
    /// An object, which may be the sender itself.
    Object(ObjectId),
}

/// A receiver that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Hold {
    failures: u32,
    /// When it failed first.
    since: Duration,
    /// When it is asked again.
    pub until: Duration,
}

/// The receivers of one object's messages that failed lately. Further messages to them wait for
/// some time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Holds(BTreeMap<Receiver, Hold>);

impl Holds {
    /// Whether messages to a receiver must wait now.
    pub fn holds(&self, receiver: &Receiver, now: Duration) -> bool {
        self.0.get(receiver).is_some_and(|hold| now < hold.until)
    }

    /// Notes that a receiver answered.
    pub fn release(&mut self, receiver: &Receiver) {
        self.0.remove(receiver);
    }

    /// Records a failure of a receiver. Returns whether the receiver has failed for so long that
    /// the courier must give up the first message for it.
    pub fn failed(&mut self, receiver: &Receiver, pace: &Pace, now: Duration) -> bool {
        let first = Hold { failures: 0, since: now, until: now };
        let hold = self.0.entry(receiver.clone()).or_insert(first);
        let is_given_up = now >= hold.since + pace.give_up_after;
        if is_given_up {
            *hold = first;
        }
        let wait = pace.first_retry.saturating_mul(1 << hold.failures.min(16));
        hold.until = now + wait.min(pace.last_retry);
        hold.failures += 1;
        is_given_up
    }

    /// Drops the receivers whose wait is over. The round that has just ended did not try them
    /// again, so they have no messages any more.
    pub fn forget_due(&mut self, now: Duration) {
        self.0.retain(|_, hold| hold.until > now);
    }

    /// When the first of them is asked again.
    fn due(&self) -> Option<Duration> {
        self.0.values().map(|hold| hold.until).min()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Ready,
    Running { again: bool },
    Due(Duration),
}

#[derive(Debug)]
struct Entry {
    state: State,
    holds: Holds,
    /// Messages that wait, as the last round left them.
    waiting: usize,
}

/// The objects that have messages, as far as is known here.
#[derive(Debug, Default)]
pub(crate) struct Schedule {
    objects: HashMap<ObjectId, Entry>,
    ready: VecDeque<ObjectId>,
    due: BTreeSet<(Duration, ObjectId)>,
}

impl Schedule {
    /// Notes that an object may have messages. Ignores the object if too many are waiting.
    pub fn note(&mut self, object: &ObjectId) {
        let is_full = self.objects.len() >= MAX_QUEUED_OBJECTS;
        match self.objects.get_mut(object) {
            Some(entry) => match entry.state {
                State::Ready => {}
                State::Running { .. } => entry.state = State::Running { again: true },
                State::Due(at) => {
                    entry.state = State::Ready;
                    self.due.remove(&(at, object.clone()));
                    self.ready.push_back(object.clone());
                }
            },
            None if !is_full => {
                let entry = Entry { state: State::Ready, holds: Holds::default(), waiting: 0 };
                self.objects.insert(object.clone(), entry);
                self.ready.push_back(object.clone());
            }
            None => {}
        }
    }

    /// The object to look at now, if there is one, and the receivers whose messages must wait.
    pub fn next(&mut self, now: Duration) -> Option<(ObjectId, Holds)> {
        while let Some((at, object)) = self.due.first().cloned()
            && at <= now
        {
            self.note(&object);
        }
        let object = self.ready.pop_front()?;
        let entry = self.objects.get_mut(&object)?;
        entry.state = State::Running { again: false };
        Some((object, entry.holds.clone()))
    }

    /// A round over an object ended, with so many messages still waiting.
    pub fn done(&mut self, object: &ObjectId, holds: Holds, waiting: usize) {
        let Some(entry) = self.objects.get_mut(object) else { return };
        let again = entry.state == State::Running { again: true };
        let due = holds.due();
        (entry.holds, entry.waiting) = (holds, waiting);
        match (again, due) {
            (true, _) => {
                entry.state = State::Ready;
                self.ready.push_back(object.clone());
            }
            (false, Some(at)) => {
                entry.state = State::Due(at);
                self.due.insert((at, object.clone()));
            }
            (false, None) => drop(self.objects.remove(object)),
        }
    }

    /// When there is something to do again.
    pub fn next_due(&self) -> Option<Duration> {
        self.due.first().map(|(at, _)| *at)
    }

    /// Messages that wait for receivers that failed.
    pub fn waiting(&self) -> usize {
        self.objects.values().map(|entry| entry.waiting).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn object() -> ObjectId {
        "data/a".parse().unwrap()
    }

    #[test]
    fn an_object_has_one_round_at_a_time_and_another_if_it_sends_meanwhile() {
        let (mut schedule, object) = (Schedule::default(), object());
        schedule.note(&object);
        schedule.note(&object);
        assert!(schedule.next(millis(0)).is_some());
        assert!(schedule.next(millis(0)).is_none());
        schedule.note(&object);
        assert!(schedule.next(millis(0)).is_none(), "a round is under way");
        schedule.done(&object, Holds::default(), 0);
        assert!(schedule.next(millis(0)).is_some());
        schedule.done(&object, Holds::default(), 0);
        assert!(schedule.next(millis(0)).is_none());
        assert!(schedule.objects.is_empty());
    }

    #[test]
    fn the_wait_for_a_failing_receiver_doubles_until_its_message_is_given_up() {
        let pace = Pace { give_up_after: millis(1000), ..Pace::default() };
        let (mut schedule, object) = (Schedule::default(), object());
        schedule.note(&object);
        let mut now = millis(0);
        let mut waits = vec![];
        loop {
            let (object, mut holds) = schedule.next(now).expect("it is due");
            let is_given_up = holds.failed(&Receiver::Itself, &pace, now);
            schedule.done(&object, holds, 3);
            if is_given_up {
                break;
            }
            let due = schedule.next_due().unwrap();
            waits.push((due - now).as_millis());
            assert!(schedule.next(due - millis(1)).is_none());
            now = due;
        }
        assert_eq!(waits, [50, 100, 200, 400, 800]);
        assert_eq!(schedule.waiting(), 3);
        assert_eq!(
            schedule.next_due(),
            Some(now + millis(50)),
            "the next message has its own time"
        );
    }

    #[test]
    fn messages_to_other_receivers_do_not_wait_for_a_failing_receiver() {
        let (mut schedule, object) = (Schedule::default(), object());
        schedule.note(&object);
        let (_, mut holds) = schedule.next(millis(0)).unwrap();
        holds.failed(&Receiver::Itself, &Pace::default(), millis(0));
        schedule.done(&object, holds, 1);
        schedule.note(&object);
        let (_, holds) = schedule.next(millis(1)).expect("another message came");
        assert!(holds.holds(&Receiver::Itself, millis(1)));
        schedule.done(&object, holds, 1);
        assert!(schedule.next(millis(1)).is_none());
        assert!(schedule.next(millis(50)).is_some(), "the hold is over");
    }
}
