//! Bugs planted in the program of the storage interface: the checker of histories must find them.

use nacre_conformance::histories::check_log;
use nacre_log::{LogOptions, PROGRAM_CLASS};

use crate::suite::linearizability::use_log;
use crate::support::{Cluster, class, planted};

#[tokio::test(start_paused = true)]
async fn the_checker_finds_bugs_planted_in_storage() {
    for bug in planted::IN_FILL {
        let mut found = None;
        for seed in 0..40 {
            let cluster = Cluster::with_program(3, 3, &bug.planted()).await;
            let options =
                LogOptions { class: class(PROGRAM_CLASS), slots: 6, ..LogOptions::default() };
            let log = cluster.create("l", options).await;
            let history = use_log(&cluster, &log, seed).await.operations();
            if let Err(error) = check_log(&history) {
                found = Some((seed, error));
                break;
            }
        }
        let Some((seed, error)) = found else { panic!("nobody notices: {}", bug.what) };
        println!("{}: seed {seed}: {}", bug.what, error.lines().next().unwrap_or_default());
    }
}
