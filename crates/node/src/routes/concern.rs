//! `Concern`: the objects whose IO must go through the switch. All other IO passes at once.
//!
//! These are the objects that rules are about. At a gateway to Ceph, the objects that another gateway
//! may cache are concerned too: their IO must go to that gateway, the router.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};

use nacre_object::{ObjectId, PoolName, TargetName};
use nacre_route::{
    Destination, FastHashSet, Follow, LayerName, ObjectMatch, Pattern, PrefixMap, Record, Rule,
    text_of,
};

/// The objects whose IO must go through the switch.
#[derive(Debug, Default)]
pub(super) struct Concern {
    all: Matches,
    following: Matches,
    copied: Matches,
    kept: Matches,
    /// The objects that are erasure-coded, or may still be.
    erasure: Matches,
    /// The same objects, as rules name them.
    erasure_objects: Vec<ObjectMatch>,
    /// The objects that other rules are about, or of which bytes may be elsewhere.
    besides_erasure: Matches,
    /// The objects of rules that send IO to a waypoint.
    waypoints: Vec<(LayerName, Matches)>,
    /// The pools that the router may cache.
    cached: BTreeSet<PoolName>,
}

/// The objects that are concerned at present.
#[derive(Debug)]
pub(super) struct PresentConcern {
    now: RwLock<Arc<Concern>>,
    cached: Mutex<BTreeSet<PoolName>>,
    /// The objects with changes that bypassed the switch and may still happen although they were
    /// answered, with the number of these changes.
    late: Mutex<BTreeMap<ObjectId, usize>>,
}

impl PresentConcern {
    /// The objects of the record that the node found when it started.
    pub fn new(record: &Record) -> Self {
        let now = RwLock::new(Arc::new(Concern::of(record, &[])));
        Self { now, cached: Mutex::default(), late: Mutex::default() }
    }

    pub fn now(&self) -> RwLockReadGuard<'_, Arc<Concern>> {
        self.now.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the pools that the router may cache, from the next [`replace`](Self::replace) on.
    pub fn set_cached(&self, pools: BTreeSet<PoolName>) {
        *self.cached.lock().unwrap_or_else(PoisonError::into_inner) = pools;
    }

    fn late(&self) -> MutexGuard<'_, BTreeMap<ObjectId, usize>> {
        self.late.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A change that bypassed the switch may still happen. Call this before its pass is dropped.
    pub fn note_late(&self, object: &ObjectId) {
        *self.late().entry(object.clone()).or_default() += 1;
    }

    /// Such a change has happened or never will.
    pub fn note_settled(&self, object: &ObjectId) {
        let mut late = self.late();
        if let Some(count) = late.get_mut(object) {
            *count -= 1;
            if *count == 0 {
                late.remove(object);
            }
        }
    }

    /// Makes the objects of `record` and of the rules `wanted` the concerned ones. Returns once all
    /// IO that bypassed the switch under the former set is done, and no change of a concerned object
    /// that bypassed the switch can happen any more.
    pub async fn replace(&self, record: &Record, wanted: &[Vec<Rule>]) {
        let cached = self.cached.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let new = Arc::new(Concern { cached, ..Concern::of(record, wanted) });
        let old = {
            let mut now = self.now.write().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *now, new)
        };
        while Arc::strong_count(&old) > 1 {
            tokio::time::sleep(super::control::SHORT_REST).await;
        }
        let present = Arc::clone(&self.now());
        while self.late().keys().any(|object| present.concerns(object)) {
            tokio::time::sleep(super::control::SHORT_REST).await;
        }
    }
}

