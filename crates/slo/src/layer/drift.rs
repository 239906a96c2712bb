//! `Drift`: measures whether a target has become slower than its profile says.

use std::time::Duration;

/// The time over which the measured work is compared with the profile.
const DRIFT_WINDOW: Duration = Duration::from_secs(30);
/// The comparison needs at least this many seconds of work within that time.
const LEAST_COMPARED_SECONDS: f64 = 1.0;

/// The measured work of recent requests, and their work by the profile. Both decay over time.
#[derive(Debug, Default)]
pub(super) struct Drift {
    took_seconds: f64,
    profile_seconds: f64,
    faded_at: Duration,
}

impl Drift {
    /// Records the measured work of a request, and its work by the profile.
    pub fn add(&mut self, took_seconds: f64, profile_seconds: f64, now: Duration) {
        self.fade(now);
        self.took_seconds += took_seconds;
        self.profile_seconds += profile_seconds;
    }

    /// The measured work of recent requests, divided by the work that the profile predicts for
    /// them; `None` if there was too little work.
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
