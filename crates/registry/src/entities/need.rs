//! Finds the rights that a demand of a client needs. A demand is a request, a watch, a listing or a
//! service call.
//!
//! In most pools an op needs the right to read, change or call its object. The system pool keeps
//! maps, programs and the cluster log in objects. There an access needs a right on the map, program
//! or log that the object keeps, or else `Admin`:
//!
//! | object | access | needed right |
//! | --- | --- | --- |
//! | `map/NAME` | `map.get`, `map.history`, watch | to read the map |
//! | | `map.commit`, notify | to write the map |
//! | | `map.delete` | to delete the map |
//! | | `map.bind` | to write the program `map/NAME` |
//! | `map/programs` | `map.commit` | to write every program among the commit's keys |
//! | | notify | to write some program |
//! | `map/log.NAME` | as other maps | the same right on the log |
//! | | to read | any right on the log, because every client of a log needs its view |
//! | | a `map.commit` that removes the log or its view | to delete the log |
//! | | `map.bind` | to write the program `map/log.NAME`, and to write the log |
//! | `map/` pools, nodes, programs, program-status | to read | none: every client needs these names and versions |
//! | `map/entities` | to read | `Admin` |
//! | `map/` pools, nodes, program-status, layouts, entities | other access | `Admin` |
//! | the programs of these maps and of `map/programs` | to write | `Admin` |
//! | `program/SHA256` | one read | to read some program |
//! | | one write of the whole object, if the data has this digest | to write some program |
//! | `events` | `events.read`, watch | to read the cluster log |
//! | | `events.append`, notify | to write some program, because activating a program appends an event |

use nacre_object::{ClassCall, ClassName, Demand, MethodName, ObjectId, Op, PoolName, Request};
use nacre_program::Digest;

use super::call_rules::{CallNeed, CallRules};
use super::grant::Right;
use super::system_object::SystemObject;
use crate::events::EVENTS_CLASS;
use crate::maps::{
    COMMON_MAPS, ENTITIES_MAP, MAP_CLASS, MAP_OBJECT_PREFIX, PROGRAMS_MAP, commit_keys,
    deleted_map, is_own_map, log_of_map,
};

/// The name of a map program is this prefix and the map's name. A map program decides about the
/// map's commits.
const MAP_PROGRAM_PREFIX: &str = "map/";

/// A right that is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need<'a> {
    /// On an object outside the system pool.
    Object {
        /// Which right.
        right: Right,
        /// The object.
        object: &'a ObjectId,
    },
    /// To call a method of an object.
    Call {
        /// The class.
        class: &'a ClassName,
        /// The method.
        method: &'a MethodName,
        /// The object.
        object: &'a ObjectId,
        /// The log to which the object belongs, and the right on that log that suffices.
        log: Option<(&'a str, Right)>,
    },
    /// To list names of a pool.
    Names {
        /// The pool.
        pool: &'a str,
        /// How the names start.
        prefix: &'a str,
    },
    /// On a map.
    Map {
        /// Which right.
        right: Right,
        /// The map.
        map: &'a str,
    },
    /// To list maps and logs.
    MapNames,
    /// On a program.
    Program {
        /// Which right.
        right: Right,
        /// Its kind and name.
        program: &'a str,
    },
    /// The right on at least one program.
    AnyProgram {
        /// Which right.
        right: Right,
    },
    /// On a log.
    Log {
        /// Which right.
        right: Right,
        /// The log.
        log: &'a str,
    },
    /// The right to read a log's view, which says where the log's records are.
    LogView {
        /// The log.
        log: &'a str,
    },
    /// To call a method of a service.
    Service {
        /// The service.
        service: &'a str,
        /// The method.
        method: &'a str,
    },
    /// To read the cluster log.
    Events,
    /// The need of an access that only administrators have.
    Admin,
}

