//! `Copies`: a state machine that decides which copies are current and where reads go.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use nacre_object::{ObjectId, TargetName};

use super::choice::{ReadContext, choose};
use super::head::{CopyState, CopyTag};
use super::messages::{
    CopySettings, CopySummary, CopyToDrop, MadeCopy, MakeFailure, Making, PlannedRead, ReadFailure,
    ReadFrom,
};
use super::missed::Missed;
use super::of_object::{Copy, CurrentCopy, OfObject};
use super::targets::Targets;
use crate::fast_hash::FastHashMap;
use crate::limits::{
    COPY_IDLE_TIME, MAX_COPIED_BYTES, MAX_COPIED_OBJECTS, MAX_COPIES_IN_THE_MAKING,
    MAX_COPIES_TO_DROP, MAX_SCATTER_TARGETS, UNCOPIED_IDLE_TIME,
};
use crate::model::{Choice, Scatter};
use crate::switch::Term;

/// Decides which copies of objects are current, and which copy serves a read. See the module's
/// description for the protocol.
#[derive(Debug)]
pub struct Copies {
    pub(super) settings: CopySettings,
    /// The term of the installed rules; 0 until there are some.
    term: Term,
    /// The number of the last tag.
    number: u64,
    pub(super) objects: FastHashMap<ObjectId, OfObject>,
    /// How many changes of each object are in flight, including updates.
    pub(super) changes: FastHashMap<ObjectId, usize>,
    /// The copies that the runtime is making, including those that became useless meanwhile.
    makings: BTreeSet<CopyTag>,
    pub(super) targets: Targets,
    /// The bytes of current copies, and of those that updates are on their way to.
    pub(super) bytes: u64,
    to_drop: BTreeMap<(ObjectId, TargetName), (CopyTag, Option<ObjectId>)>,
    /// Whether targets may have copies that this switch does not know.
    is_sweep_due: bool,
    count: u64,
    made: u64,
    failed: u64,
    pub(super) updates: u64,
    pub(super) updates_failed: u64,
}

impl Copies {
    /// The copies of a switch that has just started.
    pub fn new(settings: CopySettings) -> Self {
        Self {
            settings,
            term: Term::default(),
            number: 0,
            objects: FastHashMap::default(),
            changes: FastHashMap::default(),
            makings: BTreeSet::new(),
            targets: Targets::default(),
            bytes: 0,
            to_drop: BTreeMap::new(),
            is_sweep_due: true,
            count: 0,
            made: 0,
            failed: 0,
            updates: 0,
            updates_failed: 0,
        }
    }

    /// The rules of another term are installed. `is_copied` says whether one of them allows copies
    /// of an object. All other copies are dropped.
    pub fn rules_changed(&mut self, term: Term, is_copied: impl Fn(&ObjectId) -> bool) {
        self.term = self.term.max(term);
        let left: Vec<_> = self.objects.keys().filter(|one| !is_copied(one)).cloned().collect();
        for object in left {
            self.void(&object);
            self.objects.remove(&object);
        }
        self.is_sweep_due = true;
    }

    /// The rules may name other targets from now on. `is_named` says whether one lets an object have
    /// a copy at a target. All other copies are dropped, so that updates do not go to them.
    pub fn targets_changed(&mut self, is_named: impl Fn(&ObjectId, &TargetName) -> bool) {
        let all = self.objects.iter().flat_map(|(object, of)| {
            of.copies.keys().map(move |target| (object.clone(), target.clone()))
        });
        let left: Vec<_> = all.filter(|(object, target)| !is_named(object, target)).collect();
        for (object, target) in left {
            self.forget_copy(&object, &target);
        }
    }

    /// A read arrives, which the rule with `scatter` decides about. The target `home` holds the
    /// object. `random` is a random number.
    ///
    /// The runtime calls [`Copies::read_ended`] when the read is over, with the target `home` if it
    /// went home.
    pub fn read(
        &mut self,
        now: Duration,
        (object, home): (&ObjectId, &TargetName),
        scatter: &Scatter,
        random: u64,
    ) -> PlannedRead {
        self.count = self.count.wrapping_add(1);
        let has_room = self.objects.len() < MAX_COPIED_OBJECTS;
        if has_room && !self.objects.contains_key(object) {
            self.objects.insert(object.clone(), OfObject::new(now));
        }
        if let Some(of) = self.objects.get_mut(object) {
            of.reads = of.reads.saturating_add(1);
            of.read_at = now;
        }
        let from = self.source(now, (object, home), scatter, random);
        self.targets.began(match &from {
            ReadFrom::Home => home,
            ReadFrom::Copy { target, .. } => target,
        });
        PlannedRead { from, make: self.order(now, (object, home), scatter) }
    }

