//! Tests that a running class changes its layout while clients use its objects. All answers equal
//! those of a model, although layout tasks (which move the objects) die and some changes are rolled
//! back midway.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nacre::{ErrorKind, EventItem, Object, ProgramId, Striped};
use nacre_brados::{LAYOUT_KEY, LayoutSignatures, Value, Whereabouts, compile};
use nacre_calls::{decode_reply, encode_request};
use nacre_clock::{Random, SystemClock};
use nacre_conformance::seeds;
use nacre_conformance::wait::{eventually, within_deadline};
use nacre_node::{LayoutChange, LayoutTask, Layouts, LocalCluster, Phase};
use tempfile::TempDir;

/// Three tables: `kv` may use any layout, `names` is in the object's map in every layout, and
/// `last` has a single row.
const PROGRAM: &str = "state do
  table :kv, [:at:int] => [:value:bytes]
  table :names, [:value:bytes, :at:int]
  table :last, [] => [:at:int]
  interface input, :put, [:at:int, :value:bytes]
  interface input, :drop, [:at:int]
  interface input, :get, [:at:int]
  interface output, :found, [:at:int] => [:value:bytes]
  interface output, :named, [:value:bytes, :at:int]
end
bloom do
  kv <+- put
  names <+- put{|p| [p.value, p.at]}
  names <- (put * kv).pairs(:at => :at){|p, k| [k.value, k.at] if k.value != p.value}
  last <+- put{|p| [p.at]}
  names <- (drop * kv).rights(:at => :at){|k| [k.value, k.at]}
  kv <- (drop * kv).rights(:at => :at)
  temp :hit <= (get * kv).rights(:at => :at)
  found <= hit
  named <= (hit * names).rights(:value => :value, :at => :at)
end
";
const CLASS: &str = "kv";
const OBJECTS: usize = 12;
const CLIENTS: u64 = 3;
/// Number of keys of each client in each object. There are so many that moving some objects takes
/// several steps.
const KEYS: u64 = 300;
const LAYOUTS: [&str; 5] = [
    "kv: slots(64), header: attribute",
    "kv: appended(stream)",
    "kv: appended(map), header: attribute",
    "kv: slots(32)",
    "header: attribute",
];

/// A client and the values that its keys must hold. No other client changes these keys.
struct Client {
    objects: Vec<Object>,
    first: i64,
    model: BTreeMap<(usize, i64), Vec<u8>>,
    random: Random,
    requests: u64,
}

impl Client {
    fn new(objects: Vec<Object>, number: u64, seed: u64) -> Self {
        let first = (number * KEYS) as i64;
        let random = Random::seeded(seed * CLIENTS + number);
        Self { objects, first, model: BTreeMap::new(), random, requests: 0 }
    }

    async fn call(
        &self,
        object: usize,
        method: &str,
        row: &[Value],
    ) -> Vec<nacre_calls::OutputRows> {
        let called = self.objects[object].call(CLASS, method, encode_request(row)).await;
        decode_reply(&called.unwrap_or_else(|error| panic!("{method} {row:?}: {error}")).output)
            .unwrap()
    }

    async fn request(&mut self) {
        let object = self.random.below(OBJECTS as u64) as usize;
        // The first objects are fuller than the others.
        let keys = if object < 2 { KEYS } else { 10 };
        let at = self.first + self.random.below(keys) as i64;
        self.requests += 1;
        match self.random.below(5) {
            0 | 1 => {
                let length = self.random.below(50) as usize;
                let value = vec![b'a' + self.random.below(26) as u8; length];
                self.call(object, "put", &[Value::Int(at), Value::Bytes(value.clone())]).await;
                self.model.insert((object, at), value);
            }
            2 => {
                self.call(object, "drop", &[Value::Int(at)]).await;
                self.model.remove(&(object, at));
            }
            _ => self.check(object, at).await,
        }
    }

