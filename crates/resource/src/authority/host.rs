//! `ResourceHost`: what a node runs to serve resources.
//!
//! A call runs on the state in memory. Before the client gets its answer, the answer is *confirmed*: this node was still
//! the authority when it found the answer, and the changes that the answer depends on are stored. A recovered type need
//! not store a change for which it did not ask. One commit confirms all answers that were found before it. If nothing is to
//! be stored, one read of the map's epoch does. While one is under way, the next answers gather.
//!
//! **Invariant:** a call that is asked again is answered as before (see [`Stored`]).
//! **Invariant:** a commit that fails ends this authority. The state is read anew, so no answer depends on a lost change,
//! unless the file type is recovered.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use nacre_clock::Clock;
use nacre_host::{
    BUSY_AFTER, ClientRouting, FORWARD_PATIENCE, Forward, Host, HostTransport, Hosting, Looks,
    Machine, MapRecord, NotReady, Question, Record, RecordStore, Slot, busy, deposed, encode_epoch,
    is_transient, split_header,
};
use nacre_object::{EntityName, Error, NodeName, Result, TenantName};
use nacre_registry::{Change, Maps};
use tokio::time::{Instant, timeout_at};

use crate::filetype::{Access, FileType, LiveFileTypes, MethodCall, Outcome};
use crate::limits::{MAX_HOSTED, READ_AGAIN};
use crate::machine::{Found, ResourceMachine};
use crate::question::{
    Answer, Asked, Call, Forwarded, RESOURCE_SERVICE, Received, ResourceStat, json,
};
use crate::recovery::{MapRead, ResourceRecovery};
use crate::stored::{STATE_KEY, Stored};
use crate::{ResourceName, ResourceRecord};

/// What the resources of a node need.
#[derive(Debug, Clone)]
pub struct ResourceEnv {
    /// Where records and states are.
    pub maps: Maps,
    /// The records in them.
    pub records: Arc<dyn RecordStore<ResourceRecord>>,
    /// The way to other nodes, to hand resources over.
    pub transport: Arc<dyn HostTransport>,
    /// The file types that are live here.
    pub file_types: LiveFileTypes,
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
    /// Who asks if this one passes a call on.
    ///
    /// # Errors
    /// `Denied` if it is no node: it could call as anybody.
    fn forwarding_for(self, entity: &'a EntityName, tenant: &'a TenantName) -> Result<Self> {
        match self.entity.is_node() || *self.entity == EntityName::local() {
            true => Ok(Self { entity, tenant }),
            false => Err(Error::denied("only nodes pass calls of others on")),
        }
    }
}

/// How much one resource was used on this node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceUse {
    /// The resource.
    pub name: ResourceName,
    /// Its file type.
    pub file_type: String,
    /// Calls of methods that read, since the node started.
    pub reads: u64,
    /// Calls of methods that write, since the node started.
    pub writes: u64,
}

/// Serves the resources of a node. A clone is another handle on the same.
#[derive(Debug, Clone)]
pub struct ResourceHost(Host<Resources>);

/// Resources as a kind of hosted machine.
#[derive(Debug)]
struct Resources(ResourceEnv);

type ResourceSlot = Slot<Resources>;

/// What a node keeps beside each resource.
#[derive(Debug, Default)]
struct Beside {
    /// Whether answers are being confirmed.
    is_confirming: AtomicBool,
    reads: AtomicU64,
    writes: AtomicU64,
}

#[async_trait]
impl Hosting for Resources {
    type Record = ResourceRecord;
    type Recovery = ResourceRecovery;
    type Machine = ResourceMachine;
    type Beside = Beside;
    const MAX_HOSTED: usize = MAX_HOSTED;

    fn records(&self) -> &dyn RecordStore<ResourceRecord> {
        &*self.0.records
    }

