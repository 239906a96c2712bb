//! Collecting versions and sources: what is needed stays, whatever happens meanwhile.

mod common;

use std::sync::Arc;

use async_trait::async_trait;
use common::{NOW_MICROS, faulty_maps, maps, name, program, store};
use nacre_clock::ManualClock;
use nacre_conformance::MemoryStore;
use nacre_conformance::faults::{Fault, Operation};
use nacre_conformance::wait::within_deadline;
use nacre_object::{
    Capabilities, ErrorKind, ListPage, ListRequest, NodeName, Op, PoolName, Reply, Request, Result,
    Store,
};
use nacre_registry::limits::KEPT_SUPERSEDED;
use nacre_registry::{Change, EventItem, Maps, ProgramUpkeep, Programs, Removal};

const HOUR_MICROS: u64 = 3_600_000_000;

fn programs_at(maps: &Maps, hours: u64) -> Programs {
    let clock = Arc::new(ManualClock::at(NOW_MICROS + hours * HOUR_MICROS));
    common::programs_at(maps, clock)
}

fn source(number: u64) -> String {
    format!("return {number}\n")
}

/// Puts twenty versions of a program. Version 20 is active, and a rollback returns to version 1.
/// All other versions are superseded; the newest few of these are kept, the rest is garbage.
async fn put_twenty(programs: &Programs) {
    let id = program("route/r");
    for number in 1..=20 {
        assert_eq!(programs.put(&id, &source(number)).await.unwrap(), number);
    }
    programs.activate(&id, 1).await.unwrap();
    programs.activate(&id, 20).await.unwrap();
}

/// A store with them, its maps, and its programs two hours later.
async fn two_hours_after_twenty() -> (MemoryStore, Maps, Programs) {
    let store = store();
    let maps = maps(&store);
    put_twenty(&programs_at(&maps, 0)).await;
    let later = programs_at(&maps, 2);
    (store, maps, later)
}

const KEPT: u64 = 2 + KEPT_SUPERSEDED as u64;

async fn stored(store: &MemoryStore) -> usize {
    let prefix = "program/".to_owned();
    let request = ListRequest { pool: PoolName::system(), after: None, prefix, limit: 100 };
    store.list(request).await.unwrap().names.len()
}

/// Every version that a record names can be shown.
async fn is_whole(programs: &Programs) {
    for info in programs.list(None).await.unwrap() {
        for version in &info.versions {
            programs.show(&info.id, Some(version.version)).await.unwrap();
        }
    }
}

#[tokio::test]
async fn a_collection_removes_superseded_versions_and_unnamed_sources_only() {
    let (store, _, later) = two_hours_after_twenty().await;
    // The same source under another name, and one of a program that is gone.
    later.put(&program("route/same"), &source(2)).await.unwrap();
    let gone = program("route/gone");
    later.put(&gone, "return 'gone'\n").await.unwrap();
    later.remove(&gone, None, Removal::UnlessActive).await.unwrap();

    let foreseen = later.garbage().await.unwrap();
    assert_eq!(stored(&store).await, 21, "nothing was changed");
    assert_eq!(foreseen.versions.len() as u64, 20 - KEPT);
    // One of the superseded is named by the other program.
    assert_eq!(foreseen.sources.len() as u64, 20 - KEPT - 1 + 1);
    assert_eq!(later.collect().await.unwrap(), foreseen);
    assert_eq!(stored(&store).await as u64, KEPT + 1);
    is_whole(&later).await;
    assert_eq!(later.rollback(&program("route/r")).await.unwrap(), 1);
    let nothing = later.collect().await.unwrap();
    assert!(nothing.versions.is_empty() && nothing.sources.is_empty());
}

/// This build may meet records that it cannot read: a newer build of nacre wrote them, or any
/// entity that may write the program.
#[tokio::test]
async fn an_unreadable_record_hides_no_other_and_its_sources_stay() {
    let (store, maps, later) = two_hours_after_twenty().await;
    let odd = program("route/odd");
    later.put(&odd, "return 'odd'\n").await.unwrap();
    let digest = later.show(&odd, None).await.unwrap().digest;
    let unreadable = format!("{{\"format\": 2, \"sources\": [\"{digest}\"]}}");
    maps.apply(&name("programs"), vec![Change::set(odd.to_string(), unreadable)]).await.unwrap();
    maps.apply(&name("programs"), vec![Change::set("no program", "x")]).await.unwrap();

    let listed: Vec<_> = later.list(None).await.unwrap().into_iter().map(|info| info.id).collect();
    assert_eq!(listed, [program("route/r")]);
    assert_eq!(later.get(&odd).await.unwrap_err().kind(), ErrorKind::Corrupt);
    let collected = later.collect().await.unwrap();
    assert_eq!(collected.sources.len() as u64, 20 - KEPT);
    assert_eq!(stored(&store).await as u64, KEPT + 1, "what it names stays");
}

