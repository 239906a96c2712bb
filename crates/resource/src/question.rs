//! What is asked of a resource's authority: JSON after the header that every question to a host has.
//!
//! | method | goes on with | answer |
//! | --- | --- | --- |
//! | `call` | a [`Call`] in JSON | an [`Answer`] in JSON |
//! | `forwarded` | a [`Forwarded`] in JSON, by a node that was the authority | as for `call` |
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
    crate::limits::MAX_INPUT_BYTES,
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
    /// The handle that calls: a random text. With the caller's entity it tells one client from another.
    pub handle: String,
    /// Counts the calls of the handle. The same number again is the same call.
    pub number: u64,
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
    /// How often the state was changed.
    pub version: u64,
    /// Bytes of the state in JSON.
    pub state_bytes: usize,
    /// The methods, each with whether it may change the state.
    pub methods: Vec<(String, bool)>,
}

/// A question to the authority.
#[derive(Debug)]
pub(crate) enum Asked<'a> {
    Call(&'a Call),
    #[cfg(feature = "programs")]
    Forwarded(&'a Forwarded),
    Stat,
    HandOver(&'a NodeName),
}

impl Question<ResourceName> for Asked<'_> {
    fn method(&self) -> &'static str {
        match self {
            Self::Call(_) => "call",
            #[cfg(feature = "programs")]
            Self::Forwarded(_) => "forwarded",
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
            Self::Stat => {}
            Self::HandOver(node) => input.put_slice(node.as_str().as_bytes()),
        }
        input.freeze()
    }
}

/// A question as a node receives it.
#[cfg(feature = "programs")]
#[derive(Debug)]
pub(crate) enum Received {
    Call(Call),
    Forwarded(Forwarded),
    Stat,
    HandOver(NodeName),
    Recover,
}

#[cfg(feature = "programs")]
impl Received {
    /// # Errors
    /// `Unsupported` for another method; `Invalid` for what makes no sense.
    pub fn decode(method: &str, rest: &[u8]) -> Result<Self> {
        Ok(match method {
            "call" | "forwarded" if rest.len() > MAX_INPUT_BYTES + CALL_BYTES => {
                return Err(Error::exhausted(format!("the input exceeds {MAX_INPUT_BYTES} bytes")));
            }
            "call" => Self::Call(parsed(rest)?),
            "forwarded" => Self::Forwarded(parsed(rest)?),
            "stat" => Self::Stat,
            "hand-over" => Self::HandOver(NodeName::new(String::from_utf8_lossy(rest))?),
            RECOVER => Self::Recover,
            _ => return Err(Error::unsupported(format!("a resource's node has no {method:?}"))),
        })
    }
}

/// Bytes of a call besides its input, with room to spare: names of a method, a handle, an entity and a tenant.
#[cfg(feature = "programs")]
const CALL_BYTES: usize = 1024;

#[cfg(feature = "programs")]
fn parsed<T: for<'a> Deserialize<'a>>(rest: &[u8]) -> Result<T> {
    serde_json::from_slice(rest)
        .map_err(|cause| Error::invalid(format!("the call makes no sense: {cause}")))
}

pub(crate) fn json(value: &impl Serialize) -> Bytes {
    serde_json::to_vec(value).expect("plain data has nothing that JSON lacks").into()
}
