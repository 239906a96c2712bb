//! `ControllerTerm`: how a node becomes the controller, and stays it.
//!
//! The map `route-control` has the lease and the state of the programs. The lease says when a
//! silent controller may be replaced. The map `routes` names the controller as well, so that one
//! commit of rules checks it: a controller that was paused and replaced commits nothing.

use std::collections::BTreeMap;
use std::time::Duration;

use nacre_clock::Clock;
use nacre_object::{ApplicationName, Error, Result};
use nacre_registry::{Change, MapState, Maps, ROUTE_CONTROL_MAP};
use serde_json::Value;

use super::super::state::RouteMap;
use crate::lease::{Lease, LeaseHolder, LeaseState, LeaseTimes};

/// Rules stay in force without a controller, so some seconds without one do little harm.
pub(super) const LEASE_TIMES: LeaseTimes =
    LeaseTimes { beat: Duration::from_secs(1), patience: Duration::from_secs(5) };
/// The prefix of the keys of the programs' states.
const STATE_PREFIX: &str = "state/";

/// The states of the programs, by application.
pub(super) type States = BTreeMap<ApplicationName, Value>;

/// A node's part in the choice of the controller.
#[derive(Debug)]
pub(super) struct ControllerTerm {
    maps: Maps,
    lease: Lease,
    /// Whether the map `routes` names this node.
    is_named: bool,
}

/// Whether this node is the controller.
#[derive(Debug)]
pub(super) enum TermStatus {
    /// This node has just become the controller. These are the stored states.
    Begun(States),
    /// This node is the controller, as before.
    Continues,
    /// Another node is the controller.
    NotController,
}

impl ControllerTerm {
    pub fn new(maps: Maps, me: LeaseHolder) -> Self {
        Self { maps, lease: Lease::new(me, LEASE_TIMES), is_named: false }
    }

    /// This node, as the map `routes` names the controller.
    pub fn me(&self) -> &LeaseHolder {
        self.lease.me()
    }

    /// Looks at the lease, and takes it if it is free. A controller stores `states` with its beat.
    ///
    /// # Errors
    /// `Unavailable`; `Stale` if another node was faster.
    pub async fn look(&mut self, clock: &dyn Clock, states: &States) -> Result<TermStatus> {
        let name = ROUTE_CONTROL_MAP.parse()?;
        let map = self.maps.get(&name).await?;
        match self.lease.look(clock.monotonic(), &map)? {
            LeaseState::Others => {
                self.is_named = false;
                Ok(TermStatus::NotController)
            }
            LeaseState::Mine { .. } if !self.is_named => self.begin(&map).await,
            LeaseState::Mine { is_beat_due: false } => Ok(TermStatus::Continues),
            LeaseState::Mine { is_beat_due: true } => {
                self.store(states).await?;
                Ok(TermStatus::Continues)
            }
            LeaseState::Free => {
                let take = |state: &MapState| self.lease.take(state);
                self.maps.update(&name, take).await?;
                let map = self.maps.get(&name).await?;
                self.begin(&map).await
            }
        }
    }

    /// Begins a term under the lease.
    async fn begin(&mut self, map: &MapState) -> Result<TermStatus> {
        RouteMap::new(self.maps.clone()).take_control(self.lease.me()).await?;
        self.is_named = true;
        let mut states = States::new();
        for (key, value) in &map.entries {
            let Some(name) = key.strip_prefix(STATE_PREFIX) else { continue };
            let state = serde_json::from_slice(value).map_err(|cause| {
                Error::corrupt(format!("the entry {key} of the map {ROUTE_CONTROL_MAP}: {cause}"))
                    .hint(format!("remove it: nacre map rm {ROUTE_CONTROL_MAP} --system {key}"))
            })?;
            states.insert(name.parse()?, state);
        }
        Ok(TermStatus::Begun(states))
    }

