//! Reads everything in a store while it is undamaged, to compare with reads after damage.

#![allow(dead_code, reason = "each test uses its part")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use bytes::Bytes;
use nacre_embedded::{Damage, EmbeddedEngine, ScrubCursor};
use nacre_object::{
    Error, ErrorKind, ListRequest, MapEntry, ObjectId, ObjectName, Op, OpResult, Request, Result,
    SnapshotName, Store,
};

use super::ledger::{Ledger, transaction};
use super::{append, object, options, read_all, submit};

const WRITERS: usize = 3;
const TRANSACTIONS: u64 = 12;
/// How many times the store is opened. Each time except the last it is also closed, which flushes
/// its memory to a table file.
const LIVES: u64 = 3;

/// Makes a store that uses every feature, and leaves it open. It has small and large streams and
/// maps, small appends, attributes, headers, holes, snapshots and clones. Its entries are in
/// several table files, and some only in the journal.
pub async fn make_store(folder: &Path) -> EmbeddedEngine {
    let mut engine = EmbeddedEngine::open(options(folder)).unwrap();
    for life in 0..LIVES {
        for n in life * TRANSACTIONS / LIVES..(life + 1) * TRANSACTIONS / LIVES {
            for writer in 0..WRITERS {
                submit(&engine, &Ledger::object(writer), transaction(n)).await.unwrap();
            }
        }
        add_some_of_everything(&engine, life).await;
        add_streams_in_heads(&engine, &format!("life-{life}")).await;
        if life + 1 < LIVES {
            engine.close();
            engine = EmbeddedEngine::open(options(folder)).unwrap();
        }
    }
    engine
}

/// Adds streams of lengths around 256 bytes, up to which a stream is stored in its object's head,
/// and appends to a clone of each.
async fn add_streams_in_heads(engine: &EmbeddedEngine, name: &str) {
    let snapshot = SnapshotName::new("s").unwrap();
    for length in [1, 256, 257] {
        let id = object(format!("{{t}}/{name}-{length}"));
        let data = Bytes::from((0..length).map(|i| i as u8).collect::<Vec<_>>());
        let write = Op::WriteFull { data };
        let take = Op::SnapshotCreate { snapshot: snapshot.clone() };
        submit(engine, &id, vec![write, take]).await.unwrap();
        let clone = Op::CloneFrom { source: id.name.clone(), snapshot: snapshot.clone() };
        let copy = object(format!("{{t}}/{name}-copy-{length}"));
        submit(engine, &copy, vec![clone, append("more")]).await.unwrap();
    }
}

async fn add_some_of_everything(engine: &EmbeddedEngine, life: u64) {
    let id = object(format!("{{t}}/all-{life}"));
    let snapshot = SnapshotName::new("s").unwrap();
    let large =
        Bytes::from((0..150_000u32).map(|i| (i * 7 + life as u32) as u8).collect::<Vec<_>>());
    let value = MapEntry { key: "large".into(), value: large.slice(..3000) };
    let before = vec![
        append(large.clone()),
        Op::SetAttribute { name: "small".into(), value: "a".into() },
        Op::SetAttribute { name: "large".into(), value: large.slice(..2000) },
        Op::MapSetHeader { value: "header".into() },
        Op::MapSet { entries: vec![value] },
        Op::SnapshotCreate { snapshot: snapshot.clone() },
    ];
    let after = vec![Op::Zero { offset: 1000, length: 100_000 }, append("tail"), append("more")];
    for op in before.into_iter().chain(after) {
        submit(engine, &id, vec![op]).await.unwrap();
    }
    let clone = Op::CloneFrom { source: id.name.clone(), snapshot };
    submit(engine, &object(format!("{{t}}/clone-{life}")), vec![clone]).await.unwrap();
}

/// The results of reads of everything in a store.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Contents(BTreeMap<Question, std::result::Result<OpResult, ErrorKind>>);

/// A read: the object, its snapshot if there is one, and the index of the op.
type Question = (String, Option<SnapshotName>, usize);

fn questions() -> [Op; 6] {
    let all = Op::MapRange { after: Bytes::new(), prefix: Bytes::new(), limit: 10_000 };
    [Op::Stat, read_all(), Op::GetAttributes, Op::MapGetHeader, all, Op::SnapshotList]
}

