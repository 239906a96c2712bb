//! `ResourceMachine`: a resource that a node serves.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use nacre_capability::limits::LEASE;
use nacre_capability::{Lending, Mode, Time};
use nacre_clock::Clock;
use nacre_host::{Machine, Record, Serving};
use nacre_object::{Error, ErrorKind, Result};

use super::host::ResourceEnv;
use super::lending::{Reply, Waiting};
use crate::filetype::{FileType, MethodCall, Outcome, Survival, native_type};
use crate::question::{Answer, Call};
use crate::{ResourceRecord, Stored};

/// A resource that a node serves.
///
/// **Invariants:**
/// - A client gets an answer only if this node was the authority when the answer was made.
/// - An answer depends only on stored changes. File types that repair their state after a failure
///   (`Survival::Recovered`) are the exception. Before the first answer to a change that is not
///   stored, the stored state is marked with [`Stored::is_behind`].
/// - While a client may hold a capability, the stored state is marked with [`Stored::is_lent`].
#[derive(Debug)]
pub struct ResourceMachine {
    serving: Serving<ResourceRecord>,
    /// The state, including changes that are not stored yet. `None` before the first call of a new
    /// resource.
    pub(crate) current: Option<Stored>,
    /// The last change that is stored.
    pub(crate) stored_version: u64,
    /// Answers wait until all changes up to this version are stored.
    pub(crate) store_through: u64,
    /// Whether the recovery function of the file type must run before any method.
    must_recover: bool,
    /// Counts the answers, in the order in which they were found.
    pub(crate) answers: u64,
    /// Clients may get answers up to this number. The changes that these answers depend on are
    /// stored, and this node was still the authority when it made them.
    pub(crate) confirmed: u64,
    /// The epoch of the map that the next change follows.
    pub(crate) map_epoch: u64,
    is_held: bool,
    /// The clients that hold capabilities, and the requests that wait.
    pub(crate) lending: Lending<Waiting, Reply>,
    /// The version of the file type by which capabilities are granted.
    pub(crate) lent_version: u64,
    /// A former authority may have granted leases, which are over at this time. Until then this
    /// machine answers no request.
    pub(crate) quiet_until: Option<Time>,
}

/// The client that makes a call.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    /// The authenticated entity.
    pub entity: Arc<str>,
    /// Whose requests these are.
    pub tenant: Arc<str>,
}

/// How many times the methods of a resource were called since the node started.
#[derive(Debug, Default)]
pub(crate) struct Uses {
    pub reads: AtomicU64,
    pub writes: AtomicU64,
}

impl ResourceMachine {
    /// The machine that a recovery found at `now`.
    pub(crate) fn new(record: ResourceRecord, found: Found, env: &ResourceEnv, now: Time) -> Self {
        let current = found.stored.filter(|stored| stored.born == record.born());
        let stored_version = current.as_ref().map_or(0, |stored| stored.version);
        let (map_epoch, serving) = (found.map_epoch, Serving::new(record));
        let must_recover = current.as_ref().is_some_and(|stored| stored.is_behind);
        let is_lent = current.as_ref().is_some_and(|stored| stored.is_lent);
        let (answers, confirmed, is_held, lent_version) = Default::default();
        Self {
            serving,
            current,
            stored_version,
            store_through: stored_version,
            must_recover,
            answers,
            confirmed,
            map_epoch,
            is_held,
            lending: Lending::by(Arc::clone(&env.policies), None),
            lent_version,
            quiet_until: is_lent.then_some(now + LEASE),
        }
    }

    /// Whether leases that a former authority gave may still run.
    pub(crate) fn is_quiet(&self, now: Time) -> bool {
        self.quiet_until.is_some_and(|until| now < until)
    }

    /// Whether calls wait.
    pub(crate) fn is_held(&self) -> bool {
        self.is_held
    }

    /// The number of an answer that has just been found.
    pub(crate) fn next_answer(&mut self) -> u64 {
        self.answers += 1;
        self.answers
    }

    /// Whether a change for which answers wait is not stored yet.
    pub(crate) fn is_ahead(&self) -> bool {
        self.store_through > self.stored_version
    }

    /// The name of the file type.
    pub(crate) fn serving_type(&self) -> &str {
        self.serving.record().file_type().as_str()
    }

    /// Returns the version of the file type that runs on this node.
    ///
    /// # Errors
    /// `Unsupported` if no version runs here.
    pub(crate) fn file_type(&self, env: &ResourceEnv) -> Result<Arc<FileType>> {
        let name = self.serving_type();
        let live = native_type(name).or_else(|| env.file_types.get(name));
        live.ok_or_else(|| {
            Error::unsupported(format!("this node runs no version of filetype/{name}")).hint(
                format!("put and activate one: nacre program put filetype/{name} FILE --activate"),
            )
        })
    }

