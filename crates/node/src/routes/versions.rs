//! Keeps versions of objects, if a rule has the destination `versions N`. The switch calls this module
//! for each request that may change such an object.
//!
//! 1. Changes of one object take turns ([`Turns`]).
//! 2. The home makes a snapshot of the object, in the transaction that changes it.
//! 3. The client gets its reply. Then the home drops the oldest versions beyond N, and the next change
//!    begins.
//!
//! A version is a snapshot whose name is [`VERSION`] and the time in microseconds, with all digits.
//! So the names sort by age, unless the clock was set back.
//!
//! # Invariants
//!
//! - An object is not changed without a version of its former state. If the home cannot make the
//!   snapshot, the change fails. A change that creates the object needs no version.
//! - When a change begins, the object has N versions at most, unless the home could not drop others.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use nacre_object::limits::{MAX_OPS, MAX_SNAPSHOTS};
use nacre_object::{
    Error, ErrorKind, IoHeader, Op, OpResult, Reply, Request, Result, SnapshotName, Stack, Store,
};
use nacre_route::limits::MAX_VERSIONS;
use nacre_route::{Destination, Io, RuleId, RuleTable, Span, touches};

use super::NodeSwitch;
use super::concern::FreePass;
use super::turns::{Turn, Turns};

/// What the names of versions begin with.
const VERSION: &str = "version-";
/// The digits of the time in the name of a version: those of the greatest number of 64 bits.
const DIGITS: usize = 20;
/// The most ops that a version adds to a request.
const ADDED_OPS: usize = 2;
/// How often the switch tries to change an object that others create or remove meanwhile.
const ATTEMPTS: usize = 3;

const _: () = assert!((MAX_VERSIONS as usize) < MAX_SNAPSHOTS, "a change makes one more");

/// What a switch knows about versions.
#[derive(Debug, Default)]
pub(super) struct Versions {
    /// Whether an installed rule keeps some.
    are_kept: AtomicBool,
    /// The time in the name of the version that was made last.
    last: AtomicU64,
    /// The objects that are being changed.
    turns: Arc<Turns>,
}

impl Versions {
    /// The switch has these rules from now on.
    pub fn note_rules(&self, table: &RuleTable) {
        let keeps = |to: &Destination| matches!(to, Destination::Versions(_));
        let are_kept = table.rules().any(|(_, rule)| keeps(&rule.destination));
        self.are_kept.store(are_kept, Ordering::Relaxed);
    }

    /// The name of a new version. It is unique, and later than all names before it.
    fn name(&self, now_micros: u64) -> Result<SnapshotName> {
        let after = |last: u64| Some(now_micros.max(last.saturating_add(1)));
        let last = self.last.fetch_update(Ordering::Relaxed, Ordering::Relaxed, after);
        let time = now_micros.max(last.unwrap_or_default().saturating_add(1));
        SnapshotName::new(format!("{VERSION}{time:0DIGITS$}"))
    }

    /// Makes later names sort after these, even if the clock was set back.
    fn note_names(&self, all: &[SnapshotName]) {
        let times = all.iter().filter(|name| is_version(name));
        let times = times.filter_map(|name| name.as_str().strip_prefix(VERSION)?.parse().ok());
        if let Some(latest) = times.max() {
            self.last.fetch_max(latest, Ordering::Relaxed);
        }
    }
}

/// Whether an op may change an object that exists. Making and dropping snapshots does not.
fn changes_object(op: &Op) -> bool {
    let keeps =
        matches!(op, Op::SnapshotCreate { .. } | Op::SnapshotRemove { .. } | Op::Create { .. });
    op.is_write() && !keeps
}

