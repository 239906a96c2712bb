//! Finds out for each OSD of a cluster whether it has nacre's class, Ceph's class `lua`, or
//! neither.
//!
//! Ceph has no command for this question. So the client sends each OSD a call that does nothing, on
//! an object that does not exist but would be served by that OSD. It finds the names of such
//! objects by trying many names. It remembers the names as long as the cluster's map stays the
//! same.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use nacre_object::{Error, ObjectId, Result};
use serde::{Deserialize, Serialize};
use tokio::time::timeout;

use crate::classes::plugin_call::{Outcome, empty_plugin_call};
use crate::classes::stock_call::empty_stock_call;
use crate::cluster::failure::status;
use crate::cluster::osd_map::OsdMap;
use crate::ffi::{Call, Cluster, IoContext};
use crate::{RadosOptions, cluster::location};

/// The pool of the names that are tried; nothing is ever stored in it.
pub const PROBE_POOL: &str = "nacre-probe";
/// How many names are tried for each OSD; [`MIN_NAMES`] is the least number for the whole cluster.
/// Many names are needed because some OSDs are primary for only a few placement groups.
const NAMES_PER_OSD: usize = 16;
const MIN_NAMES: usize = 64;
/// The most names that are tried. Each is a question to the monitors.
const MAX_NAMES: usize = 4096;
/// How long to wait for the answer of an OSD.
const OSD_TIMEOUT: Duration = Duration::from_secs(2);

/// Whether an OSD offers a class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Offer {
    /// It does.
    Yes,
    /// The OSD has the class of another release, which cannot be used.
    OtherRelease,
    /// It does not, or not to this user.
    No,
    /// It did not answer, or serves no placement group that was found.
    Unknown,
}

/// The classes of one OSD.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct OsdClasses {
    /// The OSD.
    pub osd: i32,
    /// nacre's class.
    pub nacre: Offer,
    /// Ceph's class `lua`, which runs programs without budgets.
    pub cls_lua: Offer,
}

/// The classes of all OSDs that are up.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Survey {
    /// Each, by number.
    pub osds: Vec<OsdClasses>,
}

impl Survey {
    /// Whether an OSD may run programs without budgets.
    pub fn lacks_budgets(&self) -> bool {
        self.osds.iter().any(|osd| osd.nacre != Offer::Yes && osd.cls_lua == Offer::Yes)
    }

    /// Whether every OSD answered. A busy OSD may not have answered in time.
    pub fn is_complete(&self) -> bool {
        self.osds.iter().all(|osd| ![osd.nacre, osd.cls_lua].contains(&Offer::Unknown))
    }

    fn those(&self, are: impl Fn(&OsdClasses) -> bool) -> String {
        let names = self.osds.iter().filter(|osd| are(osd));
        let names: Vec<_> = names.map(|osd| format!("osd.{}", osd.osd)).collect();
        names.join(" ")
    }
}

impl fmt::Display for Survey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let own = |osd: &OsdClasses| osd.nacre == Offer::Yes;
        let is_silent = |osd: &OsdClasses| [osd.nacre, osd.cls_lua].contains(&Offer::Unknown);
        let unknown = |osd: &OsdClasses| !own(osd) && is_silent(osd);
        let lua = |osd: &OsdClasses| !own(osd) && !unknown(osd) && osd.cls_lua == Offer::Yes;
        let none = |osd: &OsdClasses| !own(osd) && !unknown(osd) && !lua(osd);
        let kinds = [
            (self.those(own), "by nacre's class"),
            (self.those(lua), "by cls_lua if marked --!cls_lua, without budgets"),
            (self.those(none), "not in the OSD but in the node"),
            (self.those(unknown), "unknown"),
        ];
        let said = kinds.iter().filter(|(osds, _)| !osds.is_empty());
        let said: Vec<_> = said.map(|(osds, how)| format!("{osds}: {how}")).collect();
        write!(f, "methods run at {}", said.join("; "))
    }
}

/// Surveys the OSDs, and remembers which object name reaches which OSD.
#[derive(Debug, Default)]
pub struct Surveyor {
    probes: Mutex<Probes>,
}

/// An object for each OSD, as of an epoch of the cluster's map.
#[derive(Debug, Clone, Default)]
struct Probes {
    epoch: u64,
    by_osd: BTreeMap<i32, String>,
}

