//! A class whose layout changes while clients use it, and a model that predicts the correct
//! answers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use nacre::{CallReply, Cluster, ErrorKind, Object};
use nacre_brados::{LAYOUT_KEY, LayoutSignatures, Value, Whereabouts, compile};
use nacre_calls::{decode_reply, encode_request};
use nacre_clock::Random;
use nacre_conformance::wait::within_deadline;
use nacre_node::{ClassLayout, Layouts};

pub const PROGRAM: &str = "state do
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
pub const KEYS: u64 = 4;
pub const VALUE_BYTES: usize = 500;
/// The longest wait of a test. A wait usually takes some seconds, and several times as long on a
/// busy machine.
pub const PATIENCE: Duration = Duration::from_secs(240);
pub const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// What clients are to do.
#[derive(Debug, Default)]
pub struct Orders {
    /// Of eight requests, so many only look.
    pub gets: AtomicU64,
    pub is_over: AtomicBool,
}

/// A client whose objects nobody else changes, and what they must hold.
pub struct Client {
    objects: Vec<Object>,
    model: BTreeMap<(usize, i64), Vec<u8>>,
    random: Random,
}

/// Starts `count` clients, and divides the objects among them. Each client uses its objects until
/// [`Orders::is_over`] is set.
pub fn clients(objects: &[Object], count: usize, orders: &Arc<Orders>) -> Vec<Running> {
    let start = |(number, objects): (usize, &[Object])| {
        let random = Random::seeded(number as u64);
        let client = Client { objects: objects.to_vec(), model: BTreeMap::new(), random };
        tokio::spawn(client.use_until_over(Arc::clone(orders)))
    };
    objects.chunks(objects.len().div_ceil(count)).enumerate().map(start).collect()
}

/// A client at work.
pub type Running = tokio::task::JoinHandle<()>;

impl Client {
    /// A request is repeated until it is answered: a node may be away.
    async fn call(&self, object: usize, method: &str, row: &[Value]) -> CallReply {
        let answered = async {
            loop {
                match self.objects[object].call("kv", method, encode_request(row)).await {
                    Ok(reply) => return reply,
                    Err(error) if error.kind() == ErrorKind::Unavailable => {
                        tokio::time::sleep(LOOK_AGAIN).await;
                    }
                    Err(error) => panic!("{method} {row:?}: {error}"),
                }
            }
        };
        within_deadline("the object answers", answered).await
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

    async fn use_until_over(mut self, orders: Arc<Orders>) {
        for object in 0..self.objects.len() {
            self.put(object, 0).await;
        }
        while !orders.is_over.load(Ordering::Relaxed) {
            let object = self.random.below(self.objects.len() as u64) as usize;
            let at = self.random.below(KEYS) as i64;
            match self.random.below(8) < orders.gets.load(Ordering::Relaxed) {
                true => self.check(object, at).await,
                false => self.put(object, at).await,
            }
        }
        for object in 0..self.objects.len() {
            for at in 0..KEYS as i64 {
                self.check(object, at).await;
            }
        }
    }
}

/// Ends the clients. Each one checks all of its objects a last time.
pub async fn end(clients: Vec<Running>, orders: &Orders) {
    orders.is_over.store(true, Ordering::Relaxed);
    for client in clients {
        client.await.unwrap();
    }
}

/// Waits until the record of the class's layout satisfies `is_so`, and returns it.
pub async fn layout_when(
    cluster: &Cluster,
    what: &str,
    is_so: impl Fn(&ClassLayout) -> bool,
) -> ClassLayout {
    let mut last = None;
    let waiting = async {
        loop {
            // The node that keeps the record may be away.
            if let Ok(layout) = Layouts::of(cluster).get(&"kv".parse().unwrap()).await {
                if is_so(&layout) {
                    return layout;
                }
                last = Some(layout);
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    };
    match tokio::time::timeout(PATIENCE, waiting).await {
        Ok(layout) => layout,
        Err(_) => {
            let events = cluster.events().recent(20).await;
            panic!("{what}: {last:?}; {events:#?}");
        }
    }
}

/// Whether objects are being moved.
pub fn is_walking(layout: &ClassLayout) -> bool {
    let change = layout.change.as_ref();
    change.is_some_and(
        |change| matches!(&change.phase, nacre_node::Phase::Walk(walk) if walk.moved > 0),
    )
}

/// The program that is active.
pub async fn source(cluster: &Cluster) -> String {
    cluster.programs().show(&"class/kv".parse().unwrap(), None).await.unwrap().source
}

/// Whether every object is in the layout of the active version, without remains of another layout.
pub async fn is_settled(cluster: &Cluster, objects: &[Object]) -> bool {
    let compiled = compile(&source(cluster).await).unwrap();
    let (marks, layout) =
        (LayoutSignatures::of(&compiled), compiled.analysis.program.layout().to_string());
    for object in objects {
        let entry = object.map_get(LAYOUT_KEY).await.unwrap().unwrap();
        if marks.whereabouts(&entry) != Whereabouts::Settled {
            return false;
        }
        let entries = object.map_range("", "", 100).await.unwrap().entries;
        let is_in_map = entries.iter().any(|entry| entry.value.len() >= VALUE_BYTES);
        let is_in_stream = object.stat().await.unwrap().size > 0;
        let is_to_be_in_stream = layout.contains("kv: ");
        assert!(is_in_map != is_to_be_in_stream, "{} in {layout}", object.id());
        assert!(is_in_stream == is_to_be_in_stream, "{} in {layout}", object.id());
    }
    true
}

/// The node that is changing layouts.
pub async fn keeper(cluster: &Cluster) -> String {
    let (_, entry) = cluster.maps().entry(&"layouts".parse().unwrap(), "@keeper").await.unwrap();
    let entry: serde_json::Value = serde_json::from_slice(&entry.unwrap()).unwrap();
    entry["keeper"]["node"].as_str().unwrap().to_owned()
}