    /// Runs a call. If the call is a repetition, returns the earlier answer instead.
    ///
    /// # Errors
    /// Those of [`ResourceMachine::state_for`], and those of the method.
    pub(crate) fn call(
        &mut self,
        env: &ResourceEnv,
        uses: &Uses,
        caller: &Caller,
        call: &Call,
    ) -> Result<Answer> {
        let file_type = self.file_type(env)?;
        let current = self.state_for(&file_type, &env.clock)?;
        let client = call.remembered_as(&caller.entity);
        if let Some(told) = current.told(&client, call.number)? {
            return Ok(Answer { output: told.output.clone(), version: told.version });
        }
        let method = MethodCall {
            method: &call.method,
            input: &call.input,
            client: &caller.entity,
            tenant: &caller.tenant,
            now_micros: env.clock.now_micros(),
        };
        let called = file_type.call(&method, &current.state, &env.clock);
        let Outcome { state, output, must_store } =
            called.inspect_err(|error| report(env, &file_type, error))?;
        let mut answer = Answer { output, version: current.version };
        let count = match state {
            Some(state) => {
                let (version, output) = (file_type.version(), answer.output.clone());
                current.change(state, version, &client, call.number, output);
                answer.version = current.version;
                self.note_change(file_type.survival(), must_store);
                &uses.writes
            }
            None => &uses.reads,
        };
        count.fetch_add(1, Ordering::Relaxed);
        Ok(answer)
    }

    /// Returns the state, if this version of the file type may run on it. Creates the state of a
    /// new resource, and recovers the state after a takeover.
    ///
    /// # Errors
    /// `Unsupported` if a later version made the state, or if the state must be recovered and this
    /// version cannot do that; those of `init` and of the recovery function.
    pub(crate) fn state_for(
        &mut self,
        file_type: &FileType,
        clock: &Arc<dyn Clock>,
    ) -> Result<&mut Stored> {
        let (born, live) = (self.serving.record().born(), file_type.version());
        if self.current.is_none() {
            let state = file_type.initial(clock)?;
            self.current = Some(Stored { born, state, ..Stored::default() });
        }
        if let Some(current) = &mut self.current {
            if current.type_version > live {
                let then = current.type_version;
                return Err(Error::unsupported(format!(
                    "the state was made by version {then} of its file type, but this node runs version {live}"
                ))
                .hint("activate that version again, or a later one"));
            }
            if self.must_recover {
                current.state = file_type.recovered(&current.state, clock.now_micros(), clock)?;
                (current.version, current.type_version) = (current.version + 1, live);
                (self.store_through, self.must_recover) = (current.version, false);
            }
        }
        if file_type.survival() == Survival::Journaled {
            self.store_all();
        }
        self.current.as_mut().ok_or_else(|| Error::corrupt("the resource has no state in memory"))
    }

    /// Records that the state has changed. The answer waits until the change is stored if
    /// `must_store` is set, or if the type is journaled. The answer to the first change after the
    /// whole state was stored waits, too, until the mark `is_behind` is stored with the change.
    /// Later answers need not wait.
    fn note_change(&mut self, survival: Survival, must_store: bool) {
        let Some(current) = &mut self.current else { return };
        let is_recovered = survival == Survival::Recovered;
        if must_store || !is_recovered || !current.is_behind {
            self.store_through = current.version;
        }
        current.is_behind = is_recovered;
    }

    /// Replaces the state by the state that the holder of the exclusive capability has made.
    pub(crate) fn accept(&mut self, state: serde_json::Value, type_version: u64, must_store: bool) {
        let Some(current) = &mut self.current else { return };
        current.version += 1;
        (current.state, current.type_version) = (state, current.type_version.max(type_version));
        self.note_change(Survival::Recovered, must_store);
    }

    /// Marks the state as lent. The client gets the grant only once the mark is stored.
    pub(crate) fn note_grant(&mut self, mode: Mode) {
        let Some(current) = &mut self.current else { return };
        let is_exclusive = mode == Mode::Exclusive;
        if !current.is_lent || (is_exclusive && !current.is_behind) {
            current.is_lent = true;
            current.is_behind |= is_exclusive;
            current.version += 1;
            self.store_through = current.version;
        }
    }

    /// Makes answers wait until the whole state is stored, so that a successor need not recover it.
    /// Does nothing while this node itself has not recovered the state yet.
    fn store_all(&mut self) {
        let Some(current) = self.current.as_mut().filter(|_| !self.must_recover) else { return };
        if current.is_behind {
            current.is_behind = false;
            current.version += 1;
            self.store_through = current.version;
        }
    }

    /// Prepares the whole state to be stored, so that the successor need neither recover it nor
    /// wait for leases. Does nothing while clients may hold capabilities.
    pub(crate) fn prepare_hand_over(&mut self, now: Time) {
        if self.lending.is_lent() || self.is_quiet(now) {
            return;
        }
        self.store_all();
        if let Some(current) = self.current.as_mut().filter(|current| current.is_lent) {
            current.is_lent = false;
            current.version += 1;
            self.store_through = current.version;
        }
    }
}

impl Machine for ResourceMachine {
    type Record = ResourceRecord;

    fn serving(&self) -> &Serving<ResourceRecord> {
        &self.serving
    }

    fn hold(&mut self) {
        self.is_held = true;
    }

    fn serve(&mut self, stored: ResourceRecord) -> bool {
        self.is_held = false;
        self.serving.go_on_by(stored)
    }
}

/// Reports a fault of the file type. A call that a method refuses is no fault.
fn report(env: &ResourceEnv, file_type: &FileType, error: &Error) {
    let is_fault = matches!(error.kind(), ErrorKind::Fault | ErrorKind::Exhausted);
    if let (true, Some(name)) = (is_fault, file_type.program()) {
        env.faults.report(&name, file_type.version(), error);
    }
}

/// What a recovery found.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// The epoch of the map when the claim and the state were read.
    pub map_epoch: u64,
    /// The state; `None` if none was stored yet.
    pub stored: Option<Stored>,
}
