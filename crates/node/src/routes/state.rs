//! The map `routes`: the applications that make rules, with all their rules.
//!
//! | key | value, in JSON |
//! | --- | --- |
//! | `application/NAME` | a [`StoredApplication`] |
//! | `control/NAME` | a [`StartedApplication`]: a program makes the rules of this application |
//! | `controller` | a `LeaseHolder`: the node that runs these programs |
//! | `caches` | [`CacheSettings`] |
//! | `snapshot-names` | [`UsedNames`]: the names of snapshots that rules have used |

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use nacre_object::{ApplicationName, Error, PoolName, ProgramName, Result, TargetName, TenantName};
use nacre_registry::{Change, MapState, Maps, ROUTES_MAP};
use nacre_route::{
    APPLICATION_PREFIX, CONTROL_PREFIX, NamedPrograms, Rule, Settings, StoredApplication,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::snapshots::UsedNames;
use super::supported::{
    MAX_APPLICATION_BYTES, check_put_by_hand, check_supported, check_supported_on_ceph,
};
use crate::cache::{CacheDivision, CacheSettings};
use crate::lease::LeaseHolder;

const CONTROLLER_KEY: &str = "controller";
const CACHES_KEY: &str = "caches";
const SNAPSHOT_NAMES_KEY: &str = "snapshot-names";
/// The most applications whose rules programs make. The controller runs them one after the other.
pub const MAX_STARTED: usize = 32;
/// The shortest and the longest time between two runs of a program, in seconds.
pub const EVERY_SECONDS: std::ops::RangeInclusive<f64> = 0.1..=3600.0;
/// Stands for the switches of all targets.
pub const EVERY_SWITCH: &str = "every";

/// An application whose rules a control program makes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StartedApplication {
    /// The program `control/NAME`.
    #[serde(with = "program_text")]
    pub program: ProgramName,
    /// The settings that differ from the program's defaults.
    pub settings: Settings,
    /// The time between two runs, in seconds.
    pub every_seconds: f64,
}

/// The name of a program as a string.
mod program_text {
    use nacre_object::ProgramName;
    use serde::{Deserialize, Deserializer, Serializer, de};

    pub fn serialize<S: Serializer>(name: &ProgramName, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(name.as_str())
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<ProgramName, D::Error> {
        String::deserialize(from)?.parse().map_err(de::Error::custom)
    }
}

/// The parsed map `routes`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RouteState {
    /// The epoch of the map.
    pub epoch: u64,
    /// The rules of applications.
    pub applications: BTreeMap<ApplicationName, StoredApplication>,
    /// The applications whose rules programs make.
    pub started: BTreeMap<ApplicationName, StartedApplication>,
    /// The node that runs these programs, and no other.
    pub(super) controller: Option<LeaseHolder>,
    /// How nodes cache reads, if they do.
    pub caches: Option<CacheSettings>,
    used_names: UsedNames,
}

impl RouteState {
    /// Parses a map.
    ///
    /// # Errors
    /// `Corrupt` if it makes no sense.
    pub fn of(map: &MapState) -> Result<Self> {
        let mut state = Self { epoch: map.epoch, ..Self::default() };
        for (key, value) in &map.entries {
            if let Some(name) = key.strip_prefix(APPLICATION_PREFIX) {
                state.applications.insert(name.parse()?, decode(key, value)?);
            } else if let Some(name) = key.strip_prefix(CONTROL_PREFIX) {
                state.started.insert(name.parse()?, decode(key, value)?);
            } else if key == CONTROLLER_KEY {
                state.controller = Some(decode(key, value)?);
            } else if key == CACHES_KEY {
                state.caches = Some(decode(key, value)?);
            } else if key == SNAPSHOT_NAMES_KEY {
                state.used_names = decode(key, value)?;
            }
        }
        Ok(state)
    }

    /// All insertions (lists of rules that are installed together) in the order of installation,
    /// each with the name of its switch.
    ///
    /// # Errors
    /// `Invalid` if a rule is malformed.
    pub fn rules(&self) -> Result<Vec<(String, Vec<Rule>)>> {
        let mut ordered: Vec<_> = self.applications.iter().collect();
        ordered.sort_by_key(|(name, application)| (application.order, (*name).clone()));
        let mut all = vec![];
        for (name, application) in ordered {
            for insertion in &application.insertions {
                all.push((insertion.switch.clone(), insertion.rules(name)?));
            }
        }
        Ok(all)
    }

    /// The pools whose objects are cached.
    ///
    /// # Errors
    /// `Invalid` if a name is malformed.
    pub(super) fn cached_pools(&self) -> Result<BTreeSet<PoolName>> {
        let pools = self.caches.iter().flat_map(|settings| &settings.pools);
        pools.map(PoolName::new).collect()
    }

