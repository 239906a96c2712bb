//! Checks that histories of concurrent committers and readers of a map are linearizable, even if
//! requests and answers are lost. Each epoch must begin once, and a committer that lost a race must
//! get `Conflict`.

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::name;
use futures::future::join_all;
use nacre_clock::{Random, SystemClock};
use nacre_conformance::faults::{FaultOdds, seeded};
use nacre_conformance::histories::{MapAnswer, MapCall, MapModel, Recorder, check};
use nacre_conformance::{FaultyStore, seeds};
use nacre_embedded::{EmbeddedEngine, Options};
use nacre_object::ErrorKind;
use nacre_registry::{Change, Maps};

const CLIENTS: u64 = 4;
const CALLS: usize = 25;

type History = Recorder<MapCall, MapAnswer>;

/// Reads a map and commits what follows from it, again and again.
async fn commit_and_read(maps: Maps, map: String, seed: u64, history: History) {
    let (mut random, map) = (Random::seeded(seed), name(&map));
    for n in 0..CALLS {
        let ticket = history.begin(MapCall::Get);
        let Ok(state) = maps.get(&map).await else {
            history.never_happened(ticket);
            continue;
        };
        let texts = state.entries.iter();
        let texts = texts.map(|(key, value)| (key.clone(), String::from_utf8_lossy(value).into()));
        history.end(ticket, MapAnswer::Whole(state.epoch, texts.collect()));
        tokio::time::sleep(Duration::from_micros(random.below(3000))).await;

        let (key, value) = (format!("k{}", random.below(2)), format!("{seed}.{n}"));
        let change = Change::set(key.clone(), value.clone());
        let ticket = history.begin(MapCall::Commit { expected: state.epoch, key, value });
        match maps.commit(&map, state.epoch, vec![change]).await {
            Ok(epoch) => history.end(ticket, MapAnswer::Began(epoch)),
            Err(error) if error.kind() == ErrorKind::Conflict => {
                history.end(ticket, MapAnswer::Conflict);
            }
            Err(error) if error.kind() == ErrorKind::Unavailable => drop(ticket),
            Err(error) => panic!("seed {seed}: {error}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn histories_of_concurrent_committers_are_linearizable() {
    let folder = tempfile::tempdir().unwrap();
    let classes = Arc::new(common::classes(Arc::new(SystemClock::default())));
    let options = Options::new(folder.path(), classes, Arc::new(SystemClock::default()));
    let engine = Arc::new(EmbeddedEngine::open(options).unwrap());
    let odds = FaultOdds { fail_before: 6, fail_after: 4, lose_event: 0 };
    let mut conflicts = 0;
    for seed in seeds(10) {
        let history = History::default();
        let clients = (0..CLIENTS).map(|n| {
            let lossy = FaultyStore::over_watched(engine.clone());
            lossy.follow(seeded(seed * 100 + n, odds));
            let maps = Maps::new(Arc::new(lossy.clone()), Arc::new(lossy));
            let map = format!("seed-{seed}");
            tokio::spawn(commit_and_read(maps, map, seed * 100 + n, history.clone()))
        });
        for client in join_all(clients).await {
            client.unwrap();
        }
        let history = history.operations();
        conflicts += history.iter().filter(|o| o.answer == Some(MapAnswer::Conflict)).count();
        check::<MapModel>(&history).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    }
    assert!(conflicts > 0, "nobody met anybody");
}
