//! Checks regularly which object classes the OSDs behind a gateway have to run methods with.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use nacre::{Cluster, Event, Severity};
use nacre_object::NodeName;
use nacre_rados::{RadosEngine, Survey};
use tokio::task::JoinHandle;

/// OSDs come, go and are upgraded in minutes.
const INTERVAL: Duration = Duration::from_secs(60);
/// The time before the next survey if some OSDs did not answer the last one.
const SOON: Duration = Duration::from_secs(5);

/// The latest survey of the OSDs. A task repeats the survey until this value is dropped, and writes
/// changes to the cluster log.
#[derive(Debug)]
pub(super) struct OsdSurvey {
    latest: Arc<Mutex<Option<Survey>>>,
    looking: JoinHandle<()>,
}

impl OsdSurvey {
    /// Surveys the OSDs now, and again periodically. Needs a tokio runtime.
    pub fn start(engine: RadosEngine, cluster: Cluster, node: NodeName) -> Self {
        let latest = Arc::new(Mutex::new(None));
        let found = Arc::clone(&latest);
        let looking = tokio::spawn(async move {
            loop {
                // If the cluster does not answer, the last survey stays, and the cluster is asked
                // again.
                let survey = engine.survey().await.ok();
                let is_complete = survey.as_ref().is_some_and(Survey::is_complete);
                if let Some(survey) = survey.filter(|now| latest_of(&found).as_ref() != Some(now)) {
                    *found.lock().unwrap_or_else(PoisonError::into_inner) = Some(survey.clone());
                    tell(&survey, &cluster, &node).await;
                }
                tokio::time::sleep(if is_complete { INTERVAL } else { SOON }).await;
            }
        });
        Self { latest, looking }
    }

    /// The latest survey.
    pub fn latest(&self) -> Option<Survey> {
        latest_of(&self.latest)
    }
}

impl Drop for OsdSurvey {
    fn drop(&mut self) {
        self.looking.abort();
    }
}

fn latest_of(found: &Mutex<Option<Survey>>) -> Option<Survey> {
    found.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

async fn tell(survey: &Survey, cluster: &Cluster, node: &NodeName) {
    let severity = if survey.lacks_budgets() { Severity::Warning } else { Severity::Info };
    let event = Event::new(severity, survey.to_string()).node(node.clone());
    // The status says it as well.
    let _ = cluster.events().append(event).await;
}