    /// Whether gateways to Ceph need a router: there are rules or caches.
    pub(super) fn needs_router(&self) -> bool {
        !self.applications.is_empty() || self.caches.is_some()
    }

    /// The node that runs the programs of started applications, if one ever did.
    pub fn controller(&self) -> Option<&str> {
        self.controller.as_ref().map(|holder| holder.node.as_str())
    }

    /// The position of an application in the order: the present one, or the next that is free.
    pub(super) fn order_of(&self, name: &ApplicationName) -> u64 {
        let next = || self.applications.values().map(|one| one.order + 1).max().unwrap_or(0);
        self.applications.get(name).map_or_else(next, |application| application.order)
    }

    /// The programs that rules name.
    ///
    /// # Errors
    /// As [`RouteState::rules`].
    pub fn programs(&self) -> Result<NamedPrograms> {
        let mut all = NamedPrograms::default();
        for (name, application) in &self.applications {
            all.extend(application.programs(name)?);
        }
        Ok(all)
    }

    /// The insertions (lists of rules that are installed together) that apply to one switch,
    /// including those for every switch.
    ///
    /// # Errors
    /// As [`RouteState::rules`]; `Unsupported` for a rule that nodes cannot execute.
    pub fn insertions(&self, target: &TargetName) -> Result<Vec<Vec<Rule>>> {
        let of_switch = |switch: &str| switch == EVERY_SWITCH || switch == target.as_str();
        let rules = self.rules()?.into_iter().filter(|(switch, _)| of_switch(switch));
        let insertions: Vec<_> = rules.map(|(_, rules)| rules).collect();
        insertions.iter().flatten().try_for_each(check_supported)?;
        Ok(insertions)
    }

    /// The insertions of a gateway to Ceph, whose switch is in front of all OSDs. Each rule for the
    /// switch of an OSD concerns only the objects whose primary OSD it is.
    ///
    /// # Errors
    /// As [`RouteState::insertions`].
    pub(super) fn insertions_by_home(&self) -> Result<Vec<Vec<Rule>>> {
        let mut insertions = vec![];
        for (switch, mut rules) in self.rules()? {
            rules.iter().try_for_each(|rule| check_supported_on_ceph(rule, &switch))?;
            if switch != EVERY_SWITCH {
                let home = TargetName::new(switch)?;
                rules.iter_mut().for_each(|rule| rule.header.home = Some(home.clone()));
            }
            rules.iter().try_for_each(check_supported)?;
            insertions.push(rules);
        }
        Ok(insertions)
    }
}

fn decode<T: DeserializeOwned>(key: &str, value: &Bytes) -> Result<T> {
    serde_json::from_slice(value).map_err(|cause| {
        Error::corrupt(format!("the entry {key} of the map {ROUTES_MAP} is malformed: {cause}"))
            .hint("store it again with `nacre route put`, `start` or `cache`")
    })
}

fn encode(value: &impl Serialize) -> Result<Bytes> {
    let text = serde_json::to_vec(value).map_err(|cause| Error::invalid(cause.to_string()))?;
    match text.len() <= MAX_APPLICATION_BYTES {
        true => Ok(Bytes::from(text)),
        false => Err(Error::exhausted(format!(
            "the rules take {} bytes, more than the limit",
            text.len()
        ))
        .hint(format!(
            "use prefixes: the rules of an application have {MAX_APPLICATION_BYTES} bytes at most"
        ))),
    }
}

/// Refuses to change rules that a program makes: it would only make them again.
fn check_operator_s(state: &RouteState, name: &ApplicationName) -> Result<()> {
    match state.started.get(name) {
        None => Ok(()),
        Some(started) => Err(Error::conflict(format!(
            "the program control/{} makes the rules of this application",
            started.program
        ))
        .on(name)
        .hint(format!("stop it first: nacre route stop {name}"))),
    }
}

/// The change after which nodes follow these settings of caches; none if they do so already.
fn caches_change(state: &RouteState, settings: Option<&CacheSettings>) -> Result<Vec<Change>> {
    match settings {
        _ if state.caches.as_ref() == settings => Ok(vec![]),
        Some(settings) => Ok(vec![Change::set(CACHES_KEY, encode(settings)?)]),
        None => Ok(vec![Change::remove(CACHES_KEY)]),
    }
}

/// The change after which the names of snapshots in these rules count as used; none if they do so
/// already.
fn names_change(state: &RouteState, after: &[(String, Vec<Rule>)]) -> Result<Option<Change>> {
    let used = state.used_names.with(&state.rules()?, after)?;
    used.map(|used| Ok(Change::set(SNAPSHOT_NAMES_KEY, encode(&used)?))).transpose()
}

