//! The requests that clients and nodes send to the authority of a resource. Each is JSON after the
//! header that every request to a host has.
//!
//! | method | after the header | answer |
//! | --- | --- | --- |
//! | `call` | a [`Call`] in JSON | an [`Answer`] in JSON |
//! | `forwarded` | a [`Forwarded`] in JSON, by a node that was the authority | as for `call` |
//! | `acquire` | an [`Acquire`] in JSON | an [`Acquired`] in JSON |
//! | `hold` | a [`Hold`] in JSON | [`News`] in JSON; `null` if the grant is to be returned or has ended |
//! | `store`, `return` | a [`Returned`] in JSON | `null` |
//! | `stat` | – | a [`ResourceStat`] in JSON |
//! | `recover` | – | as for every host |
//! | `hand-over` | the name of the successor | the epoch, as for `recover` |

use bytes::{BufMut, Bytes, BytesMut};
use nacre_host::{Question, put_header};
use nacre_object::NodeName;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::ResourceName;
#[cfg(feature = "programs")]
use {
    crate::limits::{MAX_DEPTH, MAX_INPUT_BYTES, MAX_STATE_BYTES},
    nacre_host::RECOVER,
    nacre_object::{Error, Result},
};

/// The service by which a node offers its resources.
pub const RESOURCE_SERVICE: &str = "resource";

/// A call of a method.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Call {
    /// The method.
    pub method: String,
    /// Its input.
    #[serde(default)]
    pub input: Value,
    /// A random string that identifies the client's handle. Handle and entity together identify a
    /// client.
    pub handle: String,
    /// The number of the call, which counts the calls of the handle. A repeated call has the same
    /// number.
    pub number: u64,
    /// The number that identifies a client that can hold capabilities. 0 if the client cannot.
    #[serde(default)]
    pub client: u64,
}

impl Call {
    /// The name under which the answer to this call is remembered.
    #[cfg(feature = "programs")]
    pub(crate) fn remembered_as(&self, entity: &str) -> String {
        format!("{entity}/{}", self.handle)
    }

    /// # Errors
    /// `Exhausted` if the input is too large.
    #[cfg(feature = "programs")]
    fn checked(self) -> Result<Self> {
        match self.input.to_string().len() > MAX_INPUT_BYTES {
            true => Err(Error::exhausted(format!("the input exceeds {MAX_INPUT_BYTES} bytes"))
                .hint("divide it over several calls")),
            false => Ok(self),
        }
    }
}

/// A call whose client would rather get a capability and run the method itself.
#[cfg(feature = "programs")]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Acquire {
    /// The number of the grant, if the client gets one. It is greater than the number of every
    /// earlier attempt.
    pub number: u64,
    /// The digest of the file type that the client has compiled, if any.
    #[serde(default)]
    pub compiled: Option<String>,
    /// The grant that the client has ended, if it had one.
    #[serde(default)]
    pub returned: Option<Returned>,
    /// The call.
    pub call: Call,
}

/// What a holder tells of its grant.
#[cfg(feature = "programs")]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Returned {
    /// The holder.
    pub client: u64,
    /// The grant.
    pub number: u64,
    /// Calls that it ran.
    pub operations: u64,
    /// The state, if it has changed it.
    #[serde(default)]
    pub state: Option<Value>,
    /// The version of the file type that ran.
    pub type_version: u64,
}

/// The answer to a client that asked for a capability.
#[cfg(feature = "programs")]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Acquired {
    /// The call was run by the authority.
    Served {
        /// What came of it.
        answer: Answer,
        /// For this many milliseconds the client must not ask for a capability.
        again_ms: u64,
    },
    /// A capability; the call was not run.
    Granted(Box<Granted>),
}

