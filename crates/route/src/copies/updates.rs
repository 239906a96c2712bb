//! The part of [`Copies`] about updates: plain writes that are applied at the home and then at each
//! current copy, so that the copies stay current (*scatter of writes*).
//!
//! # Protocol
//!
//! 1. [`Copies::update_began`]: from this moment on no read goes to a copy. The answer says which
//!    copies get the update. The runtime applies it at the home first.
//! 2. When the home has it, the runtime sends it to the copies, to each in the order of the updates.
//!    It tells each result by [`Copies::update_confirmed`] or [`Copies::update_failed`]. A copy that
//!    fails is forgotten, and made anew.
//! 3. [`Copies::may_end`]: whether enough copies have answered. Then [`Copies::update_ended`], and
//!    only then does the client get its reply. The copies that have all updates rejoin the read set.
//!    A copy that confirms later rejoins when it has all of them.
//!
//! # Invariants
//!
//! - A copy is current only if no change and no update of its object is in flight, and the copy has
//!   applied all updates that were done since it was made.
//! - If an update fails at the home, or another change meets it, its copies are forgotten. So copies
//!   never serve what the home does not have.
//! - A copy in the making becomes current only when the runtime has copied what updates have changed
//!   meanwhile.

use std::time::Duration;

use nacre_object::ObjectId;

use super::head::CopyState;
use super::of_object::{Copy, CurrentCopy, UpdatingCopy};
use super::tracker::Copies;
use super::update::{CopyUpdate, Update, UpdateEnd, UpdateFailure};
use crate::limits::{MAX_COPY_BYTES, MAX_UNCONFIRMED_UPDATES};
use crate::model::Take;

impl Copies {
    /// An update has arrived. Returns the copies that get it after the home.
    ///
    /// If another change of the object is in flight, it is not known which of the two the home
    /// executes first. So there are no copies then.
    pub fn update_began(&mut self, object: &ObjectId, update: &Update) -> Vec<CopyUpdate> {
        let others = self.changes.entry(object.clone()).or_default();
        *others += 1;
        if *others > 1 {
            self.void(object);
            return vec![];
        }
        let Some(of) = self.objects.get_mut(object) else { return vec![] };
        let mut updates = vec![];
        let mut too_late = vec![];
        for (target, copy) in &mut of.copies {
            let mut updating = match &*copy {
                Copy::Making(..) => continue,
                Copy::Current(CurrentCopy { state, stat, stored_in }) => UpdatingCopy {
                    tag: state.tag,
                    stored_in: stored_in.clone(),
                    sent: state.applied,
                    confirmed: state.applied,
                    size: stat.size,
                    counted: stat.size,
                    is_awaited: true,
                },
                Copy::Updating(late) => UpdatingCopy { is_awaited: false, ..late.clone() },
            };
            if updating.sent - updating.confirmed >= MAX_UNCONFIRMED_UPDATES {
                too_late.push(target.clone());
                continue;
            }
            let write = update.write(object, (updating.tag, updating.sent), updating.size);
            (updating.sent, updating.size) = (updating.sent + 1, write.size);
            let stored_in = updating.stored_in.clone();
            updates.push(CopyUpdate { target: target.clone(), stored_in, write });
            *copy = Copy::Updating(updating);
        }
        for target in too_late {
            self.forget_copy(object, &target);
        }
        updates
    }

    /// A copy has applied an update, and all updates before it.
    pub fn update_confirmed(&mut self, update: &CopyUpdate) {
        self.updates += 1;
        self.targets.answered(&update.target);
        let object = &update.write.home;
        if let Some(copy) = self.updating(update) {
            copy.confirmed = copy.confirmed.max(update.write.number + 1);
            self.rejoin(object);
        }
    }

    /// A copy does not have an update. It may have the update all the same if the target did not
    /// answer.
    pub fn update_failed(&mut self, now: Duration, update: &CopyUpdate, why: UpdateFailure) {
        if self.updating(update).is_none() {
            return;
        }
        self.updates_failed += 1;
        if why == UpdateFailure::Target {
            self.targets.failed(&update.target, now, self.settings.rest);
        }
        self.forget_copy(&update.write.home, &update.target);
    }

    /// Whether the update in flight of an object may end: the home has it, and so have enough of
    /// the copies that were current when it began. Copies that have failed do not count.
    pub fn may_end(&self, object: &ObjectId, take: Take) -> bool {
        let copies = self.objects.get(object).into_iter().flat_map(|of| of.copies.values());
        let (mut have_it, mut missing) = (0, 0);
        for copy in copies {
            if let Copy::Updating(copy) = copy
                && copy.is_awaited
            {
                *if copy.has_all() { &mut have_it } else { &mut missing } += 1;
            }
        }
        match take {
            Take::One => true,
            Take::All => missing == 0,
            // The home has it too.
            Take::Quorum => 1 + have_it > missing,
        }
    }

    /// An update is over at the home, and may end.
    pub fn update_ended(&mut self, object: &ObjectId, update: &Update, end: UpdateEnd) {
        self.uncount_change(object);
        let (version, stat) = match end {
            UpdateEnd::Failed => return self.void(object),
            UpdateEnd::Done(stat) if stat.size > MAX_COPY_BYTES => return self.void(object),
            UpdateEnd::OnlyAtHome { version } => (version, None),
            UpdateEnd::Done(stat) => (stat.version, Some(stat)),
        };
        let Some(of) = self.objects.get_mut(object) else { return };
        of.updated = stat;
        for copy in of.copies.values_mut() {
            if let Copy::Making(_, missed) = copy {
                missed.add(update.span(), version);
            }
        }
        self.rejoin(object);
    }

    /// Takes the copies that have all updates into the read set again, unless something is in
    /// flight.
    fn rejoin(&mut self, object: &ObjectId) {
        if self.changes.contains_key(object) {
            return;
        }
        let Some(of) = self.objects.get_mut(object) else { return };
        let Some(stat) = of.updated else { return };
        let mut odd = vec![];
        for (target, copy) in &mut of.copies {
            let Copy::Updating(updating) = copy else { continue };
            if !updating.has_all() {
                continue;
            }
            if updating.size != stat.size {
                odd.push(target.clone());
                continue;
            }
            self.bytes = self.bytes - updating.counted + stat.size;
            let state = CopyState { tag: updating.tag, applied: updating.confirmed };
            let stored_in = updating.stored_in.clone();
            *copy = Copy::Current(CurrentCopy { state, stat, stored_in });
        }
        for target in odd {
            self.forget_copy(object, &target);
        }
    }

    /// The copy to which an update is on its way, unless the copy was forgotten meanwhile.
    fn updating(&mut self, update: &CopyUpdate) -> Option<&mut UpdatingCopy> {
        let of = self.objects.get_mut(&update.write.home)?;
        match of.copies.get_mut(&update.target)? {
            Copy::Updating(copy) if copy.tag == update.write.tag => Some(copy),
            _ => None,
        }
    }
}
