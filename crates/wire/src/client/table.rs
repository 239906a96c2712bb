//! The calls of a session that wait for answers, and its watches. One lock guards the table.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::atomic::Ordering;
use std::time::Duration;

use nacre_object::{Error, WatchEvent};
use tokio::sync::oneshot;

use super::call::{Call, encode};
use super::pace::ClientPace;
use super::send_budget::Posted;
use super::session::NodeInfo;
use super::watching::{Stage, Watching};
use crate::message::{Origin, client_fields};
use crate::outbox::{Lane, Outbox, OutboxPosition};
use nacre_protocol::proto::client_message::Body as Asked;
use nacre_protocol::proto::server_message::Body as Answer;
use nacre_protocol::proto::{self as pb, ServerMessage};
use nacre_protocol::{decode, proto};

/// How the wait for an answer ended.
#[derive(Debug)]
pub(crate) enum End {
    /// With the answer.
    Answered(Answer),
    /// The connection broke before the node can have begun it.
    NotBegun,
    /// The connection broke; it may have happened.
    Broken,
    /// The caller's time is over.
    Late,
}

/// A call that waits for its answer.
#[derive(Debug)]
struct Pending {
    give_up: Duration,
    position: OutboxPosition,
    caller: oneshot::Sender<End>,
}

/// A call that was sent.
#[derive(Debug)]
pub(crate) struct Begun {
    pub(crate) id: u64,
    pub(crate) posted: Posted,
    /// Receives the end of the call.
    pub(crate) end: oneshot::Receiver<End>,
}

/// A map by message id. This process chooses the ids and counts them up, so the hash need not
/// withstand attacks.
type ById<T> = HashMap<u64, T, BuildHasherDefault<IdHasher>>;

#[derive(Debug, Default)]
struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("ids are hashed, nothing else");
    }

    fn write_u64(&mut self, id: u64) {
        // The golden ratio spreads neighbours over all bits (Knuth, volume 3, section 6.4).
        self.0 = id.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }
}

/// The state of a session.
#[derive(Debug)]
pub(crate) struct Table {
    /// Where calls are put, while the node takes any.
    outbox: Option<Outbox>,
    /// Limits how fast calls are sent. `None` before the first connection.
    pace: Option<ClientPace>,
    /// The number of connections so far.
    links: u64,
    /// The time since which there is no connection.
    pub(crate) down_since: Duration,
    /// Why there is no connection.
    pub(crate) failure: Option<Error>,
    /// The node last spoken to.
    pub(crate) node: Option<NodeInfo>,
    next_id: u64,
    pending: ById<Pending>,
    watches: ById<Watching>,
    /// Abandoned messages that are still in the outbox, and the budget of each.
    left_behind: Vec<(OutboxPosition, usize)>,
    /// Whether the task runs that checks deadlines and abandoned messages.
    pub(crate) swept: bool,
}

impl Table {
    pub(crate) fn new(now: Duration) -> Self {
        Self {
            outbox: None,
            pace: None,
            links: 0,
            down_since: now,
            failure: None,
            node: None,
            next_id: 1,
            pending: ById::default(),
            watches: ById::default(),
            left_behind: Vec::new(),
            swept: false,
        }
    }

    /// Sends a call. `None` without a connection.
    pub(crate) fn begin(&mut self, call: &Call, now: Duration, give_up: Duration) -> Option<Begun> {
        let outbox = self.outbox.as_ref()?;
        let id = self.next_id;
        let left = give_up.saturating_sub(now).as_micros();
        let timeout_micros = u64::try_from(left).unwrap_or(u64::MAX).max(1);
        let lane = match (&self.pace, &call.watch) {
            // In a lane, a watch could be sent after the message that ends it.
            (Some(pace), None) => pace.lane(call, outbox),
            _ => Lane::MAIN,
        };
        let fields = client_fields(id, timeout_micros, call.origin);
        let position = outbox.push_to(lane, id, &fields, &call.body)?;
        self.next_id += 1;
        let (caller, end) = oneshot::channel();
        self.pending.insert(id, Pending { give_up, position, caller });
        if let Some(watching) = &call.watch {
            watching.reader.id.store(id, Ordering::Relaxed);
            self.watches.insert(id, watching.clone());
        }
        Some(Begun { id, posted: Posted { link: self.links, position }, end })
    }

    /// Notes that a caller gave up. If the call was a watch and its answer has come, the node is
    /// already watching, so this also ends the watch.
    pub(crate) fn abandon(&mut self, id: u64) {
        self.pending.remove(&id);
        self.unwatch(id);
    }

    /// Notes an abandoned message if it still waits to be sent. Returns whether it does.
    pub(crate) fn leave_behind(&mut self, posted: Posted, bytes: usize) -> bool {
        let outbox = self.outbox.as_ref().filter(|_| posted.link == self.links);
        let is_waiting = outbox.is_some_and(|outbox| !outbox.was_taken(posted.position));
        if is_waiting {
            self.left_behind.push((posted.position, bytes));
        }
        is_waiting
    }

    /// Returns how many bytes of budget are free now because abandoned messages were sent.
    pub(crate) fn take_freed(&mut self) -> usize {
        let Some(outbox) = self.outbox.as_ref().filter(|_| !self.left_behind.is_empty()) else {
            return 0;
        };
        let sent = self.left_behind.extract_if(.., |(position, _)| outbox.was_taken(*position));
        sent.map(|(_, bytes)| bytes).sum()
    }

