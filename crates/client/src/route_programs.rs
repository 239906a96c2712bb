//! Checks that a program of routes may be removed: that no routing rule uses a route program or a
//! waypoint, and that a control program makes no rules.

use nacre_object::{Error, ErrorKind, Result};
use nacre_registry::{MapState, ProgramId, ProgramKind, ROUTES_MAP};
use nacre_route::{APPLICATION_PREFIX, CONTROL_PREFIX, StoredApplication};

use crate::Cluster;

impl Cluster {
    /// Checks that no routing rule uses a route program or a waypoint, so that it can be removed. If the caller
    /// may not read the rules, permits the removal without a check. That is harmless: nodes keep
    /// using the version of the program that they have.
    pub(crate) async fn check_decides_for_no_rule(&self, program: &ProgramId) -> Result<()> {
        let Some(map) = self.routes_map().await? else { return Ok(()) };
        for (key, value) in &map.entries {
            let Some(name) = key.strip_prefix(APPLICATION_PREFIX) else { continue };
            let senseless = |cause| Error::corrupt(format!("the rules of {name}: {cause}"));
            let stored: StoredApplication = serde_json::from_slice(value).map_err(senseless)?;
            let named = stored.programs(&name.parse()?)?;
            let (is_named, does) = match program.kind {
                ProgramKind::Waypoint => {
                    (named.waypoints.contains(&program.name), "is a waypoint of")
                }
                _ => (named.routes.contains(&program.name), "decides for"),
            };
            if is_named {
                let text = format!("{program} {does} rules of the application {name}");
                return Err(Error::conflict(text).hint(format!(
                    "end them first with `nacre route rm {name}`, or activate another version instead"
                )));
            }
        }
        Ok(())
    }

    /// Checks that no started application uses a control program, so that it can be removed.
    /// Permits the removal if the caller may not read which applications are started.
    pub(crate) async fn check_makes_no_rules(&self, program: &ProgramId) -> Result<()> {
        let Some(map) = self.routes_map().await? else { return Ok(()) };
        for (key, value) in &map.entries {
            let Some(name) = key.strip_prefix(CONTROL_PREFIX) else { continue };
            let started: serde_json::Value = serde_json::from_slice(value)
                .map_err(|cause| Error::corrupt(format!("the application {name}: {cause}")))?;
            if started["program"] == program.name.as_str() {
                let text = format!("{program} makes the rules of the application {name}");
                return Err(Error::conflict(text).hint(format!(
                    "stop it first with `nacre route stop {name}`, or activate another version instead"
                )));
            }
        }
        Ok(())
    }

    /// The map of rules; `None` if the caller may not read it, or if it does not exist yet.
    async fn routes_map(&self) -> Result<Option<MapState>> {
        match self.maps().get(&ROUTES_MAP.parse()?).await {
            Err(error) if matches!(error.kind(), ErrorKind::Denied | ErrorKind::NotFound) => {
                Ok(None)
            }
            map => map.map(Some),
        }
    }
}
