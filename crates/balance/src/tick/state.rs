//! `State`: what a policy keeps between ticks.

use mlua::{Lua, Value};
use nacre_object::Result;
use nacre_script::{JsonBounds, json_to_lua};
use serde::{Deserialize, Serialize};

use crate::limits::{MAX_STATE_BYTES, MAX_STATE_DEPTH};

const BOUNDS: JsonBounds =
    JsonBounds { what: "the state of a policy", bytes: MAX_STATE_BYTES, depth: MAX_STATE_DEPTH };

/// What a policy keeps between ticks: `nil`, a truth value, a number, a string, a list, or a table with strings as
/// keys. It is written as the same value in JSON.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct State(serde_json::Value);

impl State {
    /// The value.
    pub fn value(&self) -> &serde_json::Value {
        &self.0
    }

    /// Whether nothing was written yet.
    pub fn is_nil(&self) -> bool {
        self.0.is_null()
    }

    /// Reads what a policy wrote.
    ///
    /// # Errors
    /// `Invalid` for a value that cannot be kept; `Exhausted` for one that is too large.
    pub(crate) fn from_lua(value: &Value) -> Result<Self> {
        BOUNDS.from_lua(value).map(Self)
    }

    pub(crate) fn to_lua(&self, lua: &Lua) -> mlua::Result<Value> {
        json_to_lua(lua, &self.0)
    }
}

/// A value that was made outside of a policy, as in a test. A policy's own is never larger than
/// [`MAX_STATE_BYTES`].
impl From<serde_json::Value> for State {
    fn from(value: serde_json::Value) -> Self {
        Self(value)
    }
}
