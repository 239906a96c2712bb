//! `SwitchCounts`: what a switch counts of the requests of clients, for control applications.
//!
//! Reads and writes are always counted. The busiest tenants and objects are counted only while the
//! controller asks for them, because this takes a lock for each request.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use nacre_object::{IoHeader, ObjectId, Result, TargetName, TenantName};
use nacre_route::ObjectMatch;
use serde::{Deserialize, Serialize};

use super::NodeSwitch;

/// How many objects are counted at a time.
const MAX_COUNTED_OBJECTS: usize = 256;
/// How many tenants are counted at a time.
const MAX_COUNTED_TENANTS: usize = 64;
/// How long the switch goes on to count after the controller has asked for the counts.
const COUNTED_FOR: Duration = Duration::from_secs(30);

/// The requests that a switch has got, and the most used objects and tenants.
#[derive(Debug, Default)]
struct SwitchCounts {
    reads: AtomicU64,
    writes: AtomicU64,
    is_detailed: AtomicBool,
    details: Mutex<Details>,
}

impl NodeSwitch {
    /// What the switch has counted for each of its targets. It counts these objects for a while
    /// from now on.
    ///
    /// # Errors
    /// `Unavailable` if Ceph does not answer.
    pub(super) async fn statistics(&self, objects: &[ObjectMatch]) -> Result<StatisticsByTarget> {
        let now = self.now();
        let Some(locations) = self.locations().rados() else {
            let counted = self.counts().read(objects.to_vec(), now);
            let routed_bytes = self.core().table().placed_bytes();
            let own = self.locations().own().to_string();
            return Ok([(own, Statistics { routed_bytes, ..counted })].into());
        };
        let targets = locations.targets().await?;
        let read = |osd: &TargetName| self.counts().read_osd(osd, objects.to_vec(), now);
        let mut counted: StatisticsByTarget =
            targets.iter().map(|osd| (osd.to_string(), read(osd))).collect();
        let placed: Vec<_> = {
            let core = self.core();
            let placed = core.table().all_placed();
            placed.map(|(object, rule)| (object.clone(), rule.header.span.length())).collect()
        };
        for (object, bytes) in placed {
            let home = locations.known_primary(&object);
            if let Some(home) = home.and_then(|home| counted.get_mut(home.as_str())) {
                home.routed_bytes += bytes;
            }
        }
        Ok(counted)
    }
}

/// What the switch of a node has counted for each of its targets.
#[derive(Debug, Default)]
pub(super) struct CountsByTarget {
    /// Requests about objects of all targets.
    all: SwitchCounts,
    /// On Ceph, by OSD. There are as many entries as OSDs.
    by_osd: RwLock<BTreeMap<TargetName, Arc<SwitchCounts>>>,
}

impl CountsByTarget {
    /// Counts a request. On Ceph, `osd` is the OSD of its object, if it is known.
    pub fn note(
        &self,
        header: &IoHeader,
        osd: Option<TargetName>,
        now: impl FnOnce() -> Duration + Copy,
    ) {
        self.all.note(header, now);
        if let Some(osd) = osd {
            self.of_osd(&osd).note(header, now);
        }
    }

    fn of_osd(&self, osd: &TargetName) -> Arc<SwitchCounts> {
        let known = self.by_osd.read().unwrap_or_else(PoisonError::into_inner).get(osd).cloned();
        known.unwrap_or_else(|| {
            let mut by_osd = self.by_osd.write().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(by_osd.entry(osd.clone()).or_default())
        })
    }

    /// All requests so far.
    pub fn requests(&self) -> u64 {
        self.all.requests()
    }

    /// What was counted about objects of all targets. From now on, the switch counts these objects
    /// for a while.
    pub fn read(&self, objects: Vec<ObjectMatch>, now: Duration) -> Statistics {
        self.all.read(objects, now)
    }

