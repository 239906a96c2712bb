//! The map `routes`: the applications that make rules, with all their rules.
//!
//! | key | value, in JSON |
//! | --- | --- |
//! | `application/NAME` | a [`StoredApplication`] |
//! | `tail` | [`TailSettings`] |

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use nacre_object::{ApplicationName, Error, ProgramName, Result, TargetName};
use nacre_registry::{Change, MapState, Maps, ROUTES_MAP};
use nacre_route::{APPLICATION_PREFIX, Rule, StoredApplication};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::supported::{MAX_APPLICATION_BYTES, check_supported};
use super::tail::TailSettings;

const TAIL_KEY: &str = "tail";
/// Stands for the switches of all targets.
pub const EVERY_SWITCH: &str = "every";

/// What the map says.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RouteState {
    /// The epoch of the map.
    pub epoch: u64,
    /// The rules of applications.
    pub applications: BTreeMap<ApplicationName, StoredApplication>,
    /// How the tail-latency application is set, if it runs.
    pub tail: Option<TailSettings>,
}

impl RouteState {
    /// What a map says.
    ///
    /// # Errors
    /// `Corrupt` if it makes no sense.
    pub fn of(map: &MapState) -> Result<Self> {
        let mut state = Self { epoch: map.epoch, ..Self::default() };
        for (key, value) in &map.entries {
            if let Some(name) = key.strip_prefix(APPLICATION_PREFIX) {
                state.applications.insert(name.parse()?, decode(key, value)?);
            } else if key == TAIL_KEY {
                state.tail = Some(decode(key, value)?);
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

    /// The programs that rules name.
    ///
    /// # Errors
    /// As [`RouteState::rules`].
    pub fn programs(&self) -> Result<BTreeSet<ProgramName>> {
        let programs = self.applications.iter().map(|(name, one)| one.programs(name));
        Ok(programs.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect())
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
}

fn decode<T: DeserializeOwned>(key: &str, value: &Bytes) -> Result<T> {
    serde_json::from_slice(value).map_err(|cause| {
        Error::corrupt(format!("the entry {key} of the map {ROUTES_MAP} is malformed: {cause}"))
            .hint("store it again with `nacre route put` or `nacre route tail`")
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

/// The map, for those who change it.
#[derive(Debug, Clone)]
pub struct RouteMap(Maps);

impl RouteMap {
    /// That of a cluster.
    pub fn new(maps: Maps) -> Self {
        Self(maps)
    }

    /// What it says now.
    ///
    /// # Errors
    /// `Unavailable`; `Corrupt`.
    pub async fn state(&self) -> Result<RouteState> {
        RouteState::of(&self.0.get(&ROUTES_MAP.parse()?).await?)
    }

    /// Stores applications. An application with the name of a stored one replaces it, and takes its
    /// position in the order.
    ///
    /// # Errors
    /// `Unsupported` for a rule that nodes cannot execute; `Unavailable`.
    pub async fn put(&self, applications: &[(ApplicationName, StoredApplication)]) -> Result<u64> {
        self.update(|state| {
            let mut next = state.applications.values().map(|one| one.order + 1).max().unwrap_or(0);
            let mut changes = vec![];
            let mut after = state.clone();
            for (name, application) in applications {
                let order = state.applications.get(name).map_or(next, |old| old.order);
                next = next.max(order + 1);
                let stored = StoredApplication { order, ..application.clone() };
                changes.push(Change::set(format!("{APPLICATION_PREFIX}{name}"), encode(&stored)?));
                after.applications.insert(name.clone(), stored);
            }
            let rules = after.rules()?;
            rules.iter().flat_map(|(_, rules)| rules).try_for_each(check_supported)?;
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
        self.update(|state| match state.applications.contains_key(name) {
            true => Ok(vec![Change::remove(format!("{APPLICATION_PREFIX}{name}"))]),
            false => Err(Error::not_found("there is no such application")
                .on(name)
                .hint("list the applications: nacre route ls")),
        })
        .await
    }

    /// Sets the tail-latency application; `None` removes it and its rules.
    ///
    /// # Errors
    /// `Invalid` for settings out of bounds; `Unavailable`.
    pub async fn set_tail(&self, settings: Option<&TailSettings>) -> Result<u64> {
        settings.map_or(Ok(()), TailSettings::check)?;
        let change = match settings {
            Some(settings) => Change::set(TAIL_KEY, encode(settings)?),
            None => Change::remove(TAIL_KEY),
        };
        self.update(|_| Ok(vec![change.clone()])).await
    }

    async fn update(
        &self,
        mut decide: impl FnMut(&RouteState) -> Result<Vec<Change>>,
    ) -> Result<u64> {
        let update = |map: &_| decide(&RouteState::of(map)?);
        self.0.update(&ROUTES_MAP.parse()?, update).await
    }
}