/// Calls `each` for every right that a demand needs, until `each` fails.
///
/// # Errors
/// That of `each`.
pub fn needs_of<Refusal>(
    demand: Demand<'_>,
    rules: CallRules,
    each: &mut impl FnMut(Need<'_>) -> Result<(), Refusal>,
) -> Result<(), Refusal> {
    match demand {
        Demand::Request(request) => match SystemObject::of(&request.header.object) {
            Some(object) => {
                request.ops.iter().try_for_each(|op| system_need(object, request, op, each))
            }
            None => {
                let object = &request.header.object;
                request.ops.iter().try_for_each(|op| object_needs(object, op, rules, each))
            }
        },
        Demand::List(list) if list.pool == PoolName::system() => {
            let is_of_maps = list.prefix.starts_with(MAP_OBJECT_PREFIX);
            each(if is_of_maps { Need::MapNames } else { Need::Admin })
        }
        Demand::List(list) => each(Need::Names { pool: list.pool.as_str(), prefix: &list.prefix }),
        Demand::Watch(object) => match SystemObject::of(object) {
            Some(SystemObject::Map(map)) => map_need(map, Right::Read, each),
            Some(SystemObject::Events) => each(Need::Events),
            Some(SystemObject::Source(_) | SystemObject::Other) => each(Need::Admin),
            None => each(Need::Object { right: Right::Read, object }),
        },
        Demand::Notify(object) => match SystemObject::of(object) {
            Some(object) => announce_need(object, each),
            None => each(Need::Object { right: Right::Write, object }),
        },
        Demand::Ask { service, method, .. } => each(Need::Service { service, method }),
    }
}

/// Calls `each` with the rights that an entity needs to notify the watchers of an object in the
/// system pool. An entity may notify if it may change the object: where the store does not notify
/// watchers of a change, the committer must.
///
/// A watcher gets no content of such a notification: the node's [`ChangeFeed`](crate::ChangeFeed)
/// reads the map, and sends what it has read.
fn announce_need<Refusal>(
    object: SystemObject<'_>,
    each: &mut impl FnMut(Need<'_>) -> Result<(), Refusal>,
) -> Result<(), Refusal> {
    match object {
        SystemObject::Events | SystemObject::Map(PROGRAMS_MAP) => {
            each(Need::AnyProgram { right: Right::Write })
        }
        SystemObject::Map(map) => map_need(map, Right::Write, each),
        SystemObject::Source(_) | SystemObject::Other => each(Need::Admin),
    }
}

fn object_needs<Refusal>(
    object: &ObjectId,
    op: &Op,
    rules: CallRules,
    each: &mut impl FnMut(Need<'_>) -> Result<(), Refusal>,
) -> Result<(), Refusal> {
    match op {
        Op::Call(call @ ClassCall { class, method, .. }) => {
            each(match rules.need_of(call, object) {
                Some(CallNeed::Admin) => Need::Admin,
                Some(CallNeed::Log { log, right }) => {
                    Need::Call { class, method, object, log: Some((log, right)) }
                }
                None => Need::Call { class, method, object, log: None },
            })
        }
        Op::CloneFrom { source, .. } | Op::WriteFullFrom { source, .. } => {
            let source = ObjectId::new(object.pool.clone(), source.clone());
            each(Need::Object { right: Right::Read, object: &source })?;
            each(Need::Object { right: Right::Write, object })
        }
        op if op.is_write() => each(Need::Object { right: Right::Write, object }),
        _ => each(Need::Object { right: Right::Read, object }),
    }
}

fn system_need<Refusal>(
    object: SystemObject<'_>,
    request: &Request,
    op: &Op,
    each: &mut impl FnMut(Need<'_>) -> Result<(), Refusal>,
) -> Result<(), Refusal> {
    match (object, op) {
        (SystemObject::Events, Op::Call(call)) if call.class.as_str() == EVENTS_CLASS => {
            match call.method.as_str() {
                "read" => each(Need::Events),
                "append" => each(Need::AnyProgram { right: Right::Write }),
                _ => each(Need::Admin),
            }
        }
        (SystemObject::Map(map), Op::Call(call)) if call.class.as_str() == MAP_CLASS => {
            map_call_need(map, call, each)
        }
        (SystemObject::Source(digest), op) if request.ops.len() == 1 => {
            source_need(digest, op, each)
        }
        _ => each(Need::Admin),
    }
}

fn map_call_need<Refusal>(
    map: &str,
    call: &ClassCall,
    each: &mut impl FnMut(Need<'_>) -> Result<(), Refusal>,
) -> Result<(), Refusal> {
    match call.method.as_str() {
        "get" | "history" => map_need(map, Right::Read, each),
        "commit" => match commit_keys(&call.input) {
            // Only nodes and administrators carry out commits that another map triggered.
            Some(commit) if commit.triggered => each(Need::Admin),
            // The commit names one map, but is sent to the object of another. The program of the
            // other map would be told the wrong name, and the commit's triggers would be numbered
            // as those of the named map.
            Some(commit) if commit.map != map => each(Need::Admin),
            Some(commit) if map == PROGRAMS_MAP => {
                commit.keys.iter().try_for_each(|program| program_need(program, each))
            }
            Some(commit) if commit.removes_log => map_need(map, Right::Delete, each),
            Some(_) => map_need(map, Right::Write, each),
            None => each(Need::Admin),
        },
        "delete" => match deleted_map(&call.input) {
            Some(deleted) if deleted == map => map_need(map, Right::Delete, each),
            _ => each(Need::Admin),
        },
        "bind" => program_need(&format!("{MAP_PROGRAM_PREFIX}{map}"), each),
        _ => each(Need::Admin),
    }
}

/// The rights that are needed to write a program. A map program runs with the rights of each
/// committer and can change each commit of its map. So to write the program of a log's map, an
/// entity also needs rights on the log.
fn program_need<Refusal>(
    program: &str,
    each: &mut impl FnMut(Need<'_>) -> Result<(), Refusal>,
) -> Result<(), Refusal> {
    let map = program.strip_prefix(MAP_PROGRAM_PREFIX);
    if map.is_some_and(is_own_map) {
        return each(Need::Admin);
    }
    if let Some(log) = map.and_then(log_of_map) {
        each(Need::Log { right: Right::Write, log })?;
    }
    each(Need::Program { right: Right::Write, program })
}

fn map_need<Refusal>(
    map: &str,
    right: Right,
    each: &mut impl FnMut(Need<'_>) -> Result<(), Refusal>,
) -> Result<(), Refusal> {
    match (log_of_map(map), right) {
        (Some(log), Right::Read) => return each(Need::LogView { log }),
        (Some(log), right) => return each(Need::Log { right, log }),
        (None, _) => {}
    }
    match right {
        Right::Read if COMMON_MAPS.contains(&map) => Ok(()),
        Right::Read if map == ENTITIES_MAP => each(Need::Admin),
        Right::Read => each(Need::Map { right, map }),
        _ if is_own_map(map) => each(Need::Admin),
        right => each(Need::Map { right, map }),
    }
}

fn source_need<Refusal>(
    digest: &str,
    op: &Op,
    each: &mut impl FnMut(Need<'_>) -> Result<(), Refusal>,
) -> Result<(), Refusal> {
    match op {
        Op::Read { .. } => each(Need::AnyProgram { right: Right::Read }),
        // Under another name it would replace the source of another program.
        Op::WriteFull { data } if is_digest_of(digest, data) => {
            each(Need::AnyProgram { right: Right::Write })
        }
        _ => each(Need::Admin),
    }
}

fn is_digest_of(digest: &str, source: &[u8]) -> bool {
    std::str::from_utf8(source).is_ok_and(|source| Digest::of(source).to_string() == digest)
}
