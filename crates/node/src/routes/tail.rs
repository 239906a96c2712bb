//! The tail-latency application. While requests reach a target much faster than usual, it sends the
//! target's writes to other targets.
//!
//! It follows the sRoute paper (section 5.1): a target is overloaded while its recent rate of
//! requests is above `alpha` times its average rate. Each node decides about its own target, and
//! stores the rules of the application `tail.TARGET` in the map `routes`. Switches follow that map,
//! so the rules are stored before any switch has them. When the burst is over, the node removes the
//! rules, and a background task (the mover) moves the bytes back to their objects.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use nacre::Cluster;
use nacre_clock::Clock;
use nacre_object::{ApplicationName, Error, NodeName, PoolName, Result};
use nacre_registry::{Event, Severity};
use nacre_route::{ROUTED_POOL, StoredApplication, StoredInsertion};
use serde::{Deserialize, Serialize};
use tokio::time::{interval, sleep};

use super::NodeSwitch;
use super::in_force::InForce;
use super::state::{RouteMap, RouteState};

/// How often the rate is looked at.
const SAMPLE: Duration = Duration::from_millis(250);
/// Longer windows would take more memory than a node should spend on this.
const MAX_WINDOW_SECONDS: f64 = 24.0 * 3600.0;
/// How often the settings are read again.
const SETTINGS_AGE: u32 = 4;

/// How the application is set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TailSettings {
    /// The pools whose writes go elsewhere.
    pub pools: Vec<String>,
    /// A target is overloaded while its recent rate is above this multiple of its average rate.
    pub alpha: f64,
    /// The time over which the recent rate is computed, in seconds.
    pub recent_seconds: f64,
    /// The time over which the average rate is computed, in seconds.
    pub average_seconds: f64,
    /// Below this recent rate, in requests a second, no target is overloaded.
    pub least_rate: f64,
}

impl TailSettings {
    /// The settings of the paper for these pools.
    pub fn of_pools(pools: Vec<String>) -> Self {
        let (alpha, recent_seconds, average_seconds, least_rate) = (2.0, 60.0, 3600.0, 10.0);
        Self { pools, alpha, recent_seconds, average_seconds, least_rate }
    }

    /// Checks their bounds.
    ///
    /// # Errors
    /// `Invalid`, with what is allowed.
    pub fn check(&self) -> Result<()> {
        let wrong = |what: String, hint: &str| Err(Error::invalid(what).hint(hint));
        if self.pools.is_empty() {
            return wrong(
                "the settings name no pool".to_owned(),
                "name the pools whose writes go elsewhere",
            );
        }
        for pool in &self.pools {
            let pool = PoolName::new(pool)?;
            if pool.as_str().starts_with("nacre.") {
                return wrong(format!("the pool {pool} is nacre's own"), "name pools of clients");
            }
        }
        if !(self.alpha > 1.0 && self.alpha <= 1e6) {
            return wrong(format!("alpha is {}", self.alpha), "choose a number above 1");
        }
        let (recent, average) = (self.recent_seconds, self.average_seconds);
        if !(recent >= 1.0 && average > recent && average <= MAX_WINDOW_SECONDS) {
            return wrong(
                format!("the recent rate is of {recent} s, the average of {average} s"),
                "take 1 s at least for the recent rate, a longer time for the average, and a day at most",
            );
        }
        if !(self.least_rate > 0.0 && self.least_rate.is_finite()) {
            return wrong(format!("the least rate is {}", self.least_rate), "say a number above 0");
        }
        Ok(())
    }
}

/// Request counts, each with the time at which it was read.
#[derive(Debug, Default)]
struct Rates(VecDeque<(Duration, u64)>);

impl Rates {
    fn note(&mut self, now: Duration, requests: u64, keep: Duration) {
        self.0.push_back((now, requests));
        // The count before the window is kept, because a rate is a difference of two counts.
        while self.0.get(1).is_some_and(|(at, _)| *at + keep <= now) {
            self.0.pop_front();
        }
    }

    /// Requests a second over the last `window`; less if the counts do not reach back so far.
    fn over(&self, window: Duration) -> f64 {
        let Some((now, last)) = self.0.back() else { return 0.0 };
        let from = now.saturating_sub(window);
        let at = self.0.partition_point(|(at, _)| *at <= from);
        let Some((_, first)) = self.0.get(at.saturating_sub(1)) else { return 0.0 };
        (last - first) as f64 / window.as_secs_f64()
    }

    /// The rate over a long window, of which perhaps only the end is known.
    fn average(&self, window: Duration) -> f64 {
        let (Some((first, _)), Some((last, _))) = (self.0.front(), self.0.back()) else {
            return 0.0;
        };
        let known = (*last - *first).min(window);
        if known.is_zero() { 0.0 } else { self.over(known) }
    }
}

/// What is to be done about a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Decision {
    Leave,
    SendAway,
    BringHome,
}

/// Decides when writes go elsewhere. It reads no clock.
#[derive(Debug, Default)]
struct Decider {
    rates: Rates,
    /// The average rate from before the burst, while there is one.
    usual: Option<f64>,
}

impl Decider {
    fn decide(&mut self, now: Duration, requests: u64, settings: &TailSettings) -> Decision {
        let recent_window = Duration::from_secs_f64(settings.recent_seconds);
        let window = Duration::from_secs_f64(settings.average_seconds);
        self.rates.note(now, requests, window);
        let recent = self.rates.over(recent_window);
        match self.usual {
            None => {
                let average = self.rates.average(window);
                let is_known =
                    self.rates.0.front().is_some_and(|(at, _)| *at + recent_window < now);
                let is_burst = recent > settings.alpha * average && recent >= settings.least_rate;
                if is_known && is_burst {
                    self.usual = Some(average);
                    return Decision::SendAway;
                }
                Decision::Leave
            }
            Some(usual) => {
                let is_over = recent <= (settings.alpha * usual).max(settings.least_rate);
                if is_over {
                    self.usual = None;
                    // Counts of the burst would raise the average.
                    self.rates.0.drain(..self.rates.0.len().saturating_sub(1));
                    return Decision::BringHome;
                }
                Decision::Leave
            }
        }
    }
}