    async fn carry_out(&self, claimed: ResourceRecord) -> Result<MapRead> {
        let map = match self.0.maps.get(claimed.name().map()).await {
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
        ResourceMachine::new(record, found)
    }

    async fn before_hand_over(host: &Host<Self>, slot: &Arc<ResourceSlot>) {
        let (number, authority) = {
            let mut machine = slot.machine();
            let Some(machine) = machine.as_mut() else { return };
            machine.store_all();
            (machine.next_answer(), machine.serving().authority().epoch)
        };
        // If this fails, the successor recovers the state that was stored last.
        let _ = ResourceHost(host.clone()).until_confirmed(slot, number, authority).await;
    }

    fn gave_up(&self, name: &ResourceName, _: Option<&ResourceRecovery>) -> Error {
        Error::unavailable("the state of the resource was not read in time").on(name)
    }
}

/// What an attempt to answer came to.
enum Attempt<T> {
    /// The answer, which may be given once its number is confirmed by this authority.
    Ready {
        answer: T,
        number: u64,
        authority: u64,
    },
    NotReady(NotReady),
    /// The resource is being handed over.
    Held,
}

impl ResourceHost {
    /// The host of a node.
    pub fn new(node: NodeName, env: ResourceEnv) -> Self {
        Self(Host::new(node, Resources(env)))
    }

    /// Answers a question that [`HostTransport::ask`] brings.
    ///
    /// # Errors
    /// `Stale` if the asker must read the record; `NotFound` if there is no such resource; `Unavailable` if it cannot be
    /// served now, and then a call may have happened; what the method says.
    pub async fn handle(&self, asker: Asker<'_>, method: &str, input: &[u8]) -> Result<Bytes> {
        let (name, epoch, rest) =
            split_header(input).ok_or_else(|| Error::invalid("the question names no resource"))?;
        let (name, question) = (ResourceName::new(name)?, Received::decode(method, rest)?);
        let answer = match question {
            Received::Call(call) => self.answer_or_forward(&name, epoch, asker, call).await,
            Received::Forwarded(Forwarded { entity, tenant, call }) => {
                let (entity, tenant) = (EntityName::new(entity)?, TenantName::new(tenant)?);
                let by = asker.forwarding_for(&entity, &tenant)?;
                self.answer_or_forward(&name, epoch, by, call).await
            }
            Received::Stat => self.answer(&name, |slot| self.stat(slot, epoch)).await,
            Received::HandOver(to) => {
                self.hand_over(&name, to, ClientRouting::Redirect).await.map(encode_epoch)
            }
            Received::Recover => self.0.recover(&name, epoch).await.map(encode_epoch),
        };
        answer.map_err(|error| error.on(&name))
    }

    /// Runs a call, or passes it on if this node handed the resource over in proxy mode.
    async fn answer_or_forward(
        &self,
        name: &ResourceName,
        epoch: u64,
        asker: Asker<'_>,
        call: Call,
    ) -> Result<Bytes> {
        let forwarded = Asked::Forwarded(&Forwarded {
            entity: asker.entity.to_string(),
            tenant: asker.tenant.to_string(),
            call: call.clone(),
        });
        let there = |Forward { node, epoch }| {
            let (input, method) = (forwarded.encode(name, epoch), forwarded.method());
            let transport = &self.env().transport;
            async move { transport.ask(&node, RESOURCE_SERVICE, method, input, FORWARD_PATIENCE).await }
        };
        let here = self.answer(name, |slot| self.call(slot, epoch, asker, &call));
        self.0.answer_or_forward(name, epoch, here, there).await
    }

    /// Calls passed on to the nodes that took resources over in proxy mode.
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
        let transport = Arc::clone(&self.env().transport);
        self.0.hand_over(name, to, transport, RESOURCE_SERVICE, routing).await
    }