/// A capability, as its holder hears of it.
#[cfg(feature = "programs")]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Granted {
    /// The number of the grant.
    pub number: u64,
    /// Whether the holder may change the state.
    pub is_exclusive: bool,
    /// The lease in microseconds, counted from before the holder sent its request.
    pub lease_us: u64,
    /// Calls that the holder may run.
    pub operations: Option<u64>,
    /// The state.
    pub state: Value,
    /// The file type.
    pub file_type: String,
    /// Its version, which the holder runs.
    pub type_version: u64,
    /// The source of that version, unless the client has compiled it or it is native.
    pub source: Option<String>,
    /// As whom the methods see the holder.
    pub entity: String,
    /// Its tenant.
    pub tenant: String,
}

/// A holder's poll.
#[cfg(feature = "programs")]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Hold {
    /// The holder.
    pub client: u64,
    /// Its grant.
    pub number: u64,
    /// Calls that it ran.
    pub operations: u64,
}

/// That a grant stands.
#[cfg(feature = "programs")]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct News {
    /// The lease in microseconds, counted from before the holder sent its request.
    pub lease_us: u64,
}

/// A call that a former authority passes on.
#[cfg(feature = "programs")]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Forwarded {
    /// Who calls.
    pub entity: String,
    /// Whose requests these are.
    pub tenant: String,
    /// The call.
    pub call: Call,
}

/// What a call came to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// The output of the method.
    pub output: Value,
    /// The last change that the output depends on.
    pub version: u64,
}

/// A resource at a glance.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ResourceStat {
    /// The node that serves it.
    pub node: String,
    /// The epoch by which it does.
    pub epoch: u64,
    /// The file type.
    pub file_type: String,
    /// The version of the file type that is live on that node.
    pub type_version: u64,
    /// `journaled` or `recovered`: how the state survives the death of that node.
    #[serde(default)]
    pub survival: String,
    /// `shared` or `exclusive`: the strongest capability that a client may hold. `None` if the
    /// authority runs every call.
    #[serde(default)]
    pub capability: Option<String>,
    /// The capability program. `None` stands for the default policy.
    #[serde(default)]
    pub capability_program: Option<String>,
    /// How many times the state was changed.
    pub version: u64,
    /// Bytes of the state in JSON.
    pub state_bytes: usize,
    /// The methods, each with whether it may change the state.
    pub methods: Vec<(String, bool)>,
    /// The entities that hold a capability. For each, whether it is the exclusive capability.
    #[serde(default)]
    pub holders: Vec<(String, bool)>,
}

