//! Keeps versions of objects: `-> versions N` in a rule. Before a change, the home makes a snapshot of
//! the object, in the transaction that changes it. Then it drops the oldest versions beyond N, in the
//! background.
//!
//! A version is a snapshot with a name that begins with [`VERSION`]. The name has the time in
//! microseconds, so names sort by age.
//!
//! **Invariants:** no change without its version: if the snapshot cannot be made, the change fails. A
//! change of an object that does not exist needs no version.

use std::sync::Arc;

use nacre_object::{
    Error, ErrorKind, IoHeader, Op, OpResult, Reply, Request, Result, SnapshotName, Stack, Store,
};
use nacre_route::{Destination, Io, RuleId, Span, touches};

use super::NodeSwitch;
use super::background::background;

/// What the names of versions begin with.
const VERSION: &str = "version-";
/// How often the switch tries to change an object that others create or remove meanwhile.
const ATTEMPTS: usize = 3;

/// Whether an op may change the object. Making and dropping snapshots does not.
fn changes_object(op: &Op) -> bool {
    op.is_write() && !matches!(op, Op::SnapshotCreate { .. } | Op::SnapshotRemove { .. })
}

impl NodeSwitch {
    /// The rule that keeps versions of the object that a request changes, with their number. `None` if
    /// there is no such rule.
    pub(super) fn rule_with_versions(&self, request: &Request) -> Option<(RuleId, u32)> {
        // The parts of a large put are collected in an object of their own, which is not kept.
        if !self.has_versions()
            || !request.ops.iter().any(changes_object)
            || nacre::is_staging(&request.header.object.name)
        {
            return None;
        }
        let core = self.core();
        let table = core.table();
        touches(request).into_iter().filter(|touch| touch.operation.is_change()).find_map(|touch| {
            let io = Io::of(&request.header, None, None, touch);
            table.route(&io).ok()?.into_iter().find_map(|segment| {
                let id = segment.rule?;
                match table.get(id)?.destination {
                    Destination::Versions(count) => Some((id, count)),
                    _ => None,
                }
            })
        })
    }

    /// Changes an object, and keeps its present state as a version.
    ///
    /// # Errors
    /// The errors of the request; `Exhausted` if the object has too many snapshots of others.
    pub(super) async fn change_and_keep(
        self: &Arc<Self>,
        next: Stack,
        request: Request,
        (rule, count): (RuleId, u32),
    ) -> Result<Reply> {
        self.core().note_decided(rule);
        let mut last = None;
        for _ in 0..ATTEMPTS {
            match self.change_existing(&next, &request, count).await {
                // The object does not exist, or a guard of the request has failed.
                Err(error) if error.kind() == ErrorKind::NotFound => last = Some(error),
                ended => return ended,
            }
            let created = self.run_with(&next, &request, vec![Op::AssertAbsent]).await;
            match created {
                // The object exists by now.
                Err(error) if error.kind() == ErrorKind::Exists => {}
                ended => return ended,
            }
        }
        Err(last.unwrap_or_else(|| {
            Error::conflict("others create and remove this object all the time")
                .on(&request.header.object)
                .hint("try again")
        }))
    }

    async fn change_existing(
        self: &Arc<Self>,
        next: &Stack,
        request: &Request,
        count: u32,
    ) -> Result<Reply> {
        let snapshot = SnapshotName::new(format!("{VERSION}{:020}", self.next_version()))?;
        let before = vec![Op::SnapshotCreate { snapshot }, Op::SnapshotList];
        let (reply, kept) = self.run_before(next, request, before).await?;
        if let Some(OpResult::Snapshots(all)) = kept.into_iter().nth(1) {
            self.drop_oldest(request, all, count as usize)?;
        }
        Ok(reply)
    }

    /// Drops the oldest versions in the background, so that `count` are left. What fails is done at
    /// the next change.
    fn drop_oldest(
        self: &Arc<Self>,
        request: &Request,
        all: Vec<SnapshotName>,
        count: usize,
    ) -> Result<()> {
        let is_version = |name: &SnapshotName| name.as_str().starts_with(VERSION);
        let mut versions: Vec<_> = all.into_iter().filter(is_version).collect();
        versions.sort();
        versions.truncate(versions.len().saturating_sub(count));
        let object = &request.header.object;
        let removals = versions
            .into_iter()
            .map(|snapshot| background(object.clone(), Op::SnapshotRemove { snapshot }));
        let removals = removals.collect::<Result<Vec<_>>>()?;
        if !removals.is_empty() {
            let base = self.base().clone();
            tokio::spawn(async move {
                for removal in removals {
                    let _ = base.submit(removal).await;
                }
            });
        }
        Ok(())
    }

    async fn run_with(
        self: &Arc<Self>,
        next: &Stack,
        request: &Request,
        before: Vec<Op>,
    ) -> Result<Reply> {
        self.run_before(next, request, before).await.map(|(reply, _)| reply)
    }

    /// Runs ops, and then a request, as one transaction. Returns the reply to the request, and the
    /// results of the ops before it.
    async fn run_before(
        self: &Arc<Self>,
        next: &Stack,
        request: &Request,
        before: Vec<Op>,
    ) -> Result<(Reply, Vec<OpResult>)> {
        let count = before.len();
        let ops = before.into_iter().chain(request.ops.iter().cloned()).collect();
        let mut whole = Request::new(request.header.object.clone(), ops)?;
        let (access, range) = (whole.header.access, whole.header.range);
        whole.header = IoHeader { access, range, ..request.header.clone() };
        let mut reply = self.run(next.clone(), whole, Some(Span::WHOLE)).await?;
        let results = reply.results.split_off(count.min(reply.results.len()));
        let kept = std::mem::replace(&mut reply.results, results);
        Ok((reply, kept))
    }
}
