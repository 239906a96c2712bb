//! A class of a real cluster gets another layout when that is better for what it is asked: proposed, adopted
//! with a node killed meanwhile, and by itself; its clients' answers are right throughout.

mod common;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nacre::{CallReply, ClassLayout, Cluster, ErrorKind, Object};
use nacre_brados::{LAYOUT_KEY, Marks, Value, Whereabouts, compile, decode_reply, encode_request};
use nacre_clock::Random;
use nacre_tuner::{Access, Fingerprint, Profile};
use serde_json::json;

use common::RunningCluster;

const PROGRAM: &str = "state do
  table :kv, [:at:int] => [:value:bytes]
  interface input, :put, [:at:int, :value:bytes]
  interface input, :get, [:at:int]
  interface output, :found, [:value:bytes]
end
bloom do
  kv <+- put
  found <= (get * kv).rights(:at => :at){|k| [k.value]}
end
";
/// So many that moving them takes a second or two, in which a node is killed.
const OBJECTS: usize = 300;
const KEYS: u64 = 4;
const VALUE_BYTES: usize = 500;
/// Whatever is waited for comes in seconds; a loaded machine takes some times as long.
const PATIENCE: Duration = Duration::from_secs(120);
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// The profile of an engine like the nodes', where map entries take a hundred times what the byte stream
/// takes: which layout is best does not hang on this machine's disk.
fn profile(engine: Fingerprint) -> Profile {
    let added = |access: Access| {
        let is_map = matches!(
            access,
            Access::MapGet | Access::MapSet | Access::MapRange | Access::MapRemove
        );
        let seconds = if is_map { 1e-2 } else { 1e-4 };
        json!([{ "bytes": 16, "seconds": seconds }])
    };
    let names: BTreeMap<String, serde_json::Value> = Access::ALL
        .into_iter()
        .map(|access| (json!(access).as_str().unwrap().to_owned(), added(access)))
        .collect();
    let depth = |depth: u32| json!({ "depth": depth, "read_seconds": 1e-4, "write_seconds": 1e-3, "added": names });
    let profile = json!({ "format": 1, "engine": engine, "depths": [depth(1), depth(32)] });
    Profile::from_json(&profile.to_string()).unwrap()
}

/// A client whose objects nobody else changes, and what they must hold.
struct Client {
    objects: Vec<Object>,
    model: BTreeMap<(usize, i64), Vec<u8>>,
    random: Random,
}

impl Client {
    /// A request is repeated until it is answered: a node may be away.
    async fn call(&self, object: usize, method: &str, row: &[Value]) -> CallReply {
        loop {
            match self.objects[object].call("kv", method, encode_request(row)).await {
                Ok(reply) => return reply,
                Err(error) if error.kind() == ErrorKind::Unavailable => {
                    tokio::time::sleep(LOOK_AGAIN).await;
                }
                Err(error) => panic!("{method} {row:?}: {error}"),
            }
        }
    }

    async fn put(&mut self, object: usize, at: i64) {
        let value = vec![b'a' + self.random.below(26) as u8; VALUE_BYTES];
        self.call(object, "put", &[Value::Int(at), Value::Bytes(value.clone())]).await;
        self.model.insert((object, at), value);
    }

    async fn check(&self, object: usize, at: i64) {
        let reply = self.call(object, "get", &[Value::Int(at)]).await;
        let found = decode_reply(&reply.output).unwrap();
        let expected = self.model.get(&(object, at)).map(|value| vec![Value::Bytes(value.clone())]);
        let expected: Vec<_> =
            expected.into_iter().map(|row| ("found".to_owned(), vec![row])).collect();
        assert!(found == expected, "{}, key {at}", self.objects[object].id());
    }

    async fn use_until(mut self, is_over: Arc<AtomicBool>) -> Self {
        for object in 0..self.objects.len() {
            self.put(object, 0).await;
        }
        while !is_over.load(Ordering::Relaxed) {
            let object = self.random.below(self.objects.len() as u64) as usize;
            let at = self.random.below(KEYS) as i64;
            match self.random.one_in(3) {
                true => self.put(object, at).await,
                false => self.check(object, at).await,
            }
        }
        for object in 0..self.objects.len() {
            for at in 0..KEYS as i64 {
                self.check(object, at).await;
            }
        }
        self
    }
}

