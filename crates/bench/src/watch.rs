//! `watch`: how long a commit of a map takes to reach 120 watchers, beside a put in etcd. It counts
//! from the request until a watcher has the change. Each watcher has a session of its own.

use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use futures::future::try_join_all;
use nacre::{Change, Cluster, MapEvent};
use nacre_clock::{Clock, SystemClock};
use nacre_object::{Error, MapName, Result};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::bench::Setup;
use crate::etcd_server::{EtcdClient, EtcdServer};
use crate::figure::{Better, Figure};
use crate::load::in_turn;
use crate::scratch::{self, ScratchCluster};

const WATCHERS: usize = 120;
const TARGETS: usize = 1;
const MAP: &str = "watched";
const KEY: &str = "key";
/// The least number of changes of each side in a round, however short `--seconds` is: percentiles
/// need many.
const MIN_CHANGES: usize = 20;
/// If a change does not reach every watcher in this time, the bench fails.
const PATIENCE: Duration = Duration::from_secs(30);
/// The pause between two changes, so that the work that follows one does not delay the next.
const PAUSE: Duration = Duration::from_millis(20);

/// A watcher that has a change, by the change's number, and when.
type Arrival = (u64, Duration);

/// Who commits changes. Its watchers are tasks that end with it.
struct Side {
    writer: Writer,
    arrivals: mpsc::UnboundedReceiver<Arrival>,
    /// The number of the last change.
    last: u64,
    times: Times,
    _watchers: JoinSet<Result<()>>,
}

enum Writer {
    Nacre(Box<Cluster>),
    Etcd(EtcdClient),
}

/// Measured times in milliseconds.
#[derive(Default)]
struct Times {
    /// For each change and watcher, from the request until the watcher has the change.
    arrivals: Vec<f64>,
    /// From the request until the change is acknowledged.
    commits: Vec<f64>,
}

impl Times {
    /// This percentile of measured times; 100 is the longest.
    fn percentile(times: &[f64], percent: usize) -> f64 {
        let mut times = times.to_vec();
        times.sort_by(f64::total_cmp);
        times.get((times.len() * percent).div_ceil(100).saturating_sub(1)).copied().unwrap_or(0.0)
    }
}