/// Permits an IO to bypass the switch, because no rule concerns its object. The holder drops this
/// value when the IO is done. Before new rules apply, the switch waits for all IO that it let pass
/// under the old rules.
#[derive(Debug)]
pub(super) struct FreePass(#[expect(dead_code, reason = "it is counted")] Arc<Concern>);

/// Whether a rule sends reads to copies.
pub(super) fn is_scattering(rule: &&Rule) -> bool {
    matches!(rule.destination, Destination::Scatter(_))
}

fn keeps_snapshots(rule: &&Rule) -> bool {
    matches!(rule.destination, Destination::Snapshots(_))
}

/// These sets of objects without those that a prefix among them has.
fn apart(all: BTreeSet<&ObjectMatch>) -> Vec<ObjectMatch> {
    let text = |objects: &ObjectMatch| match objects {
        ObjectMatch::Exact(object) => object.to_string(),
        ObjectMatch::Prefix(prefix) => prefix.clone(),
        ObjectMatch::Pattern(pattern) => pattern.literal_prefix().to_owned(),
    };
    let has = |one: &ObjectMatch, other: &ObjectMatch| matches!(one, ObjectMatch::Prefix(prefix) if text(other).starts_with(prefix.as_str()));
    let is_apart = |one: &&ObjectMatch| !all.iter().any(|other| other != one && has(other, one));
    all.iter().copied().filter(is_apart).cloned().collect()
}

/// Which objects may have copies at which targets.
#[derive(Debug, Default)]
pub(super) struct CopyTargets(BTreeMap<TargetName, Matches>);

impl CopyTargets {
    pub fn of<'a>(rules: impl Iterator<Item = &'a Rule>) -> Self {
        let mut objects = BTreeMap::<&TargetName, Vec<&ObjectMatch>>::new();
        for rule in rules {
            let Destination::Scatter(scatter) = &rule.destination else { continue };
            for target in &scatter.among {
                objects.entry(target).or_default().push(&rule.header.object);
            }
        }
        let matches = |(target, objects): (&TargetName, Vec<&'a ObjectMatch>)| {
            (target.clone(), Matches::of(objects.into_iter()))
        };
        Self(objects.into_iter().map(matches).collect())
    }

    /// Whether a rule lets an object have a copy at a target.
    pub fn names(&self, object: &ObjectId, target: &TargetName) -> bool {
        self.0.get(target).is_some_and(|objects| objects.contains(object))
    }
}

/// A set of objects, given by names, prefixes and patterns. The time of a lookup hardly depends on
/// the number of names and prefixes.
#[derive(Debug, Default)]
pub(super) struct Matches {
    exact: FastHashSet<ObjectId>,
    prefixes: PrefixMap<()>,
    /// By literal prefix.
    patterns: PrefixMap<BTreeSet<Pattern>>,
}

impl Concern {
    /// The objects of a stored record and of the rules `wanted`.
    pub fn of(record: &Record, wanted: &[Vec<Rule>]) -> Self {
        let rules = || record.wanted.rules.values().flatten().chain(wanted).flatten();
        let objects = rules().map(|rule| &rule.header.object);
        let is_following = |rule: &&Rule| rule.options.follow != Follow::No;
        let waypoint = |rule: &Rule| match &rule.destination {
            Destination::Waypoint(layer) => Some((layer.clone(), rule.header.object.clone())),
            _ => None,
        };
        let mut waypoints: BTreeMap<LayerName, Vec<ObjectMatch>> = BTreeMap::new();
        for (layer, object) in rules().filter_map(waypoint) {
            waypoints.entry(layer).or_default().push(object);
        }
        let waypoints = waypoints.into_iter();
        let is_erasure = |to: &Destination| matches!(to, Destination::Erasure(_));
        let places = rules().map(|rule| (&rule.header.object, is_erasure(&rule.destination)));
        let followed = record.followed.iter();
        let places = places.chain(followed.map(|one| (&one.object, is_erasure(&one.destination))));
        let (erasure, besides): (Vec<_>, Vec<_>) = places.partition(|(_, is_erasure)| *is_erasure);
        let erasure = apart(erasure.into_iter().map(|(object, _)| object).collect());
        Self {
            waypoints: waypoints.map(|(layer, of)| (layer, Matches::of(of.iter()))).collect(),
            all: Matches::of(objects.chain(record.followed.iter().map(|one| &one.object))),
            following: Matches::of(rules().filter(is_following).map(|rule| &rule.header.object)),
            copied: Matches::of(rules().filter(is_scattering).map(|rule| &rule.header.object)),
            kept: Matches::of(rules().filter(keeps_snapshots).map(|rule| &rule.header.object)),
            erasure: Matches::of(erasure.iter()),
            erasure_objects: erasure,
            besides_erasure: Matches::of(besides.into_iter().map(|(object, _)| object)),
            cached: BTreeSet::new(),
        }
    }

    /// Whether there are no rules.
    pub fn has_no_rules(&self) -> bool {
        self.all.is_empty()
    }

    /// Whether IO on an object must go through the switch.
    fn concerns(&self, object: &ObjectId) -> bool {
        let is_cached = !self.cached.is_empty() && self.cached.contains(&object.pool);
        is_cached || self.all.contains(object)
    }

    /// A pass for an IO on an object that the switch need not look at.
    pub fn pass(self: &Arc<Self>, object: &ObjectId) -> Option<FreePass> {
        (!self.concerns(object)).then(|| FreePass(Arc::clone(self)))
    }