    async fn check(&self, object: usize, at: i64) {
        let got = self.call(object, "get", &[Value::Int(at)]).await;
        let expected = self.model.get(&(object, at)).map_or(vec![], |value| {
            let (at, value) = (Value::Int(at), Value::Bytes(value.clone()));
            let (found, named) = (vec![at.clone(), value.clone()], vec![value, at]);
            vec![("found".to_owned(), vec![found]), ("named".to_owned(), vec![named])]
        });
        assert_eq!(got, expected, "object {object}, key {at}");
    }

    async fn check_all(&self) {
        for object in 0..OBJECTS {
            let keys = if object < 2 { KEYS } else { 10 };
            for at in 0..keys as i64 {
                self.check(object, self.first + at).await;
            }
        }
    }
}

struct World {
    cluster: LocalCluster,
    program: ProgramId,
    random: Random,
    incarnation: u64,
    objects: Vec<Object>,
    _folder: TempDir,
}

impl World {
    async fn new(seed: u64) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let cluster = LocalCluster::embedded(folder.path().join("cluster")).await.unwrap();
        let program: ProgramId = format!("class/{CLASS}").parse().unwrap();
        let version = cluster.programs().put(&program, PROGRAM).await.unwrap();
        cluster.programs().activate(&program, version).await.unwrap();
        let pool = cluster.pool("data").await.unwrap();
        let objects = (0..OBJECTS).map(|at| pool.object(&format!("o{at}")).unwrap()).collect();
        // An object of another class must stay as it is.
        pool.object("other").unwrap().map_set(LAYOUT_KEY, "b0123456789abcdef").await.unwrap();
        let random = Random::seeded(seed);
        Self { cluster, program, random, incarnation: 0, objects, _folder: folder }
    }

    fn layouts(&self) -> Layouts {
        Layouts::of(&self.cluster)
    }

    fn layout_task(&mut self) -> LayoutTask {
        self.incarnation += 1;
        let (node, clock) = ("layout-task".parse().unwrap(), Arc::new(SystemClock::default()));
        LayoutTask::start(self.layouts(), node, self.incarnation, clock)
    }

    /// Runs layout tasks one after another, and kills each, until the change is done. Returns how
    /// many tasks were killed.
    async fn keep(&mut self, is_rolled_back: bool) -> u64 {
        let mut rollback = is_rolled_back;
        for killed in 0.. {
            let task = self.layout_task();
            let life = Duration::from_millis(5 + self.random.below(200));
            tokio::time::sleep(life).await;
            drop(task);
            let known = self.layouts().get(&CLASS.parse().unwrap()).await.unwrap();
            let active = self.cluster.programs().active(&self.program).await.unwrap();
            if known.change.is_none() && (known.last.is_none() || known.settled == active) {
                return killed;
            }
            assert!(killed < 500, "it comes to no end: {known:?}");
            let is_walking = |change: LayoutChange| matches!(change.phase, Phase::Walk(_));
            if rollback && known.change.is_some_and(is_walking) {
                self.cluster.programs().rollback(&self.program).await.unwrap();
                rollback = false;
            }
        }
        unreachable!("it was returned from the loop")
    }

    /// Checks that the active version has this layout, and that all objects are in it.
    async fn check_settled(&self, layout: &str) {
        let active = self.cluster.programs().active(&self.program).await.unwrap();
        let source = self.cluster.programs().show(&self.program, active).await.unwrap().source;
        let compiled = compile(&source).unwrap();
        assert_eq!(compiled.analysis.program.layout().to_string(), layout);
        let marks = LayoutSignatures::of(&compiled);
        for object in &self.objects {
            let entry = object.map_get(LAYOUT_KEY).await.unwrap().unwrap();
            assert_eq!(marks.whereabouts(&entry), Whereabouts::Settled, "{}", object.id());
        }
    }
}

async fn used(mut client: Client, is_over: Arc<AtomicBool>) -> Client {
    while !is_over.load(Ordering::Relaxed) {
        client.request().await;
    }
    client
}