/// What the application of a node works with.
pub(super) struct TailTask {
    pub switch: Arc<NodeSwitch>,
    pub cluster: Cluster,
    pub node: NodeName,
    pub clock: Arc<dyn Clock>,
    pub in_force: Arc<InForce>,
}

/// Runs the application for the node's target until the task is aborted.
pub(super) async fn run(task: TailTask) {
    let TailTask { switch, cluster, node, clock, in_force } = task;
    let map = RouteMap::new(cluster.maps().clone());
    let Ok(name) = ApplicationName::new(format!("tail.{}", switch.name())) else { return };
    let mut state = RouteState::default();
    let mut decider = Decider::default();
    let mut samples = interval(SAMPLE);
    let mut age = 0;
    loop {
        samples.tick().await;
        age += 1;
        if age >= SETTINGS_AGE {
            age = 0;
            match map.state().await {
                Ok(new) => state = new,
                Err(_) => continue,
            }
        }
        let is_routed = state.applications.contains_key(&name);
        let Some(settings) = &state.tail else {
            decider = Decider::default();
            if is_routed {
                forget(&map, &name, &mut state).await;
            }
            in_force.note_tail(state.epoch);
            continue;
        };
        in_force.note_tail(state.epoch);
        if is_routed && decider.usual.is_none() {
            // The node has restarted during a burst, or an operator has put rules with this name.
            decider.usual = Some(0.0);
        }
        match decider.decide(clock.monotonic(), switch.requests(), settings) {
            Decision::Leave => {}
            Decision::SendAway => {
                let application = rules(switch.name().as_str(), settings);
                while map.put(&[(name.clone(), application.clone())]).await.is_err() {
                    sleep(SAMPLE).await;
                }
                state.applications.insert(name.clone(), application);
                let text = format!("{} is overloaded: its writes go elsewhere", switch.name());
                tell(&cluster, &node, text).await;
            }
            Decision::BringHome => {
                forget(&map, &name, &mut state).await;
                let text =
                    format!("{} is not overloaded any more: bytes are brought home", switch.name());
                tell(&cluster, &node, text).await;
            }
        }
    }
}

async fn forget(map: &RouteMap, name: &ApplicationName, state: &mut RouteState) {
    while let Err(error) = map.remove(name).await {
        if error.kind() == nacre_object::ErrorKind::NotFound {
            break;
        }
        sleep(SAMPLE).await;
    }
    state.applications.remove(name);
}

async fn tell(cluster: &Cluster, node: &NodeName, text: String) {
    let event = Event { node: Some(node.clone()), ..Event::new(Severity::Info, text) };
    // If the event is lost, the rules still show what happened.
    let _ = cluster.events().append(event).await;
}

fn rules(target: &str, settings: &TailSettings) -> StoredApplication {
    let rule = |pool: &String| format!("* w {pool}/* -> pool {ROUTED_POOL} follow");
    let rules = settings.pools.iter().map(rule).collect();
    let insertions = vec![StoredInsertion { switch: target.to_owned(), rules }];
    StoredApplication { order: 0, is_forced: false, insertions }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn settings() -> TailSettings {
        TailSettings {
            recent_seconds: 10.0,
            average_seconds: 100.0,
            ..TailSettings::of_pools(vec!["data".to_owned()])
        }
    }

    /// What is decided while each second brings so many requests.
    fn decisions(seconds: &[u64]) -> Vec<(usize, Decision)> {
        let (mut decider, mut requests, mut decided) = (Decider::default(), 0, vec![]);
        for (second, rate) in seconds.iter().enumerate() {
            requests += rate;
            let decision = decider.decide(SECOND * second as u32, requests, &settings());
            if decision != Decision::Leave {
                decided.push((second, decision));
            }
        }
        decided
    }

    #[test]
    fn a_burst_sends_writes_to_other_targets_and_its_end_moves_the_bytes_back() {
        let seconds = [[100; 60].as_slice(), &[1000; 40], &[100; 60]].concat();
        let decided = decisions(&seconds);
        let [(sent, Decision::SendAway), (home, Decision::BringHome)] = decided[..] else {
            panic!("{decided:?}")
        };
        assert!((60..70).contains(&sent) && (100..112).contains(&home), "{decided:?}");
    }

    #[test]
    fn a_steady_load_is_no_burst_however_high() {
        assert_eq!(decisions(&[5000; 300]), []);
        assert_eq!(decisions(&[[0; 60].as_slice(), &[2; 60]].concat()), [], "too low to matter");
    }

    #[test]
    fn settings_out_of_bounds_are_refused() {
        let wrong = |change: fn(&mut TailSettings)| {
            let mut settings = settings();
            change(&mut settings);
            settings.check().unwrap_err()
        };
        settings().check().unwrap();
        wrong(|settings| settings.pools.clear());
        wrong(|settings| settings.pools = vec!["nacre.system".to_owned()]);
        wrong(|settings| settings.alpha = 1.0);
        wrong(|settings| settings.recent_seconds = 0.1);
        wrong(|settings| settings.average_seconds = 5.0);
        wrong(|settings| settings.least_rate = f64::NAN);
    }
}