    /// Stores the states and a beat, and removes the states of other applications.
    ///
    /// # Errors
    /// `Stale` if another node has taken over; `Unavailable`.
    pub async fn store(&self, states: &States) -> Result<()> {
        let commit = |map: &MapState| {
            let mut changes = vec![self.lease.beat(map)?];
            for (name, state) in states {
                let (key, value) = (format!("{STATE_PREFIX}{name}"), state.to_string());
                if map.entries.get(&key).is_none_or(|old| *old != value.as_bytes()) {
                    changes.push(Change::set(key, value));
                }
            }
            let is_left = |key: &&String| {
                let name = key.strip_prefix(STATE_PREFIX);
                name.is_some_and(|name| !states.keys().any(|known| known.as_str() == name))
            };
            let left = map.entries.keys().filter(is_left);
            changes.extend(left.map(|key| Change::remove(key.clone())));
            Ok(changes)
        };
        self.maps.update(&ROUTE_CONTROL_MAP.parse()?, commit).await.map(drop)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use nacre_class::ClassRuntime;
    use nacre_clock::ManualClock;
    use nacre_conformance::MemoryStore;
    use nacre_object::ErrorKind;
    use nacre_program::Budget;
    use nacre_registry::{events_class, map_class};
    use nacre_route::StoredApplication;

    use super::super::super::state::StartedApplication;
    use super::*;

    /// The maps of a cluster in memory.
    fn maps() -> Maps {
        let clock: Arc<dyn Clock> = Arc::new(ManualClock::default());
        let classes = ClassRuntime::new(Budget::default(), Arc::clone(&clock));
        for class in [map_class(), events_class()] {
            classes.register_native(class).unwrap();
        }
        let store = MemoryStore::new(Arc::new(classes), clock);
        Maps::new(Arc::new(store.clone()), Arc::new(store))
    }

    fn term(maps: &Maps, node: &str) -> ControllerTerm {
        let me = LeaseHolder { node: node.to_owned(), incarnation: 1 };
        ControllerTerm::new(maps.clone(), me)
    }

    fn started() -> StartedApplication {
        let (program, settings) = ("p".parse().unwrap(), nacre_route::Settings::new());
        StartedApplication { program, settings, every_seconds: 1.0 }
    }

    fn no_rules() -> StoredApplication {
        StoredApplication { order: 0, is_forced: false, insertions: vec![] }
    }

    async fn put(term: &ControllerTerm, map: &RouteMap, name: &ApplicationName) -> Result<()> {
        let (checked, started) = (map.state().await?, started());
        let put = map.put_controlled(term.me(), (name, &started), Some(no_rules()), None, &checked);
        put.await.map(drop)
    }

    #[tokio::test]
    async fn a_controller_that_was_silent_is_replaced_and_commits_nothing_any_more() {
        let (maps, clock) = (maps(), ManualClock::default());
        let (map, name) = (RouteMap::new(maps.clone()), "a".parse().unwrap());
        map.start(&name, &started()).await.unwrap();
        let (mut first, mut second) = (term(&maps, "one"), term(&maps, "two"));
        let none = States::new();
        assert!(matches!(first.look(&clock, &none).await, Ok(TermStatus::Begun(_))));
        assert!(matches!(second.look(&clock, &none).await, Ok(TermStatus::NotController)));
        put(&first, &map, &name).await.unwrap();
        assert_eq!(put(&second, &map, &name).await.unwrap_err().kind(), ErrorKind::Stale);
        let states: States = [(name.clone(), serde_json::json!({ "runs": 7 }))].into();
        first.store(&states).await.unwrap();
        assert!(matches!(second.look(&clock, &none).await, Ok(TermStatus::NotController)));

        clock.advance(LEASE_TIMES.patience);
        let Ok(TermStatus::Begun(found)) = second.look(&clock, &none).await else {
            panic!("the first controller is silent")
        };
        assert_eq!(found, states, "the second one continues with the stored state");
        put(&second, &map, &name).await.unwrap();
        assert_eq!(put(&first, &map, &name).await.unwrap_err().kind(), ErrorKind::Stale);
        assert_eq!(first.store(&none).await.unwrap_err().kind(), ErrorKind::Stale);
        assert!(matches!(first.look(&clock, &none).await, Ok(TermStatus::NotController)));
    }

    #[tokio::test]
    async fn rules_are_not_stored_if_others_have_changed_since_they_were_checked() {
        let (maps, clock) = (maps(), ManualClock::default());
        let (map, name) = (RouteMap::new(maps.clone()), "a".parse().unwrap());
        map.start(&name, &started()).await.unwrap();
        let mut one = term(&maps, "one");
        one.look(&clock, &States::new()).await.unwrap();
        let checked = map.state().await.unwrap();
        let other = [("b".parse().unwrap(), no_rules())];
        assert!(map.put(&other, &checked).await.unwrap().is_some());
        let (me, own, started) = (one.me(), Some(no_rules()), started());
        let put = map.put_controlled(me, (&name, &started), own, None, &checked);
        assert_eq!(put.await.unwrap(), None);
        let third = [("c".parse().unwrap(), no_rules())];
        assert_eq!(map.put(&third, &checked).await.unwrap(), None);
        let stored = map.state().await.unwrap().applications;
        assert_eq!(stored.keys().map(ApplicationName::as_str).collect::<Vec<_>>(), ["b"]);
    }

    #[tokio::test]
    async fn a_stopped_application_gets_no_rules_and_its_state_is_removed() {
        let (maps, clock) = (maps(), ManualClock::default());
        let (map, name) = (RouteMap::new(maps.clone()), "a".parse().unwrap());
        map.start(&name, &started()).await.unwrap();
        let mut one = term(&maps, "one");
        one.look(&clock, &States::new()).await.unwrap();
        one.store(&[(name.clone(), serde_json::json!({ "runs": 7 }))].into()).await.unwrap();
        put(&one, &map, &name).await.unwrap();
        map.stop(&name).await.unwrap();
        assert_eq!(put(&one, &map, &name).await.unwrap_err().kind(), ErrorKind::Stale);
        assert!(map.state().await.unwrap().applications.is_empty());
        one.store(&States::new()).await.unwrap();
        let stored = maps.get(&ROUTE_CONTROL_MAP.parse().unwrap()).await.unwrap();
        assert!(!stored.entries.keys().any(|key| key.starts_with(STATE_PREFIX)), "{stored:?}");
    }
}