/// A request to the authority.
#[derive(Debug)]
pub(crate) enum Asked<'a> {
    Call(&'a Call),
    #[cfg(feature = "programs")]
    Forwarded(&'a Forwarded),
    #[cfg(feature = "programs")]
    Hold(&'a Hold),
    #[cfg(feature = "programs")]
    Store(&'a Returned),
    #[cfg(feature = "programs")]
    Return(&'a Returned),
    Stat,
    HandOver(&'a NodeName),
}

impl Question<ResourceName> for Asked<'_> {
    fn method(&self) -> &'static str {
        match self {
            Self::Call(_) => "call",
            #[cfg(feature = "programs")]
            Self::Forwarded(_) => "forwarded",
            #[cfg(feature = "programs")]
            Self::Hold(_) => "hold",
            #[cfg(feature = "programs")]
            Self::Store(_) => "store",
            #[cfg(feature = "programs")]
            Self::Return(_) => "return",
            Self::Stat => "stat",
            Self::HandOver(_) => "hand-over",
        }
    }

    fn encode(&self, name: &ResourceName, epoch: u64) -> Bytes {
        let mut input = BytesMut::new();
        put_header(&mut input, name.as_str(), epoch);
        match self {
            Self::Call(call) => input.put_slice(&json(call)),
            #[cfg(feature = "programs")]
            Self::Forwarded(forwarded) => input.put_slice(&json(forwarded)),
            #[cfg(feature = "programs")]
            Self::Hold(hold) => input.put_slice(&json(hold)),
            #[cfg(feature = "programs")]
            Self::Store(returned) | Self::Return(returned) => input.put_slice(&json(returned)),
            Self::Stat => {}
            Self::HandOver(node) => input.put_slice(node.as_str().as_bytes()),
        }
        input.freeze()
    }
}

/// A request as a node receives it.
#[cfg(feature = "programs")]
#[derive(Debug)]
pub(crate) enum Received {
    Call(Call),
    Forwarded(Forwarded),
    Acquire(Acquire),
    Hold(Hold),
    Store(Returned),
    Return(Returned),
    Stat,
    HandOver(NodeName),
    Recover,
}

#[cfg(feature = "programs")]
impl Received {
    /// Decodes a request to `method`.
    ///
    /// # Errors
    /// `Unsupported` for an unknown method; `Invalid` for a malformed request.
    pub fn decode(method: &str, rest: &[u8]) -> Result<Self> {
        Ok(match method {
            "call" | "forwarded" if rest.len() > MAX_INPUT_BYTES + CALL_BYTES => {
                return Err(Error::exhausted(format!("the input exceeds {MAX_INPUT_BYTES} bytes"))
                    .hint("divide it over several calls"));
            }
            _ if rest.len() > MAX_STATE_BYTES + MAX_INPUT_BYTES + CALL_BYTES => {
                return Err(Error::exhausted(format!("the state exceeds {MAX_STATE_BYTES} bytes"))
                    .hint("divide it over several resources"));
            }
            "acquire" => Self::Acquire(parsed::<Acquire>(rest)?.checked()?),
            "hold" => Self::Hold(parsed(rest)?),
            "store" => Self::Store(parsed::<Returned>(rest)?.checked()?),
            "return" => Self::Return(parsed::<Returned>(rest)?.checked()?),
            "call" => Self::Call(parsed::<Call>(rest)?.checked()?),
            "forwarded" => Self::Forwarded(parsed(rest)?),
            "stat" => Self::Stat,
            "hand-over" => Self::HandOver(NodeName::new(String::from_utf8_lossy(rest))?),
            RECOVER => Self::Recover,
            _ => {
                return Err(Error::unsupported(format!(
                    "the node knows no request {method:?} to a resource"
                )));
            }
        })
    }
}

#[cfg(feature = "programs")]
impl Acquire {
    /// # Errors
    /// `Invalid`, `Exhausted`.
    fn checked(self) -> Result<Self> {
        if self.call.client == 0 {
            return Err(Error::invalid("the request for a capability lacks the client's number"));
        }
        let returned = self.returned.map(Returned::checked).transpose()?;
        Ok(Self { returned, call: self.call.checked()?, ..self })
    }
}

#[cfg(feature = "programs")]
impl Returned {
    /// # Errors
    /// `Exhausted` if the state is larger or nested deeper than a state may be.
    fn checked(self) -> Result<Self> {
        if let Some(state) = &self.state {
            if state.to_string().len() > MAX_STATE_BYTES {
                return Err(Error::exhausted(format!("the state exceeds {MAX_STATE_BYTES} bytes"))
                    .hint("divide it over several resources"));
            }
            if depth(state) > MAX_DEPTH {
                return Err(Error::exhausted(format!(
                    "the state has more than {MAX_DEPTH} levels of tables"
                )));
            }
        }
        Ok(self)
    }
}

#[cfg(feature = "programs")]
fn depth(value: &Value) -> usize {
    match value {
        Value::Array(list) => 1 + list.iter().map(depth).max().unwrap_or(0),
        Value::Object(named) => 1 + named.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

/// How many bytes a call may have besides its input: the names of a method, a handle, an entity and
/// a tenant, with a reserve.
#[cfg(feature = "programs")]
const CALL_BYTES: usize = 1024;

#[cfg(feature = "programs")]
pub(crate) fn parsed<T: for<'a> Deserialize<'a>>(rest: &[u8]) -> Result<T> {
    serde_json::from_slice(rest)
        .map_err(|cause| Error::invalid(format!("the call cannot be decoded: {cause}")))
}

pub(crate) fn json(value: &impl Serialize) -> Bytes {
    serde_json::to_vec(value).expect("plain data has nothing that JSON lacks").into()
}