    /// Ends a watch.
    pub(crate) fn unwatch(&mut self, id: u64) {
        let Some(_) = self.watches.remove(&id) else { return };
        if let Some(outbox) = &self.outbox {
            let unwatch = Asked::Unwatch(pb::Unwatch { watch_id: id });
            let _ =
                outbox.push(&client_fields(self.next_id, 0, Origin::default()), &encode(&unwatch));
            self.next_id += 1;
        }
    }

    /// Returns the number of calls that use the session's budget. These are calls that wait for
    /// their answer, and abandoned calls whose messages are not sent yet.
    pub(crate) fn call_count(&self) -> usize {
        self.pending.len() + self.left_behind.len()
    }

    /// Notes a new connection. First requests again all watches that were live before. The watches
    /// have the lowest ids, so message ids rise on this connection, too.
    pub(crate) fn connected(&mut self, outbox: Outbox, pace: ClientPace, node: NodeInfo) {
        let mut broken: Vec<_> = self.watches.iter().collect();
        broken.sort_by_key(|(id, _)| **id);
        for (id, watching) in broken {
            let watch = Asked::Watch(pb::Watch {
                pool: watching.object.pool.to_string(),
                object: watching.object.name.to_string(),
            });
            let _ = outbox.push(&client_fields(*id, 0, Origin::default()), &encode(&watch));
        }
        self.outbox = Some(outbox);
        self.pace = Some(pace);
        self.links += 1;
        self.node = Some(node);
        self.failure = None;
    }

    /// Notes that the node takes no more calls, or that the connection is lost. Returns the number
    /// of bytes of abandoned messages, whose budget is free now.
    pub(crate) fn disconnected(&mut self, now: Duration) -> usize {
        if self.outbox.take().is_some() {
            self.down_since = now;
        }
        self.left_behind.drain(..).map(|(_, bytes)| bytes).sum()
    }

    /// Ends the wait for answers to all messages in `outbox`, because no answers will come any
    /// more. Each caller learns whether its message was sent.
    pub(crate) fn break_all(&mut self, outbox: &Outbox) {
        for (_, pending) in self.pending.drain() {
            let sent = outbox.was_taken(pending.position);
            let _ = pending.caller.send(if sent { End::Broken } else { End::NotBegun });
        }
        self.watches.retain(|_, watching| watching.stage != Stage::Asked);
        self.watches.values_mut().for_each(|watching| watching.stage = Stage::Broken);
    }

    /// The session is over.
    pub(crate) fn close(&mut self) {
        self.outbox = None;
        self.pending.clear();
        self.watches.drain().for_each(|(_, watching)| watching.reader.events.close());
    }

    /// Ends the wait of callers whose deadline has passed. Returns whether any callers or abandoned
    /// messages are left.
    pub(crate) fn expire(&mut self, now: Duration) -> bool {
        let late: Vec<u64> = self
            .pending
            .iter()
            .filter_map(|(id, pending)| (pending.give_up <= now).then_some(*id))
            .collect();
        for id in late {
            let pending = self.pending.remove(&id).expect("found just now");
            let _ = pending.caller.send(End::Late);
            self.unwatch(id);
        }
        self.call_count() > 0
    }

    /// Processes messages of the node. Puts the answers for callers into `answers`.
    pub(crate) fn hear(
        &mut self,
        message: ServerMessage,
        answers: &mut Vec<(oneshot::Sender<End>, Answer)>,
    ) {
        let ServerMessage { id, body } = message;
        match body {
            Some(Answer::Event(event)) => self.hear_event(id, event),
            Some(Answer::Closing(closing)) => self.hear_closing(&closing),
            answer => {
                let answer = answer.unwrap_or_else(unknown_answer);
                if let Some(watching) = self.watches.get_mut(&id) {
                    let told = watching.stage == Stage::Broken;
                    if matches!(answer, Answer::Done(_)) {
                        watching.stage = Stage::Live;
                        if told {
                            watching.reader.events.push(WatchEvent::Lost);
                        }
                    } else {
                        watching.reader.events.close();
                        self.watches.remove(&id);
                    }
                }
                // Otherwise it is late: the caller has gone.
                if let Some(pending) = self.pending.remove(&id) {
                    answers.push((pending.caller, answer));
                }
            }
        }
    }

    fn hear_event(&mut self, id: u64, event: pb::WatchEvent) {
        let Some(watching) = self.watches.get(&id) else { return };
        match decode::watch_event(event) {
            Some(event) => watching.reader.events.push(event),
            None => {
                watching.reader.events.close();
                self.watches.remove(&id);
            }
        }
    }

    /// The node will not begin messages that it has not read.
    fn hear_closing(&mut self, closing: &proto::Closing) {
        let unread: Vec<u64> =
            self.pending.keys().copied().filter(|id| *id > closing.last_id).collect();
        for id in unread {
            let pending = self.pending.remove(&id).expect("found just now");
            self.watches.remove(&id);
            let _ = pending.caller.send(End::NotBegun);
        }
    }
}

fn unknown_answer() -> Answer {
    let error = decode::senseless("an answer that is not known here");
    nacre_protocol::encode::failure(&error)
}
