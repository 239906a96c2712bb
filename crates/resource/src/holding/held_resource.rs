//! `HeldResource`: the state of a resource while this client holds a capability of it.

use std::sync::Arc;

use nacre_capability::{Holder, Time};
use nacre_clock::Clock;
use nacre_object::{Error, ErrorKind, Result};
use serde_json::Value;

use crate::filetype::{Access, FileType, MethodCall, Outcome, Resident};
use crate::question::Returned;

/// The state of a resource at a client that holds a capability of it.
pub(super) struct HeldResource {
    pub holder: Holder,
    pub is_exclusive: bool,
    pub file_type: Arc<FileType>,
    /// As whom the methods see this client.
    pub entity: String,
    pub tenant: String,
    /// The state. `None` if the state is in `resident`, or if the VM has lost it. If the VM has
    /// lost it, the client never returns the grant.
    pub value: Option<Value>,
    pub resident: Option<Resident>,
    pub is_changed: bool,
    /// Whether a call waits for the store: no other runs meanwhile.
    pub is_storing: bool,
    /// How many operations the holder last reported to the authority.
    pub told: u64,
    pub idle_since: Time,
}

/// What a call came to that was run here.
pub(super) struct Ran {
    pub output: Value,
    pub is_change: bool,
    /// The changed state, unless the resident has it.
    pub changed: Option<Value>,
    pub must_store: bool,
}

impl HeldResource {
    /// Runs a method. It is one that this client may run.
    pub fn call(&mut self, method: &str, input: &Value, clock: &Arc<dyn Clock>) -> Result<Ran> {
        let now_micros = clock.now_micros();
        let is_change = self.file_type.methods().get(method) == Some(&Access::Write);
        if let Some(resident) = &mut self.resident {
            match resident.call(method, input, now_micros) {
                Ok(Outcome { output, must_store, .. }) => {
                    return Ok(Ran { output, is_change, changed: None, must_store });
                }
                // A refusal of the method.
                Err(error) if !matches!(error.kind(), ErrorKind::Fault | ErrorKind::Exhausted) => {
                    return Err(error);
                }
                // A program that keeps something between calls fails only here.
                Err(_) => self.unload(),
            }
        }
        let (client, tenant) = (&*self.entity, &*self.tenant);
        let call = MethodCall { method, input, client, tenant, now_micros };
        let value = self.value.as_ref().ok_or_else(lost)?;
        let outcome = self.file_type.call(&call, value, clock)?;
        let Outcome { state: changed, output, must_store } = outcome;
        Ok(Ran { output, is_change, changed, must_store })
    }

    /// Undoes the last call that changed the state. Returns the changed state.
    pub fn take_back(&mut self, changed: Option<Value>) -> Option<Value> {
        let Some(resident) = &mut self.resident else { return changed };
        let changed = resident.state().ok();
        if resident.undo().is_err() {
            self.unload();
        }
        changed
    }

    /// From now on, each call loads the program again.
    pub fn unload(&mut self) {
        if let Some(resident) = self.resident.take() {
            self.value = resident.state().ok();
        }
    }

    /// Continues with another state.
    pub fn replace(&mut self, value: Value, clock: &Arc<dyn Clock>) {
        if self.resident.is_some() {
            let seen_as = (&*self.entity, &*self.tenant);
            self.resident = Resident::load(&self.file_type, &value, seen_as, clock).ok().flatten();
        }
        (self.value, self.is_changed) = (Some(value), true);
    }

    pub fn is_lost(&self) -> bool {
        self.resident.is_none() && self.value.is_none()
    }

    /// Returns the present state, or `None` if the VM has lost it.
    pub fn state(&self) -> Option<Value> {
        match &self.resident {
            Some(resident) => resident.state().ok(),
            None => self.value.clone(),
        }
    }

    /// Returns the message that ends the grant at the authority. Returns `None` if the state is
    /// lost.
    pub fn returned(&self, client: u64) -> Option<Returned> {
        let state = match self.is_changed && self.is_exclusive {
            true => Some(self.state()?),
            false => None,
        };
        Some(self.told(client, state))
    }

    pub fn told(&self, client: u64, state: Option<Value>) -> Returned {
        Returned {
            client,
            number: self.holder.number(),
            operations: self.holder.operations(),
            state,
            type_version: self.file_type.version(),
        }
    }
}

fn lost() -> Error {
    Error::unavailable("this process has lost the state for which it held a capability")
}
