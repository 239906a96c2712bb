//! The marks that a process has made, and how far it can rely on them. This is a state machine
//! without IO; callers pass in the time.
//!
//! A mark says that an object may have messages; it is stored in a ledger. While a request that may
//! send runs, it *uses* the mark of its object. For some time after storing a mark, the process
//! *trusts* that the mark is still stored.
//!
//! **Invariants:**
//! - A mark that is in use or trusted is stored in its ledger. Before the process removes a mark
//!   from the ledger, it forgets the mark here.
//! - A mark is recorded here before it is stored: the process's own sweep, which removes unneeded
//!   marks, may find it in the ledger before the reply to the write arrives.
//! - No two marks have the same key. If several marks of an object are made at the same time, any
//!   of them may become the trusted one. Only a mark that is recorded here can become trusted.

use std::collections::HashMap;
use std::time::Duration;

use nacre_object::{EntityName, ObjectId};

use crate::format::OutboxMark;
use crate::limits::MAX_REMEMBERED_MARKS;

/// Marks by object.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    objects: HashMap<ObjectId, Vec<OwnMark>>,
    count: usize,
    /// Marks that are being stored: one for each request that waits for it.
    being_made: HashMap<ObjectId, Vec<OutboxMark>>,
}

/// A mark for one entity.
#[derive(Debug)]
struct OwnMark {
    source: EntityName,
    mark: OutboxMark,
    trusted_until: Duration,
    uses: usize,
    /// When it counts as idle, unless it is used.
    idle_from: Duration,
    /// The process has given up waiting for a request that used the mark. Until this time the store
    /// may still carry that request out.
    doubted_until: Duration,
}

/// A mark that is no longer known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Forgotten {
    pub object: ObjectId,
    pub source: EntityName,
    pub mark: OutboxMark,
}

impl Marks {
    fn find(&mut self, object: &ObjectId, source: &EntityName) -> Option<&mut OwnMark> {
        self.objects.get_mut(object)?.iter_mut().find(|known| known.source == *source)
    }

    /// Begins a use of a mark that is trusted; returns whether there is one.
    pub fn begin(&mut self, object: &ObjectId, source: &EntityName, now: Duration) -> bool {
        match self.find(object, source) {
            Some(known) if now < known.trusted_until => {
                known.uses += 1;
                true
            }
            _ => false,
        }
    }

    /// A mark is about to be stored.
    pub fn begin_making(&mut self, object: &ObjectId, mark: OutboxMark) {
        self.being_made.entry(object.clone()).or_default().push(mark);
    }

    /// The attempt to store a mark has ended. If it failed, no request uses the mark, although it
    /// may be stored.
    pub fn end_making(&mut self, object: &ObjectId, mark: &OutboxMark) {
        if let Some(being_made) = self.being_made.get_mut(object) {
            being_made.retain(|other| other != mark);
            if being_made.is_empty() {
                self.being_made.remove(object);
            }
        }
    }

    /// Begins a use of a mark that was made.
    pub fn begin_new(
        &mut self,
        object: &ObjectId,
        source: &EntityName,
        mark: OutboxMark,
        trusted_until: Duration,
    ) {
        if let Some(known) = self.find(object, source) {
            known.uses += 1;
            (known.mark, known.trusted_until) = (mark, trusted_until);
            return;
        }
        let (source, never) = (source.clone(), Duration::ZERO);
        let known = OwnMark {
            source,
            mark,
            trusted_until,
            uses: 1,
            idle_from: never,
            doubted_until: never,
        };
        self.objects.entry(object.clone()).or_default().push(known);
        self.count += 1;
    }

    /// A request that uses a mark may be carried out, or not, until then.
    pub fn doubt(&mut self, object: &ObjectId, source: &EntityName, until: Duration) {
        if let Some(known) = self.find(object, source) {
            known.doubted_until = known.doubted_until.max(until);
        }
    }

    /// Ends a use.
    pub fn end(&mut self, object: &ObjectId, source: &EntityName, idle_from: Duration) {
        if let Some(known) = self.find(object, source) {
            known.uses -= 1;
            known.idle_from = known.idle_from.max(idle_from);
        }
    }

    /// Whether this is a mark that is known, or being made.
    pub fn knows(&self, object: &ObjectId, mark: &OutboxMark) -> bool {
        let is_being_made = self.being_made.get(object).is_some_and(|all| all.contains(mark));
        let mut known = self.objects.get(object).into_iter().flatten();
        is_being_made || known.any(|known| known.mark == *mark)
    }

    /// Whether requests of an entity marked an object.
    pub fn has(&self, object: &ObjectId, source: &EntityName) -> bool {
        let known = self.objects.get(object);
        known.is_some_and(|known| known.iter().any(|known| known.source == *source))
    }

    /// Whether an abandoned request of an entity may still let an object send.
    pub fn is_in_doubt(&self, object: &ObjectId, source: &EntityName, now: Duration) -> bool {
        let mut known = self.objects.get(object).into_iter().flatten();
        known.any(|known| known.source == *source && now < known.doubted_until)
    }

    /// Forgets the marks that are idle.
    pub fn forget_idle(&mut self, now: Duration) -> Vec<Forgotten> {
        self.forget(usize::MAX, |known| known.uses == 0 && known.idle_from <= now)
    }