impl Surveyor {
    /// Finds an object name for each OSD. Waits for the monitors.
    pub fn find(&self, cluster: &Cluster, options: &RadosOptions) -> Result<Targets> {
        let map = OsdMap::ask(cluster)?;
        let up: Vec<i32> = map.osds.iter().filter(|osd| osd.is_up()).map(|osd| osd.id).collect();
        let known = self.probes.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let probes = if known.epoch == map.epoch {
            known
        } else {
            let by_osd = find_probes(cluster, options, &up)?;
            let found = Probes { epoch: map.epoch, by_osd };
            *self.probes.lock().unwrap_or_else(PoisonError::into_inner) = found.clone();
            found
        };
        Ok(Targets { up, probes })
    }
}

/// For each OSD, the name of an object that it serves.
#[derive(Debug)]
pub struct Targets {
    up: Vec<i32>,
    probes: Probes,
}

impl Targets {
    /// Asks all of them, through the namespace [`PROBE_POOL`].
    pub async fn ask(self, context: &Arc<IoContext>) -> Survey {
        let asked = self.up.iter().map(|osd| async {
            let name = self.probes.by_osd.get(osd);
            let (nacre, cls_lua) = match name {
                Some(name) => {
                    futures::join!(ask_plugin(context, name), ask_stock(context, name))
                }
                None => (Offer::Unknown, Offer::Unknown),
            };
            OsdClasses { osd: *osd, nacre, cls_lua }
        });
        Survey { osds: futures::future::join_all(asked).await }
    }
}

fn find_probes(
    cluster: &Cluster,
    options: &RadosOptions,
    up: &[i32],
) -> Result<BTreeMap<i32, String>> {
    let mut found = BTreeMap::new();
    let names = (up.len() * NAMES_PER_OSD).clamp(MIN_NAMES, MAX_NAMES);
    for number in 0..names {
        let object: ObjectId = format!("{PROBE_POOL}/{number}").parse()?;
        let place = location::ask(cluster, &options.pool, &object)?;
        found.entry(place.primary).or_insert_with(|| number.to_string());
        if up.iter().all(|osd| found.contains_key(osd)) {
            break;
        }
    }
    Ok(found)
}

async fn ask_plugin(context: &Arc<IoContext>, name: &str) -> Offer {
    match ask(context, name, &empty_plugin_call()).await {
        Ok(output) => match output.map(|called| Outcome::of(&[], &called)) {
            Some(Ok(Outcome::Unusable)) => Offer::OtherRelease,
            Some(Ok(_)) => Offer::Yes,
            // The answer cannot be decoded.
            Some(Err(_)) => Offer::OtherRelease,
            None => Offer::No,
        },
        Err(_) => Offer::Unknown,
    }
}

async fn ask_stock(context: &Arc<IoContext>, name: &str) -> Offer {
    match ask(context, name, &empty_stock_call()).await {
        Ok(Some(_)) => Offer::Yes,
        Ok(None) => Offer::No,
        Err(_) => Offer::Unknown,
    }
}

/// The answer to a call; `None` if the OSD has no such class.
async fn ask(
    context: &Arc<IoContext>,
    name: &str,
    call: &Call,
) -> Result<Option<crate::ffi::Called>> {
    let silent = || {
        Error::unavailable("the OSD does not answer")
            .hint("see `ceph health detail`: an OSD may be down or a placement group inactive")
    };
    let (answer, called) =
        timeout(OSD_TIMEOUT, context.call(name, call)).await.map_err(|_| silent())?;
    match (called, answer.status) {
        (Some(called), _) => Ok(Some(called)),
        (None, status) if status::lacks_class(status) => Ok(None),
        _ => Err(silent()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_survey_says_where_methods_run() {
        let osd = |osd, nacre, cls_lua| OsdClasses { osd, nacre, cls_lua };
        let survey = Survey {
            osds: vec![
                osd(0, Offer::Yes, Offer::Yes),
                osd(1, Offer::No, Offer::Yes),
                osd(2, Offer::OtherRelease, Offer::No),
                osd(3, Offer::Yes, Offer::No),
                osd(4, Offer::Unknown, Offer::Unknown),
                osd(5, Offer::No, Offer::Unknown),
            ],
        };
        assert_eq!(
            survey.to_string(),
            "methods run at osd.0 osd.3: by nacre's class; osd.1: by cls_lua if marked --!cls_lua, \
             without budgets; osd.2: not in the OSD but in the node; osd.4 osd.5: unknown"
        );
        assert!(survey.lacks_budgets() && !survey.is_complete());
    }
}
