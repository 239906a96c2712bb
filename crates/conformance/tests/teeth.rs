//! The suite and the comparison find defects: each of these stores has one.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::{FutureExt, StreamExt};
use nacre_clock::ManualClock;
use nacre_conformance::suite::{run, suite};
use nacre_conformance::{MemoryStore, Subject, TestClasses, compare};
use nacre_object::{
    Capabilities, ListPage, ListRequest, ObjectId, Op, OpResult, Reply, Request, Result, Store,
    Watch, WatchEvent, WatchStream,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Defect {
    /// Ops are committed one by one.
    SplitsTransactions,
    /// A version guard only asks whether the object exists.
    IgnoresVersions,
    /// An append is done twice, as by a careless retry.
    AppendsTwice,
    /// A snapshot is read as the object is now.
    ReadsSnapshotsNow,
    /// Zeros written past the end extend the stream.
    ZeroExtends,
    /// A map range never has more.
    NeverMore,
    /// A range begins with `after`.
    RangesIncludeAfter,
    /// The version in a reply is the one before.
    TellsOldVersions,
    /// A page of a listing is one too long.
    ListsOneTooMany,
    /// Every tenth event goes missing, without a word.
    LosesEvents,
    /// A failed transaction leaves the object in existence.
    FailuresCreate,
    /// What was cut off comes back when the stream grows again.
    CutsComeBack,
}

#[derive(Debug)]
struct Broken {
    store: MemoryStore,
    defect: Defect,
}

impl Broken {
    fn with(defect: Defect) -> Subject {
        let store = MemoryStore::new(Arc::new(TestClasses), Arc::new(ManualClock::default()));
        Subject::watched(Arc::new(Self { store, defect }))
    }

    async fn one_by_one(&self, request: Request) -> Result<Reply> {
        let mut all = Reply { version: 0, results: vec![] };
        for op in &request.ops {
            let one = Request { header: request.header.clone(), ops: vec![op.clone()] };
            let reply = self.store.submit(one).await?;
            tokio::task::yield_now().await;
            all.version = reply.version;
            all.results.extend(reply.results);
        }
        Ok(all)
    }

    async fn size(&self, request: &Request) -> u64 {
        let stat = Request { header: request.header.clone(), ops: vec![Op::Stat] };
        match self.store.submit(stat).await.as_ref().map(|reply| &reply.results[0]) {
            Ok(OpResult::Stat(stat)) => stat.size,
            _ => 0,
        }
    }

    fn spoil(&self, op: &mut Op, size: u64) {
        match (self.defect, &mut *op) {
            (Defect::IgnoresVersions, Op::AssertVersion(_)) => *op = Op::AssertExists,
            (Defect::AppendsTwice, Op::Append { data }) => {
                *data = [&data[..], &data[..]].concat().into()
            }
            (Defect::ZeroExtends, Op::Zero { offset, length }) if *length > 0 => {
                let end = offset.saturating_add(*length).min(size + 10);
                if end > size {
                    let data = Bytes::from(vec![0; end.saturating_sub(*offset) as usize]);
                    *op = Op::Write { offset: *offset, data };
                }
            }
            (Defect::RangesIncludeAfter, Op::MapRange { after, .. }) if !after.is_empty() => {
                *after = after.slice(..after.len() - 1);
            }
            (Defect::CutsComeBack, Op::Truncate { size: to }) if *to < size => {
                *op = Op::Zero { offset: u64::MAX, length: 0 };
            }
            _ => {}
        }
    }
}

#[async_trait]
impl Store for Broken {
    async fn submit(&self, mut request: Request) -> Result<Reply> {
        let size = self.size(&request).await;
        request.ops.iter_mut().for_each(|op| self.spoil(op, size));
        match self.defect {
            Defect::SplitsTransactions => return self.one_by_one(request).await,
            Defect::ReadsSnapshotsNow if !request.ops.iter().any(Op::is_write) => {
                request.header.snapshot = None;
            }
            _ => {}
        }
        let version = self.store.submit(stat_of(&request)).await.map_or(0, |reply| reply.version);
        let header = request.header.clone();
        let mut reply = match self.store.submit(request).await {
            Err(error) if self.defect == Defect::FailuresCreate && header.snapshot.is_none() => {
                let create = Request { header, ops: vec![Op::Create { exclusive: false }] };
                self.store.submit(create).await?;
                return Err(error);
            }
            reply => reply?,
        };
        if self.defect == Defect::TellsOldVersions && version > 0 && reply.version > 0 {
            reply.version = version;
        }
        for result in &mut reply.results {
            if let (Defect::NeverMore, OpResult::Range(range)) = (self.defect, result) {
                range.more = false;
            }
        }
        Ok(reply)
    }

    async fn list(&self, mut request: ListRequest) -> Result<ListPage> {
        request.limit +=
            usize::from(self.defect == Defect::ListsOneTooMany && request.limit < 1000);
        self.store.list(request).await
    }

    fn capabilities(&self) -> Capabilities {
        self.store.capabilities()
    }
}

fn stat_of(request: &Request) -> Request {
    Request { header: request.header.clone(), ops: vec![Op::Stat] }
}

#[async_trait]
impl Watch for Broken {
    async fn watch(&self, object: &ObjectId) -> Result<WatchStream> {
        let events = self.store.watch(object).await?;
        let loses = self.defect == Defect::LosesEvents;
        let kept =
            events.enumerate().filter(move |(i, _)| std::future::ready(!loses || i % 10 != 9));
        Ok(kept.map(|(_, event): (usize, WatchEvent)| event).boxed())
    }

    async fn notify(&self, object: &ObjectId, payload: Bytes) -> Result<()> {
        self.store.notify(object, payload).await
    }
}

/// Checks fail on purpose here: what they print of it is noise.
fn silence_checks() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if panic.location().is_none_or(|at| !at.file().contains("src/suite")) {
            usual(panic);
        }
    }));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_suite_finds_every_defect() {
    silence_checks();
    let expected = [
        (Defect::SplitsTransactions, "a_failure_anywhere_leaves_nothing"),
        (Defect::SplitsTransactions, "readers_see_whole_transactions"),
        (Defect::IgnoresVersions, "version_guards"),
        (Defect::IgnoresVersions, "guarded_increments_lose_nothing"),
        (Defect::AppendsTwice, "appends_go_to_the_end"),
        (Defect::ReadsSnapshotsNow, "a_snapshot_keeps_everything_as_it_was"),
        (Defect::ZeroExtends, "gaps_cuts_and_zeroed_spans_read_as_zeros"),
        (Defect::NeverMore, "paging_visits_every_key_once"),
        (Defect::RangesIncludeAfter, "ranges_are_in_byte_order_within_their_bounds"),
        (Defect::TellsOldVersions, "every_change_has_a_version_of_its_own"),
        (Defect::ListsOneTooMany, "pages_join_without_gap_or_overlap"),
        (Defect::LosesEvents, "notifications_come_in_order"),
        (Defect::FailuresCreate, "a_failed_creation_leaves_no_object"),
        (Defect::CutsComeBack, "gaps_cuts_and_zeroed_spans_read_as_zeros"),
    ];
    for (defect, name) in expected {
        let check =
            suite().into_iter().find(|check| check.name == name).expect("there is such a check");
        let report = run(&[check], &Broken::with(defect)).await;
        assert_eq!(report.failed.len(), 1, "{defect:?} must fail {name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_comparison_finds_every_defect_that_transactions_show() {
    let visible = [
        Defect::SplitsTransactions,
        Defect::IgnoresVersions,
        Defect::AppendsTwice,
        Defect::ReadsSnapshotsNow,
        Defect::ZeroExtends,
        Defect::NeverMore,
        Defect::RangesIncludeAfter,
        Defect::TellsOldVersions,
        Defect::FailuresCreate,
        Defect::CutsComeBack,
    ];
    for defect in visible {
        let subject = Broken::with(defect);
        let compared = std::panic::AssertUnwindSafe(compare(&subject, 1, 200)).catch_unwind().await;
        let payload = compared.expect_err(&format!("{defect:?} must be found"));
        let text = payload.downcast_ref::<String>().expect("a panic with a text");
        let (_, rest) = text.split_once("seed 1 fails; ").expect("it names the seed");
        let (count, _) = rest.split_once(" steps").expect("it counts the steps");
        let count: usize = count.parse().expect("a number");
        assert!(count <= 6, "{defect:?} is not cut down: {text}");
        assert!(text.contains("NACRE_SEED=1"), "it says how to run it again");
    }
}
