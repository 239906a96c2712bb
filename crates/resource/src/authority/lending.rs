//! The capabilities of a resource. A client that holds one runs the methods of the file type
//! itself.
//!
//! 1. A client sends a call and asks for a capability. It gets the capability with the state, or
//!    the authority runs the call, or the client waits until a holder returns its grant.
//! 2. The holder of the exclusive capability changes its copy of the state. Holders of shared ones
//!    only read their copies.
//! 3. A holder returns its grant, with the state if it has changed the state.
//! 4. If a holder does not return its grant in time, the node evicts the holder: it claims the
//!    resource again. The changes of an evicted holder are lost, like those of an authority that
//!    died. The file type recovers the state.
//!
//! **Invariant:** the authority takes a state only from the holder of the current exclusive grant.

use std::time::Duration;

use nacre_capability::limits::LEASE;
use nacre_capability::{Asker, Command, Event, Mode, Terms, Time, Wish};
use nacre_object::{Error, Result};

use super::host::ResourceEnv;
use super::machine::{Caller, ResourceMachine, Uses};
use crate::filetype::{Access, FileType};
use crate::question::{Acquire, Answer, Call, Granted, Hold, News, Returned};

/// A call that has no answer yet.
#[derive(Debug)]
pub(crate) struct Waiting {
    caller: Caller,
    call: Call,
    /// What the client would rather have.
    acquire: Option<Wanted>,
    since: Time,
}

/// A capability that a client asks for.
#[derive(Debug, Clone)]
pub(crate) struct Wanted {
    number: u64,
    compiled: Option<String>,
}

impl Wanted {
    pub fn of(acquire: &Acquire) -> Self {
        Self { number: acquire.number, compiled: acquire.compiled.clone() }
    }
}

/// What a call came to.
#[derive(Debug)]
pub(crate) enum Reply {
    /// The authority ran the call. The client may get the answer once answer `number` is confirmed.
    Served { answer: Answer, again: Duration, number: u64 },
    /// The client gets a capability once answer `number` is confirmed, and then runs the call
    /// itself.
    Granted { client: u64, granted: Box<Granted>, number: u64 },
    /// The call failed, or a later request of the client was answered, or too many clients wait.
    Failed(Error),
}

impl ResourceMachine {
    /// Takes a call. Returns a ticket, by which the caller fetches the answer later.
    ///
    /// # Errors
    /// `Unsupported` if the file type has no active version that can run on the state; those of
    /// `init` and of the recovery function.
    pub fn ask(
        &mut self,
        now: Time,
        (env, uses): (&ResourceEnv, &Uses),
        caller: Caller,
        call: Call,
        acquire: Option<Wanted>,
    ) -> Result<u64> {
        self.follow_type(now, (env, uses))?;
        let file_type = self.file_type(env)?;
        if !self.lending.is_lent() {
            self.state_for(&file_type, &env.clock)?;
        }
        let wish = wish(&file_type, &call.method, acquire.is_some());
        let number = acquire.as_ref().map_or(0, |wanted| wanted.number);
        let client = call.client;
        let Caller { entity, tenant } = caller.clone();
        let ticket = self.lending.keep(Waiting { caller, call, acquire, since: now });
        let asker = Asker { client, entity, tenant };
        self.handle(now, (env, uses), Event::Asked { ticket, asker, wish, number });
        Ok(ticket)
    }

    /// Forgets a call whose client no longer waits for the answer. If the answer was a grant, the
    /// grant ends, because the client never learnt of it.
    pub fn withdraw(&mut self, now: Time, on: (&ResourceEnv, &Uses), ticket: u64) {
        if self.lending.forget(ticket) {
            self.handle(now, on, Event::Withdrawn { ticket });
        }
        if let Some(Reply::Granted { client, granted, .. }) = self.lending.fetch(ticket) {
            let number = granted.number;
            self.handle(now, on, Event::Returned { client, number, operations: 0 });
        }
    }

