//! `State`: what a policy keeps between ticks.

use mlua::{Lua, Value};
use nacre_object::Result;
use nacre_script::{JsonBounds, json_to_lua};
use serde::{Deserialize, Serialize};

use crate::limits::{MAX_STATE_BYTES, MAX_STATE_DEPTH};

const BOUNDS: JsonBounds =
    JsonBounds { what: "the state of a policy", bytes: MAX_STATE_BYTES, depth: MAX_STATE_DEPTH };

/// The state that a policy keeps between ticks: `nil`, a boolean, a number, a string, a list, or a
/// table with string keys. It is stored as the same value in JSON.
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

    /// Reads the state that a policy wrote.
    ///
    /// # Errors
    /// `Invalid` for a value that cannot be stored; `Exhausted` for one that is too large.
    pub(crate) fn from_lua(value: &Value) -> Result<Self> {
        BOUNDS.from_lua(value).map(Self)
    }

    pub(crate) fn to_lua(&self, lua: &Lua) -> mlua::Result<Value> {
        json_to_lua(lua, &self.0)
    }
}

/// Makes a state of a value that no policy wrote, for example in a test. The bound
/// [`MAX_STATE_BYTES`] is not checked here.
impl From<serde_json::Value> for State {
    fn from(value: serde_json::Value) -> Self {
        Self(value)
    }
}