    /// Where a read goes.
    fn source(
        &self,
        now: Duration,
        (object, home): (&ObjectId, &TargetName),
        scatter: &Scatter,
        random: u64,
    ) -> ReadFrom {
        let of = self.objects.get(object);
        let current = |target: &TargetName| match of?.copies.get(target)? {
            Copy::Current(current) => Some(current),
            Copy::Making(..) | Copy::Updating(_) => None,
        };
        let can_serve = |target: &&TargetName| {
            *target == home || (current(target).is_some() && self.targets.is_usable(target, now))
        };
        let candidates = scatter.among.iter().filter(can_serve);
        let candidates: Vec<_> = candidates.map(|one| self.targets.candidate(one)).collect();
        let context = ReadContext { random, count: self.count, home };
        let chosen = choose(scatter.choice, &candidates, context);
        let copy = chosen.filter(|target| *target != home);
        let copy = copy.and_then(|target| Some((target.clone(), current(target)?)));
        copy.map_or(ReadFrom::Home, |(target, current)| {
            let CurrentCopy { state, stat, stored_in } = current.clone();
            ReadFrom::Copy { target, state, stat, stored_in }
        })
    }

    /// Orders the copies that an object should have and does not have.
    fn order(
        &mut self,
        now: Duration,
        (object, home): (&ObjectId, &TargetName),
        scatter: &Scatter,
    ) -> Vec<Making> {
        let CopySettings { quiet, reads, .. } = self.settings;
        // The nearest target is the home itself, so no read would go to a copy.
        let is_useless = scatter.choice == Choice::Nearest && scatter.among.contains(home);
        let is_changing = self.changes.contains_key(object);
        // Without a term, tags would not be unique.
        if self.term == Term::default() {
            return vec![];
        }
        if is_useless || is_changing || self.bytes >= MAX_COPIED_BYTES {
            return vec![];
        }
        let Some(of) = self.objects.get_mut(object) else { return vec![] };
        if !of.is_worth_a_copy(now, quiet, reads) {
            return vec![];
        }
        let mut makings = vec![];
        for target in scatter.among.iter().filter(|target| *target != home) {
            let is_full = self.makings.len() >= MAX_COPIES_IN_THE_MAKING
                || of.copies.len() >= MAX_SCATTER_TARGETS;
            if is_full || of.copies.contains_key(target) || !self.targets.is_usable(target, now) {
                continue;
            }
            self.number += 1;
            let tag = CopyTag { term: self.term, number: self.number };
            self.makings.insert(tag);
            of.copies.insert(target.clone(), Copy::Making(tag, Missed::default()));
            makings.push(Making { object: object.clone(), target: target.clone(), tag });
        }
        makings
    }

    /// A read goes to this target, after a copy has failed to serve it.
    pub fn read_began(&mut self, target: &TargetName) {
        self.targets.began(target);
    }

    /// A read that went to this target is over.
    pub fn read_ended(&mut self, target: &TargetName) {
        self.targets.ended(target);
    }

    /// A target has answered a read.
    pub fn read_served(&mut self, target: &TargetName) {
        self.targets.served(target);
    }

    /// A read of a copy has failed. The runtime sends it home.
    pub fn read_failed(
        &mut self,
        now: Duration,
        object: &ObjectId,
        (target, state): (&TargetName, CopyState),
        why: ReadFailure,
    ) {
        if why == ReadFailure::Target {
            return self.targets.failed(target, now, self.settings.rest);
        }
        self.targets.answered(target);
        let of = self.objects.get_mut(object);
        let copies = of.map(|of| &mut of.copies);
        // An update may have overtaken the read. Then the copy is only in another state.
        let is_it = |copy: &Copy| matches!(copy, Copy::Current(of) if of.state == state);
        if let Some(copies) = copies
            && copies.get(target).is_some_and(is_it)
            && let Some(copy) = copies.remove(target)
        {
            self.bytes -= copy.counted_bytes();
            if why == ReadFailure::Moved {
                self.drop_later(object, target.clone(), copy.tag(), copy.stored_in());
            }
        }
    }

    /// Something has arrived that may change an object, its attributes or its keys.
    pub fn change_began(&mut self, object: &ObjectId) {
        *self.changes.entry(object.clone()).or_default() += 1;
        self.void(object);
    }