    /// The same about the objects of one OSD.
    pub fn read_osd(
        &self,
        osd: &TargetName,
        objects: Vec<ObjectMatch>,
        now: Duration,
    ) -> Statistics {
        self.of_osd(osd).read(objects, now)
    }
}

#[derive(Debug, Default)]
struct Details {
    /// Until when to count.
    until: Duration,
    /// The objects to count.
    objects: Vec<ObjectMatch>,
    by_object: Busiest<ObjectId>,
    by_tenant: Busiest<TenantName>,
}

/// What a switch has counted. All counts begin at 0 when its node starts.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Statistics {
    /// The time of the node's monotonic clock.
    pub at_seconds: f64,
    pub reads: u64,
    pub writes: u64,
    pub routed_bytes: u64,
    pub tenants: Vec<Counted>,
    pub objects: Vec<Counted>,
}

/// What a switch has counted for each of its targets, by name.
pub(super) type StatisticsByTarget = BTreeMap<String, Statistics>;

/// The requests of one tenant or about one object.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Counted {
    pub name: String,
    pub reads: u64,
    pub writes: u64,
    /// Since when they are counted.
    pub since_seconds: f64,
    /// The time of the last change; `since_seconds` if there was none.
    pub changed_seconds: f64,
}

impl SwitchCounts {
    /// Counts a request.
    pub fn note(&self, header: &IoHeader, now: impl FnOnce() -> Duration) {
        let access = header.access;
        let is_read = !(access.write || access.create || access.delete);
        let count = if is_read { &self.reads } else { &self.writes };
        count.fetch_add(1, Ordering::Relaxed);
        if self.is_detailed.load(Ordering::Relaxed) {
            self.note_details(header, is_read, now());
        }
    }

    fn note_details(&self, header: &IoHeader, is_read: bool, now: Duration) {
        let mut details = self.details();
        if now > details.until {
            *details = Details::default();
            self.is_detailed.store(false, Ordering::Relaxed);
            return;
        }
        details.by_tenant.note(&header.tenant, is_read, now, MAX_COUNTED_TENANTS);
        if details.objects.iter().any(|one| one.matches(&header.object)) {
            details.by_object.note(&header.object, is_read, now, MAX_COUNTED_OBJECTS);
        }
    }

    fn details(&self) -> MutexGuard<'_, Details> {
        self.details.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All requests so far.
    pub fn requests(&self) -> u64 {
        self.reads.load(Ordering::Relaxed) + self.writes.load(Ordering::Relaxed)
    }

    /// What was counted. From now on, the switch counts these objects for a while.
    pub fn read(&self, objects: Vec<ObjectMatch>, now: Duration) -> Statistics {
        let mut details = self.details();
        (details.until, details.objects) = (now + COUNTED_FOR, objects);
        self.is_detailed.store(true, Ordering::Relaxed);
        let Details { objects, by_object, .. } = &mut *details;
        by_object.0.retain(|object, _| objects.iter().any(|one| one.matches(object)));
        Statistics {
            at_seconds: now.as_secs_f64(),
            reads: self.reads.load(Ordering::Relaxed),
            writes: self.writes.load(Ordering::Relaxed),
            routed_bytes: 0,
            tenants: details.by_tenant.read(ToString::to_string),
            objects: details.by_object.read(rule_text),
        }
    }
}

/// An object as rules write it.
fn rule_text(object: &ObjectId) -> String {
    ObjectMatch::Exact(object.clone()).to_string()
}

/// Counts of the busiest keys (Space-Saving, with weights that decay whenever the counts are read).
#[derive(Debug)]
struct Busiest<K>(HashMap<K, Entry>);

#[derive(Debug)]
struct Entry {
    reads: u64,
    writes: u64,
    since: Duration,
    changed: Duration,
    /// Decides which entry a new key replaces: the one of the smallest weight.
    weight: u64,
}