fn is_version(name: &SnapshotName) -> bool {
    let time = name.as_str().strip_prefix(VERSION);
    time.is_some_and(|time| time.len() == DIGITS && time.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Other ops on the object of a request, from the same client.
pub(super) fn with_ops(header: &IoHeader, ops: Vec<Op>) -> Result<Request> {
    let mut request = Request::new(header.object.clone(), ops)?;
    let (access, range) = (request.header.access, request.header.range);
    request.header = IoHeader { access, range, ..header.clone() };
    Ok(request)
}

/// Another op on the object of a request, from the same client.
pub(super) fn with_op(header: &IoHeader, op: Op) -> Result<Request> {
    with_ops(header, vec![op])
}

/// The versions that are too many, the oldest first. `made` is the one that was just made.
fn surplus(all: Vec<SnapshotName>, made: &SnapshotName, count: u32) -> Vec<SnapshotName> {
    let mut others: Vec<_> =
        all.into_iter().filter(|name| is_version(name) && name != made).collect();
    others.sort();
    let kept = count.saturating_sub(1) as usize;
    others.truncate(others.len().saturating_sub(kept));
    others
}

impl NodeSwitch {
    /// Refuses to give a user's snapshot the name of a version, because it would be dropped as one.
    pub(super) fn check_names(&self, request: &Request) -> Result<()> {
        let takes_name =
            |op: &Op| matches!(op, Op::SnapshotCreate { snapshot } if is_version(snapshot));
        match self.versions().are_kept.load(Ordering::Relaxed) && request.ops.iter().any(takes_name)
        {
            false => Ok(()),
            true => Err(Error::invalid(format!(
                "names of {VERSION} and {DIGITS} digits are for versions, which rules keep"
            ))
            .during("snapshot-create")
            .on(&request.header.object)
            .hint("choose another name for the snapshot")),
        }
    }

    /// Whether a request changes an object and the switch does not know yet whether it keeps versions
    /// of the object, because it has just started. Gateways to Ceph keep none.
    pub(super) fn needs_known_versions(&self, request: &Request) -> bool {
        let is_known = self.term() > 0 || self.locations().rados().is_some();
        !is_known && request.ops.iter().any(changes_object)
    }

    /// Waits until the switch has its rules. The request waits without its pass, because the switch
    /// installs no rules before the passes are back.
    pub(super) async fn until_versions_are_known(
        &self,
        request: &Request,
        pass: Option<FreePass>,
    ) -> Option<FreePass> {
        drop(pass);
        self.until_installed().await;
        self.uncopied(&request.header.object)
    }

    /// The rule that keeps versions of the object that a request changes, with their number. `None`
    /// if there is no such rule.
    pub(super) fn rule_with_versions(&self, request: &Request) -> Option<(RuleId, u32)> {
        let are_kept = self.versions().are_kept.load(Ordering::Relaxed);
        if !are_kept || !request.ops.iter().any(changes_object) {
            return None;
        }
        let core = self.core();
        let table = core.table();
        let changes = touches(request).into_iter().filter(|touch| touch.operation.is_change());
        let mut segments = changes.filter_map(|touch| {
            let io = Io::of(&request.header, None, None, touch);
            table.route(&io).ok()
        });
        segments.find_map(|segments| {
            segments.into_iter().find_map(|segment| {
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
    /// The errors of the request; `Exhausted` if the object has too many snapshots; `Unsupported` if
    /// the request has too many ops; `Conflict` if others create and remove the object meanwhile.
    pub(super) async fn change_and_keep(
        self: &Arc<Self>,
        next: Stack,
        request: Request,
        (rule, count): (RuleId, u32),
    ) -> Result<Reply> {
        let object = &request.header.object;
        if request.ops.len() > MAX_OPS - ADDED_OPS {
            let most = MAX_OPS - ADDED_OPS;
            let text = format!(
                "a rule keeps versions of this object, so a request has {most} ops at most"
            );
            return Err(Error::unsupported(text).on(object).hint("send several requests"));
        }
        self.core().note_decided(rule);
        let turn = self.versions().turns.wait(object).await;
        self.check_has_bytes(&request.header).await?;
        let failed = |error: &Error, kind: ErrorKind, op: &Op| {
            error.kind() == kind && error.operation() == Some(op.name())
        };
        for _ in 0..ATTEMPTS {
            let snapshot = self.versions().name(self.now_micros())?;
            let take = Op::SnapshotCreate { snapshot: snapshot.clone() };
            let before = vec![take.clone(), Op::SnapshotList];
            match self.run_before(&next, &request, before).await {
                Ok((reply, kept)) => {
                    if let Some(OpResult::Snapshots(all)) = kept.into_iter().nth(1) {
                        self.versions().note_names(&all);
                        let surplus = surplus(all, &snapshot, count);
                        if !surplus.is_empty() {
                            let switch = Arc::clone(self);
                            tokio::spawn(switch.drop_versions(turn, request.header, surplus));
                        }
                    }
                    return Ok(reply);
                }
                Err(error) if failed(&error, ErrorKind::NotFound, &take) => {}
                Err(error) if failed(&error, ErrorKind::Exhausted, &take) => {
                    self.make_room(&request.header, rule, error).await?;
                    continue;
                }
                Err(error) => return Err(error),
            }
            // The object does not exist.
            match self.run_before(&next, &request, vec![Op::AssertAbsent]).await {
                Err(error) if failed(&error, ErrorKind::Exists, &Op::AssertAbsent) => {}
                ended => return ended.map(|(reply, _)| reply),
            }
        }
        Err(Error::conflict("others create and remove this object all the time")
            .on(object)
            .hint("try again"))
    }

    /// Drops the oldest version of an object that has no room for another snapshot, because it has
    /// many others.
    ///
    /// # Errors
    /// `Exhausted` if the object has no version, or is too large for a snapshot.
    async fn make_room(&self, header: &IoHeader, rule: RuleId, cause: Error) -> Result<()> {
        let listed = self.base().submit(with_op(header, Op::SnapshotList)?).await?;
        let all = match listed.results.into_iter().next() {
            Some(OpResult::Snapshots(all)) => all,
            _ => vec![],
        };
        let is_full = all.len() >= MAX_SNAPSHOTS;
        let oldest = all.into_iter().filter(is_version).min().filter(|_| is_full);
        let Some(oldest) = oldest else {
            let application = {
                let core = self.core();
                core.table().get(rule).map(|rule| rule.application.to_string())
            };
            let application = application.unwrap_or_else(|| "APPLICATION".to_owned());
            let text = format!(
                "a rule of {application} keeps versions of this object, and no version can be made: {}",
                cause.message()
            );
            return Err(Error::exhausted(text).on(&header.object).hint(format!(
                "remove snapshots (nacre object snapshot rm), or the rule (nacre route rm {application})"
            )));
        };
        self.base()
            .submit(with_op(header, Op::SnapshotRemove { snapshot: oldest })?)
            .await
            .map(drop)
    }

    /// Drops versions of an object, and ends the turn. If a version cannot be dropped, the next change
    /// tries again.
    async fn drop_versions(
        self: Arc<Self>,
        turn: Turn,
        header: IoHeader,
        versions: Vec<SnapshotName>,
    ) {
        for snapshot in versions {
            if let Ok(removal) = with_op(&header, Op::SnapshotRemove { snapshot }) {
                let _ = self.base().submit(removal).await;
            }
        }
        drop(turn);
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
        let whole = with_ops(&request.header, ops)?;
        let mut reply = self.run(next.clone(), whole, Some(Span::WHOLE)).await?;
        let results = reply.results.split_off(count.min(reply.results.len()));
        let kept = std::mem::replace(&mut reply.results, results);
        Ok((reply, kept))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(all: &[&str]) -> Vec<SnapshotName> {
        all.iter().map(|name| SnapshotName::new(*name).unwrap()).collect()
    }

    #[test]
    fn names_are_unique_and_later_than_those_before_even_if_the_clock_is_set_back() {
        let versions = Versions::default();
        let all = [5, 5, 9, 3].map(|now| versions.name(now).unwrap());
        assert!(all.is_sorted_by(|a, b| a < b), "{all:?}");
        assert!(all.iter().all(is_version), "{all:?}");
    }

    #[test]
    fn the_oldest_versions_are_dropped_and_neither_the_new_one_nor_snapshots_of_users() {
        let version = |time: u64| format!("{VERSION}{time:0DIGITS$}");
        let (old, middle, new) = (version(1), version(2), version(3));
        let all = names(&[&new, "version-0.9", "version-1", &middle, "mine", &old]);
        let [first, last] = [&old, &new].map(|name| SnapshotName::new(name.as_str()).unwrap());
        assert_eq!(surplus(all.clone(), &last, 2), names(&[&old]));
        assert_eq!(surplus(all.clone(), &last, 1), names(&[&old, &middle]));
        assert_eq!(surplus(all.clone(), &first, 2), names(&[&middle]), "the clock was set back");
        assert_eq!(surplus(all, &last, 3), names(&[]));
    }
}
