//! Measures the cost of commits, map programs and watches on the embedded engine. The same run also
//! measures a plain durable write of the same bytes, as the baseline. Run it with `--release`.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use nacre_class::ClassRuntime;
use nacre_clock::{Clock, SystemClock};
use nacre_embedded::{EmbeddedEngine, Options};
use nacre_object::{MapEntry, MapName, Op, Request, Result, Store};
use nacre_program::Budget;
use nacre_registry::{Change, Hooks, MapHook, MapState, Maps, Programs, events_class, map_class};

const RUN: Duration = Duration::from_secs(2);
const PROGRAM: &str = "function commit(proposal, map)
    for _, change in ipairs(proposal.changes) do
        if #change.key > 64 then map.invalid('a long key') end
    end
end";

struct Bench {
    clock: Arc<dyn Clock>,
    engine: EmbeddedEngine,
    maps: Maps,
}

fn change(n: u64) -> Vec<Change> {
    vec![Change::set(format!("key-{}", n % 100), vec![7; 100])]
}

impl Bench {
    /// Repeats `act`, one call after another. Prints how many calls there were per second.
    async fn measure(&self, what: &str, mut act: impl AsyncFnMut(u64) -> Result<()>) -> Result<()> {
        let (start, mut count) = (self.clock.monotonic(), 0);
        while self.clock.monotonic() - start < RUN {
            act(count).await?;
            count += 1;
        }
        self.print(what, count, self.clock.monotonic() - start);
        Ok(())
    }

    fn print(&self, what: &str, count: u64, time: Duration) {
        let micros = time.as_secs_f64() * 1e6 / count as f64;
        println!("{what:<44} {:>9.0}/s {micros:>9.1} us", count as f64 / time.as_secs_f64());
    }

    async fn bare_write(&self, n: u64) -> Result<()> {
        let (key, value) = (format!("key-{}", n % 100).into(), vec![7; 100].into());
        let op = Op::MapSet { entries: vec![MapEntry { key, value }] };
        self.engine.submit(Request::new("bench/object".parse()?, vec![op])?).await.map(|_| ())
    }

    async fn commits(&self, map: &str) -> Result<()> {
        let map = MapName::new(map)?;
        let mut epoch = 0;
        self.measure(&format!("commit to {map}"), async |n| {
            epoch = self.maps.commit(&map, epoch, change(n)).await?;
            Ok(())
        })
        .await
    }

    /// Many committers of one map, who conflict and retry.
    async fn contended(&self, committers: u64) -> Result<()> {
        let map = MapName::new("contended")?;
        let start = self.clock.monotonic();
        let tasks = (0..committers).map(|n| {
            let (maps, map, clock) = (self.maps.clone(), map.clone(), self.clock.clone());
            tokio::spawn(async move {
                while clock.monotonic() - start < RUN {
                    maps.update(&map, |_: &MapState| Ok(change(n))).await?;
                }
                Ok::<_, nacre_object::Error>(())
            })
        });
        for task in join_all(tasks).await {
            task.expect("a committer does not panic")?;
        }
        let epochs = self.maps.epoch(&map).await?;
        self.print(
            &format!("{committers} committers of one map"),
            epochs,
            self.clock.monotonic() - start,
        );
        Ok(())
    }

    /// Measures the time from the start of a commit until a watcher is notified of it.
    async fn watched(&self) -> Result<()> {
        let map = MapName::new("watched")?;
        let mut watcher = self.maps.watch(&map, 0);
        self.measure("commit until a watcher heard", async |n| {
            self.maps.commit(&map, n, change(n)).await?;
            watcher.next().await.map(|_| ())
        })
        .await
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let folder = tempfile::tempdir().expect("there is room for a scratch folder");
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
    let classes = ClassRuntime::new(Budget::default(), clock.clone());
    classes.register_native(map_class())?;
    classes.register_native(events_class())?;
    let options = Options::new(folder.path(), Arc::new(classes), clock.clone());
    let engine = EmbeddedEngine::open(options)?;
    let maps = Maps::new(Arc::new(engine.clone()), Arc::new(engine.clone()));
    let programs = Programs::new(maps.clone(), clock.clone(), Hooks::new().with(MapHook));
    let bench = Bench { clock, engine, maps };

    bench.measure("bare durable write", async |n| bench.bare_write(n).await).await?;
    bench.commits("plain").await?;
    let program = "map/judged".parse()?;
    let version = programs.put(&program, PROGRAM).await?;
    programs.activate(&program, version).await?;
    bench.commits("judged").await?;
    let plain = MapName::new("plain")?;
    bench.measure("get of 100 entries", async |_| bench.maps.get(&plain).await.map(|_| ())).await?;
    bench.watched().await?;
    bench.contended(8).await
}