/// The change after which tenants have these shares of each node's cache.
fn shares_change(state: &RouteState, shares: &BTreeMap<TenantName, u64>) -> Result<Vec<Change>> {
    let settings = state.caches.clone().ok_or_else(|| {
        Error::not_found("no pool is cached, so there is no cache to divide")
            .hint("turn caches on: nacre route cache on --pool POOL --size SIZE")
    })?;
    let shares = shares.iter().map(|(tenant, bytes)| (tenant.to_string(), *bytes)).collect();
    let settings = CacheSettings { division: CacheDivision::Shares(shares), ..settings };
    settings.check()?;
    caches_change(state, Some(&settings))
}

/// Reads and changes the map `routes`.
#[derive(Debug, Clone)]
pub struct RouteMap(Maps);

impl RouteMap {
    /// The map of a cluster.
    pub fn new(maps: Maps) -> Self {
        Self(maps)
    }

    /// Reads and parses the map.
    ///
    /// # Errors
    /// `Unavailable`; `Corrupt`.
    pub async fn state(&self) -> Result<RouteState> {
        RouteState::of(&self.0.get(&ROUTES_MAP.parse()?).await?)
    }

    /// Stores applications. An application with the name of a stored one replaces it, and takes its
    /// position in the order. The caller has checked the new rules together with those of `checked`. If
    /// somebody has changed rules since then, this function stores nothing and returns `None`.
    ///
    /// # Errors
    /// `Unsupported` for a rule that nodes cannot execute; `Conflict` if a program makes the rules;
    /// `Unavailable`.
    pub async fn put(
        &self,
        applications: &[(ApplicationName, StoredApplication)],
        checked: &RouteState,
    ) -> Result<Option<u64>> {
        self.update_checked(checked, |state| {
            let mut next = state.applications.values().map(|one| one.order + 1).max().unwrap_or(0);
            let mut changes = vec![];
            let mut after = state.clone();
            for (name, application) in applications {
                check_operator_s(state, name)?;
                for insertion in &application.insertions {
                    insertion.rules(name)?.iter().try_for_each(check_put_by_hand)?;
                }
                let order = state.applications.get(name).map_or(next, |old| old.order);
                next = next.max(order + 1);
                let stored = StoredApplication { order, ..application.clone() };
                changes.push(Change::set(format!("{APPLICATION_PREFIX}{name}"), encode(&stored)?));
                after.applications.insert(name.clone(), stored);
            }
            let rules = after.rules()?;
            rules.iter().flat_map(|(_, rules)| rules).try_for_each(check_supported)?;
            changes.extend(names_change(state, &rules)?);
            Ok(changes)
        })
        .await
    }

    /// Removes the rules of an application. A background task then moves the bytes that these rules
    /// sent elsewhere back to their objects.
    ///
    /// # Errors
    /// `NotFound`; `Unavailable`.
    pub async fn remove(&self, name: &ApplicationName) -> Result<u64> {
        self.update(|state| {
            check_operator_s(state, name)?;
            match state.applications.contains_key(name) {
                true => Ok(vec![Change::remove(format!("{APPLICATION_PREFIX}{name}"))]),
                false => Err(Error::not_found("there is no such application")
                    .on(name)
                    .hint("list the applications: nacre route ls")),
            }
        })
        .await
    }

    /// Starts an application whose rules a program makes, or gives it other settings.
    ///
    /// # Errors
    /// `Exists` if an operator has put rules with its name; `Exhausted` if there are too many;
    /// `Invalid`; `Unavailable`.
    pub async fn start(
        &self,
        name: &ApplicationName,
        application: &StartedApplication,
    ) -> Result<u64> {
        let every = application.every_seconds;
        if !EVERY_SECONDS.contains(&every) {
            let (least, most) = (EVERY_SECONDS.start(), EVERY_SECONDS.end());
            return Err(Error::invalid(format!("a program cannot run every {every} s"))
                .hint(format!("say a time from {least} to {most} seconds")));
        }
        self.update(|state| {
            let is_started = state.started.contains_key(name);
            if !is_started && state.applications.contains_key(name) {
                return Err(Error::exists("an operator has put the rules of this application")
                    .on(name)
                    .hint("choose another name, or remove them: nacre route rm NAME"));
            }
            if !is_started && state.started.len() >= MAX_STARTED {
                return Err(Error::exhausted(format!("{MAX_STARTED} applications are started"))
                    .hint("stop one: nacre route stop NAME"));
            }
            if state.started.get(name) == Some(application) {
                return Ok(vec![]);
            }
            Ok(vec![Change::set(format!("{CONTROL_PREFIX}{name}"), encode(application)?)])
        })
        .await
    }

