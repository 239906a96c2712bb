//! The native class `map`, whose methods run inside a map's object.
//!
//! | method | input | output | effect |
//! | --- | --- | --- | --- |
//! | `commit` | [`CommitRequest`] | [`CommitReply`] | begins one epoch, or none |
//! | `delete` | [`DeleteRequest`](super::format::DeleteRequest) | [`DeleteReply`](super::format::DeleteReply) | deletes the map |
//! | `get` | [`GetRequest`] | [`GetReply`] | reads the whole map or one entry |
//! | `history` | [`PageRequest`] | [`HistoryReply`] | reads epochs that the history keeps |
//! | `triggers` | [`PageRequest`] | [`TriggersReply`] | reads commits to other maps that wait to be carried out |
//! | `triggers-done` | [`TriggersDoneRequest`] | [`Nothing`] | drops triggers that were carried out |
//! | `bind` | [`BindRequest`] | [`BindReply`] | sets the map's program |
//!
//! Only nodes and the local user can bind a program. Each node binds the version that is active in
//! the map `programs`, and some nodes are late. So the bind with the greatest activation number
//! wins. For any other caller, `bind` only returns whether the activation in its request is bound
//! yet.

use bytes::Bytes;
use nacre_object::{
    CallContext, CallReply, ClassName, EntityName, Error, MapName, ObjectView, Result,
};
use nacre_object::{MethodAccess, NativeClass};
use nacre_program::MAX_SOURCE_BYTES;
use prost::Message;

use super::Change;
use super::decision::{Decision, decide, decide_guarded, decide_triggered};
use super::deletion::{delete, no_such_map};
use super::format::{
    BindReply, BindRequest, ChangeMessage, CommitReply, CommitRequest, GetReply, GetRequest,
    GuardMessage, Head, HistoryReply, Nothing, PageRequest, Record, TriggersDoneRequest,
    TriggersReply, Watermark,
};
use super::handle::MAP_CLASS;
use super::object::MapObject;
use super::own::check_triggered;
use super::policy::{Policy, Proposal, Verdict};
use crate::limits::{
    MAX_CHANGES, MAX_COMMIT_BYTES, MAX_COMMIT_ID_BYTES, MAX_HISTORY_PAGE, MAX_KEY_BYTES,
    MAX_TRIGGER_CHAIN, MAX_VALUE_BYTES,
};
use crate::system::decode_input;

#[cfg(feature = "programs")]
use crate::hooks::run_policy;

/// A process without the VM cannot run a map's program, so it refuses every commit to a map that
/// has one.
#[cfg(not(feature = "programs"))]
fn run_policy(policy: &Policy<'_>, _: Proposal<'_>, _: &mut MapObject) -> Result<Verdict> {
    let text = format!("this process cannot run {}: it has no VM", policy.program());
    Err(Error::unsupported(text).hint("build it with the feature `programs`"))
}

/// The class of map objects. A process that runs methods of objects in the system pool must have
/// this class.
///
/// # Panics
/// Never: its names are well formed.
pub fn map_class() -> NativeClass {
    let name = ClassName::new(MAP_CLASS).expect("a well-formed literal");
    NativeClass::new(name)
        .method("commit", MethodAccess::ReadWrite, commit)
        .method("delete", MethodAccess::ReadWrite, delete)
        .method("get", MethodAccess::ReadOnly, get)
        .method("history", MethodAccess::ReadOnly, history)
        .method("triggers", MethodAccess::ReadOnly, triggers)
        .method("triggers-done", MethodAccess::ReadWrite, triggers_done)
        .method("bind", MethodAccess::ReadWrite, bind)
}

pub(super) fn answer(message: &impl Message) -> Result<CallReply> {
    Ok(CallReply { status: 0, output: Bytes::from(message.encode_to_vec()) })
}

pub(super) fn commit(
    input: Bytes,
    view: &mut dyn ObjectView,
    context: &CallContext,
) -> Result<CallReply> {
    let request: CommitRequest = decode_input(input)?;
    let changes: Vec<Change> = request.changes.iter().cloned().map(Change::from).collect();
    check_names(&request)?;
    check_changes(&changes)?;
    let mut map = MapObject::open(view)?;
    match decide_commit(&request, &mut map)? {
        Decision::Commit(epoch) => {
            check_there(&request, &changes, &map)?;
            let verdict = judge(epoch, &request, changes, &mut map, context)?;
            begin_epoch(epoch, request, verdict, &mut map, context)?;
            let reply = commit_reply(epoch, &map.head);
            map.save()?;
            answer(&reply)
        }
        Decision::Done(epoch) => answer(&commit_reply(epoch, &map.head)),
        Decision::Conflict => Err(moved_on(&request, map.head.epoch)),
        Decision::Unknown => {
            let oldest = map.head.first_kept;
            Err(Error::stale(format!("the map no longer keeps its history before epoch {oldest}"))
                .hint("read the map again, then try again"))
        }
    }
}