    /// How much each resource was used that this node serves now.
    pub fn uses(&self) -> Vec<ResourceUse> {
        let used = |name: ResourceName| {
            let slot = self.0.known_slot(name.as_str())?;
            let file_type = slot.machine().as_ref()?.serving().record().file_type().to_string();
            let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
            let (reads, writes) = (count(&slot.beside.reads), count(&slot.beside.writes));
            Some(ResourceUse { name, file_type, reads, writes })
        };
        self.0.serving().into_iter().filter_map(used).collect()
    }

    fn env(&self) -> &ResourceEnv {
        &self.0.kind().0
    }

    /// Attempts an answer until there is one, and waits until all it depends on is stored.
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
                Attempt::NotReady(why) => self.0.get_ready(name, why, &mut looks).await?,
                Attempt::Held => {
                    if timeout_at(busy_at, changed).await.is_err() {
                        return Err(busy("the resource is being handed over"));
                    }
                }
            }
        }
    }

    fn call(
        &self,
        slot: &ResourceSlot,
        epoch: u64,
        asker: Asker<'_>,
        call: &Call,
    ) -> Result<Attempt<Answer>> {
        let mut machine = slot.machine();
        let machine = match ready(&mut machine, epoch) {
            Ok(machine) => machine,
            Err(attempt) => return Ok(attempt),
        };
        let authority = machine.serving().authority().epoch;
        let file_type = self.file_type_of(machine)?;
        let current = machine.state_for(&file_type, &self.env().clock)?;
        let client = format!("{}/{}", asker.entity, call.handle);
        if let Some(told) = current.told(&client, call.number)? {
            let answer = Answer { output: told.output.clone(), version: told.version };
            return Ok(Attempt::Ready { answer, number: machine.next_answer(), authority });
        }
        let method = MethodCall {
            method: &call.method,
            input: &call.input,
            client: asker.entity.as_str(),
            tenant: asker.tenant.as_str(),
            now_micros: self.env().clock.now_micros(),
        };
        let Outcome { state, output, must_store } =
            file_type.call(&method, &current.state, &self.env().clock)?;
        let mut answer = Answer { output, version: current.version };
        let count = match state {
            Some(state) => {
                let (version, output) = (file_type.version(), answer.output.clone());
                current.change(state, version, &client, call.number, output);
                answer.version = current.version;
                machine.note_change(file_type.survival(), must_store);
                &slot.beside.writes
            }
            None => &slot.beside.reads,
        };
        count.fetch_add(1, Ordering::Relaxed);
        Ok(Attempt::Ready { answer, number: machine.next_answer(), authority })
    }

    fn file_type_of(&self, machine: &ResourceMachine) -> Result<Arc<FileType>> {
        let name = machine.serving().record().file_type().as_str();
        self.env().file_types.required(name)
    }

    fn stat(&self, slot: &ResourceSlot, epoch: u64) -> Result<Attempt<ResourceStat>> {
        let mut machine = slot.machine();
        let machine = match ready(&mut machine, epoch) {
            Ok(machine) => machine,
            Err(attempt) => return Ok(attempt),
        };
        let authority = machine.serving().authority().clone();
        let file_type = self.file_type_of(machine)?;
        let methods = file_type.methods().iter();
        let current = machine.current.as_ref();
        let version = current.map_or(0, |current| current.version);
        let answer = ResourceStat {
            node: authority.node.to_string(),
            epoch: authority.epoch,
            file_type: machine.serving().record().file_type().to_string(),
            type_version: file_type.version(),
            version,
            state_bytes: current.map_or(0, |current| current.state.to_string().len()),
            methods: methods
                .map(|(name, access)| (name.clone(), *access == Access::Write))
                .collect(),
        };
        let number = machine.next_answer();
        Ok(Attempt::Ready { answer, number, authority: authority.epoch })
    }

    /// Waits until an answer is confirmed by the authority that found it.
    async fn until_confirmed(
        &self,
        slot: &Arc<ResourceSlot>,
        number: u64,
        authority: u64,
    ) -> Result<()> {
        let busy_at = Instant::now() + BUSY_AFTER;
        loop {
            let mut changed = pin!(slot.changed());
            changed.as_mut().enable();
            {
                let machine = slot.machine();
                match machine.as_ref() {
                    Some(machine) if machine.serving().authority().epoch == authority => {
                        if machine.confirmed >= number {
                            return Ok(());
                        }
                    }
                    _ => return Err(busy("the resource is changing hands")),
                }
            }
            self.confirm_later(slot);
            if timeout_at(busy_at, changed).await.is_err() {
                return Err(busy("the store has not confirmed the answer yet"));
            }
        }
    }

    /// Sees to it that answers are confirmed. One task of a resource does it at a time.
    fn confirm_later(&self, slot: &Arc<ResourceSlot>) {
        if slot.beside.is_confirming.swap(true, Ordering::AcqRel) {
            return;
        }
        let (host, slot) = (self.clone(), Arc::clone(slot));
        tokio::spawn(async move {
            while host.confirm(&slot).await {}
            slot.beside.is_confirming.store(false, Ordering::Release);
            // Whoever came meanwhile starts the next task.
            slot.tell_change();
        });
    }

    /// Confirms the answers that were found by now; whether there were any. If the state was changed it is stored: the
    /// commit is refused if another node is the authority. If not, the epoch of the map tells.
    async fn confirm(&self, slot: &ResourceSlot) -> bool {
        let (name, authority, answers, map_epoch, change) = {
            let machine = slot.machine();
            let unconfirmed = |machine: &&ResourceMachine| machine.confirmed < machine.answers;
            let Some(machine) = machine.as_ref().filter(unconfirmed) else { return false };
            let serving = machine.serving();
            let (name, epoch) = (serving.record().name().clone(), serving.authority().epoch);
            let current = machine.current.as_ref().filter(|_| machine.is_ahead());
            let change = current.map(|current| (current.version, current.encode()));
            (name, epoch, machine.answers, machine.map_epoch, change)
        };
        let (version, encoded) = change.unzip();
        let confirmed = self.confirm_in_store(&name, map_epoch, encoded).await;
        let mut machine = slot.machine();
        let is_same =
            |machine: &&mut ResourceMachine| machine.serving().authority().epoch == authority;
        match (machine.as_mut().filter(is_same), confirmed) {
            (Some(machine), Ok(map_epoch)) => {
                (machine.map_epoch, machine.confirmed) = (map_epoch, answers);
                machine.stored_version = version.unwrap_or(machine.stored_version);
            }
            // Replaced, or nobody knows what is stored: it is read anew.
            (Some(_), Err(_)) => *machine = None,
            (None, _) => {}
        }
        drop(machine);
        slot.tell_change();
        true
    }

    /// Stores a state, or finds that nothing was stored since an epoch; returns the epoch of the map.
    async fn confirm_in_store(
        &self,
        name: &ResourceName,
        map_epoch: u64,
        encoded: Option<Bytes>,
    ) -> Result<u64> {
        let maps = &self.env().maps;
        match encoded {
            Some(encoded) => {
                maps.commit(name.map(), map_epoch, vec![Change::set(STATE_KEY, encoded)]).await
            }
            None => match maps.epoch(name.map()).await? {
                epoch if epoch == map_epoch => Ok(epoch),
                _ => Err(deposed::<ResourceRecord>()),
            },
        }
    }
}

/// The machine, if it may answer a client whose record has this epoch.
fn ready<T>(
    machine: &mut Option<ResourceMachine>,
    epoch: u64,
) -> Result<&mut ResourceMachine, Attempt<T>> {
    let machine = machine.as_mut().ok_or(Attempt::NotReady(NotReady::NotServing))?;
    if machine.is_held() {
        return Err(Attempt::Held);
    }
    let checked = machine.serving().check(epoch);
    checked.map_err(|refusal| Attempt::NotReady(NotReady::Epoch(refusal)))?;
    Ok(machine)
}