impl Contents {
    /// Reads everything of all objects.
    pub async fn of(engine: &EmbeddedEngine) -> Self {
        let names = list(engine).await.unwrap();
        let mut contents = Self::default();
        for name in names {
            contents.ask(engine, &object(&name), None).await;
            let snapshots = contents.0[&(object(&name).to_string(), None, 5)].clone().unwrap();
            let OpResult::Snapshots(snapshots) = snapshots else { panic!("{snapshots:?}") };
            for snapshot in snapshots {
                contents.ask(engine, &object(&name), Some(snapshot)).await;
            }
        }
        assert!(contents.0.len() > 60 && contents.0.values().all(std::result::Result::is_ok));
        contents
    }

    async fn ask(&mut self, engine: &EmbeddedEngine, id: &ObjectId, at: Option<SnapshotName>) {
        for (number, op) in questions().into_iter().enumerate() {
            let answer = ask(engine, id, at.clone(), op).await.map_err(|error| error.kind());
            self.0.insert((id.to_string(), at.clone(), number), answer);
        }
    }

    /// Drops the times of changes, so that two stores of equal content are equal.
    pub fn without_times(mut self) -> Self {
        self.0.retain(|(.., number), _| questions()[*number] != Op::Stat);
        self
    }

    /// Reads everything again from a store that may have lost data.
    ///
    /// # Panics
    /// If a read fails with another error than `Corrupt` or `NotFound`.
    pub async fn ask_again(&self, engine: &EmbeddedEngine) {
        for (name, at, number) in self.0.keys() {
            let id: ObjectId = name.parse().unwrap();
            if let Err(error) = ask(engine, &id, at.clone(), questions()[*number].clone()).await {
                let lost = matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::NotFound);
                assert!(lost, "{name}: {error}");
            }
        }
        if let Err(error) = list(engine).await {
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
        }
    }

    /// Reads everything again and compares it with the data from before the damage. Returns the
    /// objects that could not be read.
    ///
    /// # Panics
    /// If a read gives neither the same data as before nor `Corrupt`.
    pub async fn compare(&self, engine: &EmbeddedEngine) -> BTreeSet<String> {
        let mut unreadable = BTreeSet::new();
        for ((name, at, number), expected) in &self.0 {
            let id: ObjectId = name.parse().unwrap();
            match ask(engine, &id, at.clone(), questions()[*number].clone()).await {
                Ok(answer) => assert!(
                    Ok(&answer) == expected.as_ref(),
                    "wrong answer {number} of {name} at {at:?}: {answer:?}"
                ),
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Corrupt, "{name}: {error}");
                    unreadable.insert(name.clone());
                }
            }
        }
        let expected: BTreeSet<_> = self.0.keys().map(|(name, ..)| name.clone()).collect();
        match list(engine).await {
            Ok(names) => {
                let names: BTreeSet<_> = names.iter().map(|n| object(n).to_string()).collect();
                assert_eq!(names, expected);
            }
            Err(error) => assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}"),
        }
        unreadable
    }
}

async fn ask(
    engine: &EmbeddedEngine,
    id: &ObjectId,
    at: Option<SnapshotName>,
    op: Op,
) -> Result<OpResult> {
    let mut request = Request::new(id.clone(), vec![op])?;
    request.header.snapshot = at;
    Ok(engine.submit(request).await?.results.remove(0))
}

async fn list(engine: &EmbeddedEngine) -> Result<Vec<ObjectName>, Error> {
    let pool = object("any").pool;
    let page = engine.list(ListRequest { pool, after: None, prefix: String::new(), limit: 1000 });
    Ok(page.await?.names)
}

/// Scrubs all of it.
pub fn scrub(engine: &EmbeddedEngine) -> Vec<Damage> {
    let mut damages = Vec::new();
    let mut next = Some(ScrubCursor::default());
    while let Some(cursor) = next {
        let step = engine.scrub(&cursor).unwrap();
        assert_eq!(step.more_damages, 0);
        damages.extend(step.damages);
        next = step.next;
    }
    damages
}

/// Scrubs all of it, however much is damaged.
pub fn scrub_whatever_there_is(engine: &EmbeddedEngine) {
    let mut next = Some(ScrubCursor::default());
    while let Some(cursor) = next {
        next = engine.scrub(&cursor).unwrap().next;
    }
}
