//! `Copies`: a state machine that decides which copies are current and where reads go.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use nacre_object::{ObjectId, ObjectStat, TargetName};

use super::choice::{ReadContext, choose};
use super::head::CopyTag;
use super::of_object::{Copy, OfObject};
use super::targets::Targets;
use crate::fast_hash::FastHashMap;
use crate::limits::{
    COPY_IDLE_TIME, MAX_COPIED_BYTES, MAX_COPIED_OBJECTS, MAX_COPIES_IN_THE_MAKING,
    MAX_COPIES_TO_DROP, MAX_SCATTER_TARGETS, MIN_TARGET_REST, UNCOPIED_IDLE_TIME,
};
use crate::model::{Choice, Scatter};
use crate::switch::Term;

/// When copies are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CopySettings {
    /// An object is copied only if it has not changed for this time.
    pub quiet: Duration,
    /// An object is copied only after so many reads since its last change.
    pub reads: u32,
    /// How long a target gets no reads of copies after its first failure. Each further failure
    /// doubles the time, up to [`MAX_TARGET_REST`](crate::limits::MAX_TARGET_REST).
    pub rest: Duration,
}

impl Default for CopySettings {
    fn default() -> Self {
        Self { quiet: Duration::from_secs(1), reads: 3, rest: MIN_TARGET_REST }
    }
}

/// Where a read goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReadFrom {
    /// To the object itself.
    Home,
    /// To a current copy.
    Copy {
        /// The target that has it.
        target: TargetName,
        /// The copy.
        tag: CopyTag,
        /// What `stat` answers about the object.
        stat: ObjectStat,
    },
}

/// A copy that the runtime has to make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Making {
    /// The object.
    pub object: ObjectId,
    /// Where.
    pub target: TargetName,
    /// The copy.
    pub tag: CopyTag,
}

/// What the runtime does with a read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedRead {
    /// Where it goes.
    pub from: ReadFrom,
    /// The copies to make.
    pub make: Vec<Making>,
}

/// Why a copy was not made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MakeFailure {
    /// The object is too large.
    TooLarge,
    /// The object changed meanwhile, or cannot be read at its home.
    Changed,
    /// The target did not answer, or cannot store the copy.
    Target,
}

/// Why a read of a copy failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadFailure {
    /// The target does not have the copy any more.
    Lost,
    /// The target did not answer, or cannot read.
    Target,
}

/// A copy that nobody needs, at a target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyToDrop {
    /// The object of which it is a copy.
    pub object: ObjectId,
    /// Where.
    pub target: TargetName,
    /// The copy. Later copies stay.
    pub tag: CopyTag,
}

/// The copies at present, for reports.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CopySummary {
    /// How many are current.
    pub current: usize,
    /// How many are being made.
    pub in_the_making: usize,
    /// The bytes of the current ones.
    pub bytes: u64,
    /// How many copies became current since the start.
    pub made: u64,
    /// How many copies could not be made since the start.
    pub failed: u64,
    /// How many reads each target has served since the start.
    pub served: BTreeMap<TargetName, u64>,
}

/// Decides which copies of the objects of one target are current, and which copy serves a read. See
/// the module's description for the protocol.
#[derive(Debug)]
pub struct Copies {
    own: TargetName,
    settings: CopySettings,
    /// The term of the installed rules; 0 until there are some.
    term: Term,
    /// The number of the last tag.
    number: u64,
    objects: FastHashMap<ObjectId, OfObject>,
    /// How many changes of each object are in flight.
    changes: FastHashMap<ObjectId, usize>,
    /// The copies that the runtime is making, including those that became useless meanwhile.
    makings: BTreeSet<CopyTag>,
    targets: Targets,
    /// The bytes of current copies.
    bytes: u64,
    to_drop: BTreeMap<(ObjectId, TargetName), CopyTag>,
    /// Whether targets may have copies that this switch does not know.
    is_sweep_due: bool,
    count: u64,
    made: u64,
    failed: u64,
}