/// What is recorded of the class, once it is as it should be.
async fn layout_when(
    cluster: &Cluster,
    what: &str,
    is_so: impl Fn(&ClassLayout) -> bool,
) -> ClassLayout {
    let mut last = None;
    let waiting = async {
        loop {
            // The node that keeps it may be away.
            if let Ok(layout) = cluster.layouts().get(&"kv".parse().unwrap()).await {
                if is_so(&layout) {
                    return layout;
                }
                last = Some(layout);
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    };
    let waited = tokio::time::timeout(PATIENCE, waiting).await;
    waited.unwrap_or_else(|_| panic!("{what}: {last:?}"))
}

async fn source(cluster: &Cluster) -> String {
    cluster.programs().show(&"class/kv".parse().unwrap(), None).await.unwrap().source
}

async fn is_settled(cluster: &Cluster, objects: &[Object]) -> bool {
    let marks = Marks::of(&compile(&source(cluster).await).unwrap());
    for object in objects {
        let entry = object.map_get(LAYOUT_KEY).await.unwrap().unwrap();
        if marks.whereabouts(&entry) != Whereabouts::Settled {
            return false;
        }
    }
    true
}

/// The node that is changing layouts.
async fn keeper(cluster: &Cluster) -> String {
    let (_, entry) = cluster.maps().entry(&"layouts".parse().unwrap(), "@keeper").await.unwrap();
    let entry: serde_json::Value = serde_json::from_slice(&entry.unwrap()).unwrap();
    entry["keeper"]["node"].as_str().unwrap().to_owned()
}

/// What the class is asked is a workload to tune by.
fn tune_as_observed(running: &RunningCluster, profile: &Profile) {
    std::fs::write(running.folder().join("profile.json"), profile.to_json().unwrap()).unwrap();
    let tuned = running
        .command(&["brados", "tune", "kv.brados", "--observed", "kv", "--profile", "profile.json"])
        .args(["--rounds", "1", "--seconds", "0.05"])
        .current_dir(running.folder())
        .output()
        .unwrap();
    let (said, told) =
        (String::from_utf8_lossy(&tuned.stdout), String::from_utf8_lossy(&tuned.stderr));
    assert!(tuned.status.success() && said.contains("chosen: "), "{told}");
    assert!(told.contains("get below(4)") && told.contains("put below(4), "), "{told}");
    assert!(told.contains("assumed: "), "{told}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_better_layout_is_proposed_and_adopted_while_a_node_dies_and_found_again_by_itself() {
    let running = RunningCluster::start();
    let path = running.folder().join("kv.brados");
    std::fs::write(&path, PROGRAM).unwrap();
    running.run(&["program", "put", "class/kv", path.to_str().unwrap(), "--activate"]);
    assert!(running.run(&["brados", "proposals"]).contains("nacre brados profile --keep"));
    let cluster = Cluster::connect(running.folder()).await.unwrap();
    let engine = Fingerprint::of_folder(Path::new(running.folder())).unwrap();
    let kept = profile(engine);
    cluster.layouts().keep_profile(&kept).await.unwrap();
    let terms = ["--requests", "200", "--seconds", "1", "--rest", "1"];
    running.run(&[&["brados", "auto", "kv", "off"], &terms[..]].concat());

    let pool = cluster.pool("data").await.unwrap();
    let objects: Vec<Object> =
        (0..OBJECTS).map(|at| pool.object(&format!("o{at}")).unwrap()).collect();
    let is_over = Arc::new(AtomicBool::new(false));
    let clients: Vec<_> = objects
        .chunks(OBJECTS / 2)
        .map(|objects| {
            let random = Random::seeded(objects.len() as u64);
            let client = Client { objects: objects.to_vec(), model: BTreeMap::new(), random };
            tokio::spawn(client.use_until(Arc::clone(&is_over)))
        })
        .collect();

    let known =
        layout_when(&cluster, "proposed", |layout| layout.standing.proposal.is_some()).await;
    let layout = known.standing.proposal.unwrap().estimate.best.layout;
    assert!(layout.contains("kv: slots(") || layout.contains("kv: appended("), "{layout}");
    assert!(running.run(&["brados", "proposals"]).contains(&format!("proposed: {layout}")));
    assert!(running.run(&["status"]).contains(&format!("layout of kv: proposed: {layout}")));
    assert!(running.run(&["events"]).contains("kv had better be in layout"));
    assert_eq!(source(&cluster).await, PROGRAM, "nothing is done that was not allowed");
    tune_as_observed(&running, &kept);

    let mut adopting = running.command(&["brados", "adopt", "kv"]);
    let adopting = adopting.stderr(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    layout_when(&cluster, "moved", |layout| {
        layout.change.as_ref().is_some_and(
            |change| matches!(&change.phase, nacre::Phase::Walk(walk) if walk.moved > 0),
        )
    })
    .await;
    running.kill_node(&keeper(&cluster).await);
    layout_when(&cluster, "settled", |layout| layout.change.is_none()).await;
    // It may have been told that the node with the record is away.
    let adopted = adopting.wait_with_output().unwrap();
    println!("adopt: {}", String::from_utf8_lossy(&adopted.stderr));
    assert!(source(&cluster).await.contains(&format!("\nlayout {layout}\n")));
    assert!(is_settled(&cluster, &objects).await);

    // Brought back, with leave to do better: that is found again, and done.
    running.run(&["brados", "auto", "kv", "on"]);
    let active = |layout: &ClassLayout| layout.settled;
    let before = cluster.layouts().get(&"kv".parse().unwrap()).await.unwrap();
    running.run(&["brados", "adopt", "kv", "--layout", "map", "--no-wait"]);
    let by_itself = |layout: &ClassLayout| {
        let change = layout.change.as_ref();
        change.is_some_and(|change| change.why.contains("instead of map"))
    };
    layout_when(&cluster, "changed by itself", by_itself).await;
    let after = layout_when(&cluster, "settled again", |layout| layout.change.is_none()).await;
    assert!(active(&after) > active(&before));
    assert!(source(&cluster).await.contains(&format!("\nlayout {layout}\n")));
    assert!(is_settled(&cluster, &objects).await);
    is_over.store(true, Ordering::Relaxed);
    for client in clients {
        client.await.unwrap();
    }
}
