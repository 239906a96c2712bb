//! Passes a request to the pure switch, and does the work that follows until there is a reply.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures::future::FutureExt;
use nacre_object::{
    Error, LayerName, ObjectId, Op, Reply, Request, Result, Stack, Store, TargetName,
};
use nacre_route::{Event, IoId, Outcome, Span};
use tokio::sync::oneshot;

use super::NodeSwitch;
use super::live_io::Live;
use super::work::Work;
use crate::completed::Completed;

/// Where a request comes from.
#[derive(Debug, Clone, Default)]
pub(super) struct Origin {
    /// The waypoint that it has passed last; `None` for a request of a client.
    pub via: Option<LayerName>,
    /// How many waypoints it has passed.
    pub passed: usize,
}

/// What becomes of an object's copies when an IO changes the object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum CopiesAfter {
    /// Nobody tells them the change, so they become useless.
    #[default]
    Useless,
    /// The caller sends them the same change if the IO goes undivided to the home.
    Updated,
}

/// What the switch does with an IO that has arrived.
enum Begun {
    /// The IO goes undivided to its own object, through these layers.
    AtHome(Stack, Arc<Request>),
    /// The work that begins now, and the receiver of the reply.
    Routed(Vec<Work>, oneshot::Receiver<Result<Reply>>),
}

/// A request on its way to the pure switch.
struct Submitted {
    next: Stack,
    request: Arc<Request>,
    home: Option<TargetName>,
    /// The bytes to bring home first, if the request goes home regardless of the rules.
    homeward: Option<Span>,
    origin: Origin,
    copies: CopiesAfter,
}

impl NodeSwitch {
    /// Runs a request of a client. With `homeward`, the switch brings these bytes home, and the
    /// request goes there regardless of the rules about where bytes go.
    pub(super) async fn run(
        self: &Arc<Self>,
        next: Stack,
        request: Request,
        homeward: Option<Span>,
    ) -> Result<Reply> {
        self.run_from(Origin::default(), next, request, homeward).await
    }

    /// Runs a request of a client as [`run`](Self::run) does.
    pub(super) async fn run_with(
        self: &Arc<Self>,
        next: Stack,
        request: Request,
        homeward: Option<Span>,
        copies: CopiesAfter,
    ) -> Result<Reply> {
        let home = self.home_of(&request.header.object).await?;
        let (request, origin) = (Arc::new(request), Origin::default());
        self.run_submitted(Submitted { next, request, home, homeward, origin, copies }).await
    }

    /// Runs a request of a client, or one that a waypoint has returned.
    pub(super) async fn run_from(
        self: &Arc<Self>,
        origin: Origin,
        next: Stack,
        request: Request,
        homeward: Option<Span>,
    ) -> Result<Reply> {
        let home = self.home_of(&request.header.object).await?;
        let (request, copies) = (Arc::new(request), CopiesAfter::Useless);
        self.run_submitted(Submitted { next, request, home, homeward, origin, copies }).await
    }

    async fn run_submitted(self: &Arc<Self>, submitted: Submitted) -> Result<Reply> {
        let io = IoId(self.number());
        match self.begin(io, submitted) {
            Begun::AtHome(next, request) => {
                Completed::of(Arc::clone(self).run_at_home(io, next, request)).await
            }
            Begun::Routed(works, replied) => {
                self.work_through(io, works).await;
                replied.await.unwrap_or_else(|_| {
                    Err(Error::unavailable("the node is stopping").hint("try again"))
                })
            }
        }
    }

    /// Passes an IO to the pure switch.
    fn begin(&self, io: IoId, submitted: Submitted) -> Begun {
        let Submitted { next, request, home, homeward, origin, copies } = submitted;
        let (own, via) = (Arc::clone(&request), origin.via);
        let event = match homeward {
            Some(span) => Event::ArrivedHomeward { io, request: own, span, via, home },
            None => Event::Arrived { io, request: own, via, home, term: None },
        };
        let mut core = self.core();
        let object = &request.header.object;
        let moves = || core.switch.table().made_over(object, Span::WHOLE).is_some();
        let is_change = request.ops.iter().any(Op::is_write) || (homeward.is_some() && moves());
        if is_change {
            core.note_change(object);
        }
        let commands = core.switch.handle(self.now(), event);
        let only_goes_home = core.only_goes_home(object, &commands);
        if is_change && !(only_goes_home && copies == CopiesAfter::Updated) {
            // The IO may have begun before the rule that allows copies.
            core.copies.leave_read_set(object);
        }
        if homeward.is_none() && only_goes_home {
            core.count_decisions(&commands);
            return Begun::AtHome(next, request);
        }
        let (reply, replied) = oneshot::channel();
        let passed = origin.passed;
        core.live.insert(io, Live { request, next, reply, pieces: vec![], routed_end: 0, passed });
        Begun::Routed(core.obey(commands), replied)
    }

    /// Runs an IO that goes undivided to its own object. This is the usual case, so only the pure
    /// switch keeps state about such an IO.
    async fn run_at_home(
        self: Arc<Self>,
        io: IoId,
        next: Stack,
        request: Arc<Request>,
    ) -> Result<Reply> {
        let reply = next.submit(Request::clone(&request)).await;
        let outcome = if reply.is_ok() { Outcome::Done } else { Outcome::Failed };
        self.handle(Event::PieceDone { io, piece: 0, outcome });
        reply
    }

    /// The target that holds an object, if rules may depend on it.
    async fn home_of(&self, object: &ObjectId) -> Result<Option<TargetName>> {
        match self.locations().rados() {
            Some(locations) if self.has_homes.load(Ordering::Relaxed) => {
                locations.primary(object).boxed().await.map(Some)
            }
            _ => Ok(None),
        }
    }
}