    /// Takes a holder's poll. Returns whether the grant still exists.
    pub fn hear(&mut self, now: Time, on: (&ResourceEnv, &Uses), hold: &Hold) -> bool {
        let Hold { client, number, operations } = *hold;
        if self.lending.authority().granted(client, number).is_none() {
            return false;
        }
        self.handle(now, on, Event::Heard { client, number, operations, answered: 0 });
        let commands = self.lending.reconsider(now);
        self.carry_out(now, on, commands);
        true
    }

    /// Returns the answer to a holder's poll, which came at `received`. Returns `None` if the grant
    /// is revoked or has ended.
    pub fn news(
        &mut self,
        now: Time,
        on: (&ResourceEnv, &Uses),
        received: Time,
        hold: &Hold,
    ) -> Option<News> {
        let Hold { client, number, operations } = *hold;
        // The lease begins again now, when the answer is sent.
        self.handle(now, on, Event::Heard { client, number, operations, answered: 0 });
        let granted = self.lending.authority().granted(client, number)?;
        let lease = LEASE + now.saturating_sub(received);
        (!granted.is_revoked()).then_some(News { lease_us: lease.as_micros() as u64 })
    }

    /// Ends a grant that its holder returns, and takes the holder's state. If the grant has ended
    /// already, nothing changes.
    pub fn take_back(&mut self, now: Time, on: (&ResourceEnv, &Uses), returned: Returned) {
        let Returned { client, number, operations, state, type_version } = returned;
        let Some(granted) = self.lending.authority().granted(client, number) else { return };
        if let Some(state) = state.filter(|_| granted.mode() == Mode::Exclusive) {
            self.accept(state, type_version, false);
        }
        self.handle(now, on, Event::Returned { client, number, operations });
    }

    /// Takes a state that the holder of the exclusive capability wants stored. Returns a number;
    /// the holder gets its answer once the answers up to this number are confirmed.
    ///
    /// # Errors
    /// `Stale` if the grant has ended. The state is then not taken.
    pub fn store_for_holder(&mut self, told: Returned) -> Result<u64> {
        let granted = self.lending.authority().granted(told.client, told.number);
        let is_holder = granted.is_some_and(|granted| granted.mode() == Mode::Exclusive);
        let (true, Some(state)) = (is_holder, told.state) else {
            return Err(Error::stale("the capability has ended").hint("call the method anew"));
        };
        self.accept(state, told.type_version, true);
        Ok(self.next_answer())
    }

    /// Does what is due.
    pub fn tick(&mut self, now: Time, on: (&ResourceEnv, &Uses)) {
        self.handle(now, on, Event::Tick);
    }

    /// Revokes all grants, and makes no new ones until `unbar` is called.
    pub fn bar(&mut self, now: Time, on: (&ResourceEnv, &Uses)) {
        let commands = self.lending.bar(now);
        self.carry_out(now, on, commands);
    }

    /// Switches to the active version of the file type. Revokes the capabilities that were granted
    /// for another version, because their holders run that version.
    ///
    /// # Errors
    /// `Unsupported` if no version is active.
    pub fn follow_type(&mut self, now: Time, on: (&ResourceEnv, &Uses)) -> Result<()> {
        let file_type = self.file_type(on.0);
        let version = file_type.as_ref().map_or(0, |file_type| file_type.version());
        if version != self.lent_version {
            self.lent_version = version;
            let locking = file_type.as_ref().ok().and_then(|file_type| file_type.locking());
            let program = locking.and_then(|locking| locking.program.as_ref());
            self.lending.go_by(program.map(|program| program.as_str()));
            let commands = self.lending.revoke(now);
            self.carry_out(now, on, commands);
        }
        file_type.map(drop)
    }

    fn handle(&mut self, now: Time, on: (&ResourceEnv, &Uses), event: Event) {
        let commands = self.lending.handle(now, event);
        self.carry_out(now, on, commands);
    }