/// Changes layouts three times. Returns how many changes were rolled back.
async fn run(seed: u64) -> usize {
    let mut world = World::new(seed).await;
    let clients = (0..CLIENTS).map(|number| Client::new(world.objects.clone(), number, seed));
    let is_over = Arc::new(AtomicBool::new(false));
    let using: Vec<_> =
        clients.map(|client| tokio::spawn(used(client, Arc::clone(&is_over)))).collect();
    let (mut now, mut killed, mut rolled_back) = ("map".to_owned(), 0, 0);
    for turn in 0..3 {
        let layout = world.random.pick(&LAYOUTS).unwrap().parse::<nacre_brados::Layout>().unwrap();
        let layout = layout.to_string();
        if layout == now {
            continue;
        }
        let class = CLASS.parse().unwrap();
        let begun = world.layouts().adopt(&class, &layout).await;
        let begun = begun.unwrap_or_else(|error| panic!("{now} to {layout}: {error}"));
        let again = world.layouts().adopt(&class, &now).await.unwrap_err();
        assert_eq!(again.kind(), ErrorKind::Conflict, "one change at a time");
        let is_rolled_back = (turn + seed) % 3 == 1;
        killed += world.keep(is_rolled_back).await;
        let was_rolled_back =
            world.cluster.programs().active(&world.program).await.unwrap() == Some(begun.bridge);
        assert!(is_rolled_back || !was_rolled_back);
        rolled_back += usize::from(was_rolled_back);
        now = if was_rolled_back { begun.former.clone() } else { begun.layout };
        world.check_settled(&now).await;
        // A finished change can be rolled back as well.
        if !was_rolled_back && (turn + seed).is_multiple_of(2) {
            world.cluster.programs().rollback(&world.program).await.unwrap();
            killed += world.keep(false).await;
            now = begun.former;
            world.check_settled(&now).await;
        }
    }
    is_over.store(true, Ordering::Relaxed);
    let mut requests = 0;
    for client in using {
        let client = client.await.unwrap();
        client.check_all().await;
        requests += client.requests;
    }
    println!("seed {seed}: {requests} requests, {killed} layout tasks killed, at last in {now}");
    let other = world.cluster.pool("data").await.unwrap().object("other").unwrap();
    assert_eq!(other.map_get(LAYOUT_KEY).await.unwrap().unwrap(), "b0123456789abcdef");
    rolled_back
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_class_changes_its_layout_under_load_although_layout_tasks_die_and_it_is_rolled_back() {
    let (mut rolled_back, seeds) = (0, seeds(3).collect::<Vec<_>>());
    for seed in &seeds {
        rolled_back += run(*seed).await;
    }
    assert!(rolled_back > 0 || seeds.len() == 1, "it was never rolled back midway");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_impossible_layout_is_refused_and_an_overtaken_change_is_given_up() {
    let mut world = World::new(0).await;
    let (layouts, class) = (world.layouts(), CLASS.parse().unwrap());
    let adopt = async |layout: &str| layouts.adopt(&class, layout).await;
    for (layout, kind) in [
        ("map", ErrorKind::Invalid),
        ("names: slots(64)", ErrorKind::Invalid),
        ("kv: heap", ErrorKind::Invalid),
    ] {
        assert_eq!(adopt(layout).await.unwrap_err().kind(), kind, "{layout}");
    }
    let absent = layouts.adopt(&"absent".parse().unwrap(), "map").await.unwrap_err();
    assert_eq!(absent.kind(), ErrorKind::NotFound);
    let programs = world.cluster.programs();
    let twin: ProgramId = "class/twin".parse().unwrap();
    let version = programs.put(&twin, PROGRAM).await.unwrap();
    programs.activate(&twin, version).await.unwrap();
    assert_eq!(adopt("kv: slots(64)").await.unwrap_err().kind(), ErrorKind::Conflict, "a twin");
    programs.remove(&twin, None, nacre::Removal::EvenIfActive).await.unwrap();

    adopt("kv: slots(64)").await.unwrap();
    let version = programs.put(&world.program, &format!("{PROGRAM}# mine\n")).await.unwrap();
    programs.activate(&world.program, version).await.unwrap();
    world.keep(false).await;
    assert_eq!(world.cluster.programs().active(&world.program).await.unwrap(), Some(version));
    let events = world.cluster.events().recent(5).await.unwrap();
    assert!(
        events.iter().any(|event| event.text.contains("not brought into another layout any more"))
    );
}

/// An object that could not be moved stays readable in its former layout. The versions of the next
/// change can read that layout, too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_former_layout_is_kept_while_an_object_cannot_be_moved_out_of_it() {
    const END: &str = "is in layout kv: slots(64), but for 1 objects";
    let mut world = World::new(0).await;
    let (layouts, class) = (world.layouts(), CLASS.parse().unwrap());
    let client = Client::new(world.objects.clone(), 0, 0);
    for object in 0..OBJECTS {
        client.call(object, "put", &[Value::Int(1), Value::Bytes(b"one".to_vec())]).await;
    }
    // A row without its key.
    world.objects[0].map_set("kv.", "one").await.unwrap();
    layouts.adopt(&class, "kv: slots(64)").await.unwrap();
    let task = world.layout_task();
    let mut told = world.cluster.events().follow(0);
    let is_end = |item| matches!(item, EventItem::Event(event) if event.text.contains(END));
    let until_end = async { while !is_end(told.next().await.unwrap()) {} };
    within_deadline("the event of the change's end", until_end).await;
    drop(task);
    let known = layouts.get(&class).await.unwrap();
    assert!(known.change.is_none() && known.last.is_some(), "{known:?}");
    assert_eq!(known.settled, None);

    let next = layouts.adopt(&class, "kv: appended(stream)").await.unwrap();
    let source = world.cluster.programs().show(&world.program, Some(next.target)).await.unwrap();
    let compiled = compile(&source.source).unwrap();
    let former: Vec<_> =
        compiled.analysis.program.former_layouts().map(ToString::to_string).collect();
    assert!(former.contains(&"map".to_owned()), "{former:?}");
}

/// The striped object is used by a handle that was opened before. The test needs no node.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_striped_object_stays_usable_while_its_stripes_change_layout() {
    const SHARES: &str = "state do
  table :share, [:at:int] => [:value:bytes]
  interface input, :put, [:at:int, :value:bytes]
  interface input, :get, [:at:int]
  interface output, :found, [:value:bytes]
end
bloom do
  share <+- put
  found <= (get * share).rights(:at => :at){|s| [s.value]}
end
layout stripes: 4
";
    let folder = tempfile::tempdir().unwrap();
    let cluster = LocalCluster::embedded(folder.path().join("cluster")).await.unwrap();
    let (class, program) = ("shares".parse().unwrap(), "class/shares".parse().unwrap());
    let version = cluster.programs().put(&program, SHARES).await.unwrap();
    cluster.programs().activate(&program, version).await.unwrap();
    let object = "data/o".parse().unwrap();
    let striped = Striped::open(&cluster, &object, &class).await.unwrap().unwrap();
    let row = |at: i64| [Value::Int(at), Value::text(&format!("value {at}"))];
    for at in 0..20 {
        striped.call("put", &row(at)).await.unwrap();
    }
    assert_eq!(cluster.calls_seen()["shares"].methods["put"].requests, 20);
    let task = cluster.keep_layouts();
    Layouts::of(&cluster).adopt(&class, "share: slots(64)").await.unwrap();
    while Layouts::of(&cluster).get(&class).await.unwrap().change.is_some() {
        for at in 0..20 {
            let found = striped.call("get", &row(at)[..1]).await.unwrap().outputs;
            assert_eq!(found, [("found".to_owned(), vec![row(at)[1..].to_vec()])]);
        }
    }
    drop(task);
    let stripe = cluster.object(&"data/o.1".parse().unwrap()).await.unwrap();
    assert!(stripe.stat().await.unwrap().size > 0, "its rows are in slots");
    for at in 0..20 {
        striped.call("put", &row(at)).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_stripe_runs_a_request_once_while_versions_change() {
    const COUNTS: &str = "state do
  table :counter, [:at:int] => [:n:int]
  interface input, :open, [:at:int]
  interface input, :bump, [:by:int]
  interface input, :get, [:at:int]
  interface output, :found, [:n:int]
end
bloom do
  counter <+ open{|o| [o.at, 0]}
  counter <+- (bump * counter).pairs{|b, c| [c.at, c.n + b.by]}
  found <= (get * counter).rights(:at => :at){|c| [c.n]}
end
layout stripes: 8
";
    const CALLS: i64 = 200;
    let folder = tempfile::tempdir().unwrap();
    let cluster = LocalCluster::embedded(folder.path().join("cluster")).await.unwrap();
    let (class, program): (_, ProgramId) =
        ("counts".parse().unwrap(), "class/counts".parse().unwrap());
    let activate = async |version: usize| {
        let source = format!("{COUNTS}# {version}\n");
        let version = cluster.programs().put(&program, &source).await.unwrap();
        cluster.programs().activate(&program, version).await.unwrap();
    };
    activate(0).await;
    let object = "data/o".parse().unwrap();
    let striped = Striped::open(&cluster, &object, &class).await.unwrap().unwrap();
    let rows = 0..32;
    for at in rows.clone() {
        striped.call("open", &[Value::Int(at)]).await.unwrap();
    }
    let bumps = async {
        for _ in 0..CALLS {
            striped.call("bump", &[Value::Int(1)]).await.unwrap();
        }
    };
    let mut bumps = std::pin::pin!(bumps);
    for version in 1.. {
        tokio::select! {
            () = &mut bumps => break,
            () = activate(version) => {}
        }
    }
    for at in rows {
        let found = striped.call("get", &[Value::Int(at)]).await.unwrap().outputs;
        assert_eq!(found, [("found".to_owned(), vec![vec![Value::Int(CALLS)]])], "row {at}");
    }
}

/// Objects that another version made meanwhile may be in any layout.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn objects_that_another_version_made_during_a_change_are_moved_too() {
    let folder = tempfile::tempdir().unwrap();
    let cluster = LocalCluster::embedded(folder.path().join("cluster")).await.unwrap();
    let (class, program): (_, ProgramId) = (CLASS.parse().unwrap(), "class/kv".parse().unwrap());
    let activate = async |source: &str| {
        let version = cluster.programs().put(&program, source).await.unwrap();
        cluster.programs().activate(&program, version).await.unwrap();
    };
    activate(PROGRAM).await;
    let _task = cluster.keep_layouts();
    let adopted = async |layout: &str| {
        // The objects may be on their way already.
        while let Err(error) = Layouts::of(&cluster).adopt(&class, layout).await {
            assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        eventually("the change of the layout has ended", async || {
            Layouts::of(&cluster).get(&class).await.unwrap().change.is_none()
        })
        .await;
    };
    let call = async |object: &str, method: &str, row: &[Value]| {
        let object = cluster.object(&object.parse().unwrap()).await.unwrap();
        object.call(CLASS, method, encode_request(row)).await
    };
    adopted("kv: slots(64)").await;
    activate(&format!("{PROGRAM}# mended\n")).await;
    let row = [Value::Int(1), Value::text("made meanwhile")];
    call("data/new", "put", &row).await.unwrap();
    cluster.programs().rollback(&program).await.unwrap();
    adopted("kv: appended(stream)").await;
    let reply = call("data/new", "get", &row[..1]).await.unwrap();
    let found = decode_reply(&reply.output).unwrap();
    assert_eq!(
        nacre_brados::shown_reply(&found),
        "found(1, 'made meanwhile') named('made meanwhile', 1)"
    );
}
