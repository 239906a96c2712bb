//! `ResourceHost`: what a node runs to serve resources.
//!
//! A call runs on the state in memory. The client gets the answer once the host has *confirmed* it:
//! this node was still the authority when the method ran, and the changes that the answer depends
//! on are stored. A *recovered* file type can repair a state that lacks the last changes, so its
//! methods decide which changes must be stored.
//!
//! One commit confirms all answers before it. If there is nothing to store, one read of the map's
//! epoch confirms them. Answers that are made during a confirmation wait for the next one.
//!
//! **Invariant:** a repeated call gets the same answer as before (see [`Stored`]).
//!
//! **Invariant:** a failed commit ends this authority. The next one reads the stored state, so no
//! answer depends on a lost change, unless the file type is recovered.

use std::pin::pin;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use nacre_capability::{ALONE, Granted, Mode, Policies, Time};
use nacre_clock::Clock;
use nacre_host::{
    BUSY_AFTER, ClientRouting, FORWARD_PATIENCE, Forward, Host, HostTransport, Hosting, Looks,
    Machine, MapRecord, NotReady, Question, Record, RecordStore, Slot, busy, encode_epoch,
    is_transient, split_header,
};
use nacre_object::{EntityName, Error, NodeName, Result, TenantName};
use nacre_registry::{KindFaults, Maps};
use nacre_telemetry::Counter;
use tokio::time::{Instant, sleep, timeout_at};

use super::lending::Wanted;
use super::machine::{Caller, Found, ResourceMachine, Uses};
use super::readiness::{Later, NotYet, ready};
use super::recovery::{MapRead, ResourceRecovery};
use crate::filetype::{Access, LiveFileTypes, Survival};
use crate::limits::{MAX_HOSTED, READ_AGAIN};
use crate::question::{
    Acquire, Acquired, Asked, Call, Forwarded, RESOURCE_SERVICE, Received, ResourceStat, Returned,
    json, parsed,
};
use crate::stored::{STATE_KEY, Stored};
use crate::{ResourceName, ResourceRecord};

/// How long the host waits before it looks again for a file type that this node does not run. If
/// the type has just become active, the node is about to install it.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// What the resources of a node need.
#[derive(Debug, Clone)]
pub struct ResourceEnv {
    /// Where records and states are.
    pub maps: Maps,
    /// The records in them.
    pub records: Arc<dyn RecordStore<ResourceRecord>>,
    /// The transport to other nodes, to hand resources over.
    pub transport: Arc<dyn HostTransport>,
    /// The file types that are live here.
    pub file_types: LiveFileTypes,
    /// The capability programs that are live here.
    pub policies: Arc<dyn Policies>,
    /// Where the faults of file types are reported.
    pub faults: KindFaults,
    /// Time.
    pub clock: Arc<dyn Clock>,
}

/// Who asks.
#[derive(Debug, Clone, Copy)]
pub struct Asker<'a> {
    /// The authenticated entity.
    pub entity: &'a EntityName,
    /// Whose requests these are.
    pub tenant: &'a TenantName,
}

impl<'a> Asker<'a> {
    fn caller(self) -> Caller {
        Caller { entity: self.entity.as_str().into(), tenant: self.tenant.as_str().into() }
    }

    /// Lets a node call in the name of the client whose call it forwards.
    ///
    /// # Errors
    /// `Denied` if the asker is no node. Otherwise any client could call in another client's name.
    fn forwarding_for(self, entity: &'a EntityName, tenant: &'a TenantName) -> Result<Self> {
        match self.entity.is_node() || *self.entity == EntityName::local() {
            true => Ok(Self { entity, tenant }),
            false => Err(Error::denied("only nodes may forward calls of other clients")),
        }
    }
}

/// Serves the resources of a node. A clone is a handle to the same host.
#[derive(Debug, Clone)]
pub struct ResourceHost(pub(crate) Host<Resources>);

/// Resources as a kind of hosted machine.
#[derive(Debug)]
pub(crate) struct Resources {
    env: ResourceEnv,
    /// What times are counted from.
    started: Instant,
    /// Holders that did not return a capability in time.
    pub(super) evictions: Counter,
}

impl Resources {
    fn now(&self) -> Time {
        self.started.elapsed()
    }
}

pub(crate) type ResourceSlot = Slot<Resources>;

