//! Compares a store with the model, step by step.

use std::sync::Arc;

use nacre_clock::ManualClock;
use nacre_object::{ListRequest, ObjectStat, Op, OpResult, Reply, Request, Result, SnapshotName};

use super::generator::{CURRENT_VERSION, OBJECTS, Step};
use crate::ops;
use crate::suite::{Subject, TestObject};
use crate::{MemoryStore, TestClasses};

/// Applies random steps to a store and to the model, and compares the two.
///
/// The store is an argument of each method, so that a test can close and reopen it between steps.
pub struct Comparison {
    model: Subject,
    /// The beginning of the names of this comparison's objects. It is in braces, so that one target
    /// stores all of them and they can be cloned.
    tag: String,
    versions: [Versions; OBJECTS],
}

/// The versions of one object, of the store and of the model.
#[derive(Clone, Copy, Default)]
struct Versions {
    current: (u64, u64),
    /// The highest version that the store has given to the object so far.
    highest: u64,
}

impl Comparison {
    /// A comparison whose objects, named after `tag`, do not exist yet.
    pub fn new(tag: &str) -> Self {
        let model = MemoryStore::new(Arc::new(TestClasses), Arc::new(ManualClock::default()));
        Self {
            model: Subject::watched(Arc::new(model)),
            tag: tag.to_owned(),
            versions: Default::default(),
        }
    }

    /// Applies a step to both.
    ///
    /// # Errors
    /// What they disagree about.
    pub async fn apply(&mut self, subject: &Subject, step: &Step) -> Result<(), String> {
        let (current, expected) = self.versions[step.object].current;
        let found = self.submit(subject, step, current).await;
        let expected = self.submit(&self.model, step, expected).await;
        match (found, expected) {
            (Ok(found), Ok(expected)) => {
                for (i, op) in step.ops.iter().enumerate() {
                    let results = (found.results.get(i), expected.results.get(i));
                    if results.0.map(comparable) != results.1.map(comparable) {
                        return Err(differ(op.name(), &results.0, &results.1));
                    }
                }
                if step.snapshot.is_some() { Ok(()) } else { self.advance(step, &found, &expected) }
            }
            (Err(found), Err(expected)) => {
                let facts = |error: &nacre_object::Error| {
                    let operation = error.operation().map(str::to_owned);
                    (error.kind(), operation, error.status())
                };
                let same = facts(&found) == facts(&expected);
                if same { Ok(()) } else { Err(differ("the error", &found, &expected)) }
            }
            (found, expected) => Err(differ("the outcome", &found, &expected)),
        }
    }

    /// Compares all contents of the store and the model.
    ///
    /// # Errors
    /// What they disagree about.
    pub async fn check(&self, subject: &Subject) -> Result<(), String> {
        for index in 0..OBJECTS {
            let found = self.object(subject, index);
            let expected = self.object(&self.model, index);
            self.check_object(&found, &expected, None).await?;
            if !subject.has(nacre_object::Capability::Snapshots) {
                continue;
            }
            for name in same_snapshots(&found, &expected).await? {
                self.check_object(&found, &expected, Some(&name)).await?;
            }
        }
        if subject.has(nacre_object::Capability::List) {
            self.check_listing(subject).await?;
        }
        Ok(())
    }

    async fn check_object(
        &self,
        found: &TestObject,
        expected: &TestObject,
        snapshot: Option<&SnapshotName>,
    ) -> Result<(), String> {
        let id = found.id();
        let (found, expected) =
            (found.content_at(snapshot).await, expected.content_at(snapshot).await);
        if found == expected {
            return Ok(());
        }
        Err(differ(&format!("the content of {id} at {snapshot:?}"), &found, &expected))
    }

    async fn check_listing(&self, subject: &Subject) -> Result<(), String> {
        let list = async |of: &Subject| {
            let (pool, prefix) = (of.pool().clone(), self.name(""));
            let request = ListRequest { pool, after: None, prefix, limit: OBJECTS + 1 };
            of.store().list(request).await.map_err(|error| error.to_string())
        };
        let (found, expected) = (list(subject).await?, list(&self.model).await?);
        if found == expected { Ok(()) } else { Err(differ("the listing", &found, &expected)) }
    }

    fn name(&self, index: impl std::fmt::Display) -> String {
        format!("{{{}}}/{index}", self.tag)
    }

    fn object(&self, subject: &Subject, index: usize) -> TestObject {
        subject.object(self.name(index))
    }

    async fn submit(&self, subject: &Subject, step: &Step, version: u64) -> Result<Reply> {
        let object = self.object(subject, step.object);
        let mut ops = step.ops.clone();
        for op in &mut ops {
            match op {
                Op::AssertVersion(guard) if *guard == CURRENT_VERSION => *guard = version,
                Op::CloneFrom { source, .. } | Op::WriteFullFrom { source, .. } => {
                    *source = self.object(subject, Step::source_index(source)).name().clone();
                }
                _ => {}
            }
        }
        let mut request = Request::new(object.id().clone(), ops)?;
        request.header.snapshot = step.snapshot.map(ops::snapshot);
        subject.store().submit(request).await
    }

    /// Checks and notes the versions after a transaction.
    fn advance(&mut self, step: &Step, found: &Reply, expected: &Reply) -> Result<(), String> {
        let versions = &mut self.versions[step.object];
        let after = (found.version, expected.version);
        if (after.0 == 0) != (after.1 == 0) {
            return Err(differ("existence", found, expected));
        }
        let changed = (after.0 != versions.current.0, after.1 != versions.current.1);
        if changed.0 != changed.1 {
            return Err(format!("changed: {changed:?}, from {:?} to {after:?}", versions.current));
        }
        if changed.0 && after.0 != 0 && after.0 <= versions.highest {
            return Err(format!("version {} after {}", after.0, versions.highest));
        }
        versions.highest = versions.highest.max(after.0);
        versions.current = after;
        Ok(())
    }
}

async fn same_snapshots(
    found: &TestObject,
    expected: &TestObject,
) -> Result<Vec<SnapshotName>, String> {
    let (found, expected) =
        (found.answers(Op::SnapshotList).await, expected.answers(Op::SnapshotList).await);
    match (found, expected) {
        (OpResult::Snapshots(found), OpResult::Snapshots(expected)) if found == expected => {
            Ok(found)
        }
        (found, expected) => Err(differ("the snapshots", &found, &expected)),
    }
}

/// A result without versions and times, which may differ between stores.
fn comparable(result: &OpResult) -> OpResult {
    match result {
        OpResult::Stat(stat) => {
            OpResult::Stat(ObjectStat { size: stat.size, modified_micros: 0, version: 0 })
        }
        other => other.clone(),
    }
}

fn differ(what: &str, found: &dyn std::fmt::Debug, expected: &dyn std::fmt::Debug) -> String {
    /// Contents can be long, but a difference usually shows near the beginning.
    const MAX_CHARS: usize = 2000;
    let cut = |text: String| text.chars().take(MAX_CHARS).collect::<String>();
    let (found, expected) = (cut(format!("{found:?}")), cut(format!("{expected:?}")));
    format!("{what} differs\n    store: {found}\n    model: {expected}")
}