    /// A pass for an IO on an object that no rule is about.
    pub fn pass_of_rules(self: &Arc<Self>, object: &ObjectId) -> Option<FreePass> {
        (!self.all.contains(object)).then(|| FreePass(Arc::clone(self)))
    }

    /// A pass for an IO that bypasses the switch although rules are about its object.
    pub fn pass_by(self: &Arc<Self>) -> FreePass {
        FreePass(Arc::clone(self))
    }

    /// The waypoints to which rules send IO on an object.
    pub fn waypoints_of(&self, object: &ObjectId) -> Vec<LayerName> {
        let of = self.waypoints.iter().filter(|(_, matches)| matches.contains(object));
        of.map(|(layer, _)| layer.clone()).collect()
    }

    /// Whether a rule lets reads of an object go to copies.
    pub fn is_copied(&self, object: &ObjectId) -> bool {
        self.copied.contains(object)
    }

    /// Whether a rule keeps snapshots of an object.
    pub fn is_kept(&self, object: &ObjectId) -> bool {
        self.kept.contains(object)
    }

    /// Whether an object is or may be erasure-coded.
    pub fn may_be_erasure_coded(&self, object: &ObjectId) -> bool {
        self.erasure.contains(object)
    }

    /// The objects that are or may be erasure-coded.
    pub fn erasure_objects(&self) -> &[ObjectMatch] {
        &self.erasure_objects
    }

    /// Whether other rules are about an object than those that erasure-code it.
    pub fn is_ruled_besides_erasure(&self, object: &ObjectId) -> bool {
        self.besides_erasure.contains(object)
    }

    /// Whether a rule lets writes of an object go elsewhere.
    pub fn is_followed(&self, object: &ObjectId) -> bool {
        self.following.contains(object)
    }
}

impl Matches {
    pub fn of<'a>(all: impl Iterator<Item = &'a ObjectMatch>) -> Self {
        let mut matches = Self::default();
        for one in all {
            match one {
                ObjectMatch::Exact(object) => drop(matches.exact.insert(object.clone())),
                ObjectMatch::Prefix(prefix) => *matches.prefixes.entry(prefix) = (),
                ObjectMatch::Pattern(pattern) => {
                    matches.patterns.entry(pattern.literal_prefix()).insert(pattern.clone());
                }
            }
        }
        matches
    }

    fn is_empty(&self) -> bool {
        self.exact.is_empty() && self.prefixes.is_empty() && self.patterns.is_empty()
    }

    pub fn contains(&self, object: &ObjectId) -> bool {
        if self.exact.contains(object) {
            return true;
        }
        if self.prefixes.is_empty() && self.patterns.is_empty() {
            return false;
        }
        let text = text_of(object);
        self.prefixes.prefixes_of(&text).next().is_some()
            || self.patterns.prefixes_of(&text).flatten().any(|pattern| pattern.matches(&text))
    }
}

#[cfg(test)]
mod tests {
    use nacre_clock::Random;

    use super::*;

    #[test]
    fn sets_of_objects_within_a_prefix_are_left_out() {
        let all = ["p/a*", "p/ab*", "p/a*z", "p/abc", "p/b", "p/b*c"];
        let all = all.map(|text| ObjectMatch::parse(text).unwrap());
        let left: Vec<_> = apart(all.iter().collect()).iter().map(ToString::to_string).collect();
        assert_eq!(left, ["p/b", "p/a*", "p/b*c"]);
    }

    #[test]
    fn a_set_of_matches_contains_every_object_that_one_of_them_matches() {
        let mut random = Random::seeded(7);
        let word = |random: &mut Random| -> String {
            (0..1 + random.below(4)).map(|_| ['a', 'b', 'c'][random.below(3) as usize]).collect()
        };
        let (mut found, mut missed) = (0, 0);
        for _ in 0..300 {
            let matches: Vec<ObjectMatch> = (0..random.below(6))
                .map(|_| {
                    let stars = [("", ""), ("", "*"), ("*", "")][random.below(3) as usize];
                    let text = format!("p/{}{}{}", stars.0, word(&mut random), stars.1);
                    ObjectMatch::parse(&text).unwrap()
                })
                .collect();
            let set = Matches::of(matches.iter());
            for _ in 0..20 {
                let object: ObjectId = format!("p/{}", word(&mut random)).parse().unwrap();
                let expected = matches.iter().any(|one| one.matches(&object));
                assert_eq!(set.contains(&object), expected, "{object} in {matches:?}");
                *if expected { &mut found } else { &mut missed } += 1;
            }
        }
        assert!(found > 500 && missed > 500, "{found} found, {missed} not");
    }
}