/// What a node keeps beside each resource.
#[derive(Debug, Default)]
pub(crate) struct Beside {
    /// Whether answers are being confirmed.
    pub is_confirming: AtomicBool,
    /// The epoch of an authority whose state the store refused for good, and the store's error.
    pub refusal: Mutex<Option<(u64, Error)>>,
    pub uses: Uses,
}

#[async_trait]
impl Hosting for Resources {
    type Record = ResourceRecord;
    type Recovery = ResourceRecovery;
    type Machine = ResourceMachine;
    type Beside = Beside;
    const MAX_HOSTED: usize = MAX_HOSTED;

    fn records(&self) -> &dyn RecordStore<ResourceRecord> {
        &*self.env.records
    }

    async fn carry_out(&self, claimed: ResourceRecord) -> Result<MapRead> {
        let map = match self.env.maps.get(claimed.name().map()).await {
            Ok(map) => map,
            Err(error) if is_transient(&error) => {
                tokio::time::sleep(READ_AGAIN).await;
                return Ok(MapRead::NoAnswer);
            }
            Err(error) => return Err(error),
        };
        let record = map.entries.get(ResourceRecord::KEY);
        let record = record.ok_or_else(|| ResourceRecord::not_found(claimed.name()))?;
        let stored = map.entries.get(STATE_KEY).map(|stored| Stored::decode(stored)).transpose()?;
        let found = Found { map_epoch: map.epoch, stored };
        Ok(MapRead::Read(Box::new(ResourceRecord::decode(record)?), found))
    }

    fn machine(&self, record: ResourceRecord, found: Found) -> ResourceMachine {
        ResourceMachine::new(record, found, &self.env, self.now())
    }

    async fn before_hand_over(host: &Host<Self>, slot: &Arc<ResourceSlot>) {
        let (number, authority) = {
            let mut machine = slot.machine();
            let Some(machine) = machine.as_mut() else { return };
            machine.prepare_hand_over(host.kind().now());
            (machine.next_answer(), machine.serving().authority().epoch)
        };
        // If this fails, the successor recovers the state that was stored last.
        let _ = ResourceHost(host.clone()).until_confirmed(slot, number, authority).await;
    }

    fn gave_up(&self, name: &ResourceName, _: Option<&ResourceRecovery>) -> Error {
        Error::unavailable("the state of the resource was not read in time").on(name)
    }
}

/// The result of an attempt to answer.
enum Attempt<T> {
    /// The answer. The client may get it once this authority has confirmed answer `number`.
    Ready {
        answer: T,
        number: u64,
        authority: u64,
    },
    NotReady(NotReady),
    Later(Later),
}

impl ResourceHost {
    /// The host of a node.
    pub fn new(node: NodeName, env: ResourceEnv) -> Self {
        Self(Host::new(
            node,
            Resources { env, started: Instant::now(), evictions: Counter::default() },
        ))
    }

    pub(crate) fn env(&self) -> &ResourceEnv {
        &self.0.kind().env
    }

    pub(crate) fn now(&self) -> Time {
        self.0.kind().now()
    }

    pub(crate) fn instant(&self, time: Time) -> Instant {
        self.0.kind().started + time
    }

    /// Answers a request that a node receives through [`HostTransport::ask`].
    ///
    /// # Errors
    /// `Stale` if the client must read the record; `NotFound` if there is no such resource; the
    /// errors of the method. After `Unavailable` the call may have been carried out, or may yet be.
    pub async fn handle(&self, asker: Asker<'_>, method: &str, input: &[u8]) -> Result<Bytes> {
        let (name, epoch, rest) = split_header(input)
            .ok_or_else(|| Error::invalid("the request does not name a resource"))?;
        let (name, question) = (ResourceName::new(name)?, Received::decode(method, rest)?);
        let answer = match question {
            Received::Call(call) => self.answer_or_forward(&name, epoch, asker, call).await,
            Received::Forwarded(Forwarded { entity, tenant, call }) => {
                let (entity, tenant) = (EntityName::new(entity)?, TenantName::new(tenant)?);
                let by = asker.forwarding_for(&entity, &tenant)?;
                self.answer_or_forward(&name, epoch, by, call).await
            }
            Received::Acquire(acquire) => {
                self.acquire_or_forward(&name, epoch, asker, acquire).await
            }
            Received::Hold(hold) => self.hold(&name, epoch, &hold).await.map(|news| json(&news)),
            Received::Store(told) => {
                self.answer(&name, |slot| self.store_for_holder(slot, epoch, told.clone())).await
            }
            Received::Return(returned) => {
                self.take_back(&name, epoch, returned).map(|()| json(&()))
            }
            Received::Stat => self.answer(&name, |slot| self.stat(slot, epoch)).await,
            Received::HandOver(to) => {
                self.hand_over(&name, to, ClientRouting::Redirect).await.map(encode_epoch)
            }
            Received::Recover => self.0.recover(&name, epoch).await.map(encode_epoch),
        };
        answer.map_err(|error| error.on(&name))
    }