impl<K> Default for Busiest<K> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<K: Clone + Eq + Hash + Ord> Busiest<K> {
    fn note(&mut self, key: &K, is_read: bool, now: Duration, most: usize) {
        if !self.0.contains_key(key) {
            let weight = if self.0.len() < most { 0 } else { self.drop_least() };
            let entry = Entry { reads: 0, writes: 0, since: now, changed: now, weight };
            self.0.insert(key.clone(), entry);
        }
        let Some(entry) = self.0.get_mut(key) else { return };
        entry.weight += 1;
        match is_read {
            true => entry.reads += 1,
            false => (entry.writes, entry.changed) = (entry.writes + 1, now),
        }
    }

    /// Drops the entry of the smallest weight, and returns that weight.
    fn drop_least(&mut self) -> u64 {
        let least = self.0.iter().min_by_key(|(key, entry)| (entry.weight, (*key).clone()));
        let Some((key, weight)) = least.map(|(key, entry)| (key.clone(), entry.weight)) else {
            return 0;
        };
        self.0.remove(&key);
        weight
    }

    fn read(&mut self, name: impl Fn(&K) -> String) -> Vec<Counted> {
        self.0.values_mut().for_each(|entry| entry.weight /= 2);
        let counted = self.0.iter().map(|(key, entry)| Counted {
            name: name(key),
            reads: entry.reads,
            writes: entry.writes,
            since_seconds: entry.since.as_secs_f64(),
            changed_seconds: entry.changed.as_secs_f64(),
        });
        let mut counted: Vec<_> = counted.collect();
        counted.sort_by(|a, b| a.name.cmp(&b.name));
        counted
    }
}

#[cfg(test)]
mod tests {
    use nacre_object::{Op, Request};

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn header(name: &str, op: Op) -> IoHeader {
        Request::new(format!("data/{name}").parse().unwrap(), vec![op]).unwrap().header
    }

    fn read(name: &str) -> IoHeader {
        header(name, Op::Read { offset: 0, length: 1 })
    }

    fn all() -> Vec<ObjectMatch> {
        vec![ObjectMatch::parse("data/*").unwrap()]
    }

    #[test]
    fn objects_are_counted_once_the_controller_has_asked_and_until_it_is_silent() {
        let counts = SwitchCounts::default();
        counts.note(&read("x"), || SECOND);
        assert_eq!(counts.read(all(), SECOND).objects, []);
        counts.note(&read("x"), || SECOND * 2);
        counts.note(&header("x", Op::Remove), || SECOND * 3);
        counts.note(&header("y", Op::Remove), || SECOND * 3);
        let told = counts.read(vec![ObjectMatch::parse("data/x").unwrap()], SECOND * 4);
        assert_eq!((told.reads, told.writes, counts.requests()), (2, 2, 4));
        let [x] = &told.objects[..] else { panic!("{told:?}") };
        assert_eq!((x.name.as_str(), x.reads, x.writes), ("data/x", 1, 1));
        assert_eq!((x.since_seconds, x.changed_seconds), (2.0, 3.0));
        counts.note(&read("x"), || SECOND * 100);
        assert!(counts.read(all(), SECOND * 101).objects.is_empty(), "nobody had asked for long");
    }

    #[test]
    fn busy_objects_are_kept_while_many_others_come_and_go() {
        let counts = SwitchCounts::default();
        counts.read(all(), SECOND);
        for round in 0..10 {
            for number in 0..4 * MAX_COUNTED_OBJECTS {
                counts.note(&read(&format!("scan-{round}-{number}")), || SECOND);
                counts.note(&read("busy"), || SECOND);
            }
            let told = counts.read(all(), SECOND);
            assert_eq!(told.objects.len(), MAX_COUNTED_OBJECTS);
            let busy = told.objects.iter().find(|one| one.name == "data/busy").unwrap();
            assert_eq!(busy.reads, (round + 1) * 4 * MAX_COUNTED_OBJECTS as u64);
        }
    }
}