    fn carry_out(&mut self, now: Time, on: (&ResourceEnv, &Uses), commands: Vec<Command>) {
        for command in commands {
            match command {
                Command::Grant { ticket, number, mode, terms } => {
                    self.grant(now, on, ticket, (number, mode, terms));
                }
                Command::Serve { ticket, again } => {
                    let Some(waiting) = self.lending.waiting(ticket) else { continue };
                    let (caller, call) = (waiting.caller.clone(), waiting.call.clone());
                    let reply = match self.call(on.0, on.1, &caller, &call) {
                        Ok(answer) => Reply::Served { answer, again, number: self.next_answer() },
                        Err(error) => Reply::Failed(error),
                    };
                    self.lending.answer(ticket, reply);
                }
                Command::Refuse { ticket } => {
                    let late = Error::stale("a later request of the client was answered");
                    self.lending.answer(ticket, Reply::Failed(late));
                }
                Command::Busy { ticket } => {
                    let busy = nacre_host::busy("too many clients wait for the resource");
                    self.lending.answer(ticket, Reply::Failed(busy));
                }
                // Nothing to do here. The task that answers the holder's poll sees the revocation,
                // and another task evicts the holder.
                Command::Revoke { .. } | Command::Evict { .. } => {}
            }
        }
    }

    /// Grants a capability, unless the call was answered before or there is no usable state.
    fn grant(
        &mut self,
        now: Time,
        on: (&ResourceEnv, &Uses),
        ticket: u64,
        (number, mode, terms): (u64, Mode, Terms),
    ) {
        let Some(waiting) = self.lending.waiting(ticket) else { return };
        let Waiting { caller, call, acquire: Some(wanted), since } = waiting else { return };
        let (caller, call, wanted, since) = (caller.clone(), call.clone(), wanted.clone(), *since);
        let reply = match self.granted(on.0, &caller, &call, &wanted, (number, mode, terms)) {
            Ok(Some(mut granted)) => {
                let lease = LEASE + now.saturating_sub(since);
                granted.lease_us = lease.as_micros() as u64;
                self.note_grant(mode);
                let number = self.next_answer();
                let (client, granted) = (call.client, Box::new(granted));
                self.lending.answer(ticket, Reply::Granted { client, granted, number });
                return;
            }
            Ok(None) => match self.call(on.0, on.1, &caller, &call) {
                Ok(answer) => {
                    Reply::Served { answer, again: Duration::ZERO, number: self.next_answer() }
                }
                Err(error) => Reply::Failed(error),
            },
            Err(error) => Reply::Failed(error),
        };
        self.lending.answer(ticket, reply);
        self.handle(now, on, Event::Returned { client: call.client, number, operations: 0 });
    }

    /// Makes the message to the holder of a new grant. Returns `None` if the holder's call was
    /// answered before, because a call must not run twice.
    fn granted(
        &mut self,
        env: &ResourceEnv,
        caller: &Caller,
        call: &Call,
        wanted: &Wanted,
        (number, mode, terms): (u64, Mode, Terms),
    ) -> Result<Option<Granted>> {
        let file_type = self.file_type(env)?;
        let current = self.state_for(&file_type, &env.clock)?;
        if current.told(&call.remembered_as(&caller.entity), call.number)?.is_some() {
            return Ok(None);
        }
        let state = current.state.clone();
        let type_version = file_type.version();
        let is_compiled = wanted.compiled.as_deref() == Some(file_type.digest());
        Ok(Some(Granted {
            number,
            is_exclusive: mode == Mode::Exclusive,
            lease_us: 0,
            operations: terms.operations,
            state,
            file_type: file_type.name().to_owned(),
            type_version,
            source: file_type.source().filter(|_| !is_compiled).map(str::to_owned),
            entity: caller.entity.to_string(),
            tenant: caller.tenant.to_string(),
        }))
    }
}

/// Returns what to ask the policy for when a client calls a method: a capability, if the client
/// wants one and the file type offers one that allows the method. Otherwise one operation.
fn wish(file_type: &FileType, method: &str, wants_capability: bool) -> Wish {
    let access = file_type.methods().get(method);
    let most = file_type.most_granted().filter(|_| wants_capability && access.is_some());
    match (most, access == Some(&Access::Write)) {
        (Some(_), false) => Wish::Shared,
        (Some(Mode::Exclusive), true) => Wish::Exclusive,
        (_, true) => Wish::Write,
        (None, false) => Wish::Read,
    }
}