    /// A change has arrived whose end this state machine does not hear of. Until it is over, the
    /// runtime must fail the copies of the object that are made.
    pub fn leave_read_set(&mut self, object: &ObjectId) {
        self.void(object);
    }

    /// A change is over: the engine has answered it, or will never execute it.
    pub fn change_ended(&mut self, now: Duration, object: &ObjectId) {
        self.uncount_change(object);
        if let Some(of) = self.objects.get_mut(object) {
            of.changed_at = Some(now);
        }
    }

    pub(super) fn uncount_change(&mut self, object: &ObjectId) {
        if let Some(count) = self.changes.get_mut(object) {
            *count -= 1;
            if *count == 0 {
                self.changes.remove(object);
            }
        }
    }

    /// Takes all copies of an object out of the read set, and makes those in the making useless.
    pub(super) fn void(&mut self, object: &ObjectId) {
        let Some(of) = self.objects.get_mut(object) else { return };
        (of.reads, of.is_too_large, of.updated) = (0, false, None);
        let targets: Vec<_> = of.copies.keys().cloned().collect();
        for target in targets {
            self.forget_copy(object, &target);
        }
    }

    /// Takes a copy out of the read set, or makes it useless if it is in the making.
    pub(super) fn forget_copy(&mut self, object: &ObjectId, target: &TargetName) {
        let of = self.objects.get_mut(object);
        let Some(copy) = of.and_then(|of| of.copies.remove(target)) else { return };
        self.bytes -= copy.counted_bytes();
        if !matches!(copy, Copy::Making(..)) {
            self.drop_later(object, target.clone(), copy.tag(), copy.stored_in());
        }
    }

    fn drop_later(
        &mut self,
        object: &ObjectId,
        target: TargetName,
        tag: CopyTag,
        stored_in: Option<ObjectId>,
    ) {
        if self.to_drop.len() >= MAX_COPIES_TO_DROP {
            self.is_sweep_due = true;
            return;
        }
        let before = self.to_drop.insert((object.clone(), target), (tag, stored_in.clone()));
        // An earlier copy in another object would be forgotten.
        self.is_sweep_due |= before.is_some_and(|(_, before)| before != stored_in);
    }

    /// Whether a copy in the making is still of use.
    pub fn is_wanted(&self, making: &Making) -> bool {
        let of = self.objects.get(&making.object);
        let copy = of.and_then(|of| of.copies.get(&making.target));
        matches!(copy, Some(Copy::Making(tag, _)) if *tag == making.tag)
    }

    /// What updates have changed since the switch ordered this copy, or since the runtime took it
    /// last. The runtime copies these bytes again.
    pub fn take_missed(&mut self, making: &Making) -> Missed {
        let of = self.objects.get_mut(&making.object);
        match of.and_then(|of| of.copies.get_mut(&making.target)) {
            Some(Copy::Making(tag, missed)) if *tag == making.tag => missed.take(),
            _ => Missed::default(),
        }
    }

    /// How many bytes [`Copies::take_missed`] would take.
    pub fn missed_bytes(&self, making: &Making) -> u64 {
        let of = self.objects.get(&making.object);
        match of.and_then(|of| of.copies.get(&making.target)) {
            Some(Copy::Making(tag, missed)) if *tag == making.tag => {
                missed.spans.iter().fold(0, |sum, span| span.length().saturating_add(sum))
            }
            _ => 0,
        }
    }

    /// Whether a copy could become current now: it is still of use, no update is in flight, and
    /// none has changed bytes that the runtime has not copied since.
    fn is_caught_up(&self, making: &Making) -> bool {
        let is_changing = self.changes.contains_key(&making.object);
        self.is_wanted(making) && !is_changing && self.missed_bytes(making) == 0
    }

