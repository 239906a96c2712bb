//! The client of a resource that holds a capability: it runs the methods of the file type itself.
//!
//! A client that calls often asks for a capability with its next call. While it holds one, a task
//! polls the authority. Each answer renews the lease, or says that the capability is revoked. The
//! client returns the capability when it is revoked, after half a second without a call, and when
//! the handle is dropped.
//!
//! **Invariant:** the state that the client returns includes every call that it has answered. If
//! the lease ends while a method runs, the client undoes the change and does not answer the call.

mod held_resource;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use nacre_capability::limits::{LEASE, RENEW_EVERY};
use nacre_capability::{Holder, Time};
use nacre_clock::{Clock, Random};
use nacre_host::{AuthorityClient, Backoff, Question, is_transient, put_header};
use nacre_object::limits::MAX_EXACT_INTEGER;
use nacre_object::{Error, ErrorKind, Result};
use serde_json::Value;
use tokio::sync::Notify;
use tokio::time::Instant;

use self::held_resource::HeldResource;
use crate::client::{ASK_PATIENCE, decode};
use crate::filetype::{Access, FileType, Resident, native_type};
use crate::question::{Acquire, Acquired, Asked, Call, Granted, Hold, News, Returned, json};
use crate::{ResourceName, ResourceRecord};

/// A client that makes this many calls within [`CALLS_WITHIN`] also asks for a capability. A client
/// that calls rarely would gain nothing from a capability.
const CALLS_BEFORE: u32 = 4;
const CALLS_WITHIN: Duration = Duration::from_secs(1);
/// The client returns a capability that it has not used for this long. If an idle client's process
/// then dies, other clients need not wait for the end of a lease.
const IDLE: Duration = Duration::from_millis(500);
/// How many times the client tries to return a grant. After that the authority waits for the end of
/// the lease.
const RETURN_ATTEMPTS: usize = 3;
/// How many grants one call asks for, if each ends before the call has run. After that the
/// authority runs the call.
const MAX_GRANTS: usize = 3;

/// The side of one handle.
pub(crate) struct Holding {
    /// The number that identifies this client.
    client: u64,
    authority: Arc<AuthorityClient<ResourceRecord, ()>>,
    clock: Arc<dyn Clock>,
    started: Instant,
    state: Mutex<State>,
    /// Wakes the task that polls the authority.
    ending: Notify,
    /// Locked while a call of this handle goes to the authority. The authority remembers only the
    /// last answer to each handle, so a handle may have only one such call. Also locked while a
    /// grant begins or ends.
    turn: tokio::sync::Mutex<()>,
    attempts: Attempts,
}

struct State {
    held: Option<HeldResource>,
    /// A grant that has ended, until the authority has acknowledged its return.
    unreturned: Option<Returned>,
    /// The file type that was compiled last.
    compiled: Option<Arc<FileType>>,
    is_closed: bool,
    /// Until then the client asks for no capability.
    again_at: Instant,
    /// How many calls went to the authority since `calls_since`.
    calls: u32,
    calls_since: Instant,
    /// Whether the authority's node does not support capabilities, or this client may hold none.
    is_unsupported: bool,
}

/// Numbers of attempts to get a capability.
#[derive(Default)]
struct Attempts {
    number: AtomicU64,
    /// When the last one was sent, in microseconds.
    sent: AtomicU64,
}

/// The result of a call that ran in this process.
enum Run {
    /// The call ran.
    Done(Result<Value>),
    /// This client may not run the call.
    NotHeld,
    /// The call ran, but counts only once this state is stored.
    Store(Value, Value),
}

/// The request for a capability. Each attempt has its own number.
struct Acquiring<'a> {
    holding: &'a Holding,
    call: &'a Call,
    returned: Option<Returned>,
}

impl Question<ResourceName> for Acquiring<'_> {
    fn method(&self) -> &'static str {
        "acquire"
    }

    fn encode(&self, name: &ResourceName, epoch: u64) -> Bytes {
        let Self { holding, call, returned } = self;
        let number = holding.attempts.number.fetch_add(1, Ordering::AcqRel) + 1;
        // Read the clock before the request is sent, because the lease counts from this time.
        let sent = holding.now().as_micros() as u64;
        holding.attempts.sent.store(sent, Ordering::Release);
        let compiled = holding.state().compiled.as_ref().map(|compiled| compiled.digest().into());
        let (returned, call) = (returned.clone(), (*call).clone());
        let mut input = BytesMut::new();
        put_header(&mut input, name.as_str(), epoch);
        input.put_slice(&json(&Acquire { number, compiled, returned, call }));
        input.freeze()
    }
}