/// Removing keys does not make a map, so that a mistyped name gives an error.
fn check_there(request: &CommitRequest, changes: &[Change], map: &MapObject) -> Result<()> {
    let only_removes = changes.iter().all(|change| change.value().is_none());
    match only_removes && request.origin.is_none() && !map.is_there() {
        true => Err(no_such_map(&request.map)),
        false => Ok(()),
    }
}

/// Another commit was faster.
fn moved_on(request: &CommitRequest, epoch: u64) -> Error {
    let text = match (&request.guard, request.expected_epoch) {
        (Some(guard), _) => format!("the entry {:?} has changed", guard.key),
        (None, expected) => {
            format!("the map is at epoch {epoch}, not {}", expected.unwrap_or_default())
        }
    };
    Error::conflict(text).hint("read the map again, then try again")
}

fn commit_reply(epoch: u64, head: &Head) -> CommitReply {
    CommitReply { epoch, pending_triggers: head.pending_triggers }
}

fn decide_commit(request: &CommitRequest, map: &mut MapObject) -> Result<Decision> {
    if let Some(origin) = &request.origin {
        let source = origin
            .chain
            .last()
            .ok_or_else(|| Error::invalid("a triggered commit names no map that triggered it"))?;
        let newest = map.watermark(source)?.map(|mark| (mark.sequence, mark.epoch));
        return Ok(decide_triggered(map.head.epoch, origin.sequence, newest));
    }
    if let Some(guard) = &request.guard {
        return decide_by_entry(request, guard, map);
    }
    let Some(expected) = request.expected_epoch else {
        return Ok(Decision::Commit(map.head.epoch + 1));
    };
    let record = map.record(expected.saturating_add(1))?;
    let next = map.next_epoch(expected.saturating_add(1), record.as_ref());
    Ok(decide(map.head.epoch, expected, &request.commit_id, next))
}

fn decide_by_entry(
    request: &CommitRequest,
    guard: &GuardMessage,
    map: &mut MapObject,
) -> Result<Decision> {
    let set = request.changes.iter().rfind(|change| change.key == guard.key);
    let next = set.and_then(|change| change.value.as_deref());
    let next = next.filter(|next| guard.known.as_deref() != Some(next)).ok_or_else(|| {
        Error::invalid(format!("a commit cannot change the entry {:?} that guards it", guard.key))
    })?;
    let current = map.entry(&guard.key)?;
    Ok(decide_guarded(map.head.epoch, current.as_deref(), guard.known.as_deref(), next))
}

fn begin_epoch(
    epoch: u64,
    request: CommitRequest,
    verdict: Verdict,
    map: &mut MapObject,
    context: &CallContext,
) -> Result<()> {
    for change in &verdict.changes {
        map.change(change)?;
    }
    let chain = request.origin.iter().flat_map(|origin| origin.chain.iter().cloned());
    let chain: Vec<_> = chain.chain([request.map]).collect();
    for (target, changes) in verdict.triggers {
        map.push_trigger(target.to_string(), changes, chain.clone())?;
    }
    if let Some(origin) = &request.origin
        && let Some(source) = origin.chain.last()
    {
        map.set_watermark(source, &Watermark { sequence: origin.sequence, epoch })?;
    }
    map.push(&Record {
        epoch,
        changes: verdict.changes.into_iter().map(ChangeMessage::from).collect(),
        author: context.source.to_string(),
        at_micros: context.now_micros,
        commit_id: request.commit_id,
        origin: request.origin,
    })
}

/// Returns the changes as the map's program decides. Without a program they stay as they are.
fn judge(
    epoch: u64,
    request: &CommitRequest,
    changes: Vec<Change>,
    map: &mut MapObject,
    context: &CallContext,
) -> Result<Verdict> {
    let Some(program) = map.head.program.clone() else {
        return Ok(Verdict { changes, triggers: Vec::new() });
    };
    let source = map.program_source()?;
    let program = Policy { map: &request.map, version: program.version, source: &source };
    let chain = request.origin.as_ref().map_or(&[][..], |origin| &origin.chain);
    let proposal = Proposal { epoch, changes, chain, context };
    let verdict = run_policy(&program, proposal, map)?;
    let triggered = verdict.triggers.iter().map(|(_, changes)| changes);
    let changed = std::iter::once(&verdict.changes).filter(|changes| !changes.is_empty());
    for changes in changed.chain(triggered) {
        check_changes(changes).map_err(|error| program.blame(error))?;
    }
    Ok(verdict)
}

