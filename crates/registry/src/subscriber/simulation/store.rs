//! The simulated store of the maps: runs the class `map` on simulated objects, and notifies
//! watchers.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use nacre_conformance::MemoryObject;
use nacre_object::{CallContext, EntityName, MethodName};

use super::{Answer, Sabotage};
use crate::maps::{FeedState, MapState, map_class, testing};

pub(super) struct Store {
    maps: BTreeMap<&'static str, MemoryObject>,
    /// What the map `programs` was at each of its epochs.
    pub(super) programs: BTreeMap<u64, MapState>,
    /// Who watches `programs`: nodes, with the numbers of their watches.
    pub(super) watches: BTreeSet<(usize, u64)>,
    /// Which changes of `programs` the watchers have got.
    feed_state: FeedState,
    pub(super) clock_micros: u64,
    commits: u64,
    sabotage: Option<Sabotage>,
}

impl Store {
    pub(super) fn new(sabotage: Option<Sabotage>) -> Self {
        let mut store = Self {
            maps: BTreeMap::new(),
            programs: BTreeMap::new(),
            watches: BTreeSet::new(),
            feed_state: FeedState::default(),
            clock_micros: 0,
            commits: 0,
            sabotage,
        };
        let empty = store.whole("programs");
        store.programs.insert(0, empty);
        store
    }

    /// Runs a method of a map. Also returns whether the map `programs` has changed.
    pub(super) fn call(
        &mut self,
        map: &'static str,
        method: &str,
        mut input: Bytes,
    ) -> (Answer, bool) {
        let before = self.maps.get(map).cloned().unwrap_or_default();
        if method == "commit" {
            self.commits += 1;
            if self.sabotage == Some(Sabotage::RetryNotRecognised) {
                input = testing::renamed_commit(input, self.commits);
            }
            if self.sabotage == Some(Sabotage::OldReportStands) && map == "program-status" {
                input = testing::unguarded_commit(input);
            }
        }
        let answer = self.run(map, method, input);
        let is_change = method == "commit" && answer.is_ok();
        if is_change
            && self.sabotage == Some(Sabotage::EpochReused)
            && self.commits.is_multiple_of(10)
        {
            self.maps.insert(map, before);
            return (answer, false);
        }
        let is_news = is_change && map == "programs";
        if is_news {
            let state = self.whole(map);
            self.programs.insert(state.epoch, state);
        }
        (answer, is_news)
    }

    fn run(&mut self, map: &'static str, method: &str, input: Bytes) -> Answer {
        let class = map_class();
        let method = MethodName::new(method).expect("a literal");
        let (_, run) = class.get(&method).expect("a method of the class");
        let source = EntityName::new("simulation").expect("a literal");
        let context = CallContext { source, now_micros: self.clock_micros };
        let stored = self.maps.entry(map).or_default();
        let mut view = stored.clone();
        let reply = run(input, &mut view, &context).map_err(|error| error.kind())?;
        view.commit(self.clock_micros);
        *stored = view;
        Ok(reply.output)
    }

    /// Returns the notification about `programs` that the change feed would send. `is_unreadable`
    /// means that the change feed cannot read the map now.
    pub(super) fn news(&mut self, is_unreadable: bool) -> Bytes {
        if is_unreadable {
            self.feed_state = FeedState::default();
        }
        let Some(question) = self.feed_state.input() else {
            let epoch = self.whole("programs").epoch;
            self.feed_state.known_to(epoch);
            return Bytes::new();
        };
        let output = self.run("programs", "history", question).expect("history can be read");
        self.feed_state.told_of(output)
    }

    /// What a map is now.
    pub(super) fn whole(&mut self, map: &'static str) -> MapState {
        let output = self.run(map, "get", testing::get()).expect("a map can be read");
        testing::whole(map, output)
    }
}
