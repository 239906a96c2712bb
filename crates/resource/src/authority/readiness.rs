//! Whether a resource may answer a client now. If not, what the request waits for.

use nacre_capability::Time;
use nacre_host::{Machine, NotReady};
use nacre_object::Error;

use super::machine::ResourceMachine;

/// Why there is no answer yet.
pub(crate) enum NotYet {
    /// What the host must do first.
    NotReady(NotReady),
    /// What must end first.
    Later(Later),
}

/// What has to end before there is an answer.
pub(crate) enum Later {
    /// The resource is being handed over.
    HandedOver,
    /// Leases that a former authority gave may run until then.
    Quiet(Time),
    /// The version of the file type that runs here cannot run on the state. The error says why.
    NotLive(Error),
}

/// Returns the machine, if it may answer a client whose record has this epoch.
pub(crate) fn ready(
    machine: &mut Option<ResourceMachine>,
    epoch: u64,
    now: Time,
) -> Result<&mut ResourceMachine, NotYet> {
    let machine = machine.as_mut().ok_or(NotYet::NotReady(NotReady::NotServing))?;
    if machine.is_held() {
        return Err(NotYet::Later(Later::HandedOver));
    }
    if let Some(until) = machine.quiet_until.filter(|until| now < *until) {
        return Err(NotYet::Later(Later::Quiet(until)));
    }
    let checked = machine.serving().check(epoch);
    checked.map_err(|refusal| NotYet::NotReady(NotReady::Epoch(refusal)))?;
    Ok(machine)
}