/// Checks that readers can decode what is stored of a commit in addition to its changes.
fn check_names(request: &CommitRequest) -> Result<()> {
    // Only checks that the name in the request is well formed. A class cannot see on which object
    // it runs; the check of the caller's rights compares this name with the object's.
    MapName::new(&request.map)?;
    if request.commit_id.len() > MAX_COMMIT_ID_BYTES {
        let bytes = request.commit_id.len();
        return Err(Error::invalid(format!("the id of a commit cannot have {bytes} bytes"))
            .hint(format!("use at most {MAX_COMMIT_ID_BYTES} bytes")));
    }
    let Some(origin) = &request.origin else { return Ok(()) };
    check_triggered(&request.map)?;
    if origin.chain.len() > MAX_TRIGGER_CHAIN {
        return Err(Error::invalid(format!(
            "a chain of {} maps that trigger each other is too long",
            origin.chain.len()
        ))
        .hint(format!("trigger commits to at most {MAX_TRIGGER_CHAIN} maps in a row")));
    }
    origin.chain.iter().try_for_each(|map| MapName::new(map).map(drop))
}

/// Checks the bounds of the changes, apart from the state of the map.
fn check_changes(changes: &[Change]) -> Result<()> {
    if changes.is_empty() || changes.len() > MAX_CHANGES {
        return Err(Error::invalid(format!("a commit cannot have {} changes", changes.len()))
            .hint(format!("commit 1 to {MAX_CHANGES} changes at a time")));
    }
    changes.iter().try_for_each(check_change)?;
    check_commit_bytes(changes.iter().map(Change::payload_bytes).sum())
}

/// Checks that a commit may have this many bytes of keys and values.
pub(crate) fn check_commit_bytes(bytes: usize) -> Result<()> {
    if bytes > MAX_COMMIT_BYTES {
        return Err(Error::invalid(format!("a commit of {bytes} bytes is too long"))
            .hint(format!("commit at most {MAX_COMMIT_BYTES} bytes at a time")));
    }
    Ok(())
}

fn check_change(change: &Change) -> Result<()> {
    let key = change.key();
    if key.is_empty() || key.len() > MAX_KEY_BYTES {
        return Err(Error::invalid(format!("a key cannot have {} bytes", key.len()))
            .hint(format!("use 1 to {MAX_KEY_BYTES} bytes")));
    }
    let bytes = change.value().map_or(0, Bytes::len);
    if bytes > MAX_VALUE_BYTES {
        return Err(Error::invalid(format!("the value of {key:?} has {bytes} bytes")).hint(
            format!(
                "use at most {MAX_VALUE_BYTES} bytes; store a larger value in an object and its name here"
            ),
        ));
    }
    Ok(())
}

fn get(input: Bytes, view: &mut dyn ObjectView, _: &CallContext) -> Result<CallReply> {
    let request: GetRequest = decode_input(input)?;
    let mut map = MapObject::open(view)?;
    let is_deleted = !map.head.deletion_id.is_empty();
    let entries = match request.key {
        None => map.entries()?,
        Some(key) => {
            let value = map.entry(&key)?;
            value.map(|value| ChangeMessage { key, value: Some(value) }).into_iter().collect()
        }
    };
    let Head { epoch, pending_triggers, program, .. } = map.head;
    answer(&GetReply { epoch, entries, pending_triggers, program, is_deleted })
}

fn history(input: Bytes, view: &mut dyn ObjectView, _: &CallContext) -> Result<CallReply> {
    let request: PageRequest = decode_input(input)?;
    let mut map = MapObject::open(view)?;
    let limit = (request.limit as usize).min(MAX_HISTORY_PAGE);
    let records = map.records_after(request.after, limit)?;
    let Head { epoch, first_kept, pending_triggers, .. } = map.head;
    answer(&HistoryReply { epoch, first_kept, records, pending_triggers })
}

fn triggers(input: Bytes, view: &mut dyn ObjectView, _: &CallContext) -> Result<CallReply> {
    let request: PageRequest = decode_input(input)?;
    let limit = (request.limit as usize).min(MAX_HISTORY_PAGE);
    let triggers = MapObject::open(view)?.triggers_after(request.after, limit)?;
    answer(&TriggersReply { triggers })
}

fn triggers_done(input: Bytes, view: &mut dyn ObjectView, _: &CallContext) -> Result<CallReply> {
    let request: TriggersDoneRequest = decode_input(input)?;
    let mut map = MapObject::open(view)?;
    if map.drop_triggers(request.through)? > 0 {
        map.save()?;
    }
    answer(&Nothing {})
}