    /// Runs a call. If this node has handed the resource over in proxy mode, forwards the call
    /// instead.
    async fn answer_or_forward(
        &self,
        name: &ResourceName,
        epoch: u64,
        asker: Asker<'_>,
        call: Call,
    ) -> Result<Bytes> {
        let forwarded = self.forwarded(asker, call.clone());
        let here = async {
            match self.call(name, epoch, asker.caller(), call, None).await? {
                Acquired::Served { answer, .. } => Ok(json(&answer)),
                Acquired::Granted(_) => Err(Error::corrupt(
                    "the authority granted a capability that the client did not ask for",
                )),
            }
        };
        let there = |to| async { self.pass_on(name, to, &forwarded).await };
        self.0.answer_or_forward(name, epoch, here, there).await
    }

    /// Answers or forwards a call whose client also asks for a capability. A client whose call is
    /// forwarded gets no capability, because it would have to return its changes through the
    /// forwarding node.
    async fn acquire_or_forward(
        &self,
        name: &ResourceName,
        epoch: u64,
        asker: Asker<'_>,
        acquire: Acquire,
    ) -> Result<Bytes> {
        let forwarded = self.forwarded(asker, acquire.call.clone());
        let wanted = Wanted::of(&acquire);
        let here = async {
            if let Some(returned) = acquire.returned {
                // If this fails, the authority no longer knows the grant: it has ended.
                let _ended = self.take_back(name, epoch, returned);
            }
            let call = self.call(name, epoch, asker.caller(), acquire.call, Some(wanted));
            call.await.map(|acquired| json(&acquired))
        };
        let there = |to| async {
            let answer = parsed(&self.pass_on(name, to, &forwarded).await?)?;
            let again_ms = ALONE.as_millis() as u64;
            Ok(json(&Acquired::Served { answer, again_ms }))
        };
        self.0.answer_or_forward(name, epoch, here, there).await
    }

    fn forwarded(&self, asker: Asker<'_>, call: Call) -> Forwarded {
        let (entity, tenant) = (asker.entity.to_string(), asker.tenant.to_string());
        Forwarded { entity, tenant, call }
    }

    async fn pass_on(
        &self,
        name: &ResourceName,
        Forward { node, epoch }: Forward,
        forwarded: &Forwarded,
    ) -> Result<Bytes> {
        let question = Asked::Forwarded(forwarded);
        let (input, method) = (question.encode(name, epoch), question.method());
        let transport = &self.env().transport;
        transport.ask(&node, RESOURCE_SERVICE, method, input, FORWARD_PATIENCE).await
    }

    /// How many calls were forwarded to nodes that took resources over in proxy mode.
    pub fn forwards(&self) -> u64 {
        self.0.forwards()
    }

    /// Hands a resource over to another node.
    ///
    /// # Errors
    /// As [`Host::hand_over`].
    pub async fn hand_over(
        &self,
        name: &ResourceName,
        to: NodeName,
        routing: ClientRouting,
    ) -> Result<u64> {
        let _recalled = self.recall(name).await?;
        let transport = Arc::clone(&self.env().transport);
        self.0.hand_over(name, to, transport, RESOURCE_SERVICE, routing).await
    }

    fn store_for_holder(
        &self,
        slot: &ResourceSlot,
        epoch: u64,
        told: Returned,
    ) -> Result<Attempt<()>> {
        let mut machine = slot.machine();
        let machine = match ready(&mut machine, epoch, self.now()) {
            Ok(machine) => machine,
            Err(not_yet) => return Ok(not_yet.into()),
        };
        let authority = machine.serving().authority().epoch;
        let number = machine.store_for_holder(told)?;
        Ok(Attempt::Ready { answer: (), number, authority })
    }