#[tokio::test]
async fn a_source_that_may_belong_to_an_unfinished_put_is_kept() {
    let store = store();
    let maps = maps(&store);
    let now = programs_at(&maps, 0);
    put_twenty(&now).await;
    let collected = now.collect().await.unwrap();
    assert_eq!(collected.versions.len() as u64, 20 - KEPT);
    assert!(collected.sources.is_empty(), "they are young");
    assert_eq!(stored(&store).await, 20);
    assert_eq!(programs_at(&maps, 2).collect().await.unwrap().sources.len() as u64, 20 - KEPT);
}

#[tokio::test(start_paused = true)]
async fn a_crash_of_a_collection_loses_nothing_and_the_next_one_finishes() {
    let mut steps = 0;
    for lost_at in 0.. {
        let store = store();
        let whole = maps(&store);
        put_twenty(&programs_at(&whole, 0)).await;
        // From some request on none is answered, and the first of these is done or not.
        let mut number = 0;
        let plan = move |_: Operation<'_>| {
            number += 1;
            let fault = if number % 2 == 0 { Fault::FailBefore } else { Fault::FailAfter };
            (number > lost_at).then_some(fault)
        };
        let (faulty, _) = faulty_maps(&store, Box::new(plan));
        let ended = programs_at(&faulty, 2).collect().await.is_ok();
        let later = programs_at(&whole, 2);
        is_whole(&later).await;
        later.collect().await.unwrap();
        is_whole(&later).await;
        assert_eq!(stored(&store).await as u64, KEPT, "lost at {lost_at}");
        if ended {
            break;
        }
        steps += 1;
    }
    assert!(steps > 20, "only {steps} requests were made");
}

/// A store that puts each source again just before it is removed.
#[derive(Debug)]
struct PutMeanwhile(MemoryStore);

#[async_trait]
impl Store for PutMeanwhile {
    async fn submit(&self, request: Request) -> Result<Reply> {
        if request.ops.contains(&Op::Remove) {
            let read = Op::Read { offset: 0, length: 100 };
            let read = Request::new(request.header.object.clone(), vec![read])?;
            let reply = self.0.submit(read).await?;
            let [nacre_object::OpResult::Data(data)] = &reply.results[..] else {
                panic!("a read is answered with data")
            };
            let again = Op::WriteFull { data: data.clone() };
            self.0.submit(Request::new(request.header.object.clone(), vec![again])?).await?;
        }
        self.0.submit(request).await
    }

    async fn list(&self, request: ListRequest) -> Result<ListPage> {
        self.0.list(request).await
    }

    fn capabilities(&self) -> Capabilities {
        self.0.capabilities()
    }
}

#[tokio::test]
async fn a_source_that_is_put_again_during_a_collection_is_kept() {
    let store = store();
    let whole = maps(&store);
    put_twenty(&programs_at(&whole, 0)).await;
    let meanwhile = Maps::new(Arc::new(PutMeanwhile(store.clone())), Arc::new(store.clone()));
    let collected = programs_at(&meanwhile, 2).collect().await.unwrap();
    assert!(collected.sources.is_empty());
    assert_eq!(stored(&store).await, 20);
}

#[tokio::test(start_paused = true)]
async fn a_node_collects_garbage_by_itself_and_reports_it() {
    let store = store();
    let maps = maps(&store);
    put_twenty(&programs_at(&maps, 0)).await;
    let mut events = maps.events().follow(2);
    let node = NodeName::new("meta.0").unwrap();
    let _upkeep = ProgramUpkeep::start(programs_at(&maps, 2), node.clone());
    let EventItem::Event(event) =
        within_deadline("what is told next", events.next()).await.unwrap()
    else {
        panic!("none is missed")
    };
    assert_eq!(event.node, Some(node));
    assert_eq!(event.text, format!("{} superseded versions of programs removed", 20 - KEPT));
    assert_eq!(event.fields["sources"], (20 - KEPT).to_string());
    assert_eq!(stored(&store).await as u64, KEPT);
    is_whole(&programs_at(&maps, 2)).await;
}