fn bind(input: Bytes, view: &mut dyn ObjectView, context: &CallContext) -> Result<CallReply> {
    let request: BindRequest = decode_input(input)?;
    if request.source.len() > MAX_SOURCE_BYTES {
        return Err(Error::invalid(format!(
            "a source of {} bytes is too long",
            request.source.len()
        ))
        .hint(format!("use at most {MAX_SOURCE_BYTES} bytes")));
    }
    let mut map = MapObject::open(view)?;
    let is_pending = request.activation > map.head.activation;
    if !is_pending || !is_of_nodes(&context.source) {
        return answer(&BindReply { is_pending });
    }
    map.set_program_source(request.program.is_some().then_some(request.source))?;
    map.head.program = request.program;
    map.head.activation = request.activation;
    map.save()?;
    answer(&BindReply { is_pending: false })
}

/// Whether the caller may bind a program. Only nodes and the local user may, because they bind what
/// the map `programs` says. Another entity could bind a program under a very high activation
/// number, and the map would ignore all later binds.
fn is_of_nodes(source: &EntityName) -> bool {
    source.is_node() || *source == EntityName::local()
}

#[cfg(test)]
mod tests {
    use nacre_conformance::MemoryObject;
    use nacre_object::ErrorKind;

    use super::super::format::{BoundProgram, OriginMessage};
    use super::*;

    fn request(map: &str) -> CommitRequest {
        let changes = vec![Change::set("k", "v").into()];
        CommitRequest { map: map.to_owned(), changes, ..CommitRequest::default() }
    }

    fn commits(request: &CommitRequest) -> Result<()> {
        let context = CallContext { source: EntityName::new("local")?, now_micros: 1 };
        let mut object = MemoryObject::default();
        let done = commit(request.encode_to_vec().into(), &mut object, &context);
        let kept = MapObject::open(&mut object)?.head.epoch;
        assert_eq!(kept, u64::from(done.is_ok()));
        done.map(|_| ())
    }

    #[test]
    fn a_commit_that_could_not_be_read_back_is_refused() {
        assert!(commits(&request("a")).is_ok());
        let from = |chain: &[&str]| {
            let chain = chain.iter().map(|map| (*map).to_owned()).collect();
            CommitRequest { origin: Some(OriginMessage { chain, sequence: 1 }), ..request("a") }
        };
        assert!(commits(&from(&["b", "c"])).is_ok());
        let long = CommitRequest { commit_id: vec![0; 65].into(), ..request("a") };
        let refused = [request(""), request("no name"), from(&["b", "no name"]), from(&[]), long];
        for (case, request) in refused.iter().chain([&from(&["b"; 9])]).enumerate() {
            assert_eq!(commits(request).unwrap_err().kind(), ErrorKind::Invalid, "case {case}");
        }
    }

    /// Nodes carry out triggers, and a node may commit to any map. So these maps themselves must
    /// refuse a triggered commit, even if an older build of nacre recorded the trigger.
    #[test]
    fn a_program_cannot_trigger_commits_to_nacres_own_maps_or_views_of_logs() {
        let origin = Some(OriginMessage { chain: vec!["a".into()], sequence: 1 });
        for map in ["entities", "programs", "layouts", "log.orders"] {
            assert!(commits(&request(map)).is_ok(), "{map}");
            let triggered = CommitRequest { origin: origin.clone(), ..request(map) };
            assert_eq!(commits(&triggered).unwrap_err().kind(), ErrorKind::Invalid, "{map}");
        }
    }

    #[test]
    fn only_nodes_bind_a_program_and_the_newest_activation_wins() {
        let mut object = MemoryObject::default();
        let mut bind = |source: &str, activation| {
            let context = CallContext { source: EntityName::new(source).unwrap(), now_micros: 1 };
            let program = Some(BoundProgram { version: activation, digest: "d".into() });
            let request = BindRequest { program, source: "s".into(), activation };
            let reply = bind(request.encode_to_vec().into(), &mut object, &context).unwrap();
            let head = MapObject::open(&mut object).unwrap().head;
            let bound = head.program.map_or(0, |program| program.version);
            assert_eq!(head.activation, bound);
            (BindReply::decode(reply.output).unwrap().is_pending, bound)
        };
        assert_eq!(bind("alice", u64::MAX), (true, 0), "nothing is newer than that");
        assert_eq!(bind("alice", 5), (true, 0));
        assert_eq!(bind("node.a", 5), (false, 5));
        assert_eq!(bind("alice", 5), (false, 5));
        assert_eq!(bind("local", 4), (false, 5), "it comes late");
        assert_eq!(bind("local", 6), (false, 6));
    }
}
