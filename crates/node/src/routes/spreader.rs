//! The spreader moves bytes that lie at home to where a rule with the option `at-rest` sends writes of
//! them. Without this option a rule concerns only bytes that are written while it is in force.
//!
//! 1. The spreader goes through the objects of this node that such rules are about, a page at a time.
//! 2. It reads a part of an object ([`Push`]). If nothing changes the object meanwhile, it writes the same
//!    bytes through the switch, as background work. So the rule sends them to their destination.
//! 3. When they are durable there, the home frees the space of the old bytes.
//!
//! The spreader can be interrupted at any point. If a node does not answer, it goes on with the next
//! object, and tries again in the next pass.
//!
//! **Invariant:** the switch admits the write of a part only if no change of the object was admitted since
//! the part was read. So the spreader never undoes a write.

use std::sync::Arc;
use std::time::Duration;

use nacre_object::{Error, ObjectId, Op, OpResult, Reply, Request, Result, Store};
use nacre_route::limits::MAX_RULES;
use nacre_route::{Event, Io, IoId, ObjectMatch, Operation, Rule, RuleTable, Span, Touch};
use tokio::sync::oneshot;
use tokio::time::sleep;

use super::NodeSwitch;
use super::background::background;
use super::live_io::Live;
use super::pieces::MOVED_BYTES;
use super::work::Work;

/// Between looks for rules.
const REST: Duration = Duration::from_millis(500);
/// Between two passes under the same rules. Requests on whole objects bring bytes home again.
const PASS_REST: Duration = Duration::from_secs(20);
/// After so many parts the spreader rests, so that it does not use all of a disk.
const PARTS_AT_ONCE: u32 = 16;
const PART_REST: Duration = Duration::from_millis(20);
/// The spreader stops at so many rules and spans of routed bytes, so that clients' writes have room for
/// theirs.
const MAX_MOVED_SPANS: usize = MAX_RULES / 2;

/// A part of an object that is being moved.
#[derive(Debug)]
pub(super) struct Push {
    object: ObjectId,
    /// The write of the part, once it was admitted.
    io: Option<IoId>,
    /// Whether a change of the object was admitted since the part was read.
    is_outdated: bool,
}

impl Push {
    /// The switch has admitted a change of an object.
    pub fn note_change(&mut self, object: &ObjectId) {
        self.is_outdated |= self.io.is_none() && self.object == *object;
    }

    /// Whether an IO is the write of this part.
    pub fn is_write(&self, io: IoId) -> bool {
        self.io == Some(io)
    }
}

/// Moves bytes until the task is aborted.
pub(super) async fn run(switch: Arc<NodeSwitch>) {
    let mut passed = (0, Duration::ZERO);
    loop {
        sleep(REST).await;
        let (term, now) = (switch.term(), switch.now());
        let is_rested = term != passed.0 || now >= passed.1 + PASS_REST;
        if !is_rested {
            continue;
        }
        let rules: Vec<ObjectMatch> = {
            let core = switch.core();
            let rules = core.table().rules().map(|(_, rule)| rule);
            rules
                .filter(|rule| rule.options.is_at_rest)
                .map(|rule| rule.header.object.clone())
                .collect()
        };
        for objects in rules {
            // Objects that could not be listed are listed in the next pass.
            let _ = switch.spread_all(&objects).await;
        }
        passed = (term, switch.now());
    }
}

/// The rule that sends the bytes at an offset of an object elsewhere, and how far it does.
fn rule_at<'a>(table: &'a RuleTable, request: &Request, span: Span) -> Option<(&'a Rule, Span)> {
    let touch = Touch { operation: Operation::Write, span: Some(span) };
    let segments = table.route(&Io::of(&request.header, None, None, touch)).ok()?;
    let first = segments.first()?;
    Some((table.get(first.rule?)?, first.span?))
}

impl NodeSwitch {
    async fn spread_all(self: &Arc<Self>, objects: &ObjectMatch) -> Result<()> {
        let mut after = None;
        loop {
            let (page, next) = self.page_of(objects, after).await?;
            for object in page {
                // Changes of an object with snapshots bring its bytes home.
                if !self.is_kept(&object) && nacre::staged_object(&object.name).is_none() {
                    // The next pass tries again.
                    let _ = self.spread(&object).await;
                }
            }
            after = next;
            if after.is_none() {
                return Ok(());
            }
        }
    }

