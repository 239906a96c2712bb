//! File types that are compiled into nacre. A client of the same release can run them itself while
//! it holds a capability.

use std::fmt;
use std::sync::{Arc, LazyLock};

use nacre_capability::Mode;
use nacre_object::{Error, Result};
use serde_json::{Value, json};

use super::{Access, FileType, Locking, Outcome, Survival};

/// The code of a file type that is compiled into nacre. It keeps nothing between calls.
pub(super) trait NativeType: fmt::Debug + Send + Sync {
    /// The state of a new resource.
    fn initial(&self) -> Value;

    /// Repairs the last stored state after the death of an authority, or of a client that held a
    /// capability.
    ///
    /// # Errors
    /// `Corrupt` if this type cannot have made the state.
    fn recovered(&self, state: &Value) -> Result<Value>;

    /// Runs a method.
    ///
    /// # Errors
    /// Any error of the method; `Unsupported` if there is no method of that name.
    fn call(&self, method: &str, state: &Value, input: &Value) -> Result<Outcome>;
}

/// The native file type of this name.
pub fn native_type(name: &str) -> Option<Arc<FileType>> {
    static SEQUENCER_TYPE: LazyLock<Arc<FileType>> = LazyLock::new(|| {
        let methods = [("next", Access::Write), ("read", Access::Read)];
        let locking = Locking { mode: Mode::Exclusive, program: None };
        let native = FileType::native(SEQUENCER, &Sequencer, &methods, Survival::Recovered);
        Arc::new(native.lending(locking))
    });
    (name == SEQUENCER).then(|| Arc::clone(&SEQUENCER_TYPE))
}

const SEQUENCER: &str = "native-sequencer";

/// The same as `programs/filetype/sequencer.lua`, which describes it.
#[derive(Debug)]
struct Sequencer;

const RESERVE: u64 = 1_000_000;
const MAX_COUNT: u64 = 1_000_000;
/// The highest position. Programs see positions as doubles, which are exact up to here.
const MAX_POSITION: u64 = 1 << 53;

/// Its state.
struct Positions {
    tail: u64,
    /// All positions that were handed out lie below.
    reserved: u64,
}

impl Positions {
    fn of(state: &Value) -> Result<Self> {
        let number = |name: &str| state.get(name)?.as_u64();
        match (number("tail"), number("reserved")) {
            (Some(tail), Some(reserved)) => Ok(Self { tail, reserved }),
            _ => Err(Error::corrupt("this is no state of a sequencer")),
        }
    }

    fn state(&self) -> Value {
        json!({ "tail": self.tail, "reserved": self.reserved })
    }
}

impl NativeType for Sequencer {
    fn initial(&self) -> Value {
        Positions { tail: 0, reserved: 0 }.state()
    }

    fn recovered(&self, state: &Value) -> Result<Value> {
        let Positions { reserved, .. } = Positions::of(state)?;
        Ok(Positions { tail: reserved, reserved }.state())
    }

    fn call(&self, method: &str, state: &Value, input: &Value) -> Result<Outcome> {
        let mut positions = Positions::of(state)?;
        if method == "read" {
            return Ok(Outcome { state: None, output: positions.tail.into(), must_store: false });
        }
        let count = count_of(input)
            .ok_or_else(|| Error::invalid(format!("say how many, from 1 to {MAX_COUNT}")))?;
        let first = positions.tail;
        if first + count + RESERVE > MAX_POSITION {
            return Err(Error::conflict("all positions are handed out"));
        }
        positions.tail += count;
        let must_store = positions.tail > positions.reserved;
        if must_store {
            positions.reserved = positions.tail + RESERVE;
        }
        Ok(Outcome { state: Some(positions.state()), output: first.into(), must_store })
    }
}

/// How many positions the call asks for: one if the input is null.
fn count_of(input: &Value) -> Option<u64> {
    let count = match input {
        Value::Null => 1,
        other => {
            let number = other.as_f64().filter(|number| number.fract() == 0.0 && *number >= 0.0)?;
            number as u64
        }
    };
    (1..=MAX_COUNT).contains(&count).then_some(count)
}
