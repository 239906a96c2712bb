//! Waits until changed rules are in force on the switches that they concern.

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;
use futures::future::join_all;
use nacre::{ClusterFile, RoleName, Sessions};
use nacre_node::{EVERY_SWITCH, ROUTE_SERVICE, RouteProgress, RouteState};
use nacre_object::{ApplicationName, Error, ErrorKind, Result};
use nacre_route::StoredApplication;
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::out::{Out, printable};

/// How long to wait for the switches if the user gives no time. A switch first lets IO in flight
/// complete, and such IO may wait 20 s for a node that is down.
const DEFAULT_TIMEOUT_SECONDS: u64 = 30;
/// The longest time to wait that the user may give.
const MAX_TIMEOUT_SECONDS: u64 = 24 * 3600;
/// The pause between two requests to the nodes.
const ASK_AGAIN: Duration = Duration::from_millis(25);
/// How long a node may take to answer one request.
const NODE_TIMEOUT: Duration = Duration::from_secs(2);

/// Whether to wait until a change is in force
#[derive(Debug, Clone, Copy, clap::Args)]
pub struct WaitArgument {
    /// Return at once, without waiting until every node applies the change
    #[arg(long, conflicts_with = "timeout")]
    no_wait: bool,
    /// Seconds to wait until every node applies the change
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = DEFAULT_TIMEOUT_SECONDS,
        value_parser = clap::value_parser!(u64).range(1..=MAX_TIMEOUT_SECONDS)
    )]
    timeout: u64,
}

impl WaitArgument {
    /// The time to wait; `None` to return at once.
    pub fn patience(self) -> Option<Duration> {
        (!self.no_wait).then(|| Duration::from_secs(self.timeout))
    }
}

/// The switches that a change concerns, by the names of their targets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Concerned(BTreeSet<String>);

impl Concerned {
    /// Every switch.
    pub fn all() -> Self {
        Self([EVERY_SWITCH.to_owned()].into())
    }

    /// The switches to which an application gave rules.
    pub fn of_former(before: &RouteState, name: &ApplicationName) -> Self {
        let mut concerned = Self::default();
        before.applications.get(name).into_iter().for_each(|former| concerned.add(former));
        concerned
    }

    /// Adds the switches to which an application gives rules.
    pub fn add(&mut self, application: &StoredApplication) {
        self.0.extend(application.insertions.iter().map(|insertion| insertion.switch.clone()));
    }

    fn has(&self, target: &str) -> bool {
        self.0.contains(EVERY_SWITCH) || self.0.contains(target)
    }
}

/// The part of a node's state that must have reached an epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Rules,
    CacheSettings,
}

impl Part {
    fn reached(self, progress: &RouteProgress) -> u64 {
        match self {
            Self::Rules => progress.rules_epoch,
            Self::CacheSettings => progress.caches_epoch,
        }
    }

    fn problem(self, progress: &RouteProgress) -> Option<&String> {
        match self {
            Self::Rules => progress.problem.as_ref(),
            Self::CacheSettings => progress.caches_problem.as_ref(),
        }
    }

    fn is_stored(self) -> &'static str {
        match self {
            Self::Rules => "the rules are stored",
            Self::CacheSettings => "the settings are stored",
        }
    }
}

/// A change of the map `routes` that was committed.
pub(super) struct Committed<'a> {
    pub file: &'a ClusterFile,
    pub wait: WaitArgument,
    /// The epoch of the map that the change began.
    pub epoch: u64,
}

