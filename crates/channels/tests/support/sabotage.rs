//! The store between a process and its objects in random runs. It delays every request, and may
//! contain a planted bug: it gives couriers false replies, or changes what they ask for. So the
//! code under test needs no switch for bugs.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use nacre_clock::Random;
use nacre_object::{
    CallReply, Capabilities, ListPage, ListRequest, MapEntry, MapRange, ObjectId, Op, OpResult,
    Reply, Request, Result, Store,
};
use tokio::task::AbortHandle;

use super::calls;

/// How long a request may take, one way.
const MOST_LATENCY_MILLIS: u64 = 40;
/// One in this many deliveries is delayed for up to this long, so that another overtakes it.
const STANDS_STILL_ODDS: u64 = 6;
const MOST_STANDSTILL_MILLIS: u64 = 1500;
/// After which a delivery is carried out that was answered before.
const MUCH_LATER: Duration = Duration::from_millis(300);
const INBOX: &[u8] = b"@inbox";

/// Known bugs of delivery, one at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sabotage {
    /// A call is carried out without a note that its message was received.
    NotNoted,
    /// A delivery is answered before the receiver's transaction.
    AnsweredBefore,
    /// Nothing durable says that an object may send.
    NotMarked,
    /// Messages are delivered in another order than they were sent in.
    OutOfOrder,
    /// What is given up is thrown away.
    DeadLettersDropped,
    /// A dead letter that is sent again is thrown away.
    ResentDropped,
    /// A receiver forgets senders whose messages still wait.
    ForgottenEarly,
    /// A receiver that forgot senders takes what was looked at before that.
    GenerationKept,
}

impl Sabotage {
    pub const ALL: [Self; 8] = [
        Self::NotNoted,
        Self::AnsweredBefore,
        Self::NotMarked,
        Self::OutOfOrder,
        Self::DeadLettersDropped,
        Self::ResentDropped,
        Self::ForgottenEarly,
        Self::GenerationKept,
    ];
}

/// The way from a process to its objects. What is under way ends with it.
pub struct Way {
    objects: Arc<dyn Store>,
    random: Mutex<Random>,
    sabotage: Option<Sabotage>,
    late: Mutex<Vec<AbortHandle>>,
}

impl fmt::Debug for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Way").field("sabotage", &self.sabotage).finish_non_exhaustive()
    }
}

impl Drop for Way {
    fn drop(&mut self) {
        self.late.get_mut().unwrap().iter().for_each(AbortHandle::abort);
    }
}

fn is_mark(request: &Request) -> bool {
    request.header.object.to_string().starts_with("nacre.system/channels/")
        && request.ops.iter().any(|op| matches!(op, Op::MapSet { .. }))
}

/// Whether a request reads the first waiting message, to see whether the messages before it are
/// settled.
fn asks_what_waits(request: &Request) -> bool {
    matches!(&request.ops[..], [_, Op::MapRange { limit: 1, .. }])
}

/// The entries of a range, to be changed.
fn entries(reply: &mut Reply) -> Option<&mut Vec<MapEntry>> {
    reply.results.iter_mut().find_map(|result| match result {
        OpResult::Range(MapRange { entries, .. }) => Some(entries),
        _ => None,
    })
}

fn called(count: usize) -> Reply {
    let results = (0..count).map(|_| OpResult::Called(CallReply::default())).collect();
    Reply { version: 1, results }
}

impl Way {
    pub fn new(objects: Arc<dyn Store>, seed: u64, sabotage: Option<Sabotage>) -> Self {
        let (random, late) = (Mutex::new(Random::seeded(seed)), Mutex::default());
        Self { objects, random, sabotage, late }
    }

    async fn latency(&self, is_delivery: bool) {
        let millis = {
            let mut random = self.random.lock().unwrap();
            let stands_still = is_delivery && random.one_in(STANDS_STILL_ODDS);
            random.below(if stands_still { MOST_STANDSTILL_MILLIS } else { MOST_LATENCY_MILLIS })
        };
        tokio::time::sleep(Duration::from_millis(millis)).await;
    }

