//! `Drift`: whether a target has become slower than its profile says.

use std::time::Duration;

/// The time over which the work of requests is compared with what the profile says.
const DRIFT_WINDOW: Duration = Duration::from_secs(30);
/// Seconds of work within that time from which on the comparison means something.
const LEAST_COMPARED_SECONDS: f64 = 1.0;

/// The work that requests took beside the work that the profile says; both fade.
#[derive(Debug, Default)]
pub(super) struct Drift {
    took_seconds: f64,
    profile_seconds: f64,
    faded_at: Duration,
}

impl Drift {
    /// A request took so much of the target, and should have taken so much.
    pub fn add(&mut self, took_seconds: f64, profile_seconds: f64, now: Duration) {
        self.fade(now);
        self.took_seconds += took_seconds;
        self.profile_seconds += profile_seconds;
    }

    /// The ratio of the time that recent requests took to the time in the profile; `None` if there
    /// was too little work.
    pub fn ratio(&mut self, now: Duration) -> Option<f64> {
        self.fade(now);
        let is_enough = self.profile_seconds >= LEAST_COMPARED_SECONDS;
        is_enough.then(|| self.took_seconds / self.profile_seconds)
    }

    fn fade(&mut self, now: Duration) {
        let passed = now.saturating_sub(self.faded_at).as_secs_f64();
        self.faded_at = self.faded_at.max(now);
        let left = (-passed / DRIFT_WINDOW.as_secs_f64()).exp();
        self.took_seconds *= left;
        self.profile_seconds *= left;
    }
}