impl Committed<'_> {
    /// Waits until the rules of the epoch are in force on these switches, and prints the epoch.
    ///
    /// # Errors
    /// `Unavailable`, with the names of the nodes that take too long; the error of a node that
    /// refuses to report its epoch.
    pub async fn of_rules(self, concerned: &Concerned, out: Out) -> Result<()> {
        if !self.wait.no_wait {
            self.until(Part::Rules, concerned).await?;
        }
        self.show(out)
    }

    /// Waits until the caches of all nodes apply the settings of the epoch. Returns whether they do.
    ///
    /// # Errors
    /// As [`Committed::of_rules`].
    pub async fn until_caches_apply(&self) -> Result<bool> {
        if !self.wait.no_wait {
            self.until(Part::CacheSettings, &Concerned::all()).await?;
        }
        Ok(!self.wait.no_wait)
    }

    /// Waits as [`Committed::until_caches_apply`], and prints the epoch.
    ///
    /// # Errors
    /// As [`Committed::of_rules`].
    pub async fn of_cache_settings(self, out: Out) -> Result<()> {
        self.until_caches_apply().await?;
        self.show(out)
    }

    fn show(&self, out: Out) -> Result<()> {
        let is_in_force = !self.wait.no_wait;
        out.show(&json!({ "epoch": self.epoch, "in_force": is_in_force }), || {
            let state = if is_in_force { "in force" } else { "stored" };
            format!("epoch {}, {state}", self.epoch)
        })
    }

    async fn until(&self, part: Part, concerned: &Concerned) -> Result<()> {
        let sessions = Sessions::new(self.file)?;
        let nodes = self.file.with_role(RoleName::Storage);
        let mut names = vec![];
        for node in nodes {
            // On Ceph, every gateway must know which IO rules concern.
            let is_gateway = self.file.engine().is_some();
            if is_gateway || concerned.has(node.target()?.as_str()) {
                names.push(node.name.clone());
            }
        }
        let until = Instant::now() + Duration::from_secs(self.wait.timeout);
        loop {
            let asked = names.iter().map(|node| progress(&sessions, node));
            let mut lagging = vec![];
            for (node, answer) in names.iter().zip(join_all(asked).await) {
                lagging.extend(self.lag(part, node, answer)?);
            }
            if lagging.is_empty() {
                return Ok(());
            }
            if Instant::now() >= until {
                return Err(self.late(part, &lagging));
            }
            sleep(ASK_AGAIN).await;
        }
    }

    /// Why a node has not reached the epoch; `None` if it has.
    ///
    /// # Errors
    /// The error of a node that refuses to report its epoch.
    fn lag(&self, part: Part, node: &str, answer: Result<RouteProgress>) -> Result<Option<String>> {
        match answer {
            Ok(progress) if part.reached(&progress) >= self.epoch => Ok(None),
            Ok(progress) => {
                let why = match part.problem(&progress) {
                    Some(problem) => printable(problem),
                    None => format!("it goes by epoch {}", part.reached(&progress)),
                };
                Ok(Some(format!("{node} ({why})")))
            }
            Err(error) if error.kind() == ErrorKind::Unavailable => {
                Ok(Some(format!("{node} (it does not answer)")))
            }
            Err(error) => {
                let text = format!(
                    "{} as epoch {}, but {node} does not tell whether it goes by them: {}",
                    part.is_stored(),
                    self.epoch,
                    error.message()
                );
                Err(Error::new(error.kind(), text).hint("do not wait for it: --no-wait"))
            }
        }
    }

    fn late(&self, part: Part, lagging: &[String]) -> Error {
        let text = format!(
            "{} as epoch {}, but not in force after {} s on {}",
            part.is_stored(),
            self.epoch,
            self.wait.timeout,
            lagging.join(", ")
        );
        Error::unavailable(text)
            .hint("the nodes go on by themselves; watch them: nacre route status, nacre status")
    }
}

async fn progress(sessions: &Sessions, node: &str) -> Result<RouteProgress> {
    let asked =
        sessions.session(node)?.query(ROUTE_SERVICE, "progress", Bytes::new(), NODE_TIMEOUT);
    serde_json::from_slice(&asked.await?)
        .map_err(|cause| Error::corrupt(format!("what {node} says makes no sense: {cause}")))
}

#[cfg(test)]
mod tests {
    use nacre_route::StoredInsertion;

    use super::*;

    fn application(switches: &[&str]) -> StoredApplication {
        let insertion =
            |switch: &&str| StoredInsertion { switch: (*switch).to_owned(), rules: vec![] };
        let insertions = switches.iter().map(insertion).collect();
        StoredApplication { order: 0, is_forced: false, insertions }
    }

    #[test]
    fn a_replaced_application_concerns_its_former_switches_and_its_new_ones() {
        let mut concerned = Concerned::default();
        concerned.add(&application(&["storage.0"]));
        concerned.add(&application(&["storage.2"]));
        let has = ["storage.0", "storage.1", "storage.2"].map(|target| concerned.has(target));
        assert_eq!(has, [true, false, true]);
        concerned.add(&application(&[EVERY_SWITCH]));
        assert!(concerned.has("storage.1"));
    }
}