    async fn carry_out(&self, mut request: Request) -> Result<Reply> {
        match self.sabotage {
            Some(Sabotage::NotNoted) if calls(&request, "accept") => {
                request.ops.pop();
                let mut reply = self.objects.submit(request).await?;
                reply.results.push(OpResult::Called(CallReply::default()));
                Ok(reply)
            }
            Some(Sabotage::AnsweredBefore) if calls(&request, "accept") => {
                let count = request.ops.len();
                let objects = Arc::clone(&self.objects);
                let late = tokio::spawn(async move {
                    tokio::time::sleep(MUCH_LATER).await;
                    objects.submit(request).await.ok()
                });
                self.late.lock().unwrap().push(late.abort_handle());
                Ok(called(count))
            }
            Some(Sabotage::NotMarked) if is_mark(&request) => {
                Ok(Reply { version: 1, results: vec![OpResult::Done] })
            }
            Some(Sabotage::DeadLettersDropped) if calls(&request, "settle") => {
                let object = request.header.object.clone();
                let reply = self.objects.submit(request).await?;
                self.remove_all(&object, b"!").await?;
                Ok(reply)
            }
            Some(Sabotage::ResentDropped) if calls(&request, "resend") => {
                let object = request.header.object.clone();
                let reply = self.objects.submit(request).await?;
                self.remove_all(&object, b"^").await?;
                Ok(reply)
            }
            Some(Sabotage::GenerationKept) if calls(&request, "forget") => {
                self.forget_unsaid(request).await
            }
            sabotage => {
                let turns = sabotage == Some(Sabotage::OutOfOrder);
                let hides = sabotage == Some(Sabotage::ForgottenEarly) && asks_what_waits(&request);
                let mut reply = self.objects.submit(request).await?;
                match entries(&mut reply) {
                    Some(entries) if turns => entries.reverse(),
                    Some(entries) if hides => entries.clear(),
                    _ => {}
                }
                Ok(reply)
            }
        }
    }

    async fn remove_all(&self, object: &ObjectId, prefix: &'static [u8]) -> Result<()> {
        let range = Op::MapRange { after: Bytes::new(), prefix: prefix.into(), limit: 1024 };
        let mut reply = self.objects.submit(Request::new(object.clone(), vec![range])?).await?;
        let all = entries(&mut reply).unwrap();
        let keys: Vec<_> = all.drain(..).map(|entry| entry.key).collect();
        if !keys.is_empty() {
            let remove = Op::MapRemove { keys };
            self.objects.submit(Request::new(object.clone(), vec![remove])?).await?;
        }
        Ok(())
    }

    /// Has a receiver forget, and puts back what says that it did.
    async fn forget_unsaid(&self, request: Request) -> Result<Reply> {
        let object = request.header.object.clone();
        let get = Op::MapGet { keys: vec![INBOX.into()] };
        let before = self.objects.submit(Request::new(object.clone(), vec![get])?).await?;
        let reply = self.objects.submit(request).await?;
        if let [OpResult::Values(values)] = &before.results[..]
            && let Some(value) = values[0].clone()
        {
            let entries = vec![MapEntry { key: INBOX.into(), value }];
            let set = Op::MapSet { entries };
            self.objects.submit(Request::new(object, vec![set])?).await?;
        }
        Ok(reply)
    }
}

#[async_trait]
impl Store for Way {
    async fn submit(&self, request: Request) -> Result<Reply> {
        self.latency(calls(&request, "accept")).await;
        let outcome = self.carry_out(request).await;
        self.latency(false).await;
        outcome
    }

    async fn list(&self, request: ListRequest) -> Result<ListPage> {
        self.objects.list(request).await
    }

    fn capabilities(&self) -> Capabilities {
        self.objects.capabilities()
    }
}