pub(crate) async fn run(setup: &Setup, report: &mut dyn FnMut(Figure)) -> Result<()> {
    let folder = scratch::folder(&setup.folder)?;
    let cluster = ScratchCluster::start(folder.path(), TARGETS, &setup.program).await?;
    let etcd = EtcdServer::start(folder.path()).await?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
    let mut sides = [nacre(&cluster, &clock).await?, beside(&etcd, &clock).await?];
    for side in &mut sides {
        // The first change finds every connection cold.
        side.change(&clock).await?;
        side.times = Times::default();
    }
    for round in 0..setup.rounds {
        for side in in_turn(round, sides.each_mut()) {
            let until = clock.monotonic() + setup.span;
            let enough = side.times.commits.len() + MIN_CHANGES;
            while side.times.commits.len() < enough || clock.monotonic() < until {
                side.change(&clock).await?;
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
    let [ours, theirs] = sides.map(|side| side.times);
    etcd.stop().await;
    cluster.stop().await;
    tell(&ours, &theirs, report);
    Ok(())
}

fn tell(ours: &Times, theirs: &Times, report: &mut dyn FnMut(Figure)) {
    let mut tell = |what: String, percent, times: fn(&Times) -> &[f64], aim: Option<f64>| {
        let [ours, theirs] = [ours, theirs].map(|side| Times::percentile(times(side), percent));
        let figure = Figure::new(("watch", what, "ms"), Better::Lower, ours, ("etcd", theirs));
        report(match aim {
            Some(aim) => figure.aiming_at(aim),
            None => figure,
        });
    };
    for (name, percent, aim) in
        [("p50", 50, None), ("p90", 90, Some(1.0)), ("worst", 100, Some(1.0))]
    {
        let what = format!("a commit reaches {WATCHERS} watchers, {name}");
        tell(what, percent, |times| &times.arrivals, aim);
    }
    tell("a commit is acknowledged, p50".to_owned(), 50, |times| &times.commits, None);
}

impl Side {
    /// Makes a change, and measures until all watchers have it.
    async fn change(&mut self, clock: &Arc<dyn Clock>) -> Result<()> {
        self.last += 1;
        let value = self.last.to_string();
        let began = clock.monotonic();
        let millis = |at: Duration| at.saturating_sub(began).as_secs_f64() * 1e3;
        match &mut self.writer {
            Writer::Nacre(client) => {
                let changes = vec![Change::set(KEY, value.into_bytes())];
                client.maps().apply(&map()?, changes).await.map(drop)?;
            }
            Writer::Etcd(client) => client.put(KEY, &value).await?,
        }
        self.times.commits.push(millis(clock.monotonic()));
        let mut missing = WATCHERS;
        while missing > 0 {
            let arrival = tokio::time::timeout(PATIENCE, self.arrivals.recv()).await;
            let Ok(Some((number, at))) = arrival else {
                let text = format!("{missing} of {WATCHERS} watchers have not seen a change");
                return Err(Error::unavailable(text));
            };
            if number == self.last {
                self.times.arrivals.push(millis(at));
                missing -= 1;
            }
        }
        Ok(())
    }
}

fn map() -> Result<MapName> {
    MAP.parse()
}

/// Watches nacre's map.
async fn nacre(cluster: &ScratchCluster, clock: &Arc<dyn Clock>) -> Result<Side> {
    let writer = cluster.client().await?;
    // The watchers begin at the epoch of this commit.
    let first = writer.maps().apply(&map()?, vec![Change::set(KEY, "0")]).await?;
    let (tell, arrivals) = mpsc::unbounded_channel();
    let mut watchers = JoinSet::new();
    for _ in 0..WATCHERS {
        let own = cluster.client().await?;
        let (tell, clock) = (tell.clone(), Arc::clone(clock));
        watchers.spawn(async move {
            let mut watcher = own.maps().watch(&map()?, first);
            loop {
                if let MapEvent::Epoch(record) = watcher.next().await? {
                    for value in record.changes.iter().filter_map(Change::value) {
                        // Nobody listens any more once the bench is over.
                        let _ = tell.send((number(value), clock.monotonic()));
                    }
                }
            }
        });
    }
    let writer = Writer::Nacre(Box::new(writer));
    Ok(Side { writer, arrivals, last: 0, times: Times::default(), _watchers: watchers })
}

/// Watches a key of etcd.
async fn beside(etcd: &EtcdServer, clock: &Arc<dyn Clock>) -> Result<Side> {
    let (tell, arrivals) = mpsc::unbounded_channel();
    let mut watchers = JoinSet::new();
    let connections = try_join_all((0..WATCHERS).map(|_| etcd.connect())).await?;
    for mut own in connections {
        let mut watch = own.watch(KEY).await?;
        let (tell, clock) = (tell.clone(), Arc::clone(clock));
        watchers.spawn(async move {
            loop {
                for value in watch.next().await? {
                    // Nobody listens any more once the bench is over.
                    let _ = tell.send((number(&value), clock.monotonic()));
                }
            }
        });
    }
    let writer = Writer::Etcd(etcd.connect().await?);
    Ok(Side { writer, arrivals, last: 0, times: Times::default(), _watchers: watchers })
}

/// The number of a change; 0 for a value that the bench has not written.
fn number(value: &[u8]) -> u64 {
    std::str::from_utf8(value).ok().and_then(|text| u64::from_str(text).ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_a_time_that_was_measured() {
        let times: Vec<_> = (1..=200).rev().map(f64::from).collect();
        assert_eq!(
            [50, 90, 100].map(|percent| Times::percentile(&times, percent)),
            [100.0, 180.0, 200.0]
        );
        assert_eq!(Times::percentile(&[], 90), 0.0);
    }

    #[test]
    fn the_number_of_a_change_is_its_value() {
        assert_eq!([number(b"17"), number(b""), number(&[0xff])], [17, 0, 0]);
    }
}