    /// A copy is complete, or it could not be made.
    ///
    /// The copy has the bytes that the object had at some time since the switch ordered the copy,
    /// or since the runtime last took what it had missed. It becomes current unless a change has
    /// begun since then.
    pub fn made(&mut self, now: Duration, making: &Making, outcome: Result<MadeCopy, MakeFailure>) {
        self.makings.remove(&making.tag);
        let is_wanted = self.is_wanted(making);
        let is_caught_up = self.is_caught_up(making);
        let stored_in = outcome.as_ref().ok().map(|made| made.stored_in.clone());
        let outcome =
            outcome.and_then(|made| is_caught_up.then_some(made).ok_or(MakeFailure::Changed));
        match outcome {
            Ok(_) => self.targets.answered(&making.target),
            Err(MakeFailure::Target) => {
                self.targets.failed(&making.target, now, self.settings.rest)
            }
            Err(_) => {}
        }
        if !is_wanted {
            // Another copy that is in the making, or current, replaces this one at the target.
            let of = self.objects.get(&making.object);
            if of.is_none_or(|of| !of.copies.contains_key(&making.target)) {
                self.drop_later(&making.object, making.target.clone(), making.tag, stored_in);
            }
            return;
        }
        let Some(of) = self.objects.get_mut(&making.object) else { return };
        match outcome {
            Ok(MadeCopy { stat, applied, stored_in }) => {
                self.made += 1;
                self.bytes += stat.size;
                let state = CopyState { tag: making.tag, applied };
                let current = CurrentCopy { state, stat, stored_in };
                of.copies.insert(making.target.clone(), Copy::Current(current));
            }
            Err(why) => {
                self.failed += 1;
                of.copies.remove(&making.target);
                match why {
                    MakeFailure::TooLarge => of.is_too_large = true,
                    MakeFailure::Changed => (of.reads, of.changed_at) = (0, Some(now)),
                    MakeFailure::Target => {}
                }
                self.drop_later(&making.object, making.target.clone(), making.tag, stored_in);
            }
        }
    }

    /// Time has passed: forgets the objects that nobody has read for long.
    pub fn tick(&mut self, now: Duration) {
        let is_idle = |of: &OfObject| {
            let patience = match of.copies.is_empty() {
                true => UNCOPIED_IDLE_TIME,
                false => COPY_IDLE_TIME,
            };
            now.saturating_sub(of.read_at) >= patience && !of.is_being_copied()
        };
        let idle = self.objects.iter().filter(|(_, of)| is_idle(of));
        let idle: Vec<_> = idle.map(|(object, _)| object.clone()).collect();
        for object in idle {
            self.void(&object);
            self.objects.remove(&object);
        }
    }

    /// Takes at most `most` copies that the runtime has to drop.
    pub fn take_to_drop(&mut self, most: usize) -> Vec<CopyToDrop> {
        let mut taken = vec![];
        while taken.len() < most
            && let Some(((object, target), (tag, stored_in))) = self.to_drop.pop_first()
        {
            taken.push(CopyToDrop { object, target, tag, stored_in });
        }
        taken
    }

    /// A copy could not be dropped. The next sweep finds it.
    pub fn not_dropped(&mut self) {
        self.is_sweep_due = true;
    }

    /// Whether the runtime has to look for copies that this switch does not know. The caller looks
    /// for them.
    pub fn take_sweep(&mut self) -> bool {
        std::mem::take(&mut self.is_sweep_due)
    }

    /// The runtime has found a copy of `object` for `target`, in the object `stored_in`. Returns what
    /// to drop, unless the switch knows this copy or makes one there.
    pub fn found(
        &self,
        object: &ObjectId,
        target: &TargetName,
        stored_in: &ObjectId,
    ) -> Option<CopyToDrop> {
        let copy = self.objects.get(object).and_then(|of| of.copies.get(target));
        let is_known = match copy {
            None => false,
            Some(Copy::Making(..)) => true,
            Some(copy) => copy.stored_in().as_ref() == Some(stored_in),
        };
        let tag = CopyTag { term: self.term, number: self.number };
        let found = || CopyToDrop {
            object: object.clone(),
            target: target.clone(),
            tag,
            stored_in: Some(stored_in.clone()),
        };
        (!is_known).then(found)
    }

    /// Whether a target has a current copy of an object that `home` holds. The home always counts
    /// as one.
    pub fn is_current(&self, object: &ObjectId, home: &TargetName, target: &TargetName) -> bool {
        let of = self.objects.get(object);
        let copy = of.and_then(|of| of.copies.get(target));
        target == home || matches!(copy, Some(Copy::Current(..)))
    }

    /// The copies at present.
    pub fn summary(&self) -> CopySummary {
        let copies = self.objects.values().flat_map(|of| of.copies.values());
        CopySummary {
            current: copies.filter(|copy| matches!(copy, Copy::Current(..))).count(),
            in_the_making: self.makings.len(),
            bytes: self.bytes,
            made: self.made,
            failed: self.failed,
            updates: self.updates,
            updates_failed: self.updates_failed,
            served: self.targets.all_served(),
        }
    }
}