    /// Makes space for one more mark, by forgetting an unused mark if necessary. A forgotten mark
    /// stays in its ledger. Returns whether there is space.
    pub fn make_room(&mut self, now: Duration) -> bool {
        let is_due = |known: &OwnMark| known.uses == 0 && known.doubted_until <= now;
        self.count < MAX_REMEMBERED_MARKS || !self.forget(1, is_due).is_empty()
    }

    fn forget(&mut self, most: usize, is_due: impl Fn(&OwnMark) -> bool) -> Vec<Forgotten> {
        let mut forgotten = vec![];
        for (object, all) in &mut self.objects {
            while forgotten.len() < most
                && let Some(at) = all.iter().position(&is_due)
            {
                let OwnMark { source, mark, .. } = all.swap_remove(at);
                forgotten.push(Forgotten { object: object.clone(), source, mark });
            }
            if forgotten.len() >= most {
                break;
            }
        }
        for gone in &forgotten {
            if self.objects.get(&gone.object).is_some_and(Vec::is_empty) {
                self.objects.remove(&gone.object);
            }
        }
        self.count -= forgotten.len();
        forgotten
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn mark(nonce: u64) -> OutboxMark {
        OutboxMark { at_micros: 0, nonce }
    }

    fn names() -> (ObjectId, EntityName) {
        ("data/a".parse().unwrap(), EntityName::local())
    }

    #[test]
    fn an_unused_mark_is_forgotten_after_a_while() {
        let (object, local) = names();
        let mut marks = Marks::default();
        assert!(!marks.begin(&object, &local, seconds(0)));
        marks.begin_new(&object, &local, mark(1), seconds(100));
        assert!(marks.begin(&object, &local, seconds(1)), "it is trusted");
        marks.end(&object, &local, seconds(40));
        assert!(marks.forget_idle(seconds(50)).is_empty(), "it is in use");
        marks.end(&object, &local, seconds(60));
        assert!(marks.forget_idle(seconds(59)).is_empty());
        let forgotten = Forgotten { object: object.clone(), source: local.clone(), mark: mark(1) };
        assert_eq!(marks.forget_idle(seconds(60)), [forgotten]);
        assert!(!marks.begin(&object, &local, seconds(60)), "it is made anew");
        assert_eq!(marks.count, 0);
    }

    #[test]
    fn a_mark_is_replaced_when_it_is_no_longer_trusted() {
        let (object, local) = names();
        let mut marks = Marks::default();
        marks.begin_new(&object, &local, mark(1), seconds(100));
        marks.end(&object, &local, seconds(200));
        assert!(!marks.begin(&object, &local, seconds(100)));
        marks.begin_new(&object, &local, mark(2), seconds(200));
        assert!(marks.knows(&object, &mark(2)) && !marks.knows(&object, &mark(1)));
        assert_eq!(marks.count, 1);
    }

    #[test]
    fn a_mark_that_is_being_stored_is_known_but_not_trusted() {
        let (object, local) = names();
        let mut marks = Marks::default();
        marks.begin_making(&object, mark(1));
        marks.begin_making(&object, mark(2));
        assert!(marks.knows(&object, &mark(1)) && marks.knows(&object, &mark(2)));
        assert!(!marks.begin(&object, &local, seconds(0)) && !marks.has(&object, &local));
        marks.begin_new(&object, &local, mark(1), seconds(100));
        marks.end_making(&object, &mark(1));
        marks.end_making(&object, &mark(2));
        assert!(marks.knows(&object, &mark(1)) && !marks.knows(&object, &mark(2)));
        assert!(marks.being_made.is_empty());
    }

    #[test]
    fn the_mark_that_is_confirmed_last_replaces_others_of_the_object() {
        let (object, local) = names();
        let mut marks = Marks::default();
        for nonce in [2, 1] {
            marks.begin_new(&object, &local, mark(nonce), seconds(100));
        }
        assert!(marks.knows(&object, &mark(1)) && !marks.knows(&object, &mark(2)));
    }

    #[test]
    fn space_is_made_by_forgetting_marks_that_no_request_depends_on() {
        let local = EntityName::local();
        let object =
            |n: usize| ObjectId::new("data".parse().unwrap(), n.to_string().parse().unwrap());
        let mut marks = Marks::default();
        for n in 0..MAX_REMEMBERED_MARKS {
            assert!(marks.make_room(seconds(0)));
            marks.begin_new(&object(n), &local, mark(n as u64), seconds(100));
        }
        assert!(!marks.make_room(seconds(0)), "all are in use");
        marks.doubt(&object(3), &local, seconds(50));
        marks.end(&object(3), &local, seconds(50));
        assert!(
            !marks.make_room(seconds(49)) && marks.is_in_doubt(&object(3), &local, seconds(49))
        );
        assert!(marks.make_room(seconds(50)) && !marks.has(&object(3), &local));
    }

    #[test]
    fn a_process_knows_for_which_entities_it_marked_an_object() {
        let (object, local) = names();
        let (alice, bob) = (EntityName::new("alice").unwrap(), EntityName::new("bob").unwrap());
        let mut marks = Marks::default();
        marks.begin_new(&object, &local, mark(1), seconds(1));
        marks.begin_new(&object, &alice, mark(2), seconds(1));
        assert!(marks.has(&object, &alice) && !marks.has(&object, &bob));
    }
}
