//! `History`: a node's recent decisions, and the state that its policy keeps between ticks.
//!
//! Each node has its own object in the system pool: `balancer.NODE`. The object's map holds an
//! entry for each of the last ticks, and the policy's state. One transaction stores a tick together
//! with the state, so a crash cannot separate them.
//!
//! | key | value |
//! | --- | --- |
//! | `t` and four hexadecimal digits: the tick's number modulo [`KEPT_TICKS`] | a [`TickRecord`] in JSON |
//! | `state` | a [`KeptState`] in JSON |

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use nacre_object::{
    Error, MapEntry, NodeName, ObjectId, ObjectName, Op, OpResult, PoolName, Request, Result, Store,
};
use serde::{Deserialize, Serialize};

use crate::{Decision, Inputs, State};

/// For how many ticks a node keeps its decisions: almost three hours, if a tick takes ten seconds.
pub const KEPT_TICKS: u64 = 1000;
/// A longer record is kept without its units, which are most of it.
pub const MAX_RECORD_BYTES: usize = 256 * 1024;

const STATE_KEY: &str = "state";
const TICK_PREFIX: &str = "t";

/// What one node did at one tick.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TickRecord {
    /// The tick's number.
    pub tick: u64,
    /// When the node decided: microseconds since 1970, UTC.
    pub at_micros: u64,
    /// The program.
    pub policy: String,
    /// Its version.
    pub version: u64,
    /// The inputs of the decision. A record longer than [`MAX_RECORD_BYTES`] is stored without the
    /// units and their loads.
    pub inputs: Inputs,
    /// The decision; `None` if there was none.
    pub decision: Option<Decision>,
    /// Why there was no decision.
    pub failure: Option<String>,
    /// The outcomes of the decision's moves, in their order. Moves under way have no outcome yet.
    pub outcomes: Vec<MoveOutcome>,
}

/// The outcome of a move.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MoveOutcome {
    /// The unit.
    pub unit: String,
    /// The node that it was to move to.
    pub to: String,
    /// How long the unit's operations waited, in milliseconds.
    pub millis: f64,
    /// Why it did not move; `None` if it did.
    pub failure: Option<String>,
}

/// The state that a policy keeps between ticks. Another version of the same program continues with
/// this state; another program starts without a state.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct KeptState {
    /// The program.
    pub policy: String,
    /// What it keeps.
    pub state: State,
}

/// The object of one node.
#[derive(Clone)]
pub struct History {
    store: Arc<dyn Store>,
    object: ObjectId,
}

impl fmt::Debug for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("History").field("object", &self.object).finish_non_exhaustive()
    }
}

impl History {
    /// The history of a node.
    ///
    /// # Errors
    /// `Invalid` if the object's name would be malformed.
    pub fn of(store: Arc<dyn Store>, node: &NodeName) -> Result<Self> {
        let name = ObjectName::new(format!("balancer.{node}"))?;
        Ok(Self { store, object: ObjectId::new(PoolName::system(), name) })
    }

    /// The state that the policy stored last.
    ///
    /// # Errors
    /// `Unavailable`; `Corrupt`.
    pub async fn state(&self) -> Result<KeptState> {
        let keys = vec![Bytes::from_static(STATE_KEY.as_bytes())];
        match self.run(Op::MapGet { keys }).await {
            Ok(OpResult::Values(values)) => match values.into_iter().next().flatten() {
                Some(stored) => self.decode("state", &stored),
                None => Ok(KeptState::default()),
            },
            Err(error) if error.kind() == nacre_object::ErrorKind::NotFound => {
                Ok(KeptState::default())
            }
            Ok(_) => Err(Error::corrupt(
                "the store answered a read of the balancer's state with another kind of result",
            )),
            Err(error) => Err(error),
        }
    }

    /// Stores a tick and the policy's state. The new entry replaces the entry of the tick
    /// [`KEPT_TICKS`] earlier.
    ///
    /// # Errors
    /// `Unavailable` if the store does not answer; `Exhausted` if it is full.
    pub async fn keep(&self, record: &TickRecord, state: Option<&KeptState>) -> Result<()> {
        let mut entries = vec![MapEntry { key: key_of(record.tick), value: encoded(record) }];
        if let Some(state) = state {
            let key = Bytes::from_static(STATE_KEY.as_bytes());
            entries.push(MapEntry { key, value: json(state) });
        }
        self.run(Op::MapSet { entries }).await.map(drop)
    }

    /// The last ticks that are kept, the earliest first; at most `limit`.
    ///
    /// # Errors
    /// `Unavailable`; `Corrupt`.
    pub async fn last(&self, limit: usize) -> Result<Vec<TickRecord>> {
        let mut records: Vec<TickRecord> = vec![];
        let (mut after, prefix) = (Bytes::new(), Bytes::from_static(TICK_PREFIX.as_bytes()));
        loop {
            let op = Op::MapRange { after, prefix: prefix.clone(), limit: u32::MAX };
            let range = match self.run(op).await {
                Ok(OpResult::Range(range)) => range,
                Err(error) if error.kind() == nacre_object::ErrorKind::NotFound => break,
                Ok(_) => {
                    return Err(Error::corrupt(
                        "the store answered a listing with another kind of result",
                    ));
                }
                Err(error) => return Err(error),
            };
            for entry in &range.entries {
                records.push(self.decode("record of a tick", &entry.value)?);
            }
            match range.entries.last() {
                Some(last) if range.more => after = last.key.clone(),
                _ => break,
            }
        }
        // Ticks are numbered anew when their length changes.
        records.sort_by_key(|record| record.at_micros);
        let skipped = records.len().saturating_sub(limit);
        Ok(records.split_off(skipped))
    }

    async fn run(&self, op: Op) -> Result<OpResult> {
        let request = Request::new(self.object.clone(), vec![op])?;
        let reply = self.store.submit(request).await.map_err(|error| error.on(&self.object))?;
        let result = reply.results.into_iter().next();
        result.ok_or_else(|| {
            Error::corrupt("the store gave no result for a request").on(&self.object)
        })
    }

    fn decode<T: for<'a> Deserialize<'a>>(&self, what: &str, stored: &[u8]) -> Result<T> {
        serde_json::from_slice(stored).map_err(|cause| {
            Error::corrupt(format!("the balancer's stored {what} is damaged: {cause}"))
                .on(&self.object)
        })
    }
}

fn key_of(tick: u64) -> Bytes {
    format!("{TICK_PREFIX}{:04x}", tick % KEPT_TICKS).into()
}

/// A record as it is stored, within its bound.
fn encoded(record: &TickRecord) -> Bytes {
    let whole = json(record);
    if whole.len() <= MAX_RECORD_BYTES {
        return whole;
    }
    let inputs = Inputs { units: vec![], unit_loads: vec![], ..record.inputs.clone() };
    json(&TickRecord { inputs, ..record.clone() })
}

fn json(value: &impl Serialize) -> Bytes {
    serde_json::to_vec(value).expect("plain data has nothing that JSON lacks").into()
}
