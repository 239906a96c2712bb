//! Layouts are measured, predicted and chosen on a real engine.

use std::time::Duration;

use nacre_tuner::{Access, Effort, OwnEngine, Profile, Shape, Tuned, Workload, tune};

const LOG: &str = include_str!("../../../programs/class/log.brados");
const WRITES: &str = include_str!("../../../programs/workloads/log-writes.workload");
/// How long each measurement takes. It is short, because the test does not check the measured
/// times, only that all measurements are made.
const SPAN: Duration = Duration::from_millis(20);

struct Subject {
    engine: OwnEngine,
    profile: Profile,
    _folder: tempfile::TempDir,
}

impl Subject {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let engine = OwnEngine::embedded(folder.path()).unwrap();
        let mut shares = Vec::new();
        let fingerprint = engine.fingerprint().clone();
        let progress = &mut |share| shares.push(share);
        let profile = Profile::measure(engine.bench(), fingerprint, SPAN, progress).await.unwrap();
        assert!(shares.is_sorted() && shares.last() == Some(&1.0), "{shares:?}");
        Self { engine, profile, _folder: folder }
    }

    async fn tune(
        &self,
        program: &str,
        workload: &str,
        sweep: bool,
    ) -> nacre_object::Result<Tuned> {
        let workload = Workload::parse(workload).unwrap();
        let effort = Effort { span: SPAN, rounds: 1, sweep };
        tune(self.engine.bench(), program, &workload, &self.profile, effort, &mut |_| {}).await
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn engines_are_measured_and_layouts_chosen() {
    let subject = Subject::new().await;
    a_profile_tells_more_for_more(&subject.profile);
    a_layout_is_chosen_among_all_that_are_possible(&subject).await;
    what_cannot_be_tuned_is_told(&subject).await;
}

fn a_profile_tells_more_for_more(profile: &Profile) {
    let seconds =
        |access, times: usize| profile.seconds(&Shape { touches: vec![(access, 16); times] }, 32);
    for access in Access::ALL {
        assert!(seconds(access, 1) > 0.0 && seconds(access, 2) > seconds(access, 1), "{access:?}");
    }
}

async fn a_layout_is_chosen_among_all_that_are_possible(subject: &Subject) {
    let tuned = subject.tune(LOG, WRITES, true).await.unwrap();
    let layouts: Vec<_> = tuned.tried.iter().map(|one| one.layout.as_str()).collect();
    assert_eq!(layouts[0], "map");
    for part in
        ["slots(", "appended(map)", "appended(stream)", "header: attribute", "header: stream"]
    {
        assert!(layouts.iter().any(|layout| layout.contains(part)), "{part} in {layouts:?}");
    }
    assert!(tuned.tried.iter().all(|one| one.predicted > 0.0 && one.measured > Some(0.0)));
    assert!((0..layouts.len()).any(|at| tuned.regret(at) == Some(0.0)));
    assert_eq!(tuned.rules[0].1, 0);
    assert!(layouts[tuned.rules[1].1].contains("slots("), "{:?}", tuned.rules);

    let tuned = subject.tune(LOG, WRITES, false).await.unwrap();
    let measured = tuned.tried.iter().filter(|one| one.measured.is_some()).count();
    // How many depends on the predictions: three locations of the header, and at most three others.
    assert!((3..=6).contains(&measured), "{measured} measured");
    assert!(tuned.chosen().measured.is_some());
}

async fn what_cannot_be_tuned_is_told(subject: &Subject) {
    let wrong_method = subject.tune(LOG, "mix 1 nothing 1", false).await.unwrap_err();
    assert!(wrong_method.to_string().contains("nothing"), "{wrong_method}");
    let wrong_program =
        subject.tune("state do\nend\nbloom do\na <= b\nend", "mix 1 a", false).await;
    assert!(wrong_program.unwrap_err().to_string().contains("mistakes"));
}
