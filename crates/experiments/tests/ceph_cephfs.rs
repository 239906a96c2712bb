//! Measures a figure on metadata servers of CephFS. The figure has two trials, and each runs on
//! three ranks of its own cluster.

use std::path::Path;

use nacre_experiments::{CephFsEffort, CephFsFigure, CephFsReport, StoredReport};

#[tokio::test]
async fn a_figure_is_measured_with_the_counters_of_real_ranks() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/ceph-cluster");
    // Six clients that create 20 files each.
    let effort = CephFsEffort { script, rounds: 1, scale_down: 5000 };
    let mut told = vec![];
    let progress = &mut |line: &str| told.push(line.to_owned());
    let report = CephFsFigure::SameJob.measure(&effort, progress).await.unwrap();
    assert_eq!(told.len(), 2, "{told:?}");
    let [even, balanced] = &report.trials[..] else { panic!("{:?}", report.trials) };
    for trial in [even, balanced] {
        let round = &trial.rounds[0];
        assert_eq!((trial.ranks, trial.clients, round.operations), (3, 6, 120));
        let total = round.ranks.iter().map(|rank| rank.replies).sum::<u64>();
        assert!(total >= round.operations, "{round:?}");
    }
    // Two of the six directories are pinned to each rank.
    let ranks = &even.rounds[0].ranks;
    assert!(ranks.iter().all(|rank| rank.replies >= 40), "{ranks:?}");
    assert!(ranks.iter().all(|rank| rank.sessions >= 1), "{ranks:?}");
    assert_eq!(CephFsReport::from_json(&report.to_json().unwrap()).unwrap(), report);
    assert!(!report.ceph_version.is_empty());
}
