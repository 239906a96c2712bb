//! `Targets`: the load and health of the targets that serve reads.

use std::collections::BTreeMap;
use std::time::Duration;

use nacre_object::TargetName;

use super::choice::Candidate;
use crate::limits::MAX_TARGET_REST;

/// One target.
#[derive(Debug, Default)]
struct Target {
    /// Reads that are not answered yet.
    outstanding: usize,
    /// Reads that it has answered.
    served: u64,
    /// How often it has failed since it last answered.
    failures: u32,
    /// After a failure it gets no reads before this time.
    rests_until: Duration,
}

/// All targets that have served a read.
#[derive(Debug, Default)]
pub(super) struct Targets(BTreeMap<TargetName, Target>);

impl Targets {
    fn entry(&mut self, name: &TargetName) -> &mut Target {
        self.0.entry(name.clone()).or_default()
    }

    /// Whether a target may get a read or a copy. After its pause, a target that has failed gets a
    /// single one, until it answers.
    pub fn is_usable(&self, name: &TargetName, now: Duration) -> bool {
        self.0.get(name).is_none_or(|target| {
            target.failures == 0 || (now >= target.rests_until && target.outstanding == 0)
        })
    }

    pub fn candidate<'a>(&self, name: &'a TargetName) -> Candidate<'a> {
        let outstanding = self.0.get(name).map_or(0, |target| target.outstanding);
        Candidate { target: name, outstanding }
    }

    pub fn began(&mut self, name: &TargetName) {
        self.entry(name).outstanding += 1;
    }

    /// A read is over, with or without an answer.
    pub fn ended(&mut self, name: &TargetName) {
        let target = self.entry(name);
        target.outstanding = target.outstanding.saturating_sub(1);
    }

    pub fn served(&mut self, name: &TargetName) {
        let target = self.entry(name);
        target.served += 1;
        target.failures = 0;
    }

    /// The target has answered something other than a read.
    pub fn answered(&mut self, name: &TargetName) {
        self.entry(name).failures = 0;
    }

    /// The target did not answer, or cannot store. Its first pause is `rest`; each further failure
    /// doubles the pause.
    pub fn failed(&mut self, name: &TargetName, now: Duration, rest: Duration) {
        let target = self.entry(name);
        let pause = rest.saturating_mul(1 << target.failures.min(16));
        target.rests_until = now.saturating_add(pause.min(MAX_TARGET_REST));
        target.failures = target.failures.saturating_add(1);
    }

    /// How many reads each target has served.
    pub fn all_served(&self) -> BTreeMap<TargetName, u64> {
        self.0.iter().map(|(name, target)| (name.clone(), target.served)).collect()
    }
}