impl Holding {
    pub fn new(
        authority: Arc<AuthorityClient<ResourceRecord, ()>>,
        clock: Arc<dyn Clock>,
    ) -> Arc<Self> {
        let now = Instant::now();
        let state = State {
            held: None,
            unreturned: None,
            compiled: None,
            is_closed: false,
            again_at: now,
            calls: 0,
            calls_since: now,
            is_unsupported: false,
        };
        Arc::new(Self {
            client: 1 + Random::from_system().below(MAX_EXACT_INTEGER - 1),
            authority,
            clock,
            started: now,
            state: Mutex::new(state),
            ending: Notify::new(),
            turn: tokio::sync::Mutex::default(),
            attempts: Attempts::default(),
        })
    }

    /// The number that tells this client from all others.
    pub fn client(&self) -> u64 {
        self.client
    }

    fn now(&self) -> Time {
        self.started.elapsed()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a call here, if this client holds the capability and can run the call without a wait.
    pub fn call_at_once(&self, method: &str, input: &Value) -> Option<Result<Value>> {
        match self.run(method, input, Stores::Refused) {
            Run::Done(answered) => Some(answered),
            Run::NotHeld | Run::Store(..) => None,
        }
    }

    /// Runs a call here or has the authority run it.
    pub async fn call(self: &Arc<Self>, call: &Call, deadline: Instant) -> Result<Value> {
        let _turn = self.turn.lock().await;
        for _ in 0..=MAX_GRANTS {
            match self.run(&call.method, &call.input, Stores::Allowed) {
                Run::Done(answered) => return answered,
                Run::Store(state, output) => {
                    if self.store(state).await {
                        return Ok(output);
                    }
                }
                Run::NotHeld => {}
            }
            let returned = self.end();
            let wants = self.wants();
            if returned.is_none() && !wants {
                return self.call_of_authority(call, deadline).await;
            }
            let question = Acquiring { holding: self, call, returned };
            let (answer, _) = match self.authority.ask(&question, ASK_PATIENCE, deadline).await {
                Ok(answered) => answered,
                // The request may fail for three reasons: the node runs an earlier release without
                // capabilities, the client has only the right to `call`, or the method itself
                // refused the call.
                Err(error)
                    if matches!(error.kind(), ErrorKind::Unsupported | ErrorKind::Denied) =>
                {
                    let called = self.call_of_authority(call, deadline).await;
                    self.state().is_unsupported |= called.is_ok();
                    return called;
                }
                Err(error) => return Err(error),
            };
            self.state().unreturned = None;
            match decode(&answer)? {
                Acquired::Served { answer, again_ms } => {
                    self.state().again_at = Instant::now() + Duration::from_millis(again_ms);
                    return Ok(answer.output);
                }
                Acquired::Granted(granted) => self.hold(*granted)?,
            }
        }
        // Answers take longer to arrive than grants last, so a grant gains nothing.
        self.return_grant().await;
        self.call_of_authority(call, deadline).await
    }

    async fn call_of_authority(&self, call: &Call, deadline: Instant) -> Result<Value> {
        let asked = self.authority.ask(&Asked::Call(call), ASK_PATIENCE, deadline).await;
        let answer: crate::question::Answer = decode(&asked?.0)?;
        Ok(answer.output)
    }

    /// Runs a method on this client's copy of the state.
    fn run(&self, method: &str, input: &Value, stores: Stores) -> Run {
        let mut state = self.state();
        if state.held.as_ref().is_some_and(HeldResource::is_lost) {
            // The client has lost the changed state. If it returned the grant, the authority would
            // continue from an older state. So the client stays silent; the authority evicts it and
            // recovers the state.
            (state.held, state.is_unsupported) = (None, true);
        }
        let Some(held) = state.held.as_mut().filter(|held| !held.is_storing) else {
            return Run::NotHeld;
        };
        match held.file_type.methods().get(method) {
            Some(Access::Read) => {}
            Some(Access::Write) if held.is_exclusive => {}
            // A later version of the file type may have it.
            _ => return Run::NotHeld,
        }
        if held.holder.take(self.now(), 1).is_err() {
            return Run::NotHeld;
        }
        let ran = held.call(method, input, &self.clock);
        // The method may have taken long.
        let is_live = held.holder.is_live(self.now());
        match ran {
            Ok(ran) if is_live && !ran.must_store => {
                if let Some(changed) = ran.changed {
                    held.value = Some(changed);
                }
                held.is_changed |= ran.is_change;
                Run::Done(Ok(ran.output))
            }
            Ok(ran) if is_live => match held.take_back(ran.changed) {
                Some(changed) => {
                    held.is_storing = stores == Stores::Allowed;
                    // The authority may store the changed state even if the caller stops waiting.
                    // So the grant must be returned as one that changed the state.
                    held.is_changed |= held.is_storing;
                    Run::Store(changed, ran.output)
                }
                None => Run::NotHeld,
            },
            Err(error) if is_live => Run::Done(Err(error)),
            Ok(ran) => {
                held.take_back(ran.changed);
                Run::NotHeld
            }
            Err(_) => Run::NotHeld,
        }
    }

    /// Asks the authority to store a changed state. Returns whether it did.
    ///
    /// If the answer is lost, the authority may have stored the changed state. So the caller
    /// returns the grant with the state from before the call, and the authority stores that
    /// instead.
    async fn store(&self, changed: Value) -> bool {
        let told = match &self.state().held {
            Some(held) => held.told(self.client, Some(changed.clone())),
            None => return false,
        };
        let number = told.number;
        let stored = self.authority.ask_now(&Asked::Store(&told), ASK_PATIENCE).await;
        let mut state = self.state();
        let held = state.held.as_mut().filter(|held| held.holder.number() == number);
        match (held, stored) {
            (Some(held), Ok(_)) => {
                held.is_storing = false;
                held.replace(changed, &self.clock);
                true
            }
            (Some(_), Err(_)) => false,
            (None, stored) => stored.is_ok(),
        }
    }

    /// Whether to ask for a capability with the next call.
    fn wants(&self) -> bool {
        let now = Instant::now();
        let mut state = self.state();
        if now - state.calls_since > CALLS_WITHIN {
            (state.calls, state.calls_since) = (0, now);
        }
        state.calls = state.calls.saturating_add(1);
        !state.is_unsupported && state.calls > CALLS_BEFORE && now >= state.again_at
    }

    /// Begins to hold a capability, so that later calls run in this process.
    ///
    /// # Errors
    /// `Unavailable` if this process cannot compile the file type.
    fn hold(self: &Arc<Self>, granted: Granted) -> Result<()> {
        let sent = Duration::from_micros(self.attempts.sent.load(Ordering::Acquire));
        let lease = Duration::from_micros(granted.lease_us);
        let file_type = match self.compiled(&granted) {
            Ok(file_type) => file_type,
            Err(error) => {
                let mut state = self.state();
                state.is_unsupported = true;
                state.unreturned = Some(Returned {
                    client: self.client,
                    number: granted.number,
                    operations: 0,
                    state: None,
                    type_version: granted.type_version,
                });
                return Err(Error::unavailable(format!("the file type does not compile: {error}")));
            }
        };
        let number = granted.number;
        let seen_as = (&*granted.entity, &*granted.tenant);
        // Without a `Resident`, each call loads the program again.
        let resident = Resident::load(&file_type, &granted.state, seen_as, &self.clock);
        let resident = resident.ok().flatten();
        let held = HeldResource {
            holder: Holder::new(number, sent, lease, granted.operations),
            is_exclusive: granted.is_exclusive,
            file_type,
            entity: granted.entity,
            tenant: granted.tenant,
            value: Some(granted.state),
            resident,
            is_changed: false,
            is_storing: false,
            told: 0,
            idle_since: self.now(),
        };
        self.state().held = Some(held);
        tokio::spawn(Arc::clone(self).ask_for_news(number));
        Ok(())
    }

    /// Returns the compiled file type of a grant. Reuses the last compiled one if it is the same.
    fn compiled(&self, granted: &Granted) -> Result<Arc<FileType>> {
        let (name, version) = (&granted.file_type, granted.type_version);
        if let Some(native) = native_type(name).filter(|native| native.version() == version) {
            return Ok(native);
        }
        let at_hand = self.state().compiled.clone();
        let source = match (&granted.source, &at_hand) {
            (Some(source), _) => source.clone(),
            (None, Some(at_hand)) if at_hand.name() == name && at_hand.version() == version => {
                return Ok(Arc::clone(at_hand));
            }
            (None, at_hand) => {
                let at_hand = at_hand.as_ref().and_then(|at_hand| at_hand.source());
                at_hand.ok_or_else(|| Error::corrupt("the grant contains no file type"))?.to_owned()
            }
        };
        let compiled = Arc::new(FileType::compile(name, version, source, &self.clock)?);
        self.state().compiled = Some(Arc::clone(&compiled));
        Ok(compiled)
    }

    /// Ends the grant, if there is one. Returns what the caller must send to the authority to
    /// return the grant.
    fn end(&self) -> Option<Returned> {
        let mut state = self.state();
        if let Some(mut held) = state.held.take() {
            held.holder.end();
            state.unreturned = held.returned(self.client);
            self.ending.notify_one();
        }
        state.unreturned.clone()
    }

    /// Gives the grant back for good.
    pub fn close(&self) {
        self.state().is_closed = true;
        self.ending.notify_one();
    }

    /// Gives the grant back, if there is one.
    pub async fn give_back(&self) {
        let _turn = self.turn.lock().await;
        self.return_grant().await;
    }

    /// As [`Self::give_back`], for a caller that holds `turn`.
    async fn return_grant(&self) {
        let Some(returned) = self.end() else { return };
        let mut backoff = Backoff::new();
        for _ in 0..RETURN_ATTEMPTS {
            let told = self.authority.ask_now(&Asked::Return(&returned), LEASE).await;
            // Any other error means that the node is no longer the authority, so the grant has
            // ended.
            if told.is_ok() || told.is_err_and(|error| error.kind() != ErrorKind::Unavailable) {
                self.state().unreturned = None;
                return;
            }
            backoff.wait().await;
        }
    }

    /// Asks for news until the grant has ended.
    async fn ask_for_news(self: Arc<Self>, number: u64) {
        let mut backoff = Backoff::new();
        while let Some(hold) = self.report(number) {
            let (sent, question) = (self.now(), Asked::Hold(&hold));
            let answer = tokio::select! {
                answer = self.authority.ask_now(&question, RENEW_EVERY + LEASE) => answer,
                () = self.ending.notified() => continue,
            };
            let answer = answer.and_then(|(answer, _)| decode::<Option<News>>(&answer));
            match answer {
                Ok(Some(news)) => {
                    backoff = Backoff::new();
                    if let Some(held) = self.state().held_as(number) {
                        held.holder.renew(sent, Duration::from_micros(news.lease_us));
                    }
                }
                Ok(None) => break,
                // The authority's node may answer again before the lease is over.
                Err(error) if is_transient(&error) && error.kind() != ErrorKind::Stale => {
                    let now = self.now();
                    let is_live = |held: &mut HeldResource| held.holder.is_live(now);
                    if !self.state().held_as(number).is_some_and(is_live) {
                        break;
                    }
                    backoff.wait().await;
                }
                Err(_) => break,
            }
        }
        if self.state().held_as(number).is_some() {
            self.give_back().await;
        }
    }

    /// Returns the next poll of the authority. Returns `None` if the grant has ended, or if the
    /// client must return it now: the handle is dropped or idle, or the operations of the grant are
    /// done.
    fn report(&self, number: u64) -> Option<Hold> {
        let (now, mut state) = (self.now(), self.state());
        let is_closed = state.is_closed;
        let held = state.held_as(number)?;
        let operations = held.holder.operations();
        if operations != held.told {
            (held.told, held.idle_since) = (operations, now);
        }
        let is_idle = now >= held.idle_since + IDLE;
        if is_closed || is_idle || held.holder.is_spent() {
            return None;
        }
        Some(Hold { client: self.client, number, operations })
    }
}

/// Whether a call may ask the authority to store its change.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stores {
    Allowed,
    Refused,
}

impl State {
    fn held_as(&mut self, number: u64) -> Option<&mut HeldResource> {
        self.held.as_mut().filter(|held| held.holder.number() == number)
    }
}
