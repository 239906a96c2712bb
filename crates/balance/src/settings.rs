//! `BalancerSettings`: which policy balances a cluster, and at which interval.

use std::time::Duration;

use bytes::Bytes;
use nacre_object::{Error, ProgramName, Result};
use nacre_registry::{BALANCER_MAP, Change, MapState, Maps};
use serde::{Deserialize, Serialize};

/// The length of a tick, unless an operator says otherwise: CephFS's.
pub const DEFAULT_TICK: Duration = Duration::from_secs(10);
/// The shortest tick: heartbeats must reach all ranks in half of it.
pub const MIN_TICK: Duration = Duration::from_millis(100);
/// The longest tick. A policy that decides less often counts as switched off.
pub const MAX_TICK: Duration = Duration::from_secs(3600);

/// The key of the settings in their map.
const KEY: &str = "settings";

/// Which policy balances a cluster, and at which interval.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BalancerSettings {
    /// The program, of kind `balancer`; `None` if nothing is balanced.
    pub policy: Option<ProgramName>,
    /// From one decision to the next.
    pub tick: Duration,
}

/// As it is stored: JSON.
#[derive(Serialize, Deserialize)]
struct Stored {
    policy: Option<String>,
    tick_millis: u64,
}

impl Default for BalancerSettings {
    fn default() -> Self {
        Self { policy: None, tick: DEFAULT_TICK }
    }
}

impl BalancerSettings {
    /// The settings in a state of their map.
    ///
    /// # Errors
    /// `Corrupt`.
    pub fn of(state: &MapState) -> Result<Self> {
        state.entries.get(KEY).map_or_else(|| Ok(Self::default()), |stored| Self::decode(stored))
    }

    /// The stored settings.
    ///
    /// # Errors
    /// `Unavailable`, `Corrupt`.
    pub async fn read(maps: &Maps) -> Result<Self> {
        let (_, stored) = maps.entry(&BALANCER_MAP.parse()?, KEY).await?;
        stored.map_or_else(|| Ok(Self::default()), |stored| Self::decode(&stored))
    }

    /// Stores them.
    ///
    /// # Errors
    /// `Invalid` for a tick out of bounds; `Unavailable`.
    pub async fn store(&self, maps: &Maps) -> Result<()> {
        if !(MIN_TICK..=MAX_TICK).contains(&self.tick) {
            return Err(Error::invalid(format!(
                "a tick of {} s is out of bounds",
                self.tick.as_secs_f64()
            ))
            .hint(format!("give a tick from {MIN_TICK:?} to {MAX_TICK:?}")));
        }
        let encoded = self.encode();
        let update = |_: &MapState| Ok(vec![Change::set(KEY, encoded.clone())]);
        maps.update(&BALANCER_MAP.parse()?, update).await.map(drop)
    }

    fn encode(&self) -> Bytes {
        let stored = Stored {
            policy: self.policy.as_ref().map(ToString::to_string),
            tick_millis: self.tick.as_millis() as u64,
        };
        serde_json::to_vec(&stored).expect("settings have nothing that JSON lacks").into()
    }

    fn decode(stored: &[u8]) -> Result<Self> {
        let senseless = |cause: String| {
            Error::corrupt(format!("the stored settings of the balancer are damaged: {cause}"))
                .hint("set them again: nacre balancer set POLICY")
        };
        let stored: Stored =
            serde_json::from_slice(stored).map_err(|cause| senseless(cause.to_string()))?;
        let policy = stored.policy.map(|name| name.parse()).transpose();
        let tick = Duration::from_millis(stored.tick_millis);
        if !(MIN_TICK..=MAX_TICK).contains(&tick) {
            return Err(senseless(format!("a tick of {tick:?}")));
        }
        Ok(Self { policy: policy.map_err(|cause: Error| senseless(cause.to_string()))?, tick })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Format 1: changing it breaks clusters that exist.
    const SAMPLE: &str = r#"{"policy":"sequencers","tick_millis":10000}"#;

    #[test]
    fn stored_values_have_the_form_of_format_1() {
        let settings = BalancerSettings {
            policy: Some("sequencers".parse().unwrap()),
            ..BalancerSettings::default()
        };
        assert_eq!(settings.encode(), SAMPLE);
        assert_eq!(BalancerSettings::decode(SAMPLE.as_bytes()).unwrap(), settings);
    }

    #[test]
    fn invalid_stored_settings_are_corrupt() {
        for stored in ["", "{}", r#"{"policy":"a b","tick_millis":10000}"#, r#"{"tick_millis":1}"#]
        {
            let error = BalancerSettings::decode(stored.as_bytes()).unwrap_err();
            assert_eq!(error.kind(), nacre_object::ErrorKind::Corrupt, "{stored}");
        }
    }
}