    /// Repeats `attempt` until it has an answer. Then waits until everything that the answer
    /// depends on is stored.
    async fn answer<T: serde::Serialize>(
        &self,
        name: &ResourceName,
        attempt: impl Fn(&ResourceSlot) -> Result<Attempt<T>>,
    ) -> Result<Bytes> {
        let slot = self.0.slot(name)?;
        let (mut looks, busy_at) = (Looks::default(), Instant::now() + BUSY_AFTER);
        loop {
            let mut changed = pin!(slot.changed());
            changed.as_mut().enable();
            match attempt(&slot)? {
                Attempt::Ready { answer, number, authority } => {
                    self.until_confirmed(&slot, number, authority).await?;
                    return Ok(json(&answer));
                }
                Attempt::NotReady(why) => self.get_ready(name, why, &mut looks).await?,
                Attempt::Later(later) => {
                    self.until(later, busy_at, changed).await?;
                }
            }
        }
    }

    /// Makes the resource ready for a request that it could not answer.
    pub(crate) async fn get_ready(
        &self,
        name: &ResourceName,
        why: NotReady,
        looks: &mut Looks,
    ) -> Result<()> {
        self.0.get_ready(name, why, looks).await
    }

    /// Waits until the resource's slot changes, or until the time that `later` names.
    ///
    /// # Errors
    /// `Unavailable` and [busy](nacre_host::is_busy) once it is later than `busy_at`.
    pub(crate) async fn until(
        &self,
        later: Later,
        busy_at: Instant,
        changed: impl Future<Output = ()>,
    ) -> Result<()> {
        let (until, text) = match later {
            Later::HandedOver => (busy_at, "the resource is being handed over"),
            Later::Quiet(until) => {
                (self.instant(until).min(busy_at), "leases of the former authority are not over")
            }
            Later::NotLive(error) => {
                if Instant::now() >= busy_at {
                    return Err(error);
                }
                sleep(LOOK_AGAIN).await;
                return Ok(());
            }
        };
        let is_over = timeout_at(until, changed).await.is_err();
        if is_over && Instant::now() >= busy_at { Err(busy(text)) } else { Ok(()) }
    }

    fn stat(&self, slot: &ResourceSlot, epoch: u64) -> Result<Attempt<ResourceStat>> {
        let mut machine = slot.machine();
        let machine = match ready(&mut machine, epoch, self.now()) {
            Ok(machine) => machine,
            Err(not_yet) => return Ok(not_yet.into()),
        };
        let authority = machine.serving().authority().clone();
        let file_type = match machine.file_type(self.env()) {
            Ok(file_type) => file_type,
            Err(error) => return Ok(Attempt::Later(Later::NotLive(error))),
        };
        let methods = file_type.methods().iter();
        let current = machine.current.as_ref();
        let version = current.map_or(0, |current| current.version);
        let holder = |granted: &Granted| {
            (granted.asker().entity.to_string(), granted.mode() == Mode::Exclusive)
        };
        let locking = file_type.locking();
        let survival = match file_type.survival() {
            Survival::Journaled => "journaled",
            Survival::Recovered => "recovered",
        };
        let answer = ResourceStat {
            node: authority.node.to_string(),
            epoch: authority.epoch,
            file_type: machine.serving_type().to_owned(),
            type_version: file_type.version(),
            survival: survival.to_owned(),
            capability: locking.map(|locking| locking.mode.as_str().to_owned()),
            capability_program: locking
                .and_then(|locking| locking.program.as_ref())
                .map(ToString::to_string),
            version,
            state_bytes: current.map_or(0, |current| current.state.to_string().len()),
            methods: methods
                .map(|(name, access)| (name.clone(), *access == Access::Write))
                .collect(),
            holders: machine.lending.authority().grants().iter().map(holder).collect(),
        };
        let number = machine.next_answer();
        Ok(Attempt::Ready { answer, number, authority: authority.epoch })
    }
}

impl<T> From<NotYet> for Attempt<T> {
    fn from(not_yet: NotYet) -> Self {
        match not_yet {
            NotYet::NotReady(why) => Self::NotReady(why),
            NotYet::Later(later) => Self::Later(later),
        }
    }
}