    /// Stops an application whose rules a program makes, and removes its rules.
    ///
    /// # Errors
    /// `NotFound`; `Unavailable`.
    pub async fn stop(&self, name: &ApplicationName) -> Result<u64> {
        self.update(|state| {
            if !state.started.contains_key(name) {
                return Err(Error::not_found("no program makes the rules of such an application")
                    .on(name)
                    .hint("list those that are started: nacre route applications"));
            }
            let mut changes = vec![Change::remove(format!("{CONTROL_PREFIX}{name}"))];
            if state.applications.contains_key(name) {
                changes.push(Change::remove(format!("{APPLICATION_PREFIX}{name}")));
            }
            Ok(changes)
        })
        .await
    }

    /// Names the node that runs the programs. The caller holds the lease.
    pub(super) async fn take_control(&self, me: &LeaseHolder) -> Result<()> {
        let update = |state: &RouteState| match state.controller.as_ref() == Some(me) {
            true => Ok(vec![]),
            false => Ok(vec![Change::set(CONTROLLER_KEY, encode(me)?)]),
        };
        self.update(update).await.map(drop)
    }

    /// Stores what a program has changed: the rules of its application, and the shares of the
    /// nodes' caches. Returns the epoch of the map.
    ///
    /// The caller has checked the new rules together with those of `checked`. If somebody has changed
    /// rules since then, this function stores nothing and returns `None`.
    ///
    /// # Errors
    /// `Stale` if `me` is not the controller any more, or if the application was stopped or got
    /// other settings; `Unavailable`.
    pub(super) async fn put_controlled(
        &self,
        me: &LeaseHolder,
        (name, started): (&ApplicationName, &StartedApplication),
        application: Option<StoredApplication>,
        shares: Option<BTreeMap<TenantName, u64>>,
        checked: &RouteState,
    ) -> Result<Option<u64>> {
        let update = |state: &RouteState| {
            if state.controller.as_ref() != Some(me) {
                return Err(Error::stale("another node is the controller"));
            }
            if state.started.get(name) != Some(started) {
                return Err(Error::stale("the application was stopped or has other settings"));
            }
            let mut changes = match &shares {
                Some(shares) => shares_change(state, shares)?,
                None => vec![],
            };
            if let Some(application) = &application {
                let order = state.order_of(name);
                let stored = StoredApplication { order, ..application.clone() };
                changes.push(Change::set(format!("{APPLICATION_PREFIX}{name}"), encode(&stored)?));
                let mut after = state.clone();
                after.applications.insert(name.clone(), stored);
                changes.extend(names_change(state, &after.rules()?)?);
            }
            Ok(changes)
        };
        self.update_checked(checked, update).await
    }

    /// Sets what nodes cache; `None` turns their caches off.
    ///
    /// # Errors
    /// `Invalid` for settings out of bounds; `Unavailable`.
    pub async fn set_caches(&self, settings: Option<&CacheSettings>) -> Result<u64> {
        settings.map_or(Ok(()), CacheSettings::check)?;
        self.update(|state| caches_change(state, settings)).await
    }

    /// Gives tenants these shares of each node's cache, in bytes. Tenants that are not named share
    /// the rest.
    ///
    /// # Errors
    /// `NotFound` if caches are off; `Invalid` for shares out of bounds; `Unavailable`.
    pub async fn set_cache_shares(&self, shares: &BTreeMap<TenantName, u64>) -> Result<u64> {
        self.update(|state| shares_change(state, shares)).await
    }

    /// As [`update`](Self::update), if the rules are still those of `checked`; otherwise changes
    /// nothing and returns `None`.
    async fn update_checked(
        &self,
        checked: &RouteState,
        mut decide: impl FnMut(&RouteState) -> Result<Vec<Change>>,
    ) -> Result<Option<u64>> {
        let mut is_unchanged = true;
        let update = |state: &RouteState| {
            is_unchanged = state.applications == checked.applications;
            if is_unchanged { decide(state) } else { Ok(vec![]) }
        };
        let epoch = self.update(update).await?;
        Ok(is_unchanged.then_some(epoch))
    }

    async fn update(
        &self,
        mut decide: impl FnMut(&RouteState) -> Result<Vec<Change>>,
    ) -> Result<u64> {
        let update = |map: &_| decide(&RouteState::of(map)?);
        self.0.update(&ROUTES_MAP.parse()?, update).await
    }
}
