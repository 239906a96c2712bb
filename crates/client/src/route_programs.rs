//! Checks before the removal of a route program that no routing rule uses it.

use nacre_object::{Error, ErrorKind, Result};
use nacre_registry::{ProgramId, ROUTES_MAP};
use nacre_route::{APPLICATION_PREFIX, StoredApplication};

use crate::Cluster;

impl Cluster {
    /// Checks that no routing rule uses a route program, so that it can be removed. If the caller
    /// may not read the rules, permits the removal without a check: nodes keep using the version of
    /// the program that they have.
    pub(crate) async fn check_decides_for_no_rule(&self, program: &ProgramId) -> Result<()> {
        let map = match self.maps().get(&ROUTES_MAP.parse()?).await {
            Err(error) if matches!(error.kind(), ErrorKind::Denied | ErrorKind::NotFound) => {
                return Ok(());
            }
            map => map?,
        };
        for (key, value) in &map.entries {
            let Some(name) = key.strip_prefix(APPLICATION_PREFIX) else { continue };
            let senseless = |cause| Error::corrupt(format!("the rules of {name}: {cause}"));
            let stored: StoredApplication = serde_json::from_slice(value).map_err(senseless)?;
            if stored.programs(&name.parse()?)?.contains(&program.name) {
                let text = format!("{program} decides for rules of the application {name}");
                return Err(Error::conflict(text).hint(format!(
                    "end them first with `nacre route rm {name}`, or activate another version instead"
                )));
            }
        }
        Ok(())
    }
}