impl Copies {
    /// The copies of the objects of the target `own`, whose switch has just started.
    pub fn new(own: TargetName, settings: CopySettings) -> Self {
        Self {
            own,
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

    /// A read arrives, which the rule with `scatter` decides about. `random` is a random number.
    ///
    /// The runtime calls [`Copies::read_ended`] when the read is over, with the target
    /// [`Copies::own`] if it went home.
    pub fn read(
        &mut self,
        now: Duration,
        object: &ObjectId,
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
        let from = self.source(now, object, scatter, random);
        self.targets.began(match &from {
            ReadFrom::Home => &self.own,
            ReadFrom::Copy { target, .. } => target,
        });
        PlannedRead { from, make: self.order(now, object, scatter) }
    }

    /// Where a read goes.
    fn source(&self, now: Duration, object: &ObjectId, scatter: &Scatter, random: u64) -> ReadFrom {
        let of = self.objects.get(object);
        let current = |target: &TargetName| match of?.copies.get(target)? {
            Copy::Current(tag, stat) => Some((*tag, *stat)),
            Copy::Making(_) => None,
        };
        let can_serve = |target: &&TargetName| {
            **target == self.own
                || (current(target).is_some() && self.targets.is_usable(target, now))
        };
        let candidates = scatter.among.iter().filter(can_serve);
        let candidates: Vec<_> = candidates.map(|one| self.targets.candidate(one)).collect();
        let context = ReadContext { random, count: self.count, own: &self.own };
        let chosen = choose(scatter.choice, &candidates, context);
        let copy = chosen.filter(|target| **target != self.own);
        let copy = copy.and_then(|target| Some((target.clone(), current(target)?)));
        copy.map_or(ReadFrom::Home, |(target, (tag, stat))| ReadFrom::Copy { target, tag, stat })
    }

    /// Orders the copies that an object should have and does not have.
    fn order(&mut self, now: Duration, object: &ObjectId, scatter: &Scatter) -> Vec<Making> {
        let CopySettings { quiet, reads, .. } = self.settings;
        // The nearest target is the home itself, so no read would go to a copy.
        let is_useless = scatter.choice == Choice::Nearest && scatter.among.contains(&self.own);
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
        for target in scatter.among.iter().filter(|target| **target != self.own) {
            let is_full = self.makings.len() >= MAX_COPIES_IN_THE_MAKING
                || of.copies.len() >= MAX_SCATTER_TARGETS;
            if is_full || of.copies.contains_key(target) || !self.targets.is_usable(target, now) {
                continue;
            }
            self.number += 1;
            let tag = CopyTag { term: self.term, number: self.number };
            self.makings.insert(tag);
            of.copies.insert(target.clone(), Copy::Making(tag));
            self.to_drop.remove(&(object.clone(), target.clone()));
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
        (target, tag): (&TargetName, CopyTag),
        why: ReadFailure,
    ) {
        match why {
            ReadFailure::Target => self.targets.failed(target, now, self.settings.rest),
            ReadFailure::Lost => {
                self.targets.answered(target);
                let of = self.objects.get_mut(object);
                let copies = of.map(|of| &mut of.copies);
                if let Some(copies) = copies
                    && copies.get(target).is_some_and(|copy| copy.tag() == tag)
                    && let Some(copy) = copies.remove(target)
                {
                    self.bytes -= copy.current_bytes();
                }
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
        if let Some(count) = self.changes.get_mut(object) {
            *count -= 1;
            if *count == 0 {
                self.changes.remove(object);
            }
        }
        if let Some(of) = self.objects.get_mut(object) {
            of.changed_at = Some(now);
        }
    }

    /// Takes all copies of an object out of the read set, and makes those in the making useless.
    fn void(&mut self, object: &ObjectId) {
        let Some(of) = self.objects.get_mut(object) else { return };
        (of.reads, of.is_too_large) = (0, false);
        for (target, copy) in std::mem::take(&mut of.copies) {
            self.bytes -= copy.current_bytes();
            if matches!(copy, Copy::Current(..)) {
                self.drop_later(object, target, copy.tag());
            }
        }
    }

    fn drop_later(&mut self, object: &ObjectId, target: TargetName, tag: CopyTag) {
        match self.to_drop.len() < MAX_COPIES_TO_DROP {
            true => drop(self.to_drop.insert((object.clone(), target), tag)),
            false => self.is_sweep_due = true,
        }
    }

    /// Whether a copy in the making is still of use.
    pub fn is_wanted(&self, making: &Making) -> bool {
        let of = self.objects.get(&making.object);
        let copy = of.and_then(|of| of.copies.get(&making.target));
        copy == Some(&Copy::Making(making.tag))
    }

    /// A copy is complete, with the `stat` of its object at the home; or it could not be made.
    ///
    /// The copy has the bytes that the object had at some time since the switch ordered the copy.
    /// It becomes current unless a change has begun since then.
    pub fn made(
        &mut self,
        now: Duration,
        making: &Making,
        outcome: Result<ObjectStat, MakeFailure>,
    ) {
        self.makings.remove(&making.tag);
        let is_wanted = self.is_wanted(making);
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
                self.drop_later(&making.object, making.target.clone(), making.tag);
            }
            return;
        }
        let Some(of) = self.objects.get_mut(&making.object) else { return };
        match outcome {
            Ok(stat) => {
                self.made += 1;
                self.bytes += stat.size;
                of.copies.insert(making.target.clone(), Copy::Current(making.tag, stat));
            }
            Err(why) => {
                self.failed += 1;
                of.copies.remove(&making.target);
                match why {
                    MakeFailure::TooLarge => of.is_too_large = true,
                    MakeFailure::Changed => (of.reads, of.changed_at) = (0, Some(now)),
                    MakeFailure::Target => {}
                }
                self.drop_later(&making.object, making.target.clone(), making.tag);
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
            && let Some(((object, target), tag)) = self.to_drop.pop_first()
        {
            taken.push(CopyToDrop { object, target, tag });
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

    /// The runtime has found a copy of `object` at `target`. Returns what to drop, unless the
    /// switch knows a copy there.
    pub fn found(&self, object: &ObjectId, target: &TargetName) -> Option<CopyToDrop> {
        let of = self.objects.get(object);
        let is_known = of.is_some_and(|of| of.copies.contains_key(target));
        let tag = CopyTag { term: self.term, number: self.number };
        let found = || CopyToDrop { object: object.clone(), target: target.clone(), tag };
        (!is_known).then(found)
    }

    /// The target of this switch.
    pub fn own(&self) -> &TargetName {
        &self.own
    }

    /// Whether a target has a current copy of an object. The home always counts as one.
    pub fn is_current(&self, object: &ObjectId, target: &TargetName) -> bool {
        let of = self.objects.get(object);
        let copy = of.and_then(|of| of.copies.get(target));
        *target == self.own || matches!(copy, Some(Copy::Current(..)))
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
            served: self.targets.all_served(),
        }
    }
}