    /// Moves the bytes of an object to where rules send them.
    async fn spread(self: &Arc<Self>, object: &ObjectId) -> Result<()> {
        let stat = background(object.clone(), Op::Stat)?;
        let _turn = self.erasures().share(object).await;
        if self.may_be_erasure_coded(object) && self.coded_object(&stat.header).await?.is_some() {
            // Its bytes come home first.
            return Ok(());
        }
        let Some(OpResult::Stat(stat)) = self.base().submit(stat).await?.results.pop() else {
            return Err(Error::corrupt("the reply to a stat has no stat").on(object));
        };
        let (mut at, mut parts) = (0, 0);
        while let Some(part) = Span::new(at, stat.size.min(at.saturating_add(MOVED_BYTES))) {
            let (part, is_meant) = self.part_to_move(object, part)?;
            if is_meant {
                self.push(object, part).await?;
                parts += 1;
                if parts % PARTS_AT_ONCE == 0 {
                    sleep(PART_REST).await;
                }
            }
            at = part.end();
        }
        Ok(())
    }

    /// The first bytes of a part about which one rule decides, and whether they must be moved.
    fn part_to_move(&self, object: &ObjectId, part: Span) -> Result<(Span, bool)> {
        let request = background(object.clone(), Op::Stat)?;
        let core = self.core();
        let Some((rule, span)) = rule_at(core.table(), &request, part) else {
            return Ok((part, false));
        };
        let place = self.locations().place(object, &rule.destination)?;
        let placed = core.table().placed(object, span);
        let is_there = |to| self.locations().place(object, to).is_ok_and(|at| at == place);
        let moved = placed.iter().filter(|one| is_there(&one.destination));
        let moved: u64 = moved.map(|one| one.span.length()).sum();
        let has_room = core.table().len() < MAX_MOVED_SPANS;
        let is_meant =
            has_room && rule.options.is_at_rest && place.is_some() && moved < span.length();
        Ok((span, is_meant))
    }

    /// Moves a part of an object, unless the object is being changed.
    async fn push(self: &Arc<Self>, object: &ObjectId, part: Span) -> Result<()> {
        {
            let mut core = self.core();
            if core.switch.is_changing(object) {
                return Ok(());
            }
            core.push = Some(Push { object: object.clone(), io: None, is_outdated: false });
        }
        let pushed = self.push_now(object, part).await;
        self.core().push = None;
        pushed
    }

    async fn push_now(self: &Arc<Self>, object: &ObjectId, part: Span) -> Result<()> {
        let read = Op::Read { offset: part.start(), length: part.length() };
        let read = self.run(self.base().clone(), background(object.clone(), read)?, None).await?;
        let Some(OpResult::Data(data)) = read.results.into_iter().next() else {
            return Err(Error::corrupt("the reply to a read has no data").on(object));
        };
        if data.is_empty() {
            return Ok(());
        }
        let write = background(object.clone(), Op::Write { offset: part.start(), data })?;
        match self.begin_push(write) {
            Some((io, works, replied)) => {
                self.work_through(io, works).await;
                let stopping = |_| Err(Error::unavailable("the node is stopping"));
                replied.await.unwrap_or_else(stopping).map(drop)
            }
            None => Ok(()),
        }
    }

    /// Passes the write of a part to the pure switch, if nothing has changed the object meanwhile.
    fn begin_push(
        &self,
        request: Request,
    ) -> Option<(IoId, Vec<Work>, oneshot::Receiver<Result<Reply>>)> {
        let (io, request) = (IoId(self.number()), Arc::new(request));
        let mut core = self.core();
        let core = &mut *core;
        let push = core.push.as_mut().filter(|push| !push.is_outdated)?;
        push.io = Some(io);
        core.copies.leave_read_set(&request.header.object);
        let (own, next) = (Arc::clone(&request), self.base().clone());
        let event = Event::Arrived { io, request: own, via: None, home: None, term: None };
        let (reply, replied) = oneshot::channel();
        core.live
            .insert(io, Live { request, next, reply, pieces: vec![], routed_end: 0, passed: 0 });
        Some((io, core.step(self.now(), event), replied))
    }
}
